"""One line of a foreign file, and careful ways to look into it: a value of the wrong type is a missing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from turnlog.events.lenient import member_text
from turnlog.events.lossless import MAX_SAFE, dump

Object = Mapping[str, Any]

NOTHING: Final[Object] = {}


class Record(NamedTuple):
    """One line that is a JSON object."""

    line: int
    """Its number, from 1."""
    raw: bytes
    """Its text, without what surrounds it."""
    value: Object
    """The object."""
    time: int | None
    """Its time in epoch ms, if it says one."""

    def kept(self, *path: str) -> bytes:
        """The JSON text of a member of a member, byte for byte; empty when there is none."""
        text = self.raw
        for name in path:
            text = member(text, name)
            if not text:
                return b""
        return text


def member(raw: bytes, name: str) -> bytes:
    """The JSON text of one member of an object, byte for byte; empty when it is no object or has no such member."""
    if raw.lstrip()[:1] != b"{":
        return b""
    try:
        found = _members(raw).get(name)
        return b"" if found is None else bytes(found)
    except (msgspec.MsgspecError, UnicodeError):
        pass
    try:
        return member_text(raw, name)
    except (ValueError, RecursionError):
        return b""


def elements(raw: bytes) -> list[bytes]:
    """The JSON texts of an array's elements, byte for byte; empty for anything else."""
    try:
        return [bytes(one) for one in _elements(raw)]
    except (msgspec.MsgspecError, UnicodeError):
        return []


def as_object(value: Any) -> Object:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else NOTHING


def as_list(value: Any) -> Sequence[Any]:
    """The array, or an empty one."""
    return value if isinstance(value, list) else ()


def text_of(value: Any) -> str | None:
    """The text, unless it is empty or none."""
    return value if isinstance(value, str) and value else None


def count_of(value: Any) -> int | None:
    """A count that is not negative, or None."""
    return value if type(value) is int and 0 <= value <= MAX_SAFE else None


def is_deep(value: Any, levels: int) -> bool:
    """Whether a value is nested deeper than so many levels; its own depth costs no recursion."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def json_text(value: Any) -> str:
    """A value as JSON text; only for values that were read from JSON."""
    return dump(value).decode()


_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_elements: Final = msgspec.json.Decoder(list[Raw]).decode
