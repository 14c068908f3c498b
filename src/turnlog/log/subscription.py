"""Subscribers: who is told of every committed event, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .event import AnyEvent

if TYPE_CHECKING:
    from .session import Session

logger: Final = logging.getLogger("turnlog")

BATCH: Final = 1024
"""Most events handed to a batch listener at once while it catches up with history."""


class Subscription:
    """One listener of one session. ``close()`` ends it; closing twice is fine."""

    __slots__ = ("_batches", "_from", "_listener", "_session", "failures")

    def __init__(self, session: Session, listener: Callable[[Any], object], batches: bool, from_seq: int) -> None:
        self._session: Session | None = session
        self._listener = listener
        self._batches = batches
        self._from = from_seq
        self.failures = 0
        """How often the listener raised. Each failure is logged with its event; the listener stays subscribed."""

    def deliver(self, events: Sequence[AnyEvent]) -> None:
        """Hand over committed events; what the listener raises is contained and reported."""
        if events[0].seq < self._from:
            events = [event for event in events if event.seq >= self._from]
        if self._batches:
            if events and self._session is not None:
                self._call(events, events)
            return
        for event in events:
            if self._session is not None:
                self._call(event, (event,))

    def _call(self, argument: object, events: Sequence[AnyEvent]) -> None:
        try:
            self._listener(argument)
        except Exception:  # a subscriber must never make a committed append fail
            self.failures += 1
            last = events[-1]
            logger.exception("a subscriber failed on %s @%d; the event is committed", last.type, last.seq)

    def close(self) -> None:
        """Deliver nothing more; safe from inside the listener."""
        session, self._session = self._session, None
        if session is not None:
            session._unsubscribe(self)
