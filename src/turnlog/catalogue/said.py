"""What an event says, for searching: the text that a person would look for it by (dsh-v0 §8.3).

What was said, called and answered, a tool's error, todos, and how a turn ended otherwise than well. Reasoning, chunks
and bookkeeping have none. It is read from the stored JSON of any format, so that no log has to be opened for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

SILENT: Final = (
    b'{"type":"assistant/chunk"', b'{"type":"text-chunks"', b'{"type":"reasoning-chunks"',
    b'{"type":"tool-call-chunks"', b'{"type":"step/', b'{"type":"turn/start"', b'{"type":"request/',
)  # fmt: skip
"""How lines begin that never have any text; most lines of a log are of these."""


class Spoken(NamedTuple):
    """An event that says something."""

    seq: int
    time: int
    """Epoch ms."""
    type: str
    text: str
    turn: int | None
    step: int | None
    call_id: str | None
    """Of a call or a result."""
    tools: tuple[str, ...]
    """Names of the tools that it calls; of a result nothing, for only its call has the name."""


def spoken(line: bytes) -> Spoken | None:
    """What a log line says, or None where it says nothing."""
    if line.startswith(SILENT):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or type(event.get("seq")) is not int:
        return None
    return of_event(event["seq"], event.get("time"), event.get("type"), event.get("data"), "surfaceOp" in event)


def of_event(seq: int, time: Any, type: Any, data: Any, surface: bool) -> Spoken | None:
    """The same for an event whose data is decoded already."""
    if not isinstance(data, dict) or not isinstance(type, str):
        return None
    text = "\n".join(part for part in map(str.strip, _parts(type, data, surface)) if part)
    if not text:
        return None
    return Spoken(seq, _number(time) or 0, type, text, _number(data.get("turn")), _number(data.get("step")),
                  _call_id(data), tuple(_tools(type, data)))  # fmt: skip


def _parts(type: str, data: dict[str, Any], surface: bool) -> Iterator[str]:
    if type == "tool/call":
        yield from _texts(data, "name", "arguments")
    elif type == "tool/result":
        yield from _said(_content(data))
        error = data.get("error")
        if isinstance(error, dict):
            yield from _texts(error, "name", "code")
    elif type == "todo/write":
        for todo in _listed(data.get("todos")):
            if isinstance(todo, dict):
                yield f"{todo.get('status')}, {todo.get('content')}"
    elif type == "turn/end":
        yield from _reason(data.get("reason"))
    elif surface:
        yield from _said(_content(data))


def _reason(reason: Any) -> Iterator[str]:
    """How a turn ended, unless it ended well."""
    kind = reason.get("kind") if isinstance(reason, dict) else None
    if kind == "error":
        failure = reason.get("error", reason.get("failure", reason))
        if isinstance(failure, dict):
            yield f"error: {failure.get('code', 'UNKNOWN')}: {failure.get('message')}"
    elif kind in ("aborted", "interrupted", "disposed", "max-tokens"):
        cause = reason.get("reason")
        by = cause.get("kind") if isinstance(cause, dict) else "disposed" if kind == "disposed" else None
        name = "aborted" if kind == "disposed" else kind
        yield name if by is None and kind != "aborted" else f"{name} by {by or 'legacy'}"


def _content(data: dict[str, Any]) -> Any:
    message = data.get("message")
    return message.get("content") if isinstance(message, dict) else data.get("content")


def _said(blocks: Any) -> Iterator[str]:
    if isinstance(blocks, str):
        yield blocks
    for block in _listed(blocks):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            yield from _texts(block, "text")
        elif kind == "tool-call":
            yield from _texts(block, "name", "arguments")
        elif kind == "tool-result":
            yield from _said(block.get("content"))


def _tools(type: str, data: dict[str, Any]) -> Iterator[str]:
    if type == "tool/call":
        yield from _texts(data, "name")
    else:
        for block in _listed(_content(data)):
            if isinstance(block, dict) and block.get("type") == "tool-call":
                yield from _texts(block, "name")


def _call_id(data: dict[str, Any]) -> str | None:
    message = data.get("message")
    source = message.get("source") if isinstance(message, dict) else None
    found = data.get("callId", source.get("callId") if isinstance(source, dict) else None)
    return found if isinstance(found, str) else None


def _texts(data: dict[str, Any], *names: str) -> Iterator[str]:
    yield from (text for name in names if isinstance(text := data.get(name), str))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int | None:
    return value if type(value) is int else None
