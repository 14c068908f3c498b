"""Two runs under a frozen clock and frozen ids write the same log."""

from __future__ import annotations

import threading

import pytest

from turnlog.events import Completed, Message, TextBlock, TurnEnd, TurnStart, UserMessage
from turnlog.events.value import new_id
from turnlog.log import Session
from turnlog.testing import FrozenClock, frozen_ids


def test_a_clock_stands_still_moves_when_told_and_steps_when_looked_at() -> None:
    still = FrozenClock(100)
    assert [still(), still()] == [100, 100]
    still.advance(50)
    assert still() == 150
    still.now = 7
    assert still() == 7
    ticking = FrozenClock(100, step_ms=-10)
    assert [ticking(), ticking(), repr(ticking)] == [100, 90, "FrozenClock(80, -10)"]


def test_ids_count_in_the_block_and_are_random_outside() -> None:
    with frozen_ids():
        assert [new_id(), UserMessage.of("x").id, Message.from_tool("c").id] == ["id-1", "id-2", "id-3"]
        assert Message.from_model(provider="p", model="m").id == "id-4"
        with frozen_ids("inner"):
            assert new_id() == "inner-1"
        assert Session().id == "session-id-5"
    assert len({new_id() for _ in range(100)}) == 100


def test_ids_are_random_again_after_a_failure_in_the_block() -> None:
    with pytest.raises(ZeroDivisionError), frozen_ids():
        raise ZeroDivisionError
    assert new_id() != "id-1"


def test_other_threads_take_their_ids_from_the_same_place() -> None:
    found: list[str] = []
    with frozen_ids():
        thread = threading.Thread(target=lambda: found.append(new_id()))
        thread.start()
        thread.join()
    assert found == ["id-1"]


def test_two_runs_write_the_same_bytes() -> None:
    def run() -> list[bytes]:
        with frozen_ids():
            session = Session(clock=FrozenClock(step_ms=10))
            session.append(TurnStart(turn=1))
            session.append(UserMessage.of("hello"))
            session.append(TurnEnd(turn=1, reason=Completed()))
            child = session.fork()
            child.append(UserMessage.of(TextBlock("again")))
            return [session.header.id.encode(), *(event.line() for one in (session, child) for event in one.events)]

    assert run() == run()
