"""Structure: turns, steps and attempts with their events, messages, calls, usage, timing and ends."""

from __future__ import annotations

import pytest

import turnlog
from tests.log import sessions
from tests.views.logs import (
    CASES,
    DATA,
    LONG,
    SAMPLE,
    asks,
    call,
    case,
    chunk,
    end,
    event,
    finish,
    log,
    message,
    packed,
    real,
    result,
    retry,
    session,
    step,
    step_end,
    text,
    turn,
    usage,
    user,
)
from turnlog.log.rows import PackedRun
from turnlog.store import LogRefused
from turnlog.views import AddressUnknown, AttemptView, StepView, TurnView, structure, trace
from turnlog.views.captured import captured


def test_the_sample_part_by_part() -> None:
    (found,) = structure(turnlog.load(SAMPLE)).turns
    assert (found.address, found.state, found.end, len(found.events)) == ("t1", "ended", "completed", 10)
    (step,) = found.steps
    (attempt,) = step.attempts
    assert [one.address for one in (step, attempt)] == ["t1.s1", "t1.s1.a1"]
    assert [one.seq for one in attempt.events] == [3, 4, 5]
    assert [one.seq for one in step.messages] == [2, 5, 7]
    assert [one.address for one in attempt.calls] == ["t1.s1.call:call_1"]
    assert found.usage is not None
    assert found.usage.input_tokens == 12
    timing = found.timing
    assert (timing.total_ms, timing.first_token_ms, timing.decode_ms, timing.tool_ms) == (90, 30, 10, 10)
    assert timing.is_over


def test_one_figure_counts_for_a_request_whichever_record_carries_it() -> None:
    """BC-002: 260/122/3800 (chunk and message both), 85 (reasoning added on top)."""
    total = structure(case("BC-002/session.jsonl")).usage
    assert total is not None
    assert (total.input_tokens, total.output_tokens, total.cache_read_tokens, total.reasoning_tokens) == (
        130,
        61,
        1900,
        24,
    )


def test_the_stream_is_believed_before_the_message() -> None:
    found = session(turn(), step(), chunk(usage(outputTokens=7)), chunk(finish()),
                    message(usage={"inputTokens": 1, "outputTokens": 1}), step_end(), end())  # fmt: skip
    total = structure(found).usage
    assert total is not None
    assert (total.input_tokens, total.output_tokens) == (10, 7)


def test_attempts_are_added_and_what_nobody_reported_is_unknown_and_not_nothing() -> None:
    """BC-053: usage that is not known must not look like a price of nothing."""
    found = session(turn(), step(), chunk(text("a")), chunk(usage(outputTokens=1)), chunk(finish("error", "SERVER")),
                    retry(), chunk(text("b")), chunk(usage(outputTokens=2)), chunk(finish()), message(), step_end(),
                    end(), turn(2), step(1, 2), message(turn=2), step_end(1, 2), end(2))  # fmt: skip
    first, second = structure(found).turns
    assert first.usage is not None
    assert (first.usage.output_tokens, first.usage.cache_read_tokens) == (3, None)
    assert second.usage is None


def test_spent_tokens_stay_spent_when_messages_are_replaced() -> None:
    """BC-037."""
    found = case("BC-037/after-compaction.jsonl")
    whole = structure(found).usage
    added = [one.usage for turn in structure(found).turns for one in turn.attempts if one.usage is not None]
    assert whole is not None
    assert whole.input_tokens == sum(one.input_tokens for one in added) > 0


def test_waiting_for_a_person_is_not_the_tools_time() -> None:
    asked = event("approval/asked", {"id": "q", "callId": "c", "toolName": "bash"})
    found = session(turn(), step(), message(asks("c")), call("c"), {**asked, "time": 1100},
                    {**event("approval/decided", {"id": "q", "outcome": "approve"}), "time": 5100},
                    {**result("c"), "time": 5600}, {**step_end(), "time": 5700}, {**end(), "time": 5800})  # fmt: skip
    timing = structure(found).turns[0].timing
    assert (timing.waiting_ms, timing.tool_ms) == (4000, 5600 - 1030 - 4000)


def test_tools_that_ran_side_by_side_are_counted_once() -> None:
    found = session(turn(), step(), message(asks("a"), asks("b")), {**call("a"), "time": 2000},
                    {**call("b"), "time": 2000}, {**result("a"), "time": 3000}, {**result("b"), "time": 3500},
                    {**step_end(), "time": 3600}, {**end(), "time": 3600})  # fmt: skip
    assert structure(found).turns[0].timing.tool_ms == 1500


def test_clocks_that_step_back_give_neither_negative_durations_nor_another_order() -> None:
    found = session(turn(), step(), {**chunk(text("a")), "time": 900}, {**chunk(text("b")), "time": 400}, message(),
                    call("c"), {**result("c"), "time": 3}, step_end(), {**end(), "time": 2})  # fmt: skip
    (one,) = structure(found).turns
    timing = one.timing
    assert [event.seq for event in one.events] == list(range(9))
    assert (timing.total_ms, timing.first_token_ms, timing.decode_ms, timing.tool_ms) == (0, 0, 0, 0)
    assert [step.seq for step in timing.clock_steps] == [2, 3, 6, 8]
    assert timing.clock_steps[0].back_ms == 110


def test_clock_steps_inside_packed_runs_are_found_without_their_words() -> None:
    run = packed("text-chunks", 2, ["a", "b", "c"], time0=1020, dt=[1, -5])
    found = turnlog.load(log(turn(), step()) + run)
    assert [one.seq for one in structure(found).turns[0].timing.clock_steps] == [4]


def test_a_dead_writers_turn_is_interrupted_and_its_last_event_a_lower_bound() -> None:
    """BC-065: it was shown as running for 43,000 hours."""
    last = structure(case("BC-065/open-turn-old.jsonl")).turns[-1]
    assert (last.end, last.steps[-1].end) == ("interrupted (not repaired)", "interrupted (not repaired)")
    assert (last.ended, last.last) == (None, 1760000000170)
    assert not last.timing.is_over
    assert last.timing.total_ms == last.last - last.started
    assert [event.type for event in last.closers] == ["tool/result", "step/end", "turn/end"]
    assert [event.type for event in last.steps[-1].closers] == ["tool/result", "step/end"]
    assert last.calls[-1].synthetic


def test_as_stored_shows_no_closers() -> None:
    last = structure(case("BC-065/open-turn-old.jsonl"), as_stored=True).turns[-1]
    assert (last.closers, last.end) == ((), "interrupted (not repaired)")
    assert not any(one.synthetic for one in last.calls)


def test_a_live_writers_turn_is_running_and_has_no_end() -> None:
    """BC-065."""
    (one,) = structure(sessions.in_step()).turns
    assert (one.end, one.ended, one.steps[0].end, one.timing.is_over) == ("running", None, "running", False)


def test_ends_without_their_start_are_parts_too() -> None:
    """BC-065: such rows were dropped."""
    (one,) = structure(case("BC-065/end-without-start.jsonl")).turns
    assert [event.seq for event in one.events] == [0, 1, 2]


def test_packed_chunks_stay_packed_until_their_words_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = real(0, LONG[0])
    (one,) = structure(found).turns
    monkeypatch.setattr(PackedRun, "unpack", lambda _self: pytest.fail("unpacked"))
    assert [(run.kind, run.number) for run in one.steps[0].chunks][1] == ("text-delta", 600)
    assert (len(one.events), len(one.messages), one.end) == (614, 2, "completed")
    assert one.calls == ()
    assert one.usage is not None


def test_parts_are_found_by_address() -> None:
    found = structure(turnlog.load(SAMPLE))
    assert isinstance(found["t1"], TurnView)
    assert isinstance(found["t1.s1"], StepView)
    assert isinstance(found["t1.s1.a1"], AttemptView)
    for address, there in (("t2", "t1"), ("t1.s3", "t1.s1"), ("t1.s1.a2", "t1.s1.a1"), ("@3", "no turn, step")):
        with pytest.raises(AddressUnknown, match=there):
            found[address]


def test_a_message_sent_while_tools_run_is_in_the_log_once() -> None:
    """BC-058: opens, and the message stands where it was logged."""
    found = structure(case("BC-058/user-between-call-and-result.jsonl"))
    messages = [event.seq for one in found.turns for event in one.messages]
    assert len(messages) == len(set(messages))


def test_a_turn_that_failed_says_why() -> None:
    reason = {"kind": "error", "error": {"message": "no money", "code": "HTTP_402"}}
    (one,) = structure(session(turn(), user(), end(reason=reason))).turns
    assert one.end == "error: HTTP_402: no money"
    assert one.steps == ()


def test_no_readable_log_is_beyond_the_views() -> None:
    """Every case and real log, damaged ones too: structure, trace and remarks never fail."""
    logs = (*CASES.rglob("*.jsonl*"), *(DATA / "corpus").rglob("*.jsonl*"))
    paths = [path for path in sorted(logs) if path.is_file() and not path.name.startswith("attest")]
    seen = 0
    for path in paths:
        try:
            found = turnlog.load(path, forensic=True)
        except LogRefused:
            continue  # not even a header
        seen += 1
        assert captured(found).lacks
        for one in structure(found).turns:
            assert min(one.timing.total_ms, one.timing.tool_ms, one.timing.waiting_ms) >= 0
            assert one.end
            assert all(call.turn == one.turn for step in one.steps for call in step.calls)
        for shown in found.message_events(as_stored=True)[-20:]:
            assert trace(found, f"@{shown.seq}").event.seq == shown.seq
    assert seen > 80
