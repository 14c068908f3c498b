"""Transcript and timeline: two more projections of the same log."""

from __future__ import annotations

from tests.log import sessions
from tests.views.logs import (
    SAMPLE,
    TOOLS,
    asks,
    call,
    end,
    event,
    message,
    real,
    result,
    retry,
    session,
    step,
    step_end,
    turn,
    user,
)
from turnlog import load
from turnlog.events import TextBlock
from turnlog.views import TIMELINE, TRANSCRIPT


def test_a_transcript_is_what_was_said_called_and_answered() -> None:
    said = load(SAMPLE).project(TRANSCRIPT)
    assert [(one.seq, one.who, one.text, one.call_id) for one in said] == [
        (2, "user", "Fix the typo in the runoob README.", ""),
        (5, "assistant", "I'll search", ""),
        (6, "assistant", '{"command":"grep runoob README.md"}', "call_1"),
        (7, "tool", "runoob", "call_1"),
    ]


def test_context_that_a_program_added_is_told_apart_from_what_people_said() -> None:
    said = real(4, TOOLS[4]).project(TRANSCRIPT)
    assert [one.who for one in said] == ["user", "context", "assistant", "assistant", "tool", "assistant"]
    assert [one.who for one in said if one.error] == ["tool"]


def test_failures_retries_approvals_and_ends_are_in_the_transcript() -> None:
    reason = {"kind": "error", "error": {"message": "no", "code": "QUOTA"}}
    asked = event("approval/asked", {"id": "q", "toolName": "bash"})
    answered = event("approval/decided", {"id": "q", "outcome": "rejected"})
    log = session(turn(), step(), retry(), asked, answered, step_end(), end(reason=reason))
    assert [one.text for one in log.project(TRANSCRIPT)] == [
        "retry 1 in 500 ms: RATE_LIMIT",
        "asked to allow bash",
        "answer: rejected",
        "error: QUOTA: no",
    ]


def test_a_transcript_keeps_what_the_model_no_longer_sees() -> None:
    replaced = result("c", "cut", surfaceOp={"op": "replace", "start": 5, "end": 5}, sourceEventSeqs=[5])
    log = session(
        turn(), step(), user(), message(asks("c")), call("c"), result("c", "long"), replaced, step_end(), end()
    )
    assert [one.text for one in log.project(TRANSCRIPT) if one.who == "tool"] == ["long", "cut"]


def test_a_timeline_has_every_event_but_chunks_with_its_place() -> None:
    marks = load(SAMPLE).project(TIMELINE)
    assert [mark.seq for mark in marks] == [0, 1, 2, 5, 6, 7, 8, 9]
    assert (marks[4].turn, marks[4].step, marks[4].call_id) == (1, 1, "call_1")


def test_both_grow_with_a_living_session_and_cost_only_what_is_new() -> None:
    log = sessions.in_step()
    before = log.project(TIMELINE)
    log.append(sessions.answer(TextBlock("hello")))
    assert len(log.project(TIMELINE)) == len(before) + 1
    assert [one.text for one in log.project(TRANSCRIPT)] == ["hello"]
    assert len(log.project(TIMELINE, at=1)) == 1
