"""OpenAI-compatible chat completions: DeepSeek, OpenAI, vLLM, Ollama, gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from turnlog.events import CallConfig, Header, Message, ReasoningBlock, TextBlock, ToolResultBlock, ToolSchema
from turnlog.events.lossless import dump, whole_text

from . import failures
from .dialect import members, unsupported_effort
from .fixups import HISTORY, Fixup, calls_of
from .openai_stream import ChatReader
from .request import Request
from .secret import Secret

EFFORTS: Final = ("off", "none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Reasoning efforts. ``off`` is DeepSeek's ``thinking: disabled`` and OpenAI's ``none``."""


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """The dialect; its fields are what the servers differ in."""

    provider: str
    passes_reasoning: Literal["always", "given", "never"] = "given"
    """Whether earlier reasoning is sent back. ``always``: DeepSeek refuses a history in which one answer lacks it."""
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the output limit is called."""
    thinking: bool = False
    """Whether ``off`` is said as ``thinking: disabled``."""
    counts: bool = True
    """Whether to ask for usage in the stream."""

    @property
    def path(self) -> str:
        """Below the base URL."""
        return "/chat/completions"

    @property
    def fixups(self) -> tuple[Fixup, ...]:
        """What differs between log and wire, in order."""
        return HISTORY

    def headers(self, key: Secret | None) -> Mapping[str, str]:
        """Bearer authorisation; none without a key."""
        return {} if key is None else {"Authorization": f"Bearer {key.reveal()}"}

    def reader(self, headers: failures.Headers, redact: failures.Redact) -> ChatReader:
        """What reads one answer."""
        return ChatReader(headers, redact)

    def encode(self, message: Message) -> bytes:
        """One message: an answer, results (one wire message each), or what somebody said."""
        if message.role == "assistant":
            return dump(self._answer(message))
        results = [_result(block) for block in message.content if isinstance(block, ToolResultBlock)]
        if results:
            return b",".join(map(dump, results))
        role = "user" if message.role == "user" else "system"  # `developer` is a word of newer logs
        return dump({"role": role, "content": _text(message)})

    def body(self, request: Request, messages: Sequence[bytes], *, stream: bool) -> bytes:
        """The request: everything else, then the messages as they were encoded."""
        header = request.header
        system = [dump({"role": "system", "content": whole_text(header.system)})] if header.system else []
        fields = members({**self._fields(header.config), "tools": _tools(header)})
        if stream:
            fields["stream"] = True
            if self.counts:
                fields["stream_options"] = {"include_usage": True}
        return b'%b,"messages":[%b]}' % (dump(fields)[:-1], b",".join([*system, *messages]))

    def _fields(self, config: CallConfig) -> dict[str, object]:
        return {
            "model": config.model,
            **self._effort(config.reasoning_effort),
            "temperature": config.temperature,
            self.limit: config.max_tokens,
            "stop": list(config.stop) if config.stop else None,
        }

    def _effort(self, effort: str | None) -> dict[str, object]:
        if effort is None:
            return {}
        if effort not in EFFORTS:
            raise unsupported_effort(effort, self.provider, EFFORTS)
        if effort in ("off", "none"):
            return {"thinking": {"type": "disabled"}} if self.thinking else {"reasoning_effort": "none"}
        return {**({"thinking": {"type": "enabled"}} if self.thinking else {}), "reasoning_effort": effort}

    def _answer(self, message: Message) -> dict[str, object]:
        said: dict[str, object] = {"role": "assistant", "content": _text(message)}  # never null: some refuse it
        thought = [block.text for block in message.content if isinstance(block, ReasoningBlock)]
        if self.passes_reasoning == "always" or (thought and self.passes_reasoning == "given"):
            said["reasoning_content"] = "\n".join(thought)
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls_of(message)
        ]
        if calls:
            said["tool_calls"] = calls
        return said


def _result(block: ToolResultBlock) -> dict[str, object]:
    text = "\n".join(one.text for one in block.content if isinstance(one, TextBlock))
    return {"role": "tool", "tool_call_id": block.tool_call_id, "content": text}


def _text(message: Message) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def _tools(header: Header) -> list[dict[str, object]] | None:
    return [_tool(tool) for tool in header.tools] if header.tools else None


def _tool(tool: ToolSchema) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def deepseek() -> ChatCompletions:
    """DeepSeek: reasoning goes back always, thinking can be switched."""
    return ChatCompletions("deepseek", passes_reasoning="always", thinking=True)


def openai() -> ChatCompletions:
    """OpenAI itself: it keeps its reasoning and calls the limit by another name."""
    return ChatCompletions("openai", passes_reasoning="never", limit="max_completion_tokens")


def compatible(provider: str = "openai") -> ChatCompletions:
    """Anything that speaks the protocol."""
    return ChatCompletions(provider)
