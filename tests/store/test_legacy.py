"""Older shapes that are still legal under version 0 (dsh-v0 §2.10): the view is canonical, the stored bytes stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.store.logs import Log
from tests.store.reading import codes, opened, refusal, shown, texts
from turnlog.events import (
    Aborted,
    CancelledByDisposal,
    CancelledLegacy,
    Errored,
    Failure,
    OpaquePayload,
    TurnEnd,
    TurnStart,
    UndecodablePayload,
    UnknownPayload,
    UserMessage,
)
from turnlog.store import verify


def one_event(type: str, data: Any, **envelope: Any) -> Any:
    """The event of a log that holds nothing else, opened strict."""
    log = Log("sess-old")
    log.add(type, data, **envelope)
    session = opened(log.text())
    assert json.loads(session.event(0).raw) == data
    return session.event(0)


def test_a_turn_start_with_its_trigger_is_a_turn_start() -> None:
    assert one_event("turn/start", {"turn": 1, "trigger": {"kind": "user"}}).data == TurnStart(turn=1)


@pytest.mark.parametrize(("reason", "expected"), [
    ({"kind": "aborted"}, Aborted(CancelledLegacy())),
    ({"kind": "disposed"}, Aborted(CancelledByDisposal())),
    ({"kind": "error", "step": 2, "failure": {"message": "no", "code": "SERVER"}}, Errored(Failure("no", "SERVER"))),
    ({"kind": "error", "step": 2, "message": "no"}, Errored(Failure("no", "UNKNOWN"))),
    ({"kind": "error", "step": 2, "message": "no", "code": "AUTH"}, Errored(Failure("no", "AUTH"))),
])  # fmt: skip
def test_older_turn_ends_say_why_in_todays_words(reason: Any, expected: Any) -> None:
    data = one_event("turn/end", {"turn": 1, "reason": reason}).data
    assert isinstance(data, TurnEnd)
    assert data.reason == expected


def test_a_turn_end_of_an_unknown_kind_passes_untouched() -> None:
    data = one_event("turn/end", {"turn": 1, "reason": {"kind": "max-steps", "limit": 7}}).data
    assert isinstance(data, TurnEnd)
    assert json.loads(opened_line(data)) == {"kind": "max-steps", "limit": 7}


def opened_line(data: TurnEnd) -> bytes:
    from turnlog.events.lossless import dump

    return dump(data.reason)


CONTENT = [{"type": "text", "text": "Go left"}]


@pytest.mark.parametrize(("type", "data", "id"), [
    ("user/message", {"content": CONTENT, "source": {"kind": "user"}}, "legacy-message:sess-old:0"),
    ("steering/message", {"turn": 1, "content": CONTENT, "source": {"kind": "user"}}, "legacy-message:sess-old:0"),
    ("steering/message",
     {"turn": 1, "message": {"content": CONTENT, "source": {"kind": "user"}, "role": "user", "id": "m"}}, "m"),
    ("user/message", {"content": CONTENT, "source": {"kind": "user"}, "role": "user", "id": "m"}, "m"),
])  # fmt: skip
def test_user_messages_without_id_and_steering_messages_are_user_messages(type: str, data: Any, id: str) -> None:
    event = one_event(type, data, surfaceOp="append")
    assert isinstance(event.data, UserMessage)
    wanted = {"role": "user", "content": CONTENT, "source": {"kind": "user"}, "id": id}
    assert shown([event.message]) == [wanted]
    got = json.loads(event.message_json)
    assert {key: got[key] for key in wanted} == wanted


def test_an_assistant_message_with_its_provenance_outside_is_wrapped() -> None:
    provenance = {"provider": "example", "model": "demo-1"}
    event = one_event(
        "assistant/message",
        {
            "turn": 1,
            "step": 1,
            "content": CONTENT,
            "provenance": provenance,
            "usage": {"inputTokens": 1, "outputTokens": 2},
        },
        surfaceOp="append",
    )
    assert shown([event.message]) == [
        {
            "role": "assistant",
            "content": CONTENT,
            "source": {"kind": "model", **provenance},
            "id": "legacy-message:sess-old:0",
        }
    ]
    assert (event.data.turn, event.data.usage.output_tokens) == (1, 2)


def test_a_tool_result_with_its_call_id_outside_is_wrapped() -> None:
    event = one_event(
        "tool/result",
        {"turn": 1, "step": 1, "callId": "c", "content": CONTENT, "isError": True, "meta": {"a": 1}},
        surfaceOp="append",
    )
    (message,) = shown([event.message])
    assert message["content"] == [{"type": "tool-result", "toolCallId": "c", "content": CONTENT, "isError": True}]
    assert message["source"] == {"kind": "tool", "callId": "c"}
    assert event.data.meta == {"a": 1}


def test_older_shapes_take_part_in_the_history_like_todays() -> None:
    log = Log("sess-old")
    log.turn()
    log.step()
    log.add("user/message", {"content": CONTENT, "source": {"kind": "user"}}, surfaceOp="append")
    call = {"type": "tool-call", "id": "c", "name": "bash", "arguments": "{}"}
    provenance = {"provider": "p", "model": "m"}
    log.add(
        "assistant/message", {"turn": 1, "step": 1, "content": [call], "provenance": provenance}, surfaceOp="append"
    )
    log.call("c")
    result = {"turn": 1, "step": 1, "callId": "c", "content": [{"type": "text", "text": "left"}], "isError": False}
    log.add("tool/result", result, surfaceOp="append")
    log.end_step()
    log.end_turn()
    session = opened(log.text())
    assert texts(session.derive_messages()) == ["Go left", "", "left"]
    assert verify(log.text()).findings == ()


@pytest.mark.parametrize("name", ["compact/start", "compact/summary", "compact/prune", "compact/end"])
def test_compactions_under_their_old_name_are_known(name: str) -> None:
    event = one_event(name, {"compactionId": "c"})
    assert isinstance(event.data, OpaquePayload)
    assert not isinstance(event.data, UnknownPayload)
    assert event.data.value == {"compactionId": "c"}


@pytest.mark.parametrize("name", ["request/header-delta", "mode/set"])
def test_retired_types_are_unknown_and_said_to_be_retired(name: str) -> None:
    log = Log()
    log.add(name, {})
    session = opened(log.text())
    assert isinstance(session.event(0).data, UnknownPayload)
    assert codes(session.findings, "fault") == ["retired-type"]


def legacy_result(call_id: str, text: str, **members: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"turn": 1, "step": 1, "callId": call_id, "content": content, "isError": False, **members}


def rewritten(new: dict[str, Any]) -> bytes:
    """A log whose result in an older shape is replaced by *new*."""
    log = Log("sess-old")
    log.turn()
    log.step()
    asked = log.call("c1")
    old = log.add("tool/result", legacy_result("c1", "long"), surfaceOp="append", sourceEventSeqs=[asked])
    op = {"op": "replace", "start": old, "end": old}
    log.add("tool/result", new, surfaceOp=op, sourceEventSeqs=[old])
    return log.text()


def test_a_result_in_an_older_shape_may_be_rewritten_in_that_shape_or_todays() -> None:
    block = {"type": "tool-result", "toolCallId": "c1", "content": [], "isError": False}
    source = {"kind": "tool", "callId": "c1"}
    message = {"role": "user", "content": [block], "source": source, "id": "legacy-message:sess-old:3"}
    for new in (legacy_result("c1", "short"), {"turn": 1, "step": 1, "message": message}):
        assert len(opened(rewritten(new)).derive_messages(as_stored=True)) == 1
    for other in (
        legacy_result("c2", "short"),
        legacy_result("c1", "short", isError=True),
        {"turn": 1, "step": 1, "message": {**message, "id": "other"}},
    ):
        assert refusal(rewritten(other)).code == "tool-result-rewrite"


def test_a_malformed_old_shape_opens_and_is_undecodable() -> None:
    event = one_event("assistant/message", {"turn": 1, "content": "no list"}, surfaceOp="append")
    assert isinstance(event.data, UndecodablePayload)
    log = Log()
    log.add("assistant/message", {"turn": 1, "content": "no list"}, surfaceOp="append")
    assert "undecodable" in codes(verify(log.text()).findings, "fault")
    assert b"undecodable" in event.message_json


def test_no_rewrite_of_an_old_shape_touches_the_stored_line() -> None:
    log = Log("sess-old")
    log.add("user/message", {"content": CONTENT, "source": {"kind": "user"}}, surfaceOp="append")
    log.add("turn/end", {"turn": 1, "reason": {"kind": "disposed"}})
    session = opened(log.text())
    assert [event.line() for event in session.events] == log.lines()[1:]
    assert [event.data.event_type for event in session.events] == ["user/message", "turn/end"]
    assert [event.line() for event in session.events] == log.lines()[1:]


def test_sessions_read_in_turn_name_their_messages_each_for_itself() -> None:
    """Classes are kept from one read to the next; the ids of messages without one must not be."""
    for id in ("one", "two", "one", "three", "two"):
        log = Log(id)
        log.add("user/message", {"content": CONTENT, "source": {"kind": "user"}}, surfaceOp="append")
        session = opened(log.text())
        assert [message.id for message in session.derive_messages()] == [f"legacy-message:{id}:0"]
