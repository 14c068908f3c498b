"""Answers to barriers, and how they get from the store's threads to whoever waits.

A thread waits with a ``Future``; a coroutine waits with a :class:`Reply`. Replies are collected while there is work,
and brought to their event loop together, which is woken once for all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Protocol

from turnlog.log import Durable


class Answer(Protocol):
    """What a barrier waits for; a ``Future`` is one."""

    def set_result(self, result: Durable, /) -> None:
        """It is durable."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """It is not."""
        ...


class Post:
    """Brings answers to one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.letters: deque[Reply] = deque()
        self._called = False

    def bring(self) -> None:
        """Have what was sent delivered, from any thread."""
        if self.letters and not self._called:
            self._called = True
            try:
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed: nobody waits any more
                self.letters.clear()

    def _deliver(self) -> None:
        self._called = False  # before looking: who brings a letter now calls anew
        for _ in range(len(self.letters)):
            self.letters.popleft().deliver()
        self.bring()  # what came meanwhile is next, after what else the loop has to do


class Reply:
    """The answer to a barrier of an event loop; awaiting it gives what it says.

    To a task it is what an ``asyncio.Future`` is, by the same protocol (``asyncio.isfuture``). A future would let the
    loop turn once more between its answer and the task that goes on; this is half of what waking a loop costs.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_done", "_go_on", "_post", "_said")

    def __init__(self, post: Post) -> None:
        self._asyncio_future_blocking = False
        self._post = post
        self._said: Durable | BaseException | None = None
        self._done = False
        self._go_on: Callable[[Reply], object] | None = None
        self._context: Context | None = None

    # -- the store's side ---------------------------------------------------------------------------------------

    def set_result(self, result: Durable) -> None:
        """See :meth:`Answer.set_result`. It waits to be brought."""
        self._send(result)

    def set_exception(self, exception: BaseException) -> None:
        """See :meth:`Answer.set_exception`. It waits to be brought."""
        self._send(exception)

    def _send(self, said: Durable | BaseException) -> None:
        if self._said is None:  # nobody waits any more where it was cancelled
            self._said = said
            self._post.letters.append(self)

    # -- the loop's side ----------------------------------------------------------------------------------------

    def deliver(self) -> None:
        """Let the task go on that waits for it."""
        if not self._done:
            self._done = True
            if self._go_on is not None and self._context is not None:
                self._context.run(self._go_on, self)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """See ``asyncio.Future.get_loop``."""
        return self._post.loop

    def add_done_callback(self, go_on: Callable[[Reply], object], *, context: Context) -> None:
        """See ``asyncio.Future.add_done_callback``; only the one task that awaits it has one."""
        self._go_on, self._context = go_on, context

    def cancel(self, msg: object = None) -> bool:
        """See ``asyncio.Future.cancel``. The writing goes on."""
        if self._done:
            return False
        self._done = True
        self._said = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        if self._go_on is not None:
            self._post.loop.call_soon(self._go_on, self, context=self._context)
        return True

    def result(self) -> Durable:
        """See ``asyncio.Future.result``."""
        if isinstance(self._said, BaseException):
            raise self._said
        assert self._said is not None
        return self._said

    def __await__(self) -> Generator[Any, None, Durable]:
        self._asyncio_future_blocking = True
        yield self
        return self.result()
