"""Packed rows as stored: the exact shape that a row must have (dsh-v0 §7.3).

The fast path decodes a row's data into a typed struct that forbids unknown keys, so only counts and times are left to
check. The slow path checks the same of a decoded row and says what is wrong.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from turnlog.events.lossless import MAX_SAFE

_Int: TypeAlias = Annotated[int, Meta(ge=-MAX_SAFE, le=MAX_SAFE)]

_GAP: Final = 1 << 40
"""Gap in ms that the fast path takes: 34 years. With at most ``_MEMBERS`` gaps and a first time within ``_TIME`` no
running time can leave what readers hold, so they need not be added up."""
_MEMBERS: Final = 1 << 11
_TIME: Final = 1 << 52

_Gap: TypeAlias = Annotated[int, Meta(ge=-_GAP, le=_GAP)]


class _Texts(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    turn: _Int
    step: _Int
    index: _Int
    dt: tuple[_Gap, ...]
    texts: tuple[str, ...]


class _Args(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    turn: _Int
    step: _Int
    index: _Int
    dt: tuple[_Gap, ...]
    id: str
    args: tuple[str, ...]
    name: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def texts(self) -> tuple[str, ...]:
        """The members, under the name the other rows use."""
        return self.args


_texts: Final = msgspec.json.Decoder(_Texts).decode
_args: Final = msgspec.json.Decoder(_Args).decode


def count_members(type: str, seq0: int, time0: int, data: msgspec.Raw) -> int | None:
    """How many events a row holds, or None when it needs a closer look. Raises msgspec's errors."""
    row = _args(data) if type == "tool-call-chunks" else _texts(data)
    count = len(row.texts)
    plain = len(row.dt) == count - 1 and 0 < count <= _MEMBERS and seq0 >= 0 and -_TIME <= time0 <= _TIME
    return count if plain else None


def run_fault(value: dict[str, Any]) -> str | None:
    """What is wrong with a decoded packed row, as the rest of a sentence, or None."""
    if value.keys() != {"type", "seq0", "time0", "data"} or not isinstance(value["data"], dict):
        return "does not have exactly type, seq0, time0 and data"
    data = value["data"]
    field = "args" if value["type"] == "tool-call-chunks" else "texts"
    keys = {"turn", "step", "index", "dt", field} | ({"id"} if field == "args" else set())
    if data.keys() - {"name"} != keys or ("name" in data and field == "texts"):
        return f"does not have exactly the members {', '.join(sorted(keys))}"
    members, gaps = data[field], data["dt"]
    if not isinstance(members, list) or not all(isinstance(one, str) for one in members) or not members:
        return f"has no list of strings as {field}"
    numbers = [value["seq0"], value["time0"], data["turn"], data["step"], data["index"]]
    if not isinstance(gaps, list) or not all(type(one) is int and abs(one) <= MAX_SAFE for one in [*numbers, *gaps]):
        return "holds a number that is no integer within ±(2**53 - 1)"
    if not all(isinstance(data[name], str) for name in ("id", "name") if name in data):
        return "has an id or name that is no string"
    if len(gaps) != len(members) - 1:
        return f"has {len(members)} members but {len(gaps)} gaps between them"
    if value["seq0"] < 0 or not _times_fit(value["time0"], tuple(gaps)):
        return "has a seq or a running time outside of what readers hold"
    return None


def _times_fit(time0: int, gaps: tuple[int, ...]) -> bool:
    return all(abs(time) <= MAX_SAFE for time in accumulate(gaps, initial=time0))
