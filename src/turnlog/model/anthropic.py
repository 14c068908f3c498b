"""Anthropic Messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

from turnlog.events import (
    Block,
    CallConfig,
    Header,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from turnlog.events.lossless import dump, whole_text

from . import failures
from .anthropic_stream import MessagesReader
from .dialect import members, unsupported_effort
from .fixups import (
    HISTORY,
    KNOWN_ROLES,
    MERGE_RESULTS,
    OWN_STATE,
    SAY_SOMETHING,
    SIGNED_THINKING,
    USER_FIRST,
    Fixup,
    side_data,
)
from .request import Request
from .secret import Secret

VERSION: Final = "2023-06-01"
EFFORTS: Final = ("off", "low", "medium", "high", "xhigh", "max")
MAX_TOKENS: Final = 32_000
"""The provider demands a limit; this one is below what every current model allows."""

_CACHE: Final[Mapping[str, str]] = {"type": "ephemeral"}
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}]}'

_BUDGETS: Final = {"low": 2048, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 31_000}
"""Thinking tokens for models that take a budget."""
_LEAST_BUDGET: Final = 1024
_TAKES_BUDGET: Final = re.compile(r"claude-(?:3|instant|2|(?:opus|sonnet|haiku)-4-(?:[0-5](?!\d)|20\d{6}))")
"""Models from before adaptive thinking."""


def default_max_tokens(model: str) -> int:
    """What is asked for when nobody says."""
    if model.startswith("claude-3-") and "claude-3-7" not in model:
        return 8192 if "claude-3-5" in model else 4096
    return MAX_TOKENS


@dataclass(frozen=True, slots=True)
class Messages:
    """The dialect."""

    provider: str = "anthropic"
    caches: bool = True
    """Whether to mark the system prompt and the last message for the prompt cache."""

    @property
    def path(self) -> str:
        """Below the base URL."""
        return "/messages"

    @property
    def fixups(self) -> tuple[Fixup, ...]:
        """What differs between log and wire, in order."""
        return (KNOWN_ROLES, OWN_STATE, *HISTORY, SIGNED_THINKING, MERGE_RESULTS, SAY_SOMETHING, USER_FIRST)

    def headers(self, key: Secret | None) -> Mapping[str, str]:
        """The key has a header of its own."""
        return {"anthropic-version": VERSION, **({} if key is None else {"x-api-key": key.reveal()})}

    def reader(self, headers: failures.Headers, redact: failures.Redact) -> MessagesReader:
        """What reads one answer."""
        return MessagesReader(headers, redact)

    def encode(self, message: Message) -> bytes:
        """One message; its content is always a list that is not empty."""
        blocks = [_block(block, side) for block, side in zip(message.content, side_data(message), strict=True)]
        return dump({"role": message.role, "content": blocks})

    def body(self, request: Request, messages: Sequence[bytes], *, stream: bool) -> bytes:
        """The request: everything else, then the messages as they were encoded."""
        header = request.header
        fields = members({**self._fields(header.config), "system": self._system(header), "tools": _tools(header)})
        if stream:
            fields["stream"] = True
        return b'%b,"messages":[%b]}' % (dump(fields)[:-1], b",".join(self._marked(messages)))

    def _fields(self, config: CallConfig) -> dict[str, object]:
        limit = config.max_tokens or default_max_tokens(config.model)
        thinking = _thinking(config, limit)
        return {
            "model": config.model,
            "max_tokens": limit,
            "temperature": config.temperature if "thinking" not in thinking else None,  # refused beside thinking
            "stop_sequences": list(config.stop) if config.stop else None,
            **thinking,
        }

    def _system(self, header: Header) -> list[dict[str, object]] | None:
        if not header.system:
            return None
        said: dict[str, object] = {"type": "text", "text": whole_text(header.system)}
        return [{**said, "cache_control": _CACHE} if self.caches else said]

    def _marked(self, messages: Sequence[bytes]) -> Sequence[bytes]:
        """The last message ends with a mark: everything up to here is to be cached."""
        if not self.caches or not messages or not messages[-1].startswith(b'{"role":"user"'):
            return messages
        return [*messages[:-1], messages[-1].removesuffix(b"}]}") + _MARK]


def _thinking(config: CallConfig, limit: int) -> dict[str, object]:
    effort = config.reasoning_effort
    if effort is None:
        return {}
    if effort not in EFFORTS:
        raise unsupported_effort(effort, "anthropic", EFFORTS)
    if effort == "off":
        return {}
    if not _TAKES_BUDGET.match(config.model):
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    budget = min(_BUDGETS[effort], limit - _LEAST_BUDGET)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


def _block(block: Block, side: Mapping[str, object] | None) -> dict[str, object]:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ReasoningBlock() if side is not None and "redacted" in side:
            return {"type": "redacted_thinking", "data": side["redacted"]}
        case ReasoningBlock(text=text):
            return {"type": "thinking", "thinking": text, "signature": side["signature"] if side else ""}
        case ToolCallBlock(id=id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": Raw(arguments.encode())}
        case ToolResultBlock(tool_call_id=id, content=content, is_error=is_error):
            shown = [_block(one, None) for one in content]
            failed = {"is_error": True} if is_error else {}
            return {"type": "tool_result", "tool_use_id": id, "content": shown, **failed}
        case _:
            raise AssertionError(f"no fix-up dealt with {block!r:.80}")


def _tools(header: Header) -> list[dict[str, object]] | None:
    if not header.tools:
        return None
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in header.tools
    ]
