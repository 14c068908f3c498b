"""Reported faults of the history: compactions, repeated ids, orphans. All of it opens; ``verify`` says what is odd."""

from __future__ import annotations

import pytest

from tests.cases.inputs import case
from tests.store.reading import codes, opened, refusal, texts
from turnlog.events import ReasoningBlock, StepEnd, ToolCallBlock, TurnEnd
from turnlog.log import Replace
from turnlog.store import load, verify
from turnlog.views import calls, outline

# -- BC-034, BC-037: compactions --------------------------------------------------------------------------------


def test_bc_034_a_cut_between_a_call_and_its_result_opens_and_is_flagged() -> None:
    path = case(34, "cut-inside-pair.jsonl")
    assert len(opened(path)) == 28
    (finding,) = verify(path).findings
    assert (finding.code, finding.severity, finding.seq) == ("history", "fault", 7)
    assert "'call_y'" in finding.text


def test_bc_034_a_cut_between_steps_is_fine() -> None:
    path = case(34, "cut-on-boundary.jsonl")
    messages = opened(path).derive_messages()
    assert texts(messages)[1:] == ["Both up.", "Next", "Ok."]
    assert messages[0].role == "user"
    assert verify(path).findings == ()
    assert verify(case(34, "before.jsonl")).findings == ()


def test_bc_034_a_replace_must_cite_every_node_it_replaces() -> None:
    finding = refusal(case(34, "sources-miss-a-node.jsonl"))
    assert (finding.code, finding.seq, finding.place.line) == ("sources-shadowed", 15, 17)
    assert "@7" in finding.text


def test_bc_037_a_compaction_opens_with_and_without_its_bookkeeping_event() -> None:
    for name, events in (("after-compaction.jsonl", 16), ("old-log-without-price.jsonl", 13)):
        path = case(37, name)
        session = opened(path)
        assert len(session) == events
        assert session.generation == 1
        assert len(session.derive_messages()) == 1
        before = session.message_events()[0].seq
        assert len(session.derive_messages(at=before)) == 2
        assert verify(path).findings == ()


# -- BC-040, BC-041, BC-062: what is passed back, and ids -------------------------------------------------------


def test_bc_040_reasoning_is_kept_on_every_message_that_had_it() -> None:
    session = opened(case(40))
    assert len(session) == 14
    assert codes(verify(case(40)).findings) == ["open-turn"]
    first, second = [message for message in session.derive_messages() if message.role == "assistant"]
    reasons = [[block.text for block in one.content if isinstance(block, ReasoningBlock)] for one in (first, second)]
    assert reasons == [["I need to read it."], ["It says hello."]]
    assert [block.id for block in first.content if isinstance(block, ToolCallBlock)] == ["call_r"]
    assert session.derive_messages()[-1].text == "And now?"


def test_bc_041_one_id_in_three_turns_pairs_by_step() -> None:
    session = opened(case(41))
    assert len(session) == 60
    found = calls(session)
    assert [(one.turn, one.step, one.text) for one in found] == [
        (1, 1, "date output"),
        (2, 1, "uptime output"),
        (3, 1, "whoami output"),
    ]
    assert verify(case(41)).findings == ()


def test_bc_041_one_id_twice_in_a_step_loses_nothing_and_is_flagged() -> None:
    path = case(41, "twice-in-one-step.jsonl")
    session = opened(path)
    assert [one.text for one in calls(session)] == ["a output", "b output"]
    assert [one.seqs for one in calls(session)] == [(4, 5), (6, 7)]
    assert texts(session.derive_messages())[-2:] == ["a output", "b output"]
    (finding,) = verify(path).findings
    assert (finding.code, finding.seq) == ("shape", 3)
    assert "'call_0' is used by 2 blocks" in finding.text


def test_bc_062_messages_with_one_id_are_all_there_in_order() -> None:
    path = case(62)
    session = opened(path)
    assert texts(session.derive_messages()) == ["One", "First.", "Two", "Second."]
    assert [event.seq for event in session.message_events()] == [2, 8, 13, 19]
    notes = verify(path).findings
    assert [(one.code, one.severity, one.seq) for one in notes] == [
        ("repeated-message-id", "note", seq) for seq in (8, 13, 19)
    ]


def test_bc_062_a_record_repeated_on_the_next_line_is_a_duplicate_seq() -> None:
    lines = case(62).read_bytes().split(b"\n")
    finding = refusal(b"\n".join([*lines[:5], lines[4], *lines[5:]]))
    assert (finding.code, finding.seq, finding.place.line) == ("seq-duplicate", 3, 6)


# -- BC-058, BC-065, BC-068: what stands at the wrong place -----------------------------------------------------


def test_bc_058_a_message_between_a_call_and_its_result_opens_and_is_flagged() -> None:
    path = case(58, "user-between-call-and-result.jsonl")
    assert len(opened(path).derive_messages()) == 6
    (finding,) = verify(path).findings
    assert (finding.code, finding.severity, finding.seq) == ("history", "fault", 5)
    assert "'call_1', 'call_2'" in finding.text


def test_bc_065_an_old_open_turn_is_interrupted_and_ends_with_its_last_event() -> None:
    path = case(65, "open-turn-old.jsonl")
    before = path.stat().st_mtime_ns
    session = opened(path)
    assert codes(verify(path).findings) == ["open-turn"]
    kinds = [event.type for event in session.closers]
    assert kinds == ["tool/result", "step/end", "turn/end"]
    assert {event.time for event in session.closers} == {session.event(16).time}
    end = session.closers[-1].data
    assert isinstance(end, TurnEnd)
    assert type(end.reason).__name__ == "Interrupted"
    assert path.stat().st_mtime_ns == before


def test_bc_065_ends_without_starts_open_and_each_is_listed() -> None:
    path = case(65, "end-without-start.jsonl")
    session = opened(path)
    assert len(session) == 3
    assert [(one.code, one.seq) for one in verify(path).findings] == [("grammar", 0), ("grammar", 1), ("grammar", 2)]
    assert [type(event.data) for event in session.events][1:] == [StepEnd, TurnEnd]
    assert outline(session).items


def test_bc_068_two_questions_with_one_id_are_both_there_and_flagged() -> None:
    path = case(68, "two-asks-one-id.jsonl")
    session = opened(path)
    assert [event.seq for event in session.events if event.type == "approval/asked"] == [5, 7]
    finding = next(one for one in verify(path).findings if one.code == "repeated-approval-id")
    assert (finding.severity, finding.seq) == ("fault", 7)
    assert "'ask-same' @7 is also that of @5" in finding.text


@pytest.mark.parametrize("name", ["cut-inside-pair.jsonl", "cut-on-boundary.jsonl"])
def test_what_was_replaced_is_still_there_at_an_earlier_length(name: str) -> None:
    session = load(case(34, name))
    (replacing,) = [event for event in session.events if isinstance(event.surface_op, Replace)]
    assert len(session.derive_messages(at=replacing.seq)) == 5
    assert len(session.derive_messages(at=replacing.seq + 1)) < 5
