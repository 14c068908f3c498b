"""One event in one line, in the words of the documents' own script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnlog.events import (
    AssistantAttempt,
    AssistantMessage,
    Finish,
    FinishAborted,
    FinishError,
    OpaquePayload,
    ReasoningDelta,
    StepEnd,
    StepStart,
    StreamChunk,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    TurnEnd,
    TurnStart,
    UndecodablePayload,
    UnknownPayload,
)
from turnlog.events.lenient import parse
from turnlog.events.lossless import plain
from turnlog.log import AnyEvent, Replace
from turnlog.views.call import is_error
from turnlog.views.streams import chunk_type, embedded

SYNTHETIC = " (synthetic: interrupted, not repaired)"
ORPHAN = " (its start is not in the log)"


def boundary(event: AnyEvent) -> str | None:
    """``[turn/start] turn=1`` and the like; None for events that are no boundary."""
    match event.data:
        case TurnStart(turn=turn):
            return f"[turn/start] turn={turn}"
        case TurnEnd(turn=turn):
            return f"[turn/end] turn={turn} reason={parse(event.raw)['reason']}"
        case StepStart(turn=turn, step=step):
            return f"[step/start] turn={turn} step={step}"
        case StepEnd(turn=turn, step=step):
            return f"[step/end] turn={turn} step={step}"
        case _:
            return None


def chunks(kind: str, number: int) -> str:
    """``chunk: text-delta ×600``"""
    return f"chunk: {kind}" if number == 1 else f"chunk: {kind} ×{number}"


def chunk(value: StreamChunk) -> str:
    """One chunk with what it says: ``chunk: text-delta 'I will '``."""
    kind = chunk_type(value)
    match value:
        case TextDelta(text=text) | ReasoningDelta(text=text) | ToolCallDelta(arguments_delta=text):
            return f"chunk: {kind} {text!r}"
        case _:
            members = plain(value)
            rest = {name: member for name, member in members.items() if name != "type"}
            return f"chunk: {kind} {rest}" if rest else f"chunk: {kind}"


def notable(event: AnyEvent) -> str | None:
    """What an outline shows besides boundaries and chunks: calls, and whatever is out of the ordinary."""
    if isinstance(event.surface_op, Replace):
        return f"{event.type}: takes the place of @{event.surface_op.start} to @{event.surface_op.end}"
    match event.data:
        case ToolCall(name=name, arguments=arguments):
            return f"tool/call: {name} args={arguments}"
        case ToolResult() as data if is_error(event):
            code = "" if data.error is None else f" {data.error.code}"
            return f"tool/result: {data.call_id} failed{code}: {_short(data.message.text)}"
        case AssistantMessage(interrupted=True, message=message):
            return f"assistant/message: interrupted: {_short(message.text)}"
        case AssistantAttempt():
            return f"assistant/attempt: {_attempt(event)}"
        case UnknownPayload() | UndecodablePayload():
            return event.type
        case OpaquePayload(value=value) if isinstance(value, Mapping):
            return _opaque(event.type, value)
        case _:
            return None


def anything(event: AnyEvent) -> str:
    """One line for any event."""
    told = boundary(event) or notable(event)
    if told is not None:
        return told
    message = event.message
    if message is None:
        return event.type
    data = event.data
    who = f"{data.call_id} " if isinstance(data, ToolResult) else ""
    return f"{event.type}: {who}{_short(message.text)}"


def _attempt(event: AnyEvent) -> str:
    for timed in reversed(embedded(event)):
        if isinstance(timed.chunk, Finish) and isinstance(timed.chunk.reason, FinishError | FinishAborted):
            failure = timed.chunk.reason.failure
            return f"failed {failure.code}: {_short(failure.message)}"
    return "not finished"


def _opaque(type: str, value: Mapping[str, Any]) -> str | None:
    match type:
        case "llm/retry":
            failure = value.get("failure")
            told = f"{failure.get('code')}: {failure.get('message')}" if isinstance(failure, Mapping) else "a failure"
            delay = value.get("delayMs")
            wait = f"{delay:.0f}" if isinstance(delay, float) else delay
            return f"llm/retry: retry {value.get('retry')} in {wait} ms after {told}"
        case "approval/asked":
            return f"approval/asked: {value.get('toolName')} {value.get('callId', '')}".rstrip()
        case "approval/decided":
            return f"approval/decided: {value.get('outcome')}"
        case "hook/result" if value.get("decision") in ("block", "empty"):
            return f"hook/result: {value.get('handlerId')} {value.get('decision')}: {value.get('stderrSummary', '')}"
        case "compaction/start" | "compaction/summary" | "compaction/end" | "compaction/prune":
            return type
        case _:
            return None


def _short(text: str, length: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
