"""JSON without loss: which Python values an event may hold, and how they are kept.

A value is *lossless* when encoding it, decoding the text with the reader's decoder and comparing gives the value
back. Typed fields are proven that way at append. An *open* field (any JSON: a tool result's ``meta``, a schema) has
no type to prove it with, so it gets a strict walk as well: exact types only, integers within ±(2**53 - 1), finite
floats other than -0.0, no lone surrogates, at most 256 levels.

Inside an event open JSON is frozen: objects are read-only mappings, arrays are :class:`JsonArray`. Both compare
equal to the ``dict`` and ``list`` they came from, and both may be appended again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from .errors import TurnlogError

S = TypeVar("S", bound=Struct)

MAX_SAFE: Final = 2**53 - 1
"""Largest integer that every JSON reader (JavaScript's doubles included) holds exactly."""

MAX_DEPTH: Final = 256
"""Deepest nesting of open JSON; well under every decoder's recursion limit, far above real payloads."""

_REMEDIES: Final[Mapping[str, str]] = {
    "datetime": "store epoch milliseconds",
    "date": "store an ISO 8601 string",
    "time": "store an ISO 8601 string",
    "timedelta": "store milliseconds",
    "bytes": "store text, or base64 in a string",
    "bytearray": "store text, or base64 in a string",
    "memoryview": "store text, or base64 in a string",
    "tuple": "use a list",
    "set": "use a list, sorted",
    "frozenset": "use a list, sorted",
    "deque": "use a list",
    "Decimal": "store a string",
    "UUID": "store str(value)",
    "Raw": "raw JSON is not accepted; pass the decoded value",
    "UnsetType": "leave the key out",
    "function": "store its result",
}


class AnyInstance(type):
    """Metaclass of run-time markers: msgspec checks what its hook returns against the marker, and anything passes."""

    def __instancecheck__(cls, _value: object) -> bool:
        return True


if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:

    class Json(metaclass=AnyInstance):
        """Run-time marker of an open JSON field; the decoder freezes what it finds there."""


class LosslessError(TurnlogError, ValueError):
    """A value would not survive being stored: names the event type, the JSON path and the remedy."""


class JsonArray(tuple[Json, ...]):
    """A frozen JSON array; equal to a list or tuple of equal members."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other)) if isinstance(other, list | tuple) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __deepcopy__(self, _memo: object) -> JsonArray:
        return self

    __hash__ = tuple.__hash__


def freeze(value: Any) -> Json:
    """An immutable copy of decoded JSON (dicts become read-only mappings, lists become :class:`JsonArray`)."""
    kind = type(value)
    if kind is dict:
        return MappingProxyType({key: freeze(member) for key, member in value.items()})
    if kind is list:
        return JsonArray(map(freeze, value))
    return value  # type: ignore[no-any-return]


def copied(struct: S, memo: dict[int, Any]) -> S:
    """What ``copy.deepcopy`` makes of a struct: frozen JSON, which Python cannot copy and nobody need, is shared."""
    values = {name: getattr(struct, name) for name in struct.__struct_fields__}
    kept = {name: value if type(value) is MappingProxyType else deepcopy(value, memo) for name, value in values.items()}
    return type(struct)(**kept)


def thaw(value: Json) -> Any:
    """A fresh plain copy (dicts and lists) of frozen JSON, for callers that want to change it."""
    if isinstance(value, Mapping):
        return {key: thaw(member) for key, member in value.items()}
    if isinstance(value, JsonArray | list | tuple):
        return [thaw(member) for member in value]
    return value


def check_open(value: object, path: str = "$", depth: int = 0) -> None:
    """Raise :class:`LosslessError` where *value* is not lossless JSON; *path* is the JSON path of *value*."""
    if not _is_plain(value, depth):
        _find_fault(value, path, depth)


def _is_plain(value: object, depth: int) -> bool:
    """Whether *value* is lossless JSON for sure; no paths are made for what is."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_text(value)  # type: ignore[attr-defined,arg-type]
    if kind is dict or kind is MappingProxyType:
        if depth >= MAX_DEPTH:
            return False
        for key, member in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or not (key.isascii() or _is_text(key)) or not _is_plain(member, depth + 1):
                return False
        return True
    if kind is list or kind is JsonArray:
        return depth < MAX_DEPTH and all(_is_plain(member, depth + 1) for member in value)  # type: ignore[attr-defined]
    if kind is int:
        return -MAX_SAFE <= value <= MAX_SAFE  # type: ignore[operator]
    if kind is float:
        return value != 0 and math.isfinite(value)  # type: ignore[arg-type]
    return kind is bool or value is None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_fault(value: object, path: str, depth: int) -> None:
    kind = type(value)
    if kind is bool or value is None:
        return
    if kind is str:
        check_text(value, path)  # type: ignore[arg-type]
    elif kind is int:
        if not -MAX_SAFE <= value <= MAX_SAFE:  # type: ignore[operator]
            raise LosslessError(f"{path}: integer beyond ±(2**53 - 1) is not portable JSON; store a string")
    elif kind is float:
        _check_float(value, path)  # type: ignore[arg-type]
    elif kind is dict or kind is MappingProxyType:
        _check_depth(depth, path)
        for key, member in value.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                raise LosslessError(f"{path}: key {key!r} is {_name(type(key))}, not a string; use str keys")
            check_text(key, path)
            _find_fault(member, f"{path}.{key}", depth + 1)
    elif kind is list or kind is JsonArray:
        _check_depth(depth, path)
        for index, member in enumerate(value):  # type: ignore[arg-type]
            _find_fault(member, f"{path}[{index}]", depth + 1)
    else:
        raise LosslessError(f"{path}: {not_json(value)}")


def check_text(text: str, path: str) -> None:
    """Refuse lone surrogates: UTF-8 cannot hold them, so our own data may not either."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LosslessError(
            f"{path}: lone surrogate U+{ord(text[error.start]):04X} at character {error.start} is not text; "
            "join the pair or replace it with U+FFFD"
        ) from None


def join_text(before: str, after: str) -> str:
    """Two pieces of text, joined: halves of a surrogate pair that was cut between them become its character."""
    if before and "\ud800" <= before[-1] <= "\udbff" and after and "\udc00" <= after[0] <= "\udfff":
        pair = (before[-1] + after[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        return before[:-1] + pair + after[1:]
    return before + after


def whole_text(text: str) -> str:
    """The same text with U+FFFD for each half of a pair that nothing completes."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", text)


def not_json(value: object) -> str:
    """Why *value* is no JSON, with the remedy where there is a usual one."""
    kind = type(value)
    name = _name(kind)
    for base in kind.__mro__:
        if remedy := _REMEDIES.get(base.__name__):
            return f"{name} is not JSON; {remedy}"
    for plain in (bool, int, float, str, list, dict):
        if isinstance(value, plain):
            return f"{name} is a subclass, not exact JSON; use {plain.__name__}(value)"
    return f"{name} is not JSON; store str, int, float, bool, None, list or dict"


def dump(value: object) -> bytes:
    """Compact JSON of plain, frozen or typed values; lone surrogates (read from foreign logs) become ``\\udXXX``."""
    try:
        return encoder.encode(value)
    except UnicodeEncodeError:
        return _dump_surrogates(value)


def _dump_surrogates(value: object) -> bytes:
    import json

    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def plain(value: object) -> Any:
    """Builtin dicts, lists and scalars of any typed or frozen value."""
    return msgspec.to_builtins(value, enc_hook=encode_hook)


def encode_hook(value: object) -> object:
    """How msgspec encodes what it does not know: frozen mappings and values that say their own JSON."""
    if type(value) is MappingProxyType:
        return dict(value)
    as_json = getattr(value, "__json__", None)
    if as_json is not None:
        return as_json()
    raise LosslessError(f"$: {not_json(value)}")


def decode_hook(_kind: type, value: Any) -> Any:
    """msgspec's hook for :data:`Json` fields."""
    return freeze(value)


encoder: Final = msgspec.json.Encoder(enc_hook=encode_hook)
decode_any: Final = msgspec.json.Decoder().decode


def _check_float(value: float, path: str) -> None:
    if not math.isfinite(value):
        raise LosslessError(f"{path}: {value} is not JSON; store null or a string")
    if value == 0 and math.copysign(1, value) < 0:
        raise LosslessError(f"{path}: -0.0 loses its sign in other readers; store 0.0")


def _check_depth(depth: int, path: str) -> None:
    if depth >= MAX_DEPTH:
        raise LosslessError(f"{path[:60]}…: nested deeper than {MAX_DEPTH} levels (or cyclic); store it flatter")


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else kind.__name__
