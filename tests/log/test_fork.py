"""A fork inherits a prefix and goes on from there: prefix, ``session/end-seed``, closers (differences 15)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.log import reference
from tests.log.sessions import (
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
    lines,
    result,
    stored,
    talk,
    user,
)
from turnlog.events import (
    Aborted,
    Blocked,
    CancelledByUser,
    Completed,
    Errored,
    Failure,
    Interrupted,
    MaxTokens,
    StepStart,
    TextBlock,
    TextDelta,
    TurnEnd,
    TurnStart,
)
from turnlog.log import ForkError, GrammarError, Session, SessionHeader
from turnlog.log.event import event_class
from turnlog.log.rows import Rows
from turnlog.log.surface import Surface


def types(session: Session, start: int = 0) -> list[str]:
    return [event.type for event in session.events[start:]]


def finished() -> Session:
    """One whole turn: eight events."""
    session = in_step()
    session.append(user("hi"))
    session.append(answer(TextBlock("hello")))
    close_step(session)
    close_turn(session)
    session.append(Weather(city="Ulm"))
    return session


def test_a_fork_without_a_place_inherits_everything_events_after_the_last_turn_included() -> None:
    parent = finished()
    child = parent.fork(id="child")
    assert lines(child)[:8] == lines(parent)
    assert types(child, 8) == ["session/end-seed"]
    assert child.derive_messages() == parent.derive_messages()


def test_the_child_says_where_it_comes_from_and_inherits_nothing_else_of_the_header() -> None:
    header = SessionHeader(
        version=0, id="p", created_at=1, cwd="/work", parent_session="old", seed_length=0, origin="subagent",
        delegation_depth=2, agent_preset="x",
    )  # fmt: skip
    parent = Session(header=header, clock=lambda: 77)
    parent.append(TurnStart(turn=1))
    child = parent.fork(1, id="child")
    assert child.header == SessionHeader(
        version=0, id="child", created_at=77, cwd="/work", parent_session="p", seed_length=1
    )
    assert parent.header == header


def test_children_get_ids_of_their_own() -> None:
    parent = talk("a")
    assert len({parent.id, parent.fork().id, parent.fork().id}) == 3


def test_an_empty_log_forks_to_one_that_holds_the_mark_alone() -> None:
    assert types(empty().fork()) == ["session/end-seed"]
    assert types(talk("a").fork(0)) == ["session/end-seed"]


@pytest.mark.parametrize(
    "reason",
    [Completed(), Aborted(CancelledByUser()), Blocked(), Errored(Failure("m", "C")), MaxTokens(), Interrupted()],
    ids=lambda one: type(one).__name__,
)
def test_a_turn_that_ended_owes_nothing_however_it_ended(reason: Any) -> None:
    parent = in_turn()
    parent.append(TurnEnd(turn=1, reason=reason))
    child = parent.fork()
    assert types(child) == ["turn/start", "turn/end", "session/end-seed"]
    child.append(TurnStart(turn=2))


def test_a_fork_at_a_closed_turn_works_while_the_parent_is_in_the_middle_of_another() -> None:
    parent = finished()
    parent.append(TurnStart(turn=2))
    parent.append(StepStart(turn=2, step=1))
    child = parent.fork(8)
    assert types(child, 7) == ["acme/weather", "session/end-seed"]
    parent.append(chunk(TextDelta(0, "still here"), turn=2))


def test_a_fork_inside_a_turn_is_closed_after_the_mark() -> None:
    parent = in_step()
    parent.append(asks("c1"))
    parent.append(call("c1"))
    child = parent.fork()
    assert types(child, 5) == ["session/end-seed", "tool/result", "step/end", "turn/end"]
    assert child.events[6].sources == (4,)
    child.append(TurnStart(turn=2))


def test_just_before_a_call_is_a_place_to_fork() -> None:
    parent = in_step()
    parent.append(user("read"))
    parent.append(asks("c1"))
    parent.append(call("c1"))
    parent.append(result("c1"))
    before_the_call = parent.fork(5)
    assert types(before_the_call, 5) == ["session/end-seed", "tool/call", "tool/result", "step/end", "turn/end"]
    before_the_answer = parent.fork(4)
    assert types(before_the_answer, 4) == ["session/end-seed", "step/end", "turn/end"]
    assert [message.text for message in before_the_answer.derive_messages()] == ["read"]


def test_closers_carry_the_time_of_the_last_inherited_event() -> None:
    parent = in_step()
    times = [event.time for event in parent.events]
    child = parent.fork()
    assert [event.time for event in child.events[:3]] == times
    assert [event.time for event in child.events[4:]] == [times[-1]] * 2


def test_parent_and_child_go_their_own_ways() -> None:
    parent = talk("a", "b", "c")
    parent.append(user("X", "x"), replaces=(0, 1), sources=[0, 1])
    child = parent.fork()
    child.append(user("child", "y"), replaces=(3, 2), sources=[3, 2])
    parent.append(user("parent", "z"))
    assert [message.text for message in child.derive_messages()] == ["child"]
    assert [message.text for message in parent.derive_messages()] == ["X", "c", "parent"]


def test_a_fork_before_a_replace_shows_what_it_replaced() -> None:
    parent = talk("a", "b", "c")
    parent.append(user("X", "x"), replaces=(0, 1), sources=[0, 1])
    child = parent.fork(3)
    assert [message.text for message in child.derive_messages()] == ["a", "b", "c"]
    assert child.generation == 0
    child.append(user("Y", "y"), replaces=(1, 2), sources=[1, 2])
    assert [message.text for message in child.derive_messages()] == ["a", "Y"]


def test_the_childs_grammar_goes_on_where_the_prefix_stood() -> None:
    parent = finished()
    child = parent.fork()
    with pytest.raises(GrammarError, match="the next turn is 2"):
        child.append(TurnStart(turn=1))
    child.append(TurnStart(turn=2))
    assert reference.nesting(reference.read(lines(child))).turn == 2


@pytest.mark.parametrize("at", [-1, 9, 100])
def test_a_place_that_the_log_does_not_have_is_refused(at: int) -> None:
    parent = finished()
    with pytest.raises(ForkError, match=rf"session s cannot be forked at {at}; it has 8 events"):
        parent.fork(at)


def test_only_format_0_forks_and_the_error_names_the_way_out() -> None:
    header = SessionHeader(version=3, id="p", created_at=1)
    rows = Rows(event_class(WITH_PLUGINS.codec))
    session = Session.stored(header, rows, Surface(), vocabulary=WITH_PLUGINS, read_only="x", closes=False)
    with pytest.raises(ForkError, match=r"stored in format 3, and only format 0 is written.*turnlog convert"):
        session.fork()


def test_a_read_only_session_forks_to_one_that_can_be_written() -> None:
    child = stored(finished(), read_only="it is a copy").fork()
    assert child.read_only is None
    child.append(TurnStart(turn=2))
    assert types(child, 8) == ["session/end-seed", "turn/start"]


def test_nobody_who_listens_to_the_parent_hears_the_child() -> None:
    parent = in_turn()
    heard: list[Any] = []
    parent.subscribe(heard.append)
    child = parent.fork()
    child.append(user("x"))
    assert heard == []


def test_plugins_go_with_the_fork() -> None:
    child = finished().fork()
    assert child.vocabulary is WITH_PLUGINS
    assert child.append(Weather(city="Bonn")).ignorable
    assert [event.data.city for event in child.select(Weather)] == ["Ulm", "Bonn"]


# -- going on with a stored session ------------------------------------------------------------------------------------


def resumed(session: Session) -> Session:
    return Session.resumed(stored(session), clock=iter(range(5000, 6000)).__next__)


def test_a_resumed_session_is_the_same_log_and_can_be_written() -> None:
    before = finished()
    session = resumed(before)
    assert lines(session) == lines(before)
    assert session.header == before.header
    assert session.derive_messages() == before.derive_messages()
    session.append(TurnStart(turn=2))
    assert len(before) == 8


def test_settling_closes_what_is_open_and_then_marks_the_end_of_the_old_life() -> None:
    before = in_step()
    before.append(asks("c1"))
    session = resumed(before)
    session.settle()
    assert types(session, 4) == ["tool/call", "tool/result", "step/end", "turn/end", "session/end-seed"]
    assert {event.time for event in session.events[4:8]} == {before.events[-1].time}
    session.append(TurnStart(turn=2))


def test_settling_twice_and_resuming_what_was_settled_adds_nothing() -> None:
    session = resumed(finished())
    session.settle()
    once = lines(session)
    session.settle()
    assert lines(session) == once
    again = resumed(session)
    again.settle()
    assert lines(again) == once


def test_an_empty_log_has_no_old_life_to_mark() -> None:
    session = resumed(empty())
    session.settle()
    assert len(session) == 0


def test_only_format_0_is_resumed() -> None:
    header = SessionHeader(version=4, id="p", created_at=1)
    rows = Rows(event_class(WITH_PLUGINS.codec))
    session = Session.stored(header, rows, Surface(), vocabulary=WITH_PLUGINS, read_only="x", closes=False)
    with pytest.raises(ForkError, match="only format 0 is written"):
        Session.resumed(session)
