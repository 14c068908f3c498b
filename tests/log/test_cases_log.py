"""The writing sides of shared cases that concern the log alone: BC-013, BC-014, BC-022 and BC-064."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.log.sessions import asks, call, chunk, in_step, lines, result, standing, stored, talk, user
from turnlog.events import LogPayload, LosslessError, PlanMode, ToolCallDelta, UnknownEventType, UnknownPayload
from turnlog.log import AnyEvent, Session, ShapeError


class MemberAdded(LogPayload, type="crew/member-added"):
    name: str


@pytest.mark.parametrize(
    "payload", [MemberAdded(name="helper"), UnknownPayload(type="crew/member-added", value={"name": "x"})]
)
def test_bc_013_appending_an_unregistered_type_fails_at_once_with_a_hint(payload: LogPayload) -> None:
    session = talk("a")
    before = standing(session)
    with pytest.raises(UnknownEventType, match=r"^crew/member-added: .*Vocabulary\.core\.extend\(") as caught:
        session.append(payload)
    assert "vocabulary" in str(caught.value)
    assert standing(session) == before


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (call(""), r"tool/call @4: \$\.callId: a call id may not be empty; mint one before logging the call"),
        (replace(call("c9"), name=""), r"tool/call @4: \$\.name: a tool name may not be empty"),
        (asks(""), r"assistant/message @4: \$\.message\.content: a tool call without id"),
        (result(""), r"tool/result @4: \$\.message\.source\.callId: a call id may not be empty"),
    ],
)
def test_bc_014_an_empty_call_id_or_tool_name_is_refused_so_that_what_we_write_we_can_read(
    payload: Any, words: str
) -> None:
    session = in_step()
    session.append(call("c1"))
    before = standing(session)
    with pytest.raises(ShapeError, match=f"^{words}"):
        session.append(payload)
    assert standing(session) == before


def test_bc_014_a_delta_without_an_id_is_refused_too() -> None:
    session = in_step()
    with pytest.raises(ShapeError, match="hold the deltas until the id is known"):
        session.append(chunk(ToolCallDelta(index=0, id="", arguments_delta="{")))


class NumPyLike(float):
    """``numpy.float64`` is a subclass of float."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "nan is not JSON"),
        (float("inf"), "inf is not JSON"),
        (-math.inf, "-inf is not JSON"),
        (-0.0, "-0.0 loses its sign"),
        ({("a", 1): 1}, r"key ('a', 1) is tuple, not a string"),
        (b"x", "bytes is not JSON; store text, or base64 in a string"),
        ({1}, "set is not JSON; use a list, sorted"),
        (dt.datetime(2026, 1, 1), "datetime is not JSON; store epoch milliseconds"),
        (NumPyLike(1.5), "NumPyLike is a subclass, not exact JSON; use float(value)"),
        (Path("/x"), "is not JSON"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_bc_022_what_is_not_json_fails_at_the_call_and_nothing_is_half_written(value: Any, words: str) -> None:
    session = in_step()
    session.append(call("c1"))
    written: list[bytes] = []
    session.subscribe(lambda event: written.append(event.line()))
    before = standing(session)
    with pytest.raises(LosslessError) as caught:
        session.append(result("c1", meta={"value": value}))
    assert str(caught.value).startswith("tool/result: $.meta.value: ")
    assert words in str(caught.value)
    assert standing(session) == before
    assert written == []
    session.append(result("c1", meta={"value": None}))
    assert written == lines(session)[-1:]


def noted(count: int) -> Session:
    session = talk()
    for number in range(count):
        session.append(PlanMode(value=number))
    return session


@pytest.mark.parametrize("batches", [False, True])
def test_bc_064_a_viewer_that_connects_while_events_come_has_each_once_and_in_order(batches: bool) -> None:
    session = noted(1000)
    seen: list[int] = []
    late: list[Any] = []

    def view(told: Any) -> None:
        seen.extend(event.seq for event in (told if batches else (told,)))
        if len(late) < 50:  # while history is being sent, more comes from elsewhere
            late.append(session.call_soon(PlanMode(value="late")))

    session.subscribe(view, from_seq=0, batches=batches)
    while session.run_pending():
        pass
    assert len(late) == 50
    assert seen == list(range(1050))


def test_bc_064_a_viewer_that_comes_back_gets_what_it_has_not_seen() -> None:
    session = noted(1050)
    first: list[AnyEvent] = []
    connection = session.subscribe(first.append, from_seq=0)
    connection.close()
    last_seen = 700
    again: list[AnyEvent] = []
    session.subscribe(again.append, from_seq=last_seen + 1)
    session.append(user("new"))
    assert [event.seq for event in again] == list(range(701, 1051))
    assert len(first) == 1050


def test_bc_064_two_viewers_take_nothing_from_each_other() -> None:
    session = noted(10)
    one: list[AnyEvent] = []
    two: list[AnyEvent] = []
    session.subscribe(one.append, from_seq=0)
    session.subscribe(two.append, from_seq=5)
    session.append(user("x"))
    assert [event.seq for event in one] == list(range(11))
    assert [event.seq for event in two] == list(range(5, 11))
    assert all(mine is theirs for mine, theirs in zip(one[5:], two, strict=True))


def test_bc_064_a_stored_session_tells_its_history_the_same_way() -> None:
    session = stored(noted(20))
    seen: list[AnyEvent] = []
    session.subscribe(seen.append, from_seq=15)
    assert [event.seq for event in seen] == [15, 16, 17, 18, 19]
