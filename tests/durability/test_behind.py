"""Write-behind: what is written when, and what a barrier is."""

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
from tests.durability.keeping import (
    created,
    held_at_gate,
    keeper,
    log_under,
    say,
    stored,
    until,
    watched,
)
from tests.log.sessions import chunk, lines
from turnlog.events import StepStart, TextDelta, TurnStart
from turnlog.log import Durable, Session
from turnlog.store import (
    behind,
    load,
    open_store,
)


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
        session = asyncio.run(created(live))
        for text in ("a", "b"):
            say(session, text)
            until(lambda: keeper(session)._durable == len(session))
        assert store.lines("s") == lines(session)
        assert len(store.syncs) >= 2


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
        session = asyncio.run(created(live))
        for number in range(1, 4):
            say(session, "a")
            assert keeper(session).barrier(number).result(keeping.PATIENCE) == Durable(number)
            assert len(store.syncs) == number


def test_an_event_accepted_during_a_write_does_not_wait_for_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "SYNC_WITHIN", 10**6)
    with watched() as (store, live):
        session = asyncio.run(created(live))
        with held_at_gate(store) as entered:
            say(session, "a")
            entered()
            say(session, "b")
        until(lambda: store.lines("s") == lines(session))
        assert store.syncs == []


def test_streaming_writes_every_20_ms_and_not_more_often() -> None:
    """However many barriers there were before: work that is due is due once."""
    with watched() as (store, live):
        session = asyncio.run(created(live))
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
        session = asyncio.run(created(live))
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
        session = asyncio.run(created(live))
        say(session, *map(str, range(1000)))
        until(lambda: keeper(session)._durable == 1000)
        assert made == []
        barriers = [keeper(session).barrier(1000) for _ in range(3)]
        assert [one.result() for one in barriers] == [Durable(1000)] * 3
        assert len(made) == 3


@pytest.mark.usefixtures("only_barriers")
def test_events_accepted_during_a_write_go_out_next_in_order() -> None:
    with watched() as (store, live):
        session = asyncio.run(created(live))
        with held_at_gate(store) as entered:
            say(session, "a", "b")
            first = keeper(session).barrier(2)
            entered()
            say(session, "c", "d", "e")  # accepting never waits for the disk
            second = keeper(session).barrier(5)
            assert not first.done()
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
