"""Format 4: tool results have the role ``tool`` and their content directly in the message."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from turnlog.events import Codec, Message, Payload
from turnlog.events.lossless import dump


class _Result(Struct, frozen=True, gc=False, rename="camel"):
    id: str
    tool_call_id: str
    content: Raw
    source: Raw
    is_error: Raw = Raw(b"")


class _OfResult(Struct, frozen=True, gc=False):
    message: _Result


_result = msgspec.json.Decoder(_OfResult).decode


class Format4Codec(Codec):
    """Lifts tool results back into format 0's shape: a user message with one tool-result block."""

    version = 4

    def payload(self, type: str, raw: Any, seq: int) -> Payload:
        """See :meth:`Codec.payload`; tool results are lifted first."""
        return super().payload(type, _lifted(raw) if type == "tool/result" else raw, seq)

    def message(self, type: str, raw: Any, seq: int) -> Message | None:
        """See :meth:`Codec.message`; tool results are lifted first."""
        return super().message(type, _lifted(raw) if type == "tool/result" else raw, seq)

    def message_json(self, type: str, raw: Any, seq: int) -> bytes:
        """See :meth:`Codec.message_json`; a tool result's content and source stay byte for byte."""
        return super().message_json(type, _lifted(raw) if type == "tool/result" else raw, seq)


def _lifted(raw: Any) -> Any:
    """The same data with format 0's message, or *raw* as it is when it does not have format 4's shape."""
    try:
        result = _result(raw).message
        rest = msgspec.json.decode(raw, type=dict[str, Raw])
    except (msgspec.MsgspecError, UnicodeError):
        return raw
    block: dict[str, Any] = {"type": "tool-result", "toolCallId": result.tool_call_id, "content": result.content}
    if bytes(result.is_error):
        block["isError"] = result.is_error
    message = {"source": result.source, "content": [block], "role": "user", "id": result.id}
    return dump({**rest, "message": message})
