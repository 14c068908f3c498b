"""A session belongs to the thread that made it; ``call_soon`` is the door for the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tests.log.sessions import Reminder, empty, in_turn, lines, standing, stored, talk, user
from turnlog.events import EndSeed, LosslessError, PlanMode, StepStart, TurnStart
from turnlog.log import AnyEvent, GrammarError, ReadOnlySession, ReservedEvent, Session, SurfaceError, WrongThread


def elsewhere(work: Callable[[], Any], *, name: str = "worker-7") -> Any:
    """What *work* gives, or raises, in another thread."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join()
    return outcome.result()


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.append(user("x")),
        lambda session: session.append_input(Reminder(text="x")),
        lambda session: session.subscribe(print),
        lambda session: session.run_pending(),
    ],
    ids=["append", "append_input", "subscribe", "run_pending"],
)
def test_another_thread_is_refused_by_name_and_shown_the_door(use: Callable[[Session], Any]) -> None:
    session = talk("a")
    before = standing(session)
    with pytest.raises(WrongThread) as caught:
        elsewhere(lambda: use(session))
    assert repr(threading.current_thread().name) in str(caught.value)
    assert "'worker-7'" in str(caught.value)
    assert "use session.call_soon(payload)" in str(caught.value)
    assert standing(session) == before


def test_a_session_made_in_another_thread_belongs_to_that_one() -> None:
    session = elsewhere(lambda: empty())
    with pytest.raises(WrongThread):
        session.append(user("x"))


def test_any_thread_may_read() -> None:
    session = talk("a", "b")
    assert elsewhere(lambda: [message.text for message in session.derive_messages()]) == ["a", "b"]
    assert elsewhere(lambda: len(session.events)) == 2


def test_what_is_called_soon_is_committed_by_the_sessions_own_thread() -> None:
    session = talk("a")
    future = elsewhere(lambda: session.call_soon(user("b", "m1"), sources=[0]))
    assert len(session) == 1
    assert not future.done()
    assert session.run_pending() == 1
    assert future.result() is session.events[1]
    assert session.events[1].sources == (0,)
    assert session.run_pending() == 0


def test_what_is_called_soon_comes_before_the_next_append_in_order() -> None:
    session = empty()
    futures = elsewhere(lambda: [session.call_soon(PlanMode(value=number)) for number in range(3)])
    session.append(PlanMode(value="last"))
    assert [event.data.value for event in session.select(PlanMode)] == [0, 1, 2, "last"]
    assert [future.result().seq for future in futures] == [0, 1, 2]


def test_it_comes_before_the_next_input_as_well() -> None:
    session = empty()
    elsewhere(lambda: session.call_soon(PlanMode(value=0)))
    session.append_input(Reminder(text="x"))
    assert [event.type for event in session.events] == ["plan/mode", "acme/reminder", "user/message"]


@pytest.mark.parametrize(
    ("payload", "place", "error"),
    [
        (PlanMode(value={1}), {}, LosslessError),
        (StepStart(turn=1, step=1), {}, GrammarError),
        (user("x"), {"sources": [9]}, SurfaceError),
        (user("x"), {"replaces": (9, 9), "sources": [0]}, SurfaceError),
        (EndSeed(), {}, ReservedEvent),
        (Reminder(text="x"), {}, ReservedEvent),
    ],
)
def test_the_error_of_what_was_called_soon_belongs_to_its_caller(
    payload: Any, place: dict[str, Any], error: type[Exception]
) -> None:
    session = talk("a")
    bad = session.call_soon(payload, **place)
    good = session.call_soon(user("b", "m1"))
    session.append(user("c", "m2"))
    assert isinstance(bad.exception(), error)
    assert good.result().seq == 1
    assert [message.text for message in session.derive_messages()] == ["a", "b", "c"]


def test_a_read_only_session_tells_the_caller() -> None:
    session = stored(talk("a"))
    future = session.call_soon(user("b"))
    assert session.run_pending() == 1
    assert isinstance(future.exception(), ReadOnlySession)


def test_a_replacement_may_be_called_soon() -> None:
    session = talk("a", "b")
    session.call_soon(user("X"), replaces=(0, 1), sources=[0, 1])
    session.run_pending()
    assert [message.text for message in session.derive_messages()] == ["X"]


def test_cancelling_in_time_drops_the_payload() -> None:
    session = empty()
    dropped, kept = session.call_soon(PlanMode(value=0)), session.call_soon(PlanMode(value=1))
    assert dropped.cancel()
    session.run_pending()
    assert [event.data.value for event in session.select(PlanMode)] == [1]
    assert kept.done()
    assert not kept.cancel()


def test_a_host_is_woken_from_the_calling_thread_for_each_payload() -> None:
    session = empty()
    woken: list[str] = []
    session.on_pending(lambda: woken.append(threading.current_thread().name))
    elsewhere(lambda: session.call_soon(PlanMode(value=0)), name="caller")
    assert woken == ["caller"]
    session.on_pending(None)
    session.call_soon(PlanMode(value=1))
    assert woken == ["caller"]
    assert session.run_pending() == 2


def test_a_subscriber_may_call_soon_and_it_comes_after_the_event_it_was_told_of() -> None:
    session = in_turn()
    futures: list[Future[AnyEvent]] = []

    def listen(event: AnyEvent) -> None:
        if event.type == "user/message":
            futures.append(session.call_soon(PlanMode(value=event.seq)))
            assert session.run_pending() == 0
            assert not futures[-1].done()

    session.subscribe(listen)
    session.append(user("a"))
    assert len(session) == 2
    assert session.run_pending() == 1
    assert [event.type for event in session.events] == ["turn/start", "user/message", "plan/mode"]
    assert futures[0].result().seq == 2


def test_many_threads_lose_and_double_nothing() -> None:
    session = empty()
    told: list[int] = []
    session.subscribe(lambda event: told.append(event.seq))
    start = threading.Barrier(4)

    def send(thread: int) -> None:
        start.wait()
        for number in range(200):
            session.call_soon(PlanMode(value=[thread, number]))

    threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for number in range(100):
        session.append(PlanMode(value=["own", number]))
    for thread in threads:
        thread.join()
    session.run_pending()
    values = [event.data.value for event in session.select(PlanMode)]
    assert told == list(range(900))
    for thread in range(4):
        assert [number for who, number in values if who == thread] == list(range(200))  # type: ignore[misc, union-attr]
    assert [number for who, number in values if who == "own"] == list(range(100))  # type: ignore[misc, union-attr]
    assert len(lines(session)) == 900


def test_a_callers_mistake_never_reaches_the_session_that_drains_the_queue() -> None:
    session = empty()
    future = session.call_soon(TurnStart(turn=5))
    event = session.append(TurnStart(turn=1))
    assert event.seq == 0
    with pytest.raises(GrammarError):
        future.result()
