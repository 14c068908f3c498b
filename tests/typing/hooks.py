"""Hooks, as programs write them: every line is fine for both checkers. Nothing here runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, assert_type

from turnlog.bus import Bus, Emit, Next, Outcome, Parallel, Registration, Serial, Waterfall, stop
from turnlog.events import Payload, ToolCall, ToolResult
from turnlog.log import Session, SessionEvent


@dataclass(frozen=True)
class Decision:
    messages: tuple[str, ...]


@dataclass(frozen=True)
class PreStep(Waterfall["PreStep", Decision]):
    wire: ClassVar[str] = "agent/pre-step"
    turn: int


@dataclass(frozen=True)
class Stopping(Serial["Stopping", str]):
    wire: ClassVar[str] = "agent/turn-stopping"
    turn: int


@dataclass(frozen=True)
class Flush(Parallel):
    wire: ClassVar[str] = "session/flush"


@dataclass(frozen=True)
class Status(Emit):
    wire: ClassVar[str] = "agent/status"
    status: str


async def redact(event: PreStep, next: Next[PreStep, Decision]) -> Outcome[Decision]:
    return await next(replace(event, turn=2))


async def same(event: PreStep, next: Next[PreStep, Decision]) -> Outcome[Decision]:
    return await next()


async def guard(event: PreStep, next: Next[PreStep, Decision]) -> Outcome[Decision]:
    if event.turn > 3:
        return stop(Decision(()), reason="three turns are enough")
    outcome = await next(event)
    assert_type(outcome, Outcome[Decision])
    assert_type(outcome.value.messages, tuple[str, ...])
    assert_type(outcome.stopped, str | None)
    assert_type(outcome.stopped_by, str | None)
    return outcome.with_value(Decision((*outcome.value.messages, "more")))


async def configured(limit: int, event: PreStep, next: Next[PreStep, Decision]) -> Outcome[Decision]:
    return await next()


async def ask(event: Stopping) -> str | None:
    return "one more thing" if event.turn == 1 else None


async def always(event: Stopping) -> str:
    return "one more thing"


async def flush(event: Flush) -> None: ...


def told(event: Status) -> None: ...


def counted(label: str, event: Status) -> None: ...


def result(event: SessionEvent[ToolResult]) -> None:
    assert_type(event.data.call_id, str)


def any_fact(event: SessionEvent[Payload]) -> None: ...


class Plugin:
    async def pre_step(self, event: PreStep, next: Next[PreStep, Decision]) -> Outcome[Decision]:
        return await next()

    async def stopping(self, event: Stopping) -> str | None: ...

    async def flush(self, event: Flush) -> None: ...

    def status(self, event: Status) -> None: ...

    def call(self, event: SessionEvent[ToolCall]) -> None: ...

    async def __call__(self, event: PreStep, next: Next[PreStep, Decision]) -> Outcome[Decision]:
        return await next()


def registering(bus: Bus, plugin: Plugin, seen: list[Status], calls: list[SessionEvent[ToolCall]]) -> None:
    assert_type(bus.on(PreStep, redact), Registration)
    bus.on(PreStep, same, prepend=True)
    bus.on(PreStep, guard, deadline=None)
    bus.on(PreStep, guard, deadline=2.5, prepend=True)
    bus.on(PreStep, plugin.pre_step)
    bus.on(PreStep, plugin)
    bus.on(PreStep, partial(configured, 3))
    bus.on(Stopping, ask)
    bus.on(Stopping, always, deadline=1)
    bus.on(Stopping, plugin.stopping)
    bus.on(Flush, flush)
    bus.on(Flush, plugin.flush, deadline=None)
    bus.on(Status, told, prepend=True)
    bus.on(Status, plugin.status)
    bus.on(Status, partial(counted, "x"))
    bus.on(Status, lambda event: print(event.status))
    bus.on(Status, seen.append)
    bus.on(ToolResult, result)
    bus.on(ToolResult, any_fact)
    bus.on(ToolCall, plugin.call)
    bus.on(ToolCall, calls.append)
    bus.on(ToolCall, lambda event: print(event.data.name), prepend=True)
    with bus.on(PreStep, redact) as registration:
        assert_type(registration.closed, bool)


async def decide(event: PreStep) -> Decision:
    return Decision(())


async def dispatching(bus: Bus, session: Session) -> None:
    assert_type(await bus.waterfall(PreStep(1), decide), Outcome[Decision])
    assert_type(await bus.serial(Stopping(1)), str | None)
    await bus.parallel(Flush())
    bus.emit(Status("idle"))
    bus.attach(session).close()
    with bus.trace() as trace:
        assert_type([one.where for run in trace.of("agent/pre-step") for one in run.ran], list[str])
