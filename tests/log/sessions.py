"""Sessions made by hand: small logs at known places, and the payloads they are made of.

Everything here goes through ``Session.append``. Times are counted by a clock that steps by one.
"""

from __future__ import annotations

import itertools
import json
import warnings
from typing import Any, Final

from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    Block,
    CallConfig,
    Completed,
    Header,
    Json,
    LogPayload,
    Message,
    ModelInput,
    ModelSource,
    Payload,
    PluginEventWarning,
    RequestHeader,
    StepEnd,
    StepStart,
    StreamChunk,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolError,
    ToolResult,
    ToolResultBlock,
    ToolSource,
    TurnEnd,
    TurnStart,
    UserMessage,
    UserSource,
    Vocabulary,
)
from turnlog.log import Session
from turnlog.log.rows import Rows
from turnlog.log.surface import Surface


class Weather(LogPayload, type="acme/weather"):
    """A plugin's fact."""

    city: str
    degrees: float = 0.0
    raw: Json = None


class Reminder(ModelInput, type="acme/reminder"):
    """A plugin's fact that the model is told."""

    text: str
    note: Json = None

    def render(self) -> tuple[Block, ...]:
        return (TextBlock(f"Remember: {self.text}"),)


def extended(*kinds: type[Payload]) -> Vocabulary:
    """The core vocabulary with *kinds*, without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginEventWarning)
        return Vocabulary.core.extend(*kinds)


WITH_PLUGINS: Final = extended(Weather, Reminder)
SOURCE: Final = ModelSource(provider="acme", model="acme-1")
HEADER: Final = Header(config=CallConfig(provider="acme", model="acme-1"))


def empty(id: str = "s", *, vocabulary: Vocabulary = WITH_PLUGINS) -> Session:
    """An empty session whose clock counts 1000, 1001, …"""
    return Session(id, vocabulary=vocabulary, clock=itertools.count(1000).__next__)


def in_turn(*, vocabulary: Vocabulary = WITH_PLUGINS) -> Session:
    """A session with turn 1 open: ``turn/start``."""
    session = empty(vocabulary=vocabulary)
    session.append(TurnStart(turn=1))
    return session


def in_step(*, vocabulary: Vocabulary = WITH_PLUGINS) -> Session:
    """A session with turn 1 step 1 open and its route known: ``turn/start, step/start, request/header``."""
    session = in_turn(vocabulary=vocabulary)
    session.append(StepStart(turn=1, step=1))
    session.append(RequestHeader(header=HEADER, reason="initial"))
    return session


def talk(*texts: str) -> Session:
    """A session of one user message per text: the surface is 0, 1, 2, …"""
    session = empty()
    for number, text in enumerate(texts):
        session.append(user(text, f"m{number}"))
    return session


def user(text: str = "hello", id: str = "m") -> UserMessage:
    return UserMessage(content=(TextBlock(text),), source=UserSource(), id=id)


def chunk(chunk: StreamChunk, *, turn: int = 1, step: int = 1) -> AssistantChunk:
    return AssistantChunk(turn=turn, step=step, chunk=chunk)


def answer(
    *blocks: Block, turn: int = 1, step: int = 1, id: str = "a", interrupted: bool | None = None
) -> AssistantMessage:
    message = Message(role="assistant", content=blocks, source=SOURCE, id=id)
    return AssistantMessage(turn=turn, step=step, message=message, interrupted=interrupted)


def asks(*ids: str, turn: int = 1, step: int = 1, id: str = "a") -> AssistantMessage:
    """An answer that asks for calls of ``read``."""
    return answer(*(ToolCallBlock(id=one, name="read", arguments="{}") for one in ids), turn=turn, step=step, id=id)


def call(id: str, *, turn: int = 1, step: int = 1) -> ToolCall:
    return ToolCall(turn=turn, step=step, call_id=id, name="read", arguments="{}")


def result(
    call_id: str,
    text: str = "done",
    *,
    turn: int = 1,
    step: int = 1,
    id: str = "r",
    is_error: bool | None = False,
    error: ToolError | None = None,
    meta: Json = None,
) -> ToolResult:
    block = ToolResultBlock(tool_call_id=call_id, content=(TextBlock(text),), is_error=is_error)
    message = Message(role="user", content=(block,), source=ToolSource(call_id=call_id), id=id)
    return ToolResult(turn=turn, step=step, message=message, error=error, meta=meta)


def close_step(session: Session, *, turn: int = 1, step: int = 1) -> None:
    session.append(StepEnd(turn=turn, step=step))


def close_turn(session: Session, *, turn: int = 1) -> None:
    session.append(TurnEnd(turn=turn, reason=Completed()))


def lines(session: Session) -> list[bytes]:
    """The log as it would be stored."""
    return [event.line() for event in session.events]


def stored(session: Session, *, closes: bool = False, read_only: str = "it is a copy for reading") -> Session:
    """The same log as a store would open it: decoded from its lines, read-only."""
    from turnlog.log.event import event_class, event_decoder

    kind = event_class(session.vocabulary.codec)
    decode = event_decoder(kind).decode
    rows, surface = Rows(kind), Surface()
    for line in lines(session):
        event = decode(line)
        rows.add(event)
        op = json.loads(line).get("surfaceOp")
        if op == "append":
            surface.append(event.seq)
        elif op is not None:
            surface.apply(surface.plan_replace(event.seq, event.surface_op)[0])  # type: ignore[arg-type]
    return Session.stored(
        session.header, rows, surface, vocabulary=session.vocabulary, read_only=read_only, closes=closes
    )


def standing(session: Session) -> dict[str, Any]:
    """Everything a refused append must leave as it was."""
    grammar = session._grammar
    assert grammar is not None
    return {
        "lines": lines(session),
        "surface": session.surface,
        "generation": session.generation,
        "messages": list(session.derive_messages()),
        "grammar": (grammar.turn, grammar.step, grammar.next_turn, grammar.next_step, dict(grammar.pending)),
        "owed": session.owed(),
        "rows": session._rows.length,
    }
