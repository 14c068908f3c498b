"""Canonical JSON (RFC 8785), the bytes that proofs hash.

Members are sorted by UTF-16 code units, numbers are written as ECMAScript does, strings with the shortest escapes. One
addition: a lone surrogate, which RFC 8785 refuses and foreign logs hold, is written ``\\udXXX`` in lower case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .lenient import parse

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_LONE: Final = re.compile("[\ud800-\udfff]")
_EXPONENT: Final = re.compile(r"(-?)(\d)(?:\.(\d+))?e([+-]\d+)")


def canonical(raw: bytes) -> bytes:
    """The canonical form of a JSON text. Raises ValueError when it is none."""
    value = parse(raw)
    if _simple(value):
        try:
            return _encode(value)
        except UnicodeEncodeError:
            pass
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", _write(value)).encode()


def _simple(value: Any) -> bool:
    """Whether msgspec's sorted encoder gives the canonical form: no floats, keys in one plane, small integers."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is dict:
        return all(key.isascii() for key in value) and all(map(_simple, value.values()))
    if kind is list:
        return all(map(_simple, value))
    return kind is int and -(10**16) < value < 10**16


def _write(value: Any) -> str:
    if isinstance(value, Mapping):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_string(key)}:{_write(member)}" for key, member in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return number(float(value))


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def number(value: float) -> str:
    """A finite double as ECMAScript's ``Number::toString`` writes it."""
    text = repr(value)
    found = _EXPONENT.fullmatch(text)
    if found is None:  # written without exponent here and there, but for the trailing zero and the sign of zero
        return "0" if value == 0 else text.removesuffix(".0")
    sign, first, rest, exponent = found[1], found[2], (found[3] or "").rstrip("0"), int(found[4])
    if 0 < exponent < 21:
        return f"{sign}{first}{rest.ljust(exponent, '0')}"
    if -7 < exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{first}{rest}"
    return f"{sign}{first}{'.' if rest else ''}{rest}e{exponent:+d}"
