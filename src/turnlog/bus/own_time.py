"""The clock of one listener: its own time, without what it waits for in ``next``."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import anyio

from .errors import HookTimeout
from .listeners import Registration
from .trace import Ran


class OwnTime:
    """A context that cancels its body at the listener's deadline and then raises ``HookTimeout``.

    The timer is set once and looks at the clock when it rings; most listeners are over long before.
    """

    __slots__ = ("_left", "_loop", "_one", "_paused", "_ran", "_scope", "_since", "_timer", "_wire")

    def __init__(self, wire: str, one: Registration, ran: Ran) -> None:
        self._wire, self._one, self._ran = wire, one, ran
        self._loop = asyncio.get_running_loop()
        self._left = one.deadline
        self._since = self._loop.time()
        self._paused = False
        self._scope: anyio.CancelScope | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._left is not None:
            self._scope = anyio.CancelScope()
            self._scope.__enter__()
            self._timer = self._loop.call_later(self._left, self._ring)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        if self._scope is None:
            return False
        caught = bool(self._scope.__exit__(kind, error, trace))
        if self._scope.cancelled_caught:
            fault = f"ran longer than its deadline of {self._one.deadline:g} s and was cancelled"
            raise HookTimeout(self._wire, self._one.where, fault) from None
        return caught

    def pause(self) -> None:
        """What comes now is not its own time."""
        now = self._loop.time()
        if self._left is not None:
            self._left -= now - self._since
        self._since, self._paused = now, True

    def resume(self) -> None:
        """It is again."""
        now = self._loop.time()
        self._ran.seconds -= now - self._since
        self._since, self._paused = now, False
        if self._timer is not None and self._timer.when() <= now:  # it rang meanwhile, in vain
            self._ring()

    def check(self) -> None:
        """Cancel the body if its time is used up, also when it never let go of the event loop."""
        if self._left is not None and self._left <= self._loop.time() - self._since:
            self._ring()

    def _ring(self) -> None:
        if self._paused or self._left is None or self._scope is None or self._timer is None:
            return
        self._timer.cancel()
        left = self._left - (self._loop.time() - self._since)
        if left > 0:
            self._timer = self._loop.call_later(left, self._ring)
        else:
            self._scope.cancel()
