"""The lossless matrix: Python values that a program may try to log, each with what must happen to it.

Written by hand from the rule (architecture 2, dsh-v0 §2.1): exact JSON types, integers within ±(2**53 - 1), finite
floats other than -0.0, no lone surrogates, at most 256 levels, no raw JSON. The list covers every value of
``design/sketches/lossless_slips.py`` and of the reference's own table (engines.md, finding 7).
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import sys
import types
import uuid
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from turnlog.events import JsonArray


class Text(str):
    __slots__ = ()


class Whole(int):
    __slots__ = ()


class Float64(float):
    """What NumPy's ``float64`` is: a subclass of float."""

    __slots__ = ()


class Dict(dict):  # type: ignore[type-arg]
    pass


class List(list):  # type: ignore[type-arg]
    pass


class Mixed(str, enum.Enum):  # noqa: UP042 - the old spelling is what programs have
    A = "a"


class Strict(enum.StrEnum):
    A = "a"


class Number(enum.IntEnum):
    ONE = 1


class Plain(enum.Enum):
    A = "a"


@dataclasses.dataclass
class Data:
    x: int = 1


class Open(msgspec.Struct):
    x: int = 1


Named = collections.namedtuple("Named", "a")


def nested(levels: int) -> list[Any]:
    """Arrays in arrays, *levels* of them."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def nested_objects(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"k": value}
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def cyclic_object() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["k"] = value
    return value


def diamond() -> list[Any]:
    shared = {"a": 1}
    return [shared, shared]


class Accepted(NamedTuple):
    name: str
    value: Any
    text: str
    """The JSON it must become."""


class Refused(NamedTuple):
    name: str
    make: Callable[[], Any]
    words: str
    """What the error must say: the fact and the remedy."""
    path: str = ""
    """Where, below the value."""


ACCEPTED: Final = [
    Accepted("null", None, "null"),
    Accepted("true", True, "true"),
    Accepted("false", False, "false"),
    Accepted("zero", 0, "0"),
    Accepted("largest safe integer", 9007199254740991, "9007199254740991"),
    Accepted("smallest safe integer", -9007199254740991, "-9007199254740991"),
    Accepted("whole float", 1.0, "1.0"),
    Accepted("positive zero float", 0.0, "0.0"),
    Accepted("fraction", -1.5, "-1.5"),
    Accepted("smallest float", 5e-324, "5e-324"),
    Accepted("largest float", sys.float_info.max, "1.7976931348623157e308"),
    Accepted("float beyond the safe integers", 2.0**60, "1.152921504606847e18"),
    Accepted("empty text", "", '""'),
    Accepted("text", "x", '"x"'),
    Accepted("NUL", "\0", '"\\u0000"'),
    Accepted("newline", "a\nb", '"a\\nb"'),
    Accepted("line separator", "\u2028", '"\u2028"'),
    Accepted("outside the basic plane", "😀", '"😀"'),
    Accepted("noncharacter", "\uffff", '"\uffff"'),
    Accepted("empty array", [], "[]"),
    Accepted("empty object", {}, "{}"),
    Accepted("array", [1, [None, "x"]], '[1,[null,"x"]]'),
    Accepted("object", {"b": 1, "a": {"c": []}}, '{"b":1,"a":{"c":[]}}'),
    Accepted("__proto__ key", {"__proto__": 1}, '{"__proto__":1}'),
    Accepted("empty key", {"": 1}, '{"":1}'),
    Accepted("shared reference", diamond(), '[{"a":1},{"a":1}]'),
    Accepted("frozen array", JsonArray([1, "x"]), '[1,"x"]'),
    Accepted("read-only mapping", types.MappingProxyType({"a": 1}), '{"a":1}'),
]
"""Values that open JSON may hold."""

_SUBCLASS: Final = "is a subclass, not exact JSON; use "
_BASE64: Final = "is not JSON; store text, or base64 in a string"
_LEVELS: Final = "nested deeper than 256 levels (or cyclic); store it flatter"
_OTHER: Final = "is not JSON; store str, int, float, bool, None, list or dict"
_LEAVE_OUT: Final = "UnsetType is not JSON; leave the key out"
_NO_RAW: Final = "Raw is not JSON; raw JSON is not accepted; pass the decoded value"
_SAFE: Final = "integer beyond ±(2**53 - 1) is not portable JSON; store a string"

REFUSED: Final = [
    Refused("nan", lambda: math.nan, "nan is not JSON; store null or a string"),
    Refused("nan in an array", lambda: [1, math.nan], "nan is not JSON; store null or a string", "[1]"),
    Refused("infinity", lambda: math.inf, "inf is not JSON; store null or a string"),
    Refused("negative infinity", lambda: {"a": -math.inf}, "-inf is not JSON; store null or a string", ".a"),
    Refused("overflow", lambda: 1e308 * 10, "inf is not JSON; store null or a string"),
    Refused("negative zero", lambda: -0.0, "-0.0 loses its sign in other readers; store 0.0"),
    Refused("2**53", lambda: 2**53, _SAFE),
    Refused("-2**53", lambda: -(2**53), _SAFE),
    Refused("2**63", lambda: 2**63, _SAFE),
    Refused("2**64", lambda: 2**64, _SAFE),
    Refused("10**400", lambda: 10**400, _SAFE),
    Refused("lone surrogate", lambda: "a\udc00", "lone surrogate U+DC00 at character 1 is not text; join the pair"),
    Refused("split pair", lambda: "\ud83d", "lone surrogate U+D83D at character 0 is not text; join the pair"),
    Refused("surrogate key", lambda: {"\ud800": 1}, "lone surrogate U+D800 at character 0 is not text"),
    Refused("tuple", lambda: (1,), "tuple is not JSON; use a list"),
    Refused("tuple in an object", lambda: {"a": (1,)}, "tuple is not JSON; use a list", ".a"),
    Refused("named tuple", lambda: Named(1), "Named is not JSON; use a list"),
    Refused("set", lambda: {1}, "set is not JSON; use a list, sorted"),
    Refused("frozenset", lambda: frozenset([1]), "frozenset is not JSON; use a list, sorted"),
    Refused("deque", lambda: collections.deque([1]), "deque is not JSON; use a list"),
    Refused("bytes", lambda: b"x", f"bytes {_BASE64}"),
    Refused("bytearray", lambda: bytearray(b"x"), f"bytearray {_BASE64}"),
    Refused("memoryview", lambda: memoryview(b"x"), f"memoryview {_BASE64}"),
    Refused(
        "datetime", lambda: {"when": dt.datetime(2020, 1, 1)}, "datetime is not JSON; store epoch milliseconds", ".when"
    ),
    Refused("date", lambda: dt.date(2020, 1, 1), "date is not JSON; store an ISO 8601 string"),
    Refused("time", lambda: dt.time(1), "time is not JSON; store an ISO 8601 string"),
    Refused("timedelta", lambda: dt.timedelta(1), "timedelta is not JSON; store milliseconds"),
    Refused("Decimal", lambda: decimal.Decimal("1.0"), "Decimal is not JSON; store a string"),
    Refused("whole Decimal", lambda: decimal.Decimal(1), "Decimal is not JSON; store a string"),
    Refused("Fraction", lambda: fractions.Fraction(1, 3), f"Fraction {_OTHER}"),
    Refused("UUID", lambda: uuid.UUID(int=1), "UUID is not JSON; store str(value)"),
    Refused("Path", lambda: pathlib.PurePosixPath("/x"), f"PurePosixPath {_OTHER}"),
    Refused("dataclass", Data, f"Data {_OTHER}"),
    Refused("struct", Open, f"Open {_OTHER}"),
    Refused("int key", lambda: {1: 2}, "key 1 is int, not a string; use str keys"),
    Refused("float key", lambda: {1.5: 2}, "key 1.5 is float, not a string; use str keys"),
    Refused("None key", lambda: {None: 2}, "key None is NoneType, not a string; use str keys"),
    Refused("bool key", lambda: {True: 2}, "key True is bool, not a string; use str keys"),
    Refused("tuple key", lambda: {("a", 1): 2}, "key ('a', 1) is tuple, not a string; use str keys"),
    Refused("enum key", lambda: {Strict.A: 2}, "is Strict, not a string; use str keys"),
    Refused("str subclass key", lambda: {Text("k"): 2}, "key 'k' is Text, not a string; use str keys"),
    Refused("StrEnum", lambda: Strict.A, f"Strict {_SUBCLASS}str(value)"),
    Refused("str Enum", lambda: Mixed.A, f"Mixed {_SUBCLASS}str(value)"),
    Refused("IntEnum", lambda: Number.ONE, f"Number {_SUBCLASS}int(value)"),
    Refused("Enum", lambda: Plain.A, f"Plain {_OTHER}"),
    Refused("str subclass", lambda: Text("x"), f"Text {_SUBCLASS}str(value)"),
    Refused("int subclass", lambda: Whole(1), f"Whole {_SUBCLASS}int(value)"),
    Refused("float subclass", lambda: Float64(1.5), f"Float64 {_SUBCLASS}float(value)"),
    Refused("dict subclass", lambda: Dict(a=1), f"Dict {_SUBCLASS}dict(value)"),
    Refused("list subclass", lambda: List([1]), f"List {_SUBCLASS}list(value)"),
    Refused("OrderedDict", lambda: collections.OrderedDict(a=1), f"OrderedDict {_SUBCLASS}dict(value)"),
    Refused("defaultdict", lambda: collections.defaultdict(int, a=1), f"defaultdict {_SUBCLASS}dict(value)"),
    Refused("Counter", lambda: collections.Counter("a"), f"Counter {_SUBCLASS}dict(value)"),
    Refused("ChainMap", lambda: collections.ChainMap({"a": 1}), f"ChainMap {_OTHER}"),
    Refused("257 arrays", lambda: nested(257), _LEVELS, "[0]"),
    Refused("257 objects", lambda: nested_objects(257), _LEVELS, ".k"),
    Refused("900 arrays", lambda: nested(900), _LEVELS, "[0]"),
    Refused("5000 arrays", lambda: nested(5000), _LEVELS, "[0]"),
    Refused("cyclic array", cyclic, _LEVELS, "[0]"),
    Refused("cyclic object", cyclic_object, _LEVELS, ".k"),
    Refused("generator", lambda: (x for x in [1]), f"generator {_OTHER}"),
    Refused("range", lambda: range(3), f"range {_OTHER}"),
    Refused("dict view", lambda: {"a": 1}.keys(), f"dict_keys {_OTHER}"),
    Refused("complex", lambda: 1j, f"complex {_OTHER}"),
    Refused("function", lambda: cyclic, "function is not JSON; store its result"),
    Refused("builtin", lambda: len, f"builtin_function_or_method {_OTHER}"),
    Refused("class", lambda: Data, f"type {_OTHER}"),
    Refused("object", object, f"object {_OTHER}"),
    Refused("Ellipsis", lambda: ..., f"ellipsis {_OTHER}"),
    Refused("UNSET member", lambda: {"a": UNSET}, _LEAVE_OUT, ".a"),
    Refused("UNSET in an array", lambda: [UNSET], _LEAVE_OUT, "[0]"),
    Refused("raw JSON", lambda: Raw(b'{"a":1}'), _NO_RAW),
    Refused("raw JSON with a newline", lambda: Raw(b'{\n"a":1}'), _NO_RAW),
    Refused("raw NaN", lambda: Raw(b"NaN"), _NO_RAW),
    Refused("raw bad UTF-8", lambda: Raw(b'"\xff"'), _NO_RAW),
    Refused("raw duplicate keys", lambda: Raw(b'{"a":1,"a":2}'), _NO_RAW),
    Refused("raw negative zero", lambda: Raw(b"-0"), _NO_RAW),
    Refused("raw overflow", lambda: Raw(b"1e999"), _NO_RAW),
    Refused("raw second value", lambda: Raw(b'1,"i":7'), _NO_RAW),
    Refused("raw second member", lambda: Raw(b'1,"j":{"x":1}'), _NO_RAW),
    Refused("raw nothing", lambda: Raw(b""), _NO_RAW),
]
"""Values that open JSON must refuse, with the words of the error."""
