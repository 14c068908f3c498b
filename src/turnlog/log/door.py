"""The door for other threads: payloads wait here until the session's own thread takes them in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from turnlog.events import Payload

from .event import AnyEvent


class Waiting(NamedTuple):
    """One append that was asked for."""

    future: Future[AnyEvent]
    payload: Payload
    replaces: tuple[int, int] | None
    sources: Sequence[int] | None


class Door:
    """A queue that any thread may fill and one thread empties."""

    def __init__(self) -> None:
        self._queue: deque[Waiting] = deque()
        self.wake: Callable[[], object] | None = None
        """Called from the filling thread whenever something was put in."""

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, waiting: Waiting) -> None:
        """Queue one append."""
        self._queue.append(waiting)
        if self.wake is not None:
            self.wake()

    def take(self) -> Waiting | None:
        """The next append whose caller still wants it, or None."""
        while self._queue:
            waiting = self._queue.popleft()
            if waiting.future.set_running_or_notify_cancel():
                return waiting
        return None
