"""Write-behind: what is written when, what a barrier is, and what happens when the store refuses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.durability import keeping
from tests.durability.keeping import Watched, keeper, until, until_so, watched
from tests.log.sessions import chunk, lines, user
from turnlog.events import StepStart, TextDelta, TurnStart, UserMessage
from turnlog.log import Durable, Session
from turnlog.store import (
    ConcurrentWriter,
    LiveStore,
    LogCorrupt,
    MemoryStore,
    SessionLocked,
    StoreError,
    WriteFailed,
    behind,
    load,
    open_store,
)
from turnlog.store.source import Source


@pytest.fixture
def only_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before somebody waits for it, however slow this machine is."""
    for name in ("WRITE_WITHIN", "SYNC_WITHIN", "RETRY_WITHIN"):
        monkeypatch.setattr(behind, name, 10**6)


def say(session: Session, *texts: str) -> None:
    for text in texts:
        session.append(user(text, f"m{len(session)}"))


def stored(path: Path) -> list[bytes]:
    return list(Source(path).lines())[1:]


def log_under(root: Path) -> Path:
    return next(path for path in root.glob("*/*/session.jsonl*") if ".tmp" not in path.name)


# -- written, durable ---------------------------------------------------------------------------------------------


def test_nothing_is_on_disk_before_the_first_event(tmp_path: Path) -> None:
    async def main() -> None:
        root = tmp_path / "deep" / "root"
        async with open_store(root) as store:
            await store.create()
            session = await store.create(cwd="/a")
            assert await session.durable() == Durable(0)
        assert not root.parent.exists()

    asyncio.run(main())


def test_another_process_sees_an_event_that_nobody_waited_for(tmp_path: Path) -> None:
    """Plain: its line is there though no barrier was asked for; the reader waits for the bytes, nothing else."""
    reader = (
        "import sys, time, pathlib\n"
        "root, text = pathlib.Path(sys.argv[1]), sys.argv[2].encode()\n"
        "end = time.monotonic() + 60\n"
        "while time.monotonic() < end:\n"
        "    if any(text in log.read_bytes() for log in root.glob('*/*/session.jsonl')):\n"
        "        sys.exit(0)\n"
        "    time.sleep(0.002)\n"
        "sys.exit(1)\n"
    )

    async def main() -> None:
        async with open_store(tmp_path) as store:
            session = await store.create(id="s")
            for text in ("first", "second"):
                reading = subprocess.Popen([sys.executable, "-I", "-c", reader, str(tmp_path), f'"{text}"'])
                say(session, text)
                assert await asyncio.to_thread(reading.wait) == 0

    asyncio.run(main())


@pytest.mark.parametrize("compressed", [False, True])
def test_an_event_becomes_durable_without_anybody_waiting(compressed: bool) -> None:
    with watched(compressed=compressed) as (store, live):
        session = asyncio.run(_created(live))
        for text in ("a", "b"):
            say(session, text)
            until(lambda: keeper(session)._durable == len(session))
        assert store.lines("s") == lines(session)
        assert len(store.syncs) >= 2


async def _created(live: LiveStore, id: str = "s") -> Session:
    return await live.create(id=id)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_barrier_writes_and_syncs_at_once(tmp_path: Path, compressed: bool) -> None:
    """When it returns the event is in the file; what is durable already is answered without asking the store."""

    async def main() -> None:
        async with open_store(tmp_path, compressed=compressed) as store:
            session = await store.create(id="s")
            for number in range(10):
                say(session, str(number))
                assert await session.durable() == Durable(number + 1)
                assert stored(log_under(tmp_path)) == lines(session)
                assert await session.durable() == Durable(number + 1)

    asyncio.run(main())


@pytest.mark.usefixtures("only_barriers")
@pytest.mark.parametrize("compressed", [False, True])
def test_a_barrier_waits_for_no_clock(compressed: bool) -> None:
    with watched(compressed=compressed) as (store, live):
        session = asyncio.run(_created(live))
        for number in range(1, 4):
            say(session, "a")
            assert keeper(session).barrier(number).result(keeping.PATIENCE) == Durable(number)
            assert len(store.syncs) == number


def test_an_event_accepted_during_a_write_does_not_wait_for_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "SYNC_WITHIN", 10**6)
    with watched() as (store, live):
        session = asyncio.run(_created(live))
        store.gate.clear()
        say(session, "a")
        assert store.entered.wait(keeping.PATIENCE)
        say(session, "b")
        store.gate.set()
        until(lambda: store.lines("s") == lines(session))
        assert store.syncs == []


def test_streaming_writes_every_20_ms_and_not_more_often() -> None:
    """However many barriers there were before: work that is due is due once."""
    with watched() as (store, live):
        session = asyncio.run(_created(live))
        session.append(TurnStart(turn=1))
        session.append(StepStart(turn=1, step=1))
        for _ in range(50):
            session.append(chunk(TextDelta(0, "x")))
            keeper(session).barrier(len(session)).result()
        before, start = len(store.batches), time.monotonic()
        while time.monotonic() - start < 0.6:
            session.append(chunk(TextDelta(0, "x")))
            time.sleep(0.0002)
        seconds = time.monotonic() - start
        batches = len(store.batches) - before
        assert 2 <= batches <= seconds / behind.WRITE_WITHIN + seconds / behind.SYNC_WITHIN + 3
        assert len(keeper(session)._thread._queue) < 10


def test_compressed_logs_get_one_frame_per_barrier_or_200_ms() -> None:
    with watched(compressed=True) as (store, live):
        session = asyncio.run(_created(live))
        for _ in range(20):
            say(session, "a", "b", "c")
            keeper(session).barrier(len(session)).result()
        barriers, start = len(store.batches), time.monotonic()
        assert barriers <= 20 + 20
        for _ in range(100):
            say(session, "x")
            time.sleep(0.004)
        seconds = time.monotonic() - start
        assert 1 <= len(store.batches) - barriers <= seconds / behind.SYNC_WITHIN + 2


def test_there_is_one_future_per_barrier_and_none_per_event(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Counted(Future[Durable]):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(behind, "Future", Counted)
    with watched() as (_store, live):
        session = asyncio.run(_created(live))
        say(session, *map(str, range(1000)))
        until(lambda: keeper(session)._durable == 1000)
        assert made == []
        barriers = [keeper(session).barrier(1000) for _ in range(3)]
        assert [one.result() for one in barriers] == [Durable(1000)] * 3
        assert len(made) == 3


@pytest.mark.usefixtures("only_barriers")
def test_events_accepted_during_a_write_go_out_next_in_order() -> None:
    with watched() as (store, live):
        session = asyncio.run(_created(live))
        store.gate.clear()
        say(session, "a", "b")
        first = keeper(session).barrier(2)
        assert store.entered.wait(keeping.PATIENCE)
        say(session, "c", "d", "e")  # accepting never waits for the disk
        second = keeper(session).barrier(5)
        assert not first.done()
        store.gate.set()
        assert (first.result(), second.result().length) == (Durable(2), 5)
        assert [batch for _id, batch in store.batches] == [lines(session)[:2], lines(session)[2:]]


def test_a_barrier_asked_for_by_a_subscriber_that_hears_first_is_answered() -> None:
    with watched() as (_store, live):
        session = Session("s")
        asked: list[Future[Durable]] = []
        session.subscribe(lambda event: asked.append(keeper(session).barrier(event.seq + 1)))
        live.keep(session)
        say(session, "a", "b")
        assert [one.result(keeping.PATIENCE).length >= 1 for one in asked] == [True, True]


def test_barriers_need_no_event_loop() -> None:
    with watched() as (store, live):
        session = Session("s")
        live.keep(session)
        say(session, "a")
        assert keeper(session).barrier(1).result() == Durable(1)
        found: list[Durable] = []
        thread = threading.Thread(target=lambda: found.append(keeper(session).barrier(1).result()))
        thread.start()
        thread.join()
        assert found == [Durable(1)]
        assert store.lines("s") == lines(session)


def test_many_sessions_on_one_store_stay_apart(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            sessions = [await store.create(id=f"s{number}") for number in range(20)]
            for turn in range(5):
                for session in sessions:
                    say(session, f"{session.id} {turn}")
                await asyncio.gather(*(session.durable() for session in sessions[turn % 2 :: 2]))
        for session in sessions:
            assert load(tmp_path / "_no-cwd" / session.id).events == session.events

    asyncio.run(main())


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_barriers")
def test_a_refused_batch_is_kept_reported_and_written_later() -> None:
    async def main() -> None:
        store = Watched(MemoryStore())
        async with LiveStore(store) as live:
            session = await live.create(id="s")
            say(session, "a", "b")
            store.refusals = [WriteFailed("disk full"), WriteFailed("still full")]
            for reason in ("disk full", "still full"):
                with pytest.raises(WriteFailed, match=reason):
                    await session.durable()
                assert str(live.failure(session)) == reason
                assert [event.seq for event in session.events] == [0, 1]  # readable
                assert len(session.derive_messages()) == 2
            say(session, "c")  # and can be appended to
            assert await session.durable() == Durable(3)
            assert live.failure(session) is None
            assert store.lines("s") == lines(session)
            store.sync_refusals = [WriteFailed("no sync")]
            say(session, "d")
            with pytest.raises(WriteFailed, match="no sync"):
                await session.durable()
            assert str(live.failure(session)) == "no sync"
            assert await session.durable() == Durable(4)
            assert live.failure(session) is None
            assert store.lines("s") == lines(session)

    asyncio.run(main())


def test_a_refused_batch_is_tried_again_without_anybody_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "RETRY_WITHIN", 0.01)
    with watched() as (store, live):
        session = asyncio.run(_created(live))
        store.refusals = [WriteFailed("full")] * 3
        store.sync_refusals = [WriteFailed("no sync")]
        say(session, "a", "b")
        until(lambda: keeper(session)._durable == 2)
        assert (store.refusals, store.sync_refusals) == ([], [])
        assert store.lines("s") == lines(session)
        assert live.failure(session) is None


def test_a_writer_that_lost_its_session_does_not_try_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "RETRY_WITHIN", 0.001)
    with watched() as (store, live):
        session = asyncio.run(_created(live))
        store.refusals = [ConcurrentWriter("taken over")] * 50
        say(session, "a")
        until(lambda: live.failure(session))
        time.sleep(0.05)
        assert len(store.refusals) == 49
        store.refusals.clear()


@pytest.mark.usefixtures("only_barriers")
def test_any_error_of_a_store_is_its_sessions_own() -> None:
    """The thread that writes goes on for others, and the reason is told."""

    async def main() -> None:
        store = Watched(MemoryStore())
        async with LiveStore(store) as live:
            session, other = await live.create(id="s"), await live.create(id="t")
            store.refusals = [RuntimeError("odd")]
            say(session, "a")
            with pytest.raises(WriteFailed, match=r"session s: its store failed: RuntimeError\('odd'\)") as caught:
                await session.durable()
            assert isinstance(caught.value.__cause__, RuntimeError)
            say(other, "b")
            assert await other.durable() == Durable(1)
            assert await session.durable() == Durable(1)

    asyncio.run(main())


def test_cancelling_a_barrier_leaves_the_writing_to_go_on() -> None:
    async def main() -> None:
        store = Watched(MemoryStore())
        async with LiveStore(store) as live:
            session = await live.create(id="s")
            store.gate.clear()
            say(session, "a")
            waiting = asyncio.create_task(session.durable())
            await until_so(store.entered.is_set)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            store.gate.set()
            await until_so(lambda: keeper(session)._durable == 1)
            assert store.lines("s") == lines(session)
            store.gate.clear()
            say(session, "b")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.durable(), 0.01)
            store.gate.set()
            assert await session.durable() == Durable(2)

    asyncio.run(main())


# -- releasing, closing -------------------------------------------------------------------------------------------


def test_releasing_writes_everything_and_gives_the_session_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store, open_store(tmp_path) as other:
            session = await store.create(id="s")
            say(session, *map(str, range(100)))
            await store.release(session)
            assert load(log_under(tmp_path)).events == session.events
            assert await session.durable() == Durable(100)
            resumed = await other.resume("s")
            assert resumed.events[:100] == session.events
            session.append(user("late", "late"))
            with pytest.raises(StoreError, match="released with 100 durable events"):
                await session.durable()

    asyncio.run(main())


@pytest.mark.usefixtures("only_barriers")
def test_events_accepted_while_a_session_is_released_hang_nobody() -> None:
    async def main() -> None:
        store = Watched(MemoryStore())
        async with LiveStore(store) as live:
            session = await live.create(id="s")
            say(session, "a")
            store.gate.clear()
            releasing = asyncio.create_task(live.release(session))
            await until_so(store.entered.is_set)
            say(session, "too late")
            store.gate.set()
            await releasing
            assert store.lines("s") == lines(session)[:1]
            with pytest.raises(StoreError, match="released"):
                await session.durable()

    asyncio.run(main())


def test_letting_go_waits_for_what_was_told_only() -> None:
    """An event that comes after the store stopped listening is none that it waits for."""
    with watched() as (store, live):

        def let_go() -> None:
            session = Session("s")
            live.keep(session)
            say(session, "a")
            listening = keeper(session)._subscription

            class Slow:
                def close(self) -> None:
                    listening.close()
                    if len(session) == 1:  # the store itself ends everything once more
                        say(session, "too late")

            keeper(session)._subscription = Slow()  # type: ignore[assignment]
            keeper(session).close()

        thread = threading.Thread(target=let_go, daemon=True)
        thread.start()
        thread.join(keeping.PATIENCE)
        assert not thread.is_alive()
        assert len(store.lines("s")) == 1


@pytest.mark.usefixtures("only_barriers")
def test_a_release_that_is_refused_says_so_and_never_writes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "RETRY_WITHIN", 0.001)

    async def main() -> None:
        store = Watched(MemoryStore())
        live = LiveStore(store)
        session, other = await live.create(id="s"), await live.create(id="t")
        store.refusals = [WriteFailed("full")]
        say(session, "a")
        with pytest.raises(WriteFailed, match="full"):
            await live.release(session)
        store.refusals.clear()
        say(other, "b")
        assert store.released == ["s"]
        await asyncio.sleep(0.05)
        assert store.lines("s") == []
        await live.close()
        await live.close()
        assert store.lines("t") == lines(other)
        assert store.released == ["s", "t"]

    asyncio.run(main())


@pytest.mark.usefixtures("only_barriers")
def test_closing_writes_every_session_even_when_one_is_refused() -> None:
    async def main() -> None:
        store = Watched(MemoryStore())
        live = LiveStore(store)
        sessions = [await live.create(id=f"s{number}") for number in range(5)]
        for session in sessions:
            say(session, "a")
        store.refusals = [ConcurrentWriter("taken over")]
        with pytest.raises(ConcurrentWriter):
            await live.close()
        assert sorted(len(store.lines(session.id)) for session in sessions) == [0, 1, 1, 1, 1]
        for use in (live.create(), live.resume("s1")):
            with pytest.raises(StoreError, match="closed"):
                await use
        assert not [thread for thread in threading.enumerate() if thread is keeper(sessions[0])._thread._thread]

    asyncio.run(main())


@pytest.mark.usefixtures("only_barriers")
def test_a_cancelled_release_still_gives_the_session_back() -> None:
    async def main() -> None:
        store = Watched(MemoryStore())
        async with LiveStore(store) as live:
            session = await live.create(id="s")
            say(session, "a")
            store.gate.clear()
            releasing = asyncio.create_task(live.release(session))
            await until_so(store.entered.is_set)
            releasing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await releasing
            assert store.released == []  # its writer is still at work
            store.gate.set()
            await until_so(lambda: store.released == ["s"])
            assert store.lines("s") == lines(session)

    asyncio.run(main())


def test_a_resume_that_fails_or_is_cancelled_keeps_nobody_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store, open_store(tmp_path) as other:
            session = await store.create(id="s")
            say(session, "a", "b")
            await store.release(session)
            log, good = log_under(tmp_path), log_under(tmp_path).read_bytes()
            log.write_bytes(good.replace(b'"seq":1', b'"seq":7'))
            with pytest.raises(LogCorrupt):
                await store.resume("s")
            log.write_bytes(good)
            for _ in range(20):
                resuming = asyncio.create_task(store.resume("s"))
                await asyncio.sleep(0.0005)
                resuming.cancel()
                try:
                    await store.release(await resuming)  # it was faster than the cancellation
                except (asyncio.CancelledError, SessionLocked):
                    pass
            while True:  # a cancelled one may still be about to let go
                try:
                    resumed = await other.resume("s")
                    break
                except SessionLocked:
                    await asyncio.sleep(0.01)
            assert resumed.events[:2] == session.events
            assert len(resumed) == 3

    asyncio.run(main())


# -- BC-059 -------------------------------------------------------------------------------------------------------


def test_the_prompt_survives_a_kill_before_the_first_answer(tmp_path: Path) -> None:
    """BC-059: the user's text is durable before the request leaves; then the turn is closed as interrupted."""
    program = (
        "import asyncio, os, sys, turnlog\n"
        "from tests.log.sessions import user\n"
        "from turnlog.events import StepStart, TurnStart\n"
        "async def main():\n"
        "    store = turnlog.open_store(sys.argv[1])\n"
        "    session = await store.create(id='s')\n"
        "    session.append(TurnStart(turn=1)); session.append(user('an hour of work'))\n"
        "    session.append(StepStart(turn=1, step=1))\n"
        "    await session.durable()\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=Path.cwd(), check=False).returncode == -9

    async def main() -> None:
        async with open_store(tmp_path) as store:
            session = await store.resume("s")
            assert [event.type for event in session.events] == [
                "turn/start", "user/message", "step/start", "step/end", "turn/end", "session/end-seed",
            ]  # fmt: skip
            assert next(session.select(UserMessage)).data.content[0].text == "an hour of work"  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_real_disk_limit_refuses_a_batch_whole_and_the_retry_writes_it_once(tmp_path: Path) -> None:
    """BC-059: the file is cut back to its old length, the session stays readable and says why, and goes on later."""
    program = (
        "import asyncio, resource, sys, turnlog\n"
        "from pathlib import Path\n"
        "from tests.log.sessions import user\n"
        "from turnlog.store import WriteFailed\n"
        "def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))\n"
        "async def main():\n"
        "    async with turnlog.open_store(sys.argv[1], compressed=sys.argv[2] == 'zstd') as store:\n"
        "        session = await store.create(id='s')\n"
        "        session.append(user('kept', 'm0')); await session.durable()\n"
        "        log = next(Path(sys.argv[1]).glob('*/*/session.jsonl*'))\n"
        "        before = log.read_bytes(); limit(len(before) + 300)\n"
        "        import random; text = random.Random(1).randbytes(3000).hex()\n"
        "        session.append(user(text, 'm1')); session.append(user('more', 'm2'))\n"
        "        for _ in range(3):\n"
        "            try:\n"
        "                await session.durable(); print('durable?!')\n"
        "            except WriteFailed as error:\n"
        "                assert 'File too large' in str(error), error\n"
        "            assert log.read_bytes() == before\n"
        "            assert store.failure(session) and len(session.events) == 3\n"
        "        limit(resource.RLIM_INFINITY)\n"
        "        session.append(user('at last', 'm3')); await session.durable()\n"
        "        assert store.failure(session) is None\n"
        "        assert turnlog.load(log).events == session.events\n"
        "        assert turnlog.verify(log).verdict == 'ok'\n"
        "asyncio.run(main())\n"
    )
    for encoding in ("plain", "zstd"):
        command = [sys.executable, "-c", program, str(tmp_path / encoding), encoding]
        done = subprocess.run(command, cwd=Path.cwd(), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_first_append_that_no_disk_takes_leaves_nothing_behind(tmp_path: Path) -> None:
    """BC-059: the root cannot be made; there is no session, and the writer is told before anything is asked."""
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the root should be")

    async def main() -> None:
        store = open_store(blocked / "root")
        session = await store.create(id="s")
        say(session, "a")
        with pytest.raises(WriteFailed, match=r"cannot be made.*stays in memory"):
            await session.durable()
        blocked.unlink()
        blocked.mkdir()
        assert await session.durable() == Durable(1)
        await store.close()
        assert load(log_under(blocked / "root")).events == session.events

    asyncio.run(main())


def test_files_are_private_and_no_handle_is_left_open(tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")

    def count() -> int:
        return len([one for one in handles.iterdir() if str(tmp_path) in _target(one)]) if handles.exists() else 0

    async def main() -> None:
        async with open_store(tmp_path / "root") as store:
            sessions = [await store.create(id=f"s{number}") for number in range(10)]
            for session in sessions:
                say(session, "a")
                await session.durable()
                await store.release(session)
            assert count() == 0
        assert count() == 0
        for path in (tmp_path / "root", *(tmp_path / "root").rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path

    asyncio.run(main())


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
