"""Chat-completion streams that no case file holds: the same kinds of fault, other shapes."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.model.asking import assembled, logged
from tests.model.test_cases_streams import read
from turnlog.events import (
    FinishError,
    FinishStop,
    ReasoningBlock,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
)
from turnlog.model.deltas import Answer


def said(*deltas: dict[str, Any], finish: str | None = "tool_calls", **more: Any) -> list[StreamChunk]:
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **more})
    return read(b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n")


def entry(arguments: object = None, **fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name",) if key in fields}
    if arguments is not None:
        function["arguments"] = arguments
    return {"tool_calls": [{**fields, "function": function}]}


def calls(chunks: list[StreamChunk]) -> list[tuple[str, str, str]]:
    return [(b.id, b.name, b.arguments) for b in assembled(chunks).content() if isinstance(b, ToolCallBlock)]


def test_a_call_that_never_gets_an_id_gets_one_before_it_is_seen() -> None:
    chunks = said(entry('{"a"', index=0, name="x"), entry(":1}", index=0))
    [(id, name, arguments)] = calls(chunks)
    assert (name, arguments) == ("x", '{"a":1}')
    assert id.startswith("call_")
    assert {chunk.id for chunk in chunks if isinstance(chunk, ToolCallDelta)} == {id}


def test_calls_without_ids_on_one_index_are_told_apart_when_the_first_is_whole() -> None:
    chunks = said(entry('{"a":1}', index=0, id="", name="x"), entry('{"b":2}', index=0, id="", name="x"))
    assert [one[1:] for one in calls(chunks)] == [("x", '{"a":1}'), ("x", '{"b":2}')]
    assert len({one[0] for one in calls(chunks)}) == 2


def test_equal_ids_on_two_indexes_are_two_calls() -> None:
    chunks = said(
        entry("{}", index=0, id="call_0", name="a"),
        entry("{", index=1, id="call_0", name="b"),
        entry("}", index=1, id="call_0"),
    )
    assert calls(chunks) == [("call_0", "a", "{}"), ("call_0~2", "b", "{}")]


def test_pieces_go_back_to_an_earlier_call_of_the_same_index_by_its_id() -> None:
    chunks = said(
        entry("{", index=0, id="a", name="x"), entry("{", index=0, id="b", name="y"), entry("}", index=0, id="a"),
        entry("}", index=0, id="b"),
    )  # fmt: skip
    assert calls(chunks) == [("a", "x", "{}"), ("b", "y", "{}")]


def test_a_late_id_without_index() -> None:
    assert calls(said(entry("{", name="x"), entry("}", id="late"))) == [("late", "x", "{}")]


def test_an_index_that_comes_late_or_stays_away() -> None:
    first = entry("{", id="a", name="x")
    assert calls(said(first, entry("}", index=0), entry("{}", index=1, id="b", name="y"))) == [
        ("a", "x", "{}"),
        ("b", "y", "{}"),
    ]
    assert calls(said(entry("{", index=0, id="a", name="x"), entry("}"))) == [("a", "x", "{}")]


def test_a_call_with_an_id_does_not_continue_one_of_another_name_that_never_got_one() -> None:
    chunks = said(entry('{"cut', index=0, name="x"), entry("{}", index=0, id="b", name="y"))
    assert [one[1:] for one in calls(chunks)] == [("x", '{"cut'), ("y", "{}")]


def test_a_late_name_and_no_name() -> None:
    chunks = said(entry("{", index=0, id="a"), entry("}", index=0, name="x"), entry("{}", index=1, id="b"))
    assert calls(chunks) == [("a", "x", "{}"), ("b", "unnamed", "{}")]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [(None, ""), ({"a": 1}, '{"a":1}'), (["a"], '["a"]'), (5, "5"), ({"u": "ü"}, '{"u":"ü"}')],
)
def test_arguments_that_are_no_string_become_one(arguments: object, kept: str) -> None:
    assert calls(said(entry(arguments, index=0, id="c", name="x"))) == [("c", "x", kept)]


def test_a_surrogate_pair_cut_between_two_deltas_is_whole_and_a_lone_half_is_replaced() -> None:
    chunks = said({"content": "a\ud83d"}, {"content": "\udc0bb\ud83d"}, {"content": "c\ud83d"}, finish="stop")
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["a", "🐋b", "\ufffdc", "\ufffd"]
    arguments = said(entry('{"a":"\ud83d', index=0, id="c", name="x"), entry('\udc0b"}', index=0))
    assert calls(arguments) == [("c", "x", '{"a":"🐋"}')]


@pytest.mark.parametrize(
    ("delta", "blocks"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, [TextBlock("ab")]),
        (
            {"content": [{"type": "thinking", "thinking": [{"text": "t"}]}, {"type": "text", "text": "b"}]},
            [ReasoningBlock("t"), TextBlock("b")],
        ),
        ({"reasoning": "r", "content": "c"}, [ReasoningBlock("r"), TextBlock("c")]),
        ({"reasoning": "r", "reasoning_content": "r"}, [ReasoningBlock("r")]),
        ({"refusal": "No."}, [TextBlock("No.")]),
        ({"function_call": {"name": "f", "arguments": "{}"}, "content": ""}, 1),
        ({"content": "x", "audio": {"deep": [[[]]]}, "tool_calls": []}, [TextBlock("x")]),
        ({"content": "x", "tool_calls": "odd"}, [TextBlock("x")]),
        ({"content": 5, "reasoning_content": "r"}, [ReasoningBlock("r")]),
    ],
)  # fmt: skip
def test_odd_deltas(delta: dict[str, Any], blocks: list[object] | int) -> None:
    content = assembled(said(delta, finish="stop")).content()
    assert len(content) == blocks if isinstance(blocks, int) else list(content) == blocks


@pytest.mark.parametrize(
    ("finish", "code"),
    [("content_filter", "CONTENT_FILTER"), ("insufficient_system_resource", "INSUFFICIENT_SYSTEM_RESOURCE")],
)
def test_an_unknown_finish_reason_is_an_error_in_upper_case(finish: str, code: str) -> None:
    reason = assembled(said({"content": "x"}, finish=finish)).finish
    assert isinstance(reason, FinishError)
    assert reason.failure.code == code


def test_an_answer_without_a_block_is_an_error_that_keeps_its_usage() -> None:
    found = assembled(said({"content": ""}, finish="stop", usage={"prompt_tokens": 3, "completion_tokens": 0}))
    assert isinstance(found.finish, FinishError)
    assert found.finish.failure.code == "EMPTY_RESPONSE"
    assert found.usage == TokenUsage(3, 0)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4}, TokenUsage(6, 5, 4)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}},
            TokenUsage(10, 5, reasoning_tokens=3),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 35,
             "completion_tokens_details": {"reasoning_tokens": 20}},
            TokenUsage(10, 25, reasoning_tokens=20),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 20}},
            TokenUsage(10, 5),
        ),
        ({"prompt_tokens": "x", "completion_tokens": 5}, None),
        ({"prompt_tokens": True, "completion_tokens": 5}, None),
        ({"prompt_tokens": 1e400, "completion_tokens": 5}, None),
        ([1], None),
        ("odd", None),
    ],
)  # fmt: skip
def test_odd_usage_never_fails_an_answer(usage: object, expected: TokenUsage | None) -> None:
    found = assembled(said({"content": "x"}, finish="stop", usage=usage))
    assert isinstance(found.finish, FinishStop)
    assert found.usage == expected


def test_other_choices_than_the_first_are_not_ours() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]}
    last = {"choices": [{"index": 0, "delta": {"content": "mine"}, "finish_reason": "stop"}]}
    stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in (other, last, {"choices": []}))
    assert assembled(read(stream + b"data: [DONE]\n\n")).content() == (TextBlock("mine"),)


def test_whatever_comes_the_stream_ends_with_one_finish_and_ids_are_whole(prove: Prove) -> None:
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(["", "a\ud83d"]),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "delta", "index", "content", "tool_calls", "function", "name", "id", "arguments", "usage",
                 "error", "finish_reason", "message", "reasoning_content"]
            ),
            inner,
            max_size=4,
        ),
        max_leaves=12,
    )  # fmt: skip
    deltas = st.dictionaries(st.sampled_from(["content", "reasoning_content", "tool_calls"]), json_values, max_size=3)
    entries = st.fixed_dictionaries(
        {},
        optional={
            "index": st.sampled_from([0, 1, None]),
            "id": st.sampled_from(["", "a", "b", None]),
            "function": st.fixed_dictionaries(
                {},
                optional={
                    "name": st.sampled_from(["", "n", "m", None]),
                    "arguments": st.sampled_from(["", "{", "}", None, {}]),
                },
            ),
        },
    )
    ends = st.sampled_from(["stop", "tool_calls", "length", "a\ud83d", "odd reason", ""])
    asked = st.lists(entries, max_size=3).map(lambda some: {"tool_calls": some})
    chunk = (deltas | asked).map(lambda delta: {"choices": [{"index": 0, "delta": delta}]}) | json_values
    end = ends.map(lambda reason: {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})

    def check(chunks: list[object]) -> None:
        found = read(b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks))
        assert [type(one).__name__ for one in found].count("Finish") == 1
        assert type(found[-1]).__name__ == "Finish"
        assert all(one.id for one in found if isinstance(one, ToolCallDelta))
        logged(found)

    prove("any chunks end in one finish", check, st.lists(chunk | end, max_size=8), times=5)


def test_any_text_cut_anywhere_is_the_text(prove: Prove) -> None:
    def check(text: str, cuts: list[int]) -> None:
        units = text.encode("utf-16-le", "surrogatepass")
        places = sorted({0, len(units), *(2 * min(cut, len(units) // 2) for cut in cuts)})
        answer = Answer()
        slot = answer.open_text()
        for begin, end in pairwise(places):
            slot.add(units[begin:end].decode("utf-16-le", "surrogatepass"))
        answer.close()
        chunks = answer.take()
        assert assembled(chunks).content() == (TextBlock(text),)
        assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text

    characters = st.text(st.sampled_from("a🐋中é"), max_size=12)
    prove("text cut between UTF-16 units", check, characters, st.lists(st.integers(0, 24), max_size=8), times=5)
