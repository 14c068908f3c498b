"""The documents' sample log: no header line, and simplified shapes.

Messages have no id and no source, tool calls are ``tool_use`` blocks with parsed input, results are ``{role: tool,
toolName, content}``, chunks have no index, usage sits on the message. The canonical view fills in only what the log
itself says elsewhere: a call's raw arguments come from its ``tool/call``, a result's call id from the call it cites.
What the log does not say stays unsaid: the source is ``{kind: "unrecorded"}``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from turnlog.events import Codec, Message, Payload, UndecodablePayload, message_of
from turnlog.events.lenient import Mismatch, parse
from turnlog.events.lossless import dump

UNRECORDED = {"kind": "unrecorded"}
SAMPLE_TYPES: Final = frozenset(
    {
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "user/message",
        "assistant/chunk",
        "assistant/message",
        "tool/call",
        "tool/result",
    }
)
"""The types of events that the documents speak of."""


class SampleCodec(Codec):
    """Reads the sample's shapes; learns calls from the log before anything is looked at."""

    __slots__ = ("_arguments", "_call_of")

    version = -1
    _arguments: dict[str, str]
    _call_of: dict[int, str]

    def learn(self, calls: Iterable[tuple[int, bytes]], cited: Iterable[tuple[int, tuple[int, ...]]]) -> None:
        """Take in the log's ``tool/call`` data by seq, and what its results cite."""
        known = {seq: call for seq, call in ((seq, _call(raw)) for seq, raw in calls) if call is not None}
        object.__setattr__(self, "_arguments", {call["callId"]: call["arguments"] for call in known.values()})
        object.__setattr__(
            self,
            "_call_of",
            {seq: known[source]["callId"] for seq, sources in cited for source in sources if source in known},
        )

    def payload(self, type: str, raw: Any, seq: int) -> Payload:
        """See :meth:`Codec.payload`."""
        return self.slow_payload(type, bytes(raw), seq)

    def message(self, type: str, raw: Any, seq: int) -> Message | None:
        """See :meth:`Codec.message`."""
        payload = self.payload(type, raw, seq)
        return super().message(type, raw, seq) if isinstance(payload, UndecodablePayload) else message_of(payload)

    def message_json(self, type: str, raw: Any, seq: int) -> bytes:
        """See :meth:`Codec.message_json`."""
        message = message_of(self.payload(type, raw, seq))
        return super().message_json(type, raw, seq) if message is None else dump(message)

    def build(self, type: str, value: Any, seq: int) -> Payload:
        """The canonical payload of the sample's shape."""
        try:
            if type == "user/message":
                value = {"source": UNRECORDED, "id": self._id(seq), **value}
            elif type == "assistant/chunk":
                value = {**value, "chunk": _chunk(value["chunk"])}
            elif type == "assistant/message":
                value = self._assistant(value, seq)
            elif type == "tool/result":
                value = {**value, "message": self._result(value["message"], seq)}
        except (KeyError, TypeError, AttributeError) as error:
            raise Mismatch(f"$: not the sample's shape ({error!r})") from None
        return super().build(type, value, seq)

    def _id(self, seq: int) -> str:
        return f"legacy-message:{self.session_id}:{seq}"

    def _assistant(self, value: dict[str, Any], seq: int) -> dict[str, Any]:
        message = {"source": UNRECORDED, "id": self._id(seq), **value["message"]}
        usage = message.pop("usage", None)
        message["content"] = [self._block(block) for block in message["content"]]
        lifted = {**value, "message": message}
        return lifted if usage is None or "usage" in lifted else {**lifted, "usage": usage}

    def _block(self, block: dict[str, Any]) -> dict[str, Any]:
        if block.get("type") != "tool_use":
            return block
        raw = self._arguments.get(block["id"])
        arguments = dump(block["input"]).decode() if raw is None else raw
        return {"type": "tool-call", "id": block["id"], "name": block["name"], "arguments": arguments}

    def _result(self, message: dict[str, Any], seq: int) -> dict[str, Any]:
        call_id = self._call_of.get(seq, "")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        block = {"type": "tool-result", "toolCallId": call_id, "content": blocks, "isError": message["isError"]}
        return {"role": "user", "content": [block], "source": {"kind": "tool", "callId": call_id}, "id": self._id(seq)}


def _call(raw: bytes) -> dict[str, Any] | None:
    """A call's data, or None where it is damaged."""
    try:
        call = parse(raw)
        return call if isinstance(call["callId"], str) and isinstance(call["arguments"], str) else None
    except (ValueError, KeyError, TypeError):
        return None


def _chunk(chunk: dict[str, Any]) -> dict[str, Any]:
    if chunk.get("type") == "tool-call-delta" and "arguments" in chunk:
        rest = {key: member for key, member in chunk.items() if key != "arguments"}
        return {"index": 1, "id": "", **rest, "argumentsDelta": chunk["arguments"]}
    return {"index": 0, **chunk}
