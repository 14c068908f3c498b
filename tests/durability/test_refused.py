"""Write-behind when the store refuses: what is told, what is kept, what is tried again."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.durability.keeping import (
    Watched,
    created,
    keeper,
    say,
    until,
    until_so,
    watched,
)
from tests.log.sessions import lines
from turnlog.log import Durable
from turnlog.store import (
    ConcurrentWriter,
    LiveStore,
    MemoryStore,
    WriteFailed,
    behind,
)


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
        session = asyncio.run(created(live))
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
        session = asyncio.run(created(live))
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
