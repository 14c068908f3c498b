"""What the agent's tests share: a session with a still clock, and its log as short lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from turnlog.agent import Agent, RetryPolicy
from turnlog.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Errored,
    InboxSpliced,
    Payload,
    RequestHeader,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    UserMessage,
)
from turnlog.log import AnyEvent, Session
from turnlog.model import ScriptedModel, call, text
from turnlog.tools import tool

AT_ONCE = RetryPolicy(initial_ms=0, max_ms=0)


def agent_of(*answers: Any, tools: Iterable[Any] = (), session: Session | None = None, **options: Any) -> Agent:
    """An agent on a new session that gets *answers*."""
    session = Session(clock=lambda: 1_700_000_000_000) if session is None else session
    return Agent(session, ScriptedModel(answers), tools, **{"retry": AT_ONCE, **options})


def script(agent: Agent) -> ScriptedModel:
    """The agent's model."""
    model = agent._model
    assert isinstance(model, ScriptedModel)
    return model


def lines(session: Session, first: int = 0) -> list[str]:
    """One line per event, runs of chunks as one: ``assistant/chunk ×3``."""
    told: list[str] = []
    for event in list(session.events)[first:]:
        if event.type == "assistant/chunk":
            if told and told[-1].startswith("assistant/chunk"):
                count = int(told[-1].rpartition("×")[2]) + 1
                told[-1] = f"assistant/chunk ×{count}"
            else:
                told.append("assistant/chunk ×1")
        else:
            told.append(line(event))
    return told


def kinds(session: Session, first: int = 0) -> list[str]:
    """The same with the number of chunks left out."""
    return [one.partition(" ×")[0] if one.startswith("assistant/chunk") else one for one in lines(session, first)]


def line(event: AnyEvent) -> str:
    """An event's type and the fact that tells it from others of its type."""
    return f"{event.type}{fact(event.data)}"


def fact(data: Payload) -> str:
    match data:
        case InboxSpliced(value=value):
            assert isinstance(value, dict) or hasattr(value, "items")
            sign = f"+{len(value['inserted'])}" if value["inserted"] else ""
            sign += f"-{value['removedCount']}" if "removedCount" in value else ""
            return f" {value['target']} {sign}" + (" canceled" if "outcome" in value else "")
        case TurnEnd(reason=Aborted(reason=cause)):
            return f" aborted {type(cause).__name__.removeprefix('CancelledBy').lower()}"
        case TurnEnd(reason=Errored(error=failure)):
            return f" error {failure.code}"
        case TurnEnd(reason=reason):
            return f" {type(reason).__name__.lower()}"
        case UserMessage():
            return f" {data.message.text}"
        case AssistantMessage(message=message, interrupted=interrupted):
            return f" {message.text}" + (" (interrupted)" if interrupted else "")
        case ToolCall(name=name):
            return f" {name}"
        case ToolResult(message=message, error=error):
            return f" {message.text}" if error is None else f" {error.code}"
        case RequestHeader(reason=reason):
            return f" {reason}"
        case _:
            return ""


class Refused(Exception):
    """What a log raises that is made to refuse."""


def refusing(session: Session, *kinds: type[Payload], times: int = 1) -> None:
    """Have the log refuse the next *times* appends of these payloads."""
    append, left = session.append, [times]

    def refuse(payload: Payload, **options: Any) -> Any:
        if isinstance(payload, kinds) and left[0] > 0:
            left[0] -= 1
            raise Refused(f"no {payload.event_type} now")
        return append(payload, **options)

    session.append = refuse  # type: ignore[method-assign]


def reason(session: Session) -> TurnEndReason:
    """How the last turn ended."""
    return list(session.select(TurnEnd))[-1].data.reason


def code(session: Session) -> str | None:
    """The code of the error that ended the last turn."""
    last = reason(session)
    return last.error.code if isinstance(last, Errored) else None


async def streaming(agent: Agent, chunks: int = 1) -> None:
    """Wait until the model has begun to answer."""
    await settled(lambda: len(list(agent.session.select(AssistantChunk))) >= chunks)


async def settled(condition: Callable[[], bool], steps: int = 10_000) -> None:
    """Let the loop turn until *condition* holds."""
    import asyncio

    for _ in range(steps):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


@tool
async def echo(text: str) -> str:
    """Say it again.

    Args:
        text: What to say.
    """
    return text


__all__ = [
    "AT_ONCE",
    "Awaitable",
    "Refused",
    "agent_of",
    "call",
    "code",
    "echo",
    "kinds",
    "line",
    "lines",
    "reason",
    "refusing",
    "script",
    "settled",
    "streaming",
    "text",
]
