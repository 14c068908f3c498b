"""How turns, steps and calls nest (dsh-v0 §3.2): checked at append, in words that say where the log stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.log.sessions import (
    HEADER,
    WITH_PLUGINS,
    Weather,
    answer,
    asks,
    call,
    chunk,
    close_step,
    close_turn,
    empty,
    in_step,
    in_turn,
    result,
    standing,
    user,
)
from turnlog.events import (
    Blocked,
    CancelledByUser,
    Completed,
    Errored,
    Failure,
    Interrupted,
    MaxTokens,
    PlanMode,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    TextBlock,
    TextDelta,
    TodoWrite,
    ToolError,
    TurnEnd,
    TurnStart,
)
from turnlog.events.reasons import Aborted
from turnlog.log import Grammar, GrammarError, Session

NOT_STARTED = ToolError("ToolNotStartedError", "TOOL_NOT_STARTED")


def after_step() -> Session:
    session = in_step()
    close_step(session)
    return session


def after_turn() -> Session:
    session = after_step()
    close_turn(session)
    return session


def waiting() -> Session:
    session = in_step()
    session.append(call("c1"))
    return session


def done(turn: int = 1) -> TurnEnd:
    return TurnEnd(turn=turn, reason=Completed())


REFUSED: list[tuple[Callable[[], Session], Any, str]] = [
    (empty, TurnStart(turn=0), "turn 0 cannot start: the next turn is 1"),
    (empty, TurnStart(turn=2), "turn 2 cannot start: the next turn is 1"),
    (in_turn, TurnStart(turn=2), "turn 2 cannot start: turn 1 is open without a step; end it first"),
    (in_step, TurnStart(turn=2), "turn 2 cannot start: turn 1 step 1 is open; end it first"),
    (after_turn, TurnStart(turn=1), "turn 1 cannot start: the next turn is 2"),
    (after_turn, TurnStart(turn=3), "turn 3 cannot start: the next turn is 2"),
    (empty, done(1), "turn 1 cannot end: no turn is open"),
    (empty, done(0), "turn 0 cannot end: no turn is open"),
    (in_turn, done(2), "turn 2 cannot end: turn 1 is open without a step"),
    (in_step, done(1), "turn 1 cannot end: step 1 is open; end it first"),
    (after_turn, done(1), "turn 1 cannot end: no turn is open"),
    (empty, StepStart(turn=1, step=1), "step 1 of turn 1 cannot start: no turn is open"),
    (empty, StepStart(turn=0, step=1), "step 1 of turn 0 cannot start: no turn is open"),
    (in_turn, StepStart(turn=2, step=1), "step 1 of turn 2 cannot start: turn 1 is open without a step"),
    (in_turn, StepStart(turn=1, step=0), "step 0 cannot start: the next step is 1"),
    (in_turn, StepStart(turn=1, step=2), "step 2 cannot start: the next step is 1"),
    (in_step, StepStart(turn=1, step=2), "step 2 cannot start: step 1 is open; end it first"),
    (after_step, StepStart(turn=1, step=1), "step 1 cannot start: the next step is 2"),
    (in_turn, StepEnd(turn=1, step=1), "step 1 of turn 1 cannot end: turn 1 is open without a step"),
    (in_turn, StepEnd(turn=1, step=0), "step 0 of turn 1 cannot end: turn 1 is open without a step"),
    (in_step, StepEnd(turn=1, step=2), "step 2 of turn 1 cannot end: turn 1 step 1 is open"),
    (in_step, StepEnd(turn=2, step=1), "step 1 of turn 2 cannot end: turn 1 step 1 is open"),
    (after_step, StepEnd(turn=1, step=1), "step 1 of turn 1 cannot end: turn 1 is open without a step"),
    (in_turn, chunk(TextDelta(0, "x")), "belongs to turn 1 step 1, but turn 1 is open without a step"),
    (in_turn, chunk(TextDelta(0, "x"), step=0), "belongs to turn 1 step 0, but turn 1 is open without a step"),
    (empty, chunk(TextDelta(0, "x")), "belongs to turn 1 step 1, but no turn is open"),
    (in_step, chunk(TextDelta(0, "x"), step=2), "belongs to turn 1 step 2, but turn 1 step 1 is open"),
    (in_step, chunk(TextDelta(0, "x"), turn=2), "belongs to turn 2 step 1, but turn 1 step 1 is open"),
    (empty, answer(), "belongs to turn 1 step 1, but no turn is open"),
    (in_step, answer(step=2), "belongs to turn 1 step 2, but turn 1 step 1 is open"),
    (after_step, answer(), "belongs to turn 1 step 1, but turn 1 is open without a step"),
    (in_turn, call("c1"), "belongs to turn 1 step 1, but turn 1 is open without a step"),
    (in_step, call("c1", step=2), "belongs to turn 1 step 2, but turn 1 step 1 is open"),
    (waiting, call("c1"), "call id 'c1' already waits for a result in this step; make ids unique within a step"),
    (in_step, result("c1"), "no call 'c1' waits for a result in turn 1 step 1; log the tool/call first"),
    (waiting, result("c2"), "no call 'c2' waits for a result in turn 1 step 1; log the tool/call first"),
    (waiting, result("c1", step=2), "belongs to turn 1 step 2, but turn 1 step 1 is open"),
    (in_turn, result("c1"), "belongs to turn 1 step 1, but turn 1 is open without a step"),
    (in_step, result("c1", error=NOT_STARTED), "no call 'c1' waits for a result"),
    (in_step, result("c1", is_error=None, error=NOT_STARTED), "no call 'c1' waits for a result"),
    (in_step, result("c1", is_error=True), "no call 'c1' waits for a result"),
    (in_step, result("c1", is_error=True, error=ToolError("E", "ABORTED")), "no call 'c1' waits for a result"),
    (in_turn, result("c1", is_error=True, error=NOT_STARTED), "belongs to turn 1 step 1, but turn 1 is open"),
    (empty, TodoWrite(todos=()), "needs an open turn, but no turn is open"),
    (after_turn, TodoWrite(todos=()), "needs an open turn, but no turn is open"),
    (empty, RequestHeader(header=HEADER, reason="initial"), "needs an open turn, but no turn is open"),
    (after_turn, RequestContext(provider="p", model="m"), "needs an open turn, but no turn is open"),
]


@pytest.mark.parametrize(("start", "payload", "words"), REFUSED)
def test_what_does_not_nest_is_refused_saying_where_the_log_stands(
    start: Callable[[], Session], payload: Any, words: str
) -> None:
    session = start()
    before = standing(session)
    with pytest.raises(GrammarError) as caught:
        session.append(payload)
    assert str(caught.value).startswith(f"{payload.event_type} @{len(session)}: {words}")
    assert standing(session) == before


ACCEPTED: list[tuple[Callable[[], Session], Any]] = [
    (empty, TurnStart(turn=1)),
    (after_turn, TurnStart(turn=2)),
    (in_turn, done()),
    (after_step, done()),
    (in_turn, StepStart(turn=1, step=1)),
    (after_step, StepStart(turn=1, step=2)),
    (in_step, StepEnd(turn=1, step=1)),
    (waiting, StepEnd(turn=1, step=1)),
    (in_step, chunk(TextDelta(0, "x"))),
    (in_step, answer()),
    (in_step, call("c1")),
    (waiting, call("c2")),
    (waiting, result("c1")),
    (in_step, result("c1", is_error=True, error=NOT_STARTED)),
    (in_turn, TodoWrite(todos=())),
    (after_step, TodoWrite(todos=())),
    (in_turn, RequestHeader(header=HEADER, reason="initial")),
    (after_step, RequestContext(provider="p", model="m")),
    (empty, user()),
    (in_turn, user()),
    (after_turn, user()),
    (empty, PlanMode(value=1)),
    (after_turn, Weather(city="Ulm")),
]


@pytest.mark.parametrize(("start", "payload"), ACCEPTED)
def test_what_nests_is_accepted(start: Callable[[], Session], payload: Any) -> None:
    session = start()
    assert session.append(payload) is session.events[-1]


@pytest.mark.parametrize(
    "reason",
    [Completed(), Aborted(CancelledByUser()), Blocked(), Errored(Failure("m", "C")), MaxTokens(), Interrupted()],
    ids=lambda one: type(one).__name__,
)
def test_turns_count_on_however_they_end(reason: Any) -> None:
    session = in_turn()
    session.append(TurnEnd(turn=1, reason=reason))
    session.append(TurnStart(turn=2))
    with pytest.raises(GrammarError, match="the next step is 1"):
        session.append(StepStart(turn=2, step=2))
    session.append(StepStart(turn=2, step=1))


def test_steps_count_from_one_in_every_turn() -> None:
    session = after_step()
    session.append(StepStart(turn=1, step=2))
    close_step(session, step=2)
    close_turn(session)
    session.append(TurnStart(turn=2))
    session.append(StepStart(turn=2, step=1))


def test_a_call_id_may_come_again_once_it_is_answered() -> None:
    session = waiting()
    session.append(result("c1"))
    session.append(call("c1"))
    session.append(result("c1", id="r2"))
    with pytest.raises(GrammarError, match="no call 'c1' waits"):
        session.append(result("c1", id="r3"))


def test_a_step_may_end_with_calls_unanswered_and_a_later_step_cannot_answer_them() -> None:
    session = waiting()
    close_step(session)
    session.append(StepStart(turn=1, step=2))
    with pytest.raises(GrammarError, match="no call 'c1' waits for a result in turn 1 step 2"):
        session.append(result("c1", step=2))
    with pytest.raises(GrammarError, match="belongs to turn 1 step 1"):
        session.append(result("c1", step=1))
    session.append(call("c1", step=2))
    session.append(result("c1", step=2))


def test_a_call_needs_no_message_that_asks_for_it_and_a_message_needs_no_call() -> None:
    session = in_step()
    session.append(asks("c9"))
    session.append(call("c1"))
    close_step(session)


def test_calls_may_be_answered_in_any_order() -> None:
    session = in_step()
    for one in ("c1", "c2", "c3"):
        session.append(call(one))
    for one in ("c3", "c1", "c2"):
        session.append(result(one, id=one))


def test_a_result_for_a_call_that_never_started_frees_its_id() -> None:
    session = waiting()
    session.append(result("c1", is_error=True, error=NOT_STARTED))
    session.append(call("c1"))


def test_replacing_messages_of_people_needs_no_turn() -> None:
    session = empty()
    session.append(user("a"))
    session.append(user("b"), replaces=(0, 0), sources=[0])
    assert session.surface == (1,)


def test_a_replacing_answer_belongs_to_the_open_step() -> None:
    session = in_step()
    seq = session.append(answer(TextBlock("long"))).seq
    close_step(session)
    close_turn(session)
    with pytest.raises(GrammarError, match="belongs to turn 1 step 1, but no turn is open"):
        session.append(answer(TextBlock("short")), replaces=(seq, seq), sources=[seq])


def test_every_fault_of_a_stored_log_is_found_and_reading_goes_on() -> None:
    log: list[Any] = [
        TurnStart(turn=1), StepStart(turn=1, step=1), result("c1"), TurnStart(turn=2), done(2), call("c1"),
        TurnStart(turn=4), StepStart(turn=4, step=1), call("c1", turn=4), result("c1", turn=4), result("c1", turn=4),
    ]  # fmt: skip
    assert faults(*log) == [2, 3, 5, 6, 10]


def faults(*log: Any) -> list[int]:
    grammar, found = Grammar(), []
    for seq, payload in enumerate(log):
        if grammar.fault(payload) is not None:
            found.append(seq)
        grammar.advance(payload)
    return found


def test_calls_of_one_id_in_a_stored_log_wait_for_as_many_results() -> None:
    start = (TurnStart(turn=1), StepStart(turn=1, step=1))
    assert faults(*start, call("c1"), call("c1"), result("c1"), result("c1"), result("c1")) == [3, 6]


def test_a_step_or_turn_that_starts_too_early_in_a_stored_log_forgets_the_calls_before() -> None:
    start = (TurnStart(turn=1), StepStart(turn=1, step=1), call("c1"))
    assert faults(*start, StepStart(turn=1, step=2), result("c1", step=2)) == [3, 4]
    assert faults(*start, TurnStart(turn=2), StepStart(turn=2, step=1), result("c1", turn=2)) == [3, 5]
    assert faults(*start, done(), TurnStart(turn=2), StepStart(turn=2, step=1), result("c1", turn=2)) == [3, 6]


def test_asking_for_a_fault_changes_nothing() -> None:
    grammar = Grammar()
    grammar.advance(TurnStart(turn=1))
    grammar.advance(StepStart(turn=1, step=1))
    before = (grammar.turn, grammar.step, grammar.next_turn, grammar.next_step, dict(grammar.pending))
    for payload in (call("c1"), result("c1"), StepEnd(turn=1, step=1), TurnStart(turn=2), done()):
        grammar.fault(payload)
    assert (grammar.turn, grammar.step, grammar.next_turn, grammar.next_step, dict(grammar.pending)) == before


def test_grammar_knows_the_plugins_of_no_vocabulary() -> None:
    assert Grammar().fault(Weather(city="Ulm")) is None
    assert "acme/weather" in WITH_PLUGINS
