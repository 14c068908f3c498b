"""Live sessions never stall; bugs that make them stall are planted, and each is found when it happens.

A stall is no time limit that passed, see :mod:`tests.durability.stalls`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import pytest

from tests.durability.keeping import Watched, held_at_gate, keeper, say
from tests.durability.stalls import Stalled, watching
from tests.log.sessions import lines
from turnlog.log import AnyEvent, Durable, Session
from turnlog.store import (
    ConcurrentWriter,
    LiveStore,
    MemoryStore,
    SessionLocked,
    StoreError,
    WriteFailed,
    live,
    lock,
    open_store,
)
from turnlog.store.answers import Post, Reply
from turnlog.store.behind import WriteBehind, WriteThread, _Crew, _Posts
from turnlog.store.lock import SessionLock

MANY: Final = 40
"""More sessions at once than there are threads that wait for disks."""


def _kept(id: str = "s") -> tuple[Watched, LiveStore, Session]:
    store = Watched(MemoryStore())
    keeping, session = LiveStore(store), Session(id)
    keeping.keep(session)
    return store, keeping, session


# -- what live sessions do --------------------------------------------------------------------------------------------


def barriers(tmp_path: Path) -> None:
    with watching():
        store, _, session = _kept()
        for number in range(1, 4):
            say(session, "a")
            assert keeper(session).barrier(number).result() == Durable(number)
        keeper(session).close()
        assert store.lines("s") == lines(session)


def nobody_waits(tmp_path: Path) -> None:
    with watching(WRITE_WITHIN=0.001, SYNC_WITHIN=0.002, SEAL_WITHIN=0.001) as watch:
        store, _, session = _kept()
        for _ in range(3):
            say(session, "a")
            watch.until(lambda: keeper(session)._durable == len(session))
        watch.until(lambda: b'"seq":3' in store.inner._attested.get("s", b""))  # type: ignore[attr-defined]


def refusals(tmp_path: Path) -> None:
    with watching(RETRY_WITHIN=0.001, SYNC_WITHIN=0.002) as watch:
        store, _, session = _kept()
        store.refusals = [WriteFailed("full"), WriteFailed("full")]
        store.sync_refusals = [WriteFailed("no sync")]
        say(session, "a")
        with pytest.raises(WriteFailed):
            keeper(session).barrier(1).result()
        watch.until(lambda: keeper(session)._durable == 1)
        store.refusals = [ConcurrentWriter("taken over")]
        say(session, "b")
        with pytest.raises(ConcurrentWriter):
            keeper(session).barrier(2).result()


def asked_by_an_earlier_subscriber(tmp_path: Path) -> None:
    """The write thread looks before the store is told the event."""
    with watching(WRITE_WITHIN=0.001) as watch:
        session = Session("s")
        asked: list[Any] = []
        begun: list[int] = []

        def ask(event: AnyEvent) -> None:
            before = len(begun)
            asked.append(keeper(session).barrier(event.seq + 1))
            watch.until(lambda: len(begun) > before)

        session.subscribe(ask)
        LiveStore(Watched(MemoryStore())).keep(session)
        begin = keeper(session).begin
        with patch.object(keeper(session), "begin", lambda: (begun.append(1), begin())[1]):
            say(session, "a", "b")
            for one in asked:
                one.result()


def many_at_once(tmp_path: Path) -> None:
    with watching():
        store = Watched(MemoryStore())
        keeping = LiveStore(store)
        sessions = [Session(f"s{number}") for number in range(MANY)]
        for session in sessions:
            keeping.keep(session)
        for length in (1, 2):
            with held_at_gate(store) as entered:
                asked = []
                for session in sessions:
                    say(session, "a")
                    asked.append(keeper(session).barrier(length))
                entered()
            assert [one.result() for one in asked] == [Durable(length)] * MANY
        keeping._thread.close()


def on_an_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            sessions = [await store.create(id=f"s{number}") for number in range(3)]
            for length in (1, 2, 3):
                for session in sessions:
                    say(session, "a")
                assert await sessions[0].durable() == Durable(length)
                await asyncio.gather(*(session.durable() for session in sessions))
            say(sessions[0], "b")
            cancelled = asyncio.create_task(sessions[0].durable())
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            await store.release(sessions[0])

    with watching() as watch:
        watch.run(main())


def released_while_written(tmp_path: Path) -> None:
    """Somebody waits for more than what the store was told before it let go."""
    with watching():
        store, keeping, session = _kept()
        with held_at_gate(store) as entered:
            say(session, "a")
            first = keeper(session).barrier(1)
            entered()
            late = keeper(session).barrier(2)
        assert first.result() == Durable(1)
        keeper(session).close()
        with pytest.raises(StoreError, match="released"):
            late.result()
        keeping._thread.close()


def taken_over(tmp_path: Path) -> None:
    """Resuming, alone and against others; cancelled before, while and after the session is taken."""

    async def resumed() -> None:
        async with open_store(tmp_path) as store, open_store(tmp_path) as other:
            session = await store.create(id="s")
            say(session, "a")
            await session.durable()
            with pytest.raises(SessionLocked):
                await other.resume("s")
            await store.release(session)
            for turns in range(4):
                resuming = asyncio.create_task(store.resume("s"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                resuming.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await store.release(await resuming)
                await watch.others_done()
            await other.release(await other.resume("s"))

    with watching() as watch:
        watch.run(resumed())


SCENARIOS: Final[tuple[Callable[[Path], None], ...]] = (
    barriers,
    nobody_waits,
    refusals,
    asked_by_an_earlier_subscriber,
    many_at_once,
    on_an_event_loop,
    released_while_written,
    taken_over,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_live_sessions_never_stall(tmp_path: Path, scenario: Callable[[Path], None]) -> None:
    scenario(tmp_path)


def test_a_stall_is_told_with_what_every_thread_waits_for() -> None:
    with watching() as watch:
        with pytest.raises(Stalled, match="the test waits for what the test waits for"):
            watch.until(lambda: False)
        assert watch.stalled is not None


# -- planted bugs -----------------------------------------------------------------------------------------------------


def _thread_not_woken() -> Any:
    return patch.object(WriteThread, "_wake_by", lambda self, at: None)


def _barrier_not_scheduled() -> Any:
    schedule = WriteThread.schedule
    return patch.object(
        WriteThread, "schedule", lambda self, writer, at: writer in self._due or schedule(self, writer, at)
    )


def _thread_ends_after_its_first_work() -> Any:
    def run(self: WriteThread) -> None:
        for one in self._next():
            if (finish := one()) is not None:
                finish()

    return patch.object(WriteThread, "_run", run)


def _answers_forgotten() -> Any:
    return patch.object(WriteBehind, "_done", lambda self, waiting: None)


def _failures_not_told() -> Any:
    fail = WriteBehind._fail
    return patch.object(WriteBehind, "_fail", lambda self, error, waiting: fail(self, error, []))


def _session_held_after_a_failure() -> Any:
    begin = WriteBehind.begin

    def held(self: WriteBehind) -> Any:
        finish = begin(self)
        if finish is None and self.failure is not None:
            self._working.acquire()
        return finish

    return patch.object(WriteBehind, "begin", held)


def _session_held_after_a_sync() -> Any:
    finish = WriteBehind._finish

    def held(self: WriteBehind, waiting: Any) -> None:
        finish(self, waiting)
        self._working.acquire()

    return patch.object(WriteBehind, "_finish", held)


def _refused_batch_not_tried_again() -> Any:
    fail = WriteBehind._fail

    def once(self: WriteBehind, error: Exception, waiting: Any) -> None:
        with patch.object(self._thread, "schedule", lambda writer, at: True):
            fail(self, error, waiting)

    return patch.object(WriteBehind, "_fail", once)


def _sync_not_scheduled() -> Any:
    def done(self: WriteBehind, waiting: Any) -> None:
        self._answer(waiting)

    return patch.object(WriteBehind, "_done", done)


def _second_batch_not_scheduled() -> Any:
    write = WriteBehind._write

    def once(self: WriteBehind) -> None:
        write(self)
        self._scheduled = True

    return patch.object(WriteBehind, "_write", once)


def _early_barrier_dropped() -> Any:
    answer = WriteBehind._answer

    def known(self: WriteBehind, waiting: list[tuple[int, Any]]) -> None:
        answer(self, [one for one in waiting if one[0] <= self._durable or self._closed])

    return patch.object(WriteBehind, "_answer", known)


def _late_barrier_dropped() -> Any:
    answer = WriteBehind._answer

    def known(self: WriteBehind, waiting: list[tuple[int, Any]]) -> None:
        answer(self, [one for one in waiting if one[0] <= self._durable or not self._closed])

    return patch.object(WriteBehind, "_answer", known)


def _seals_forgotten() -> Any:
    return patch.object(WriteThread, "schedule_seal", lambda self, writer: None)


def _job_lost() -> Any:
    give, number = _Crew.give, itertools.count()
    return patch.object(_Crew, "give", lambda self, job: give(self, job) if next(number) != 7 else None)


def _crew_never_ended() -> Any:
    def close(self: _Crew) -> None:
        for thread in self._threads:
            thread.join()

    return patch.object(_Crew, "close", close)


def _replies_not_brought() -> Any:
    return patch.object(_Posts, "bring", lambda self: None)


def _only_first_replies_brought() -> Any:
    def deliver(self: Post) -> None:
        while self.letters:
            self.letters.popleft().deliver()

    return patch.object(Post, "_deliver", deliver)


def _cancelled_barrier_hangs_its_task() -> Any:
    def cancel(self: Reply, msg: object = None) -> bool:
        self._done = True
        return True

    return patch.object(Reply, "cancel", cancel)


def _session_kept_by_a_cancelled_resume() -> Any:
    return patch.object(live._Taking, "abandon", lambda self: None)


def _session_not_given_back() -> Any:
    return patch.object(live, "_release", lambda store, session_id: None)


def _lock_waits() -> Any:
    waits = SimpleNamespace(flock=lambda fd, how: lock.fcntl.flock(fd, how), LOCK_EX=fcntl.LOCK_EX, LOCK_NB=0)
    begin = SessionLock.__init__

    def patient(self: SessionLock, *arguments: Any) -> None:
        watched = lock.fcntl
        waits.flock = watched.flock
        with patch.object(lock, "fcntl", waits):
            begin(self, *arguments)

    return patch.object(SessionLock, "__init__", patient)


def _lock_not_let_go() -> Any:
    return patch.object(SessionLock, "release", lambda self: None)


PLANTED: Final[dict[Callable[[], Any], tuple[Callable[[Path], None], type[BaseException]]]] = {
    _thread_not_woken: (barriers, Stalled),
    _barrier_not_scheduled: (barriers, Stalled),
    _thread_ends_after_its_first_work: (barriers, Stalled),
    _answers_forgotten: (barriers, Stalled),
    _failures_not_told: (refusals, Stalled),
    _session_held_after_a_failure: (refusals, Stalled),
    _session_held_after_a_sync: (barriers, Stalled),
    _refused_batch_not_tried_again: (refusals, Stalled),
    _sync_not_scheduled: (nobody_waits, Stalled),
    _second_batch_not_scheduled: (nobody_waits, Stalled),
    _seals_forgotten: (nobody_waits, Stalled),
    _early_barrier_dropped: (asked_by_an_earlier_subscriber, Stalled),
    _late_barrier_dropped: (released_while_written, Stalled),
    _job_lost: (many_at_once, Stalled),
    _crew_never_ended: (many_at_once, Stalled),
    _replies_not_brought: (on_an_event_loop, Stalled),
    _only_first_replies_brought: (on_an_event_loop, Stalled),
    _cancelled_barrier_hangs_its_task: (on_an_event_loop, Stalled),
    _session_kept_by_a_cancelled_resume: (taken_over, SessionLocked),
    _session_not_given_back: (taken_over, SessionLocked),
    _lock_waits: (taken_over, Stalled),
    _lock_not_let_go: (taken_over, SessionLocked),
}
"""Each bug with what shows it, and how."""


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what a stalled loop leaves behind
@pytest.mark.parametrize("plant", PLANTED, ids=lambda one: one.__name__.strip("_"))
def test_a_planted_bug_is_found(
    tmp_path: Path, plant: Callable[[], Any], record_property: Callable[[str, object], None]
) -> None:
    scenario, fault = PLANTED[plant]
    with plant(), pytest.raises(fault):
        scenario(tmp_path)
    gc.collect()
    record_property("proof", f"planted bug that makes sessions stall, found: {plant.__name__.strip('_')}")
