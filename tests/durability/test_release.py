"""Letting go of live sessions: what is written first, and who may write next."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.durability import keeping
from tests.durability.keeping import (
    Watched,
    keeper,
    log_under,
    say,
    until_so,
    watched,
)
from tests.log.sessions import lines, user
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


async def held_at_the_gate(store: Watched, live: LiveStore, session: Session) -> asyncio.Task[None]:
    """A release that is under way and waits until the gate is opened."""
    store.gate.clear()
    releasing = asyncio.create_task(live.release(session))
    await until_so(store.entered.is_set)
    return releasing


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
            releasing = await held_at_the_gate(store, live, session)
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
        store.refusals = [WriteFailed("full")] * 1000  # it is tried again until it is released
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
            releasing = await held_at_the_gate(store, live, session)
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
