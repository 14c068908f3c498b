"""The shape rules that types alone do not state (dsh-v0 §2.7): one set for append and for ``verify``.

Append refuses a payload with a fault. Stored logs of other writers are read all the same, and ``verify`` lists the
faults, so what is accepted live can always be loaded and what is old can always be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from .blocks import ToolCallBlock, ToolResultBlock
from .chunks import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishAborted,
    FinishError,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from .conversation import AssistantChunk, AssistantMessage, UserMessage
from .message import Message, ModelSource, ToolSource
from .payload import Payload
from .reasons import Errored
from .request import RequestHeader
from .tool import ToolCall, ToolResult
from .turn import TurnEnd
from .usage import Failure, TokenUsage
from .value import Opaque

HEADER_REASONS: Final = ("initial", "resume", "change")
"""Why format 0 logs a request header; later formats have more reasons."""

_FAULTLESS: Final = frozenset({TextDelta, ReasoningDelta, BlockStart, BlockEnd})
"""Chunks that no rule speaks of: most of a log."""


def shape_faults(payload: Payload, reasons: Sequence[str] = HEADER_REASONS) -> Iterator[str]:
    """Every shape fault of *payload*, as ``$.path: what is wrong``, where headers are logged for these *reasons*."""
    if type(payload) is RequestHeader:
        return _request_header(payload, reasons)
    rule = _RULES.get(type(payload))
    return rule(payload) if rule is not None else iter(())


def first_fault(payload: Payload) -> str | None:
    """The first shape fault, or None; what append asks."""
    if type(payload) is AssistantChunk and type(payload.chunk) in _FAULTLESS:
        return None
    rule = _RULES.get(type(payload))
    return next(rule(payload), None) if rule is not None else None


def _user_message(payload: UserMessage) -> Iterator[str]:
    if payload.role != "user":
        yield f"$.role: expected 'user', got {payload.role!r}"
    if not payload.id:
        yield "$.id: a message id may not be empty"
    if isinstance(payload.source, Opaque) and not payload.source.kind:
        yield "$.source.kind: a source kind may not be empty"


def _chunk(payload: AssistantChunk) -> Iterator[str]:
    chunk = payload.chunk
    if type(chunk) is ToolCallDelta:
        if not chunk.id:
            yield "$.chunk.id: a call id may not be empty; hold the deltas until the id is known"
    elif type(chunk) is UsageChunk:
        yield from _usage(chunk.usage, "$.chunk.usage")
    elif type(chunk) is Finish and isinstance(chunk.reason, FinishError | FinishAborted):
        yield from _failure(chunk.reason.failure, "$.chunk.reason.failure")


def _assistant_message(payload: AssistantMessage) -> Iterator[str]:
    yield from _message(payload.message, "assistant")
    source = payload.message.source
    if not isinstance(source, ModelSource):
        yield "$.message.source: an assistant message comes from a model ({kind:'model', provider, model})"
    elif not source.provider or not source.model:
        yield "$.message.source: provider and model may not be empty"
    calls = [block for block in payload.message.content if isinstance(block, ToolCallBlock)]
    for block in calls:
        if not block.id:
            yield "$.message.content: a tool call without id"
        if not block.name:
            yield "$.message.content: a tool call without name"
    ids = [block.id for block in calls if block.id]
    for call_id in sorted({one for one in ids if ids.count(one) > 1}):
        yield f"$.message.content: call id {call_id!r} is used by {ids.count(call_id)} blocks of one message"
    if payload.usage is not None:
        yield from _usage(payload.usage, "$.usage")
    if payload.interrupted is False:
        yield "$.interrupted: may be absent or true, not false"


def _tool_result(payload: ToolResult) -> Iterator[str]:
    yield from _message(payload.message, "user")
    source, content = payload.message.source, payload.message.content
    call_id = source.call_id if isinstance(source, ToolSource) else None
    if call_id is None:
        yield "$.message.source: a tool result comes from a tool ({kind:'tool', callId})"
    elif not call_id:
        yield "$.message.source.callId: a call id may not be empty"
    if len(content) != 1 or not isinstance(content[0], ToolResultBlock):
        yield "$.message.content: a tool result holds exactly one tool-result block"
    elif call_id is not None and content[0].tool_call_id != call_id:
        yield f"$.message.content[0].toolCallId: {content[0].tool_call_id!r} is not the source's {call_id!r}"


def _tool_call(payload: ToolCall) -> Iterator[str]:
    if not payload.call_id:
        yield "$.callId: a call id may not be empty; mint one before logging the call"
    if not payload.name:
        yield "$.name: a tool name may not be empty"


def _request_header(payload: RequestHeader, reasons: Sequence[str] = HEADER_REASONS) -> Iterator[str]:
    if payload.reason not in reasons:
        yield f"$.reason: {payload.reason!r} is none of {', '.join(reasons)}"
    config, defaults = payload.header.config, payload.header.adapter_defaults
    if not config.provider or not config.model:
        yield "$.header.config: provider and model may not be empty"
    if config.reasoning_effort == "":
        yield "$.header.config.reasoningEffort: may be absent, not empty"
    if defaults is None:
        return
    for name, flag, value in (
        ("reasoningEffort", defaults.reasoning_effort, config.reasoning_effort),
        ("maxTokens", defaults.max_tokens, config.max_tokens),
    ):
        if flag is False:
            yield f"$.header.adapterDefaults.{name}: may be absent or true, not false"
        elif flag and value is None:
            yield f"$.header.adapterDefaults.{name}: marks a field that the config does not have"


def _turn_end(payload: TurnEnd) -> Iterator[str]:
    if isinstance(payload.reason, Errored):
        yield from _failure(payload.reason.error, "$.reason.error")


def _message(message: Message, role: str) -> Iterator[str]:
    if message.role != role:
        yield f"$.message.role: expected {role!r}, got {message.role!r}"
    if not message.id:
        yield "$.message.id: a message id may not be empty"


_COUNTS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


def _usage(usage: TokenUsage, path: str) -> Iterator[str]:
    counts = (
        usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
        usage.reasoning_tokens,
    )  # fmt: skip
    for name, count in zip(_COUNTS, counts, strict=True):
        if count is not None and count < 0:
            yield f"{path}.{name}: {count} is negative; leave it out when it is not known"


def _failure(failure: Failure, path: str) -> Iterator[str]:
    if not failure.message or not failure.code:
        yield f"{path}: a failure has a message and a code, neither of them empty"
    if failure.status is not None and not 100 <= failure.status <= 599:
        yield f"{path}.status: {failure.status} is no HTTP status (100 to 599)"
    if failure.provider_retry_after_ms is not None and not failure.provider_retry_after_ms > 0:
        yield f"{path}.providerRetryAfterMs: {failure.provider_retry_after_ms} is not above 0; leave it out"
    if failure.request_id == "":
        yield f"{path}.requestId: may be absent, not empty"


_RULES: Final[dict[type[Payload], Callable[[Any], Iterator[str]]]] = {
    UserMessage: _user_message,
    AssistantChunk: _chunk,
    AssistantMessage: _assistant_message,
    ToolResult: _tool_result,
    ToolCall: _tool_call,
    RequestHeader: _request_header,
    TurnEnd: _turn_end,
}
