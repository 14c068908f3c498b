"""Reading a log: a fast path that only says yes, a slow path that says why.

Blocks of lines go through the fast path (``bulk``); a block with any doubt goes through the slow path line by line
(``lines``). *Strict* reading stops at the first fault of envelope, seq, surface, sources or encoding; *forensic*
reading keeps everything readable and lists the faults. Nothing is cut in silence: what is not part of the log as
read is in ``findings``, ``torn`` or ``branches``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import force_setattr

from turnlog.events import Vocabulary
from turnlog.events.codec import RETIRED
from turnlog.events.lenient import parse
from turnlog.log import SessionHeader, SurfaceError
from turnlog.log.event import AnyEvent, Replace, decode_ranges
from turnlog.log.rows import PackedRun, Rows
from turnlog.log.surface import Surface, check_rewrite, check_shadowed, check_sources

from .bulk import Bulk, plain_sources
from .classes import line_classes
from .collecting import no_collection
from .errors import LogCorrupt
from .finding import Finding, Place, Severity
from .foreign.dialect import Dialect, detect
from .foreign.origins import Origins
from .formats import SAMPLE, Format
from .formats.sample import SAMPLE_TYPES, SampleCodec
from .lines import Fault, LineReader, Unknown
from .opening import open_log
from .source import Block, Source, Torn

_TORN_FAULTS: Final = frozenset({"not-json", "not-utf8", "nul-bytes"})
"""What an unfinished last line can look like. A complete record that breaks a rule is never one of them."""


@dataclass
class Branch:
    """Events that cannot follow the log: written by a second writer, or twice."""

    place: Place
    events: list[AnyEvent] = field(default_factory=list)


@dataclass
class ReadLog:
    """A log as read."""

    format: Format
    header: SessionHeader
    rows: Rows
    surface: Surface
    findings: list[Finding] = field(default_factory=list)
    torn: Torn | None = None
    branches: list[Branch] = field(default_factory=list)
    compressed: bool = False
    size: int = 0
    """Bytes of the file."""
    origins: Origins | None = None
    """Of a session file of another program: where each event comes from."""


def read_log(
    source: Source,
    *,
    vocabulary: Vocabulary = Vocabulary.core,
    forensic: bool = False,
    watch: Callable[[Block], object] | None = None,
    foreign: bool = False,
) -> ReadLog:
    """Read a whole log. Raises :class:`LogRefused` unless *forensic* (and even then without a usable header).

    *watch* sees each block of text once, before its events are read. *foreign*: session files of other programs are
    read as well, which only those may ask for who never write to what they read.
    """
    with no_collection():
        return _Reader(source, vocabulary, forensic, watch, foreign).read()


class _Reader:
    """One pass over one log."""

    def __init__(
        self,
        source: Source,
        vocabulary: Vocabulary,
        forensic: bool,
        watch: Callable[[Block], object] | None = None,
        foreign: bool = False,
    ) -> None:
        self._source = source
        self._watch = watch
        self._vocabulary = vocabulary
        self._forensic = forensic
        self._may_be_foreign = foreign
        self._noted: set[str] = set()
        self._branch: Branch | None = None
        self._seen_findings = 0
        self._recovered = 0
        self._spoilt = False
        """Whether the rest of what was won from a torn frame is no good."""
        self._seeded = False
        self._log: ReadLog

    def read(self) -> ReadLog:
        blocks = self._source.blocks()
        first = next(blocks, None)
        self._container_findings(first is not None)
        dialect = detect(first.text) if self._may_be_foreign and first is not None else None
        if first is not None and dialect is not None:
            return self._foreign(dialect, chain((first,), blocks))
        block = self._begin(first)
        self._container_findings(True)
        self._block(block)
        for block in blocks:
            self._container_findings(True)
            self._block(block)
        self._container_findings(True)
        return self._finish()

    def _foreign(self, dialect: Dialect, blocks: Iterator[Block]) -> ReadLog:
        """Read a session file of another program."""
        from .foreign.read import ForeignReader

        reader = ForeignReader(self._source, dialect, self._vocabulary, forensic=self._forensic)
        header = reader.read(blocks)
        return ReadLog(
            reader.format,
            header,
            reader.rows,
            reader.surface,
            reader.findings,
            reader.torn,
            compressed=self._source.compressed,
            size=self._source.size,
            origins=reader.origins,
        )

    def _begin(self, block: Block | None) -> Block:
        """Read the header line; gives the rest of its block."""
        opening = open_log(self._source, block)
        classes = line_classes(opening.format, self._vocabulary, opening.header.id)
        kind = self._kind = classes.kind
        self._bulk, self._lines = Bulk(classes), LineReader(classes)
        self._seeded = opening.seeded
        self._log = ReadLog(opening.format, opening.header, Rows(kind), Surface(), compressed=self._source.compressed)
        for finding in opening.findings:
            if finding.severity == "refused":
                self._refuse(finding)
            else:
                self._noted.add(finding.code)
                self._log.findings.append(finding)
        return opening.rest

    # -- blocks -------------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        if not block.text:
            return
        if self._watch is not None:
            self._watch(block)
        unproven = self._source.unproven
        doubtful = unproven is not None and block.offset + len(block.text) > unproven
        if doubtful or self._branch is not None:
            self._slow(block)
            return
        rows = self._log.rows
        taken = self._bulk.take(block, rows.length)
        if taken is None:
            self._slow(block)
            return
        if taken.starts is None:
            rows.extend(taken.rows)
        else:
            rows.extend_packed(taken.rows, taken.starts, taken.length)
        self._place_all(taken.surfacing, block)

    def _place_all(self, events: list[AnyEvent], block: Block) -> None:
        surface = self._log.surface
        plain = plain_sources(events)
        if all(plain) and all(event.surface_op == "append" for event in events):
            surface.extend([event.seq for event in events])
            return
        for event, beyond_doubt in zip(events, plain, strict=True):
            if beyond_doubt and event.surface_op == "append":
                surface.append(event.seq)
                continue
            fault = self._place_one(event)
            if fault is not None:
                self._surface_refused(event, fault, self._find_line(block, event.seq))

    def _place_one(self, event: AnyEvent) -> SurfaceError | None:
        """Put a surface event in its place; what is wrong with it, or None."""
        surface = self._log.surface
        operation = event.surface_op
        try:
            _check_ranges(event)
            sources = event.sources
            if sources is None and event._sources is not UNSET:
                return SurfaceError("sources-type", "sourceEventSeqs is no list of seqs")
            if sources is not None:
                check_sources(event.seq, event.type, sources)
            if not isinstance(operation, Replace):
                surface.append(event.seq)
                return None
            plan, shadowed = surface.plan_replace(event.seq, operation)
            check_shadowed(event.seq, shadowed, sources)
            if event.type == "tool/result":
                old = self._log.rows.at(shadowed[0])
                check_rewrite(event.seq, shadowed, old, event.raw)
            surface.apply(plan)
        except SurfaceError as error:
            return error
        return None

    def _surface_refused(self, event: AnyEvent, fault: SurfaceError, place: Place) -> None:
        self._refuse(self._finding(fault.kind, "refused", f"{event.type} @{event.seq}: {fault}.", place, seq=event.seq))

    def _find_line(self, block: Block, seq: int) -> Place:
        needle = b'"seq":%d,' % seq
        for line, offset, text in block.numbered():
            if needle in text or (b"seq" in text and _seq_of(text) == seq):
                return self._place(block, line, offset)
        return Place(path=self._source.name)

    # -- lines --------------------------------------------------------------------------------------------------

    def _slow(self, block: Block) -> None:
        listed = list(block.numbered())
        for index, (line, offset, text) in enumerate(listed):
            if self._source.unproven is not None and offset >= self._source.unproven:
                self._win(text, self._place(block, line, offset))
                continue
            unterminated = index == len(listed) - 1 and not block.text.endswith(b"\n")
            place = self._place(block, line, offset)
            if text.endswith(b"\r"):
                self._note("crlf", "lines end in CR LF; the CR is skipped.", "note", place)
            if not text.strip():
                self._note("blank-line", "blank lines are skipped.", "note", place)
                continue
            found = self._lines.read(text)
            if isinstance(found, Fault):
                self._line_fault(found, place, text, unterminated, listed[index + 1 :])
                continue
            if unterminated:
                self._note(
                    "no-final-newline",
                    "the last record has no newline; it is whole, and part of the log.",
                    "note",
                    place,
                )
            self._take(found, place)

    def _win(self, text: bytes, place: Place) -> None:
        """Take a line that was won from a torn frame, if it goes on where the log ends. The first that does not ends
        the log: no checksum tells what a hole in such a frame made of the lines after it."""
        rows = self._log.rows
        found = self._lines.read(text)
        self._spoilt = self._spoilt or self._branch is not None or isinstance(found, Fault) or not self._fits(found)
        if self._spoilt or isinstance(found, Fault):
            return
        before = rows.length
        if isinstance(found, PackedRun):
            rows.add_run(found, len(found.unpack().members()))
        elif isinstance(found, Unknown):
            rows.add(found.event)
            self._unknown(found, place)
        else:
            rows.add(found)
        self._recovered += rows.length - before

    def _fits(self, found: AnyEvent | PackedRun | Unknown) -> bool:
        """Whether nothing is wrong with what follows the last row; puts a surface event in its place."""
        if isinstance(found, PackedRun):
            return found.seq0 == self._log.rows.length
        event = found.event if isinstance(found, Unknown) else found
        if event.seq != self._log.rows.length:
            return False
        if isinstance(found, Unknown):
            return _ranges_fault(event) is None
        if self._marker_fault(event) is not None:
            return False
        return event.surface_op is UNSET or self._place_one(event) is None

    def _line_fault(
        self, fault: Fault, place: Place, text: bytes, unterminated: bool, rest: list[tuple[int, int, bytes]]
    ) -> None:
        if unterminated and is_torn(fault, text):
            self._tear(place, text, 0)
            return
        if unterminated and fault.code == "nul-bytes" and fault.event is not None and text[0]:
            self._take(fault.event, place)  # a whole record, and a hole after it
            self._tear(place, text, len(text.rstrip(b"\0")))
            return
        told = fault.text
        if fault.code == "nul-bytes":
            told += f" {self._around(rest, self._log.rows.length + _count(fault.event))}"
        self._refuse(self._finding(fault.code, "refused", told, place, remedy=fault.remedy))
        if fault.event is not None:
            self._take(fault.event, place)

    def _tear(self, place: Place, text: bytes, whole: int) -> None:
        """The last line is unfinished after its first *whole* bytes."""
        size = len(text) - whole
        reason = f"the last {size} bytes are " + (
            "a record that was not finished" if text.strip(b"\0")[whole:] else "NUL"
        )
        if self._source.torn is None and not self._source.compressed:
            start = (place.offset or 0) + whole
            self._source.torn = Torn(start, self._source.size - start, reason)
        elif self._source.torn is None:
            self._source.torn = Torn(
                place.offset or 0, size, f"the last frame ends with {size} bytes of a record that was not finished"
            )

    def _around(self, rest: list[tuple[int, int, bytes]], expected: int) -> str:
        """Whether events are missing at a hole in the file."""
        for _line, _offset, text in rest:
            seq = _seq_of(text)
            if seq is not None:
                if seq == expected:
                    return "No event is missing around them."
                return f"Seq {expected} is missing: expected {expected}, got {seq}."
        return "Nothing readable follows."

    def _take(self, found: AnyEvent | PackedRun | Unknown, place: Place) -> None:
        event = found.event if isinstance(found, Unknown) else found
        seq = event.seq0 if isinstance(event, PackedRun) else event.seq
        if self._branch is not None or seq < self._log.rows.length:
            self._collide(event, seq, place)
            return
        rows = self._log.rows
        if seq > rows.length:
            missing = f"@{rows.length}" if seq == rows.length + 1 else f"@{rows.length} to @{seq - 1}"
            self._refuse(
                self._finding(
                    "seq-gap",
                    "refused",
                    f"event {missing} is missing: expected seq {rows.length}, got {seq} ({event.type}).",
                    place,
                    seq=seq,
                    remedy="The events were lost before they reached this file, or cut out of it.",
                )
            )
            rows.skip_to(seq)
        if isinstance(event, PackedRun):
            rows.add_run(event, len(event.unpack().members()))
            return
        fault = self._marker_fault(event)
        rows.add(event)
        if isinstance(found, Unknown):
            self._unknown(found, place)
            fault = _ranges_fault(event) or (None if found.required else fault)
            if fault is not None:
                self._surface_refused(event, fault, place)
        elif fault is not None:
            self._surface_refused(event, fault, place)
        elif event.surface_op is not UNSET:
            fault = self._place_one(event)
            if fault is not None:
                self._surface_refused(event, fault, place)

    def _marker_fault(self, event: AnyEvent) -> SurfaceError | None:
        surfaces = event.type in self._log.format.surface
        if surfaces and event.surface_op is UNSET:
            return SurfaceError("marker", "a surface event without surfaceOp")
        if not surfaces and (event.surface_op is not UNSET or event._sources is not UNSET):
            return SurfaceError("surface-eligible", "a log-only event with surfaceOp or sourceEventSeqs")
        return None

    def _unknown(self, found: Unknown, place: Place) -> None:
        event = found.event
        if event.type in RETIRED:
            text = f"event type {event.type!r} @{event.seq} was retired; it is shown as it is, and dsh refuses the log."
            self._note("retired-type", text, "fault", place, seq=event.seq)
            return
        if not found.required:
            self._note(
                "unknown-ignorable",
                f"event type {event.type!r} @{event.seq} is not known to this build; its "
                "writer allows readers to skip it.",
                "note",
                place,
                once=False,
                seq=event.seq,
            )
            return
        self._log.findings.append(
            self._finding(
                "unknown-type",
                "fault",
                f"event type {event.type!r} @{event.seq} is not known to this build: a newer build "
                f"or a plugin wrote it{'' if event.surface_op is UNSET else ', and the model sees it'}.",
                place,
                seq=event.seq,
                unsupported=True,
                remedy="It is shown as it is; resuming needs a vocabulary that has it.",
            )
        )

    def _collide(self, event: AnyEvent | PackedRun, seq: int, place: Place) -> None:
        log = self._log
        branch = self._branch
        if branch is None or (branch.events and seq <= branch.events[-1].seq):
            finding = self._finding(
                "seq-duplicate",
                "refused",
                self._collision(event, seq),
                place,
                seq=seq,
                remedy="Two writers, or a writer with a stale position, wrote this log; turnlog repair "
                "keeps both branches in new files.",
            )
            if not self._forensic:
                raise LogCorrupt(_with_rest(finding, self._source))
            log.findings.append(finding)
            branch = self._branch = Branch(place)
            log.branches.append(branch)
        branch.events += event.events(self._kind) if isinstance(event, PackedRun) else [event]

    def _collision(self, event: AnyEvent | PackedRun, seq: int) -> str:
        time = event.time0 if isinstance(event, PackedRun) else event.time
        try:
            kept = self._log.rows.at(seq)
        except IndexError:  # too late to fill a gap, or the beginning of another branch
            return f"seq {seq} is out of order: expected {self._log.rows.length}, got {seq} ({event.type})."
        return (
            f"duplicate seq {seq}; expected {self._log.rows.length}, got {seq}: {kept.type} at time {kept.time} "
            f"stands there already, then {event.type} at time {time}."
        )

    # -- the end ------------------------------------------------------------------------------------------------

    def _finish(self) -> ReadLog:
        log = self._log
        log.size = self._source.size
        torn = self._source.torn
        if torn is not None:
            log.torn = torn._replace(recovered=self._recovered)
            won = f" {self._recovered} whole records were won from it." if self._recovered else ""
            log.findings.append(
                self._finding(
                    "torn-tail",
                    "note",
                    f"{torn.reason}, from byte {torn.offset} on.{won}",
                    Place(path=self._source.name, offset=torn.offset),
                    remedy="The writer was cut off; a resume cuts the file there and goes on.",
                )
            )
        if log.format is SAMPLE:
            self._teach_sample()
        elif log.header.version >= 2:
            self._derive_seed()
        return log

    def _teach_sample(self) -> None:
        codec = self._log.rows.kind._codec
        assert isinstance(codec, SampleCodec)
        events = [row for row in self._log.rows.rows if not isinstance(row, PackedRun)]
        codec.learn(
            ((e.seq, e.raw) for e in events if e.type == "tool/call"),
            ((e.seq, e.sources or ()) for e in events if e.type == "tool/result"),
        )
        foreign = any(event.type not in SAMPLE_TYPES for event in events)
        if foreign or len(events) < len(self._log.rows.rows) or any(map(_has_message_id, events)):
            self._note(
                "no-header",
                "there is no header, but the events are not the documents' sample, which has fewer types and messages "
                "without ids: the first line of a log is missing.",
                "fault",
                Place(path=self._source.name, line=1),
            )
        first = events[0].time if events else 0
        self._log.header = SessionHeader(version=SAMPLE.version, id=self._log.header.id, created_at=max(first, 0))

    def _derive_seed(self) -> None:
        """Formats 2 and later mark the inherited prefix in the log; the header only says whether there is one."""
        cuts = [
            row.seq
            for row in self._log.rows.rows
            if row.type == "session/end-seed" and not isinstance(row, PackedRun) and _inherited(row.raw)
        ]
        if cuts:
            members = {name: getattr(self._log.header, name) for name in SessionHeader.__struct_fields__}
            self._log.header = SessionHeader(**{**members, "seed_length": cuts[-1]})
        if self._seeded != bool(cuts):
            said = (
                "the header says that events are inherited, but no marker says where they end"
                if self._seeded
                else "a marker ends inherited events, but the header says that there are none"
            )
            self._note(
                "seed",
                f"{said}; dsh refuses such a log.",
                "fault",
                Place(path=self._source.name, line=1),
                seq=cuts[-1] if cuts else None,
            )

    # -- findings -----------------------------------------------------------------------------------------------

    def _container_findings(self, opened: bool) -> None:
        """Take over what the container found since the last block; refuse at the first refusal."""
        fresh = self._source.findings[self._seen_findings :]
        self._seen_findings += len(fresh)
        for finding in fresh:
            if finding.severity == "refused" and not self._forensic:
                raise LogCorrupt(finding)
        if opened and hasattr(self, "_log"):
            self._log.findings += fresh
        else:
            self._seen_findings -= len(fresh)

    def _refuse(self, finding: Finding) -> None:
        if not self._forensic:
            raise LogCorrupt(finding)
        self._log.findings.append(finding)

    def _note(
        self, code: str, text: str, severity: Severity, place: Place, *, once: bool = True, seq: int | None = None
    ) -> None:
        if once and severity == "note" and code in self._noted:
            return
        self._noted.add(code)
        self._log.findings.append(self._finding(code, severity, text, place, seq=seq))

    def _finding(
        self,
        code: str,
        severity: Severity,
        text: str,
        place: Place,
        *,
        seq: int | None = None,
        remedy: str | None = None,
        unsupported: bool = False,
    ) -> Finding:
        return Finding(
            code=code,
            severity=severity,
            text=text,
            place=place,
            seq=seq,
            remedy=remedy,
            kind="unsupported" if unsupported else "corrupt",
        )

    def _place(self, block: Block, line: int, offset: int) -> Place:
        return block.place(self._source.name, line, offset)


def is_torn(fault: Fault, line: bytes) -> bool:
    """Whether a last line with a fault is a record that its writer did not finish."""
    return not line.endswith(b"\n") and fault.code in _TORN_FAULTS and fault.event is None


def _count(found: AnyEvent | PackedRun | Unknown | None) -> int:
    """How many events a line holds."""
    return 0 if found is None else len(found.unpack().members()) if isinstance(found, PackedRun) else 1


def _has_message_id(event: AnyEvent) -> bool:
    if event.surface_op is UNSET or b'"id"' not in event.raw:
        return False
    data = parse(event.raw)
    message = data.get("message", data) if isinstance(data, dict) else None
    return isinstance(message, dict) and "id" in message


def _inherited(raw: bytes) -> bool:
    if b"inherited" not in raw:
        return False
    data = parse(raw)
    return isinstance(data, dict) and data.get("inherited") is True


def _check_ranges(event: AnyEvent) -> None:
    fault = _ranges_fault(event)
    if fault is not None:
        raise fault


def _ranges_fault(event: AnyEvent) -> SurfaceError | None:
    """What is wrong with the ranges an event cites, or None; looked at before anybody writes them out, because a
    damaged one may claim more seqs than memory holds. A list with such a fault is taken off the event."""
    stored = event._sources
    try:
        cited = () if stored is UNSET else decode_ranges(stored) if isinstance(stored, Raw) else stored
    except msgspec.MsgspecError:
        return None  # no list of seqs, which is found next
    last = -1
    for one in cited if any(isinstance(one, tuple) for one in cited) else ():
        start, end = one if isinstance(one, tuple) else (one, one)
        if not last < start <= end < event.seq:
            force_setattr(event, "_sources", UNSET)
            if end >= event.seq:
                return SurfaceError("sources-later", f"it cites @{end}, which is not earlier")
            return SurfaceError("sources-type", "a source list with ranges must count up")
        last = end
    return None


def _with_rest(finding: Finding, source: Source) -> Finding:
    """The finding with what follows it, so that nobody takes the part before for the whole."""
    data = source.path if source.path is not None else source._data
    whole = read_log(Source(data, name=source.name, forensic=True), forensic=True)
    after = [event for branch in whole.branches for event in branch.events]
    ends = [event for event in after if event.type == "turn/end"]
    turns = ", ".join(str(getattr(event.data, "turn", "?")) for event in ends)
    text = f"{finding.text} {len(after)} events follow from there"
    text += f", among them the end of turn {turns}." if ends else "."
    return msgspec.structs.replace(finding, text=text)


def _seq_of(line: bytes) -> int | None:
    """The seq that a line claims, or None."""
    try:
        value = parse(line)
    except ValueError:
        return None
    seq = value.get("seq", value.get("seq0")) if isinstance(value, dict) else None
    return seq if type(seq) is int else None
