"""Calls: the whole life of a call, also where its id says too little."""

from __future__ import annotations

import pytest

from tests.log import sessions
from tests.views.logs import (
    SAMPLE,
    TOOLS,
    arguments,
    asks,
    call,
    case,
    chunk,
    end,
    event,
    finish,
    message,
    real,
    result,
    retry,
    session,
    step,
    step_end,
    text,
    turn,
)
from turnlog import load
from turnlog.events import ToolCallDelta
from turnlog.views import AddressAmbiguous, AddressUnknown, Call, calls, queries
from turnlog.views.address import CallAddress
from turnlog.views.calls import one_call


def streamed(one: Call) -> str:
    return "".join(timed.chunk.arguments_delta for timed in one.chunks if isinstance(timed.chunk, ToolCallDelta))


@pytest.mark.parametrize("version", [0, 3, 4])
def test_every_format_tells_the_same_life_of_a_call(version: int) -> None:
    log = real(version, TOOLS[version])
    (one,) = calls(log)
    assert (one.turn, one.step, one.occurrence, one.name) == (1, 1, 1, "bash")
    assert one.asked is not None
    assert one.started is not None
    assert one.result is not None
    assert one.asked.seq < one.started.seq < one.result.seq
    assert streamed(one) == one.arguments == '{"description": "List files", "command": "ls -la && echo done"}'
    assert one.duration_ms == one.result.time - one.started.time
    assert queries.call(log, one.id) == (one,)
    assert one_call(log, CallAddress(one.id, 1, 1)) == one


def test_the_samples_result_belongs_to_the_call_that_it_cites() -> None:
    (one,) = queries.call(load(SAMPLE), "call_1")
    assert (one.address, one.state, one.text) == ("t1.s1.call:call_1", "done", "runoob")
    assert streamed(one) == one.arguments  # its chunks have no ids


def test_jobs_and_other_events_that_name_a_call_belong_to_its_life() -> None:
    (one,) = calls(real(4, TOOLS[4]))
    assert [other.type for other in one.others] == ["job/registered", "job/settled"]
    assert one.state == "failed"


def test_an_id_that_is_used_again_is_paired_within_its_step() -> None:
    """BC-041: maps keyed by id lost results."""
    found = queries.call(case("BC-041/session.jsonl"), "call_0")
    assert [(one.address, one.text) for one in found] == [
        ("t1.s1.call:call_0", "date output"),
        ("t2.s1.call:call_0", "uptime output"),
        ("t3.s1.call:call_0", "whoami output"),
    ]
    assert [streamed(one) for one in found] == [one.arguments for one in found]


def test_an_id_that_is_twice_in_one_step_is_paired_in_order() -> None:
    """BC-041: nothing is lost because a map was keyed by id."""
    log = case("BC-041/twice-in-one-step.jsonl")
    found = queries.call(log, "call_0")
    assert [(one.occurrence, one.arguments, one.text) for one in found] == [
        (1, '{"command":"a"}', "a output"),
        (2, '{"command":"b"}', "b output"),
    ]
    with pytest.raises(AddressAmbiguous, match=r"\(@5\), .* \(@7\); name the event instead"):
        one_call(log, CallAddress("call_0"))


def test_the_streams_of_two_blocks_with_one_id_are_told_apart_by_their_index() -> None:
    found = calls(session(
        turn(), step(),
        chunk(text("so")), chunk(arguments("A", "c", 1)), chunk(arguments("B", "c", 2)), chunk(arguments("A", "c", 1)),
        chunk(finish("tool-calls")), message(asks("c", "AA"), asks("c", "B"), sources=[2, 3, 4, 5, 6]),
        call("c", "AA"), call("c", "B"), result("c", "a"), result("c", "b"), step_end(), end(),
    ))  # fmt: skip
    assert [(streamed(one), one.text) for one in found] == [("AA", "a"), ("B", "b")]


def test_deltas_of_a_request_that_failed_belong_to_no_call_of_the_one_that_answered() -> None:
    (one,) = calls(session(
        turn(), step(), chunk(arguments('{"a')), chunk(finish("error", "SERVER")), retry(code="SERVER"),
        chunk(arguments('{"b')), chunk(arguments('":1}')), chunk(finish("tool-calls")), message(asks("c", '{"b":1}')),
        step_end(), end(),
    ))  # fmt: skip
    assert streamed(one) == one.arguments == '{"b":1}'


def test_an_answer_that_takes_the_place_of_another_asks_for_nothing() -> None:
    """What a call's start was joined with was the rewrite and not the answer that had asked."""
    rewrite = {**message(asks("c"), id="b", sources=[2]), "surfaceOp": {"op": "replace", "start": 2, "end": 2}}
    (one,) = calls(session(turn(), step(), message(asks("c")), rewrite, call("c"), result("c"), step_end(), end()))
    assert (one.occurrence, one.asked and one.asked.seq, one.started and one.started.seq) == (1, 2, 4)


def test_deltas_that_came_before_their_id_belong_to_the_block_of_their_index() -> None:
    """Providers may send a call's id late."""
    (one,) = calls(session(turn(), step(), chunk(arguments("{", "")), chunk(arguments("}", "late")),
                           message(asks("late")), step_end(), end()))  # fmt: skip
    assert streamed(one) == "{}"


def test_the_stream_of_a_retried_attempt_is_not_the_calls() -> None:
    (one,) = calls(session(turn(), step(), chunk(arguments("old", "c")), chunk(finish("error", "SERVER")),
                           chunk(arguments("new", "c")), chunk(finish()), message(asks("c"), sources=[4, 5]), call("c"),
                           result("c"), step_end(), end()))  # fmt: skip
    assert streamed(one) == "new"


def test_questions_and_answers_belong_to_the_call_they_name() -> None:
    asked, answered = {"id": "q", "toolName": "bash", "callId": "c"}, {"id": "q", "outcome": "allowed-once"}
    (one,) = calls(session(turn(), step(), message(asks("c")), call("c"), event("approval/asked", asked),
                           event("approval/decided", answered), result("c"), step_end(), end()))  # fmt: skip
    assert [(approval.seq, approval.type) for approval in one.approvals] == [
        (4, "approval/asked"),
        (5, "approval/decided"),
    ]


def test_two_questions_with_one_id_are_both_shown_each_with_its_call() -> None:
    """BC-068: answers went to the wrong tool."""
    found = calls(case("BC-068/two-asks-one-id.jsonl"))
    assert [(one.id, [approval.seq for approval in one.approvals]) for one in found] == [
        ("call_a", [5]),
        ("call_b", [7]),
    ]


def test_a_question_about_a_reused_id_belongs_to_the_call_that_had_begun() -> None:
    asked = {"id": "q2", "toolName": "bash", "callId": "c"}
    found = calls(session(turn(), step(), message(asks("c")), call("c"), result("c"), step_end(), step(2),
                          message(asks("c"), step=2), call("c", step=2), event("approval/asked", asked),
                          result("c", step=2), step_end(2), end()))  # fmt: skip
    assert [[approval.seq for approval in one.approvals] for one in found] == [[], [9]]


def test_a_pruned_result_is_no_second_call_and_both_are_in_its_life() -> None:
    log = session(turn(), step(), message(asks("c")), call("c"), result("c", "long", sourceEventSeqs=[3]),
                  result("c", "cut", surfaceOp={"op": "replace", "start": 4, "end": 4}, sourceEventSeqs=[4]),
                  step_end(), end())  # fmt: skip
    (one,) = calls(log)
    assert (one.text, one.replaced_by, one.cited_by) == ("long", (5,), ())


def test_later_events_that_cite_a_result_are_in_its_life() -> None:
    notice = event("user/message", {"content": [], "source": {"kind": "user"}, "role": "user", "id": "n"},
                   surfaceOp="append", sourceEventSeqs=[4])  # fmt: skip
    (one,) = calls(session(turn(), step(), message(asks("c")), call("c"), result("c"), notice, step_end(), end()))
    assert one.cited_by == (5,)


def test_a_call_without_a_result_whose_writer_died_is_interrupted_with_a_synthetic_result() -> None:
    log = case("BC-065/open-turn-old.jsonl")
    (one,) = calls(log)
    assert (one.state, one.synthetic, one.duration_ms) == ("interrupted", True, None)
    (stored,) = calls(log, as_stored=True)
    assert (stored.state, stored.result) == ("interrupted", None)


def test_a_call_of_a_living_session_is_asked_then_running_then_done() -> None:
    log = sessions.in_step()
    log.append(sessions.asks("c"))
    assert [one.state for one in calls(log)] == ["asked"]
    log.append(sessions.call("c"))
    assert [one.state for one in calls(log)] == ["running"]
    log.append(sessions.result("c"))
    assert [one.state for one in calls(log)] == ["done"]


def test_results_and_calls_that_nobody_asked_for_are_calls_too() -> None:
    found = calls(session(turn(), step(), call("x"), result("y"), step_end(), end()))
    assert [(one.id, one.asked, one.started is not None, one.text) for one in found] == [
        ("x", None, True, ""),
        ("y", None, False, "done"),
    ]


def test_an_id_with_quotes_or_escapes_is_found() -> None:
    for id in ('a"b', "ü", "a\\b", "call/1 x"):
        (one,) = queries.call(session(turn(), step(), message(asks(id)), call(id), result(id), step_end(), end()), id)
        assert one.result is not None


def test_an_unknown_call_is_an_error_that_names_the_calls_there_are() -> None:
    with pytest.raises(AddressUnknown, match="the calls are call:call_1"):
        queries.call(load(SAMPLE), "nope")
    with pytest.raises(AddressUnknown, match=r"there is t1\.s1\.call:call_0, t2\.s1\.call:call_0"):
        queries.call(case("BC-041/session.jsonl"), CallAddress("call_0", 9, 1))
    with pytest.raises(AddressUnknown, match="it has no calls"):
        queries.call(session(turn(), end()), "nope")


def test_chunk_rows_that_have_nothing_to_do_with_the_call_stay_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnlog.log.rows import PackedRun, RunData

    log = real(0, TOOLS[0])
    unpacked: list[str] = []
    unpack = PackedRun.unpack

    def counted(run: PackedRun) -> RunData:
        unpacked.append(run.type)
        return unpack(run)

    monkeypatch.setattr(PackedRun, "unpack", counted)
    queries.turn(log, 1)
    assert unpacked == []
    assert len(calls(log)) == 1
    assert set(unpacked) == {"tool-call-chunks"}
