"""Filters over events: tool, text, errors, place on the surface (dsh-v0 §8)."""

from __future__ import annotations

import pytest

from tests.views.logs import (
    arguments,
    asks,
    call,
    case,
    chunk,
    end,
    event,
    finish,
    message,
    result,
    retry,
    session,
    step,
    step_end,
    text,
    turn,
    user,
)
from turnlog.store import StoredSession
from turnlog.views.filters import EventFilter, event_text, surface_class


def wanted(log: StoredSession, **conditions: object) -> list[int]:
    keeps = EventFilter(log, **conditions)  # type: ignore[arg-type]
    return [one.seq for one in log.events if keeps(one)]


def test_everything_about_calls_of_a_tool_is_found_its_argument_stream_and_questions_included() -> None:
    asked = event("approval/asked", {"id": "q", "callId": "c", "toolName": "bash"})
    answered = event("approval/decided", {"id": "q", "outcome": "approve"})
    log = session(turn(), step(), chunk(arguments("{}", "c")), message(asks("c"), sources=[2]), call("c"), asked,
                  answered, result("c"), step_end(), end())  # fmt: skip
    assert wanted(log, tools=["ba*"]) == [2, 3, 4, 5, 6, 7]
    assert wanted(log, tools=["read"]) == []
    assert wanted(log, tools=["read", "bash"], surfaces=["current"]) == [3, 7]


def test_text_is_found_in_any_case_and_across_any_white_space() -> None:
    stopped = end(reason={"kind": "aborted", "reason": {"kind": "user"}})
    log = session(turn(), user("Fix  the\nTYPO in İstanbul 你好"), step(), message(), call("c", '{"path": "x.md"}'),
                  result("c", "no  such file", is_error=True), step_end(), stopped)  # fmt: skip
    assert wanted(log, text=" the typo ") == [1]
    assert wanted(log, text="好") == [1]
    assert wanted(log, text="X.MD") == [4]
    assert wanted(log, text="such file") == [5]
    assert wanted(log, text="aborted") == [7]
    assert wanted(log, text="nothing of the kind") == []
    with pytest.raises(ValueError, match="nothing to look for"):
        wanted(log, text=" \n ")


def test_reasoning_chunks_and_bookkeeping_are_not_searched() -> None:
    thought = {"type": "reasoning", "text": "secret plan"}
    log = session(turn(), step(), chunk(text("secret")), message(thought), event("session/title", {"title": "secret"}),
                  step_end(), end())  # fmt: skip
    assert wanted(log, text="secret") == []
    assert [event_text(one) for one in log.events][-1] == ""


def test_failures_are_results_requests_and_turns() -> None:
    failed = {"kind": "error", "error": {"message": "no", "code": "SERVER"}}
    log = session(turn(), step(), chunk(finish("error", "SERVER")), retry(), chunk(finish()), message(asks("c")),
                  call("c"), result("c", is_error=True), step_end(), end(reason=failed))  # fmt: skip
    assert wanted(log, errors=True) == [2, 3, 7, 9]


def test_every_event_is_current_shadowed_or_log_only() -> None:
    log = case("BC-037/after-compaction.jsonl")
    classes = {one.seq: surface_class(log, one) for one in log.events}
    assert [seq for seq, kind in classes.items() if kind == "current"] == list(log.surface)
    before = log.surface_at(log.surface[0])
    assert [seq for seq, kind in classes.items() if kind == "shadowed"] == list(before)
    assert wanted(log, surfaces=["shadowed", "current"]) == sorted([*before, *log.surface])
    assert len(wanted(log, surfaces=["log-only"])) == len(log) - len(before) - 1
    assert wanted(log, surfaces=[]) == []  # an empty list of values matches nothing
