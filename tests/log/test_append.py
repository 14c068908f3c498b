"""Append: what it returns, what it keeps, in which order it checks, and what a refusal leaves behind."""

from __future__ import annotations

import itertools
import json
import warnings
from typing import Any

import pytest

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
    standing,
    stored,
    talk,
    user,
)
from turnlog.events import (
    EndSeed,
    LosslessError,
    PlanMode,
    StepStart,
    TextBlock,
    TextDelta,
    TurnStart,
    UnknownEventType,
)
from turnlog.log import (
    AppendError,
    Durable,
    GrammarError,
    ReadOnlySession,
    Reentrant,
    ReservedEvent,
    Session,
    SessionError,
    SessionHeader,
    ShapeError,
    SurfaceError,
    TurnlogError,
    Volatile,
    WrongThread,
)


def test_append_returns_the_logged_event() -> None:
    session = empty()
    session.append(TurnStart(turn=1))
    event = session.append(user("hi"), sources=[0])
    assert event is session.events[1]
    assert event is session.event(1)
    assert (event.type, event.seq, event.time) == ("user/message", 1, 1002)
    assert (event.surface_op, event.sources, event.ignorable) == ("append", (0,), False)
    assert event.data == user("hi")
    assert event.data.content == (TextBlock("hi"),)


def test_seq_is_the_length_of_the_log() -> None:
    session = empty()
    for length in range(20):
        assert len(session) == length
        assert session.append(PlanMode(value=length)).seq == length
    assert [event.seq for event in session.events] == list(range(20))


def test_the_line_of_an_event_has_the_members_of_format_0_in_its_order() -> None:
    session = talk("a", "b")
    session.append(user("c", "m2"), replaces=(0, 1), sources=[0, 1])
    assert lines(session)[0] == (
        b'{"type":"user/message","seq":0,"time":1001,"data":{"content":[{"type":"text","text":"a"}],'
        b'"source":{"kind":"user"},"role":"user","id":"m0"},"surfaceOp":"append"}'
    )
    assert lines(session)[2] == (
        b'{"type":"user/message","seq":2,"time":1003,"data":{"content":[{"type":"text","text":"c"}],'
        b'"source":{"kind":"user"},"role":"user","id":"m2"},"sourceEventSeqs":[0,1],'
        b'"surfaceOp":{"op":"replace","start":0,"end":1}}'
    )


def test_time_comes_from_the_clock_and_never_orders_anything() -> None:
    times = [5_000, 4_000, -7, 4_000, 9_000]
    session = Session("s", clock=iter([0, *times]).__next__)
    for text in "abcde":
        session.append(user(text, text))
    assert [event.time for event in session.events] == times
    assert [event.seq for event in session.events] == [0, 1, 2, 3, 4]
    assert [message.text for message in session.derive_messages()] == list("abcde")
    assert [message.text for message in session.derive_messages(3)] == list("abc")


def test_the_default_clock_tells_epoch_milliseconds() -> None:
    before = Session().append(TurnStart(turn=1)).time
    assert 1_700_000_000_000 < before < 10_000_000_000_000


def test_select_gives_the_events_of_one_kind() -> None:
    session = in_step()
    session.append(chunk(TextDelta(0, "x")))
    session.append(user("hi"))
    assert [event.seq for event in session.select(StepStart)] == [1]
    assert [event.data.content for event in session.select(type(user()))] == [(TextBlock("hi"),)]
    assert list(session.select(Weather)) == []


def test_every_error_of_the_log_has_its_place_in_the_tree() -> None:
    for kind in (SurfaceError, GrammarError, ShapeError, ReservedEvent):
        assert issubclass(kind, AppendError)
    for kind in (AppendError, WrongThread, Reentrant, ReadOnlySession):
        assert issubclass(kind, SessionError)
    for base in (SessionError, LosslessError, UnknownEventType):
        assert issubclass(base, TurnlogError)


def many(session: Session) -> list[tuple[Any, dict[str, Any], type[Exception]]]:
    """One append for every way to be refused, for a session in step 1 with call ``c1`` waiting."""
    return [
        (PlanMode(value={1}), {}, LosslessError),
        (TurnStart(turn="1"), {}, LosslessError),  # type: ignore[arg-type]
        (type("Mine", (TurnStart,), {})(turn=2), {}, UnknownEventType),
        (PlanMode(value=1), {"sources": [0]}, SurfaceError),
        (user(), {"sources": []}, SurfaceError),
        (user(), {"replaces": (0, 0), "sources": [0]}, SurfaceError),
        (user(id=""), {}, ShapeError),
        (call(""), {}, ShapeError),
        (TurnStart(turn=2), {}, GrammarError),
        (call("c1"), {}, GrammarError),
        (result("nobody"), {}, GrammarError),
        (EndSeed(), {}, ReservedEvent),
    ]


@pytest.mark.parametrize("number", range(12))
def test_a_refused_append_leaves_log_surface_grammar_and_subscribers_as_they_were(number: int) -> None:
    session = in_step()
    session.append(asks("c1"))
    session.append(call("c1"))
    told: list[Any] = []
    session.subscribe(told.append)
    session.subscribe(told.append, batches=True)
    payload, place, error = many(session)[number]
    before, view = standing(session), session.derive_messages()
    with pytest.raises(error):
        session.append(payload, **place)
    assert standing(session) == before
    assert told == []
    assert session.derive_messages() == view
    event = session.append(result("c1"))
    assert event.seq == len(before["lines"])
    assert told == [event, (event,)]


def test_the_clock_is_not_asked_for_a_refused_append() -> None:
    asked = itertools.count()
    session = Session("s", clock=lambda: next(asked))
    with pytest.raises(GrammarError):
        session.append(StepStart(turn=1, step=1))
    assert session.append(TurnStart(turn=1)).time == 1


ORDER: list[tuple[Any, dict[str, Any], type[Exception]]] = [
    # each is wrong in every later way as well
    (PlanMode(value={1}), {"sources": [99]}, LosslessError),
    (user(id=""), {"sources": []}, SurfaceError),
    (call("", turn=9), {}, ShapeError),
    (call("c1", turn=9), {}, GrammarError),
]


@pytest.mark.parametrize(("payload", "place", "error"), ORDER)
def test_checks_run_in_order_lossless_surface_shape_grammar(
    payload: Any, place: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        empty().append(payload, **place)


def test_a_value_that_is_not_json_is_reported_before_the_session_is_found_read_only() -> None:
    session: Any = stored(talk("a"))
    with pytest.raises(LosslessError):
        session.append(PlanMode(value={1}))
    with pytest.raises(ReadOnlySession):
        session.append(PlanMode(value=1), sources=[99])


def test_end_seed_is_reserved_for_the_session_itself() -> None:
    session = empty()
    with pytest.raises(ReservedEvent, match="written by the session itself when it is forked or resumed"):
        session.append(EndSeed())
    assert len(session) == 0


def test_a_read_only_session_says_why_and_stays_as_it_is() -> None:
    session = stored(talk("a"), read_only="it came from format 3; convert it first")
    assert session.read_only == "it came from format 3; convert it first"
    before = lines(session)
    with pytest.raises(ReadOnlySession, match=r"^session s: it came from format 3; convert it first$"):
        session.append(user("b"))
    with pytest.raises(ReadOnlySession):
        session.append(TurnStart(turn=1))
    assert lines(session) == before
    assert [message.text for message in session.derive_messages()] == ["a"]
    assert talk("a").read_only is None


def test_the_frozen_payload_of_another_event_may_be_appended() -> None:
    one = in_step()
    one.append(call("c1"))
    event = one.append(result("c1", meta={"a": [1]}))
    two = in_step()
    two.append(call("c1"))
    again = two.append(event.data)
    assert again.raw == event.raw
    assert again.data == event.data


def test_events_are_equal_by_what_they_say_whether_or_not_anybody_looked() -> None:
    session = in_turn()
    session.append(PlanMode(value={"a": [1]}))
    one, two = stored(session).events[1], stored(session).events[1]
    assert one == two
    assert one.data == {"a": [1]} or one.data.value == {"a": [1]}  # type: ignore[attr-defined]
    assert one == two
    assert two == session.events[1]
    assert len({one, two, session.events[1]}) == 1
    assert one != session.events[0]
    assert one != "plan/mode"


def test_sources_absent_empty_and_filled_are_three_different_things() -> None:
    session = in_step()
    absent = session.append(answer(TextBlock("x")))
    none = session.append(answer(TextBlock("y")), sources=[])
    some = session.append(answer(TextBlock("z")), sources=[1, 0])
    assert (absent.sources, none.sources, some.sources) == (None, (), (1, 0))
    assert "sourceEventSeqs" not in json.loads(absent.line())
    assert json.loads(none.line())["sourceEventSeqs"] == []
    assert json.loads(some.line())["sourceEventSeqs"] == [1, 0]
    assert [event.sources for event in stored(session).events[3:]] == [None, (), (1, 0)]


def test_a_session_header_that_no_reader_accepts_is_refused() -> None:
    with pytest.raises(ValueError, match="cwd: 'work' is not an absolute path"):
        Session("s", cwd="work")
    with pytest.raises(ValueError, match="its header says 'b'"):
        Session("a", header=SessionHeader(version=0, id="b", created_at=1))
    with pytest.raises(ValueError, match="id: '' is no session id; it may not be empty"):
        Session(header=SessionHeader(version=0, id="", created_at=1))


def test_a_new_session_knows_who_it_is() -> None:
    session = Session("s", cwd="/work", clock=lambda: 5)
    assert session.id == "s"
    assert session.header == SessionHeader(version=0, id="s", created_at=5, cwd="/work")
    assert repr(session) == "<Session s: 0 events>"
    assert Session().id != Session().id


def test_an_event_that_is_not_there_is_an_index_error_naming_what_is() -> None:
    session = talk("a", "b")
    with pytest.raises(IndexError, match=r"session s: no event @2; there are @0 to @1"):
        session.event(2)
    with pytest.raises(IndexError):
        session.event(-1)


def test_without_a_store_durable_says_volatile_and_with_one_asks_it() -> None:
    import asyncio

    class Keeper:
        async def durable(self, length: int) -> Durable:
            return Durable(length)

    session = talk("a", "b")
    assert asyncio.run(session.durable()) == Volatile(2)
    session.attach(Keeper())
    assert asyncio.run(session.durable()) == Durable(2)


def test_a_turn_with_everything_in_it_is_accepted_as_it_comes() -> None:
    session = in_step(vocabulary=WITH_PLUGINS)
    session.append(user("read it"))
    first = session.append(chunk(TextDelta(0, "Hm")))
    session.append(asks("c1", "c2"), sources=[first.seq])
    asked = [session.append(call(one)) for one in ("c1", "c2")]
    session.append(Weather(city="Ulm"))
    for event in asked:
        session.append(result(event.data.call_id, id=event.data.call_id), sources=[event.seq])
    close_step(session)
    close_turn(session)
    assert [event.type for event in session.events] == [
        "turn/start", "step/start", "request/header", "user/message", "assistant/chunk", "assistant/message",
        "tool/call", "tool/call", "acme/weather", "tool/result", "tool/result", "step/end", "turn/end",
    ]  # fmt: skip
    assert session.surface == (3, 5, 9, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(session.derive_messages()) == 4
