"""The model's stream, chunk by chunk (dsh-v0 §1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .blocks import Block
from .lossless import Json
from .usage import Failure, TokenUsage
from .value import Index, Opaque, Value


class BlockStart(Value, tag="block-start", tag_field="type"):
    """A block opens at *index*."""

    index: Index
    block_type: str


class TextDelta(Value, tag="text-delta", tag_field="type"):
    """More visible text."""

    index: Index
    text: str


class ReasoningDelta(Value, tag="reasoning-delta", tag_field="type"):
    """More reasoning."""

    index: Index
    text: str


class ToolCallDelta(Value, tag="tool-call-delta", tag_field="type"):
    """More of a tool call's raw argument text."""

    index: Index
    id: str
    arguments_delta: str
    name: str | None = None


class BlockEnd(Value, tag="block-end", tag_field="type"):
    """A block closes; *block* is the authoritative whole."""

    index: Index
    block: Block


class UsageChunk(Value, tag="usage", tag_field="type"):
    """Token counts; the last one of an attempt counts."""

    usage: TokenUsage


class FinishStop(Value, tag="stop", tag_field="kind"):
    """The model was done."""


class FinishToolCalls(Value, tag="tool-calls", tag_field="kind"):
    """The model waits for tool results."""


class FinishMaxTokens(Value, tag="max-tokens", tag_field="kind"):
    """The output limit cut the answer."""


class FinishAborted(Value, tag="aborted", tag_field="kind"):
    """We stopped the request."""

    failure: Failure


class FinishError(Value, tag="error", tag_field="kind"):
    """The request failed."""

    failure: Failure


if TYPE_CHECKING:
    FinishReason: TypeAlias = FinishStop | FinishToolCalls | FinishMaxTokens | FinishAborted | FinishError | Opaque
else:
    FinishReason: TypeAlias = FinishStop | FinishToolCalls | FinishMaxTokens | FinishAborted | FinishError


class Finish(Value, tag="finish", tag_field="type"):
    """The stream is over."""

    reason: FinishReason
    replay_state: Json = None


if TYPE_CHECKING:
    StreamChunk: TypeAlias = (
        BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | Finish | Opaque
    )
else:
    StreamChunk: TypeAlias = BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageChunk | Finish


def is_token(chunk: StreamChunk) -> bool:
    """Whether *chunk* shows something of the answer: non-empty text, reasoning or arguments, or a named call."""
    match chunk:
        case TextDelta(text=text) | ReasoningDelta(text=text):
            return text != ""
        case ToolCallDelta(arguments_delta=delta, name=name):
            return delta != "" or name is not None
        case _:
            return False
