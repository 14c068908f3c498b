"""Misuses of payloads, messages and blocks: each marked line must be rejected by both checkers, or its ignore is one
too many. Nothing here runs."""

# What follows from an error that is already there, for example that the type of a missing member is unknown:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct

from turnlog.events import (
    Aborted,
    ApprovalAsked,
    AssistantChunk,
    AssistantMessage,
    Block,
    BlockEnd,
    CallConfig,
    CancelCause,
    CancelledByHook,
    CancelledByUser,
    Completed,
    Errored,
    Failure,
    Finish,
    FinishError,
    FinishReason,
    FinishStop,
    Header,
    Json,
    LogPayload,
    MaxTokens,
    Message,
    ModelInput,
    Opaque,
    Payload,
    RequestHeader,
    StreamChunk,
    TextBlock,
    TextDelta,
    Todo,
    TodoWrite,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
    UserSource,
    Vocabulary,
)


class Wind(Struct, frozen=True):
    speed: float


class Weather(LogPayload, type="acme/weather"):
    city: str
    wind: Wind
    tags: tuple[str, ...] = ()


class Alarm(ModelInput, type="acme/alarm"):
    text: str

    def render(self) -> tuple[Block, ...]:
        return (TextBlock(self.text),)


# -- nothing can be assigned ------------------------------------------------------------------------------------------


def fields_of_payloads(call: ToolCall, prompt: UserMessage, answer: AssistantMessage, end: TurnEnd) -> None:
    call.call_id = "c2"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    call.turn += 1  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    prompt.content = ()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    prompt.message = answer.message  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    answer.usage = None  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    end.reason = Completed()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    call.note = "x"  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def fields_of_parts(message: Message, block: TextBlock, result: ToolResultBlock, usage: TokenUsage) -> None:
    message.role = "user"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    message.content += (block,)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    block.text = "changed"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    result.content = (block,)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    usage.input_tokens = 0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def fields_of_user_payloads(weather: Weather, alarm: Alarm) -> None:
    weather.city = "Bergen"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    weather.wind.speed = 0.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    weather.wind = Wind(1.0)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    alarm.text = "smoke"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def members_of_sequences_and_mappings(
    prompt: UserMessage, result: ToolResult, unknown: Opaque, words: Vocabulary
) -> None:
    prompt.content[0] = TextBlock("x")  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    prompt.content.append(TextBlock("x"))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    del prompt.content[0]  # type: ignore[attr-defined]  # pyright: ignore[reportIndexIssue]
    if isinstance(result.meta, Mapping):
        result.meta["seen"] = True  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
        del result.meta["seen"]  # type: ignore[attr-defined]  # pyright: ignore[reportIndexIssue]
        result.meta.update(seen=True)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    unknown.value["type"] = "text"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    unknown.value = {}  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    unknown.kind = "text"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    unknown.note = "x"  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    words.kinds["x/y"] = Weather  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    words.kinds = {}  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


# -- construction -----------------------------------------------------------------------------------------------------


def missing_fields() -> None:
    ToolCall(turn=1, step=1, call_id="c", name="ls")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    TurnEnd(turn=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    UserMessage(content=(TextBlock("x"),))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Message("user", (), UserSource())  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    TextBlock()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    TokenUsage(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Weather(city="Oslo")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def unknown_fields() -> None:
    TurnStart(turn=1, step=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ToolCall(turn=1, step=1, callId="c", name="ls", arguments="{}")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    TextBlock(text="x", type="text")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Weather(city="Oslo", wind=Wind(1.0), mood="good")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def positional_payloads() -> None:
    TurnStart(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ToolCall(1, 1, "c", "ls", "{}")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    UserMessage((TextBlock("x"),))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ApprovalAsked({"id": "a"})  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Weather("Oslo", wind=Wind(1.0))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Alarm("fire")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def wrong_types(message: Message) -> None:
    TurnStart(turn="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ToolCall(turn=1, step=1, call_id=None, name="ls", arguments="{}")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ToolCall(turn=1, step=1, call_id="c", name="ls", arguments={"path": "."})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    UserMessage(content="hello", source=UserSource(), id="m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    UserMessage(content=("hello",), source=UserSource(), id="m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AssistantMessage(turn=1, step=1, message="hello")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AssistantMessage(turn=1, step=1, message=message, usage={"inputTokens": 1})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ToolResult(turn=1, step=1, message=message, error="failed")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    TurnEnd(turn=1, reason="completed")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    TurnEnd(turn=1, reason=CancelledByUser())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Aborted(reason="user")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Aborted(reason=Completed())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Errored("broken")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Failure(message="x", code="X", status="404")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Todo("write", "done")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    RequestHeader(header=CallConfig("deepseek", "chat"), reason="initial")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Header(config=CallConfig("deepseek", "chat"), system=("be brief",))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    TextBlock(b"x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ApprovalAsked(value=object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ApprovalAsked(value={1: "x"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    ApprovalAsked(value={"when": {1, 2}})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    Weather(city="Oslo", wind=7.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Alarm(text=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def lists_where_tuples_belong() -> None:
    UserMessage(content=[TextBlock("x")], source=UserSource(), id="m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Message("user", [TextBlock("x")], UserSource(), "m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ToolResultBlock("c", [TextBlock("x")])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    TodoWrite(todos=[Todo("write", "pending")])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    CallConfig("deepseek", "chat", stop=["END"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Weather(city="Oslo", wind=Wind(1.0), tags=["x"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def wrong_members_of_unions(message: Message, chunk: StreamChunk) -> None:
    UserMessage(content=(TextDelta(0, "x"),), source=UserSource(), id="m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    UserMessage(content=(message,), source=UserSource(), id="m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    UserMessage(content=(TextBlock("x"),), source=TextBlock("x"), id="m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AssistantChunk(turn=1, step=1, chunk=TextBlock("x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    AssistantChunk(turn=1, step=1, chunk=FinishStop())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    BlockEnd(0, chunk)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Finish(FinishError)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    UserMessage.of(TextDelta(0, "x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    UserMessage.of("hello", source="user")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Message.from_tool("c", "text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Message.from_model(TextBlock("x"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    block: Block = UserSource()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    cause: CancelCause = Completed()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    reason: FinishReason = MaxTokens()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(block, cause, reason)


# -- definition -------------------------------------------------------------------------------------------------------


class Thawed(LogPayload, type="acme/thawed", frozen=False):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    city: str


class WrongRender(ModelInput, type="acme/wrong-render"):
    text: str

    def render(self) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.text


class Thin(Opaque):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    pass


Vocabulary.core.extend(Wind)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Vocabulary.core.extend(Weather(city="Oslo", wind=Wind(1.0)))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# -- after a match ----------------------------------------------------------------------------------------------------


def other_fields(payload: Payload, block: Block, reason: TurnEndReason, json: Json) -> None:
    print(payload.call_id)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(block.text)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
    print(reason.error)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
    json.items()  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    match payload:
        case ToolCall() as call:
            print(call.message)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
            print(call.args)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case UserMessage() as prompt:
            print(prompt.turn)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case TurnStart(step=step):  # type: ignore[misc]  # pyright: ignore[reportUnknownVariableType]
            print(step)
        case TurnEnd(reason=reason_of_turn):
            print(reason_of_turn.reason)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
        case ToolResult(message=Message(source=source)):
            print(source.call_id)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue]
        case TurnStart(1):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
            pass
        case _:
            pass
    match block:
        case TextBlock(text=text):
            text.append("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case Opaque() as unknown:
            print(unknown.text)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        case _:
            pass


def forgotten_causes(cause: CancelCause) -> str:
    match cause:
        case CancelledByHook():
            return "hook"
        case _:
            assert_never(cause)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def forgotten_reasons(reason: TurnEndReason) -> str:
    match reason:
        case Completed():
            return "completed"
        case _:
            assert_never(reason)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
