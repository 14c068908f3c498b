"""What the records of Claude Code become."""

from __future__ import annotations

import json
from pathlib import Path

import turnlog
from tests.foreign.files import (
    answered,
    call,
    claude,
    covered,
    data,
    lines,
    models,
    opened,
    result,
    said,
    shown,
    types,
    usages,
)
from tests.foreign.files import text as words
from turnlog.events import (
    Aborted,
    AssistantMessage,
    Completed,
    Errored,
    ImageBlock,
    ModelSource,
    Opaque,
    PluginSource,
    ReasoningBlock,
    RequestHeader,
    TextBlock,
    TokenUsage,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    TurnEnd,
    UserMessage,
)
from turnlog.store import StoredSession
from turnlog.views import attempts, structure


def loaded(*records: object) -> StoredSession:
    return turnlog.load(lines(*records))


def test_the_session_is_who_the_records_say() -> None:
    session = opened("claude-full")
    assert session.format == "Claude Code"
    assert session.id == "5d0c7c1e-0000-4000-8000-000000000001"
    assert session.header.cwd == "/work/garden"
    assert session.header.created_at == 1772359200000
    assert session.findings == ()
    assert "turnlog convert" in (session.read_only or "")


def test_every_line_became_an_event() -> None:
    session = opened("claude-full")
    assert covered(session) == set(range(1, 49))


def test_blocks_of_one_message_id_are_one_answer_with_results_between_them() -> None:
    session = opened("claude-full")
    first = next(session.select(AssistantMessage))
    assert [type(block) for block in first.data.message.content] == [
        ReasoningBlock, TextBlock, ToolCallBlock, ToolCallBlock,
    ]  # fmt: skip
    assert first.data.message.id == "msg_01"
    assert session.origins is not None
    assert session.origins.lines(first.seq) == (5, 6, 7, 9)
    step = structure(session)["t1.s1"]
    assert [(one.id, one.state) for one in step.calls] == [("toolu_01", "done"), ("toolu_02", "failed")]


def test_usage_counts_once_per_answer_and_its_buckets_are_disjoint() -> None:
    session = opened("claude-full")
    assert usages(session)[:2] == [TokenUsage(10, 64, 3000, 200), TokenUsage(20, 30, 3200, 0)]
    total = structure(session).turns[0].usage
    assert total is not None
    assert total.output_tokens == 94


def test_an_answer_that_goes_on_after_another_is_not_billed_again() -> None:
    usage = {"input_tokens": 5, "output_tokens": 7}
    session = loaded(
        said("u", "go"),
        answered("a", "m1", words("one"), usage=usage),
        answered("b", "m2", words("two"), usage=usage),
        answered("c", "m1", words("more"), usage=usage),
    )
    assert usages(session) == [TokenUsage(5, 7), TokenUsage(5, 7), None]
    assert session.origins is not None
    assert [one.code for one in session.origins.remarks] == ["inferred-ends", "repeated-answers"]


def test_arguments_are_the_text_of_the_file() -> None:
    call_event = next(opened("claude-full").select(ToolCall))
    assert call_event.data.arguments == '{"file_path":"/work/garden/seeds.txt","limit":12345678901234567890}'


def test_results_cite_their_call_and_keep_what_the_program_noted() -> None:
    session = opened("claude-full")
    first, second = list(session.select(ToolResult))[:2]
    assert session.event((first.sources or ())[0]).type == "tool/call"
    assert b'"meta":{"type":"text","file":{"filePath":"/work/garden/seeds.txt","numLines":2}}' in first.raw
    assert second.data.error is not None
    assert second.data.meta == "Error: ls: old: no such directory"


def test_signatures_go_back_to_their_provider() -> None:
    sources = [event.data.message.source for event in opened("claude-full").select(AssistantMessage)]
    assert [one.replay_state for one in sources if isinstance(one, ModelSource)][:2] == [
        {"blocks": [{"signature": "c2ln"}, None, None, None]},
        {"blocks": [{"redacted": "ZW5j"}, None]},
    ]


def test_a_prompt_begins_a_turn_and_an_answer_without_calls_completes_it() -> None:
    session = opened("claude-full")
    ends = [event.data.reason for event in session.select(TurnEnd)]
    assert [type(one) for one in ends] == [Completed, Aborted, Errored, Completed, Completed, Completed, Completed]
    assert session.origins is not None
    assert [session.origins.is_inferred(event.seq) for event in session.select(TurnEnd)] == [
        True, False, False, True, True, True, True,
    ]  # fmt: skip


def test_an_answer_that_the_output_limit_cut_ends_its_turn_so() -> None:
    cut = answered("a", "m", words("and then"))
    cut["message"]["stop_reason"] = "max_tokens"
    session = loaded(said("u", "go"), cut, said("v", "on", "a"), answered("b", "n", words("done")))
    reasons = [event.data.reason.__class__.__name__ for event in session.select(TurnEnd)]
    assert reasons == ["MaxTokens", "Completed"]


def test_a_failed_request_is_a_failed_attempt_and_its_record_is_kept() -> None:
    session = opened("claude-full")
    attempt = next(one for one in attempts(session) if one.turn == 3)
    assert (attempt.outcome, attempt.failure and attempt.failure.code) == ("failed", "RATE_LIMIT")
    assert attempt.failure is not None
    assert attempt.failure.status == 429
    assert "claude-code/api-error" in types(session)


def test_a_retry_is_an_attempt_of_the_answer_after_it() -> None:
    tried = [one for one in attempts(opened("claude-full")) if (one.turn, one.step) == (1, 2)]
    assert [one.outcome for one in tried] == ["failed", "completed"]
    assert tried[0].failure is not None
    failure = tried[0].failure
    assert (failure.code, failure.message, failure.status) == ("SERVER", "Overloaded", 529)


def test_a_model_change_is_a_request_header() -> None:
    session = opened("claude-full")
    headers = [(one.data.header.config.model, one.data.reason) for one in session.select(RequestHeader)]
    assert headers == [
        ("claude-sonnet-4-5", "initial"), ("claude-opus-4-5", "change"), ("claude-sonnet-4-5", "change"),
    ]  # fmt: skip
    assert set(models(session)) == {"anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-5"}


def test_a_rewind_takes_the_place_of_what_was_taken_back() -> None:
    session = opened("claude-full")
    leek = next(one for one in session.select(UserMessage) if one.data.message.text == "Add a leek.")
    taken = [session.event(seq).message for seq in leek.sources or ()]
    assert [one.text for one in taken if one is not None] == ["Add a tulip.", "A tulip is no vegetable."]
    at = [message.text for message in session.derive_messages(at=leek.seq + 1)]
    assert at[-2:] == ["There are two.", "Add a leek."]


def test_going_on_from_what_was_taken_back_is_remarked() -> None:
    session = loaded(
        said("u1", "one"),
        answered("a1", "m1", words("first")),
        said("u2", "two", "a1"),
        answered("a2", "m2", words("second")),
        said("u3", "other two", "a1"),
        answered("a3", "m3", words("other second")),
        said("u4", "three", "a2"),
    )
    assert session.origins is not None
    assert {one.code: one.number for one in session.origins.remarks if one.lost} == {"other-branches": 1}


def test_a_compaction_takes_the_place_of_everything_before_it() -> None:
    session = opened("claude-full")
    assert shown(session)[0] == ("user", "This session continues from before: seeds were sorted.")
    assert len(shown(session)) == 4
    summary = next(one for one in session.select(UserMessage) if isinstance(one.data.source, PluginSource)
                   and one.data.source.plugin == "compact")  # fmt: skip
    assert len(summary.sources or ()) > 10


def test_a_compaction_can_leave_the_last_messages_where_they_are() -> None:
    boundary = claude("system", "b", subtype="compact_boundary", compactMetadata={
        "trigger": "auto", "preservedSegment": {"headUuid": "u2", "anchorUuid": "x", "tailUuid": "a2"},
    })  # fmt: skip
    session = loaded(
        said("u1", "one"),
        answered("a1", "m1", words("first")),
        said("u2", "two", "a1"),
        answered("a2", "m2", words("second")),
        boundary,
        said("x", "summary", "b", isCompactSummary=True),
        said("u3", "three", "x"),
    )
    assert [one for _role, one in shown(session)] == ["summary", "two", "second", "three"]


def test_newer_versions_name_every_message_that_a_compaction_leaves() -> None:
    meta = {"trigger": "auto", "preservedMessages": {"anchorUuid": "x", "uuids": ["a1"]}}
    session = loaded(
        said("u1", "one"),
        answered("a1", "m1", words("first")),
        claude("system", "b", subtype="compact_boundary", compactMetadata=meta),
        said("x", "summary", "b", isCompactSummary=True),
    )
    assert [one for _role, one in shown(session)] == ["summary", "first"]


def test_answers_without_an_id_are_told_apart_by_their_request() -> None:
    records = [answered(f"a{n}", "", words(f"part {n}"), requestId=f"req_{n // 2}") for n in range(4)]
    session = loaded(said("u", "go"), *records)
    assert [event.data.message.text for event in session.select(AssistantMessage)] == [
        "part 0\npart 1", "part 2\npart 3",
    ]  # fmt: skip


def test_sub_agents_in_the_same_file_are_kept_and_seen_by_nobody() -> None:
    session = opened("claude-full")
    assert [one for one in types(session) if "sidechain" in one] == [
        "claude-code/sidechain/user", "claude-code/sidechain/assistant",
    ]  # fmt: skip
    assert all("Added." not in message for _role, message in shown(session))
    assert session.origins is not None
    numbers = {one.code: one.number for one in session.origins.remarks}
    assert (numbers["sidechains"], numbers["sidechain-tokens"]) == (2, 5)


def test_sub_agents_with_ids_in_the_file_of_their_session_do_not_become_it() -> None:
    aside = said("x", "count", isSidechain=True, agentId="a-1")
    session = loaded(said("u", "go"), {**aside, "isSidechain": True}, answered("a", "m", words("done")))
    assert (session.id, session.header.origin) == ("s-1", None)
    assert [message for _role, message in shown(session)] == ["go", "done"]


def test_a_sub_agents_own_file_is_a_session_that_names_its_parent() -> None:
    session = opened("claude-agent")
    assert (session.id, session.header.origin, session.header.parent_session) == (
        "agent-a77", "subagent", "5d0c7c1e-0000-4000-8000-000000000001",
    )  # fmt: skip
    assert shown(session) == [("user", "Count beets"), ("assistant", "Nine.")]


def test_a_fork_marks_what_it_inherited() -> None:
    session = opened("claude-fork")
    assert session.header.parent_session == "5d0c7c1e-0000-4000-8000-000000000001"
    assert session.header.seed_length == 7
    assert session.event(7).type == "session/end-seed"
    assert [message for _role, message in shown(session)][-2:] == ["Now by colour.", "Done."]


def test_a_resumed_session_that_begins_with_copies_has_the_id_of_its_file(tmp_path: Path) -> None:
    copies = [said("u", "go"), answered("a", "m", words("done"), usage={"input_tokens": 5, "output_tokens": 7})]
    own = [{**said("v", "more", "a"), "sessionId": "s-2"}, {**answered("b", "n", words("fine")), "sessionId": "s-2"}]
    path = tmp_path / "s-2.jsonl"
    path.write_bytes(lines(*copies, *own))
    session = turnlog.load(path)
    assert (session.id, session.header.parent_session, session.header.seed_length) == ("s-2", "s-1", 7)
    assert session.event(7).type == "session/end-seed"
    assert [message for _role, message in shown(session)] == ["go", "done", "more", "fine"]


def test_an_open_call_at_the_end_is_left_open() -> None:
    session = opened("claude-old")
    assert types(session)[-1] == "tool/call"
    assert [event.type for event in session.closers] == ["tool/result", "step/end", "turn/end"]


def test_a_typed_word_while_the_model_works_reaches_it_with_the_next_request() -> None:
    session = opened("claude-full")
    told = [event.message for event in structure(session)["t1.s2"].messages if event.type == "user/message"]
    assert [message.text for message in told if message is not None] == ["Keep the comments."]


def test_local_commands_begin_no_turn_and_slash_commands_that_are_answered_do() -> None:
    session = opened("claude-full")
    assert len(structure(session).turns) == 7
    command = next(one for one in session.select(UserMessage) if "/review" in one.data.message.text)
    first = structure(session)["t7.s1"].messages[0].message
    assert first is not None
    assert "/review" in first.text
    assert command.data.source.__class__.__name__ == "UserSource"
    output = next(one for one in session.select(UserMessage) if "Set model to opus" in one.data.message.text)
    assert isinstance(output.data.source, PluginSource)


def test_images_are_references_and_their_bytes_an_event() -> None:
    session = opened("claude-full")
    images = [block for event in session.select(UserMessage) for block in event.data.content
              if isinstance(block, ImageBlock)]  # fmt: skip
    held = images[0].attachment
    assert (held.media_type, held.width, held.height) == ("image/png", 3, 2)
    kept = [json.loads(event.raw) for event in session.events if event.type == "foreign/image"]
    assert [one["attachmentId"] for one in kept] == [held.attachment_id] * 2


def test_what_the_models_servers_did_stays_a_block() -> None:
    session = opened("claude-full")
    answer = next(one for one in session.select(AssistantMessage) if one.data.message.id == "msg_03")
    block = answer.data.message.content[0]
    assert isinstance(block, Opaque)
    assert block.value["name"] == "web_search"


def test_a_record_of_an_unknown_kind_is_kept_byte_for_byte() -> None:
    session = opened("claude-full")
    kept = next(event for event in session.events if event.type == "claude-code/star-chart")
    assert kept.raw + b"\n" == data("claude-full").splitlines(keepends=True)[-1]
    assert b"[1, 2.50, 1e3]" in kept.raw
    assert kept.ignorable


def test_the_same_record_twice_is_kept_and_said_once() -> None:
    prompt = said("u1", "one")
    session = loaded(prompt, prompt, answered("a1", "m1", words("first")))
    assert shown(session) == [("user", "one"), ("assistant", "first")]
    assert types(session).count("claude-code/repeated") == 1


def test_one_id_for_two_different_records_loses_neither() -> None:
    session = loaded(said("u", "one"), said("u", "two"), answered("a", "m1", words("both")))
    assert [message for _role, message in shown(session)] == ["one", "two", "both"]


def test_a_prompt_after_an_open_call_ends_the_turn_as_interrupted() -> None:
    session = loaded(said("u", "go"), answered("a", "m", call("c", x=1)), said("v", "stop", "a"))
    assert [event.data.reason.__class__.__name__ for event in session.select(TurnEnd)] == ["Interrupted"]
    assert session.origins is not None
    assert {one.code for one in session.origins.remarks} == {"inferred-ends", "unanswered-calls"}


def test_a_result_without_its_call_is_shown_all_the_same() -> None:
    session = loaded(said("u", "go"), answered("a", "m", words("hm")), said("r", result("nowhere", "lost?"), "a"))
    assert shown(session)[-1] == ("user", "lost?")
    assert session.origins is not None
    assert "orphan-results" in {one.code for one in session.origins.remarks}


def test_one_id_for_two_calls_of_an_answer_gets_a_number() -> None:
    session = loaded(
        said("u", "go"),
        answered("a", "m", call("c", x=1), call("c", x=2)),
        said("r", result("c", "first"), "a"),
        said("s", result("c", "second"), "r"),
        answered("z", "n", words("done")),
    )
    assert [event.data.call_id for event in session.select(ToolCall)] == ["c", "c~2"]
    assert [(event.data.call_id, event.data.message.text) for event in session.select(ToolResult)] == [
        ("c", "first"), ("c~2", "second"),
    ]  # fmt: skip


def test_parents_in_a_circle_end_nowhere_but_in_the_log() -> None:
    session = loaded(said("a", "one", "c"), said("b", "two", "a"), said("c", "three", "b"))
    assert [message for _role, message in shown(session)] == ["one", "two", "three"]


def test_times_are_those_of_the_file_and_what_has_none_takes_its_neighbours() -> None:
    session = opened("claude-full")
    assert [event.time for event in session.events] == sorted(event.time for event in session.events)
    assert session.event(0).time == 1772359200000  # a snapshot without a time of its own, before all others


def test_a_slash_command_that_is_answered_begins_a_turn_after_a_complete_one() -> None:
    session = loaded(
        said("u", "go"),
        answered("a", "m", words("done")),
        said("c", "<command-name>/review</command-name>", "a"),
        said("d", "Review it.", "c", isMeta=True),
        answered("b", "n", words("fine")),
        said("e", "Stop hook feedback: not yet", "b", isMeta=True),
        answered("f", "o", words("now then")),
    )
    turns = structure(session).turns
    assert [len(turn.steps) for turn in turns] == [1, 2]
    assert [event.message.text for event in turns[1].messages if event.message is not None] == [
        "<command-name>/review</command-name>", "Review it.", "fine", "Stop hook feedback: not yet", "now then",
    ]  # fmt: skip


def test_a_compaction_after_a_complete_answer_is_between_the_turns() -> None:
    session = loaded(
        said("u", "go"),
        answered("a", "m", words("done")),
        said("s", "summary", isCompactSummary=True),
        said("v", "more", "s"),
        answered("b", "n", words("done again")),
    )
    assert types(session)[6:9] == ["turn/end", "user/message", "turn/start"]


def test_a_compaction_while_the_model_works_is_inside_the_turn() -> None:
    session = loaded(
        said("u", "go"),
        answered("a", "m", call("c", x=1)),
        said("r", result("c"), "a"),
        said("s", "summary", isCompactSummary=True),
        answered("b", "n", words("done")),
    )
    assert [len(turn.steps) for turn in structure(session).turns] == [2]
    assert [message for _role, message in shown(session)] == ["summary", "done"]


def test_a_rewind_stops_at_a_summary_which_holds_more_than_what_is_taken_back() -> None:
    session = loaded(
        said("u1", "one"),
        answered("a1", "m1", words("first")),
        said("u2", "two", "a1"),
        answered("a2", "m2", words("second")),
        said("s", "summary", "b", isCompactSummary=True),
        said("u3", "three", "s"),
        answered("a3", "m3", words("third")),
        said("u4", "back at two", "a1"),
    )
    assert [message for _role, message in shown(session)] == ["summary", "back at two"]


def test_two_rewinds_without_an_answer_between_them_take_back_their_own() -> None:
    session = loaded(
        said("u1", "one"),
        answered("a1", "m1", words("first")),
        said("u2", "two", "a1"),
        answered("a2", "m2", words("second")),
        said("u3", "three", "a2"),
        answered("a3", "m3", words("third")),
        said("u4", "other three", "a2"),
        said("u5", "other two", "a1"),
        answered("a5", "m5", words("last")),
    )
    assert [message for _role, message in shown(session)] == ["one", "first", "other two", "last"]
    assert [message for _role, message in session_at(session, "other three")] == [
        "one", "first", "two", "second", "other three",
    ]  # fmt: skip


def session_at(session: StoredSession, prompt: str) -> list[tuple[str, str]]:
    """What the model saw when a prompt was the last message."""
    event = next(one for one in session.select(UserMessage) if one.data.message.text == prompt)
    return [(one.role, one.text) for one in session.derive_messages(at=event.seq + 1)]


def test_a_prompt_without_an_answer_is_in_the_turn_that_it_began() -> None:
    session = loaded(said("u", "one"), said("v", "two", "u"), answered("a", "m", words("both")))
    assert types(session)[:4] == ["turn/start", "user/message", "turn/end", "turn/start"]
    assert [event.data.reason.__class__.__name__ for event in session.select(TurnEnd)] == ["Interrupted", "Completed"]


def test_calls_that_were_answered_are_not_remarked() -> None:
    session = opened("claude-full")
    assert session.origins is not None
    assert "unanswered-calls" not in {one.code for one in session.origins.remarks}


def test_a_queued_command_that_says_nothing_is_kept() -> None:
    queued = claude("attachment", "q", attachment={"type": "queued_command", "commandMode": "prompt"})
    session = loaded(said("u", "go"), queued, answered("a", "m", words("done")))
    assert "claude-code/attachment/queued-command" in types(session)
    assert len(shown(session)) == 2


def test_a_command_after_an_unfinished_turn_is_in_the_turn_of_the_prompt_after_it() -> None:
    session = loaded(
        said("u", "go"),
        answered("a", "m", call("c", x=1)),
        said("r", result("c"), "a"),
        said("k", "<command-name>/effort</command-name>", "r"),
        said("v", "go on", "k"),
        answered("b", "n", words("done")),
    )
    second = [event.message.text for event in structure(session).turns[1].messages if event.message is not None]
    assert second == ["<command-name>/effort</command-name>", "go on", "done"]
