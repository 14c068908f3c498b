"""The outline of a session: turns, their steps, and what happened in them, in log order.

Everything is somewhere: events outside of any turn stand between the turns, an end without its start stands where it
was logged and is an *orphan*. What was never closed is ``running`` while its writer lives; otherwise it is
``interrupted``, and its end is a synthetic closer (not part of the log).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from turnlog.events import StepEnd, StepStart, TurnEnd, TurnStart
from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun

from .rows import Slot, closed, has_gaps, is_live, slot_at, time_of
from .streams import KINDS, STREAMED, chunk_kind, embedded_runs

State: TypeAlias = Literal["ended", "running", "interrupted"]


class Chunks(NamedTuple):
    """Chunks of one kind in a row."""

    kind: str
    """``text-delta``, ``finish``, …"""
    number: int
    time: int
    """When the first of them came, epoch ms."""
    seq: int
    """Of the event that holds the first."""
    k: int | None = None
    """Place of the first inside an embedded stream."""

    @property
    def address(self) -> str:
        """Where the first one is."""
        return f"@{self.seq}" if self.k is None else f"@{self.seq}/{self.k}"

    def goes_on_with(self, following: Chunks) -> bool:
        """Whether chunks that come right after these are of the same kind and kept in the same way."""
        return self.kind == following.kind and (self.k is None) == (following.k is None)

    def with_more(self, following: Chunks) -> Chunks:
        """These and those that come right after them."""
        return Chunks(self.kind, self.number + following.number, self.time, self.seq, self.k)


def chunks_in(slot: Slot) -> Iterator[Chunks]:
    """The chunks that one row of a log holds, whatever its format; none for most events."""
    row = slot.row
    if isinstance(row, PackedRun):
        yield Chunks(KINDS[row.type], slot.size, row.time0, slot.seq)
    elif row.type == "assistant/chunk":
        yield Chunks(chunk_kind(row), 1, row.time, slot.seq)
    elif row.type in STREAMED:
        k = 0
        for run in embedded_runs(row):
            yield Chunks(run.kind, run.number, run.time, slot.seq, k)
            k += run.number


@dataclass
class Step:
    """One step: a model request with its retries, and the tools it called."""

    turn: int
    step: int
    start: AnyEvent | None
    end: AnyEvent | None = None
    """Its end; a synthetic closer where the writer died."""
    state: State = "interrupted"
    items: list[AnyEvent | Chunks] = field(default_factory=list)
    """What happened between the two, in order."""

    @property
    def address(self) -> str:
        """``t3.s2``"""
        return f"t{self.turn}.s{self.step}"


@dataclass
class Turn:
    """One turn."""

    turn: int
    start: AnyEvent | None
    end: AnyEvent | None = None
    """Its end; a synthetic closer where the writer died."""
    state: State = "interrupted"
    items: list[Step | AnyEvent | Chunks] = field(default_factory=list)
    """Steps and what happened around them, in order."""

    @property
    def address(self) -> str:
        """``t3``"""
        return f"t{self.turn}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its steps; a turn that was blocked or emptied has none."""
        return tuple(item for item in self.items if isinstance(item, Step))


Item: TypeAlias = Turn | Step | AnyEvent | Chunks


@dataclass
class Outline:
    """What :func:`outline` gives."""

    items: list[Item] = field(default_factory=list)
    """Turns and what happened between them, in order."""
    orphans: set[int] = field(default_factory=set)
    """Seqs of ends whose start the log does not have."""
    length: int = 0
    """Events of the log; an event with this seq or a later one is a synthetic closer."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns."""
        return tuple(item for item in self.items if isinstance(item, Turn))

    def is_synthetic(self, event: AnyEvent | None) -> bool:
        """Whether *event* is a closer."""
        return event is not None and event.seq >= self.length


def outline(session: Session, *, as_stored: bool = False) -> Outline:
    """The outline of a session; with the closers of a log whose writer is gone, unless *as_stored*."""
    builder = _Builder(len(session))
    gaps = has_gaps(session)
    for index, row in enumerate(session.rows.rows):
        if row.type != "assistant/chunk" or not builder.counts(row):  # type: ignore[arg-type]
            builder.read(slot_at(session, index, gaps))
    for event in closed(session, as_stored=as_stored):
        builder.read(Slot(event.seq, 1, event))
    return builder.finish("running" if is_live(session) else "interrupted")


class _Builder:
    def __init__(self, length: int) -> None:
        self._outline = Outline(length=length)
        self._turn: Turn | None = None
        self._step: Step | None = None
        self._items: list[Item] = self._outline.items  # of the innermost open thing
        self._kind = ""  # of the run of single chunks that is being counted
        self._more = 0  # how many of them the last item does not count yet

    def counts(self, chunk: AnyEvent) -> bool:
        """Whether a chunk goes on with the run that is being counted: nearly all rows of a log that is not packed."""
        if not self._kind or chunk_kind(chunk) != self._kind:
            return False
        self._more += 1
        return True

    def read(self, slot: Slot) -> None:
        """Put one row in its place."""
        row = slot.row
        type = row.type
        if type == "assistant/chunk":
            self._count()
            self._kind = chunk_kind(row)  # type: ignore[arg-type]
            self._chunks(Chunks(self._kind, 1, time_of(row), slot.seq))
            return
        self._count()
        if isinstance(row, PackedRun) or type in STREAMED:
            for chunks in chunks_in(slot):
                self._chunks(chunks)
        if isinstance(row, PackedRun):
            return
        if row.type in _BOUNDARIES:
            self._boundary(row)
        else:
            self._items.append(row)

    def finish(self, open_state: State) -> Outline:
        """The log is over; what is still open is *open_state*."""
        self._count()
        for thing in (self._turn, self._step):
            if thing is not None:
                thing.state = open_state
        return self._outline

    def _count(self) -> None:
        """Whatever comes next, the run of single chunks is over."""
        last = self._items[-1] if self._more else None
        if isinstance(last, Chunks):
            self._items[-1] = Chunks(last.kind, last.number + self._more, last.time, last.seq, last.k)
        self._kind, self._more = "", 0

    def _chunks(self, chunks: Chunks) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, Chunks) and last.goes_on_with(chunks):
            self._items[-1] = last.with_more(chunks)
        else:
            self._items.append(chunks)

    def _boundary(self, event: AnyEvent) -> None:
        match event.data:
            case TurnStart(turn=turn):
                self._step = None
                self._turn = Turn(turn, event)
                self._outline.items.append(self._turn)
            case StepStart(turn=turn, step=step):
                self._step = Step(turn, step, event)
                self._outer().append(self._step)
            case StepEnd(turn=turn, step=step) if self._step and (self._step.turn, self._step.step) == (turn, step):
                self._step.end, self._step.state = event, self._state(event)
                self._step = None
            case TurnEnd(turn=turn) if self._turn and self._turn.turn == turn:
                self._turn.end, self._turn.state = event, self._state(event)
                self._turn = self._step = None
            case StepEnd() | TurnEnd():
                self._outline.orphans.add(event.seq)
                self._items.append(event)
            case _:
                self._items.append(event)
        self._items = self._outer() if self._step is None else self._step.items  # type: ignore[assignment]

    def _outer(self) -> list[Item]:
        return self._outline.items if self._turn is None else self._turn.items  # type: ignore[return-value]

    def _state(self, end: AnyEvent) -> State:
        return "interrupted" if self._outline.is_synthetic(end) else "ended"


_BOUNDARIES = frozenset({"turn/start", "turn/end", "step/start", "step/end"})
