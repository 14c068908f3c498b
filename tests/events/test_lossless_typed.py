"""Typed fields keep exactly what their type says: encode, decode with the reader's decoder, compare."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import uuid
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import pytest
from msgspec import UNSET, Raw, Struct

from tests.events.lossless_values import Float64, Mixed, Number, Open, Plain, Strict, Text, Whole, nested
from tests.log.sessions import extended
from turnlog.events import (
    Block,
    Json,
    LogPayload,
    LosslessError,
    Message,
    Opaque,
    Payload,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    TurnEnd,
    TurnStart,
    UserMessage,
    UserSource,
)
from turnlog.events.value import SafeInt
from turnlog.log import Session


class Place(Struct, frozen=True):
    lat: float = 1.5
    name: str = "Ulm"


class Typed(LogPayload, type="acme/typed"):
    any_int: int = 7
    safe_int: SafeInt = 7
    number: float = 7.5
    maybe_number: float | None = None
    text: str = "x"
    flag: bool = False
    maybe_flag: bool | None = None
    many: tuple[int, ...] = ()
    pair: tuple[SafeInt, str] = (7, "x")
    choice: Literal["a", "b"] = "a"
    place: Place = Place()
    blocks: tuple[Block, ...] = ()
    values: tuple[Json, ...] = ()
    maybe_json: Json | None = None  # type: ignore[valid-type]


VOCABULARY: Final = extended(Typed)


class Kept(NamedTuple):
    member: str
    value: Any
    text: str
    read: Any = UNSET
    """What is read back, where its type is not the caller's."""


class Lost(NamedTuple):
    member: str
    value: Any
    words: str
    path: str = ""


KEPT: Final = [
    Kept("any_int", 0, '{"anyInt":0}'),
    Kept("any_int", 2**53 - 1, '{"anyInt":9007199254740991}'),
    Kept("any_int", 1 - 2**53, '{"anyInt":-9007199254740991}'),
    Kept("safe_int", 2**53 - 1, '{"safeInt":9007199254740991}'),
    Kept("number", 0.0, '{"number":0.0}'),
    Kept("number", 1.25, '{"number":1.25}'),
    Kept("number", 2.0**60, '{"number":1.152921504606847e18}'),
    Kept("number", 1, '{"number":1}', 1.0),
    Kept("maybe_number", 0.5, '{"maybeNumber":0.5}'),
    Kept("maybe_number", None, "{}"),
    Kept("text", "", '{"text":""}'),
    Kept("text", "\0", '{"text":"\\u0000"}'),
    Kept("text", "\u2028", '{"text":"\u2028"}'),
    Kept("text", "é😀", '{"text":"é😀"}'),
    Kept("flag", True, '{"flag":true}'),
    Kept("maybe_flag", False, '{"maybeFlag":false}'),
    Kept("many", (1, 2), '{"many":[1,2]}'),
    Kept("pair", (1, "y"), '{"pair":[1,"y"]}'),
    Kept("choice", "b", '{"choice":"b"}'),
    Kept("place", Place(name="Bonn"), '{"place":{"lat":1.5,"name":"Bonn"}}'),
    Kept("blocks", (TextBlock("hi"),), '{"blocks":[{"type":"text","text":"hi"}]}'),
    Kept("values", ([1], {"a": None}), '{"values":[[1],{"a":null}]}'),
    Kept("maybe_json", [1], '{"maybeJson":[1]}'),
    # Equal to, and kept as, what the field's type says: the enum's class is no part of the value.
    Kept("safe_int", Number.ONE, '{"safeInt":1}', 1),
    Kept("text", Strict.A, '{"text":"a"}', "a"),
    Kept("text", Mixed.A, '{"text":"a"}', "a"),
]

_SAFE: Final = "integer beyond ±(2**53 - 1) is not portable JSON; store a string"
_RANGE: Final = "the value does not have its field's type"

LOST: Final = [
    Lost("any_int", True, _RANGE),
    Lost("any_int", 1.0, "float reads back as another value (int); use the exact type of its field"),
    Lost("any_int", "1", _RANGE),
    Lost("any_int", 2**53, _SAFE),
    Lost("any_int", 2**64, _SAFE),
    Lost("any_int", -(2**70), _SAFE),
    Lost("any_int", Number.ONE, "Number is a subclass, not exact JSON; use int(value)"),
    Lost("any_int", Whole(3), "Whole is a subclass, not exact JSON; use int(value)"),
    Lost("safe_int", 2**53, _SAFE),
    Lost("safe_int", -(2**70), _SAFE),
    Lost("safe_int", True, _RANGE),
    Lost("safe_int", 1.0, "float reads back as another value (int); use the exact type of its field"),
    Lost("safe_int", Whole(3), "Whole is a subclass, not exact JSON; use int(value)"),
    Lost("number", True, _RANGE),
    Lost("number", -0.0, "-0.0 loses its sign in other readers; store 0.0"),
    Lost("number", math.nan, "nan is not JSON; store null or a string"),
    Lost("number", math.inf, "inf is not JSON; store null or a string"),
    Lost("maybe_number", math.nan, "nan is not JSON; store null or a string"),
    Lost("number", Float64(1.5), "Float64 is a subclass, not exact JSON; use float(value)"),
    Lost("number", 2**60, _SAFE),
    Lost("number", 2**53 + 1, _SAFE),
    Lost("number", decimal.Decimal("1.5"), "Decimal is not JSON; store a string"),
    Lost("number", "1.5", _RANGE),
    Lost("text", Text("x"), "Text is a subclass, not exact JSON; use str(value)"),
    Lost("text", Plain.A, "Plain is not JSON"),
    Lost("text", dt.datetime(2020, 1, 1), "datetime is not JSON; store epoch milliseconds"),
    Lost("text", dt.date(2020, 1, 1), "date is not JSON; store an ISO 8601 string"),
    Lost("text", uuid.UUID(int=1), "UUID is not JSON; store str(value)"),
    Lost("text", b"x", "bytes is not JSON; store text, or base64 in a string"),
    Lost("text", decimal.Decimal(1), "Decimal is not JSON; store a string"),
    Lost("text", "\ud800", "lone surrogate U+D800 at character 0 is not text"),
    Lost("text", None, _RANGE),
    Lost("flag", 1, _RANGE),
    Lost("flag", 0, _RANGE),
    Lost("flag", None, _RANGE),
    Lost("many", [1], "a list could change after the append; use a tuple"),
    Lost("many", {1}, "set is not JSON"),
    Lost("many", (True,), _RANGE, "[0]"),
    Lost("many", (1.0,), "float reads back as another value (int); use the exact type of its field", "[0]"),
    Lost("many", (2**53,), _SAFE, "[0]"),
    Lost("pair", (1,), _RANGE),
    Lost("pair", [1, "x"], "a list could change after the append; use a tuple"),
    Lost("choice", "c", _RANGE),
    Lost("place", {"lat": 1.5, "name": "Ulm"}, "a dict could change after the append; use its field's own type"),
    Lost("place", Place(lat=-0.0), "-0.0 loses its sign in other readers; store 0.0", ".lat"),
    Lost("place", Open(), "Open reads back as another value (Place); use the exact type of its field"),
    Lost("blocks", [TextBlock("hi")], "a list could change after the append; use a tuple"),
    Lost("blocks", ({"type": "text", "text": "hi"},), "a dict could change after the append", "[0]"),
    Lost("values", [[1]], "a list could change after the append; use a tuple"),
    Lost("values", ((1,),), "tuple is not JSON; use a list", "[0]"),
    Lost("maybe_json", (1,), "tuple is not JSON; use a list"),
    Lost("text", Raw(b'"x"'), "Raw is not JSON; raw JSON is not accepted; pass the decoded value"),
    Lost("place", Raw(b'{"lat":1.5,"name":"Ulm"}'), "raw JSON is not accepted; pass the decoded value"),
    Lost("maybe_number", UNSET, "UnsetType is not JSON; leave the key out"),
]


DEFAULTS: Final[dict[str, str]] = {
    "anyInt": "7",
    "safeInt": "7",
    "number": "7.5",
    "maybeNumber": "",
    "text": '"x"',
    "flag": "false",
    "maybeFlag": "",
    "many": "[]",
    "pair": '[7,"x"]',
    "choice": '"a"',
    "place": '{"lat":1.5,"name":"Ulm"}',
    "blocks": "[]",
    "values": "[]",
    "maybeJson": "",
}
"""What each field stores when it is left alone: its default, so that a default that changes later changes no history;
only None is left out."""


def with_defaults(text: str) -> str:
    """The whole object whose other members are *text*, an object of at most one member."""
    key, _, value = text[1:-1].partition(":")
    stored = DEFAULTS | ({json.loads(key): value} if key else {})
    return "{" + ",".join(f'"{key}":{value}' for key, value in stored.items() if value) + "}"


def wire(member: str) -> str:
    first, *rest = member.split("_")
    return first + "".join(word.title() for word in rest)


@pytest.mark.parametrize("case", KEPT, ids=[f"{one.member}-{type(one.value).__name__}" for one in KEPT])
def test_a_value_of_the_fields_type_is_kept(case: Kept) -> None:
    event = Session(vocabulary=VOCABULARY).append(Typed(**{case.member: case.value}))
    expected = case.value if case.read is UNSET else case.read
    kept = getattr(event.data, case.member)
    assert event.raw.decode() == with_defaults(case.text)
    assert kept == expected
    assert case.member in ("values", "maybe_json") or type(kept) is type(expected)


@pytest.mark.parametrize("case", LOST, ids=[f"{one.member}-{type(one.value).__name__}" for one in LOST])
def test_any_other_value_is_refused_with_path_and_remedy(case: Lost) -> None:
    session = Session(vocabulary=VOCABULARY)
    with pytest.raises(LosslessError) as caught:
        session.append(Typed(**{case.member: case.value}))
    assert str(caught.value).startswith(f"acme/typed: $.{wire(case.member)}{case.path}: ")
    assert case.words in str(caught.value)
    assert len(session) == 0


@pytest.mark.parametrize("turn", [-1, 2**53, True, 1.0, "1", None, Whole(1)], ids=str)
def test_a_turn_number_is_a_non_negative_safe_integer(turn: Any) -> None:
    session = Session()
    with pytest.raises(LosslessError, match=r"^turn/start: \$\.turn: "):
        session.append(TurnStart(turn=turn))
    assert len(session) == 0


def user_message(*content: Any) -> UserMessage:
    return UserMessage(content=content, source=UserSource(), id="m")


def unknown(value: Any) -> UserMessage:
    """A message with a block of a kind nobody knows."""
    return user_message(TextBlock("hi"), Opaque("chart", {"type": "chart", "v": value}))


OPAQUE_REFUSED: Final = [
    (math.nan, "", "nan is not JSON"),
    (-0.0, "", "-0.0 loses its sign"),
    (2**53, "", _SAFE),
    ((1,), "", "tuple is not JSON"),
    (b"x", "", "bytes is not JSON"),
    (Strict.A, "", "Strict is a subclass"),
    ("\udfff", "", "lone surrogate U+DFFF"),
    ({1: 2}, "", "key 1 is int"),
    ({"a": [dt.date(2020, 1, 1)]}, ".a[0]", "date is not JSON"),
    (nested(300), "[0]", "nested deeper than 256 levels"),
    (Raw(b"1"), "", "raw JSON is not accepted"),
]


@pytest.mark.parametrize(
    ("value", "path", "words"), OPAQUE_REFUSED, ids=[type(one[0]).__name__ for one in OPAQUE_REFUSED]
)
def test_a_block_of_an_unknown_kind_holds_lossless_json_as_well(value: Any, path: str, words: str) -> None:
    session = Session()
    with pytest.raises(LosslessError) as caught:
        session.append(unknown(value))
    assert str(caught.value).startswith(f"user/message: $.content[1].v{path}")
    assert words in str(caught.value)
    assert len(session) == 0


def test_a_block_of_an_unknown_kind_is_kept_whole() -> None:
    event = Session().append(unknown({"x": [1, None, "é"], "y": MappingProxyType({"z": 1.5})}))
    assert event.raw.decode() == (
        '{"content":[{"type":"text","text":"hi"},{"type":"chart","v":{"x":[1,null,"é"],"y":{"z":1.5}}}],'
        '"source":{"kind":"user"},"role":"user","id":"m"}'
    )
    block = event.data.content[1]
    assert isinstance(block, Opaque)
    assert block.kind == "chart"
    assert block.value == {"type": "chart", "v": {"x": [1, None, "é"], "y": {"z": 1.5}}}


def test_an_unknown_block_beside_a_fixed_tuple_is_kept() -> None:
    blocks = (Opaque("chart", {"type": "chart"}),)
    event = Session(vocabulary=VOCABULARY).append(Typed(pair=(1, "y"), blocks=blocks, number=0.5))
    assert event.raw == (
        b'{"anyInt":7,"safeInt":7,"number":0.5,"text":"x","flag":false,"many":[],"pair":[1,"y"],"choice":"a",'
        b'"place":{"lat":1.5,"name":"Ulm"},"blocks":[{"type":"chart"}],"values":[]}'
    )
    assert event.data.pair == (1, "y")
    assert event.data.blocks == blocks


@pytest.mark.parametrize(
    "block",
    [
        Opaque("text", {"type": "text", "text": "hi"}),
        Opaque("text", {"type": "text", "text": 5}),
        Opaque("chart", {"v": 1}),
        Opaque("chart", {"type": 5}),
    ],
    ids=repr,
)
def test_a_known_kind_cannot_be_smuggled_in_as_an_unknown_one(block: Opaque) -> None:
    session = Session()
    with pytest.raises(LosslessError, match=r"^user/message: \$\.content\[0\]"):
        session.append(user_message(block))
    assert len(session) == 0


def test_typed_content_nested_beyond_reading_is_refused_as_such() -> None:
    block: Block = TextBlock("x")
    for _ in range(20_000):
        block = ToolResultBlock(tool_call_id="c", content=(block,))
    session = Session()
    with pytest.raises(LosslessError, match=r"^user/message: .*nested too deeply to be read back"):
        session.append(user_message(block))
    assert len(session) == 0


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (ToolCall(turn=1, step=1, call_id="c", name="n", arguments={"a": 1}), r"tool/call: \$\.arguments: a dict"),  # type: ignore[arg-type]
        (TurnEnd(turn=1, reason={"kind": "completed"}), r"turn/end: \$\.reason: a dict"),  # type: ignore[arg-type]
        (UserMessage(content=(TextBlock("x"),), source={"kind": "user"}, id="m"), r"user/message: \$\.source: a dict"),  # type: ignore[arg-type]
        (UserMessage(content="text", source=UserSource(), id="m"), r"user/message: \$\.content: expected an array"),  # type: ignore[arg-type]
        (user_message("text"), r"user/message: \$\.content\[0\]: expected an object"),
        (user_message(TextBlock(text=b"x")), r"user/message: \$\.content\[0\]\.text: bytes is not JSON"),  # type: ignore[arg-type]
        (user_message(Message("user", (), UserSource(), "m")), r"user/message: \$\.content\[0\]"),
    ],
)
def test_core_payloads_name_the_member_that_does_not_fit(payload: Payload, words: str) -> None:
    session = Session()
    with pytest.raises(LosslessError, match=f"^{words}"):
        session.append(payload)  # type: ignore[call-overload]
    assert len(session) == 0
