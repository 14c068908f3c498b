"""The slow decoder: takes what the fast one refuses and says what does not fit.

The fast decoder (msgspec) refuses a whole payload for one unknown block or one lone surrogate. This one reads the
same JSON with Python's own parser, keeps unknown variants as :class:`~turnlog.events.Opaque`, and names the path of
the first member that does not have its type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

from msgspec import inspect

from .lossless import decode_any, freeze
from .value import Opaque


class Mismatch(ValueError):
    """Data that is JSON but not of the expected type; says where."""


def parse(raw: bytes) -> Any:
    """Decode JSON, lone surrogates included. Raises ValueError (with the byte) for what is no JSON."""
    try:
        return decode_any(raw)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(bytes(raw).decode(), parse_constant=_no_constant)  # decoded here: json would guess UTF-16
    except RecursionError:
        raise ValueError("nested too deeply to read") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} ({raw[error.start]:#04x}) is not UTF-8") from None
    except json.JSONDecodeError:
        raise
    except _Constant as error:
        raise ValueError(str(error)) from None
    except ValueError:
        raise ValueError("it holds a number with more digits than Python converts") from None


def convert(kind: type, value: Any) -> Any:
    """Build a *kind* (a frozen struct) from decoded JSON, or raise :class:`Mismatch`."""
    return _build(_info(kind), value, "$")


class _Constant(ValueError):
    """NaN or an infinity."""


def _no_constant(text: str) -> NoReturn:
    raise _Constant(f"{text} is not JSON")


@cache
def _info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _build(info: inspect.Type, value: Any, path: str) -> Any:
    match info:
        case inspect.StructType():
            return _build_struct(info, value, path)
        case inspect.UnionType(types=types):
            return _build_union(types, value, path)
        case inspect.VarTupleType(item_type=item):
            if not isinstance(value, list):
                _mismatch(path, "an array", value)
            return tuple(_build(item, member, f"{path}[{index}]") for index, member in enumerate(value))
        case inspect.TupleType(item_types=items):
            if not isinstance(value, list) or len(value) != len(items):
                _mismatch(path, f"an array of {len(items)}", value)
            pairs = zip(items, value, strict=True)
            return tuple(_build(item, member, f"{path}[{index}]") for index, (item, member) in enumerate(pairs))
        case inspect.CustomType():
            return freeze(value)
        case inspect.StrType():
            return value if isinstance(value, str) else _mismatch(path, "a string", value)
        case inspect.BoolType():
            return value if isinstance(value, bool) else _mismatch(path, "true or false", value)
        case inspect.IntType(ge=low, le=high):
            return _build_int(value, low, high, path)
        case inspect.FloatType():
            return _build_float(value, path)
        case inspect.NoneType():
            return None if value is None else _mismatch(path, "null", value)
        case inspect.LiteralType(values=values):
            return value if value in values else _mismatch(path, f"one of {', '.join(map(str, values))}", value)
        case _:
            return _mismatch(path, "another type", value)


def _build_struct(info: inspect.StructType, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        _mismatch(path, "an object", value)
    members = {}
    for member in info.fields:
        if member.encode_name in value:
            members[member.name] = _build(member.type, value[member.encode_name], f"{path}.{member.encode_name}")
        elif member.required:
            raise Mismatch(f"{path}.{member.encode_name}: missing")
    return info.cls(**members)


def _build_union(types: tuple[inspect.Type, ...], value: Any, path: str) -> Any:
    structs = [one for one in types if isinstance(one, inspect.StructType)]
    if structs and isinstance(value, dict):
        return _build_tagged(structs, value, path)
    if value is None and any(isinstance(one, inspect.NoneType) for one in types):
        return None
    others = [one for one in types if not isinstance(one, inspect.NoneType | inspect.StructType)]
    for one in others[:-1]:
        try:
            return _build(one, value, path)
        except Mismatch:
            continue  # the last one says what does not fit
    if others:
        return _build(others[-1], value, path)
    return _mismatch(path, "an object", value)


def _build_tagged(structs: list[inspect.StructType], value: Mapping[str, Any], path: str) -> Any:
    tag_field = structs[0].tag_field
    if tag_field is None:
        return _build_struct(structs[0], value, path)
    tag = value.get(tag_field)
    if not isinstance(tag, str):
        _mismatch(f"{path}.{tag_field}", "a string", tag)
    for one in structs:
        if one.tag == tag:
            return _build_struct(one, value, path)
    return Opaque(tag, value)


def _build_int(value: Any, low: int | None, high: int | None, path: str) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)  # 1.0 and 1 are one value in JSON
    if type(value) is not int:
        _mismatch(path, "an integer", value)
    if (low is not None and value < low) or (high is not None and value > high):
        raise Mismatch(f"{path}: {str(value)[:40]} is out of range")
    return value


def _build_float(value: Any, path: str) -> float:
    if type(value) not in (int, float):
        _mismatch(path, "a number", value)
    try:
        return float(value)
    except OverflowError:
        raise Mismatch(f"{path}: {str(value)[:40]}… is out of range") from None


def _mismatch(path: str, expected: str, value: Any) -> NoReturn:
    found = {type(None): "null", dict: "an object", list: "an array", str: "a string", bool: "a boolean"}.get(
        type(value), "a number"
    )
    raise Mismatch(f"{path}: expected {expected}, got {found}")


def member_text(raw: bytes, name: str) -> bytes:
    """The JSON text of one member of an object, byte for byte; the last one where the key is repeated.

    For text that is known to be JSON; empty when it has no such member.
    """
    text = raw.decode()
    decoder = json.JSONDecoder()
    found = ""
    at = _skip(text, text.index("{") + 1)
    while text[at] == '"':
        key, at = decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        _value, end = decoder.raw_decode(text, at)
        if key == name:
            found = text[at:end]
        at = _skip(text, end)
        if text[at] != ",":
            break
        at = _skip(text, at + 1)
    return found.encode()


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
