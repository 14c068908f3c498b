"""Misuses of hooks: each marked line must be rejected by both checkers, or its ignore is one too many. Nothing here
runs; what only the run can see (a second ``next``, an outcome of another dispatch) is in tests/bus."""

# What follows from an error that is already there:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false

from __future__ import annotations

from functools import partial

from turnlog.bus import Bus, Next, Outcome, Waterfall, stop
from turnlog.events import ToolCall, ToolResult
from turnlog.log import SessionEvent

from .hooks import Decision, Flush, PreStep, Status, Stopping, ask, decide, flush, guard, told

Rest = Next[PreStep, Decision]

# -- the contract of a waterfall --------------------------------------------------------------------------------------


async def returns_nothing(event: PreStep, next: Rest) -> None: ...


async def forgets_a_path(event: PreStep, next: Rest) -> Outcome[Decision]:  # type: ignore[return]  # pyright: ignore[reportReturnType]  # noqa: RET503
    if event.turn > 1:
        return await next()


async def bare_return(event: PreStep, next: Rest) -> Outcome[Decision]:
    if event.turn > 1:
        return  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # noqa: RET502
    return await next()


async def returns_a_value(event: PreStep, next: Rest) -> Outcome[Decision]:
    return Decision(())  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


async def says_it_returns_a_value(event: PreStep, next: Rest) -> Decision:
    return Decision(())


async def drops_the_outcome(event: PreStep, next: Rest) -> None:
    await next(event)


async def returns_the_value_of_the_outcome(event: PreStep, next: Rest) -> Outcome[Decision]:
    return (await next(event)).value  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


async def returns_without_awaiting(event: PreStep, next: Rest) -> Outcome[Decision]:
    return next(event)  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


async def calls_without_awaiting(event: PreStep, next: Rest) -> Outcome[Decision]:
    next(event)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    return stop(Decision(()), reason="why")


async def returns_the_outcome_of_another_event(event: PreStep, next: Rest, bus: Bus) -> Outcome[Decision]:
    return await bus.waterfall(Other(), other)  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


async def hands_on_another_event(event: PreStep, next: Rest) -> Outcome[Decision]:
    await next(Status("x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await next(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await next(event, event)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return await next(event=event)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def makes_an_outcome(event: PreStep, next: Rest) -> Outcome[Decision]:
    if event.turn == 1:
        return Outcome(Decision(()))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return Outcome(Decision(()), None, None, None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def stops_without_a_reason(event: PreStep, next: Rest) -> Outcome[Decision]:
    if event.turn == 1:
        return stop(Decision(()))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    return stop(Decision(()), "why")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def stops_with_another_value(event: PreStep, next: Rest) -> Outcome[Decision]:
    if event.turn == 1:
        return stop(None, reason="why")  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]
    return (await next()).with_value(3)  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


async def changes_what_it_was_given(event: PreStep, next: Rest) -> Outcome[Decision]:
    event.turn = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    outcome = await next()
    outcome.value = Decision(())  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    return outcome


class MyOutcome(Outcome[Decision]):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """Outcomes are made in one place."""


# -- registering ------------------------------------------------------------------------------------------------------


class Other(Waterfall["Other", int]):
    wire = "acme/other"


async def other(event: Other) -> int:
    return 3


async def of_another_event(event: Other, next: Next[Other, int]) -> Outcome[int]:
    return await next()


async def of_another_result(event: PreStep, next: Next[PreStep, int]) -> Outcome[int]:
    return await next()


async def without_next(event: PreStep) -> Outcome[Decision]:
    return stop(Decision(()), reason="why")


def synchronous(event: PreStep, next: Rest) -> Outcome[Decision]:
    return stop(Decision(()), reason="why")


def waterfalls(bus: Bus) -> None:
    bus.on(PreStep, returns_nothing)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, says_it_returns_a_value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, drops_the_outcome)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, of_another_event)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, of_another_result)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, without_next)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, synchronous)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, told)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, partial(guard, 3))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, None)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, guard, deadline="soon")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep(1), guard)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on("agent/pre-step", guard)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(PreStep, guard, True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def told_result(event: SessionEvent[ToolResult]) -> None: ...


async def slow_told(event: Status) -> None: ...


async def slow_fact(event: SessionEvent[ToolCall]) -> None: ...


async def answers_a_number(event: Stopping) -> int:
    return 3


def others(bus: Bus) -> None:
    bus.on(Stopping, answers_a_number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(Stopping, told)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(Stopping, guard)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(Flush, ask)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(Status, slow_told)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(Status, flush)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(Status, told, deadline=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(ToolCall, told_result)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(ToolCall, slow_fact)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(ToolCall, told)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(int, told)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


# -- dispatching ------------------------------------------------------------------------------------------------------


async def in_the_wrong_mode(bus: Bus) -> None:
    bus.emit(PreStep(1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    bus.emit(Flush())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bus.parallel(Status("x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bus.serial(PreStep(1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bus.waterfall(Stopping(1), decide)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bus.waterfall(PreStep(1), other)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bus.waterfall(PreStep(1))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
