"""The turn query: all events of a turn, wherever its borders are."""

from __future__ import annotations

import pytest

from tests.log import sessions
from tests.views.logs import SAMPLE, case, end, event, real, session, step, step_end, turn, user
from turnlog import load
from turnlog.events import Completed, Interrupted
from turnlog.views import AddressAmbiguous, AddressUnknown, queries


def test_a_turn_is_everything_from_its_start_to_its_end() -> None:
    log = session(event("session/title"), turn(), step(), user(), step_end(), end(), turn(2), end(2))
    found = queries.turn(log, 1)
    assert [one.seq for one in found.events] == [1, 2, 3, 4, 5]
    assert (found.turn, found.state, found.reason, found.closers) == (1, "ended", Completed(), ())
    assert [one.address for one in found.steps] == ["t1.s1"]
    assert (found.started, found.ended) == (1010, 1050)
    assert [one.seq for one in queries.turn(log, 2).events] == [6, 7]


def test_the_sample_is_one_turn() -> None:
    found = queries.turn(load(SAMPLE), 1)
    assert len(found.events) == 10


def test_an_interrupted_turn_has_its_closers_beside_its_events() -> None:
    found = queries.turn(real(0, "crashed-session"), 2)
    assert (found.state, found.reason) == ("interrupted", Interrupted())
    assert [one.type for one in found.closers] == ["assistant/message", "step/end", "turn/end"]
    assert found.events[-1].seq == 88
    assert queries.turn(real(0, "crashed-session"), 2, as_stored=True).reason is None


def test_a_turn_of_a_living_session_is_running() -> None:
    found = queries.turn(sessions.in_step(), 1)
    assert (found.state, found.reason, found.end) == ("running", None, None)


def test_a_turn_that_never_ended_reaches_to_the_next_one() -> None:
    log = session(turn(), step(), event("session/end-seed"), turn(2), end(2))
    assert [one.seq for one in queries.turn(log, 1).events] == [0, 1, 2]
    assert queries.turn(log, 1).state == "interrupted"


def test_a_turn_whose_start_was_lost_reaches_back_to_the_turn_before() -> None:
    """BC-065"""
    found = queries.turn(case("BC-065/end-without-start.jsonl"), 5)
    assert [one.seq for one in found.events] == [0, 1, 2]
    assert not found.span.started


def test_a_turn_number_that_is_used_twice_is_ambiguous() -> None:
    with pytest.raises(AddressAmbiguous, match="2 times t1: @0 to @1, @2 to @3"):
        queries.turn(session(turn(), end(), turn(), end()), 1)


def test_an_unknown_turn_is_an_error_that_names_the_turns_there_are() -> None:
    with pytest.raises(AddressUnknown, match="has no t9; the turns are t1"):
        queries.turn(load(SAMPLE), 9)
    with pytest.raises(AddressUnknown, match="there are no turns"):
        queries.turn(session(event("session/title")), 1)
