"""Two projectors over the log for :meth:`Session.project`: what people read, and what happened when.

``session.project(TRANSCRIPT)`` is kept up to date at the cost of what is new, like the model's messages are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from turnlog.events import (
    AssistantMessage,
    Completed,
    Message,
    Opaque,
    OpaquePayload,
    PluginSource,
    ReasoningBlock,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnEndReason,
    UserMessage,
)
from turnlog.log import AnyEvent, Projector

from .call import is_error


@dataclass(frozen=True, slots=True)
class Said:
    """One entry of a transcript."""

    seq: int
    time: int
    who: Literal["user", "assistant", "tool", "context", "harness"]
    """``context`` is text that a program added for the model; ``harness`` is what the harness says about the run."""
    text: str
    reasoning: str = ""
    call_id: str = ""
    """Of a call or a result."""
    name: str = ""
    """The tool of a call."""
    error: bool = False
    """A failed result, or a turn that ended in anything but completion."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One entry of a timeline."""

    seq: int
    time: int
    type: str
    turn: int | None
    step: int | None
    call_id: str | None
    """The call that the event is about."""


def _said(event: AnyEvent) -> Said | None:
    match event.data:
        case UserMessage() as data:
            return Said(event.seq, event.time, _speaker(data.message), data.message.text)
        case AssistantMessage(message=message) if message.content:
            reasoning = "\n".join(block.text for block in message.content if isinstance(block, ReasoningBlock))
            return (
                Said(event.seq, event.time, "assistant", message.text, reasoning) if message.text or reasoning else None
            )
        case ToolCall(call_id=call_id, name=name, arguments=arguments):
            return Said(event.seq, event.time, "assistant", arguments, call_id=call_id, name=name)
        case ToolResult(message=message) as data:
            return Said(event.seq, event.time, "tool", message.text, call_id=data.call_id, error=is_error(event))
        case TurnEnd(reason=reason) if not isinstance(reason, Completed):
            return Said(event.seq, event.time, "harness", reason_text(reason), error=True)
        case OpaquePayload(value=value) if isinstance(value, Mapping):
            text = _notice(event.type, value)
            return None if text is None else Said(event.seq, event.time, "harness", text)
        case _:
            return None


def _speaker(message: Message) -> Literal["user", "context"]:
    """People have the source ``user``; whatever else enters as a user message was added by a program."""
    source = message.source
    added = isinstance(source, PluginSource) or (isinstance(source, Opaque) and source.kind != "unrecorded")
    return "context" if added else "user"


def _notice(type: str, value: Mapping[str, Any]) -> str | None:
    match type:
        case "llm/retry":
            failure = value.get("failure")
            code = failure.get("code", "") if isinstance(failure, Mapping) else ""
            return f"retry {value.get('retry')} in {value.get('delayMs')} ms: {code}"
        case "approval/asked":
            return f"asked to allow {value.get('toolName')}"
        case "approval/decided":
            return f"answer: {value.get('outcome')}"
        case "compaction/summary":
            return "older messages were replaced by a summary"
        case _:
            return None


def reason_text(reason: TurnEndReason) -> str:
    """Why a turn ended, in a few words."""
    if isinstance(reason, Opaque):
        return reason.kind
    kind = str(reason.__struct_config__.tag)
    failure = getattr(reason, "error", None)
    cause = getattr(reason, "reason", None)
    if failure is not None:
        return f"{kind}: {failure.code}: {failure.message}"
    if cause is None:
        return kind
    return f"{kind} by {cause.kind if isinstance(cause, Opaque) else cause.__struct_config__.tag}"


def _mark(event: AnyEvent) -> Mark:
    data = event.data
    source: Any = data.value if isinstance(data, OpaquePayload) and isinstance(data.value, Mapping) else {}
    turn = source.get("turn") if source else getattr(data, "turn", None)
    step = source.get("step") if source else getattr(data, "step", None)
    call_id = source.get("callId") if source else getattr(data, "call_id", None)
    return Mark(
        event.seq,
        event.time,
        event.type,
        turn if isinstance(turn, int) else None,
        step if isinstance(step, int) else None,
        call_id if isinstance(call_id, str) and call_id else None,
    )


TRANSCRIPT: Final[Projector[Said]] = Projector("transcript", _said, over="log")
"""What people read: what was said, called and answered, and how turns ended. Replaced messages stay in it."""

TIMELINE: Final[Projector[Mark]] = Projector("timeline", _mark, over="log")
"""Every event but stream chunks, with its time and place."""
