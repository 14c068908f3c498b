"""What goes over the wire: golden bodies, fix-up by fix-up, and the price of a request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import strategies as st

import turnlog
from tests.cases.inputs import case
from tests.conftest import Prove
from tests.model.asking import request, user
from turnlog import Session
from turnlog.events import (
    AdapterDefaults,
    Block,
    CallConfig,
    Header,
    ImageAttachment,
    ImageBlock,
    Json,
    Message,
    ModelSource,
    Opaque,
    PluginSource,
    ReasoningBlock,
    StepStart,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
    ToolSource,
    TurnStart,
    UserMessage,
    UserSource,
)
from turnlog.log.projection import View
from turnlog.model import Request, anthropic, openai_chat
from turnlog.model.dialect import Dialect
from turnlog.model.fixups import NO_RESULT
from turnlog.model.wire import Conversation, Wire

DEEPSEEK: Final = openai_chat.deepseek()
OPENAI: Final = openai_chat.openai()
COMPATIBLE: Final = openai_chat.compatible()
ANTHROPIC: Final = anthropic.Messages(caches=False)


def sent(dialect: Dialect, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The wire messages of a history."""
    wire = Wire(dialect.provider if hasattr(dialect, "provider") else "", dialect.fixups, dialect.encode)
    made: list[dict[str, Any]] = json.loads(b"[" + b",".join(wire.messages("s", messages)) + b"]")
    return made


def body(dialect: Dialect, asked: Request) -> dict[str, Any]:
    wire = Wire("", dialect.fixups, dialect.encode)
    found: dict[str, Any] = json.loads(dialect.body(asked, wire.messages("s", asked.messages), stream=True))
    return found


def answer(*blocks: Block, state: Json = None, provider: str = "anthropic") -> Message:
    return Message("assistant", blocks, ModelSource(provider, "m", state), "a")


def call(id: str, arguments: str = "{}", name: str = "ls") -> ToolCallBlock:
    return ToolCallBlock(id, name, arguments)


def result(id: str, *content: Block | str, is_error: bool = False) -> Message:
    blocks = tuple(TextBlock(one) if isinstance(one, str) else one for one in content)
    return Message("user", (ToolResultBlock(id, blocks, is_error),), ToolSource(id), "r")


def wire_call(id: str, arguments: str = "{}", name: str = "ls") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **more, "tool_calls": list(calls)}


def tool(id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def says(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def stored(number: int, name: str = "session.jsonl") -> Sequence[Message]:
    return turnlog.load(case(number, name), forensic=True).derive_messages()


# ── the reported histories ───────────────────────────────────────────────────────────────────────


def test_empty_ids_pair_by_order_and_get_two_different_ones() -> None:  # BC-014
    assert sent(COMPATIBLE, stored(14)) == [
        says("Make a file"),
        asks(
            wire_call("call_0", '{"path":"one.txt"}', "unnamed"), wire_call("call_0-2", '{"path":"two.txt"}', "unnamed")
        ),
        tool("call_0", 'Error: unknown tool ""'),
        tool("call_0-2", 'Error: unknown tool ""'),
    ]


def test_reasoning_goes_back_byte_for_byte_and_content_is_never_null() -> None:  # BC-040
    assert sent(DEEPSEEK, stored(40)) == [
        says("What is in the file?"),
        asks(wire_call("call_r", '{"path":"f"}', "read"), reasoning_content="I need to read it."),
        tool("call_r", "hello"),
        {"role": "assistant", "content": "It says hello.", "reasoning_content": "It says hello."},
        says("And now?"),
    ]
    assert all("reasoning_content" not in message for message in sent(OPENAI, stored(40)))


def test_an_answer_without_reasoning_does_not_brick_a_thinking_model() -> None:  # BC-040
    history = [user("Hi"), answer(TextBlock("Hello"), call("c")), result("c", "x")]
    assert sent(DEEPSEEK, history)[1]["reasoning_content"] == ""
    assert "reasoning_content" not in sent(COMPATIBLE, history)[1]


def test_the_same_id_in_every_step_is_unique_on_the_wire() -> None:  # BC-041
    found = sent(COMPATIBLE, stored(41))
    assert [c["id"] for m in found for c in m.get("tool_calls", ())] == ["call_0", "call_0-2", "call_0-3"]
    answers = [(m["tool_call_id"], m["content"]) for m in found if m["role"] == "tool"]
    assert answers == [("call_0", "date output"), ("call_0-2", "uptime output"), ("call_0-3", "whoami output")]


def test_the_same_id_twice_in_one_step_pairs_in_order() -> None:  # BC-041
    found = sent(COMPATIBLE, stored(41, "twice-in-one-step.jsonl"))
    asked = [c["id"] for m in found for c in m.get("tool_calls", ())]
    assert asked == [m["tool_call_id"] for m in found if m["role"] == "tool"]
    assert len(set(asked)) == 2


def test_a_user_message_between_call_and_result_comes_after_all_results() -> None:  # BC-058
    found = sent(COMPATIBLE, stored(58, "user-between-call-and-result.jsonl"))
    assert found == [
        says("Build it"),
        asks(wire_call("call_1", '{"command":"make"}', "bash"), wire_call("call_2", '{"command":"make test"}', "bash")),
        tool("call_1", "built"),
        tool("call_2", "ok"),
        says("Use make -j4 please"),
        {"role": "assistant", "content": "Done."},
    ]


def test_a_result_whose_call_was_summarised_away_is_not_sent_as_a_result() -> None:  # BC-034
    for dialect in (COMPATIBLE, ANTHROPIC):
        found = sent(dialect, stored(34, "cut-inside-pair.jsonl"))
        text = json.dumps(found)
        assert "Result of the tool call call_y, which is no longer shown" in text
        asked = {c["id"] for m in found for c in m.get("tool_calls", ())}
        assert {m["tool_call_id"] for m in found if m["role"] == "tool"} <= asked


def test_equal_message_ids_lose_no_message() -> None:  # BC-062
    assert len(sent(COMPATIBLE, stored(62))) == 4


def test_control_characters_are_sent_as_they_are() -> None:  # BC-056
    assert "\\u0000" in json.dumps(sent(COMPATIBLE, stored(56)))


def test_raw_arguments_and_large_numbers_go_back_byte_for_byte() -> None:  # BC-023
    history = stored(23, "big-arg.jsonl")
    raw = '{ "id": 2512292042121000001, "limit": 1.0 }'
    assert raw in [c["function"]["arguments"] for m in sent(COMPATIBLE, history) for c in m.get("tool_calls", ())]
    wire = Wire("anthropic", ANTHROPIC.fixups, ANTHROPIC.encode)
    assert any(raw.encode() in piece for piece in wire.messages("s", history))


# ── fix-ups ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("logged", "wire"),
    [
        ("", "{}"),
        (" \n", "{}"),
        ('{"a":1}', '{"a":1}'),
        (' { "a" : 1 } ', ' { "a" : 1 } '),
        ("null", '{"invalid_arguments":"null"}'),
        ('["a"]', '{"invalid_arguments":"[\\"a\\"]"}'),
        ('{"path":"a', '{"invalid_arguments":"{\\"path\\":\\"a"}'),
        ('{"a":NaN}', '{"invalid_arguments":"{\\"a\\":NaN}"}'),
        ('{"q":1}{"q":2}', '{"invalid_arguments":"{\\"q\\":1}{\\"q\\":2}"}'),
        ('{"a":"\ud83d"}', '{"a":"\ufffd"}'),
    ],
)
def test_arguments_are_an_object_on_the_wire(logged: str, wire: str) -> None:  # BC-017, BC-026
    history = [user("x"), answer(call("c", logged)), result("c", "y")]
    assert sent(COMPATIBLE, history)[1]["tool_calls"][0]["function"]["arguments"] == wire
    assert sent(ANTHROPIC, history)[1]["content"][0]["input"] == json.loads(wire)


def test_a_call_nobody_answered_is_answered_before_the_next_thing_is_said() -> None:
    history = [user("x"), answer(call("c1"), call("c2")), result("c1", "one"), user("y"), answer(TextBlock("z"))]
    assert sent(COMPATIBLE, history) == [
        says("x"),
        asks(wire_call("c1"), wire_call("c2")),
        tool("c1", "one"),
        tool("c2", NO_RESULT),
        says("y"),
        {"role": "assistant", "content": "z"},
    ]


def test_a_second_answer_to_one_call_is_text() -> None:
    found = sent(COMPATIBLE, [answer(call("c")), result("c", "one"), result("c", "two")])
    assert found[1:] == [tool("c", "one"), says("Result of the tool call c, which is no longer shown:\ntwo")]


def test_an_empty_result_says_so() -> None:
    history = [answer(call("a"), call("b"), call("c")), result("a"), result("b", ""), result("c", " ")]
    assert [m["content"] for m in sent(COMPATIBLE, history)[1:]] == ["(no output)", "(no output)", " "]


def test_images_unknown_blocks_and_broken_text_become_text() -> None:
    image = ImageBlock(ImageAttachment("sha256:x", "image/png", 5, 20, 10, "plan.png"))
    odd = Opaque("video", {"type": "video"})
    history = [
        Message("user", (TextBlock("a\ud83d"), image, odd), UserSource(), "u"),
        answer(call("c")),
        result("c", image, odd, "\udc0b"),
    ]
    line = "[image plan.png: image/png, 20×10]\n[content of the kind 'video' that cannot be shown here]"
    assert [m["content"] for m in sent(COMPATIBLE, history)] == [f"a\ufffd\n{line}", "", f"{line}\n\ufffd"]


def test_names_and_ids_that_providers_refuse_are_made_plain_and_stay_different() -> None:
    long = "functions.bash:0|" + "x" * 60
    history = [
        answer(call(long, name="functions.read file"), call("call_0~2")),
        result(long, "1"),
        result("call_0~2", "2"),
    ]
    for dialect in (COMPATIBLE, ANTHROPIC):
        text = json.dumps(sent(dialect, history))
        assert "~" not in text
        assert "functions.read" not in text
    asked = sent(COMPATIBLE, history)[0]["tool_calls"]
    assert [m["tool_call_id"] for m in sent(COMPATIBLE, history)[1:]] == [c["id"] for c in asked]
    assert all(len(c["id"]) <= 40 for c in asked)


def test_messages_of_newer_roles() -> None:
    history = [Message("developer", (TextBlock("d"),), PluginSource("p"), "d"), user("u")]
    assert sent(COMPATIBLE, history) == [{"role": "system", "content": "d"}, says("u")]
    assert [m["role"] for m in sent(ANTHROPIC, history)] == ["user", "user"]


# ── Anthropic ────────────────────────────────────────────────────────────────────────────────────


SIGNED: Final[Json] = {"response": {}, "blocks": [{"signature": "sig"}, {"redacted": "blob"}, None, None]}


def test_thinking_goes_back_signed_and_results_in_one_message() -> None:
    history = [
        user("x"),
        answer(ReasoningBlock("hm"), ReasoningBlock(""), TextBlock("t"), call("c1"), state=SIGNED),
        result("c1", "one", is_error=True),
        answer(call("c2"), call("c3")),
        result("c3", "three"),
        user("in between"),
        result("c2"),
    ]
    assert sent(ANTHROPIC, history) == [
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "blob"},
                {"type": "text", "text": "t"},
                {"type": "tool_use", "id": "c1", "name": "ls", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "text", "text": "one"}],
                    "is_error": True,
                }
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c2", "name": "ls", "input": {}},
                {"type": "tool_use", "id": "c3", "name": "ls", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c3", "content": [{"type": "text", "text": "three"}]},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "(no output)"}]},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "in between"}]},
    ]


@pytest.mark.parametrize(
    ("state", "provider"),
    [
        (None, "anthropic"),
        (SIGNED, "deepseek"),
        ({"response": {}, "blocks": [{"signature": "sig"}]}, "anthropic"),  # out of step, BC-038
        ({"response": {}, "blocks": "odd"}, "anthropic"),
        ("odd", "anthropic"),
    ],
)
def test_thinking_that_is_not_signed_by_this_provider_stays_out(state: Json, provider: str) -> None:
    blocks = (ReasoningBlock("hm"), ReasoningBlock("ha"), TextBlock("t"), call("c"))
    history = [user("x"), answer(*blocks, state=state, provider=provider), result("c", "r")]
    assert [block["type"] for block in sent(ANTHROPIC, history)[1]["content"]] == ["text", "tool_use"]


def test_side_data_stays_with_its_block_when_others_stay_out() -> None:
    state: Json = {"response": {}, "blocks": [None, None, {"signature": "sig"}, None]}
    history = [
        user("x"),
        answer(ReasoningBlock("no"), TextBlock(""), ReasoningBlock("yes"), TextBlock("t"), state=state),
    ]
    assert sent(ANTHROPIC, history)[1]["content"] == [
        {"type": "thinking", "thinking": "yes", "signature": "sig"},
        {"type": "text", "text": "t"},
    ]


def test_nothing_empty_is_sent_and_the_user_speaks_first() -> None:
    history = [answer(TextBlock("hello")), user(""), answer(ReasoningBlock("unsigned")), user("y")]
    assert sent(ANTHROPIC, history) == [
        {"role": "user", "content": [{"type": "text", "text": "(The conversation goes on.)"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "(empty)"}]},
        {"role": "user", "content": [{"type": "text", "text": "y"}]},
    ]


LS: Final = ToolSchema("ls", "List.", {"type": "object"})


def test_a_body_for_anthropic() -> None:
    config = CallConfig("anthropic", "claude-opus-4-6", None, 0.2, None, ("END",))
    asked = request("Hi", config=config, system="Be brief.", tools=[LS])
    cache = {"type": "ephemeral"}
    assert body(anthropic.Messages(), asked) == {
        "model": "claude-opus-4-6",
        "max_tokens": 32000,
        "temperature": 0.2,
        "stop_sequences": ["END"],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": cache}],
        "tools": [{"name": "ls", "description": "List.", "input_schema": {"type": "object"}}],
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": cache}]}],
    }


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-opus-4-7", "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("claude-sonnet-5", "low", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("claude-sonnet-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ("claude-opus-4-20250514", "max", {"thinking": {"type": "enabled", "budget_tokens": 30976}}),
        ("claude-3-7-sonnet-latest", "medium", {"thinking": {"type": "enabled", "budget_tokens": 8192}}),
        ("claude-opus-4-6", "off", {"temperature": 0.5}),
    ],
)
def test_effort_for_anthropic(model: str, effort: str, expected: dict[str, Any]) -> None:
    found = body(anthropic.Messages(), request(config=CallConfig("anthropic", model, effort, 0.5)))
    assert {k: v for k, v in found.items() if k in ("thinking", "output_config", "temperature")} == expected


def test_limits_and_efforts_of_chat_completions() -> None:
    asked = request(config=CallConfig("openai", "gpt-5", "off", None, 10))
    assert body(OPENAI, asked)["max_completion_tokens"] == 10
    assert body(OPENAI, asked)["reasoning_effort"] == "none"
    assert body(COMPATIBLE, asked)["max_tokens"] == 10
    assert body(DEEPSEEK, asked)["thinking"] == {"type": "disabled"}
    header = Header(CallConfig("openai", "x"), AdapterDefaults(max_tokens=True))
    assert set(body(COMPATIBLE, Request("s", 1, 1, 1, header, [user("x")]))) == {
        "model", "messages", "stream", "stream_options",
    }  # fmt: skip


# ── what it costs ────────────────────────────────────────────────────────────────────────────────


class Counting:
    """A dialect's encoder that counts."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def __call__(self, message: Message) -> bytes:
        self.encoded.append(message.text)
        return COMPATIBLE.encode(message)


def test_each_message_is_encoded_once_however_often_it_is_sent() -> None:
    session = Session()
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    counting = Counting()
    wire = Wire("openai", COMPATIBLE.fixups, counting)
    for number in range(50):
        session.append(UserMessage.of(str(number)))
        history = session.derive_messages()
        assert isinstance(history, View)
        assert len(wire.messages(session.id, history)) == number + 1
    assert counting.encoded == [str(number) for number in range(50)]


def test_a_history_that_was_replaced_is_encoded_anew_only_where_it_is_new() -> None:
    counting = Counting()
    conversation = Conversation("openai", COMPATIBLE.fixups, counting)
    history = [user(str(number)) for number in range(5)]
    first = conversation.messages(history)
    second = conversation.messages([history[0], user("new"), *history[3:]])
    assert counting.encoded == ["0", "1", "2", "3", "4", "new"]
    assert second == [first[0], COMPATIBLE.encode(user("new")), *first[3:]]
    assert len(conversation.messages(history[:2])) == 2


_BLOCKS = st.sampled_from(
    [TextBlock("t"), TextBlock(""), ReasoningBlock("r"), call("a"), call("a", "{"), call(""), call("b"), call("x~y")]
)
_MESSAGES = st.one_of(
    st.lists(_BLOCKS, min_size=1, max_size=4).map(lambda blocks: answer(*blocks)),
    st.sampled_from(["a", "", "b", "x~y", "zz"]).map(lambda id: result(id, "out")),
    st.sampled_from(["hello", ""]).map(user),
)


def test_any_history_is_sent_in_a_shape_that_providers_take(prove: Prove) -> None:
    def check(history: list[Message]) -> None:
        chat = sent(COMPATIBLE, history)
        waiting: list[str] = []
        seen: set[str] = set()
        for message in chat:
            if message["role"] == "tool":
                waiting.remove(message["tool_call_id"])
                continue
            assert not waiting
            waiting = [one["id"] for one in message.get("tool_calls", ())]
            assert all(waiting)
            assert len(seen | set(waiting)) == len(seen) + len(waiting)
            seen |= set(waiting)
        assert not waiting
        said = sent(ANTHROPIC, history)
        assert not said or said[0]["role"] == "user"
        for before, message in zip([None, *said], said, strict=False):
            assert message["content"]
            calls = [b["id"] for b in (before or {"content": []})["content"] if b["type"] == "tool_use"]
            assert sorted(calls) == sorted(b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result")
            assert not any(b["type"] == "text" and not b["text"].strip() for b in message["content"])

    prove("any history on the wire", check, st.lists(_MESSAGES, max_size=12), times=5)


def test_a_history_sent_step_by_step_is_the_history_sent_at_once(prove: Prove) -> None:
    def check(history: list[Message]) -> None:
        for dialect in (COMPATIBLE, ANTHROPIC):
            conversation = Conversation("anthropic", dialect.fixups, dialect.encode)
            for length in range(len(history) + 1):
                grown = conversation.messages(history[:length])
            assert grown == Conversation("anthropic", dialect.fixups, dialect.encode).messages(history)

    prove("a wire history grown equals one made at once", check, st.lists(_MESSAGES, max_size=12), times=5)
