"""Emit, parallel and serial, the facts of a session, and what a trace shows of them."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from tests.bus.hooks import Flush, PreStep, Status, Stopping, pass_on, place, shout
from turnlog.bus import Bus, HookTimeout, Next, Outcome, stop
from turnlog.events import Completed, StepStart, TurnEnd, TurnStart
from turnlog.log import Session, SessionEvent

# -- emit and facts ---------------------------------------------------------------------------------------------------


def test_emit_tells_all_at_once_and_contains_what_a_listener_raises(caplog: pytest.LogCaptureFixture) -> None:
    bus, seen = Bus(), []

    def fails(event: Status) -> None:
        raise ZeroDivisionError("boom")

    bus.on(Status, fails)
    bus.on(Status, seen.append)
    bus.emit(Status("a"))
    assert seen == [Status("a")]
    assert f"agent/status: {place(fails)} failed; what it was told about stands" in caplog.text
    assert "ZeroDivisionError: boom" in caplog.text


def test_emit_does_not_contain_what_ends_a_program() -> None:
    bus = Bus()

    def interrupts(event: Status) -> None:
        raise KeyboardInterrupt

    bus.on(Status, interrupts)
    with pytest.raises(KeyboardInterrupt):
        bus.emit(Status())


def test_facts_of_attached_sessions_are_told_after_they_are_committed() -> None:
    bus, lengths = Bus(), []
    session = Session()
    session.append(TurnStart(turn=1))

    def told(event: SessionEvent[TurnStart]) -> None:
        lengths.append((event.data.turn, len(session)))

    bus.on(TurnStart, told)
    subscription = bus.attach(session)
    session.append(TurnEnd(turn=1, reason=Completed()))
    session.append(TurnStart(turn=2))
    subscription.close()
    session.append(TurnEnd(turn=2, reason=Completed()))
    session.append(TurnStart(turn=3))
    assert lengths == [(2, 3)]


def test_a_listener_of_facts_cannot_refuse_or_add_one(caplog: pytest.LogCaptureFixture) -> None:
    bus, session = Bus(), Session()

    def appends(event: SessionEvent[TurnStart]) -> None:
        session.append(StepStart(turn=1, step=1))

    bus.on(TurnStart, appends)
    bus.attach(session)
    session.append(TurnStart(turn=1))
    assert [event.type for event in session.events] == ["turn/start"]
    assert f"turn/start: {place(appends)} failed" in caplog.text


# -- parallel ---------------------------------------------------------------------------------------------------------


def test_parallel_runs_all_at_once_and_waits_for_all() -> None:
    bus, order = Bus(), []

    def listener(name: str, turns: int) -> Any:
        async def wait(event: Flush) -> None:
            order.append(f"{name} began")
            for _ in range(turns):
                await anyio.sleep(0)
            order.append(f"{name} ended")

        return wait

    for name, turns in (("a", 4), ("b", 0), ("c", 2)):
        bus.on(Flush, listener(name, turns))
    anyio.run(bus.parallel, Flush())
    assert order[0] == "a began"
    assert order[-1] == "a ended"
    assert sorted(order) == sorted(f"{name} {what}" for name in "abc" for what in ("began", "ended"))


def test_parallel_raises_what_failed_together_after_all_are_over() -> None:
    bus, done = Bus(), []

    async def fails(event: Flush) -> None:
        raise ZeroDivisionError("boom")

    async def slow(event: Flush) -> None:
        await anyio.sleep(0.01)
        done.append("slow")
        raise ValueError("late")

    async def fine(event: Flush) -> None:
        done.append("fine")

    for one in (fails, slow, fine):
        bus.on(Flush, one)
    with pytest.raises(ExceptionGroup, match="session/flush: 2 of 3 listeners failed") as caught:
        anyio.run(bus.parallel, Flush())
    assert [type(one) for one in caught.value.exceptions] == [ZeroDivisionError, ValueError]
    assert caught.value.exceptions[1].__notes__ == [f"raised by {place(slow)}, a listener of session/flush"]
    assert sorted(done) == ["fine", "slow"]


def test_parallel_without_listeners_is_nothing() -> None:
    anyio.run(Bus().parallel, Flush())


# -- serial -----------------------------------------------------------------------------------------------------------


def test_serial_gives_the_first_answer_and_asks_nobody_after_it() -> None:
    bus, asked = Bus(), []

    def listener(name: str, answer: str | None) -> Any:
        async def ask(event: Stopping) -> str | None:
            asked.append(name)
            return answer

        return ask

    for name, answer in (("a", None), ("b", ""), ("c", "more")):
        bus.on(Stopping, listener(name, answer))
    assert anyio.run(bus.serial, Stopping()) == ""
    assert asked == ["a", "b"]


def test_serial_gives_none_when_nobody_answers() -> None:
    async def silent(event: Stopping) -> None: ...

    bus = Bus()
    assert anyio.run(bus.serial, Stopping()) is None
    bus.on(Stopping, silent)
    assert anyio.run(bus.serial, Stopping()) is None


def test_serial_passes_on_what_a_listener_raises_and_asks_nobody_after_it() -> None:
    async def fails(event: Stopping) -> None:
        raise ZeroDivisionError("boom")

    async def never(event: Stopping) -> None:
        raise AssertionError

    bus = Bus()
    bus.on(Stopping, fails)
    bus.on(Stopping, never)
    with pytest.raises(ZeroDivisionError) as caught:
        anyio.run(bus.serial, Stopping())
    assert caught.value.__notes__ == [f"raised by {place(fails)}, a listener of agent/turn-stopping"]


# -- traces -----------------------------------------------------------------------------------------------------------


async def guard(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
    return stop("no", reason="not today")


def test_a_trace_shows_who_ran_who_stopped_and_how_long() -> None:
    async def slow(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
        await anyio.sleep(0.02)
        return await next()

    async def slow_default(event: PreStep) -> str:
        await anyio.sleep(0.05)
        return event.text

    async def main() -> Any:
        bus = Bus()
        bus.on(PreStep, slow)
        bus.on(PreStep, pass_on)
        with bus.trace() as trace:
            await bus.waterfall(PreStep(), slow_default)
            with bus.on(PreStep, guard):
                await bus.waterfall(PreStep(), slow_default)
        await bus.waterfall(PreStep(), shout)
        return trace

    trace = anyio.run(main)
    through, stopped = trace.of("agent/pre-step")
    assert (through.mode, through.reached_default, stopped.reached_default) == ("waterfall", True, False)
    assert [one.where for one in through.ran] == [place(slow), place(pass_on)]
    assert [one.outcome for one in through.ran] == ["passed on", "passed on"]
    own, other = (one.seconds for one in through.ran)
    assert own > 0.015
    assert own + max(other, 0) + 0.045 < through.seconds  # the default's time is nobody's own
    assert [(one.outcome, one.detail) for one in stopped.ran] == [
        ("passed on", None), ("passed on", None), ("stopped", "not today")
    ]  # fmt: skip
    lines = str(trace).splitlines()
    assert lines[0].startswith("agent/pre-step (waterfall) ")
    assert lines[3] == "  the default ran"
    assert lines[7].startswith(f"  {place(guard)} stopped: not today ")
    assert lines[8] == "  the default did not run"


def test_a_trace_tells_raising_from_letting_through() -> None:
    async def fails(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
        raise ZeroDivisionError("boom")

    async def main() -> Any:
        bus = Bus()
        bus.on(PreStep, pass_on)
        bus.on(PreStep, fails)
        with bus.trace() as trace, pytest.raises(ZeroDivisionError):
            await bus.waterfall(PreStep(), shout)
        return trace.dispatches[0]

    dispatch = anyio.run(main)
    assert [(one.outcome, one.detail) for one in dispatch.ran] == [
        ("let through", "ZeroDivisionError: boom"), ("raised", "ZeroDivisionError: boom")
    ]  # fmt: skip


def test_a_trace_shows_every_mode_and_that_nobody_listened() -> None:
    async def answers(event: Stopping) -> str:
        return "more"

    async def flushes(event: Flush) -> None: ...

    async def main() -> Any:
        bus, session = Bus(), Session()
        bus.attach(session)
        bus.on(Stopping, answers)
        bus.on(Flush, flushes)
        bus.on(TurnStart, lambda event: None)
        with bus.trace() as outer, bus.trace() as trace:
            bus.emit(Status())
            await bus.serial(Stopping())
            await bus.parallel(Flush())
            await bus.waterfall(PreStep(), shout)
            session.append(TurnStart(turn=1))
            session.append(StepStart(turn=1, step=1))
        assert outer.dispatches == trace.dispatches
        return trace

    trace = anyio.run(main)
    assert [(one.wire, one.mode, [ran.outcome for ran in one.ran]) for one in trace.dispatches] == [
        ("agent/status", "emit", []),
        ("agent/turn-stopping", "serial", ["answered"]),
        ("session/flush", "parallel", ["returned"]),
        ("agent/pre-step", "waterfall", []),
        ("turn/start", "session", ["returned"]),
    ]


def test_a_trace_shows_time_outs_and_cancels() -> None:
    async def hangs(event: Stopping) -> None:
        await anyio.sleep_forever()

    async def main() -> Any:
        bus = Bus(deadline=0.01)
        with bus.trace() as trace:
            with bus.on(Stopping, hangs), pytest.raises(HookTimeout):
                await bus.serial(Stopping())
            with bus.on(Stopping, hangs, deadline=None):
                task = asyncio.create_task(bus.serial(Stopping()))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
        return trace

    first, second = anyio.run(main).dispatches
    assert (first.ran[0].outcome, first.ran[0].detail.partition(":")[0]) == ("raised", "HookTimeout")
    assert second.ran[0].outcome == "cancelled"
