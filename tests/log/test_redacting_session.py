"""A session that takes secrets out before anything is committed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events import Message, StepStart, TextBlock, ToolCall, ToolResult, TurnStart, UserMessage
from turnlog.log import RedactionRule, Redactor, Session

KEY = "AKIAIOSFODNN7EXAMPLE"


def open_step(session: Session) -> None:
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))


def test_a_secret_is_in_no_event_and_no_message() -> None:
    session = Session(redact=Redactor())
    told: list[bytes] = []
    session.subscribe(lambda event: told.append(event.line()))

    event = session.append(UserMessage.of(f"my key is {KEY}"))

    assert event.data.message.text == "my key is [redacted:aws-key]"
    assert session.derive_messages()[0].text == "my key is [redacted:aws-key]"
    assert KEY.encode() not in b"".join(told)
    assert event.raw in told[0]


def test_raw_arguments_stay_json() -> None:
    session = Session(redact=Redactor())
    open_step(session)
    arguments = json.dumps({"command": f"export PASSWORD='x\"y {KEY}'", "n": 1})

    session.append(ToolCall(turn=1, step=1, call_id="c", name="bash", arguments=arguments))

    (event,) = session.select(ToolCall)
    assert json.loads(event.data.arguments)["n"] == 1
    assert KEY not in event.data.arguments


def test_open_json_is_searched_too() -> None:
    session = Session(redact=Redactor())
    open_step(session)
    session.append(ToolCall(turn=1, step=1, call_id="c", name="bash", arguments="{}"))

    message = Message.from_tool("c", TextBlock("ok"))
    event = session.append(ToolResult(turn=1, step=1, message=message, meta={"env": [{"KEY": KEY}]}))

    assert event.data.meta == {"env": [{"KEY": "[redacted:aws-key]"}]}


def test_own_rules_are_used_and_forks_keep_them() -> None:
    session = Session(redact=Redactor([RedactionRule.of("order", r"ORD-\d+")]))
    session.append(UserMessage.of("about ORD-12"))

    child = session.fork()
    child.append(UserMessage.of("and ORD-13"))

    assert [message.text for message in child.derive_messages()] == ["about [redacted:order]", "and [redacted:order]"]


@pytest.mark.proof
@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_text_without_secrets_is_committed_as_it_is(text: str) -> None:
    if Redactor().redact(text).hits:
        return
    plain, redacting = Session("a", clock=lambda: 0), Session("a", clock=lambda: 0, redact=Redactor())
    payload = UserMessage.of(text)
    assert plain.append(payload).line() == redacting.append(payload).line()
