"""What chat-completion messages become."""

from __future__ import annotations

import turnlog
from tests.foreign.files import covered, lines, opened, shown, types, usages
from turnlog.events import AssistantMessage, ImageBlock, Opaque, RequestHeader, TokenUsage, ToolCall, UserMessage
from turnlog.store import StoredSession
from turnlog.views import structure


def chat(*contents: str) -> dict[str, object]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": one} for n, one in enumerate(contents)]}


def loaded(*records: object) -> StoredSession:
    return turnlog.load(lines(*records))


def test_a_conversation_that_goes_on_continues_the_one_before() -> None:
    session = loaded(chat("hi", "yes"), chat("hi", "yes", "and?", "no"))
    assert [message for _role, message in shown(session)] == ["hi", "yes", "and?", "no"]
    assert session.generation == 0


def test_another_conversation_takes_the_place_of_the_one_before() -> None:
    session = loaded(chat("hi", "yes"), chat("hello", "no"))
    assert [message for _role, message in shown(session)] == ["hello", "no"]
    assert len(structure(session).turns) == 2
    assert session.origins is not None
    assert "conversations" in {one.code for one in session.origins.remarks}


def test_the_same_conversation_once_more_says_nothing_new() -> None:
    session = loaded(chat("hi", "yes"), chat("hi", "yes"), {"messages": []})
    assert types(session)[-2:] == ["chat/repeated", "chat/repeated"]
    assert covered(session) == {1, 2, 3}


def test_system_prompt_tools_and_model_are_the_request_header() -> None:
    headers = [event.data.header for event in opened("chat-conversations").select(RequestHeader)]
    assert [(one.config.model, one.system, one.tools and one.tools[0].name) for one in headers] == [
        ("gpt-x", "Answer in one word.", None),
        ("gpt-x", "Answer in one word.", "weather"),
    ]


def test_usage_of_a_line_is_that_of_its_last_answer() -> None:
    assert usages(opened("chat-conversations")) == [None, None, TokenUsage(20, 9, 40, None, 2), None]


def test_calls_in_both_shapes_find_their_results() -> None:
    for name, step in (("chat-conversations", "t2.s1"), ("chat-messages", "t1.s1")):
        calls = structure(opened(name))[step].calls
        assert [one.state for one in calls] == ["done"]
    assert next(opened("chat-messages").select(ToolCall)).data.arguments == '{"a":2,"b":3}'


def test_images_are_references_and_what_is_unknown_stays_a_block() -> None:
    message = next(one for one in opened("chat-conversations").select(UserMessage) if len(one.data.content) == 3)
    assert isinstance(message.data.content[1], ImageBlock)
    assert isinstance(message.data.content[2], Opaque)


def test_members_that_are_not_mapped_keep_their_line() -> None:
    session = opened("chat-conversations")
    kept = [event for event in session.events if event.type == "chat/record"]
    assert b'"split":"train"' in kept[0].raw
    assert kept[1].raw == b'{"note":"a line without messages"}'
    assert covered(session) == {1, 2, 3, 4}


def test_messages_of_one_to_a_line_are_one_conversation() -> None:
    session = opened("chat-messages")
    assert [message for _role, message in shown(session)] == [
        "Add 2 and 3.", "", "5", "Answer with the number only.", "5",
    ]  # fmt: skip
    assert types(session)[-1] == "chat/message"
    assert session.header.created_at == 1777636800000


def test_without_times_all_events_are_at_zero_and_that_is_said() -> None:
    session = opened("chat-conversations")
    assert {event.time for event in session.events} == {0}
    assert session.origins is not None
    assert "no-times" in {one.code for one in session.origins.remarks}


def test_an_answer_of_nothing_is_an_answer() -> None:
    session = loaded({"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "refusal": None})
    assert len(list(session.select(AssistantMessage))) == 1
