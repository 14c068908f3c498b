"""The unions inside payloads: `match` narrows each member, and a match that names all of them is exhaustive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never, assert_type

from turnlog.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Block,
    Blocked,
    BlockEnd,
    BlockStart,
    CancelCause,
    CancelledByDisposal,
    CancelledByHook,
    CancelledByParent,
    CancelledByUser,
    CancelledLegacy,
    Completed,
    ContextSection,
    Dimensions,
    Errored,
    Failure,
    Finish,
    FinishAborted,
    FinishError,
    FinishMaxTokens,
    FinishReason,
    FinishStop,
    FinishToolCalls,
    ImageAttachment,
    ImageBlock,
    Interrupted,
    Json,
    MaxTokens,
    Message,
    ModelSource,
    Opaque,
    Payload,
    PluginSource,
    ReasoningBlock,
    ReasoningDelta,
    Source,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    ToolResult,
    ToolResultBlock,
    ToolSource,
    TurnEnd,
    TurnEndReason,
    UsageChunk,
    UserSource,
)
from turnlog.log import SessionEvent


def block(block: Block) -> str:
    match block:
        case TextBlock(text=text) | ReasoningBlock(text=text):
            assert_type(text, str)
            return text
        case ImageBlock(attachment=attachment):
            assert_type(attachment, ImageAttachment)
            assert_type(attachment.bytes, int)
            assert_type(attachment.original_dimensions, Dimensions | None)
            return attachment.name or attachment.attachment_id
        case ToolCallBlock(id=call_id, name=name, arguments=arguments):
            assert_type(call_id, str)
            assert_type(name, str)
            return arguments
        case ToolResultBlock(tool_call_id=call_id, content=content, is_error=is_error):
            assert_type(call_id, str)
            assert_type(content, tuple[Block, ...])
            assert_type(is_error, bool | None)
            return "".join(map(block_text, content))
        case Opaque(kind=kind, value=value):
            assert_type(kind, str)
            assert_type(value, Mapping[str, Json])
            return kind
        case _:
            assert_never(block)


def block_text(one: Block) -> str:
    return one.text if isinstance(one, TextBlock) else ""


def chunk(chunk: StreamChunk) -> int | None:
    match chunk:
        case BlockStart(index=index, block_type=block_type):
            assert_type(index, int)
            assert_type(block_type, str)
        case TextDelta(index=index, text=text) | ReasoningDelta(index=index, text=text):
            assert_type(text, str)
        case ToolCallDelta(index=index, id=call_id, arguments_delta=delta, name=name):
            assert_type(call_id, str)
            assert_type(delta, str)
            assert_type(name, str | None)
        case BlockEnd(index=index, block=block):
            assert_type(block, Block)
        case UsageChunk(usage=usage):
            assert_type(usage, TokenUsage)
            assert_type(usage.cache_read_tokens, int | None)
            return usage.output_tokens
        case Finish(reason=reason, replay_state=state):
            assert_type(reason, FinishReason)
            assert_type(state, Json)
            return None
        case Opaque(kind=kind):
            assert_type(kind, str)
            return None
        case _:
            assert_never(chunk)
    return index


def finish(reason: FinishReason) -> Failure | None:
    match reason:
        case FinishStop() | FinishToolCalls() | FinishMaxTokens() | Opaque():
            return None
        case FinishAborted(failure=failure) | FinishError(failure=failure):
            assert_type(failure, Failure)
            return failure
        case _:
            assert_never(reason)


def end(reason: TurnEndReason) -> str:
    match reason:
        case Completed():
            return "completed"
        case Aborted(reason=cause):
            assert_type(cause, CancelCause)
            return cancelled(cause)
        case Blocked():
            return "blocked"
        case Errored(error=error):
            assert_type(error, Failure)
            assert_type(error.status, int | None)
            assert_type(error.provider_retry_after_ms, float | None)
            return error.code
        case MaxTokens():
            return "max tokens"
        case Interrupted():
            return "interrupted"
        case Opaque(kind=kind):
            return kind
        case _:
            assert_never(reason)


def cancelled(cause: CancelCause) -> str:
    match cause:
        case CancelledByUser() | CancelledByParent() | CancelledByDisposal() | CancelledLegacy():
            return type(cause).__name__
        case CancelledByHook(reason=reason):
            assert_type(reason, str)
            return reason
        case Opaque():
            return cause.kind
        case _:
            assert_never(cause)


def source(source: Source) -> str | None:
    match source:
        case UserSource():
            return None
        case ModelSource(provider=provider, model=model, replay_state=state):
            assert_type(model, str)
            assert_type(state, Json)
            return provider
        case ToolSource(call_id=call_id):
            return call_id
        case PluginSource(plugin=plugin, form=form, sections=sections):
            assert_type(form, str | None)
            assert_type(sections, tuple[ContextSection, ...] | None)
            return plugin
        case Opaque(value=value):
            assert_type(value, Mapping[str, Json])
            return None
        case _:
            assert_never(source)


def nested(event: SessionEvent[Payload]) -> None:
    """One pattern reaches through payload, message and union."""
    match event.data:
        case TurnEnd(turn=turn, reason=Aborted(reason=CancelledByHook(reason=why))):
            assert_type(turn, int)
            assert_type(why, str)
        case TurnEnd(reason=Errored(error=Failure(code=code, status=status))):
            assert_type(code, str)
            assert_type(status, int | None)
        case AssistantChunk(chunk=TextDelta(text=text)):
            assert_type(text, str)
        case AssistantChunk(chunk=BlockEnd(block=ToolCallBlock() as call)):
            assert_type(call, ToolCallBlock)
        case AssistantChunk(chunk=Finish(reason=FinishError(failure=failure))):
            assert_type(failure, Failure)
        case AssistantChunk(chunk=Opaque() as unknown):
            assert_type(unknown.value, Mapping[str, Json])
        case AssistantMessage(message=Message(source=ModelSource(model=model), content=content)):
            assert_type(model, str)
            assert_type(content, tuple[Block, ...])
        case ToolResult(message=Message(content=(ToolResultBlock(content=content),))):
            assert_type(content, tuple[Block, ...])
        case _:
            pass


def by_position(block: Block) -> str | None:
    match block:
        case TextBlock(text) | ReasoningBlock(text):
            assert_type(text, str)
            return text
        case ToolCallBlock(call_id, name):
            assert_type(call_id, str)
            return name
        case _:
            return None
