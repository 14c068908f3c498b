"""Finding sessions: which there are under a root, and which one somebody means.

One bad session never hides the others: what cannot be read is listed with the reason. Only first lines are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple, TypeAlias

import zstandard

from turnlog.events.lenient import parse
from turnlog.log import SessionHeader

from .attest import ATTEST_NAME
from .errors import SessionAmbiguous, SessionNotFound
from .frames import MAGIC, SKIPPABLE
from .header import HeaderRefused, read_header
from .load import locate
from .names import LogFile, decode_session, encode_project, log_files, places, session_directories

_FIRST_LINE = 1 << 20
"""Bytes a header line may have; real ones have a few hundred."""
_LOG_ENDINGS: Final = (".jsonl", ".jsonl.zstd", ".jsonl.gz")
_LISTED: Final = 10
"""How many matches an error lists."""

Trouble: TypeAlias = Literal["damaged", "unsupported", "unreadable", "misnamed", "misplaced", "duplicate"]
"""What kind of problem a session has.

``damaged``: its header is not what a writer wrote. ``unsupported``: intact, and of a newer format. ``unreadable``: the
file cannot be opened. ``misnamed``: its file's name does not say which generation it is. ``misplaced``: its directories
are not those of its id and working directory. ``duplicate``: another session has the same id.
"""


@dataclass(frozen=True)
class SessionEntry:
    """One session directory."""

    id: str
    """The id its header says, or the one its directory is named for."""
    path: Path
    """The log file of its newest generation."""
    version: int
    header: SessionHeader | None
    problem: str | None
    """Why it cannot be read as it should be, or None."""
    size: int
    """Bytes of the log file."""
    modified_ms: int
    """When the file was last written, epoch ms."""
    trouble: Trouble | None = None
    """Of which kind the problem is."""

    @property
    def created_ms(self) -> int:
        """When the session began, epoch ms; the file's time for a damaged header."""
        return self.modified_ms if self.header is None else self.header.created_at


class Skipped(NamedTuple):
    """Something among the sessions that looks like a log and is in no place or of no name where sessions are read."""

    path: Path
    reason: str
    modified_ms: int
    """When it was last changed, epoch ms."""


def own_root() -> Path:
    """Where Turnlog keeps sessions unless told otherwise; it need not exist yet."""
    return Path(os.environ.get("TURNLOG_HOME") or Path.home() / ".turnlog") / "sessions"


def default_roots() -> list[Path]:
    """Where sessions usually are: Turnlog's own root and dsh's, as far as they exist."""
    own = own_root()
    dsh = Path(os.environ.get("DSH_HOME") or Path.home() / ".dsh") / "sessions"
    return [root for root in (own, dsh) if root.is_dir()]


def list_sessions(roots: Iterable[Path]) -> list[SessionEntry]:
    """Every session under *roots*, newest first, damaged ones included. A missing root holds none."""
    entries = [entry for root in roots for entry in _entries(root)]
    duplicates = _repeated(entry.id for entry in entries if entry.header is not None)
    marked = [_mark_duplicate(entry, entries) if entry.id in duplicates else entry for entry in entries]
    return sorted(marked, key=lambda entry: (-entry.created_ms, entry.id, str(entry.path)))


def entry_at(directory: Path) -> SessionEntry | None:
    """The session in one session directory, without looking at any other; None where no file has the name of one."""
    files = log_files(directory)
    return _entry(directory, files) if files else None


def list_skipped(roots: Iterable[Path]) -> list[Skipped]:
    """What :func:`list_sessions` leaves out although it looks like a log: files beside session directories, and
    directories whose files all have names that no session file has."""
    return [skipped for root in roots for skipped in _skipped(root)]


def placed_sessions(root: Path, session_id: str) -> list[SessionEntry]:
    """The sessions of one id that lie where their id says, without looking at any other."""
    if not session_id:
        return []
    named = [(directory, log_files(directory)) for directory in places(root, session_id)]
    entries = [_entry(directory, files) for directory, files in named if files]
    return [entry for entry in entries if entry.id == session_id]


def find_session(text: str, roots: Sequence[Path]) -> Path:
    """The log file that *text* means: a path, a session id, or the beginning of exactly one id, with or without
    ``session-`` before it.

    Raises :class:`SessionNotFound`, or :class:`SessionAmbiguous`, which lists what matches.
    """
    path = Path(text)
    if _exists(path):
        return locate(path)
    found = [entry for root in roots for entry in placed_sessions(root, text)]
    if not found:  # no session lies where this id says, so all are looked at
        entries = list_sessions(roots)
        exact = [entry for entry in entries if entry.id == text]
        begins = (text, f"session-{text}")
        found = exact or [entry for entry in entries if text and entry.id.startswith(begins)]
    if not found:
        where = ", ".join(map(str, roots)) or "any root directory (there is none)"
        if os.sep in text or text.endswith((".jsonl", ".zstd")):
            raise SessionNotFound(f"{text}: no such file, nor a session with this id; turnlog ls lists those there are")
        raise SessionNotFound(
            f"no session {text!r}: it is neither a file nor the beginning of an id in {where}; "
            "turnlog ls lists the sessions there are"
        )
    if len(found) > 1:
        raise _ambiguous(text, found)
    return found[0].path


def _ambiguous(text: str, found: list[SessionEntry]) -> SessionAmbiguous:
    """What to do in the first line, then a line for each match."""
    same = len({entry.id for entry in found}) == 1
    lines = [
        f"{text!r} matches {len(found)} sessions{' with one id' if same else ''}; "
        f"give {'the path' if same else 'more of the id, or the path'}:"
    ]
    for entry in found[:_LISTED]:
        shown = str(entry.path) if same else f"{entry.id} ({entry.path})"
        lines.append(shown.replace("\n", "\\n"))
    if len(found) > _LISTED:
        lines.append(f"and {len(found) - _LISTED} more")
    return SessionAmbiguous("\n  ".join(lines))


def latest(roots: Sequence[Path]) -> Path:
    """The log file of the newest readable session. Raises :class:`SessionNotFound` when there is none."""
    for entry in list_sessions(roots):
        if entry.header is not None and entry.header.version == entry.version:
            return entry.path
    raise SessionNotFound(f"no readable session under {', '.join(map(str, roots)) or 'any root'}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a name, or behind a directory that may not be looked into
        return False


def _entries(root: Path) -> Iterable[SessionEntry]:
    for directory in session_directories(root):
        files = log_files(directory)
        if files:
            yield _entry(directory, files)


def _skipped(root: Path) -> Iterable[Skipped]:
    """Flat files under the root and its projects, and session directories without a file that can be read."""
    for project in (root, *_sorted_entries(root)):
        for entry in _sorted_entries(project):
            if entry.is_file() and _looks_like_log(entry):
                where = "<project>/<session>/session.jsonl"
                yield Skipped(entry, f"a log in no directory of its own; sessions are in {where}", _modified(entry))
            elif project != root and entry.is_dir() and not log_files(entry):
                others = [file for file in _sorted_entries(entry) if file.is_file() and _looks_like_log(file)]
                if others:
                    names = ", ".join(file.name for file in others[:_LISTED])
                    reason = f"no file in it has a name that session files have (there is {names})"
                    yield Skipped(entry, reason, _modified(others[0]))


def _looks_like_log(path: Path) -> bool:
    return path.name.endswith(_LOG_ENDINGS) and path.name != ATTEST_NAME


def _sorted_entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _entry(directory: Path, files: list[LogFile]) -> SessionEntry:
    newest = files[-1]
    named = decode_session(directory.name)
    try:
        status = newest.path.stat()
        size, modified = status.st_size, status.st_mtime_ns // 1_000_000
        header, problem = _read_first(newest)
    except OSError as error:
        size = modified = 0
        header, problem = None, _Problem("unreadable", f"cannot be opened: {error.strerror or error}")
    if header is not None and problem is None:
        problem = _identity_problem(directory, files, header, named)
    return SessionEntry(
        id=named if header is None else header.id,
        path=newest.path,
        version=newest.version,
        header=header,
        problem=None if problem is None else problem.text,
        size=size,
        modified_ms=modified,
        trouble=None if problem is None else problem.kind,
    )


class _Problem(NamedTuple):
    kind: Trouble
    text: str


def _read_first(file: LogFile) -> tuple[SessionHeader | None, _Problem | None]:
    with file.path.open("rb") as stream:
        try:
            line = first_line(stream)
        except ValueError as error:
            return None, _Problem("damaged", str(error))
    try:
        header, _odd = read_header(parse(line))
    except HeaderRefused as error:
        return None, _Problem("unsupported" if error.newer else "damaged", str(error).rstrip("."))
    except ValueError:
        return None, _Problem("damaged", "the first line is not JSON, so there is no header")
    if header.version != file.version:
        said = f"the file is named as format {file.version}, but its header says format {header.version}"
        return header, _Problem("misnamed", said)
    return header, None


def first_line(stream: BinaryIO) -> bytes:
    """The first line of a log, plain or compressed, without reading on. Raises ``ValueError`` when there is none."""
    stream.seek(0)
    start = stream.read(len(MAGIC))
    if not start:
        raise ValueError("the file is empty")
    stream.seek(0)
    if start == MAGIC or start[1:] == SKIPPABLE:
        return _first_line_of_frames(stream)
    line = stream.readline(_FIRST_LINE).removeprefix(b"\xef\xbb\xbf")
    while line in (b"\n", b"\r\n"):
        line = stream.readline(_FIRST_LINE)
    return line


def _first_line_of_frames(stream: BinaryIO) -> bytes:
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    text = data = b""
    whole = 0
    while len(text) < _FIRST_LINE:
        if decompressor.eof:
            whole, data = len(text), decompressor.unused_data
            decompressor = zstandard.ZstdDecompressor().decompressobj()
        data = data or stream.read(4096)
        if not data:
            break
        try:
            text += decompressor.decompress(data)
        except zstandard.ZstdError:
            raise ValueError("its first frame does not verify") from None
        data = b""
        line, newline, _rest = text.lstrip(b"\r\n").partition(b"\n")
        if newline or (decompressor.eof and _is_object(line)):
            return line
    if not text[:whole]:
        raise ValueError("its first frame was never finished, so there is no header")
    return text


def _is_object(line: bytes) -> bool:
    """Whether a frame that ends without a newline holds the whole header."""
    try:
        return isinstance(parse(line), dict)
    except ValueError:
        return False


def _identity_problem(directory: Path, files: list[LogFile], header: SessionHeader, named: str) -> _Problem | None:
    same = [one.path.name for one in files if one.version == files[-1].version]
    if len(same) > 1:
        return _Problem("misnamed", f"{' and '.join(same)} are two files of one generation")
    if named != header.id:
        said = f"the directory is named for session {named!r}, but the log says it is {header.id!r}"
        return _Problem("misplaced", said)
    if directory.parent.name != encode_project(header.cwd):
        said = f"the directory {directory.parent.name!r} is not the one of the log's cwd {header.cwd!r}"
        return _Problem("misplaced", said)
    return None


def _repeated(ids: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {one for one in ids if one in seen or seen.add(one)}  # type: ignore[func-returns-value]


def _mark_duplicate(entry: SessionEntry, entries: list[SessionEntry]) -> SessionEntry:
    others = [str(one.path) for one in entries if one.id == entry.id and one.path != entry.path]
    if entry.problem is not None or not others:
        return entry
    return replace(entry, problem=f"the same id is also at {others[0]}", trouble="duplicate")
