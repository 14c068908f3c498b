"""The small values: frozen JSON, parts of unknown kind, messages, chunks that show something."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from turnlog.events import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishStop,
    JsonArray,
    Message,
    ModelSource,
    Opaque,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    ToolResultBlock,
    ToolSource,
    UsageChunk,
    UserMessage,
    UserSource,
    is_token,
    thaw,
)
from turnlog.events.lossless import dump, freeze, join_text, whole_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=15,
)


@pytest.mark.proof
def test_frozen_json_equals_what_it_was_made_from_and_thaws_to_a_fresh_copy(prove: Prove) -> None:
    def check(value: Any) -> None:
        frozen = freeze(value)
        assert frozen == value
        thawed = thaw(frozen)
        assert repr(thawed) == repr(value)
        if isinstance(value, list | dict):
            assert thawed is not value
            assert isinstance(frozen, JsonArray | MappingProxyType)

    prove("freeze and thaw", check, json_values, times=3)


def test_a_frozen_array_equals_lists_and_tuples_of_equal_members() -> None:
    array = JsonArray([1, JsonArray(["x"])])
    assert array == [1, ["x"]]
    assert [1, ["x"]] == array  # noqa: SIM300 - the other side decides here
    assert array == (1, ("x",))
    assert array != [1, ["y"]]
    assert array != [1]
    assert array != "ab"
    assert hash(array) == hash(JsonArray([1, JsonArray(["x"])]))


@pytest.mark.parametrize(
    "change", ["append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "__setitem__"]
)
def test_a_frozen_array_has_no_way_to_change(change: str) -> None:
    assert not hasattr(JsonArray([1]), change)


def test_a_part_of_unknown_kind_does_not_follow_the_dict_it_was_made_from() -> None:
    value = {"type": "chart", "points": [1]}
    opaque = Opaque("chart", value)
    value["points"].append(2)  # type: ignore[attr-defined]
    value["type"] = "text"
    assert opaque.value == {"type": "chart", "points": [1]}


def test_a_part_of_unknown_kind_cannot_be_changed() -> None:
    opaque = Opaque("chart", {"type": "chart", "points": [1]})
    for name in ("kind", "value", "_value", "new"):
        with pytest.raises(AttributeError):
            setattr(opaque, name, {})
        with pytest.raises(AttributeError):
            delattr(opaque, name)
    with pytest.raises(TypeError):
        opaque.value["type"] = "text"  # type: ignore[index]
    assert opaque.value == {"type": "chart", "points": [1]}


def test_parts_of_unknown_kind_are_equal_by_what_they_hold() -> None:
    one = Opaque("chart", {"type": "chart", "v": 1})
    assert one == Opaque("chart", {"v": 1, "type": "chart"})
    assert one != Opaque("chart", {"type": "chart", "v": 2})
    assert one != TextBlock("chart")
    assert len({one, Opaque("chart", {"type": "chart", "v": 1})}) == 1
    assert dump(one) == b'{"type":"chart","v":1}'


def test_messages_made_here_have_fresh_ids_and_the_right_shape() -> None:
    asked = Message.from_model(TextBlock("hi"), ToolCallBlock("c1", "read", "{}"), provider="p", model="m")
    answered = Message.from_tool("c1", TextBlock("done"), is_error=True)
    assert (asked.role, asked.source) == ("assistant", ModelSource("p", "m"))
    assert (answered.role, answered.source) == ("user", ToolSource("c1"))
    assert answered.content == (ToolResultBlock("c1", (TextBlock("done"),), True),)
    assert len({asked.id, answered.id, UserMessage.of("x").id, UserMessage.of("x").id}) == 4


def test_a_user_message_of_strings_is_one_of_text_blocks_by_a_person() -> None:
    payload = UserMessage.of("a", TextBlock("b"))
    assert payload.content == (TextBlock("a"), TextBlock("b"))
    assert (payload.role, payload.source) == ("user", UserSource())
    assert payload.message == Message("user", payload.content, payload.source, payload.id)


def test_the_text_of_a_message_is_its_visible_text_tool_results_included() -> None:
    inner = ToolResultBlock("c", (TextBlock("b"), ToolCallBlock("d", "n", "{}")))
    assert Message("user", (TextBlock("a"), inner, TextBlock("c")), UserSource(), "m").text == "a\nb\nc"


@pytest.mark.parametrize(
    ("chunk", "shows"),
    [
        (TextDelta(0, "x"), True),
        (TextDelta(0, ""), False),
        (ReasoningDelta(0, "x"), True),
        (ReasoningDelta(0, ""), False),
        (ToolCallDelta(0, "c", "{"), True),
        (ToolCallDelta(0, "c", ""), False),
        (ToolCallDelta(0, "c", "", "read"), True),
        (BlockStart(0, "text"), False),
        (BlockEnd(0, TextBlock("x")), False),
        (UsageChunk(TokenUsage(1, 1)), False),
        (Finish(FinishStop()), False),
        (Opaque("cite", {"type": "cite"}), False),
    ],
)
def test_a_chunk_is_a_token_when_it_shows_something_of_the_answer(chunk: StreamChunk, shows: bool) -> None:
    assert is_token(chunk) is shows


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("a", "b", "ab"),
        ("", "b", "b"),
        ("a", "", "a"),
        ("", "", ""),
        ("a\ud83d", "\ude00b", "a😀b"),
        ("\ud83d", "\ude00", "😀"),
        ("ab\ud800", "\udc00cd", "ab\U00010000cd"),
        ("\udbff", "\udfff", "\U0010ffff"),
        ("a\ud83d", "b", "a\ud83db"),
        ("a", "\ude00b", "a\ude00b"),
        ("a\ude00", "\ud83db", "a\ude00\ud83db"),
        ("a\ud83d", "\ud83d", "a\ud83d\ud83d"),
        ("a\ud83d", "", "a\ud83d"),
    ],
    ids=ascii,
)
def test_halves_of_a_character_that_was_cut_between_two_deltas_are_joined(before: str, after: str, joined: str) -> None:
    assert join_text(before, after) == joined


def test_a_half_that_nothing_completes_is_shown_as_the_replacement_character() -> None:
    assert whole_text("a\ud83db") == "a\ufffdb"
    assert whole_text("\udc00") == "\ufffd"
    assert whole_text("é😀") == "é😀"
    assert whole_text("plain") == "plain"
