"""Where turns and steps begin and end in the log, by position. Only boundary events are looked into.

A span that was never closed reaches to the next one of its kind. An end without a start (a tail that was read alone,
a log that lost its beginning) closes a span that begins where the one before it ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.events import StepEnd, StepStart, TurnEnd, TurnStart
from turnlog.log import AnyEvent, Session

from .index import index_of
from .rows import end_before


@dataclass(frozen=True, slots=True)
class Span:
    """One turn, or one step of a turn."""

    turn: int
    step: int | None
    """None for a turn."""
    first: int
    """Seq of its first event."""
    stop: int
    """One past the seq of its last event."""
    started: bool = True
    """Whether its start event is in the log."""
    ended: bool = True
    """Whether its end event is in the log."""

    def __contains__(self, seq: int) -> bool:
        return self.first <= seq < self.stop

    @property
    def address(self) -> str:
        """``t3`` or ``t3.s2``."""
        return f"t{self.turn}" if self.step is None else f"t{self.turn}.s{self.step}"


def turn_spans(session: Session) -> tuple[Span, ...]:
    """Every turn, in order."""
    found = _Spans(session)
    for event in map(session.event, index_of(session).turn_edges):
        match event.data:
            case TurnStart(turn=turn):
                found.start(turn, None, event.seq)
            case TurnEnd(turn=turn):
                found.end(turn, None, event.seq + 1)
            case _:
                pass
    return found.all(len(session))


def step_spans(session: Session, turn: Span) -> tuple[Span, ...]:
    """Every step of a turn, in order."""
    found = _Spans(session, turn.first)
    edges = index_of(session).step_edges
    for event in map(session.event, edges[bisect_left(edges, turn.first) : bisect_left(edges, turn.stop)]):
        match event.data:
            case StepStart(turn=number, step=step):
                found.start(number, step, event.seq)
            case StepEnd(turn=number, step=step):
                found.end(number, step, event.seq + 1)
            case _:
                pass
    return found.all(turn.stop - turn.ended)  # a turn's end is in none of its steps


class _Spans:
    def __init__(self, session: Session, first: int | None = None) -> None:
        self._spans: list[Span] = []
        self._open: tuple[int, int | None, int] | None = None
        self._session = session
        self._free = session.rows.base if first is None else first

    def start(self, turn: int, step: int | None, seq: int) -> None:
        self._cut(seq)
        self._open = turn, step, seq

    def end(self, turn: int, step: int | None, stop: int) -> None:
        if self._open is not None and self._open[:2] == (turn, step):
            self._spans.append(Span(*self._open, stop))
            self._open = None
        else:
            self._cut(stop - 1)
            self._spans.append(Span(turn, step, self._free, stop, started=False))
        self._free = stop

    def all(self, stop: int) -> tuple[Span, ...]:
        self._cut(stop)
        return tuple(self._spans)

    def _cut(self, seq: int) -> None:
        """Close what is open without an end of its own."""
        if self._open is not None:
            self._spans.append(Span(*self._open, end_before(self._session, seq), ended=False))
            self._open, self._free = None, seq


def between(session: Session, first: int, stop: int) -> Sequence[AnyEvent]:
    """The events from *first* up to *stop*, unpacked as they are looked at."""
    events = session.events
    base = len(session) - len(events)
    return events[max(first - base, 0) : max(stop - base, 0)]
