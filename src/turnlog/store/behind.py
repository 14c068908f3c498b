"""Write-behind: from a live session to a store, on one thread per store.

A session's events are *accepted* at once, *written* within 20 ms (whole frames of compressed logs: within 200 ms or at
a barrier) and *durable* within 200 ms, or as soon as somebody waits for it. There is one future per waiting barrier
and none per event.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import heapq
import itertools
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final

from turnlog.log import AnyEvent, Durable, Session
from turnlog.log.proof import RequestProof
from turnlog.log.session import epoch_ms

from .answers import Answer, Post, Reply
from .attest import Note, RunningHash, ShownRequest, attest_line
from .base import AttestingStore, Store
from .encode import packed_lines
from .errors import ConcurrentWriter, StoreError, WriteFailed

WRITE_WITHIN: Final = 0.02
"""Seconds until an accepted event of a plain log is written."""
SYNC_WITHIN: Final = 0.2
"""Seconds until an accepted event is durable."""
SEAL_WITHIN: Final = 0.02
"""Seconds until what is durable is sealed."""
RETRY_WITHIN: Final = 1.0
"""Seconds until a batch that the disk refused is tried again, if nothing asks for it earlier."""
WORKERS: Final = 8
"""Disks that are waited for at once; more gained nothing on local ones."""


class _Crew:
    """A few threads that wait for disks, started when there is work for them."""

    def __init__(self, posts: _Posts) -> None:
        self._posts = posts
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def give(self, job: Callable[[], None]) -> None:
        """Have a job done soon. A job does not raise."""
        self._jobs.put(job)
        if len(self._threads) < WORKERS and self._jobs.qsize():
            thread = threading.Thread(target=self._run, name="turnlog-sync", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Wait for what was given, and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._posts.bring()


class _Posts:
    """The event loops that answers are brought to."""

    def __init__(self) -> None:
        self._post: Post | None = None
        self._others: list[Post] = []

    def here(self) -> Post:
        """What brings answers to the running event loop."""
        loop = asyncio.get_running_loop()
        post = self._post
        if post is None or post.loop is not loop:
            if post is not None:
                self._others = [
                    *(one for one in self._others if one.loop is not loop and not one.loop.is_closed()),
                    post,
                ]
            self._post = post = Post(loop)
        return post

    def bring(self) -> None:
        """From any thread, when it has nothing better to do than to wait: a loop that is woken wants to run."""
        if self._post is not None:
            self._post.bring()
        for post in self._others:
            post.bring()


class WriteThread:
    """Does the writing of one store. Started by the first work, ended by ``close`` or with the program.

    One thread decides what is due and writes it. When several sessions are due at once a few others wait for their
    disks, while it goes on writing; a new session waits for the disk already when it is first written, so all of that
    is theirs. No session is ever worked on by two of them.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._bell = threading.Lock()
        """Free when the thread is to wake up; it waits for it."""
        self._bell.acquire()
        self._due: dict[WriteBehind, float] = {}
        """When each writer is to work next; one time per writer, so that work never multiplies."""
        self._queue: list[tuple[float, int, WriteBehind]] = []
        """The same in order of time, with entries that were superseded."""
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._unsealed: dict[WriteBehind, float] = {}
        """When each writer is to seal what is durable, the earliest first."""
        self._sleeps_until = -math.inf
        """Until when the thread waits; it is awake before that, or is being woken."""
        self.posts = _Posts()
        self._crew = _Crew(self.posts)
        self._pid = os.getpid()
        self.closing = False
        """Whether all work is to be done at once, as the last."""

    @property
    def forked(self) -> bool:
        """Whether this is a forked child, where no thread of its parent runs and any lock may be held for ever."""
        return os.getpid() != self._pid

    def schedule(self, writer: WriteBehind, at: float) -> bool:
        """Have *writer* work at *at* (monotonic seconds) or earlier, or as soon after as it can be; false when the
        thread is about to end, and will not."""
        with self._mutex:
            if self.closing:
                return False
            if self._due.get(writer, math.inf) <= at:
                return True
            self._due[writer] = at
            heapq.heappush(self._queue, (at, next(self._numbers), writer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="turnlog-writer", daemon=True)
                self._thread.start()
                atexit.register(self._at_exit)
            self._wake_by(at)
            return True

    def schedule_seal(self, writer: WriteBehind) -> None:
        """Have *writer* seal what is durable soon; not at once, or writers that wait all the time would pay for it."""
        if writer in self._unsealed:
            return
        with self._mutex:
            self._unsealed[writer] = at = time.monotonic() + SEAL_WITHIN
            self._wake_by(at)

    def _wake_by(self, at: float) -> None:
        """Wake the thread, unless it wakes by itself early enough."""
        if at < self._sleeps_until:
            self._sleeps_until = -math.inf
            self._bell.release()

    def close(self) -> None:
        """Do what is due, now, and end the thread. In a forked child there is none."""
        atexit.unregister(self._at_exit)
        self._end()

    def _at_exit(self) -> None:
        """A program that ends without closing its store still has written what it appended. Nothing is told it."""
        self._end()

    def _end(self) -> None:
        if self.forked:
            return
        with self._mutex:
            self.closing = True
            self._wake_by(-math.inf)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while work := self._next():
            if len(work) == 1:
                work[0]()
                continue
            for begin in work:
                if (finish := begin()) is not None:
                    self._crew.give(finish)
        self._crew.close()
        for writer in self._pop_seals(math.inf):  # what the others made durable at the very end
            writer.seal()

    def _next(self) -> list[Callable[[], Callable[[], None] | None]]:
        """What is due, each writer once; waits for the first. Empty when the thread is to end."""
        while True:
            with self._mutex:
                closing = self.closing
                now = math.inf if closing else time.monotonic()
                due, seals = self._pop_due(now), self._pop_seals(now)
                idle = not (due or seals or closing)
                if idle:
                    self._sleeps_until = at = self._next_time()
            self.posts.bring()
            if not idle:
                break
            self._sleep(at - now)
        if len(due) == 1 and not seals:
            return [due[0].work]
        return [
            *(writer.begin if writer.stored else writer.work_elsewhere for writer in due),
            *(one.seal for one in seals),
        ]

    def _sleep(self, seconds: float) -> None:
        """Wait for the bell, or so long; then the bell rings no more until the next sleep."""
        rung = self._bell.acquire(timeout=-1 if seconds == math.inf else min(max(seconds, 0), threading.TIMEOUT_MAX))
        if not rung:
            with self._mutex:
                if self._sleeps_until == -math.inf:
                    self._bell.acquire()  # it rang just now
                self._sleeps_until = -math.inf

    def _next_time(self) -> float:
        """When something is due."""
        at = self._queue[0][0] if self._queue else math.inf
        return min(at, next(iter(self._unsealed.values()), math.inf))

    def _pop_due(self, now: float) -> list[WriteBehind]:
        found: list[WriteBehind] = []
        while self._queue and (self._queue[0][0] <= now or self._due.get(self._queue[0][2]) != self._queue[0][0]):
            at, _number, writer = heapq.heappop(self._queue)
            if self._due.get(writer) == at:
                del self._due[writer]
                found.append(writer)
        return found

    def _pop_seals(self, now: float) -> list[WriteBehind]:
        found: list[WriteBehind] = []
        for writer, at in self._unsealed.items():
            if at > now:
                break
            found.append(writer)
        for writer in found:
            del self._unsealed[writer]
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
        self._unhashed: deque[list[bytes]] = deque()
        """The own lines of written batches that the hash does not know yet: nobody waits for it."""
        self._pending: deque[AnyEvent] = deque()
        self._working = threading.Lock()
        """Held while the store is used."""
        self._mutex = threading.Lock()
        self._waiting: list[tuple[int, Answer]] = []
        self._closed = False
        self._scheduled = False
        self._oldest = 0.0
        self._sealed = written
        """How many events the last seal was about."""
        self._unsynced_since: float | None = None
        self._accepted = written
        self._written = written
        self._durable = written
        self.failure: StoreError | None = None
        """Why the store could not keep what was accepted; None again as soon as it could."""
        for event in session.events[written:]:
            self._accept(event)
        self._subscription = session.subscribe(self._accept)
        self._records: deque[ShownRequest | Note] = deque()
        """What is to be attested with the next seal."""
        session.attach(self, self)

    # -- the session's thread -----------------------------------------------------------------------------------

    def _accept(self, event: AnyEvent) -> None:
        self._pending.append(event)
        self._accepted += 1
        if not self._scheduled and not self._thread.forked:
            self._scheduled = True
            self._oldest = now = time.monotonic()
            self._thread.schedule(self, now + (SYNC_WITHIN if self._frames else WRITE_WITHIN))

    def keep_proof(self, proof: RequestProof) -> None:
        """See :class:`~turnlog.log.proof.ProofKeeper`."""
        told = (proof.turn, proof.step, proof.attempt, proof.messages, proof.header, proof.chain)
        self._keep(ShownRequest(proof.seq, *told, epoch_ms()))

    def keep_note(self, text: str) -> None:
        """See :class:`~turnlog.log.proof.ProofKeeper`."""
        self._keep(Note(self._accepted, text, epoch_ms()))

    def _keep(self, record: ShownRequest | Note) -> None:
        self._records.append(record)
        if not self._thread.forked:
            self._thread.schedule_seal(self)

    async def durable(self, length: int) -> Durable:
        """See :class:`~turnlog.log.Durability`. Raises why the store could not, once; waiting again tries again.

        Cancelling it leaves the writing to go on.
        """
        if self._durable >= length:
            return Durable(length)
        reply = Reply(self._thread.posts.here())
        self._ask(length, reply)
        return await reply

    def barrier(self, length: int) -> Future[Durable]:
        """The same for threads: a future that nothing cancels."""
        future: Future[Durable] = Future()
        future.set_running_or_notify_cancel()
        self._ask(length, future)
        return future

    def _ask(self, length: int, answer: Answer) -> None:
        if self._thread.forked:  # our locks may be held by threads that are not here
            answer.set_exception(self._forked())
            self._thread.posts.bring()
            return
        with self._mutex:
            closed = self._closed
            if not closed:
                self._waiting.append((length, answer))
        if closed:
            self._answer([(length, answer)])
            self._thread.posts.bring()
        elif not self._thread.schedule(self, time.monotonic()):
            self.work()
            self._thread.posts.bring()

    def close(self) -> None:
        """Write and sync what was accepted, then let go of the session and the store. Raises what writing raises."""
        self._subscription.close()
        if self._thread.forked:
            raise self._forked()
        try:
            self.barrier(self._accepted).result()
        finally:
            with self._working, self._mutex:
                self._seal()
                self._closed = True
                waiting, self._waiting = self._waiting, []
            self._answer(waiting)
            self._thread.posts.bring()

    def _forked(self) -> ConcurrentWriter:
        return ConcurrentWriter(
            f"session {self.session.id} is kept by the process that this one (pid {os.getpid()}) was forked from; here "
            "it is in memory only. Fork before a store is opened, or open it anew when that process is done."
        )

    # -- the writer's threads -----------------------------------------------------------------------------------

    def work(self) -> None:
        """Write what is pending and sync what is due; never raises."""
        if (finish := self.begin()) is not None:
            finish()

    @property
    def stored(self) -> bool:
        """Whether the store has something of the session; making a new one takes waiting for the disk."""
        return self._written > 0

    def work_elsewhere(self) -> Callable[[], None]:
        """All of the work, for any thread."""
        return self.work

    def begin(self) -> Callable[[], None] | None:
        """Write what is pending; gives what is left to do, on any thread, when something is to be synced: until then
        the session is worked on. Never raises, nor does that."""
        self._working.acquire()
        with self._mutex:
            waiting, self._waiting = self._waiting, []
        try:
            if not self._closed:
                self._write()
        except Exception as error:  # any store's error belongs to its session; the thread serves others too
            self._fail(error, waiting)
        else:
            if self._durable < self._written and (waiting or self._is_sync_due()):
                return lambda: self._finish(waiting)
            self._done(waiting)
        self._working.release()
        return None

    def _finish(self, waiting: list[tuple[int, Answer]]) -> None:
        try:
            self._store.sync(self.session.id)
        except Exception as error:  # as above
            self._fail(error, waiting)
        else:
            self._durable = self._written
            self._unsynced_since = None
            self._done(waiting)
            self._thread.schedule_seal(self)
        self._working.release()

    def _done(self, waiting: list[tuple[int, Answer]]) -> None:
        if self._durable == self._written:
            self.failure = None
        elif self._unsynced_since is not None:
            self._thread.schedule(self, self._unsynced_since + SYNC_WITHIN)
        self._answer(waiting)

    def attest(self) -> None:
        """Have what the store has already sealed soon; it is durable."""
        with self._working:
            if not self._written or self._durable < self._written:
                return
            self._sealed = 0
            self._thread.schedule_seal(self)

    def seal(self) -> None:
        """Seal what is durable; never raises."""
        with self._working:
            self._seal()

    def _seal(self) -> None:
        while self._unhashed and self._hash.length + len(self._unhashed[0]) <= self._durable:
            self._hash.extend_lines(self._unhashed.popleft())
        lines = []
        if self._sealed < self._hash.length:
            self._sealed = self._hash.length
            lines.append(attest_line(self._hash.seal(epoch_ms())))
        while self._records and self._records[0].seq <= self._durable:
            lines.append(attest_line(self._records.popleft()))
        if lines and not self._closed and isinstance(self._store, AttestingStore):
            with contextlib.suppress(Exception):  # it proves, it does not keep; the next write meets the reason again
                self._store.attest(self.session.id, b"".join(lines))

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
        self._unhashed.append(own)
        if self._unsynced_since is None:
            self._unsynced_since = self._oldest

    def _is_sync_due(self) -> bool:
        if self._frames or self._thread.closing:
            return True
        return self._unsynced_since is not None and time.monotonic() - self._unsynced_since >= SYNC_WITHIN

    def _fail(self, error: Exception, waiting: list[tuple[int, Answer]]) -> None:
        if not isinstance(error, StoreError):
            told = WriteFailed(
                f"session {self.session.id}: its store failed: {error!r}; what is not durable yet stays in memory"
            )
            told.__cause__ = error
            error = told
        self.failure = error
        if isinstance(error, WriteFailed):  # space may come back; another writer does not go away
            self._thread.schedule(self, time.monotonic() + RETRY_WITHIN)
        for _length, answer in waiting:
            answer.set_exception(error)

    def _answer(self, waiting: list[tuple[int, Answer]]) -> None:
        for length, answer in waiting:
            if self._durable >= length:
                answer.set_result(Durable(length))
            elif self._closed:
                answer.set_exception(
                    StoreError(
                        f"session {self.session.id} was released with {self._durable} durable events; later ones are "
                        "in memory only. Resume it to go on."
                    )
                )
            else:  # another subscriber asked before we were told the event
                with self._mutex:
                    self._waiting.append((length, answer))
                self._thread.schedule(self, time.monotonic() + WRITE_WITHIN)
