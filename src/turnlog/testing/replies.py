"""What a scripted provider says, as the bytes that OpenAI-compatible and Anthropic servers send.

A reply is written in the parts of `turnlog.model.scripted` (``text``, ``reasoning``, ``call``, ``usage``, ``error``,
``max_tokens``, ``stop``, ``cut``, ``wait``), so one script serves a `ScriptedModel` and a `LoopbackServer`. What only a
wire can do has parts of its own here::

    reply(text("Hel"), drop())                      the connection is closed in the middle
    drop()                                          … without a word
    reply(text("Hello"), cut_bytes=40)              … after so many bytes of the stream
    reply(text("Hello"), pieces=1, pause=0.001)     byte by byte
    reply(keep_alive(), wait(2), text("Hello"))     headers and a comment at once, the answer later
    reply(sse(b"data: {not json\\n\\n"))              bytes as they are
    refuse(429, retry_after=2)                      an HTTP error
    hang()                                          no answer, ever

An ``error(code)`` with nothing before it is an HTTP error; later it is an error event inside the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal, TypeAlias

import msgspec

from turnlog.events import Failure, FinishError, FinishMaxTokens, FinishToolCalls, Json, TokenUsage
from turnlog.model.errors import ScriptError
from turnlog.model.scripted import Call, Ending, Reasoning, Text, Usage, Wait

Flavour: TypeAlias = Literal["openai", "anthropic"]
"""Whose protocol is spoken; the path of the request says."""

ID: Final = "loopback-1"
MODEL: Final = "loopback"


@dataclass(frozen=True, slots=True)
class Bytes:
    """Something of the stream that no part has words for."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed here."""


Part: TypeAlias = Text | Reasoning | Call | Usage | Ending | Wait | Bytes | Drop
Step: TypeAlias = bytes | Wait | Drop
"""What a server does next: send, wait, or hang up."""


def sse(data: bytes) -> Bytes:
    """Bytes of the stream, as they are."""
    return Bytes(data)


def keep_alive() -> Bytes:
    """A comment, as servers send to keep a connection open."""
    return Bytes(b": keep-alive\n\n")


def drop() -> Drop:
    """Close the connection here, without ending the response."""
    return Drop()


@dataclass(frozen=True)
class Reply:
    """One answer; made by :func:`reply`. The bytes are made once and sent as often as it is given."""

    parts: tuple[Part, ...]
    pause: float = 0.0
    """Seconds between any two writes of the stream."""
    pieces: int | None = None
    """Bytes per write, when writes should not be whole events."""
    cut_bytes: int | None = None
    """Close the connection after so many bytes of the body."""
    _made: dict[tuple[Flavour, bool], tuple[Step, ...]] = field(default_factory=dict, compare=False, repr=False)

    def steps(self, flavour: Flavour, streams: bool) -> tuple[Step, ...]:
        """What a server does to give it, HTTP included."""
        made = self._made.get((flavour, streams))
        if made is None:
            made = self._made[flavour, streams] = tuple(self._make(flavour, streams))
        return made

    def _make(self, flavour: Flavour, streams: bool) -> Iterator[Step]:
        parts = list(self.parts)
        for part in self.parts:  # before anything is sent
            if not isinstance(part, Wait | Drop):
                break
            yield part
            if isinstance(part, Drop):
                return
            del parts[0]
        failure = _failure(parts if not streams else parts[:1])
        if failure is not None:
            yield response(_status(failure), *_refusal(flavour, failure))
            return
        if streams:
            events = openai_events(parts) if flavour == "openai" else anthropic_events(parts)
            yield from _streamed(events, self)
            return
        yield from (part for part in parts if isinstance(part, Wait))
        whole = openai_body(parts) if flavour == "openai" else anthropic_body(parts)
        yield from _whole(_json(whole), self, any(isinstance(part, Drop) for part in parts))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP response that is no answer; made by :func:`refuse`."""

    data: bytes

    def steps(self, _flavour: Flavour, _streams: bool) -> tuple[Step, ...]:
        """What a server does to give it."""
        return (self.data,)


def reply(*parts: Part | str, pause: float = 0.0, pieces: int | None = None, cut_bytes: int | None = None) -> Reply:
    """An answer of these parts; strings are text. *pause*, *pieces* and *cut_bytes*: see :class:`Reply`."""
    return Reply(sendable(parts), pause, pieces, cut_bytes)


def sendable(parts: Iterable[Part | str], calls: int = 0) -> tuple[Part, ...]:
    """Checked parts; calls without an id are named ``call_<n>``, *calls* having been before them."""
    made: list[Part] = []
    for part in parts:
        if isinstance(part, str):
            part = Text((part,))
        elif isinstance(part, Call):
            calls += 1
            part = Call(part.name, part.pieces, part.id or f"call_{calls}")
        elif not isinstance(part, Part):
            raise ScriptError(f"{part!r:.200} cannot be sent by a server; use parts that a wire has")
        made.append(part)
    return tuple(made)


def refuse(
    status: int,
    message: str = "",
    *,
    retry_after: float | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Refusal:
    """An HTTP error. *retry_after* is in seconds; *body* replaces the usual JSON."""
    more = {**({} if retry_after is None else {"retry-after": f"{retry_after:g}"}), **(headers or {})}
    said = message or f"loopback says {status}"
    if body is None:
        body = _json({"error": {"message": said, "type": _KINDS.get(status, "server_error"), "code": None}})
    return Refusal(response(status, body, more))


def hang() -> Reply:
    """No answer, ever: not even headers."""
    return Reply((Wait(inf),))


# -- HTTP -------------------------------------------------------------------------------------------------------------

_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests", 500: "Server Error"}
_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    408: "timeout_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_STATUSES: Final = {
    "AUTH": 401,
    "CONTEXT_WINDOW_EXCEEDED": 400,
    "INVALID_REQUEST": 400,
    "QUOTA": 402,
    "RATE_LIMIT": 429,
    "TIMEOUT": 408,
}
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"x-request-id: " + ID.encode() + b"\r\ntransfer-encoding: chunked\r\n\r\n"
)


def response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole JSON response."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in {"x-request-id": ID, **(headers or {})}.items()]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _streamed(events: Iterable[Step], how: Reply) -> Iterator[Step]:
    """HTTP around a stream, in as few writes as it asks for."""
    head: bytes = _STREAM_HEAD
    body: list[bytes] = []
    for step in _shaped(events, how):
        if isinstance(step, bytes):
            body.append(step)
            if not how.pause:
                continue
        if head or body:
            yield head + _chunk(b"".join(body))
        head, body = b"", []
        yield Wait(how.pause) if isinstance(step, bytes) else step
        if isinstance(step, Drop):
            return
    yield head + _chunk(b"".join(body)) + b"0\r\n\r\n"


def _shaped(events: Iterable[Step], how: Reply) -> Iterator[Step]:
    """The same stream, cut and in pieces, as the reply asks for."""
    left = how.cut_bytes
    for step in events:
        if not isinstance(step, bytes):
            yield step
            continue
        data = step if left is None else step[:left]
        size = how.pieces or len(data) or 1
        yield from (data[at : at + size] for at in range(0, len(data), size))
        if left is not None:
            left -= len(data)
            if left == 0:
                yield Drop()
                return


def _whole(body: bytes, how: Reply, drops: bool) -> Iterator[Step]:
    """A body that is not streamed, or a part of it."""
    sent = len(body) // 2 if drops else len(body) if how.cut_bytes is None else how.cut_bytes
    whole = response(200, body)
    yield whole[: len(whole) - len(body) + min(sent, len(body))]
    if sent < len(body):
        yield Drop()


def _status(failure: Failure) -> int:
    code = failure.code
    return failure.status or _STATUSES.get(code) or (int(code[5:]) if code[:5] == "HTTP_" else 500)


def _refusal(flavour: Flavour, failure: Failure) -> tuple[bytes, Mapping[str, str]]:
    """Body and headers of an HTTP error."""
    headers: dict[str, str] = {}
    if failure.provider_retry_after_ms is not None:
        headers["retry-after-ms"] = f"{failure.provider_retry_after_ms:g}"
        headers["retry-after"] = f"{failure.provider_retry_after_ms / 1000:g}"
    if failure.request_id is not None:
        headers["x-request-id"] = failure.request_id
    return _json(_error(flavour, failure)), headers


def _error(flavour: Flavour, failure: Failure) -> dict[str, Json]:
    kind = _KINDS.get(_status(failure), "server_error")
    if flavour == "anthropic":
        kind = "api_error" if kind == "server_error" else kind
        return {"type": "error", "error": {"type": kind, "message": failure.message}}
    code = "context_length_exceeded" if failure.code == "CONTEXT_WINDOW_EXCEEDED" else None
    return {"error": {"message": failure.message, "type": kind, "code": code}}


_json: Final = msgspec.json.Encoder().encode


def _data(value: Json) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


# -- OpenAI-compatible chat completions -------------------------------------------------------------------------------


def openai_events(parts: Sequence[Part]) -> Iterator[Step]:
    """The stream of a chat completion."""
    finish, calls = _openai_finish(parts), 0
    yield _delta({"role": "assistant", "content": ""})
    for part in parts:
        match part:
            case Text(pieces=pieces):
                yield from (_delta({"content": piece}) for piece in pieces)
            case Reasoning(pieces=pieces):
                yield from (_delta({"reasoning_content": piece}) for piece in pieces)
            case Call(name=name, pieces=pieces, id=id):
                function: Json = {"name": name, "arguments": ""}
                yield _delta({"tool_calls": [{"index": calls, "id": id, "type": "function", "function": function}]})
                for piece in pieces:
                    yield _delta({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]})
                calls += 1
            case Ending(reason=FinishError(failure=failure)):
                yield _data(_error("openai", failure))
                return
            case Bytes(data=data):
                yield data
            case Wait() | Drop():
                yield part
            case _:
                pass  # how it ends and what it cost come last
    if finish is None:
        return
    yield _delta({}, finish)
    if (counts := _usage(parts)) is not None:
        yield _data({**_ENVELOPE, "choices": [], "usage": _openai_usage(counts)})
    yield b"data: [DONE]\n\n"


_ENVELOPE: Final[dict[str, Json]] = {
    "id": ID,
    "object": "chat.completion.chunk",
    "created": 1_700_000_000,
    "model": MODEL,
}


def _delta(delta: dict[str, Json], finish: str | None = None) -> bytes:
    return _data({**_ENVELOPE, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def openai_body(parts: Sequence[Part]) -> dict[str, Json]:
    """The same answer, not streamed."""
    calls: list[Json] = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": "".join(part.pieces)}}
        for part in parts
        if isinstance(part, Call)
    ]
    thought = _joined(parts, Reasoning)
    message: dict[str, Json] = {"role": "assistant", "content": _joined(parts, Text)}
    message |= {} if thought is None else {"reasoning_content": thought}
    message |= {"tool_calls": calls} if calls else {}
    counts = _usage(parts)
    return {
        **_ENVELOPE,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": _openai_finish(parts)}],
        **({} if counts is None else {"usage": _openai_usage(counts)}),
    }


def _openai_finish(parts: Sequence[Part]) -> str | None:
    match _kind(parts):
        case "calls":
            return "tool_calls"
        case "limit":
            return "length"
        case kind:
            return kind


def _openai_usage(counts: TokenUsage) -> dict[str, Json]:
    cached = counts.cache_read_tokens or 0
    prompt = counts.input_tokens + cached + (counts.cache_write_tokens or 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": counts.output_tokens,
        "total_tokens": prompt + counts.output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning_tokens or 0},
    }


# -- Anthropic messages -----------------------------------------------------------------------------------------------


def anthropic_events(parts: Sequence[Part]) -> Iterator[Step]:
    """The stream of a message."""
    counts, index = _usage(parts), 0
    message = {**_MESSAGE, "content": [], "stop_reason": None, "usage": _anthropic_usage(counts, 1)}
    yield _event("message_start", {"message": message})
    for part in parts:
        match part:
            case Text(pieces=pieces):
                deltas = [("text_delta", "text", piece) for piece in pieces]
                yield from _block(index, {"type": "text", "text": ""}, deltas)
                index += 1
            case Reasoning(pieces=pieces):
                deltas = [("thinking_delta", "thinking", piece) for piece in pieces]
                deltas.append(("signature_delta", "signature", _SIGNATURE))
                yield from _block(index, {"type": "thinking", "thinking": "", "signature": ""}, deltas)
                index += 1
            case Call(name=name, pieces=pieces, id=id):
                deltas = [("input_json_delta", "partial_json", piece) for piece in pieces]
                yield from _block(index, {"type": "tool_use", "id": id, "name": name, "input": {}}, deltas)
                index += 1
            case Ending(reason=FinishError(failure=failure)):
                yield _event("error", _error("anthropic", failure))
                return
            case Bytes(data=data):
                yield data
            case Wait() | Drop():
                yield part
            case _:
                pass
    if (reason := _anthropic_finish(parts)) is None:
        return
    usage = {"output_tokens": 0 if counts is None else counts.output_tokens}
    yield _event("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage})
    yield _event("message_stop", {})


_MESSAGE: Final[dict[str, Json]] = {
    "id": ID,
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "stop_sequence": None,
}
_SIGNATURE: Final = "bG9vcGJhY2s="


def _event(name: str, value: dict[str, Json]) -> bytes:
    return b"event: %b\n" % name.encode() + _data({"type": name, **value})


def _block(index: int, opened: Json, deltas: Iterable[tuple[str, str, str]]) -> Iterator[bytes]:
    yield _event("content_block_start", {"index": index, "content_block": opened})
    for kind, name, piece in deltas:
        yield _event("content_block_delta", {"index": index, "delta": {"type": kind, name: piece}})
    yield _event("content_block_stop", {"index": index})


def anthropic_body(parts: Sequence[Part]) -> dict[str, Json]:
    """The same answer, not streamed. Arguments that are no JSON cannot be said in it."""
    content: list[Json] = []
    for part in parts:
        match part:
            case Text(pieces=pieces):
                content.append({"type": "text", "text": "".join(pieces)})
            case Reasoning(pieces=pieces):
                content.append({"type": "thinking", "thinking": "".join(pieces), "signature": _SIGNATURE})
            case Call(name=name, pieces=pieces, id=id):
                arguments: Json = msgspec.json.decode("".join(pieces) or "{}")
                content.append({"type": "tool_use", "id": id, "name": name, "input": arguments})
            case _:
                pass
    counts = _usage(parts)
    usage = _anthropic_usage(counts, 0 if counts is None else counts.output_tokens)
    return {**_MESSAGE, "content": content, "stop_reason": _anthropic_finish(parts), "usage": usage}


def _anthropic_finish(parts: Sequence[Part]) -> str | None:
    match _kind(parts):
        case "calls":
            return "tool_use"
        case "limit":
            return "max_tokens"
        case "stop":
            return "end_turn"
        case _:
            return None


def _anthropic_usage(counts: TokenUsage | None, output: int) -> dict[str, Json]:
    counts = counts or TokenUsage(0, 0)
    return {
        "input_tokens": counts.input_tokens,
        "output_tokens": output,
        "cache_read_input_tokens": counts.cache_read_tokens or 0,
        "cache_creation_input_tokens": counts.cache_write_tokens or 0,
    }


# -- what both need to know -------------------------------------------------------------------------------------------


def _kind(parts: Sequence[Part]) -> Literal["calls", "limit", "stop"] | None:
    """How the answer ends; None when the stream does not say."""
    ending = next((part for part in parts if isinstance(part, Ending)), None)
    if ending is None:
        return "calls" if any(isinstance(part, Call) for part in parts) else "stop"
    match ending.reason:
        case None:
            return None
        case FinishMaxTokens():
            return "limit"
        case FinishToolCalls():
            return "calls"
        case _:
            return "stop"


def _failure(parts: Sequence[Part]) -> Failure | None:
    for part in parts:
        if isinstance(part, Ending) and isinstance(part.reason, FinishError):
            return part.reason.failure
    return None


def _usage(parts: Sequence[Part]) -> TokenUsage | None:
    return next((part.usage for part in reversed(parts) if isinstance(part, Usage)), None)


def _joined(parts: Sequence[Part], kind: type[Text] | type[Reasoning]) -> str | None:
    found = [piece for part in parts if isinstance(part, kind) for piece in part.pieces]
    return "".join(found) if found else None
