"""What a waterfall listener gets as ``next``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, Literal, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from .errors import HookContract, blame
from .listeners import Registration
from .outcome import STOPPED, Outcome, frame_of, reached
from .own_time import OwnTime
from .trace import Ran

E = TypeVar("E")
R = TypeVar("R")

REMEDY: Final = "end every path with `return await next(event)` or `return stop(value, reason=…)`"


class Rest(Generic[E, R]):
    """One listener's ``next``: the rest of the chain, to be run once, while the listener runs, and waited for."""

    __slots__ = ("_call", "_given", "_let_through", "_one", "_over", "_ran", "_running", "_scope", "_state", "_task",
                 "_time", "_wire")  # fmt: skip

    def __init__(
        self,
        wire: str,
        one: Registration,
        given: E,
        call: Callable[[E], Coroutine[Any, Any, Outcome[R]]],
        ran: Ran,
        time: OwnTime,
    ) -> None:
        self._wire, self._one, self._given, self._call, self._ran, self._time = wire, one, given, call, ran, time
        self._task = asyncio.current_task()
        self._state: Literal["not called", "called", "running", "done"] = "not called"
        self._over = False
        self._running: Coroutine[Any, Any, Outcome[R]] | None = None
        self._scope: anyio.CancelScope | None = None
        self._let_through: Exception | None = None

    def __call__(self, *handed: E) -> Coroutine[Any, Any, Outcome[R]]:
        if self._over:
            raise self._broken("called next() after it had returned; the rest of the chain runs inside its listener")
        if self._running is not None:
            raise self._broken("called next() twice; the rest of the chain runs once")
        following = handed[0] if handed else self._given
        if len(handed) > 1 or type(following) is not type(self._given):
            kinds, wanted = ", ".join(type(one).__name__ for one in handed), type(self._given).__name__
            raise self._broken(f"called next({kinds}); it hands on one {wanted}, or with no argument the same event")
        self._state = "called"
        self._running = self._run(following)
        return self._running

    async def _run(self, following: E) -> Outcome[R]:
        self._state = "running"
        try:
            if asyncio.current_task() is self._task:
                return await self._inside(following)
            with anyio.CancelScope() as self._scope:  # in a task of the listener's own, which may outlive it
                return await self._inside(following)
            raise self._broken("returned before its next() was over, which is cancelled now")
        except Exception as error:
            self._let_through = error
            raise
        finally:
            self._state = "done"

    async def _inside(self, following: E) -> Outcome[R]:
        """Nothing more begins once the dispatch is cancelled or the listener's own time is used up."""
        self._time.check()
        await checkpoint_if_cancelled()
        self._time.pause()
        try:
            inner = await self._call(following)
        finally:
            self._time.resume()
        return reached(inner.value, self, inner.stopped, inner.stopped_by)

    # -- for the dispatch ---------------------------------------------------------------------------------------

    def raised(self, error: Exception) -> None:
        """The listener raised *error*: note that it did, unless it only let through what came from inside."""
        if error is self._let_through:
            self._ran.outcome = "let through"
        else:
            blame(error, self._wire, self._one.where)

    def end(self) -> None:
        """The listener is over: what it left of the chain does not begin, or go on, without it."""
        self._over = True
        if self._state == "called" and self._running is not None:
            self._running.close()
        elif self._state == "running" and self._scope is not None:
            self._scope.cancel()

    def fault(self, outcome: object) -> str | None:
        """What is wrong with how the listener ended."""
        if self._state == "called":
            return f"called next() without awaiting it; {REMEDY}"
        if self._state == "running":
            return f"returned while its next() was still running; {REMEDY}"
        if isinstance(outcome, Outcome):
            frame = frame_of(outcome)
            if frame is STOPPED or frame is self:
                return None
            return f"returned an outcome of another dispatch; {REMEDY}"
        what = "nothing" if outcome is None else f"a {type(outcome).__name__}"
        if self._state == "done":
            return f"called next() and then returned {what} instead of the outcome it got; {REMEDY}"
        return f"returned {what} without next() or stop(); {REMEDY}"

    def _broken(self, fault: str) -> HookContract:
        return HookContract(self._wire, self._one.where, fault)
