"""Anthropic Messages answers, streamed or whole, to chunks.

Signatures of thinking blocks are no part of what was said: they go into the finish's ``replayState.blocks``, one entry
for each block of the answer (``{"signature": …}``, ``{"redacted": …}`` or null), and back out with the message.

How an answer ends follows the table of :mod:`turnlog.model.openai_stream`, with ``message_stop`` for ``[DONE]`` and
``stop_reason`` for the finish reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from turnlog.events import (
    Failure,
    Finish,
    FinishMaxTokens,
    FinishReason,
    FinishStop,
    FinishToolCalls,
    Json,
    StreamChunk,
    UsageChunk,
)
from turnlog.events.lossless import whole_text

from . import failures
from .counts import anthropic_usage
from .deltas import Answer, CallSlot, Slot, TextSlot
from .errors import ProviderFailure
from .reader import closed, malformed, parse, unknown_finish
from .sse import ServerEvent

_NO_INPUT: Final = Raw(b"")


class _Block(Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = _NO_INPUT


class _Delta(Struct, gc=False):
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Message(Struct, gc=False):
    type: str = ""
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: object = None
    error: object = None


class _Event(Struct, gc=False):
    type: str = ""
    index: int | None = None
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: object = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_whole = msgspec.json.Decoder(_Message).decode

_FINISHES: Final[Mapping[str, FinishReason]] = {
    "end_turn": FinishStop(),
    "stop_sequence": FinishStop(),
    "max_tokens": FinishMaxTokens(),
    "model_context_window_exceeded": FinishMaxTokens(),
    "tool_use": FinishToolCalls(),
}


class MessagesReader:
    """Reads one answer of Anthropic Messages."""

    def __init__(self, headers: failures.Headers, redact: failures.Redact) -> None:
        self.done = False
        self._headers = headers
        self._redact = redact
        self._answer = Answer()
        self._open: dict[int, Slot] = {}
        self._inputs: dict[int, str] = {}
        self._sides: dict[int, dict[str, Json]] = {}
        self._stop: str | None = None
        self._usage: dict[str, object] = {}
        self._notes: list[str] = []

    @property
    def finished(self) -> bool:
        """Whether a stop reason came."""
        return self._stop is not None

    def read(self, event: ServerEvent) -> list[StreamChunk]:
        """The chunks that one event gives; empty for pings."""
        try:
            said = _decode(event.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if not event.data.strip() or event.data.startswith(b":"):
                return []
            said = _loosen(parse(event.data), event.data)
        match said.type:
            case "content_block_delta" if said.delta is not None:
                self._delta(said.index or 0, said.delta)
            case "content_block_start" if said.content_block is not None:
                self._start(said.index or 0, said.content_block)
            case "content_block_stop":
                self._close(said.index or 0)
            case "message_start" if said.message is not None:
                self._count(said.message.usage)
            case "message_delta":
                self._stop = (said.delta and said.delta.stop_reason) or self._stop
                self._count(said.usage)
            case "message_stop":
                self.done = True
            case kind:
                if kind == "error" or event.event == "error":
                    raise ProviderFailure(failures.of_event(parse(event.data), self._headers, self._redact))
        return self._answer.take()

    def read_whole(self, body: bytes) -> list[StreamChunk]:
        """The chunks of an answer that came as one JSON object."""
        try:
            message = _decode_whole(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            value = parse(body)
            if not isinstance(value, dict):
                raise malformed("something that is no message", body) from None
            message = _message(value)
        if message.type == "error" or message.error:
            raise ProviderFailure(failures.of_event(parse(body), self._headers, self._redact))
        for index, block in enumerate(message.content or ()):
            self._start(index, block)
            self._close(index)
        self._stop = message.stop_reason
        self._count(message.usage)
        self.done = True
        return self._answer.take()

    def end(self) -> list[StreamChunk]:
        """Ends of blocks, usage, finish."""
        if self._stop is None:
            said = (
                "the answer ended without a stop reason"
                if self.done
                else "the stream ended in the middle of the answer"
            )
            raise closed(said)
        reason = _FINISHES.get(self._stop)
        if reason is None:
            raise unknown_finish(self._stop)
        if not self._answer.slots and not isinstance(reason, FinishMaxTokens):
            raise ProviderFailure(Failure("the provider's answer is empty", "EMPTY_RESPONSE"))
        if not self.done:
            self._notes.append("the stream ended without message_stop")
        for index in tuple(self._open):
            self._close(index)
        return [*self._answer.take(), *self.partial(), Finish(reason, self._state())]

    def partial(self) -> list[StreamChunk]:
        """The usage, if it is known."""
        usage = anthropic_usage(self._usage, self._notes) if self._usage else None
        return [] if usage is None else [UsageChunk(usage)]

    def _state(self) -> Json:
        state: dict[str, Json] = {}
        if self._notes or self._sides:
            state["response"] = {"notes": list(self._notes)} if self._notes else {}
        if self._sides:
            state["blocks"] = [self._sides.get(slot.index) for slot in self._answer.slots]
        return state or None

    def _start(self, index: int, block: _Block) -> None:
        self._close(index)  # nobody said so, but another block has its place
        match block.type:
            case "text":
                self._open[index] = text = self._answer.open_text()
                text.add(block.text or "")
            case "thinking" | "redacted_thinking":
                self._open[index] = thought = self._answer.open_reasoning()
                thought.add(block.thinking or "")
                if block.signature:
                    self._sides[thought.index] = {"signature": whole_text(block.signature)}
                if block.type == "redacted_thinking":
                    self._sides[thought.index] = {"redacted": whole_text(block.data or "")}
            case "tool_use":
                self._open[index] = call = self._answer.open_call()
                call.add("", block.id or "", block.name or "")
                self._inputs[index] = bytes(block.input).decode()
            case _:
                pass  # what servers do by themselves is not ours to run or to keep

    def _delta(self, index: int, delta: _Delta) -> None:
        slot = self._open.get(index)
        if slot is None:
            return
        if isinstance(slot, CallSlot):
            slot.add(delta.partial_json or "")
        elif delta.signature:
            side = self._sides.setdefault(slot.index, {"signature": ""})
            side["signature"] = f"{side.get('signature', '')}{whole_text(delta.signature)}"
        else:
            slot.add(delta.text or delta.thinking or "")

    def _close(self, index: int) -> None:
        slot = self._open.pop(index, None)
        if isinstance(slot, CallSlot) and not slot.arguments:
            slot.add(self._inputs.get(index, ""))
        if isinstance(slot, CallSlot | TextSlot):
            slot.close()

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage.update({name: value for name, value in usage.items() if value is not None})


def _loosen(value: object, data: bytes) -> _Event:
    """The fields that matter, out of JSON of any shape."""
    if not isinstance(value, dict):
        raise malformed("something that is no event", data)
    delta, block, message = value.get("delta"), value.get("content_block"), value.get("message")
    return _Event(
        type=_string(value.get("type")) or "",
        index=value["index"] if type(value.get("index")) is int else None,
        delta=_Delta(**_strings(delta, _Delta)) if isinstance(delta, dict) else None,
        content_block=_block(block) if isinstance(block, dict) else None,
        message=_message(message) if isinstance(message, dict) else None,
        usage=value.get("usage"),
    )


def _message(value: Mapping[str, Any]) -> _Message:
    content = value.get("content")
    return _Message(
        type=_string(value.get("type")) or "",
        content=[_block(one) for one in content if isinstance(one, dict)] if isinstance(content, list) else None,
        stop_reason=_string(value.get("stop_reason")),
        usage=value.get("usage"),
        error=value.get("error"),
    )


def _block(value: Mapping[str, Any]) -> _Block:
    given = value.get("input")
    raw = Raw(json.dumps(given, ensure_ascii=True).encode()) if given is not None else _NO_INPUT
    return _Block(**_strings(value, _Block), input=raw)


def _strings(value: Mapping[str, Any], kind: type[Struct]) -> dict[str, str]:
    return {
        name: value[name] for name in kind.__struct_fields__ if isinstance(value.get(name), str) and name != "input"
    }


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
