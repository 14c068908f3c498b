"""The model's raw argument text, read as strict JSON.

Question, policy and tool see one reading of the text: repeated keys, NaN, numbers that overflow and half surrogate
pairs are refused, because two readers could disagree about them. Nothing is repaired: half a command can be another
valid command. Integers keep every digit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Never, cast

from turnlog.events import Json
from turnlog.events.lossless import freeze

from .errors import ToolArgsError


def parse(raw: str) -> Mapping[str, Json]:
    """The arguments as a frozen mapping; empty text, white space and ``null`` are no arguments.

    Raises :class:`ToolArgsError` with the position, in words the model can act on.
    """
    if not raw.strip(" \t\r\n"):
        return cast("Mapping[str, Json]", freeze({}))
    try:
        value = json.loads(raw, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite)
        if value is None:
            value = {}
        if type(value) is not dict:
            raise ToolArgsError(f"arguments must be a JSON object, not {_kind(value)}")
        _check_text(value)
        return cast("Mapping[str, Json]", freeze(value))
    except json.JSONDecodeError as error:
        raise ToolArgsError(
            f"arguments are not valid JSON: {error.msg} at line {error.lineno} column {error.colno} (char {error.pos})"
        ) from None
    except RecursionError:
        raise ToolArgsError("arguments are nested too deeply; send them flatter") from None
    except ValueError:  # int() takes 4,300 digits at most
        raise ToolArgsError("arguments hold a number of more than 4,300 digits; send it as a string") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ToolArgsError(f"arguments repeat the key {key!r}; send each key once")
            seen.add(key)
    return found


def _constant(name: str) -> Never:
    raise ToolArgsError(f"arguments are not valid JSON: {name} is no JSON number; send null or a string")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ToolArgsError(f"arguments hold the number {text[:40]}, which is too large; send it as a string")
    return value


def _check_text(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(error.object[error.start]):04X}"
        raise ToolArgsError(f"arguments hold half of a surrogate pair ({half}); send whole characters") from None


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names[type(value)]
