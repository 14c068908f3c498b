"""What the records of Codex become."""

from __future__ import annotations

import turnlog
from tests.foreign.files import codex, covered, happened, item, lines, models, opened, shown, spent, types, usages
from turnlog.events import (
    Aborted,
    AssistantMessage,
    Completed,
    Errored,
    ImageBlock,
    ModelSource,
    RequestContext,
    RequestHeader,
    TokenUsage,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from turnlog.store import StoredSession
from turnlog.views import attempts, structure

META = codex("session_meta", id="c-1", timestamp="2026-04-02T08:00:00.000Z", cwd="/work")


def typed(words: str, at: int = 0) -> dict[str, object]:
    return item("message", at, role="user", content=[{"type": "input_text", "text": words}])


def told(words: str, at: int = 0) -> dict[str, object]:
    return item("message", at, role="assistant", content=[{"type": "output_text", "text": words}])


def loaded(*records: object) -> StoredSession:
    return turnlog.load(lines(META, *records))


def test_the_session_is_who_its_first_record_says() -> None:
    session = opened("codex-full")
    assert (session.format, session.id, session.header.cwd) == ("Codex", "0199-c1", "/work/pond")
    assert session.findings == ()
    assert covered(session) == set(range(1, 49))


def test_turns_are_those_that_the_file_states() -> None:
    session = opened("codex-full")
    ends = [event.data.reason for event in session.select(TurnEnd)]
    assert [type(one) for one in ends] == [Completed, Aborted, Errored, Completed]
    assert isinstance(ends[2], Errored)
    assert (ends[2].error.code, ends[2].error.status) == ("STREAM_CLOSED", 502)
    assert session.origins is not None
    stated = [*session.select(TurnStart), *session.select(TurnEnd)]
    assert not any(session.origins.is_inferred(event.seq) for event in stated)


def test_a_reconnection_is_a_retry_of_the_request_that_fails_or_succeeds_after_it() -> None:
    tried = [one for one in attempts(opened("codex-full")) if one.turn == 3]
    assert [(one.outcome, one.failure and one.failure.code) for one in tried] == [
        ("failed", "UNKNOWN"), ("failed", "STREAM_CLOSED"),
    ]  # fmt: skip
    session = loaded(typed("hi"), happened("stream_error", message="Reconnecting... 2/5"), told("yes"))
    assert [one.outcome for one in attempts(session)] == ["failed", "completed"]


def test_items_are_divided_into_answers_by_results() -> None:
    session = opened("codex-full")
    steps = structure(session).turns[0].steps
    assert [[one.id for one in step.calls] for step in steps] == [["call_a", "call_b"], ["call_c"], []]
    assert [one.state for one in steps[0].calls] == ["done", "done"]


def test_token_sums_count_by_their_difference_and_the_same_sum_twice_counts_once() -> None:
    assert usages(opened("codex-full"))[:3] == [
        TokenUsage(800, 50, 200, None, 20),
        TokenUsage(300, 40, 1000, None, 10),
        TokenUsage(200, 30, 1300, None, 10),
    ]
    total = structure(opened("codex-full")).turns[0].usage
    assert total is not None
    assert (total.input_tokens, total.cache_read_tokens, total.output_tokens) == (1300, 2500, 120)


def test_a_sum_that_falls_counts_what_the_last_request_says() -> None:
    session = opened("codex-full")
    assert usages(session)[-1] == TokenUsage(300, 5, 0, None, 0)
    assert session.origins is not None
    assert "token-totals-fell" in {one.code for one in session.origins.remarks}


def test_a_sum_that_no_answer_precedes_is_remarked() -> None:
    session = loaded(spent((10, 0, 5, 0), (10, 0, 5, 0)), typed("hi"))
    assert session.origins is not None
    assert "unplaced-tokens" in {one.code for one in session.origins.remarks}


def test_what_the_model_was_told_and_what_a_person_typed_are_told_apart() -> None:
    session = opened("codex-full")
    sources = [(type(one.data.source).__name__, one.data.message.text[:16]) for one in session.select(UserMessage)]
    assert sources[:4] == [
        ("PluginSource", "<permissions ins"),
        ("PluginSource", "# AGENTS.md inst"),
        ("PluginSource", "<environment_con"),
        ("UserSource", "How deep is the "),
    ]


def test_request_headers_hold_what_the_file_says() -> None:
    session = opened("codex-full")
    headers = [one.data.header for one in session.select(RequestHeader)]
    assert [(one.config.model, one.config.reasoning_effort) for one in headers] == [
        ("gpt-5.2-codex", "high"), ("gpt-5.2-codex", "low"),
    ]  # fmt: skip
    assert headers[0].system == "You are a careful gardener."
    assert [one.data.context_window for one in session.select(RequestContext)] == [272000]
    assert set(models(session)) == {"openai/gpt-5.2-codex"}


def test_reasoning_keeps_its_encrypted_form_for_its_provider() -> None:
    source = next(opened("codex-full").select(AssistantMessage)).data.message.source
    assert isinstance(source, ModelSource)
    assert source.replay_state == {"blocks": [{"encrypted": "gAAA"}, None, None, None]}


def test_calls_of_every_kind_have_json_arguments() -> None:
    calls = [(one.data.name, one.data.arguments) for one in opened("codex-full").select(ToolCall)]
    assert calls == [
        ("exec_command", '{"cmd":"cat depth"}'),
        ("exec_command", '{"cmd":"cat width"}'),
        ("apply_patch", '{"input":"*** Begin Patch\\n*** End Patch\\n"}'),
        ("local_shell", '{"type":"exec","command":["sh","-c","fill"],"timeout_ms":1000}'),
    ]


def test_a_result_may_hold_an_image() -> None:
    second = list(opened("codex-full").select(ToolResult))[1]
    block = second.data.message.content[0]
    assert isinstance(block, ToolResultBlock)
    assert isinstance(block.content[1], ImageBlock)


def test_a_result_that_says_it_failed_has_failed() -> None:
    session = loaded(
        typed("go"),
        item("function_call", name="f", arguments="{}", call_id="c"),
        item("function_call_output", call_id="c", output={"content": "no", "success": False}),
    )
    assert structure(session)["t1.s1"].calls[0].state == "failed"


def test_a_rollback_is_replaced_by_the_next_message() -> None:
    session = opened("codex-full")
    empty = next(one for one in session.select(UserMessage) if one.data.message.text == "Empty it.")
    assert [message.text for message in session.derive_messages(at=empty.seq + 1)][-2:] == [
        "It is 3 m deep.", "Empty it.",
    ]  # fmt: skip


def test_rollbacks_in_a_row_take_back_a_turn_each() -> None:
    turns = [one for n in range(4) for one in (typed(f"q{n}"), told(f"a{n}"))]
    back = happened("thread_rolled_back", num_turns=1)
    session = loaded(*turns, back, back, typed("other q2"), told("other a2"), back, typed("third q2"))
    assert [message for _role, message in shown(session)] == ["q0", "a0", "q1", "a1", "third q2"]


def test_a_rollback_that_nothing_follows_is_remarked() -> None:
    session = loaded(typed("q"), told("a"), happened("thread_rolled_back", num_turns=1))
    assert session.origins is not None
    assert "open-rewind" in {one.code for one in session.origins.remarks}


def test_a_count_that_repeats_belongs_to_no_answer() -> None:
    first = spent((10, 0, 5, 9), (10, 0, 5, 9))
    session = loaded(typed("q"), told("a"), first, typed("more"), told("b"), first)
    assert usages(session) == [TokenUsage(10, 5, 0, None, 5), None]
    assert session.origins is not None
    assert "unplaced-tokens" not in {one.code for one in session.origins.remarks}


def test_counts_are_in_the_step_that_they_are_about() -> None:
    session = opened("codex-full")
    for step in structure(session).turns[0].steps:
        assert "codex/event-msg/token-count" in [event.type for event in step.events]


def test_a_compacted_history_takes_the_place_of_what_was() -> None:
    assert shown(opened("codex-full")) == [
        ("user", "How deep is the pond?"),
        ("user", "The pond is 3 m deep."),
        ("user", "Thanks."),
        ("assistant", "You are welcome."),
    ]


def test_files_without_types_are_read() -> None:
    session = opened("codex-old")
    assert (session.id, session.header.created_at) == ("0199-c0", 1746086400000)
    assert [message for _role, message in shown(session)] == [
        "Name a fish.", "", '{"output":"carp","metadata":{"exit_code":0}}', "Carp.", "Another.", "Pike.",
    ]  # fmt: skip
    assert [type(event.data.reason) for event in session.select(TurnEnd)] == [Completed, Completed]


def test_a_fork_marks_what_it_inherited_and_a_sub_agent_names_its_parent() -> None:
    session = opened("codex-fork")
    assert (session.header.parent_session, session.header.origin) == ("0199-c1", "subagent")
    assert session.header.seed_length == 10
    assert session.event(10).type == "session/end-seed"
    assert usages(session) == [TokenUsage(100, 10, 0, None, 0), TokenUsage(100, 4, 50, None, 0)]


def test_an_open_turn_stays_open() -> None:
    session = loaded(happened("task_started", turn_id="t"), typed("hi"), told("half an answer"))
    assert [event.type for event in session.closers] == ["turn/end"]


def test_a_prompt_that_is_written_before_its_turn_begins_belongs_to_it() -> None:
    start, end = happened("task_started", turn_id="t"), happened("task_complete", turn_id="t")
    session = loaded(typed("hi"), start, told("yes"), end, typed("more"), start, told("fine"), end)
    assert [type(event.data.reason) for event in session.select(TurnEnd)] == [Completed, Completed]
    assert [len(turn.steps) for turn in structure(session).turns] == [1, 1]


def test_words_typed_into_an_open_turn_begin_no_other() -> None:
    session = loaded(happened("task_started", turn_id="t"), typed("hi"), told("yes"), typed("more"), told("fine"))
    assert len(structure(session).turns) == 1


def test_a_context_for_every_request_divides_the_answers() -> None:
    context = codex("turn_context", model="m")
    session = loaded(typed("hi"), context, told("one"), context, told("two"), told("three"))
    assert [event.data.message.text for event in session.select(AssistantMessage)] == ["one", "two\nthree"]


def test_what_repeats_the_items_for_the_screen_is_kept_and_not_said_twice() -> None:
    session = loaded(typed("hi"), happened("user_message", message="hi"), told("yes"), happened("agent_message"))
    assert shown(session) == [("user", "hi"), ("assistant", "yes")]
    assert "codex/event-msg/agent-message" in types(session)
