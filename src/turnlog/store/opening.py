"""The beginning of a log: its header, and what stands where a header should be.

What cannot be a log at all raises; everything else that is odd comes as findings, for strict reading to refuse and
forensic reading to list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from turnlog.events.lenient import parse
from turnlog.log import SessionHeader

from .errors import LogCorrupt, LogUnsupported
from .finding import Finding, Place, Severity
from .foreign.dialect import detect
from .formats import FORMATS, SAMPLE, Format
from .header import HeaderRefused, read_header
from .names import decode_session, encode_project, parse_file
from .source import Block, Source

_BOM: Final = b"\xef\xbb\xbf"


@dataclass
class Opening:
    """How a log begins."""

    format: Format
    header: SessionHeader
    rest: Block
    """The first block without the header line."""
    seeded: bool = False
    """Whether the header says that the log begins with an inherited prefix."""
    findings: list[Finding] = field(default_factory=list)


def open_log(source: Source, block: Block | None) -> Opening:
    """Read the header from the first block. Raises :class:`LogRefused` where there is no usable one."""
    if block is None:
        raise _no_header(source, "the file is empty." if not source.size else _unreadable_start(source))
    notes: dict[str, str] = {}
    start = _text_start(source, block, notes)
    text, line = start.text, start.line
    _refuse_other_program(source, block)
    cut = _header_end(start, notes)
    try:
        value = parse(text[:cut])
    except ValueError:
        raise _no_header(source, "the first line is not JSON, so there is no header.") from None
    if isinstance(value, dict) and value.get("type") != "session" and "seq" in value and "data" in value:
        return _without_header(source, start, notes)
    try:
        header, odd = read_header(value)
    except HeaderRefused as error:
        raise _refused(source, error, line) from None
    rest = start.after(cut)
    place = Place(path=source.name, line=line)
    findings = [
        *_notes(source, notes),
        *(_fault("header", f"{text}; dsh refuses such a header.", place) for text in odd),
        *_identity(source, header),
    ]
    return Opening(FORMATS[header.version], header, rest, value.get("isSeeded") is True, findings)


def _text_start(source: Source, block: Block, notes: dict[str, str]) -> Block:
    """The block from its first line of text on."""
    if block.text.startswith(_BOM):
        block = block.after(3)
        notes["bom"] = "the file begins with a byte order mark, which was skipped."
    _refuse_foreign_text(source, block.text)
    while block.text[:1] in (b"\r", b"\n") and b"\n" in block.text:
        block = block.after(block.text.index(b"\n") + 1)
        notes["blank-line"] = "blank lines are skipped."
    return block


def _header_end(block: Block, notes: dict[str, str]) -> int:
    """Where the header line ends."""
    text = block.text
    cut = text.find(b"\n") + 1
    if not cut:
        cut = len(text)
        notes["no-final-newline"] = "the header has no newline, and nothing follows it."
    starts = [start for start, _number, _at in block.frames if 0 < start - block.offset < cut]
    if starts and text[starts[0] - block.offset - 1 : starts[0] - block.offset] == b"}":
        return starts[0] - block.offset  # a header frame without its newline, noted as such by the container
    return cut


def _without_header(source: Source, block: Block, notes: dict[str, str]) -> Opening:
    """The documents' sample; or a compressed log that lost its header, which only forensic readers get into."""
    path = source.path
    if not source.compressed:
        header = SessionHeader(version=SAMPLE.version, id=path.stem if path is not None else "sample", created_at=0)
        return Opening(SAMPLE, header, block, findings=list(_notes(source, notes)))
    named = parse_file(path) if path is not None else None
    format = FORMATS.get(named.version if named is not None else 0, FORMATS[0])
    id = decode_session(path.parent.name) if path is not None and named is not None else "unknown"
    text = f"the first record is an event, so there is no header; the events are read as {format.name}."
    missing = _fault("no-header", text, Place(path=source.name), "refused")
    header = SessionHeader(version=format.version, id=id, created_at=0)
    return Opening(format, header, block, findings=[*_notes(source, notes), missing])


def _notes(source: Source, notes: dict[str, str]) -> Iterator[Finding]:
    for code, text in notes.items():
        yield _fault(code, text, Place(path=source.name, line=1), "note")


def _refused(source: Source, error: HeaderRefused, line: int) -> LogCorrupt | LogUnsupported:
    finding = Finding(
        code="header",
        severity="refused",
        text=str(error),
        place=Place(path=source.name, line=line),
        remedy="Update turnlog." if error.newer else None,
        kind="unsupported" if error.newer else "corrupt",
    )
    return LogUnsupported(finding) if error.newer else LogCorrupt(finding)


def _refuse_foreign_text(source: Source, text: bytes) -> None:
    if text[:2] in (b"\xff\xfe", b"\xfe\xff") or (text[1:4:2] == b"\0\0" and text[:1] == b"{"):
        raise _no_header(source, "the file is UTF-16 text; a log is UTF-8.")
    if not text.strip(b"\0"):
        raise _no_header(source, f"the file holds nothing but {len(text)} NUL bytes, so there is no header.")
    if b"\n" not in text and text.count(b"\r") > 1:
        raise _no_header(source, "lines end in CR alone; a log's lines end in LF.")


def _refuse_other_program(source: Source, block: Block) -> None:
    """Whoever opens a log to write it stops here; readers who take session files of other programs never come."""
    dialect = detect(block.text)
    if dialect is None:
        return
    text = f"this is a session file of another program ({dialect.name}): it is read as a whole and never written to."
    remedy = "turnlog convert makes a format-0 session of it, with a list of what is lost."
    finding = _fault("foreign", text, Place(path=source.name), "refused", remedy=remedy, kind="unsupported")
    raise LogUnsupported(finding)


def _no_header(source: Source, text: str) -> LogCorrupt:
    return LogCorrupt(_fault("no-header", text, Place(path=source.name), "refused"))


def _unreadable_start(source: Source) -> str:
    findings = [one for one in source.findings if one.severity == "refused"]
    return findings[0].text if findings else "its first frame was never finished, so there is no header."


def _identity(source: Source, header: SessionHeader) -> Iterator[Finding]:
    """Name, directory and header must agree (a mismatch of generation refuses the log)."""
    path = source.path
    if path is None:
        return
    place = Place(path=source.name, line=1)
    if path.suffix in (".jsonl", ".zstd") and (path.suffix == ".zstd") != source.compressed:
        bytes_, said = ("zstd", "plain text") if source.compressed else ("plain text", "zstd")
        text = f"the file is named as {said}, but its bytes are {bytes_}; dsh goes by the name and refuses the log."
        yield _fault("file-encoding", text, place, remedy="Rename the file.")
    named = parse_file(path)
    if named is None:
        return
    if named.version != header.version:
        text = f"the file is named as format {named.version}, but its header says format {header.version}."
        yield _fault("file-version", text, place, "refused", remedy="Rename the file if the header is right.")
    project = path.parent.parent.name
    if not (project.startswith("--") and project.endswith("--")) and project != "_no-cwd":
        return
    said = decode_session(path.parent.name)
    if said != header.id:
        text = f"the directory is named for session {said!r}, but the log says it is {header.id!r}; "
        yield _fault("identity", f"{text}neither id may be resumed from here.", place)
    if project != encode_project(header.cwd):
        yield _fault("identity", f"the directory {project!r} is not the one of the log's cwd {header.cwd!r}.", place)


def _fault(code: str, text: str, place: Place, severity: Severity = "fault", **more: Any) -> Finding:
    return Finding(code=code, severity=severity, text=text, place=place, **more)
