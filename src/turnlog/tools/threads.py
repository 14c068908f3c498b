"""Threads for tools that are plain functions.

A thread that hangs is left behind, so these are daemons outside of any pool that is joined: neither a full pool nor the
end of the program waits for them. A thread that has finished is used again for a while.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

IDLE_SECONDS: Final = 10.0
"""How long a thread without work stays."""
IDLE_MOST: Final = 16
"""How many of them stay at most."""

_Work: TypeAlias = Callable[[], None]


class Threads:
    """Runs each function at once, in a thread of its own while it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_Work]] = []

    def start(self, call: Callable[[], object], name: str) -> asyncio.Future[object]:
        """Begin *call*; the future, of the running loop, is done when it is. Cancelling the future ends nothing."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            result: object = None
            failed: BaseException | None = None
            try:
                result = context.run(call)
            except BaseException as error:  # also what would end the thread: the call needs its result
                failed = error
            try:
                loop.call_soon_threadsafe(_settle, future, result, failed)
            except RuntimeError:  # the loop is closed: the program ended before the tool did
                return

        self._submit(work, name)
        return future

    def _submit(self, work: _Work, name: str) -> None:
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name=name, daemon=True).start()
        inbox.put(work)

    def _serve(self, inbox: queue.SimpleQueue[_Work]) -> None:
        while True:
            try:
                inbox.get(timeout=IDLE_SECONDS)()
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # somebody has just taken it to give it work
            with self._lock:
                if len(self._idle) >= IDLE_MOST:
                    return
                self._idle.append(inbox)


def _settle(future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | SystemExit | KeyboardInterrupt | asyncio.CancelledError):
        future.set_exception(RuntimeError(f"the tool raised {type(error).__name__}"))
    else:
        future.set_exception(error)
