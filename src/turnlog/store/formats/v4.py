"""Format 4: tool results have the role ``tool`` and their content directly in the message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from turnlog.events import Codec, Message, Payload
from turnlog.events.lenient import member_text, parse
from turnlog.events.lossless import dump

_decode = msgspec.json.Decoder(dict[str, Raw]).decode

_LIFTED: Final = frozenset({"role", "toolCallId", "content", "isError"})
"""Members of a result's message that become the wrapper and its block; all others stay members of the message."""


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
        data = members(raw)
        stored = members(data["message"])
        if bytes(stored["role"]) != b'"tool"':
            return raw
        block: dict[str, Any] = {
            "type": "tool-result",
            "toolCallId": stored["toolCallId"],
            "content": stored["content"],
        }
    except (ValueError, TypeError, KeyError):
        return raw
    if "isError" in stored:
        block["isError"] = stored["isError"]
    kept = {name: value for name, value in stored.items() if name not in _LIFTED}
    message = {"source": kept.pop("source", UNSET), "content": [block], "role": "user", **kept}
    return dump({**data, "message": {name: value for name, value in message.items() if value is not UNSET}})


def members(raw: Any) -> dict[str, Raw]:
    """The members of an object, each as it is stored; lone surrogates included."""
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, UnicodeError):
        text = bytes(raw)
        return {name: Raw(member_text(text, name)) for name in dict(parse(text))}


def joined(data: Mapping[str, Any]) -> bytes:
    """The object with these members: stored ones as they are, others encoded; the reverse of :func:`members`."""
    return dump({name: value if isinstance(value, Raw) else Raw(dump(value)) for name, value in data.items()})
