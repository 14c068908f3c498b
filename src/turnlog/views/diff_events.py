"""Two sessions side by side, event by event; and by the messages that the model sees."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from turnlog.log import AnyEvent, Session

from .align import align, gaps
from .context import Context
from .context_diff import Row, message_rows, shown
from .normal import Divergence, NormalEvent, first_divergence, normal_events

Side: TypeAlias = tuple[NormalEvent | None, NormalEvent | None]

_NUMBER: Final = re.compile(rb'"(?:id|call)-\d+"')


@dataclass(frozen=True)
class EventsDiff:
    """What :func:`diff_events` gives."""

    first: Divergence | None
    """Where the logs part; None when they say the same."""
    sides: tuple[Side, ...]
    """What only one of them has, in order, and what says something else in the same place."""

    @property
    def same(self) -> bool:
        """Whether both logs say the same."""
        return self.first is None


def diff_events(left: Session, right: Session) -> EventsDiff:
    """Two logs without their times, seqs and ids."""
    mine, theirs = normal_events(left), normal_events(right)
    first = first_divergence(mine, theirs)
    if first is None:
        return EventsDiff(None, ())
    sides: list[Side] = []
    for one, other in gaps(align(_keys(mine), _keys(theirs))):
        if isinstance(one, list) and isinstance(other, list):
            sides += _by_type([mine[place] for place in one], [theirs[place] for place in other])
    return EventsDiff(first, tuple(sides) or ((first.left, first.right),))


def diff_messages(left: Session | Context, right: Session | Context) -> tuple[Row, ...]:
    """What two models see: at the end of two sessions, or in two requests."""
    return tuple(message_rows(*(shown(_events(one)) for one in (left, right))))


def _events(one: Session | Context) -> Sequence[AnyEvent]:
    return one.events if isinstance(one, Context) else one.message_events()


def _keys(events: Sequence[NormalEvent]) -> list[tuple[str, bytes]]:
    """What an event says whichever numbers its ids got: one event more shifts all that follow."""
    return [(one.type, _NUMBER.sub(b'""', one.body)) for one in events]


def _by_type(left: Sequence[NormalEvent], right: Sequence[NormalEvent]) -> list[Side]:
    """Between two events that both have: what is of the same type stands side by side."""
    pairs = align([one.type for one in left], [one.type for one in right])
    return [(None if one is None else left[one], None if other is None else right[other]) for one, other in pairs]
