"""Subscribers hear every committed event once and in order, whatever they do themselves."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.log.sessions import Reminder, in_turn, lines, talk, user
from turnlog.events import PlanMode, TurnStart
from turnlog.log import AnyEvent, GrammarError, Reentrant, Session, Subscription


def note(session: Session, *values: Any) -> None:
    for value in values:
        session.append(PlanMode(value=value))


def seqs(events: list[AnyEvent]) -> list[int]:
    return [event.seq for event in events]


def test_every_subscriber_hears_every_event_in_the_order_of_subscribing() -> None:
    session = talk("a")
    heard: list[tuple[str, int]] = []
    session.subscribe(lambda event: heard.append(("first", event.seq)))
    session.subscribe(lambda event: heard.append(("second", event.seq)))
    note(session, 1, 2)
    assert heard == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]


def test_the_event_is_committed_when_it_is_told() -> None:
    session = talk("a")
    seen: list[tuple[int, list[str]]] = []
    session.subscribe(lambda event: seen.append((len(session), [m.text for m in session.derive_messages()])))
    event = session.append(user("b"))
    assert seen == [(2, ["a", "b"])]
    assert event.seq == 1


def test_a_subscriber_is_told_the_very_event_that_append_returns() -> None:
    session = talk()
    heard: list[AnyEvent] = []
    session.subscribe(heard.append)
    event = session.append(user("a"))
    assert len(heard) == 1
    assert heard[0] is event


def test_a_batch_listener_gets_sequences() -> None:
    session = talk("a")
    heard: list[list[int]] = []
    session.subscribe(lambda batch: heard.append(seqs(batch)), batches=True)
    note(session, 1)
    session.append_input(Reminder(text="milk"))
    assert heard == [[1], [2, 3]]


def test_history_comes_first_then_what_is_new_without_gap_or_double() -> None:
    session = talk(*"abcde")
    heard: list[AnyEvent] = []
    session.subscribe(heard.append, from_seq=2)
    assert seqs(heard) == [2, 3, 4]
    note(session, 1, 2)
    assert seqs(heard) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(("start", "expected"), [(0, [0, 1, 2]), (2, [2]), (3, [])])
def test_history_starts_where_it_is_asked_to(start: int, expected: list[int]) -> None:
    session = talk("a", "b", "c")
    heard: list[AnyEvent] = []
    session.subscribe(heard.append, from_seq=start)
    assert seqs(heard) == expected
    note(session, 1)
    assert seqs(heard) == [*expected, 3]


def test_a_start_before_the_first_event_is_refused() -> None:
    session = talk("a")
    heard: list[AnyEvent] = []
    with pytest.raises(ValueError, match="from_seq is -1; a seq is 0 or more"):
        session.subscribe(heard.append, from_seq=-1)
    note(session, 1)
    assert heard == []


def test_without_a_start_only_what_is_new_is_told() -> None:
    session = talk("a", "b")
    heard: list[AnyEvent] = []
    session.subscribe(heard.append)
    assert heard == []
    note(session, 1)
    assert seqs(heard) == [2]


def test_long_history_comes_to_batch_listeners_in_pieces_that_join() -> None:
    session = talk()
    note(session, *range(2500))
    batches: list[list[int]] = []
    session.subscribe(lambda batch: batches.append(seqs(batch)), from_seq=100, batches=True)
    assert len(batches) > 1
    assert [seq for batch in batches for seq in batch] == list(range(100, 2500))
    note(session, 1)
    assert batches[-1] == [2500]


def test_what_a_subscriber_raises_is_logged_counted_and_kept_from_everybody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = talk("a")
    heard: list[AnyEvent] = []

    def fails(event: AnyEvent) -> None:
        raise RuntimeError(f"no time for {event.seq}")

    failing = session.subscribe(fails)
    fine = session.subscribe(heard.append)
    with caplog.at_level(logging.ERROR, "turnlog"):
        event = session.append(PlanMode(value=1))
    assert event.seq == 1
    assert len(session) == 2
    assert seqs(heard) == [1]
    assert (failing.failures, fine.failures) == (1, 0)
    assert [record.getMessage() for record in caplog.records] == [
        "a subscriber failed on plan/mode @1; the event is committed"
    ]
    assert "no time for 1" in caplog.text
    note(session, 2)
    assert failing.failures == 2
    assert seqs(heard) == [1, 2]


def test_a_failing_batch_listener_is_counted_once_a_batch() -> None:
    session = talk(*"abc")

    def fails(_batch: Any) -> None:
        raise RuntimeError

    subscription = session.subscribe(fails, from_seq=0, batches=True)
    assert subscription.failures == 1
    session.append_input(Reminder(text="x"))
    assert subscription.failures == 2


def test_a_subscriber_that_fails_on_history_hears_the_rest() -> None:
    session = talk(*"abc")
    heard: list[int] = []

    def listen(event: AnyEvent) -> None:
        heard.append(event.seq)
        if event.seq == 1:
            raise RuntimeError

    subscription = session.subscribe(listen, from_seq=0)
    note(session, 1)
    assert heard == [0, 1, 2, 3]
    assert subscription.failures == 1


def test_what_is_no_exception_of_the_program_goes_through_and_leaves_the_session_usable() -> None:
    session = talk("a")

    def interrupts(_event: AnyEvent) -> None:
        raise KeyboardInterrupt

    subscription = session.subscribe(interrupts)
    with pytest.raises(KeyboardInterrupt):
        note(session, 1)
    assert len(session) == 2
    subscription.close()
    note(session, 2)
    assert len(session) == 3


@pytest.mark.parametrize("batches", [False, True])
def test_appending_from_inside_is_refused_and_nobody_else_notices(batches: bool) -> None:
    session = in_turn()
    refused: list[Exception] = []
    heard: list[AnyEvent] = []

    def listen(_event: Any) -> None:
        try:
            session.append(user("b"))
        except Reentrant as error:
            refused.append(error)

    session.subscribe(listen, batches=batches)
    session.subscribe(heard.append)
    session.append(user("a"))
    assert len(session) == 2
    assert seqs(heard) == [1]
    assert len(refused) == 1
    assert "session s: user/message appended from inside a subscriber" in str(refused[0])
    assert "call_soon" in str(refused[0])
    session.append(user("c"))
    assert len(session) == 3


def test_an_uncaught_refusal_is_contained_like_any_error() -> None:
    session = talk()
    subscription = session.subscribe(lambda event: session.append(user("b")))
    session.append(user("a"))
    assert subscription.failures == 1
    assert len(session) == 1


def test_appending_while_history_is_told_is_refused_too() -> None:
    session = talk("a", "b")
    before = lines(session)
    subscription = session.subscribe(lambda event: session.append(user("x")), from_seq=0)
    assert subscription.failures == 2
    assert lines(session) == before


def test_a_refused_append_tells_nobody() -> None:
    session = talk("a")
    heard: list[AnyEvent] = []
    session.subscribe(heard.append)
    with pytest.raises(GrammarError):
        session.append(TurnStart(turn=9))
    assert heard == []


def test_closing_ends_it_and_closing_twice_is_fine() -> None:
    session = talk("a")
    heard: list[AnyEvent] = []
    subscription = session.subscribe(heard.append)
    note(session, 1)
    subscription.close()
    subscription.close()
    note(session, 2)
    assert seqs(heard) == [1]


@pytest.mark.parametrize("batches", [False, True])
def test_a_listener_may_close_itself(batches: bool) -> None:
    session = talk("a")
    heard: list[Any] = []
    others: list[AnyEvent] = []

    def listen(event: Any) -> None:
        heard.append(event)
        subscription.close()

    subscription = session.subscribe(listen, batches=batches)
    session.subscribe(others.append)
    note(session, 1, 2)
    assert len(heard) == 1
    assert seqs(others) == [1, 2]


def closing_pair(batches: bool) -> tuple[Session, list[Any], list[Subscription]]:
    """A session whose first listener closes the second one when it hears something."""
    session = talk("a")
    heard: list[Any] = []
    subscriptions: list[Subscription] = []
    session.subscribe(lambda event: subscriptions[0].close())
    subscriptions.append(session.subscribe(heard.append, batches=batches))
    return session, heard, subscriptions


@pytest.mark.parametrize(
    "batches",
    [
        False,
        True,
    ],
)
def test_a_listener_that_another_closes_hears_nothing_more_not_even_this_event(batches: bool) -> None:
    session, heard, _ = closing_pair(batches)
    note(session, 1)
    assert heard == []


@pytest.mark.parametrize("batches", [False, True])
def test_a_closed_listener_hears_nothing_later(batches: bool) -> None:
    session, heard, _ = closing_pair(batches)
    note(session, 1)
    heard.clear()
    note(session, 2, 3)
    assert heard == []


def test_subscribing_from_inside_starts_with_the_next_event() -> None:
    session = talk("a")
    late: list[AnyEvent] = []
    outer: list[AnyEvent] = []

    def listen(event: AnyEvent) -> None:
        outer.append(event)
        if len(outer) == 1:
            session.subscribe(late.append)

    session.subscribe(listen)
    note(session, 1, 2)
    assert seqs(outer) == [1, 2]
    assert seqs(late) == [2]


def test_subscribing_from_inside_with_a_start_has_no_gap_and_no_double() -> None:
    session = talk("a", "b")
    late: list[AnyEvent] = []
    done: list[Subscription] = []

    def listen(_event: AnyEvent) -> None:
        if not done:
            done.append(session.subscribe(late.append, from_seq=1))

    session.subscribe(listen)
    session.append_input(Reminder(text="milk"))  # the first of two events is being told when the other subscribes
    note(session, 1)
    assert seqs(late) == [1, 2, 3, 4]


def test_after_subscribing_from_inside_appending_is_still_refused_until_all_are_told() -> None:
    session = talk("a")
    refused: list[Exception] = []

    def listen(_event: AnyEvent) -> None:
        session.subscribe(lambda event: None, from_seq=0).close()
        try:
            session.append(user("x"))
        except Reentrant as error:
            refused.append(error)

    session.subscribe(listen)
    note(session, 1)
    assert len(refused) == 1
    assert len(session) == 2


def test_a_start_that_is_still_to_come_waits_for_it() -> None:
    session = talk("a", "b")
    heard: list[AnyEvent] = []
    session.subscribe(heard.append, from_seq=4)
    note(session, 2, 3, 4, 5)
    assert seqs(heard) == [4, 5]
