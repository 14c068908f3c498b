"""Finds out that something will never happen, without waiting to see.

Under a :class:`Watch` everything that the store's threads can wait for (locks, queues, futures, the event loop, a
file lock) says so. As soon as no thread has anything left to do and somebody still waits, that is a stall: whoever
waits gets :class:`Stalled`, which names what each thread waits for. No time limit is part of it, so a slow machine is
no stall, and a stall is found at once.
"""

from __future__ import annotations

import asyncio
import fcntl
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar
from unittest.mock import patch

from turnlog.log import Durable
from turnlog.store import behind, live, lock

FOREVER: Final = 10**5
"""Seconds; who sleeps for longer does not wake up by itself in any test."""

T = TypeVar("T")


class Stalled(AssertionError):
    """No thread has anything left to do, and somebody waits."""


class _Wait(NamedTuple):
    what: str
    ready: Callable[[], bool]
    timed: bool


class Watch:
    """Knows of every thread whether it has anything left to do."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._threads: dict[int, str] = {threading.get_ident(): "the test"}
        self._waits: dict[int, _Wait] = {}
        self._coming = 0
        """Threads that are about to start."""
        self._wake: list[Callable[[], object]] = []
        self.stalled: str | None = None

    # -- what tests ask -----------------------------------------------------------------------------------------

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that others bring about."""
        with self._changed:
            self.wait("what the test waits for", lambda: bool(condition()))

    async def others_done(self) -> None:
        """Let the loop turn until no other thread has anything left to do."""
        me = threading.get_ident()
        while True:
            await asyncio.sleep(0)
            with self._changed:
                if not self._anybody_able(but=me):
                    return

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        """``asyncio.run``, watched."""
        loop = asyncio.SelectorEventLoop(_Selector(self))
        self._wake.append(lambda: loop.call_soon_threadsafe(lambda: None))
        try:
            return loop.run_until_complete(doing)
        finally:
            self._wake.clear()
            loop.close()

    # -- what waits ---------------------------------------------------------------------------------------------

    def wait(self, what: str, ready: Callable[[], bool], timeout: float = -1) -> bool:
        """Wait, with the monitor held, until *ready*; false when that took too long. Raises :class:`Stalled`."""
        me = threading.get_ident()
        end = time.monotonic() + timeout if 0 <= timeout < FOREVER else None
        self._waits[me] = _Wait(what, ready, end is not None)
        try:
            while not ready():
                self.check()
                self._tell()
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
            self._tell()  # others may have ended because of it
            return True
        finally:
            del self._waits[me]

    @contextmanager
    def waiting(self, what: str, ready: Callable[[], bool], *, timed: bool) -> Iterator[None]:
        """The same around something that waits by itself and is woken by :attr:`_wake`."""
        me = threading.get_ident()
        with self._changed:
            self._waits[me] = _Wait(what, ready, timed)
            self.check()
        try:
            yield
        finally:
            with self._changed:
                del self._waits[me]
        self._tell()

    def _tell(self) -> None:
        if self.stalled is not None:
            raise Stalled(self.stalled)

    def over(self) -> None:
        """End the threads that are left."""
        with self.changed():
            self.stalled = self.stalled or "the test is over"

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Hold the monitor while something changes that others may wait for."""
        with self._changed:
            yield
            self._changed.notify_all()

    def check(self) -> None:
        """Find a stall; with the monitor held."""
        if self.stalled is None and not self._anybody_able():
            told = [f"{name} waits for {self._waits[one].what}" for one, name in self._threads.items()]
            self.stalled = "no thread has anything left to do: " + "; ".join(told)
            self._changed.notify_all()
            for wake in self._wake:
                wake()

    def _anybody_able(self, but: int | None = None) -> bool:
        if self._coming:
            return True
        for one in self._threads.keys() - {but}:
            wait = self._waits.get(one)
            if wait is None or wait.timed or wait.ready():
                return True
        return False

    # -- threads ------------------------------------------------------------------------------------------------

    def coming(self, by: int = 1) -> None:
        """A thread is about to have something to do, or will not start after all."""
        with self.changed():
            self._coming += by
            self.check()

    def begun(self, name: str) -> None:
        """This thread has something to do; it was coming."""
        with self._changed:
            self._coming -= 1
            self._threads[threading.get_ident()] = name

    def ended(self, one: int) -> None:
        """A thread has nothing left to do and told everybody."""
        with self.changed():
            del self._threads[one]
            self.check()


class _Lock:
    def __init__(self, watch: Watch) -> None:
        self._watch, self._held = watch, False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        with self._watch._changed:
            if self._held and (not blocking or not self._watch.wait("a lock", lambda: not self._held, timeout)):
                return False
            self._held = True
            return True

    def release(self) -> None:
        with self._watch.changed():
            assert self._held, "released, and not held"
            self._held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class _Queue:
    def __init__(self, watch: Watch) -> None:
        self._watch, self._items = watch, deque[Any]()

    def put(self, item: Any) -> None:
        with self._watch.changed():
            self._items.append(item)

    def get(self) -> Any:
        with self._watch._changed:
            self._watch.wait("a job", lambda: bool(self._items))
            return self._items.popleft()

    def qsize(self) -> int:
        return len(self._items)


class _Selector(selectors.DefaultSelector):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def select(self, timeout: float | None = None) -> list[Any]:
        poll = super().select
        if timeout is not None and timeout <= 0:
            return poll(0)
        with self._watch.waiting("an event of its loop", lambda: bool(poll(0)), timed=timeout is not None):
            return poll(timeout)


@contextmanager
def watching(**seconds: float) -> Iterator[Watch]:
    """Watch what live stores do that are made meanwhile. Nothing of theirs is due before somebody waits for it, but for
    what *seconds* says (``WRITE_WITHIN=0.01``)."""
    watch = Watch()

    class Thread(threading.Thread):
        def __init__(self, *, target: Callable[[], None], name: str, daemon: bool) -> None:
            super().__init__(target=self._unwound, daemon=daemon, name=name)
            self._work = target
            watch.coming()

        def _unwound(self) -> None:
            watch.begun(self.name)
            try:
                self._work()
            except Stalled:
                pass  # whoever waits is told the same
            except BaseException as error:
                watch.stalled = f"{self.name} ended: {error!r}"
                raise
            finally:
                watch.ended(threading.get_ident())

        def join(self, timeout: float | None = None) -> None:
            with watch._changed:
                watch.wait(f"the end of {self.name}", lambda: self.ident not in watch._threads and not watch._coming)
            super().join(timeout)

    class Answer(Future[Durable]):
        def result(self, timeout: float | None = None) -> Durable:
            with watch._changed:
                watch.wait("the answer to a barrier", self.done)
            return super().result(timeout)

        def set_result(self, result: Durable) -> None:
            with watch.changed():
                super().set_result(result)

        def set_exception(self, exception: BaseException | None) -> None:
            with watch.changed():
                super().set_exception(exception)

    async def to_thread(work: Callable[..., T], *arguments: Any) -> T:
        ran: list[int] = []

        def watched() -> T:
            watch.begun(work.__name__)
            ran.append(threading.get_ident())
            return work(*arguments)

        watch.coming()
        doing = pool.submit(watched)
        told = asyncio.wrap_future(doing)
        doing.add_done_callback(lambda _: watch.ended(ran[0]) if ran else watch.coming(-1))  # when the loop was told
        return await told

    def flock(descriptor: int, how: int) -> None:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if how & fcntl.LOCK_NB:
                raise
            with watch._changed:
                watch.wait("a file lock", lambda: False)

    def made() -> Any:
        return _Lock(watch)

    threads = SimpleNamespace(Lock=made, Thread=Thread, TIMEOUT_MAX=threading.TIMEOUT_MAX)
    never = dict.fromkeys(("WRITE_WITHIN", "SYNC_WITHIN", "SEAL_WITHIN", "RETRY_WITHIN"), 10**6)
    with (
        ThreadPoolExecutor(thread_name_prefix="turnlog-other") as pool,
        patch.multiple(
            behind,
            threading=threads,
            SimpleQueue=lambda: _Queue(watch),
            Future=Answer,
            atexit=SimpleNamespace(register=id, unregister=id),
            **{**never, **seconds},
        ),
        patch.multiple(live, threading=threads, asyncio=SimpleNamespace(to_thread=to_thread)),
        patch.object(lock, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=fcntl.LOCK_EX, LOCK_NB=fcntl.LOCK_NB)),
    ):
        try:
            yield watch
        finally:
            watch.over()
