"""Chat-completion answers, streamed or whole, to chunks.

A data line is decoded straight into the few fields that matter. What does not fit them (numbers as strings, arguments
as an object, content as parts, half a surrogate pair) is read again, slowly, into the same fields. A whole answer is
read as one big delta, so there is one way to chunks.

How an answer ends (differences 20):

=====================================  =======================================================
the stream                             becomes
=====================================  =======================================================
a finish reason, then ``[DONE]``       stop, tool-calls or max-tokens; error for an unknown one
a finish reason, no ``[DONE]``         the same, with a note
``[DONE]`` without a finish reason     error ``STREAM_CLOSED``; may be retried
neither                                error ``STREAM_CLOSED``
an error object                        error, with the provider's words
a finish reason, but no block at all   error ``EMPTY_RESPONSE`` (unless the limit cut it)
=====================================  =======================================================

Calls are told apart by index; a new id on a used index is a new call; without index the id counts, else it is the
current call. They stand in the order in which they were first seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

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

from . import failures
from .counts import Fields, chat_usage
from .deltas import Answer, CallSlot, TextSlot
from .errors import ProviderFailure
from .reader import closed, malformed, parse, unknown_finish
from .sse import ServerEvent


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None


class _Choice(Struct, gc=False):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    usage: object = None


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: object = None
    error: object = None


_decode = msgspec.json.Decoder(_Chunk).decode

_FINISHES: Final[Mapping[str, FinishReason]] = {
    "stop": FinishStop(),
    "eos": FinishStop(),
    "end_turn": FinishStop(),
    "length": FinishMaxTokens(),
    "max_tokens": FinishMaxTokens(),
    "tool_calls": FinishToolCalls(),
    "tool_use": FinishToolCalls(),
    "function_call": FinishToolCalls(),
}


class ChatReader:
    """Reads one chat completion."""

    def __init__(self, headers: failures.Headers, redact: failures.Redact) -> None:
        self.done = False
        self._headers = headers
        self._redact = redact
        self._answer = Answer()
        self._text: TextSlot | None = None
        self._reasoning: TextSlot | None = None
        self._calls = _Calls(self._answer)
        self._finish: str | None = None
        self._usage: Fields = {}
        self._notes: list[str] = []

    @property
    def finished(self) -> bool:
        """Whether a finish reason came."""
        return self._finish is not None

    def read(self, event: ServerEvent) -> list[StreamChunk]:
        """The chunks that one event gives; empty for keep-alives."""
        data = event.data
        if data.startswith(b"[") and data.strip() == b"[DONE]":
            self.done = True
            return []
        try:
            chunk = _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if not data.strip() or data.startswith(b":") or data == b"null":
                return []  # a keep-alive that was sent as data
            chunk = _loosen(self._parse(event), data)
        if not chunk.choices or event.event == "error" or chunk.error:
            self._look_for_error(event, chunk)
        self._take_in(chunk)
        return self._answer.take()

    def read_whole(self, body: bytes) -> list[StreamChunk]:
        """The chunks of an answer that came as one JSON object."""
        try:
            chunk = _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            chunk = _loosen(parse(body), body)
        if not chunk.choices or chunk.error:
            self._look_for_error(ServerEvent(body), chunk)
        for choice in chunk.choices or ():
            for place, call in enumerate((choice.message and choice.message.tool_calls) or ()):
                call.index = place  # each entry of a whole answer is a call of its own, whatever its id
        self._take_in(chunk)
        self.done = True
        return self._answer.take()

    def end(self) -> list[StreamChunk]:
        """Ends of blocks, usage, finish; by the table above."""
        if self._finish is None:
            said = (
                "[DONE] came without a finish reason" if self.done else "the stream ended in the middle of the answer"
            )
            raise closed(said)
        reason = _FINISHES.get(self._finish)
        if reason is None:
            raise unknown_finish(self._finish)
        if not self._answer.slots and not isinstance(reason, FinishMaxTokens):
            raise ProviderFailure(Failure("the provider's answer is empty", "EMPTY_RESPONSE"))
        if not self.done:
            self._notes.append("the stream ended without [DONE]")
        self._answer.close()
        return [*self._answer.take(), *self.partial(), Finish(reason, self._state())]

    def partial(self) -> list[StreamChunk]:
        """The usage, if it is known."""
        usage = chat_usage(self._usage, self._notes) if self._usage else None
        return [] if usage is None else [UsageChunk(usage)]

    def _state(self) -> Json:
        return {"response": {"notes": list(self._notes)}} if self._notes else None

    def _take_in(self, chunk: _Chunk) -> None:
        for choice in chunk.choices or ():
            if choice.index:
                continue  # we ask for one
            delta = choice.delta or choice.message
            if delta is not None:
                self._take_delta(delta)
            if choice.finish_reason:
                self._finish = choice.finish_reason
            if choice.usage is not None:
                self._count(choice.usage)
        if chunk.usage is not None:
            self._count(chunk.usage)

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage = usage

    def _take_delta(self, delta: _Delta) -> None:
        if reasoning := delta.reasoning_content or delta.reasoning:
            if self._reasoning is None:
                self._reasoning = self._answer.open_reasoning()
            self._reasoning.add(reasoning)
        if text := delta.content or delta.refusal:
            if self._text is None:
                self._text = self._answer.open_text()
            self._text.add(text)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._calls.add(call)
        elif delta.function_call is not None:
            self._calls.add(_Call(0, None, delta.function_call))

    def _parse(self, event: ServerEvent) -> object:
        try:
            return parse(event.data)
        except ProviderFailure:
            if event.event != "error":
                raise
            words = event.data.decode(errors="replace")
            raise ProviderFailure(failures.of_event(words, self._headers, self._redact)) from None

    def _look_for_error(self, event: ServerEvent, chunk: _Chunk) -> None:
        value = parse(event.data)
        if not isinstance(value, dict):
            raise malformed("something that is no chat completion", event.data)
        if value.get("error") or value.get("object") == "error" or event.event == "error":
            raise ProviderFailure(failures.of_event(value, self._headers, self._redact))


class _Calls:
    """Which call an entry belongs to."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._at: dict[int | None, CallSlot] = {}
        """By index the call that is being written there; the one under None is the current one."""
        self._named: dict[tuple[int | None, str], CallSlot] = {}

    def add(self, call: _Call) -> None:
        """More of a call."""
        function = call.function
        name = (function.name or "") if function is not None else ""
        arguments = (function.arguments or "") if function is not None else ""
        id = call.id or ""
        slot = self._at.get(call.index)
        if slot is None or (id and slot.raw_id != id) or (name and _is_over(slot, arguments)):
            slot = self._other(call.index, slot, id, name, arguments)
        slot.add(arguments, id, name)
        if id:
            self._named[call.index, id] = slot
        self._at[call.index] = self._at[None] = slot

    def _other(self, index: int | None, slot: CallSlot | None, id: str, name: str, arguments: str) -> CallSlot:
        """Another call than the one being written at *index*: an earlier one, that very one after all, or a new one."""
        if id and (known := self._named.get((index, id))) is not None:
            return known
        if slot is None and not id and not name and (current := self._at.get(None)) is not None:
            return current  # the index came late
        if (
            slot is None
            or slot.raw_id
            or (name and slot.name and name != slot.name)
            or _is_over(slot, name and arguments)
        ):
            return self._answer.open_call()
        return slot  # the id came late


def _is_over(slot: CallSlot, arguments: str) -> bool:
    """Whether what comes can only be another call: no id tells them apart, and the arguments so far are whole."""
    if slot.raw_id or not arguments.strip() or not slot.name:
        return False
    try:
        return isinstance(json.loads(slot.arguments), dict)
    except (ValueError, RecursionError):
        return False


def _loosen(value: object, data: bytes) -> _Chunk:
    """The fields that matter, out of JSON of any shape."""
    if not isinstance(value, dict):
        raise malformed("something that is no chat completion", data)
    choices = value.get("choices")
    return _Chunk(
        choices=[_choice(one) for one in choices if isinstance(one, dict)] if isinstance(choices, list) else None,
        usage=value.get("usage"),
        error=value.get("error"),
    )


def _choice(value: Mapping[str, Any]) -> _Choice:
    return _Choice(
        index=_index(value.get("index")),
        delta=_delta(value.get("delta")),
        message=_delta(value.get("message")),
        finish_reason=_string(value.get("finish_reason")),
        usage=value.get("usage"),
    )


def _delta(value: object) -> _Delta | None:
    if not isinstance(value, dict):
        return None
    calls = value.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    text, thought = _parts(value.get("content"))
    return _Delta(
        content=text,
        reasoning_content=_string(value.get("reasoning_content")) or thought,
        reasoning=_string(value.get("reasoning")),
        refusal=_string(value.get("refusal")),
        tool_calls=[_call(one) for one in calls if isinstance(one, dict)] if isinstance(calls, list) else None,
        function_call=_function(value.get("function_call")),
    )


def _call(value: Mapping[str, Any]) -> _Call:
    id = value.get("id")
    return _Call(
        _index(value.get("index")), str(id) if type(id) is int else _string(id), _function(value.get("function"))
    )


def _function(value: object) -> _Function | None:
    if not isinstance(value, dict):
        return None
    arguments = value.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))  # a string from here on
    return _Function(_string(value.get("name")), arguments)


def _parts(content: object) -> tuple[str | None, str | None]:
    """Text and reasoning of a content that may be a list of parts."""
    if not isinstance(content, list):
        return _string(content), None
    parts = [part for part in content if isinstance(part, dict)]
    text = "".join(filter(None, (_string(part.get("text")) for part in parts)))
    return text, "".join(filter(None, (_thought(part.get("thinking")) for part in parts)))


def _thought(value: object) -> str | None:
    return _parts(value)[0]


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _index(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


make_reader: Final[Callable[[failures.Headers, failures.Redact], ChatReader]] = ChatReader
