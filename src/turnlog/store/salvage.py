"""Salvage: what of a damaged log can be kept honestly, and what cannot.

The reader gives the events that follow each other and, beside them, branches: events that cannot follow. A branch is
one of four things. Events that are there already, byte for byte, were written twice. Events that fill a hole, or go on
where the log ends, were only out of place. Events after a mere end-of-seed marker are a second writer's, and can follow
it when they are renumbered. Everything else is another history, which gets a file of its own; when one history was
made up (closers) and the other really happened, the log goes on with what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from turnlog.events.lenient import parse
from turnlog.log import AnyEvent, SessionHeader
from turnlog.log.rows import PackedRun

from .classes import LineClasses
from .finding import Finding
from .lines import Fault, LineReader, Unknown
from .read import Branch, ReadLog
from .renumber import Draft, Rebuild, Remark, runs
from .source import Source

_LINE_FAULTS: Final[Mapping[str, str]] = {
    "not-json": "",
    "packed-row": "",
    "not-utf8": "The rest of it is kept",
    "nul-bytes": "They are gone, the event is kept",
    "envelope": "The event is kept without that",
    "time": "The event is kept",
    "sources": "The event is kept and cites nothing",
    "surface": "The event is kept",
}
"""Faults of single lines, and what is done about a line that is readable all the same."""
_CLOSER_CODES: Final = frozenset({"TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED", "ABORTED_BEFORE_DISPATCH"})
_REPLACEMENT: Final = "\ufffd".encode()
_SHOWN: Final = 60
"""Bytes of an unreadable line that are quoted."""


class Moved(NamedTuple):
    """Events that have other seqs now: so many *events* from *first* on are at *now* and after."""

    first: int
    events: int
    now: int

    def __str__(self) -> str:
        more = self.events - 1
        if not more:
            return f"@{self.first} is @{self.now} now"
        return f"@{self.first} to @{self.first + more} are @{self.now} to @{self.now + more} now"


class Lost(NamedTuple):
    """Something that is not in the new file; *first* and *last* are seqs, None where nobody can tell."""

    text: str
    first: int | None = None
    last: int | None = None


@dataclass
class History:
    """One log that can be kept."""

    header: SessionHeader
    events: list[AnyEvent]
    lost: list[Lost] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


@dataclass
class Salvage:
    """What was won from a damaged log."""

    kept: list[AnyEvent]
    """The events of the main history, as they were numbered."""
    main: History
    others: list[History]
    """Histories that cannot be part of the main one."""
    said: list[str]
    """What was done, besides renumbering."""
    lost: list[Lost]
    """What is in none of them: unreadable lines, damaged frames, an unfinished tail."""


class _Strand:
    """Events of one history, by the seqs they were written with."""

    def __init__(self, events: Iterable[AnyEvent]) -> None:
        self._settled: list[AnyEvent] = []
        """Events before a renumbered continuation; their seqs may occur again after them."""
        self._open = {event.seq: event for event in events}

    def events(self) -> list[AnyEvent]:
        return [*self._settled, *(self._open[seq] for seq in sorted(self._open))]

    def fresh(self, events: Sequence[AnyEvent]) -> list[AnyEvent]:
        """Those of *events* that are not there already, byte for byte."""
        return [event for event in events if not self._has(event)]

    def _has(self, event: AnyEvent) -> bool:
        mine = self._open.get(event.seq)
        return mine is not None and mine.line() == event.line()

    def takes(self, events: Sequence[AnyEvent]) -> bool:
        """Whether all their seqs are free, and the first one is in a hole or right at the end."""
        free = all(event.seq not in self._open for event in events)
        return free and events[0].seq <= max(self._open, default=-1) + 1

    def join(self, events: Iterable[AnyEvent]) -> None:
        self._open.update((event.seq, event) for event in events)

    def after(self, seq: int) -> list[AnyEvent]:
        """Its events that were written as *seq* or later ones."""
        settled = [] if seq in self._open else [event for event in self._settled if event.seq >= seq]
        return [*settled, *(self._open[one] for one in sorted(self._open) if one >= seq)]

    def forked(self, seq: int) -> _Strand:
        """Another strand with its events before *seq*."""
        other = _Strand(event for one, event in self._open.items() if one < seq)
        known = seq > min(self._open, default=0)
        other._settled = [event for event in self._settled if known or event.seq < seq]
        return other

    def follow(self, events: Iterable[AnyEvent]) -> None:
        """Let *events* follow after everything that is there, whatever their seqs."""
        self._settled, self._open = self.events(), {}
        self.join(events)


def salvage(log: ReadLog, source: Source) -> Salvage:
    """What can be kept of a log that was read forensically; *source* gives its text once more."""
    main = _Strand(log.rows.iterate(log.rows.base, log.rows.length))
    said: list[str] = []
    lost = list(_unreadable(log, source, main, said))
    others: list[_Strand] = []
    for branch in log.branches:
        main = _sort_in(branch, main, others, said)
    said += _unciting(log)
    if log.torn is not None:
        lost.append(Lost(f"the unfinished tail: {log.torn.reason}"))
    kept = [_readable(event, said) for event in main.events()]
    beside = [rebuilt(log.header, [_readable(event, []) for event in other.events()]) for other in others]
    return Salvage(kept, rebuilt(log.header, kept), beside, said, lost)


def _unciting(log: ReadLog) -> Iterator[str]:
    """Events whose sources were so wrong that the reader took them off."""
    for finding in log.findings:
        cited = finding.seq is not None and finding.code in ("sources-type", "sources-later")
        if cited and log.rows.at(finding.seq or 0).sources is None:
            yield f"@{finding.seq}: {finding.text} It cites nothing now"


def rebuilt(header: SessionHeader, events: Sequence[AnyEvent]) -> History:
    """A log of *events*, which may have holes and seqs that occur again, numbered without holes."""
    rebuild = Rebuild(header.id)
    history = History(header, rebuild.events, remarks=rebuild.remarks)
    expected = 0
    moved: dict[int, int] = {}
    for event in events:
        if event.seq > expected:
            history.lost.append(_missing(expected, event.seq - 1))
        expected = event.seq + 1
        made = rebuild.add(Draft.of(event))
        if made is not None and made.seq != event.seq:
            moved[event.seq] = made.seq
    history.moved += [Moved(old, count, now) for old, now, count in runs(moved)]
    if header.seed_length is not None:
        members = {name: getattr(header, name) for name in SessionHeader.__struct_fields__}
        history.header = SessionHeader(**{**members, "seed_length": rebuild.length_at(header.seed_length)})
    return history


def _missing(first: int, last: int) -> Lost:
    which = f"event @{first}" if first == last else f"the events @{first} to @{last}"
    return Lost(f"{which}: not in the file, or not readable", first, last)


def _readable(event: AnyEvent, said: list[str]) -> AnyEvent:
    """The event with its data as UTF-8."""
    raw = event.raw
    try:
        raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(errors="replace").encode()
        count = text.count(_REPLACEMENT) - raw.count(_REPLACEMENT)
        said.append(f"@{event.seq}: {count} bytes that are no UTF-8 became U+FFFD")
        return msgspec.structs.replace(event, _raw=Raw(text), _data=UNSET)
    return event


# -- branches ---------------------------------------------------------------------------------------------------


def _sort_in(branch: Branch, main: _Strand, others: list[_Strand], said: list[str]) -> _Strand:
    """Put a branch where it belongs; gives the main strand, which may be another one now."""
    strands = [main, *others]
    for strand in strands:
        fresh = strand.fresh(branch.events)
        if len(fresh) < len(branch.events):
            said.append(f"{len(branch.events) - len(fresh)} events at {branch.place} were written twice; kept once")
        if not fresh:
            return main
        if strand.takes(fresh):
            said.append(f"{_named(fresh)} at {branch.place} were out of place; they are in order now")
            strand.join(fresh)
            return main
        if len(fresh) < len(branch.events):
            break
    else:
        strand, fresh = main, branch.events
    return _other_history(fresh, strand, main, others, branch, said)


def _other_history(
    events: Sequence[AnyEvent], strand: _Strand, main: _Strand, others: list[_Strand], branch: Branch, said: list[str]
) -> _Strand:
    rivals = strand.after(events[0].seq)
    if not rivals:
        said.append(f"{_named(events)} at {branch.place} follow after a gap")
        strand.join(events)
        return main
    if all(event.type == "session/end-seed" for event in rivals):
        said.append(
            f"{_named(events)} at {branch.place} are of a second writer that did not see the end-of-seed marker "
            f"@{events[0].seq}; they follow it, renumbered"
        )
        strand.follow(events)
        return main
    second = strand.forked(events[0].seq)
    second.join(events)
    if strand is main and _made_up(rivals) and not _made_up(events):
        said.append(
            f"{_named(rivals)} were made up for a writer that was still at work; the log goes on with what it really "
            f"wrote ({_named(events)} at {branch.place}), and the made-up end is kept in a file of its own"
        )
        others.append(main)
        return second
    said.append(f"{_named(events)} at {branch.place} are another history; it is kept in a file of its own")
    others.append(second)
    return main


def _named(events: Sequence[AnyEvent]) -> str:
    first, last = events[0].seq, events[-1].seq
    return f"event @{first}" if first == last else f"events @{first} to @{last}"


def _made_up(events: Sequence[AnyEvent]) -> bool:
    """Whether these are closers: what somebody appends who believes that the writer is gone."""
    ended = False
    for event in events:
        match event.type, _value(event.raw):
            case "turn/end", {"reason": {"kind": "interrupted"}}:
                ended = True
            case "tool/result", {"error": {"code": str(code)}} if code in _CLOSER_CODES:
                pass
            case "assistant/message", {"interrupted": True}:
                pass
            case (("step/end" | "tool/call" | "session/end-seed"), _):
                pass
            case _:
                return False
    return ended


def _value(raw: bytes) -> Any:
    try:
        return parse(raw)
    except ValueError:
        return None


# -- lines ------------------------------------------------------------------------------------------------------


def _unreadable(log: ReadLog, source: Source, main: _Strand, said: list[str]) -> Iterator[Lost]:
    """What the damaged places cost; lines that are readable once they are cleaned go to *main*."""
    places = {one.place.line: one for one in log.findings if one.code in _LINE_FAULTS and one.place.line is not None}
    reader = LineReader(LineClasses(log.format, log.rows.kind))
    for number, text in _lines_at(source, places):
        finding = places[number]
        found = reader.read(text)
        event = found.event if isinstance(found, Fault) else found
        if event is None:
            event = _cleaned(reader, text)
            for one in _events(event, log):
                if main.takes([one]):
                    main.join([one])
        if event is None:
            quoted = text.strip(b"\0")[:_SHOWN].decode(errors="backslashreplace")
            if quoted:
                yield Lost(f"line {number}: {finding.text} It begins with {quoted}")
            else:
                said.append(f"line {number}: {finding.text} The line is gone")
        else:
            said.append(f"line {number}: {finding.text} {_LINE_FAULTS[finding.code]}")
    for finding in log.findings:
        if finding.code == "frame-damaged":
            yield Lost(f"frame {finding.place.frame}: {finding.text}")


def _cleaned(reader: LineReader, text: bytes) -> AnyEvent | PackedRun | Unknown | None:
    """What a line says once bytes that are no UTF-8 are U+FFFD."""
    try:
        text.decode()
    except UnicodeDecodeError:
        found = reader.read(text.decode(errors="replace").encode())
        return found.event if isinstance(found, Fault) else found
    return None


def _events(found: AnyEvent | PackedRun | Unknown | None, log: ReadLog) -> list[AnyEvent]:
    if found is None:
        return []
    if isinstance(found, PackedRun):
        return found.events(log.rows.kind)
    return [found.event if isinstance(found, Unknown) else found]


def _lines_at(source: Source, places: Mapping[int, Finding]) -> Iterator[tuple[int, bytes]]:
    """The text of some lines, each without its newline."""
    if not places:
        return
    for block in source.blocks():
        for number, _offset, text in block.numbered():
            if number in places:
                yield number, text
