"""Reading: stored JSON becomes typed views; what is unknown, old or broken is kept and never raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from turnlog.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    CancelledByDisposal,
    CancelledByHook,
    CancelledLegacy,
    Codec,
    Errored,
    Failure,
    Finish,
    FinishStop,
    ModelSource,
    Opaque,
    Payload,
    PlanMode,
    RequestHeader,
    TextBlock,
    TextDelta,
    ToolResult,
    TurnEnd,
    TurnStart,
    UndecodablePayload,
    UnknownPayload,
    UserMessage,
    Vocabulary,
)
from turnlog.events.codec import encode
from turnlog.events.lenient import parse
from turnlog.events.lossless import dump

CODEC = Vocabulary.core.codec
SOURCE = {"kind": "model", "provider": "p", "model": "m"}


def read(type: str, data: Any) -> Payload:
    return CODEC.payload(type, data if isinstance(data, bytes) else json.dumps(data).encode(), 7)


def test_known_data_becomes_its_class() -> None:
    assert read("turn/start", {"turn": 3}) == TurnStart(turn=3)
    assert read(
        "assistant/chunk", {"turn": 1, "step": 2, "chunk": {"type": "text-delta", "index": 0, "text": "x"}}
    ) == (AssistantChunk(turn=1, step=2, chunk=TextDelta(index=0, text="x")))


def test_unknown_members_do_not_hinder_reading() -> None:
    assert read("turn/start", {"turn": 3, "trigger": {"kind": "user"}, "new": [1]}) == TurnStart(turn=3)


def test_known_types_that_are_not_interpreted_keep_their_json() -> None:
    payload = read("plan/mode", {"active": True, "list": [1, {"a": None}]})
    assert isinstance(payload, PlanMode)
    assert payload.value == {"active": True, "list": [1, {"a": None}]}


def test_an_unknown_type_is_an_unknown_payload() -> None:
    payload = read("crew/joined", {"name": "x"})
    assert isinstance(payload, UnknownPayload)
    assert (payload.type, payload.value) == ("crew/joined", {"name": "x"})


TEXT = [{"type": "text", "text": "hi"}]
CHART = {"type": "chart", "v": [1]}


def spoken(**members: Any) -> dict[str, Any]:
    """The data of a user message, with *members* of its own."""
    return {"id": "m", "role": "user", "source": {"kind": "user"}, "content": TEXT, **members}


def in_step(**members: Any) -> dict[str, Any]:
    return {"turn": 1, "step": 1, **members}


def answered(*content: Any) -> dict[str, Any]:
    """The data of a tool result that shows *content*."""
    block = {"type": "tool-result", "toolCallId": "c", "content": list(content)}
    return in_step(message={"id": "m", "role": "user", "source": {"kind": "tool", "callId": "c"}, "content": [block]})


def ended(**reason: Any) -> dict[str, Any]:
    return {"turn": 1, "reason": reason}


UNKNOWN_PARTS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("user/message", spoken(content=[*TEXT, CHART]), "payload.content[1]", CHART),
    ("user/message", spoken(source={"kind": "goal", "id": "g"}), "payload.source", {"kind": "goal", "id": "g"}),
    ("assistant/chunk", in_step(chunk={"type": "cite", "at": 0}), "payload.chunk", {"type": "cite", "at": 0}),
    (
        "assistant/chunk",
        in_step(chunk={"type": "finish", "reason": {"kind": "refusal", "why": "x"}}),
        "payload.chunk.reason",
        {"kind": "refusal", "why": "x"},
    ),
    ("turn/end", ended(kind="paused", until=5), "payload.reason", {"kind": "paused", "until": 5}),
    ("turn/end", ended(kind="aborted", reason={"kind": "martian"}), "payload.reason.reason", {"kind": "martian"}),
    ("tool/result", answered(CHART), "payload.message.content[0].content[0]", CHART),
]


@pytest.mark.parametrize(("type", "data", "place", "value"), UNKNOWN_PARTS, ids=[one[2] for one in UNKNOWN_PARTS])
def test_an_unknown_part_is_kept_whole_and_written_back_as_it_was(
    type: str, data: dict[str, Any], place: str, value: dict[str, Any]
) -> None:
    payload = read(type, data)
    assert not isinstance(payload, UndecodablePayload)
    found = eval(place, {"payload": payload})
    assert isinstance(found, Opaque)
    assert found.value == value
    assert found.kind == (value.get("type") or value["kind"])
    assert json.loads(encode(payload)) == data


def test_null_stands_for_absent_beside_an_unknown_part_too() -> None:
    message = {"id": "a", "role": "assistant", "source": SOURCE, "content": [CHART]}
    payload = read("assistant/message", in_step(message=message, usage=None, interrupted=None))
    assert isinstance(payload, AssistantMessage)
    assert (payload.usage, payload.interrupted) == (None, None)


BY_HOOK = {"kind": "hook", "reason": "no"}
OLD_ENDS: list[tuple[dict[str, Any], TurnEnd]] = [
    (ended(kind="aborted"), TurnEnd(turn=1, reason=Aborted(CancelledLegacy()))),
    (ended(kind="disposed"), TurnEnd(turn=1, reason=Aborted(CancelledByDisposal()))),
    (ended(kind="aborted", reason=BY_HOOK), TurnEnd(turn=1, reason=Aborted(CancelledByHook("no")))),
    (
        ended(kind="error", step=2, failure={"message": "m", "code": "C"}),
        TurnEnd(turn=1, reason=Errored(Failure("m", "C"))),
    ),
    (ended(kind="error", step=2, message="m", code="C"), TurnEnd(turn=1, reason=Errored(Failure("m", "C")))),
    (ended(kind="error", step=2, message="m"), TurnEnd(turn=1, reason=Errored(Failure("m", "UNKNOWN")))),
]


@pytest.mark.parametrize(("data", "expected"), OLD_ENDS)
def test_old_ends_of_turns_read_as_today(data: dict[str, Any], expected: TurnEnd) -> None:
    assert read("turn/end", data) == expected


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("steering/message", {"turn": 1, "message": spoken()}),
        ("user/message", {"message": spoken()}),
        ("user/message", spoken()),
    ],
)
def test_wrapped_user_messages_read_as_today(type: str, data: dict[str, Any]) -> None:
    payload = read(type, data)
    assert isinstance(payload, UserMessage)
    assert (payload.id, payload.role, payload.content) == ("m", "user", (TextBlock("hi"),))


@pytest.mark.parametrize("type", ["user/message", "steering/message"])
def test_a_user_message_without_id_gets_one_from_session_and_seq(type: str) -> None:
    codec = Codec(Vocabulary.core.kinds, "s-1")
    payload = codec.payload(type, json.dumps({"turn": 1, "content": TEXT, "source": {"kind": "user"}}).encode(), 7)
    assert isinstance(payload, UserMessage)
    assert (payload.id, payload.role) == ("legacy-message:s-1:7", "user")


def test_an_assistant_message_with_provenance_reads_as_today() -> None:
    provenance = {"provider": "p", "model": "m"}
    payload = read("assistant/message", {"turn": 1, "step": 1, "content": TEXT, "provenance": provenance})
    assert isinstance(payload, AssistantMessage)
    assert payload.message.source == ModelSource("p", "m")
    assert (payload.message.role, payload.message.content) == ("assistant", (TextBlock("hi"),))


def test_a_flat_tool_result_reads_as_today() -> None:
    payload = read("tool/result", {"turn": 1, "step": 1, "callId": "c", "content": TEXT, "isError": True, "meta": 5})
    assert isinstance(payload, ToolResult)
    assert payload.call_id == "c"
    assert payload.meta == 5
    assert json.loads(encode(payload))["message"]["content"] == [
        {"type": "tool-result", "toolCallId": "c", "content": TEXT, "isError": True}
    ]


HOT = {"reason": "initial", "header": {"config": {"provider": "p", "model": "m", "temperature": 10**400}}}
NOBODY = {"turn": 1, "step": 1, "content": [], "provenance": "x"}


@pytest.mark.parametrize(
    ("type", "data", "reason"),
    [
        ("turn/start", {}, "$.turn: missing"),
        ("turn/start", {"turn": "1"}, "$.turn: expected an integer, got a string"),
        ("turn/start", {"turn": True}, "$.turn: expected an integer, got a boolean"),
        ("turn/start", {"turn": -1}, "$.turn: -1 is out of range"),
        ("turn/start", {"turn": 2**53}, "$.turn: 9007199254740992 is out of range"),
        ("turn/start", {"turn": 1.5}, "$.turn: expected an integer, got a number"),
        ("turn/start", [], "$: expected an object, got an array"),
        ("turn/start", None, "$: expected an object, got null"),
        ("todo/write", {"todos": [{"content": "x", "status": "later"}]}, "$.todos[0].status: expected one of "),
        ("todo/write", {"todos": {}}, "$.todos: expected an array, got an object"),
        ("user/message", spoken(content=[5]), "$.content[0]: expected an object"),
        ("user/message", spoken(content=[{}]), "$.content[0].type: expected a string"),
        ("user/message", spoken(source={"kind": 5}), "$.source.kind: expected a string"),
        ("assistant/message", NOBODY, "$.message.source."),
        ("request/header", HOT, "$.header.config.temperature: 1000"),
    ],
)
def test_data_that_does_not_fit_is_kept_with_the_reason(type: str, data: Any, reason: str) -> None:
    payload = read(type, data)
    assert isinstance(payload, UndecodablePayload)
    assert payload.type == type
    assert payload.reason.startswith(reason)
    assert payload.value == data


def test_a_whole_float_is_the_integer_it_equals() -> None:
    assert read("turn/start", b'{"turn":3.0}') == TurnStart(turn=3)


def test_lone_surrogates_of_foreign_logs_are_read_and_written_back() -> None:
    raw = b'{"content":[{"type":"text","text":"a\\ud800b"}],"source":{"kind":"user"},"role":"user","id":"m"}'
    payload = read("user/message", raw)
    assert isinstance(payload, UserMessage)
    assert payload.content == (TextBlock("a\ud800b"),)
    assert encode(payload) == raw
    message = CODEC.message("user/message", raw, 0)
    assert message is not None
    assert message.text == "a\ud800b"
    assert CODEC.message_json("user/message", raw, 0) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"NaN",
        b'{"turn":NaN}',
        b'{"turn":Infinity}',
        b'{"turn":012}',
        b'{"turn":1}x',
        b"\xff",
        b'"\xed\xa0\x80"',
        '{"turn":1}'.encode("utf-16"),
        '{"turn":1}'.encode("utf-16-le"),
        '{"turn":1}'.encode("utf-8-sig"),
        b"[" * 100_000,
        b"1" * 5000,
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_bytes_that_are_no_json_are_refused_by_the_parser_and_shown_as_undecodable(raw: bytes) -> None:
    with pytest.raises(ValueError):
        parse(raw)
    for type in ("turn/start", "plan/mode", "tool/result", "crew/joined"):
        payload = read(type, raw)
        assert isinstance(payload, UndecodablePayload)
        assert payload.value is None


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_a_constant_that_python_would_read_is_named_as_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text} is not JSON$"):
        parse(b'{"value":%b}' % text.encode())


@pytest.mark.parametrize("levels", [300, 500, 800, 900, 960, 990, 1000, 5000, 100_000])
@pytest.mark.parametrize("type", ["plan/mode", "tool/result", "crew/joined"])
def test_no_depth_of_stored_json_makes_reading_raise(levels: int, type: str) -> None:
    deep = b"[" * levels + b"]" * levels
    raw = b'{"turn":1,"step":1,"message":{"role":"user","id":"m","content":[],"source":{"kind":"user"}},"meta":' + deep
    payload = read(type, raw + b"}")
    assert payload.event_type == type or getattr(payload, "type", None) == type


def test_a_number_beyond_floats_is_never_written_back_as_infinity() -> None:
    payload = read("plan/mode", b'{"a":1e999}')
    assert isinstance(payload, PlanMode | UndecodablePayload)
    assert b"Infinity" not in encode(payload)
    assert b"inf" not in dump(payload)


def test_the_message_of_an_answer_without_content_is_none() -> None:
    empty = {"turn": 1, "step": 1, "message": {"id": "a", "role": "assistant", "content": [], "source": SOURCE}}
    raw = json.dumps(empty).encode()
    assert CODEC.message("assistant/message", raw, 0) is None
    user = b'{"content":[],"source":{"kind":"user"},"role":"user","id":"m"}'
    message = CODEC.message("user/message", user, 0)
    assert message is not None
    assert message.content == ()


def test_message_json_is_the_stored_text_unknown_members_included() -> None:
    source = b'{"kind":"model","provider":"p","model":"m"}'
    inner = (
        b'{"role":"assistant","id":"a","content":[{"type":"text","text":"x","new":1}],"source":%b,"extra":[ 1 ]}'
        % source
    )
    raw = b'{"turn":1,"step":1,"message":' + inner + b"}"
    assert CODEC.message_json("assistant/message", raw, 0) == inner


@pytest.mark.parametrize("reason", ["stop", "tool-calls", "max-tokens"])
def test_finish_reasons_are_told_apart(reason: str) -> None:
    payload = read("assistant/chunk", {"turn": 1, "step": 1, "chunk": {"type": "finish", "reason": {"kind": reason}}})
    assert isinstance(payload, AssistantChunk)
    assert isinstance(payload.chunk, Finish)
    assert (payload.chunk.reason == FinishStop()) == (reason == "stop")


def test_header_reads_with_its_tools() -> None:
    schema = {
        "name": "read",
        "description": "d",
        "parameters": {"type": "object", "properties": {"p": {"type": "string"}}},
    }
    data = {
        "reason": "initial",
        "header": {"config": {"provider": "p", "model": "m", "stop": ["a"]}, "tools": [schema]},
    }
    payload = read("request/header", data)
    assert isinstance(payload, RequestHeader)
    assert payload.header.tools is not None
    assert payload.header.tools[0].parameters == schema["parameters"]
    assert json.loads(encode(payload)) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["turn", "step", "message", "content", "source", "kind", "type", "reason", "header", "chunk",
                         "index", "text", "id", "role", "callId", "provenance", "config", "error", "todos", "x"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
types = st.sampled_from([*sorted(Vocabulary.core), "steering/message", "crew/joined"])


@pytest.mark.proof
def test_reading_never_raises_whatever_the_stored_json(prove: Prove) -> None:
    def check(type: str, value: Any) -> None:
        raw = json.dumps(value).encode()
        payload = CODEC.payload(type, raw, 7)
        assert isinstance(payload, Payload)
        if isinstance(payload, UndecodablePayload | UnknownPayload):
            assert payload.value == value
        CODEC.message(type, raw, 7)

    prove("any JSON under any event type is read", check, types, json_values, times=5)


@pytest.mark.proof
def test_reading_never_raises_whatever_the_stored_bytes(prove: Prove) -> None:
    def check(type: str, raw: bytes) -> None:
        assert isinstance(CODEC.payload(type, raw, 7), Payload)

    prove("any bytes under any event type are read", check, types, st.binary(max_size=12), times=5)
