"""Trace: back from an event to the chunks and prompts it rests on, forward to everything that came of it.

::

    prompts ─ ─ ─▶ chunks ──▶ assistant/message ─ ─ ─▶ tool/call ──▶ tool/result ─ ─ ─▶ later requests
            request        cites                 asked           cites

Drawn through: the log says so, by sources and replaces. Dashed: *inferred* from turn, step and call id, and marked so.
A request saw the whole surface, so its messages are named once and not followed further: they would be all of history.
Sources that the log does not state are unknown; the events in question are listed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import UNSET

from turnlog.events import AssistantMessage, StepStart, ToolCall, ToolCallBlock, ToolResult, ToolResultBlock
from turnlog.log import AnyEvent, Replace, Session
from turnlog.log.rows import PackedRun

from .address import Address, AddressUnknown
from .index import Index, index_of
from .provenance import there_are
from .resolve import resolve
from .rows import has, has_gaps, type_at
from .streams import STREAMED, TimedChunk, chunks_of, embedded, embedded_runs

LinkKind: TypeAlias = Literal["cites", "replaces", "stream", "call", "asked"]
"""What ties an event to an earlier one: its sources (``cites``); sources whose place it took (``replaces``); the
chunks it was assembled from (``stream``); the call it answers (``call``); the message that asked for it (``asked``)."""

_CHUNK: Final = "assistant/chunk"


class Link(NamedTuple):
    """From the event *by* to the consecutive events that it rests on, or that rest on it."""

    first: int
    last: int
    type: str
    kind: LinkKind
    inferred: bool
    """Whether turn, step and call id say so, and not the log's own sources."""
    depth: int
    """1 for what the traced event itself is tied to, 2 for what that is tied to, …"""
    by: int
    """The nearer end of the link."""

    @property
    def size(self) -> int:
        """How many events."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Request:
    """A request to the model that something in a trace was the answer to: inferred from its place in the log."""

    session: Session = field(repr=False, compare=False)
    at: int
    """What was sent is what the log projected to when it held its first *at* events."""
    depth: int
    header: int | None
    """Seq of the ``request/header`` that held then."""

    @property
    def address(self) -> str:
        """``t3.s2``, the step that made it."""
        return _step_address(self.session, self.at)

    @cached_property
    def messages(self) -> tuple[int, ...]:
        """Seqs of the messages that were sent."""
        return tuple(event.seq for event in self.session.message_events(self.at))

    @cached_property
    def prompt(self) -> int | None:
        """The last ``user/message`` among them."""
        return next((seq for seq in reversed(self.messages) if type_at(self.session, seq) == "user/message"), None)


@dataclass(frozen=True)
class Seen:
    """Requests in a row that were sent something of a trace: inferred."""

    session: Session = field(repr=False, compare=False)
    first: int
    """Request point of the first."""
    last: int
    number: int

    @property
    def addresses(self) -> tuple[str, str]:
        """The steps that made the first and the last of them."""
        return _step_address(self.session, self.first), _step_address(self.session, self.last)


@dataclass(frozen=True)
class Trace:
    """What :func:`trace` gives."""

    session: Session = field(repr=False)
    event: AnyEvent
    chunk: TimedChunk | None
    """The chunk that the address names."""
    sources: tuple[int, ...] | None
    """What the event cites: None where the log does not say, ``()`` where it says: nothing."""
    back: tuple[Link, ...]
    """Everything it rests on, nearest first."""
    requests: tuple[Request, ...]
    """The requests it rests on, in log order."""
    unknown: tuple[int, ...]
    """Of the event and what it rests on: the surface events whose sources the log does not state."""
    missing: tuple[int, ...]
    """Seqs that are cited and that the damaged log does not have."""
    forward: tuple[Link, ...]
    """Everything that rests on it, nearest first."""
    seen: tuple[Seen, ...]
    """The requests that were sent it, or something that rests on it."""

    @cached_property
    def stream(self) -> int:
        """How many chunks the event holds itself (formats 2 and later)."""
        return sum(run.number for run in embedded_runs(self.event))

    @property
    def tokens_inferred(self) -> bool:
        """Whether :attr:`tokens` were found by their place, because the message does not cite them."""
        return any(link.kind == "stream" and link.inferred and link.by == self.event.seq for link in self.back)

    @cached_property
    def tokens(self) -> tuple[TimedChunk, ...]:
        """For an assistant message or attempt, the very chunks it was assembled from, each with its time."""
        if self.event.type not in STREAMED:
            return () if self.chunk is None else (self.chunk,)
        own = [one for one in self.back if one.by == self.event.seq and one.type == _CHUNK and one.depth == 1]
        return (*(timed for one in sorted(own) for timed in _chunks(self.session, one)), *embedded(self.event))


def trace(
    session: Session,
    address: Address | str,
    *,
    direction: Literal["back", "forward", "both"] = "both",
) -> Trace:
    """Where the event that *address* stands for comes from (*back*) and what came of it (*forward*).

    Addresses stand for the same events as in :func:`~turnlog.views.sources`. Costs what is found, after the session's
    index was made once. Raises :class:`~turnlog.views.AddressError`.
    """
    target = resolve(session, address)
    seq = target.main
    if not has(session, seq):
        raise AddressUnknown(f"session {session.id} has no event @{seq}; {there_are(session)}")
    event = session.event(seq)
    walk = _Walk(session, seq)
    if direction != "forward":
        walk.back()
    if direction != "back":
        walk.forward()
    return Trace(
        session=session,
        event=event,
        chunk=next(chunks_of(event), None) if target.k is None else embedded(event)[target.k],
        sources=event.sources,
        back=tuple(walk.causes),
        requests=walk.requests(),
        unknown=tuple(sorted(walk.unknown)),
        missing=tuple(sorted(walk.missing)),
        forward=tuple(walk.effects),
        seen=walk.seen() if direction != "back" else (),
    )


class Tie(NamedTuple):
    """One event and others that it is tied to in one way."""

    seqs: tuple[int, ...]
    kind: LinkKind
    inferred: bool


class Ties:
    """What single events are tied to, one level back or forward; the two agree with each other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index: Index = index_of(session)

    def causes(self, seq: int) -> list[Tie]:
        """What the event at *seq* rests on."""
        type = type_at(self._session, seq)
        if type == _CHUNK:
            return []
        event = self._session.event(seq)
        ties = self._cited(event)
        if type == "assistant/message":
            ties += self._assembled(event)
        elif type == "tool/result" and not isinstance(event.surface_op, Replace):
            ties += self._answered(event)
        elif type == "tool/call":
            ties += self._asked(event)
        return ties

    def effects(self, seq: int) -> list[Tie]:
        """What rests on the event at *seq*."""
        by = self._index.cited_by(seq)
        replacing = self._session.replaced_by(seq)
        ties = [Tie((one,), "replaces" if one == replacing else "cites", False) for one in by]
        match type_at(self._session, seq):
            case "assistant/chunk":
                ties += self._unstated(seq)
            case "assistant/message" | "tool/call" as type:
                wanted = "tool/call" if type == "assistant/message" else "tool/result"
                event = self._session.event(seq)
                mine = [one for one in self._joined(event) if type_at(self._session, one) == wanted and one not in by]
                ties += [Tie((one,), "asked" if wanted == "tool/call" else "call", True) for one in mine]
            case _:
                pass
        return ties

    def streams(self, event: AnyEvent) -> bool:
        """Whether the answer *event* is tied to chunks of its own, events of the log."""
        cited = any(has(self._session, one) and type_at(self._session, one) == _CHUNK for one in event.sources or ())
        return cited or bool(self._assembled(event) if event.type == "assistant/message" else ())

    def is_unknown(self, event: AnyEvent) -> bool:
        """Whether the log could say what *event* rests on, and does not."""
        if event.surface_op is UNSET or event.sources is not None:
            return False
        return event.type != "assistant/message" or not embedded_runs(event)

    # -- back ---------------------------------------------------------------------------------------------------

    def _cited(self, event: AnyEvent) -> list[Tie]:
        sources = event.sources or ()
        if not isinstance(event.surface_op, Replace):
            return [Tie(sources, "cites", False)] if sources else []
        taken = tuple(one for one in sources if self._session.replaced_by(one) == event.seq)
        rest = tuple(one for one in sources if self._session.replaced_by(one) != event.seq)
        return [tie for tie in (Tie(taken, "replaces", False), Tie(rest, "cites", False)) if tie.seqs]

    def _assembled(self, event: AnyEvent) -> list[Tie]:
        """The chunks of the answer's request, where the answer does not say which they are."""
        if event.sources is not None or isinstance(event.surface_op, Replace) or embedded_runs(event):
            return []
        first = self._index.point_of(event.seq)
        if first is None or first == event.seq or not self._same_step(first, event.seq):
            return []
        seqs = tuple(_chunks_between(self._session, first, event.seq))
        return [Tie(seqs, "stream", True)] if seqs else []

    def _answered(self, result: AnyEvent) -> list[Tie]:
        calls = [one for one in self._joined(result) if type_at(self._session, one) == "tool/call"]
        return [Tie((one,), "call", True) for one in calls if one not in (result.sources or ())]

    def _asked(self, call: AnyEvent) -> list[Tie]:
        asked = [one for one in self._joined(call) if type_at(self._session, one) == "assistant/message"]
        return [Tie((one,), "asked", True) for one in asked]

    # -- forward ------------------------------------------------------------------------------------------------

    def _unstated(self, seq: int) -> list[Tie]:
        """The answer that a chunk went into, where the answer does not say so."""
        parts = self._index.parts_of_step(seq)
        for one in parts[bisect_left(parts, seq) :]:
            if type_at(self._session, one) == "assistant/message":
                answer = self._session.event(one)
                if any(tie.kind == "stream" and seq in tie.seqs for tie in self._assembled(answer)):
                    return [Tie((one,), "stream", True)]
                if not isinstance(answer.surface_op, Replace):
                    break  # chunks go into the first answer after them
        return []

    # -- both ---------------------------------------------------------------------------------------------------

    def _joined(self, event: AnyEvent) -> list[int]:
        """Messages, calls and results of the same step that are about the same calls: the k-th of an id with the
        k-th."""
        mine = {key for seq, key in self._keys(event.seq) if seq == event.seq}
        return [seq for seq, key in self._keys(event.seq) if key in mine and seq != event.seq]

    def _keys(self, seq: int) -> Iterator[tuple[int, tuple[int, int, str, int]]]:
        """Which calls the parts of a step are about, by turn, step, id and number."""
        counted: dict[tuple[str, int, int, str], int] = {}
        for part in self._index.parts_of_step(seq):
            event = self._session.event(part)
            if isinstance(event.surface_op, Replace):
                continue
            for turn, step, id in _about(event):
                kind = (event.type, turn, step, id)
                number = counted[kind] = counted.get(kind, 0) + 1
                yield part, (turn, step, id, number)

    def _same_step(self, first: int, second: int) -> bool:
        return self._index.step_start(first) == self._index.step_start(second)


class _Walk:
    """The closure of :class:`Ties` from one event, breadth first, each event once."""

    def __init__(self, session: Session, seq: int) -> None:
        self._session = session
        self._seq = seq
        self._index = index_of(session)
        self._ties = Ties(session)
        self._gaps = has_gaps(session)
        self._points: dict[int, int] = {}  # request point → depth
        self.causes: list[Link] = []
        self.effects: list[Link] = []
        self.unknown: set[int] = set()
        self.missing: set[int] = set()

    def back(self) -> None:
        self._rests(self._seq, self._seq, type_at(self._session, self._seq), 0)
        self.causes = list(self._follow(self._ties.causes, self._rests))

    def forward(self) -> None:
        self.effects = list(self._follow(self._ties.effects, lambda *_link: None))

    def requests(self) -> tuple[Request, ...]:
        header = self._index.header_before
        return tuple(Request(self._session, at, depth, header(at)) for at, depth in sorted(self._points.items()))

    def seen(self) -> tuple[Seen, ...]:
        shown = [self._seq, *(seq for link in self.effects if link.type in _SHOWN for seq in _seqs(link))]
        points = self._index.points
        ranges = sorted(
            self._index.points_between(seq, self._session.replaced_by(seq)) for seq in shown if self._is_shown(seq)
        )
        return tuple(
            Seen(self._session, points[low], points[high - 1], high - low) for low, high in _joined_ranges(ranges)
        )

    def _is_shown(self, seq: int) -> bool:
        return type_at(self._session, seq) in _SHOWN and self._session.event(seq).message is not None

    def _rests(self, first: int, last: int, type: str, depth: int) -> None:
        """Note what does not show as a link: the requests behind answers and chunks, and sources that are unknown."""
        if type == _CHUNK:
            self._requests(first, last, depth)
            return
        for seq in range(first, last + 1) if type in _SHOWN or type in STREAMED else ():
            event = self._session.event(seq)
            if self._ties.is_unknown(event):
                self.unknown.add(seq)
            if type in STREAMED and not isinstance(event.surface_op, Replace) and not self._ties.streams(event):
                self._requests(seq, seq, depth)  # else its chunks name the request

    def _requests(self, first: int, last: int, depth: int) -> None:
        low, high = self._index.points_between(first, last)
        before = self._index.point_of(first)
        for point in (*([] if before is None else [before]), *self._index.points[low:high]):
            self._points.setdefault(point, depth)

    def _follow(
        self, ties: Callable[[int], list[Tie]], reached: Callable[[int, int, str, int], None]
    ) -> Iterator[Link]:
        known = {self._seq}
        waiting = deque([(self._seq, 0)])
        while waiting:
            seq, depth = waiting.popleft()
            for tie in ties(seq):
                fresh = sorted(one for one in tie.seqs if one not in known)
                known.update(fresh)
                if self._gaps:
                    self.missing.update(one for one in fresh if not has(self._session, one))
                    fresh = [one for one in fresh if one not in self.missing]
                for first, last, type in _typed_runs(self._session, fresh):
                    yield Link(first, last, type, tie.kind, tie.inferred, depth + 1, seq)
                    reached(first, last, type, depth + 1)
                    if type != _CHUNK:
                        waiting.extend((one, depth + 1) for one in range(first, last + 1))


_SHOWN: Final = frozenset({"user/message", "assistant/message", "tool/result", "system/message"})


def _about(event: AnyEvent) -> Iterator[tuple[int, int, str]]:
    """The calls that an event is about: turn, step, id."""
    match event.data:
        case AssistantMessage(turn=turn, step=step, message=message):
            for block in message.content:
                if isinstance(block, ToolCallBlock):
                    yield turn, step, block.id
        case ToolCall(turn=turn, step=step, call_id=id):
            yield turn, step, id
        case ToolResult(turn=turn, step=step) as data:
            blocks = [block.tool_call_id for block in data.message.content if isinstance(block, ToolResultBlock)]
            yield turn, step, data.call_id or (blocks[0] if blocks else "")
        case _:
            return


def _chunks_between(session: Session, first: int, stop: int) -> Iterator[int]:
    rows = session.rows
    for place in range(rows.row_index(first), rows.row_index(stop)):
        row = rows.rows[place]
        if isinstance(row, PackedRun):
            start = rows.row_start(place)
            following = rows.row_start(place + 1)
            size = len(row.unpack().members()) if has_gaps(session) else following - start
            yield from range(start, start + size)
        elif row.type == _CHUNK:
            yield row.seq


def _typed_runs(session: Session, seqs: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    """Consecutive seqs of one type; a packed run is looked at once."""
    rows = session.rows
    current: tuple[int, int, str] | None = None
    type, end = "", -1
    for seq in seqs:
        if seq >= end:
            place = rows.row_index(seq)
            row = rows.rows[place]
            packed = isinstance(row, PackedRun)
            type = _CHUNK if packed else row.type
            last = place + 1 == len(rows.rows)
            end = seq + 1 if not packed else rows.length if last else rows.row_start(place + 1)
        if current is not None and current[1] == seq - 1 and current[2] == type:
            current = (current[0], seq, type)
            continue
        if current is not None:
            yield current
        current = (seq, seq, type)
    if current is not None:
        yield current


def _chunks(session: Session, link: Link) -> Iterator[TimedChunk]:
    for seq in _seqs(link):
        yield from chunks_of(session.event(seq))


def _seqs(link: Link) -> range:
    return range(link.first, link.last + 1)


def _joined_ranges(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    current: tuple[int, int] | None = None
    for low, high in ranges:
        if low >= high:
            continue
        if current is not None and low <= current[1]:
            current = (current[0], max(current[1], high))
            continue
        if current is not None:
            yield current
        current = (low, high)
    if current is not None:
        yield current


def _step_address(session: Session, seq: int) -> str:
    """The step that made the request at *seq*, as the answer itself says, else as the last step that began."""
    data = session.event(seq).data
    turn, step = getattr(data, "turn", None), getattr(data, "step", None)
    if turn is None or step is None:
        start = index_of(session).step_start(seq)
        begun = None if start is None else session.event(start).data
        turn, step = (begun.turn, begun.step) if isinstance(begun, StepStart) else (0, 0)
    return f"t{turn}.s{step}"
