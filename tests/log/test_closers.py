"""Closers: what a log owes whose writer died (dsh-v0 §2.11, edge cases 49-55, differences 15 and 21)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.log.sessions import (
    SOURCE,
    answer,
    asks,
    call,
    chunk,
    close_step,
    close_turn,
    empty,
    in_step,
    in_turn,
    lines,
    result,
    stored,
    talk,
    user,
)
from turnlog.events import (
    AssistantMessage,
    Block,
    BlockEnd,
    BlockStart,
    Failure,
    Finish,
    FinishAborted,
    FinishError,
    FinishStop,
    FinishToolCalls,
    Interrupted,
    LlmRetry,
    ReasoningBlock,
    ReasoningDelta,
    StepEnd,
    StepStart,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCall,
    ToolCallBlock,
    ToolCallDelta,
    ToolError,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
    TurnStart,
    UsageChunk,
    Vocabulary,
)
from turnlog.log import AnyEvent, Closer, Session
from turnlog.log.closers import closers
from turnlog.log.event import event_class

END_STEP = Closer(StepEnd(turn=1, step=1))
END_TURN = Closer(TurnEnd(turn=1, reason=Interrupted()))
FAILURE = Failure("it broke", "TRANSPORT")


def kinds(session: Session) -> list[str]:
    return [closer.payload.event_type for closer in session.owed()]


def streaming(*chunks: StreamChunk) -> Session:
    """A session that stopped after these chunks, which begin at @3."""
    session = in_step()
    for one in chunks:
        session.append(chunk(one))
    return session


def shown(session: Session) -> tuple[Block, ...] | None:
    """The content of the interrupted answer that is owed, if one is."""
    first = session.owed()[0].payload
    return first.message.content if isinstance(first, AssistantMessage) else None


# -- turns and steps ---------------------------------------------------------------------------------------------------


def test_an_empty_log_owes_nothing() -> None:
    assert empty().owed() == []
    assert talk("a", "b").owed() == []


def test_a_closed_turn_owes_nothing() -> None:
    session = in_step()
    close_step(session)
    close_turn(session)
    session.append(user("next"))
    assert session.owed() == []


def test_an_open_turn_owes_its_end() -> None:
    assert in_turn().owed() == [END_TURN]
    session = in_step()
    close_step(session)
    assert session.owed() == [END_TURN]


def test_an_open_step_owes_its_end_and_the_turns() -> None:
    assert in_step().owed() == [END_STEP, END_TURN]


def test_only_the_last_turn_is_looked_at() -> None:
    session = in_step()
    session.append(asks("c1"))
    close_step(session)
    close_turn(session)
    session.append(TurnStart(turn=2))
    assert session.owed() == [Closer(TurnEnd(turn=2, reason=Interrupted()))]


# -- calls -------------------------------------------------------------------------------------------------------------


def test_a_call_that_ran_has_an_unknown_outcome_and_cites_the_call() -> None:
    session = in_step()
    session.append(asks("c1"))
    started = session.append(call("c1"))
    owed = session.owed()
    assert owed[1:] == [END_STEP, END_TURN]
    assert owed[0].sources == (started.seq,)
    payload = owed[0].payload
    assert isinstance(payload, ToolResult)
    assert (payload.turn, payload.step, payload.call_id) == (1, 1, "c1")
    assert payload.error == ToolError("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN")
    assert payload.message.id == "interrupted-tool-result-c1-5"
    block = payload.message.content[0]
    assert isinstance(block, ToolResultBlock)
    assert (block.tool_call_id, block.is_error, len(block.content)) == ("c1", True, 1)
    assert "outcome is unknown" in payload.message.text


def test_a_call_that_never_started_is_logged_and_answered_as_not_run() -> None:
    session = in_step()
    session.append(asks("c1"))
    owed = session.owed()
    assert owed[0] == Closer(ToolCall(turn=1, step=1, call_id="c1", name="read", arguments="{}"))
    assert owed[1].sources == (4,)
    assert owed[2:] == [END_STEP, END_TURN]
    payload = owed[1].payload
    assert isinstance(payload, ToolResult)
    assert payload.error == ToolError("AbortError", "ABORTED_BEFORE_DISPATCH")
    assert payload.message.id == "interrupted-tool-result-c1-5"
    assert "can be asked for again" in payload.message.text


def test_of_several_calls_only_the_unanswered_are_closed_in_the_order_they_were_asked_for() -> None:
    session = in_step()
    session.append(asks("c1", "c2", "c3", "c4"))
    session.append(call("c1"))
    third = session.append(call("c3"))
    session.append(result("c1"))
    owed = session.owed()
    assert [closer.payload.event_type for closer in owed] == [
        "tool/call", "tool/result", "tool/result", "tool/call", "tool/result", "step/end", "turn/end",
    ]  # fmt: skip
    answered = [closer.payload.call_id for closer in owed if isinstance(closer.payload, ToolResult)]
    assert answered == ["c2", "c3", "c4"]
    assert [closer.sources for closer in owed] == [None, (7,), (third.seq,), None, (10,), None, None]


def test_calls_of_a_closed_step_are_left_alone() -> None:
    session = in_step()
    session.append(asks("c1"))
    session.append(call("c1"))
    close_step(session)
    assert session.owed() == [END_TURN]
    session.append(StepStart(turn=1, step=2))
    assert session.owed() == [Closer(StepEnd(turn=1, step=2)), END_TURN]


def test_a_call_that_no_message_asked_for_is_tolerated() -> None:
    session = in_step()
    session.append(call("c1"))
    assert session.owed() == [END_STEP, END_TURN]


def test_a_call_logged_before_the_message_that_asks_for_it_counts_as_started() -> None:
    session = in_step()
    started = session.append(call("c1"))
    session.append(asks("c1"))
    owed = session.owed()
    assert kinds(session) == ["tool/result", "step/end", "turn/end"]
    assert owed[0].sources == (started.seq,)
    assert session.fork().owed() == []


def test_a_call_answered_before_the_message_that_asks_for_its_id_again_is_another_call() -> None:
    session = in_step()
    session.append(call("c1"))
    session.append(result("c1"))
    session.append(asks("c1"))
    assert kinds(session) == ["tool/call", "tool/result", "step/end", "turn/end"]


def test_rewriting_an_old_result_answers_no_waiting_call_of_the_same_id() -> None:
    session = in_step()
    session.append(asks("c1"))
    session.append(call("c1"))
    old = session.append(result("c1", "long"))
    close_step(session)
    session.append(StepStart(turn=1, step=2))
    session.append(asks("c1", step=2))
    session.append(call("c1", step=2))
    session.append(result("c1", "short"), replaces=(old.seq, old.seq), sources=[old.seq])
    assert kinds(session) == ["tool/result", "step/end", "turn/end"]


def test_replacing_an_answer_asks_for_its_calls_no_second_time() -> None:
    session = in_step()
    asked = session.append(asks("c1"))
    session.append(call("c1"))
    session.append(result("c1"))
    session.append(asks("c1"), replaces=(asked.seq, asked.seq), sources=[asked.seq])
    assert session.owed() == [END_STEP, END_TURN]


# -- the answer that was being streamed --------------------------------------------------------------------------------


def test_the_text_shown_so_far_becomes_an_interrupted_answer_citing_its_chunks() -> None:
    session = streaming(BlockStart(0, "text"), TextDelta(0, "Hel"), TextDelta(0, "lo"))
    owed = session.owed()
    assert owed[1:] == [END_STEP, END_TURN]
    assert owed[0].sources == (3, 4, 5)
    payload = owed[0].payload
    assert isinstance(payload, AssistantMessage)
    assert (payload.turn, payload.step, payload.interrupted, payload.usage) == (1, 1, True, None)
    assert payload.message.id == "interrupted-assistant-6"
    assert payload.message.role == "assistant"
    assert payload.message.source == SOURCE
    assert payload.message.content == (TextBlock("Hello"),)


CONTENT: list[tuple[list[StreamChunk], tuple[Block, ...] | None]] = [
    ([], None),
    ([BlockStart(0, "text")], None),
    ([TextDelta(0, " \n")], None),
    ([TextDelta(0, "a"), TextDelta(0, " ")], (TextBlock("a "),)),
    ([ReasoningDelta(0, "so"), TextDelta(1, "a")], (ReasoningBlock("so"), TextBlock("a"))),
    ([ReasoningDelta(0, "so")], (ReasoningBlock("so"),)),
    ([TextDelta(0, "ab"), BlockEnd(0, TextBlock("AB"))], (TextBlock("AB"),)),
    ([TextDelta(0, "ab"), BlockEnd(0, TextBlock("AB")), TextDelta(0, "late")], (TextBlock("AB"),)),
    ([BlockEnd(0, TextBlock("A")), BlockEnd(0, TextBlock("B"))], (TextBlock("A"),)),
    (
        [BlockStart(0, "text"), BlockStart(1, "text"), TextDelta(1, "b"), TextDelta(0, "a")],
        (TextBlock("a"), TextBlock("b")),
    ),
    ([TextDelta(5, "a"), TextDelta(2, "b"), TextDelta(5, "A")], (TextBlock("aA"), TextBlock("b"))),
    ([TextDelta(0, "a"), ToolCallDelta(1, "c1", "{", "read")], (TextBlock("a"),)),
    ([TextDelta(0, "a"), BlockEnd(1, ToolCallBlock("c1", "read", "{}"))], (TextBlock("a"),)),
    ([ToolCallDelta(0, "c1", "{}", "read")], None),
    ([TextDelta(0, "a"), UsageChunk(TokenUsage(1, 2))], (TextBlock("a"),)),
    ([TextDelta(0, "a"), Finish(FinishStop())], (TextBlock("a"),)),
    ([TextDelta(0, "a"), Finish(FinishToolCalls())], (TextBlock("a"),)),
    ([TextDelta(0, "a"), Finish(FinishError(FAILURE))], None),
    ([TextDelta(0, "a"), Finish(FinishAborted(FAILURE))], None),
    ([TextDelta(0, "a"), Finish(FinishError(FAILURE)), TextDelta(0, "b")], (TextBlock("b"),)),
]


@pytest.mark.parametrize(("chunks", "content"), CONTENT)
def test_what_was_visible_is_kept_and_nothing_else(
    chunks: list[StreamChunk], content: tuple[Block, ...] | None
) -> None:
    session = streaming(*chunks)
    assert shown(session) == content
    assert kinds(session)[-2:] == ["step/end", "turn/end"]
    assert len(session.owed()) == (2 if content is None else 3)


def test_only_the_last_attempt_is_cited() -> None:
    session = streaming(TextDelta(0, "first"), Finish(FinishError(FAILURE)))
    session.append(LlmRetry(value={"retry": 1}))
    second = session.append(chunk(TextDelta(0, "second")))
    assert shown(session) == (TextBlock("second"),)
    assert session.owed()[0].sources == (second.seq,)


def test_between_two_attempts_there_is_nothing_to_keep() -> None:
    session = streaming(TextDelta(0, "first"), Finish(FinishError(FAILURE)))
    session.append(LlmRetry(value={"retry": 1}))
    assert shown(session) is None


def test_an_attempt_with_its_message_is_not_told_twice() -> None:
    session = streaming(TextDelta(0, "a"), Finish(FinishStop()))
    session.append(answer(TextBlock("a")), sources=[3, 4])
    assert session.owed() == [END_STEP, END_TURN]


def test_chunks_of_a_closed_step_are_left_alone() -> None:
    session = streaming(TextDelta(0, "a"))
    close_step(session)
    assert session.owed() == [END_TURN]


def test_without_a_known_route_nothing_is_said_in_a_models_name() -> None:
    session = in_turn()
    session.append(StepStart(turn=1, step=1))
    session.append(chunk(TextDelta(0, "a")))
    assert session.owed() == [END_STEP, END_TURN]


def test_the_interrupted_answer_comes_before_the_results_of_calls() -> None:
    session = in_step()
    session.append(asks("c1"))
    session.append(call("c1"))
    session.append(chunk(TextDelta(0, "more")))
    assert kinds(session) == ["assistant/message", "tool/result", "step/end", "turn/end"]
    assert [closer.sources for closer in session.owed()] == [(5,), (4,), None, None]


def foreign_chunk(seq: int, text: str) -> AnyEvent:
    """A text delta as another program stored it."""
    data = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": text}}
    kind: Any = event_class(Vocabulary.core.codec)
    return kind("assistant/chunk", seq, 0, json.dumps(data).encode())  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("deltas", "text"),
    [
        (["a\ud83d", "\ude00b"], "a😀b"),
        (["a\ud83d"], "a\ufffd"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["\ude00"], "\ufffd"),
        (["é", "\u2028"], "é\u2028"),
    ],
    ids=ascii,
)
def test_a_character_cut_between_two_deltas_is_whole_in_the_interrupted_answer(deltas: list[str], text: str) -> None:
    session = in_step()
    events = [*session.events, *(foreign_chunk(seq, delta) for seq, delta in enumerate(deltas, 3))]
    payload = closers(events, len(events), lambda: SOURCE)[0].payload
    assert isinstance(payload, AssistantMessage)
    assert payload.message.content == (TextBlock(text),)
    assert session.append(payload).data == payload


# -- the closed view of a stored log -----------------------------------------------------------------------------------


def interrupted() -> Session:
    session = streaming(TextDelta(0, "Hel"))
    session.append(asks("c1"))
    session.append(chunk(TextDelta(0, "lo")))
    return session


def test_a_stored_log_whose_writer_is_gone_shows_closers_and_does_not_hold_them() -> None:
    live = interrupted()
    gone = stored(live, closes=True)
    assert [event.type for event in gone.closers] == [
        "assistant/message", "tool/call", "tool/result", "step/end", "turn/end",
    ]  # fmt: skip
    assert [event.seq for event in gone.closers] == [6, 7, 8, 9, 10]
    assert {event.time for event in gone.closers} == {live.events[-1].time}
    assert [event.surface_op == "append" for event in gone.closers] == [True, False, True, False, False]
    assert len(gone) == len(live) == 6
    assert lines(gone) == lines(live)
    texts = [message.text for message in gone.derive_messages()]
    assert texts[:2] == ["", "lo"]
    assert len(texts) == 3
    assert len(gone.derive_messages(as_stored=True)) == 1
    assert len(gone.derive_messages(6)) == 1
    assert [event.seq for event in gone.message_events()] == [4, 6, 8]
    assert [event.seq for event in gone.message_events(as_stored=True)] == [4]


def test_a_live_log_has_no_closers() -> None:
    assert interrupted().closers == ()
    assert stored(interrupted(), closes=False).closers == ()
    assert len(stored(interrupted()).derive_messages()) == 1


def test_closers_are_the_same_bytes_every_time_and_what_a_fork_writes() -> None:
    live = interrupted()
    one, two = stored(live, closes=True), stored(live, closes=True)
    assert [event.line() for event in one.closers] == [event.line() for event in two.closers]
    assert one.closers is one.closers
    forked: list[Any] = [json.loads(line) for line in lines(live.fork())[7:]]
    closed: list[Any] = [json.loads(event.line()) for event in one.closers]
    assert [line["type"] for line in forked] == [line["type"] for line in closed]
    assert [line["time"] for line in forked] == [line["time"] for line in closed]
