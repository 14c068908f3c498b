"""Payloads: keyword construction, and `match event.data` gives every field its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, assert_type

from turnlog.events import (
    ApprovalAsked,
    AssistantChunk,
    AssistantMessage,
    Block,
    CallConfig,
    Completed,
    EndSeed,
    Header,
    Json,
    Message,
    ModelInput,
    OpaquePayload,
    Payload,
    RequestContext,
    RequestHeader,
    Source,
    StepEnd,
    StepStart,
    StreamChunk,
    SurfacePayload,
    TextBlock,
    TextDelta,
    Todo,
    TodoWrite,
    TokenUsage,
    ToolCall,
    ToolError,
    ToolResult,
    ToolSchema,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UndecodablePayload,
    UnknownPayload,
    UserMessage,
    UserSource,
    thaw,
)
from turnlog.log import SessionEvent


def fields_of_each_core_payload(event: SessionEvent[Payload]) -> None:
    assert_type(event.data, Payload)
    match event.data:
        case TurnStart(turn=turn):
            assert_type(turn, int)
        case TurnEnd(turn=turn, reason=reason):
            assert_type(turn, int)
            assert_type(reason, TurnEndReason)
        case StepStart(turn=turn, step=step) | StepEnd(turn=turn, step=step):
            assert_type(turn, int)
            assert_type(step, int)
        case UserMessage(content=content, source=source, role=role, id=message_id):
            assert_type(content, tuple[Block, ...])
            assert_type(source, Source)
            assert_type(role, str)
            assert_type(message_id, str)
        case AssistantChunk(turn=turn, step=step, chunk=chunk):
            assert_type(turn, int)
            assert_type(step, int)
            assert_type(chunk, StreamChunk)
        case AssistantMessage(turn=turn, step=step, message=message, usage=usage, interrupted=interrupted):
            assert_type(turn, int)
            assert_type(step, int)
            assert_type(message, Message)
            assert_type(usage, TokenUsage | None)
            assert_type(interrupted, bool | None)
        case ToolCall(turn=turn, step=step, call_id=call_id, name=name, arguments=arguments):
            assert_type(turn, int)
            assert_type(step, int)
            assert_type(call_id, str)
            assert_type(name, str)
            assert_type(arguments, str)
        case ToolResult(turn=turn, step=step, message=message, error=error, meta=meta, call_id=call_id):
            assert_type(turn, int)
            assert_type(step, int)
            assert_type(message, Message)
            assert_type(error, ToolError | None)
            assert_type(meta, Json)
            assert_type(call_id, str)
        case TodoWrite(todos=todos):
            assert_type(todos, tuple[Todo, ...])
            assert_type(todos[0].status, Literal["pending", "in_progress", "completed"])
        case RequestHeader(header=header, reason=why):
            assert_type(header, Header)
            assert_type(why, str)
        case RequestContext(provider=provider, model=model, context_window=window):
            assert_type(provider, str)
            assert_type(model, str)
            assert_type(window, int | None)
        case EndSeed() as end:
            assert_type(end, EndSeed)
        case _:
            pass


def opaque_payloads_keep_their_json(event: SessionEvent[Payload]) -> None:
    match event.data:
        case ApprovalAsked(value=value):
            assert_type(value, Json)
        case UnknownPayload(type=name, value=value):
            assert_type(name, str)
            assert_type(value, Json)
        case UndecodablePayload(type=name, reason=reason):
            assert_type(name, str)
            assert_type(reason, str)
        case OpaquePayload() as other:
            assert_type(other, OpaquePayload)
        case _:
            pass


def data_itself_is_narrowed(event: SessionEvent[Payload]) -> str:
    if isinstance(event.data, ToolCall):
        assert_type(event.data, ToolCall)
        return event.data.call_id
    match event.data:
        case ToolResult():
            return event.data.call_id
        case UserMessage():
            return event.data.message.text
        case _:
            return ""


def families(payload: Payload) -> None:
    assert_type(payload.event_type, str)
    assert_type(payload.surface, bool)
    match payload:
        case SurfacePayload():
            assert_type(payload, SurfacePayload)
        case ModelInput():
            assert_type(payload.render(), tuple[Block, ...])
        case _:
            pass


def construction() -> None:
    answer = Message.from_model(TextBlock("hello"), provider="deepseek", model="chat", replay_state={"id": ["x", 1]})
    assert_type(answer, Message)
    assert_type(UserMessage.of("hi", TextBlock("there")), UserMessage)
    assert_type(UserMessage(content=(TextBlock("hi"),), source=UserSource(), id="m1"), UserMessage)
    assert_type(UserMessage.of("hi", source=UserSource()).message, Message)
    assert_type(Message("user", (TextBlock("hi"),), UserSource(), "m1"), Message)
    assert_type(TurnEnd(turn=1, reason=Completed()), TurnEnd)
    assert_type(AssistantMessage(turn=1, step=1, message=answer, usage=TokenUsage(3, 4)), AssistantMessage)
    assert_type(AssistantChunk(turn=1, step=1, chunk=TextDelta(0, "h")), AssistantChunk)
    assert_type(ToolResult(turn=1, step=1, message=Message.from_tool("c", TextBlock("ok"))), ToolResult)
    assert_type(TodoWrite(todos=(Todo("write", "pending"), Todo("test", "completed"))), TodoWrite)
    parameters: Mapping[str, Json] = {
        "type": "object",
        "required": ["city"],
        "properties": {"city": {"type": "string"}},
    }
    header = Header(
        config=CallConfig(provider="deepseek", model="chat", temperature=0, stop=("END",)),
        tools=(ToolSchema("weather", "today's weather", parameters),),
    )
    assert_type(RequestHeader(header=header, reason="initial").header.config.temperature, float | None)
    assert_type(
        ApprovalAsked(value={"id": "a1", "toolName": "bash", "nested": [1, 2.5, None, {"deep": True}]}), ApprovalAsked
    )


def open_json_is_any_json(result: ToolResult) -> None:
    meta = result.meta
    if isinstance(meta, Mapping):
        when: Json = meta["when"]
        assert_type(thaw(when), Any)
    again = ToolResult(turn=1, step=1, message=result.message, meta=meta)
    assert_type(again.meta, Json)
