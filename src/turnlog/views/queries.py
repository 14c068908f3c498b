"""The three questions that trace an agent: all of a turn, the life of a call, where something comes from.

- :func:`turn`: every event of a turn.
- :func:`call`: every call with an id, each with its block, argument stream, approvals, result and what cites it.
- :func:`sources`: what an event rests on, what rests on it, and what took its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.events import TurnEnd, TurnEndReason
from turnlog.log import AnyEvent, Session

from .address import Address
from .calls import call, calls, one_call
from .outline import State
from .provenance import Provenance, provenance
from .resolve import resolve, turn_of
from .rows import closed, is_live, last_time, slots, time_of
from .spans import Span, between, step_spans, turn_spans

__all__ = ["TurnEvents", "call", "calls", "one_call", "sources", "turn"]


@dataclass(frozen=True)
class TurnEvents:
    """What :func:`turn` gives."""

    span: Span
    events: Sequence[AnyEvent]
    """All its events, from its start to its end; packed chunks are unpacked when they are looked at."""
    closers: tuple[AnyEvent, ...]
    """Synthetic events that close it, when its writer died; not part of the log."""
    state: State
    """``ended``, ``running``, or ``interrupted`` when its writer died."""
    steps: tuple[Span, ...]
    started: int
    """Epoch ms of its first event."""
    ended: int
    """Epoch ms of its last event in the log."""
    end: AnyEvent | None
    """Its ``turn/end``, or the closer that stands for it; None while it is running."""

    @property
    def turn(self) -> int:
        """Its number."""
        return self.span.turn

    @property
    def reason(self) -> TurnEndReason | None:
        """Why it ended; None while it is running."""
        return self.end.data.reason if self.end is not None and isinstance(self.end.data, TurnEnd) else None


def turn(session: Session, number: int, *, as_stored: bool = False) -> TurnEvents:
    """Every event of a turn. Raises :class:`~turnlog.views.address.AddressUnknown`, naming the turns there are."""
    spans = turn_spans(session)
    span = turn_of(session, number, spans)
    is_last = span == spans[-1]
    closers = closed(session, as_stored=as_stored) if is_last and not span.ended else ()
    state: State = "ended" if span.ended else "running" if is_last and is_live(session) else "interrupted"
    rows = list(slots(session, span.first, span.stop))
    end = session.event(span.stop - 1) if span.ended else closers[-1] if closers else None
    return TurnEvents(
        span, between(session, span.first, span.stop), closers, state, step_spans(session, span),
        time_of(rows[0].row), end.time if end is not None else last_time(rows[-1].row), end,
    )  # fmt: skip


def sources(session: Session, address: Address | str) -> Provenance:
    """Where the event that *address* stands for comes from, and where it went.

    The message of an attempt (one that came to none: its last event), the result of a call, the start of a turn or
    step. Raises
    :class:`~turnlog.views.address.AddressError`.
    """
    target = resolve(session, address)
    return provenance(session, target.main, target.k)
