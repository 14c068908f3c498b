"""Deadlines count a listener's own time; cancelling, wherever a dispatch waits, leaves nothing running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tests.bus.hooks import Flush, PreStep, Stopping, pass_on, place, shout
from turnlog.bus import Bus, HookTimeout, Next, Outcome, stop

Rest = Next[PreStep, str]

# -- deadlines --------------------------------------------------------------------------------------------------------


async def hangs(*_: Any) -> Any:
    await anyio.sleep_forever()


async def slow_default(event: PreStep) -> str:
    await anyio.sleep(0.1)
    return event.text


def test_a_listener_that_hangs_is_cut_off_at_its_deadline_and_named() -> None:
    async def main() -> None:
        bus = Bus(deadline=0.01)
        bus.on(PreStep, pass_on)
        bus.on(PreStep, hangs)
        bus.on(Stopping, hangs)
        bus.on(Flush, hangs)
        with pytest.raises(HookTimeout) as caught:
            await bus.waterfall(PreStep(), shout)
        assert str(caught.value) == (
            f"agent/pre-step: {place(hangs)} ran longer than its deadline of 0.01 s and was cancelled"
        )
        assert (caught.value.code, caught.value.listener) == ("HOOK_TIMEOUT", place(hangs))
        with pytest.raises(HookTimeout, match="agent/turn-stopping"):
            await bus.serial(Stopping())
        with pytest.raises(ExceptionGroup) as group:
            await bus.parallel(Flush())
        assert group.group_contains(HookTimeout, match="session/flush")

    anyio.run(main)


def test_waiting_for_the_rest_of_the_chain_is_not_counted() -> None:
    async def around(event: PreStep, next: Rest) -> Outcome[str]:
        await anyio.sleep(0)
        outcome = await next()
        await anyio.sleep(0)
        return outcome

    async def main() -> None:
        bus = Bus(deadline=0.05)
        bus.on(PreStep, around)
        bus.on(PreStep, around)
        assert (await bus.waterfall(PreStep(), slow_default)).value == "hello"

    anyio.run(main)


@pytest.mark.parametrize("when", ["before", "after"])
def test_time_before_and_after_the_rest_is_counted_together(when: str) -> None:
    async def slow(event: PreStep, next: Rest) -> Outcome[str]:
        if when == "before":
            await anyio.sleep(5)
        await anyio.sleep(0.03)
        outcome = await next()
        await anyio.sleep(5)
        return outcome

    async def main() -> float:
        bus = Bus(deadline=0.06)
        bus.on(PreStep, slow)
        started = time.monotonic()
        with pytest.raises(HookTimeout):
            await bus.waterfall(PreStep(), slow_default)
        return time.monotonic() - started

    assert anyio.run(main) < 4


def test_a_deadline_that_rings_while_the_rest_runs_rings_again_when_it_is_due() -> None:
    async def slow(event: PreStep, next: Rest) -> Outcome[str]:
        outcome = await next()
        await anyio.sleep(0.03)
        return outcome

    async def main() -> None:
        bus = Bus(deadline=0.06)
        with bus.on(PreStep, slow):
            assert (await bus.waterfall(PreStep(), slow_default)).value == "hello"
        loop: Any = asyncio.get_running_loop()
        await asyncio.sleep(0)
        assert [one for one in loop._scheduled if not one.cancelled()] == []

    anyio.run(main)


def test_a_listener_that_blocked_past_its_deadline_does_not_begin_the_rest() -> None:
    async def blocks(event: PreStep, next: Rest) -> Outcome[str]:
        time.sleep(0.03)
        return await next()

    async def never(event: PreStep) -> str:
        raise AssertionError

    async def main() -> None:
        bus = Bus(deadline=0.01)
        bus.on(PreStep, blocks)
        with pytest.raises(HookTimeout):
            await bus.waterfall(PreStep(), never)

    anyio.run(main)


def test_a_registration_may_have_its_own_deadline_or_none() -> None:
    async def slow(event: PreStep, next: Rest) -> Outcome[str]:
        await anyio.sleep(0.03)
        return await next()

    async def main() -> None:
        bus = Bus(deadline=0.01)
        for deadline in (None, 5):
            with bus.on(PreStep, slow, deadline=deadline):
                assert (await bus.waterfall(PreStep(), shout)).value == "HELLO"
        patient = Bus(deadline=None)
        with patient.on(PreStep, slow):
            assert (await patient.waterfall(PreStep(), shout)).value == "HELLO"
        with patient.on(PreStep, slow, deadline=0.01), pytest.raises(HookTimeout, match=r"0\.01 s"):
            await patient.waterfall(PreStep(), shout)

    anyio.run(main)


def test_the_time_limit_is_60_seconds_unless_told_otherwise() -> None:
    assert Bus().on(PreStep, pass_on).deadline == 60


def test_a_listener_that_swallows_a_time_out_cannot_wait_any_more() -> None:
    async def stubborn(event: PreStep, next: Rest) -> Outcome[str]:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            pass
        return await next()

    async def never(event: PreStep) -> str:
        raise AssertionError

    async def main() -> None:
        bus = Bus(deadline=0.01)
        bus.on(PreStep, stubborn)
        with pytest.raises(HookTimeout):
            await bus.waterfall(PreStep(), never)

    anyio.run(main)


# -- cancelling -------------------------------------------------------------------------------------------------------


class Watch:
    """What is open, in order, and what was; and a place to be cancelled at every wait."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.closed: list[str] = []
        self.finished = 0

    @asynccontextmanager
    async def inside(self, name: str) -> AsyncIterator[None]:
        self.open.append(name)
        try:
            await anyio.sleep(0)
            yield
            await anyio.sleep(0)
            self.finished += 1
        finally:
            self.open.remove(name)
            self.closed.append(name)


def waterfall(watch: Watch) -> Callable[[], Awaitable[object]]:
    bus = Bus()

    def around(name: str) -> Any:
        async def listener(event: PreStep, next: Rest) -> Outcome[str]:
            async with watch.inside(name):
                return await next()

        return listener

    async def in_a_task(event: PreStep, next: Rest) -> Outcome[str]:
        async with watch.inside("task"):
            return await asyncio.create_task(next())  # type: ignore[arg-type]

    async def default(event: PreStep) -> str:
        async with watch.inside("default"):
            return event.text

    for listener in (around("a"), in_a_task, around("b")):
        bus.on(PreStep, listener)
    return lambda: bus.waterfall(PreStep(), default)


def serial(watch: Watch) -> Callable[[], Awaitable[object]]:
    bus = Bus()

    def listener(name: str) -> Any:
        async def ask(event: Stopping) -> None:
            async with watch.inside(name):
                pass

        return ask

    for name in "abc":
        bus.on(Stopping, listener(name))
    return lambda: bus.serial(Stopping())


def parallel(watch: Watch) -> Callable[[], Awaitable[object]]:
    bus = Bus()

    def listener(name: str) -> Any:
        async def flush(event: Flush) -> None:
            async with watch.inside(name):
                pass

        return flush

    for name in "abc":
        bus.on(Flush, listener(name))
    return lambda: bus.parallel(Flush())


async def cancelled_at(dispatch: Callable[[], Awaitable[object]], turns: int, how: str) -> bool:
    """Cancel a dispatch when the loop has turned *turns* times; False when it was over before."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await dispatch()

    task = asyncio.create_task(run())
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.done():
        return False
    if how == "task":
        task.cancel()
    else:
        scope.cancel()
    await asyncio.wait([task])
    assert task.cancelled() if how == "task" else scope.cancelled_caught or task.exception() is None
    for _ in range(3):  # a task of a listener's own ends right after it
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return True


@pytest.mark.parametrize("how", ["task", "scope"])
@pytest.mark.parametrize("mode", [waterfall, serial, parallel])
def test_cancelling_at_every_wait_leaves_nothing_running(mode: Any, how: str) -> None:
    async def main() -> int:
        for turns in range(100):
            watch = Watch()
            was_running = await cancelled_at(mode(watch), turns, how)
            assert watch.open == []
            if not was_running:
                assert watch.finished == (4 if mode is waterfall else 3)
                return turns
            if mode is waterfall:  # unwound from the inside out
                assert watch.closed == [name for name in ("default", "b", "task", "a") if name in watch.closed]
        raise AssertionError("it never ended")

    assert anyio.run(main) > 3


def test_a_cancelled_listener_cannot_run_the_rest_even_if_it_swallows_the_cancel() -> None:
    async def stubborn(event: PreStep, next: Rest) -> Outcome[str]:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return await next()
        return stop("no", reason="not reached")

    async def main() -> bool:
        bus = Bus()
        bus.on(PreStep, stubborn)

        async def never(event: PreStep) -> str:
            raise AssertionError

        with anyio.move_on_after(0.01) as scope:
            await bus.waterfall(PreStep(), never)
        return scope.cancelled_caught

    assert anyio.run(main)
