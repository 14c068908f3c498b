"""Write-behind: from a live session to a store, on one thread per store.

A session's events are *accepted* at once, *written* within 20 ms (whole frames of compressed logs: within 200 ms or at
a barrier) and *durable* within 200 ms, or as soon as somebody waits for it. There is one future per waiting barrier
and none per event.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from turnlog.log import AnyEvent, Durable, Session
from turnlog.log.session import epoch_ms

from .attest import RunningHash, attest_line
from .base import Store
from .encode import packed_lines
from .errors import StoreError, WriteFailed

WRITE_WITHIN: Final = 0.02
"""Seconds until an accepted event of a plain log is written."""
SYNC_WITHIN: Final = 0.2
"""Seconds until an accepted event is durable."""
RETRY_WITHIN: Final = 1.0
"""Seconds until a batch that the disk refused is tried again, if nothing asks for it earlier."""
WORKERS: Final = 16
"""Sessions whose disk is waited for at once; more gained nothing on local disks."""


class WriteThread:
    """Does the writing of one store. Started by the first work, ended by ``close``.

    One thread decides what is due. When several sessions are due at once their disks' waiting is shared by a few
    workers; no session is ever worked on by two of them.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: dict[WriteBehind, float] = {}
        """When each writer is to work next; one time per writer, so that work never multiplies."""
        self._queue: list[tuple[float, int, WriteBehind]] = []
        """The same in order of time, with entries that were superseded."""
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._workers: ThreadPoolExecutor | None = None
        self._closing = False

    def schedule(self, writer: WriteBehind, at: float) -> None:
        """Have *writer* work at *at* (monotonic seconds) or earlier, or as soon after as it can be."""
        with self._condition:
            if self._due.get(writer, math.inf) <= at:
                return
            self._due[writer] = at
            heapq.heappush(self._queue, (at, next(self._numbers), writer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="turnlog-writer", daemon=True)
                self._thread.start()
            if self._queue[0][2] is writer:
                self._condition.notify()

    def close(self) -> None:
        """Do what is due, now, and end the thread."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while due := self._next():
            if len(due) == 1:
                due[0].work()
                continue
            if self._workers is None:
                self._workers = ThreadPoolExecutor(WORKERS, "turnlog-sync")
            list(self._workers.map(WriteBehind.work, due))
        if self._workers is not None:
            self._workers.shutdown()

    def _next(self) -> list[WriteBehind]:
        """The writers that are due, each once; waits for the first. Empty when the thread is to end."""
        with self._condition:
            while not (due := self._pop_due()) and not self._closing:
                self._condition.wait(self._queue[0][0] - time.monotonic() if self._queue else None)
            return due

    def _pop_due(self) -> list[WriteBehind]:
        now = math.inf if self._closing else time.monotonic()
        found: list[WriteBehind] = []
        while self._queue and (self._queue[0][0] <= now or self._due.get(self._queue[0][2]) != self._queue[0][0]):
            at, _number, writer = heapq.heappop(self._queue)
            if self._due.get(writer) == at:
                del self._due[writer]
                found.append(writer)
        return found


class WriteBehind:
    """Keeps one live session in a store; the session's ``Durability``."""

    def __init__(
        self,
        store: Store,
        session: Session,
        thread: WriteThread,
        *,
        lines: int,
        written: int,
        frames: bool,
        hash: RunningHash,
    ) -> None:
        """*lines* and *written*: how many log lines and events the store has already; *frames*: a batch is a frame,
        so batches are worth waiting for; *hash*: the logical log up to there."""
        self._store = store
        self.session = session
        self._thread = thread
        self._lines = lines
        self._frames = frames
        self._hash = hash
        self._pending: deque[AnyEvent] = deque()
        self._working = threading.Lock()
        """Held while the store is used."""
        self._mutex = threading.Lock()
        self._waiting: list[tuple[int, Future[Durable]]] = []
        self._closed = False
        self._scheduled = False
        self._oldest = 0.0
        self._unsynced_since: float | None = None
        self._accepted = written
        self._written = written
        self._durable = written
        self.failure: StoreError | None = None
        """Why the store could not keep what was accepted; None again as soon as it could."""
        for event in session.events[written:]:
            self._accept(event)
        self._subscription = session.subscribe(self._accept)
        session.attach(self)

    # -- the session's thread -----------------------------------------------------------------------------------

    def _accept(self, event: AnyEvent) -> None:
        self._pending.append(event)
        self._accepted += 1
        if not self._scheduled:
            self._scheduled = True
            self._oldest = now = time.monotonic()
            self._thread.schedule(self, now + (SYNC_WITHIN if self._frames else WRITE_WITHIN))

    async def durable(self, length: int) -> Durable:
        """See :class:`~turnlog.log.Durability`. Raises why the store could not, once; waiting again tries again."""
        if self._durable >= length:
            return Durable(length)
        return await asyncio.wrap_future(self.barrier(length))

    def barrier(self, length: int) -> Future[Durable]:
        """The same for threads: a future that nothing cancels."""
        future: Future[Durable] = Future()
        future.set_running_or_notify_cancel()
        with self._mutex:
            closed = self._closed
            if not closed:
                self._waiting.append((length, future))
        if closed:
            self._answer([(length, future)])
        else:
            self._thread.schedule(self, time.monotonic())
        return future

    def close(self) -> None:
        """Write and sync what was accepted, then let go of the session and the store. Raises what writing raises."""
        self._subscription.close()
        try:
            self.barrier(self._accepted).result()
        finally:
            with self._working, self._mutex:
                self._closed = True
                waiting, self._waiting = self._waiting, []
            self._answer(waiting)

    # -- the writer's thread ------------------------------------------------------------------------------------

    def work(self) -> None:
        """Write what is pending and sync what is due; never raises."""
        with self._working:
            if self._closed:
                return
            with self._mutex:
                waiting, self._waiting = self._waiting, []
            try:
                self._write()
                if waiting or self._frames or self._is_sync_due():
                    self._sync()
            except Exception as error:  # any store's error belongs to its session; the thread serves others too
                self._fail(error, waiting)
                return
            if self._durable == self._written:
                self.failure = None
            elif self._unsynced_since is not None:
                self._thread.schedule(self, self._unsynced_since + SYNC_WITHIN)
        self._answer(waiting)

    def _write(self) -> None:
        self._scheduled = False  # before looking: an event that comes now schedules anew
        count = len(self._pending)
        if not count:
            return
        batch = list(itertools.islice(self._pending, count))
        own = [event.line() for event in batch]
        lines = packed_lines(batch, own)
        self._store.append(self.session.id, self._lines, lines)
        for _ in range(count):
            self._pending.popleft()
        self._lines += len(lines)
        self._written += count
        self._hash.extend_lines(own)
        if self._unsynced_since is None:
            self._unsynced_since = self._oldest

    def _is_sync_due(self) -> bool:
        return self._unsynced_since is not None and time.monotonic() - self._unsynced_since >= SYNC_WITHIN

    def _sync(self) -> None:
        if self._durable == self._written:
            return
        self._store.sync(self.session.id, attest_line(self._hash.seal(epoch_ms())))
        self._durable = self._written
        self._unsynced_since = None

    def _fail(self, error: Exception, waiting: list[tuple[int, Future[Durable]]]) -> None:
        if not isinstance(error, StoreError):
            told = WriteFailed(
                f"session {self.session.id}: its store failed: {error!r}; what is not durable yet stays in memory"
            )
            told.__cause__ = error
            error = told
        self.failure = error
        if isinstance(error, WriteFailed):  # space may come back; another writer does not go away
            self._thread.schedule(self, time.monotonic() + RETRY_WITHIN)
        for _length, future in waiting:
            future.set_exception(error)

    def _answer(self, waiting: list[tuple[int, Future[Durable]]]) -> None:
        for length, future in waiting:
            if self._durable >= length:
                future.set_result(Durable(length))
            elif self._closed:
                future.set_exception(
                    StoreError(
                        f"session {self.session.id} was released with {self._durable} durable events; later ones are "
                        "in memory only. Resume it to go on."
                    )
                )
            else:  # another subscriber asked before we were told the event
                with self._mutex:
                    self._waiting.append((length, future))
                self._thread.schedule(self, time.monotonic() + WRITE_WITHIN)
