"""A payload class that could change after the append, or is half a model input, is refused when it is defined."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import re
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Raw, Struct, field

from tests.log.sessions import extended
from turnlog.events import (
    Block,
    Json,
    LogPayload,
    ModelInput,
    OpaquePayload,
    Payload,
    SurfacePayload,
    TextBlock,
    Value,
)
from turnlog.log import Session


class Unfrozen(Struct):
    x: int = 0


class FrozenWithDict(Struct, frozen=True, dict=True):
    x: int = 0


class Frozen(Struct, frozen=True):
    x: int = 0


class HoldsAList(Struct, frozen=True):
    inner_names: list[str] = []


class Deep(Value):
    inner: tuple[HoldsAList, ...] = ()


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Data:
    names: list[str]


class Pair(typing.NamedTuple):
    names: list[str]


class Typed(typing.TypedDict):
    x: int


class Tree(Value):
    children: tuple[Tree, ...] = ()


def define(annotation: Any, *, name: str = "found_in") -> type[Payload]:
    """``class Found(LogPayload, type="acme/found"): found_in: <annotation>``."""
    return type(LogPayload)("Found", (LogPayload,), {"__annotations__": {name: annotation}}, type="acme/found")


MUTABLE = [
    (list[str], "$.foundIn is a list"),
    (list, "$.foundIn is a list"),
    (dict[str, int], "$.foundIn is a dict"),
    (Mapping[str, int], "$.foundIn is a dict"),
    (Sequence[int], "$.foundIn is a list"),
    (set[int], "$.foundIn is a set"),
    (frozenset[int], "$.foundIn is a frozenset"),
    (collections.deque[int], "$.foundIn is deque, whose members may change"),
    (Any, "$.foundIn is Any"),
    (object, "$.foundIn is object, whose members may change"),
    (bytearray, "$.foundIn is a bytearray"),
    (bytes, "$.foundIn is a bytes"),
    (memoryview, "$.foundIn is a memoryview"),
    (Raw, "$.foundIn is raw JSON"),
    (dt.datetime, "$.foundIn is a datetime"),
    (decimal.Decimal, "$.foundIn is a decimal"),
    (uuid.UUID, "$.foundIn is a uuid"),
    (Colour, "$.foundIn is the enum Colour"),
    (Data, "$.foundIn is a dataclass"),
    (Pair, "$.foundIn is a namedtuple"),
    (Typed, "$.foundIn is a typeddict"),
    (Unfrozen, "$.foundIn is the unfrozen struct Unfrozen"),
    (FrozenWithDict, "$.foundIn is the unfrozen struct FrozenWithDict"),
    (list[str] | None, "$.foundIn is a list"),
    (Unfrozen | None, "$.foundIn is the unfrozen struct Unfrozen"),
    (tuple[list[str], ...], "$.foundIn[] is a list"),
    (tuple[int, dict[str, int]], "$.foundIn[1] is a dict"),
    (tuple, "$.foundIn[] is Any"),
    (Annotated[list[str], msgspec.Meta(max_length=3)], "$.foundIn is a list"),
    (HoldsAList, "$.foundIn.inner_names is a list"),
    (Deep, "$.foundIn.inner[].inner_names is a list"),
    (re.Pattern, "$.foundIn is Pattern, whose members may change"),
]


@pytest.mark.parametrize(("annotation", "words"), MUTABLE, ids=[words for _, words in MUTABLE])
def test_a_field_that_could_change_is_refused_by_name(annotation: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        define(annotation)
    assert f"Found ('acme/found'): {words}" in str(caught.value)
    assert "use a frozen type" in str(caught.value)


IMMUTABLE = [
    int, float, bool, str, None, int | None, Literal["a", "b"], Json, Json | None, tuple[int, ...], tuple[Json, ...],
    tuple[int, str], Frozen, Frozen | None, Block, tuple[Block, ...], Tree, Annotated[int, msgspec.Meta(ge=0)],
]  # fmt: skip


@pytest.mark.parametrize("annotation", IMMUTABLE, ids=str)
def test_a_field_that_cannot_change_is_accepted(annotation: Any) -> None:
    assert define(annotation).event_type == "acme/found"


def test_an_unfrozen_payload_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Note \('acme/note'\): \$ is the unfrozen struct Note"):

        class Note(LogPayload, type="acme/note", frozen=False):  # type: ignore[misc]
            text: str


def test_an_inherited_field_is_checked_too() -> None:
    class Base(LogPayload):
        names: list[str]

    with pytest.raises(TypeError, match=r"Note \('acme/note'\): \$\.names is a list"):

        class Note(Base, type="acme/note"):
            text: str


def test_a_mutable_default_does_not_hide_a_mutable_field() -> None:
    with pytest.raises(TypeError, match=r"\$\.names is a list"):

        class Note(LogPayload, type="acme/note"):
            names: list[str] = field(default_factory=list)


class Later(LogPayload, type="acme/later"):
    """Names a class that does not exist yet."""

    body: Body


class Body(Struct):
    x: int = 0


def test_a_class_that_names_a_later_one_is_checked_when_it_joins_a_vocabulary() -> None:
    with pytest.raises(TypeError, match=r"Later \('acme/later'\): \$\.body is the unfrozen struct Body"):
        extended(Later)


@pytest.mark.parametrize(
    "name", ["weather", "Acme/weather", "acme/", "/x", "acme weather/x", "acme/Weather", "1/x", "acme//x", "acme/x\n"]
)
def test_an_event_type_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="an event type looks like 'acme/weather'"):
        type(LogPayload)("Found", (LogPayload,), {}, type=name)


def test_a_model_input_without_render_is_refused_with_the_reason() -> None:
    with pytest.raises(
        TypeError, match=r"Note \('acme/note'\) is a ModelInput without render\(\): the model would never"
    ):

        class Note(ModelInput, type="acme/note"):
            text: str


@pytest.mark.parametrize("base", [LogPayload, SurfacePayload, OpaquePayload])
def test_a_renderer_without_model_input_is_refused_with_the_reason(base: type[Payload]) -> None:
    def render(self: Payload) -> tuple[Block, ...]:
        return (TextBlock("x"),)

    with pytest.raises(
        TypeError, match=r"has render\(\) but is no ModelInput: the log would not show what the model saw"
    ):
        type(base)("Note", (base,), {"render": render}, type="acme/note")


def test_a_model_input_may_inherit_its_renderer() -> None:
    class Base(ModelInput):
        text: str

        def render(self) -> tuple[Block, ...]:
            return (TextBlock(self.text),)

    class Note(Base, type="acme/note"):
        pass

    session = Session(vocabulary=extended(Note))
    session.append_input(Note(text="hi"))
    assert [message.text for message in session.derive_messages()] == ["hi"]


def test_an_opaque_payload_with_a_field_of_its_own_is_refused_for_it_would_be_lost() -> None:
    with pytest.raises(
        TypeError, match=r"Note \('acme/note'\): an OpaquePayload is stored as its value alone, so extra"
    ):

        class Note(OpaquePayload, type="acme/note"):
            extra: int = 0


def test_a_plugins_wire_names_are_camel_case() -> None:
    class Note(LogPayload, type="acme/note"):
        due_at_ms: int
        is_read: bool = False

    event = Session(vocabulary=extended(Note)).append(Note(due_at_ms=5, is_read=True))
    assert event.raw == b'{"dueAtMs":5,"isRead":true}'
