"""Write-behind: from a live session to a store, on one thread per store.

A session's events are *accepted* at once, *written* within 20 ms (whole frames of compressed logs: within 200 ms or at
a barrier) and *durable* within 200 ms, or as soon as somebody waits for it. There is one future per waiting barrier
and none per event.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import Final

from turnlog.log import AnyEvent, Durable, Session
from turnlog.log.session import epoch_ms

from .attest import RunningHash, attest_line
from .base import Store
from .encode import lines_of
from .errors import StoreError

WRITE_WITHIN: Final = 0.02
"""Seconds until an accepted event of a plain log is written."""
SYNC_WITHIN: Final = 0.2
"""Seconds until an accepted event is durable."""


class WriteThread:
    """Does the writing of one store. Started by the first work, ended by ``close``."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[float, int, WriteBehind]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closing = False

    def schedule(self, writer: WriteBehind, at: float) -> None:
        """Have *writer* work at *at* (monotonic seconds), or as soon after as it can be."""
        with self._condition:
            heapq.heappush(self._due, (at, next(self._numbers), writer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="turnlog-writer", daemon=True)
                self._thread.start()
            if self._due[0][0] >= at:
                self._condition.notify()

    def close(self) -> None:
        """End the thread when nothing is due any more."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._due or self._due[0][0] > time.monotonic():
                    if self._closing and not self._due:
                        return
                    self._condition.wait(self._due[0][0] - time.monotonic() if self._due else None)
                writer = heapq.heappop(self._due)[2]
            writer.work()


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
        self._mutex = threading.Lock()
        self._waiting: list[tuple[int, Future[Durable]]] = []
        self._scheduled = False
        self._oldest = 0.0
        self._unsynced_since: float | None = None
        self._written = written
        self._durable = written
        self.failure: StoreError | None = None
        """Why the last attempt to write failed; cleared when a later one succeeds."""
        for event in session.events[written:]:
            self._pending.append(event)
        self._subscription = session.subscribe(self._accept)
        session.attach(self)
        if self._pending:
            self._wake()

    # -- the session's thread -----------------------------------------------------------------------------------

    def _accept(self, event: AnyEvent) -> None:
        self._pending.append(event)
        if not self._scheduled:
            self._wake()

    def _wake(self) -> None:
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
            self._waiting.append((length, future))
        self._thread.schedule(self, 0.0)
        return future

    def close(self) -> None:
        """Write and sync what is left, then let go of the session. Raises what writing raises."""
        self._subscription.close()
        self.barrier(len(self.session)).result()

    # -- the writer's thread ------------------------------------------------------------------------------------

    def work(self) -> None:
        """Write what is pending and sync what is due; never raises."""
        with self._mutex:
            waiting, self._waiting = self._waiting, []
        now = time.monotonic()
        try:
            self._write()
            if (
                waiting
                or self._frames
                or (self._unsynced_since is not None and now - self._unsynced_since >= SYNC_WITHIN)
            ):
                self._sync()
            elif self._unsynced_since is not None:
                self._thread.schedule(self, self._unsynced_since + SYNC_WITHIN)
        except StoreError as error:
            self.failure = error
            for _length, future in waiting:
                future.set_exception(error)
            return
        self.failure = None
        self._answer(waiting)

    def _write(self) -> None:
        self._scheduled = False  # before looking: an event that comes now schedules anew
        count = len(self._pending)
        if not count:
            return
        batch = list(itertools.islice(self._pending, count))
        lines = [line[:-1] for line in lines_of(batch)]
        self._store.append(self.session.id, self._lines, lines)
        for _ in range(count):
            self._pending.popleft()
        self._lines += len(lines)
        self._written += count
        self._hash.extend(batch)
        if self._unsynced_since is None:
            self._unsynced_since = self._oldest

    def _sync(self) -> None:
        if self._durable == self._written:
            return
        self._store.sync(self.session.id, attest_line(self._hash.seal(epoch_ms())))
        self._durable = self._written
        self._unsynced_since = None

    def _answer(self, waiting: list[tuple[int, Future[Durable]]]) -> None:
        for length, future in waiting:
            if self._durable >= length:
                future.set_result(Durable(length))
            else:  # the barrier came with events that were accepted after this batch was taken
                with self._mutex:
                    self._waiting.append((length, future))
                self._thread.schedule(self, 0.0)
