"""From stored JSON to typed payloads and messages, and back without loss.

A :class:`Codec` reads one format with one vocabulary. Format 0 is the canonical shape; codecs of other formats
(``turnlog.store.formats``) override how a type's data becomes that shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Never

import msgspec
from msgspec import Struct

from .conversation import AssistantMessage, UserMessage
from .later import DeveloperMessage, SystemMessage
from .legacy import NORMALIZERS
from .lenient import Mismatch, convert, member_text, parse
from .lossless import decode_hook, dump, freeze
from .message import Message
from .payload import OpaquePayload, Payload, UndecodablePayload, UnknownPayload
from .tool import ToolResult
from .value import Opaque

RETIRED: Final = frozenset({"request/header-delta", "mode/set"})
"""Types that old versions wrote and that nothing reads any more."""


class _OfMessage(Struct, frozen=True, gc=False):
    message: Message


_message_of = msgspec.json.Decoder(_OfMessage, dec_hook=decode_hook).decode
_message = msgspec.json.Decoder(Message, dec_hook=decode_hook).decode


class Codec:
    """Reads the stored ``data`` of events: format 0, canonical shape."""

    version: ClassVar[int] = 0

    __slots__ = ("_decoders", "_kinds", "_session_id")

    def __init__(self, kinds: Mapping[str, type[Payload]], session_id: str = "") -> None:
        object.__setattr__(self, "_kinds", kinds)
        object.__setattr__(self, "_session_id", session_id)
        object.__setattr__(self, "_decoders", {})

    _kinds: Mapping[str, type[Payload]]
    _session_id: str
    _decoders: dict[str, Callable[[Any], Payload]]

    @property
    def kinds(self) -> Mapping[str, type[Payload]]:
        """Event type → the payload class that shows it."""
        return self._kinds

    @property
    def session_id(self) -> str:
        """The session whose log it reads; part of the ids given to messages that have none."""
        return self._session_id

    def __setattr__(self, name: str, _value: Never) -> None:
        raise AttributeError(f"a codec is immutable: {name!r} cannot be set")

    def payload(self, type: str, raw: Any, seq: int) -> Payload:
        """The typed view of an event's data. Never fails: see UnknownPayload and UndecodablePayload."""
        decode = self._decoders.get(type)
        if decode is not None:
            try:
                return decode(raw)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                return self.slow_payload(type, bytes(raw), seq)
        kind = self.kinds.get(type)
        if kind is not None and not issubclass(kind, OpaquePayload):
            self._decoders[type] = decoder_of(kind)
            return self.payload(type, raw, seq)
        return self.slow_payload(type, bytes(raw), seq)

    def slow_payload(self, type: str, raw: bytes, seq: int) -> Payload:
        """The same for opaque types and for data that the fast decoder refuses."""
        try:
            value = parse(raw)
        except ValueError as error:
            return UndecodablePayload(type=type, value=None, reason=f"$: {error}")
        try:
            kind = self.kinds.get(type)
            if kind is not None and issubclass(kind, OpaquePayload):
                return kind(value=freeze(value))
            try:
                return self.build(type, value, seq)
            except Mismatch as error:
                return UndecodablePayload(type=type, value=freeze(value), reason=str(error))
        except RecursionError:
            return UndecodablePayload(type=type, value=None, reason="$: nested too deeply to look into")

    def build(self, type: str, value: Any, seq: int) -> Payload:
        """A payload from decoded JSON, old shapes of the same type included. Raises Mismatch."""
        type, value = self._canonical(type, value, seq)
        kind = self.kinds.get(type)
        if kind is None:
            return UnknownPayload(type=type, value=freeze(value))
        payload = convert(kind, value)
        assert isinstance(payload, Payload)
        return payload

    def canonical(self, type: str, raw: Any, seq: int) -> Any:
        """The data as plain JSON in today's shape. Raises ``ValueError`` for data that is no JSON."""
        return self._canonical(type, parse(bytes(raw)), seq)[1]

    def _canonical(self, type: str, value: Any, seq: int) -> tuple[str, Any]:
        normalize = NORMALIZERS.get(type)
        return (type, value) if normalize is None else normalize(value, f"legacy-message:{self.session_id}:{seq}")

    def message(self, type: str, raw: Any, seq: int) -> Message | None:
        """The model-visible message of a surface event, or None for an empty answer.

        Data that is no message gives one that says so (an ``undecodable`` block), never a hole in the history.
        """
        try:
            message = _message(raw) if type == "user/message" else _message_of(raw).message
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            message = self._slow_message(type, bytes(raw), seq)[0]
        return message if message.content or type in ALWAYS_SHOWN else None

    def message_json(self, type: str, raw: Any, seq: int) -> bytes:
        """The same message as JSON: the stored bytes where they have the canonical shape."""
        message, stored = self._slow_message(type, bytes(raw), seq)
        if stored is not None:
            return stored
        if type == "user/message" and b'"envelope"' in bytes(raw):
            return _without_envelope(bytes(raw)) or dump(message)
        return dump(message)

    def _slow_message(self, type: str, raw: bytes, seq: int) -> tuple[Message, bytes | None]:
        """A message from any shape it was ever stored in, and its stored bytes if they have the canonical one."""
        try:
            value = parse(raw)
            canonical = value
            type, value = self._canonical(type, value, seq)
            wrapped = type != "user/message"
            message = convert(Message, value["message"] if wrapped else value)
        except (Mismatch, ValueError, KeyError, TypeError) as error:
            return _undecodable(type, raw, error), None
        assert isinstance(message, Message)
        if value != canonical:
            return message, None
        if wrapped:
            return message, member_text(raw, "message")
        return message, None if "envelope" in value else raw  # display metadata is no part of the message


def _without_envelope(raw: bytes) -> bytes | None:
    """A user message without its envelope, every other member byte for byte; None when it is no plain object."""
    try:
        members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError):
        return None
    members.pop("envelope", None)
    return dump(members)


def _undecodable(type: str, raw: bytes, error: Exception) -> Message:
    """A message in the place of data that is none: visible, and refused by whoever would send it."""
    block = {"type": "undecodable", "reason": str(error), "data": raw.decode(errors="backslashreplace")}
    role = "assistant" if type == "assistant/message" else "user"
    return Message(role, (Opaque("undecodable", block),), Opaque("undecodable", {"kind": "undecodable"}), "")


ALWAYS_SHOWN: Final = frozenset({"user/message", "tool/result", "steering/message"})
"""Surface types whose messages are shown whatever they hold; answers and prompts may be empty."""

not_empty: Final = re.compile(rb'"message":\{"role":"assistant","content":\[\{').search
"""Finds the first block of a canonical answer in its stored bytes; called with :data:`START` and :data:`PREFIX`."""
START: Final = len(b'{"turn":1,"step":1,')
"""Bytes before the message of a canonical answer, at least."""
PREFIX: Final = 90
"""Bytes in which every writer of canonical answers has come to the first block."""


def message_of(payload: Payload) -> Message | None:
    """What a surface payload shows the model: its message, unless that is an empty answer."""
    match payload:
        case UserMessage():
            return payload.message
        case AssistantMessage(message=message):
            return message if message.content else None
        case ToolResult(message=message):
            return message
        case SystemMessage(message=message) | DeveloperMessage(message=message):
            return message if message.content else None
        case _:
            return None


_DECODERS: Final[dict[type[Payload], Callable[[Any], Payload]]] = {}


def decoder_of(kind: type[Payload]) -> Callable[[Any], Payload]:
    """The fast decoder of a payload class; built once, when it is first needed."""
    decode = _DECODERS.get(kind)
    if decode is None:
        decode = _DECODERS[kind] = msgspec.json.Decoder(kind, dec_hook=decode_hook).decode
    return decode


def encode(payload: Payload) -> bytes:
    """The stored ``data`` of a payload."""
    return dump(payload.value if isinstance(payload, OpaquePayload) else payload)
