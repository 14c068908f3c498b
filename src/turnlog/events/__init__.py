"""The vocabulary of a session log: payloads, messages, blocks, chunks, usage, failures as frozen typed values."""

from .blocks import (
    Block,
    Dimensions,
    ImageAttachment,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from .chunks import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishAborted,
    FinishError,
    FinishMaxTokens,
    FinishReason,
    FinishStop,
    FinishToolCalls,
    ReasoningDelta,
    StreamChunk,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
    is_token,
)
from .codec import Codec, message_of
from .conversation import AssistantChunk, AssistantMessage, UserMessage
from .dsh import *  # noqa: F403 - one class per known dsh type, see KNOWN there
from .header import AdapterDefaults, CallConfig, Header, ToolSchema
from .later import AssistantAttempt, DeveloperMessage, SystemMessage
from .lossless import Json, JsonArray, LosslessError, thaw
from .message import ContextSection, Message, ModelSource, PluginSource, Source, ToolSource, UserSource
from .payload import (
    LogPayload,
    ModelInput,
    OpaquePayload,
    Payload,
    SurfacePayload,
    UndecodablePayload,
    UnknownPayload,
)
from .reasons import (
    Aborted,
    Blocked,
    CancelCause,
    CancelledByDisposal,
    CancelledByHook,
    CancelledByParent,
    CancelledByUser,
    CancelledLegacy,
    Completed,
    Errored,
    Interrupted,
    MaxTokens,
    TurnEndReason,
)
from .request import EndSeed, RequestContext, RequestHeader
from .shapes import shape_faults
from .tool import Todo, TodoWrite, ToolCall, ToolError, ToolResult
from .turn import StepEnd, StepStart, TurnEnd, TurnStart
from .usage import Failure, TokenUsage
from .value import Opaque, Value
from .vocabulary import PluginEventWarning, UnknownEventType, Vocabulary
