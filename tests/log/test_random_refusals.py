"""Random events at random points: refused exactly when the naive reference says so, and then nothing has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log import reference
from tests.log.sessions import HEADER, answer, call, chunk, empty, lines, result, standing, talk, user
from tests.log.strategies import tapes, written
from turnlog.events import (
    Completed,
    EndSeed,
    Payload,
    PlanMode,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    SurfacePayload,
    TextDelta,
    TodoWrite,
    ToolError,
    TurnEnd,
    TurnStart,
)
from turnlog.events.codec import encode
from turnlog.log import GrammarError, Session, SurfaceError

pytestmark = pytest.mark.proof

numbers = st.integers(0, 3)
ids = st.sampled_from(["c1", "c2"])
NOT_STARTED = ToolError("ToolNotStartedError", "TOOL_NOT_STARTED")
payloads = st.one_of(
    st.builds(TurnStart, turn=numbers),
    st.builds(TurnStart, turn=numbers),
    st.builds(TurnEnd, turn=numbers, reason=st.just(Completed())),
    st.builds(StepStart, turn=numbers, step=numbers),
    st.builds(StepStart, turn=numbers, step=numbers),
    st.builds(StepEnd, turn=numbers, step=numbers),
    st.builds(lambda t, s: chunk(TextDelta(0, "x"), turn=t, step=s), numbers, numbers),
    st.builds(lambda t, s: answer(turn=t, step=s), numbers, numbers),
    st.builds(lambda i, t, s: call(i, turn=t, step=s), ids, numbers, numbers),
    st.builds(lambda i, t, s: result(i, turn=t, step=s), ids, numbers, numbers),
    st.builds(lambda i, t, s: result(i, turn=t, step=s, is_error=True, error=NOT_STARTED), ids, numbers, numbers),
    st.just(TodoWrite(todos=())),
    st.just(RequestHeader(header=HEADER, reason="initial")),
    st.just(RequestContext(provider="p", model="m")),
    st.just(PlanMode(value=None)),
    st.just(user()),
)


def likely(nesting: reference.Nesting) -> list[Payload]:
    """Events that may well come next: without them random logs hardly get into a step."""
    turn, step = nesting.turn or nesting.last_turn + 1, nesting.step or nesting.last_step + 1
    return [
        TurnStart(turn=turn), StepStart(turn=turn, step=step), call("c1", turn=turn, step=step),
        call("c2", turn=turn, step=step), result("c1", turn=turn, step=step), StepEnd(turn=turn, step=step),
        TurnEnd(turn=turn, reason=Completed()),
    ]  # fmt: skip


def test_an_event_is_refused_exactly_when_it_does_not_nest(prove: Prove) -> None:
    refused = accepted = 0

    def check(drawn: list[tuple[Payload, int]]) -> None:
        nonlocal refused, accepted
        session, nesting = empty(), reference.Nesting()
        for payload, choice in drawn:
            options = likely(nesting)
            one: Any = options[choice % len(options)] if choice < 40 else payload
            data = json.loads(encode(one))
            if nesting.accepts(one.event_type, data):
                nesting.take(one.event_type, data)
                session.append(one)
                accepted += 1
                continue
            before = standing(session)
            with pytest.raises(GrammarError, match=f"^{one.event_type} @{len(session)}: "):
                session.append(one)
            assert standing(session) == before
            refused += 1

    prove(
        "logs of well and badly nested events",
        check,
        st.lists(st.tuples(payloads, st.integers(0, 60)), max_size=40),
        times=3,
    )
    assert refused > 20
    assert accepted > 20


seqs = st.integers(-1, 12)
places = st.tuples(
    st.none() | st.tuples(seqs, seqs), st.none() | st.lists(seqs, max_size=4), st.booleans(), st.booleans()
)


def with_surface(surface: list[int], range_: tuple[int, int]) -> list[int]:
    start, end = range_
    if start not in surface or end not in surface:
        return [0]
    return surface[surface.index(start) : surface.index(end) + 1]


def test_a_place_is_refused_exactly_when_it_breaks_a_rule_of_the_surface(prove: Prove) -> None:
    found: set[str] = set()

    def check(drawn: list[tuple[tuple[int, int] | None, list[int] | None, bool, bool]]) -> None:
        session: Any = talk("a", "b", "c", "d", "e")
        for replaces, sources, cites_all, log_only in drawn:
            log = reference.read(lines(session))
            if cites_all and replaces:
                sources = with_surface(reference.nodes(log), replaces)
            payload = PlanMode(value=None) if log_only else user()
            faults = reference.surface_fault(log, payload.event_type, replaces, sources)
            if not faults:
                session.append(payload, replaces=replaces, sources=sources)
                found.add("accepted")
                continue
            before = standing(session)
            with pytest.raises(SurfaceError) as caught:
                session.append(payload, replaces=replaces, sources=sources)
            assert caught.value.kind in faults
            assert standing(session) == before
            found.add(caught.value.kind)

    prove("well and badly placed events", check, st.lists(places, max_size=15), times=5)
    assert len(found) > 5  # most rules and the happy path; test_surface.py has each one by name


REFUSED: list[Any] = [
    TurnStart(turn=99),
    TurnStart(turn=True),
    EndSeed(),
    user(id=""),
    call(""),
    PlanMode(value={"a": float("nan")}),
    PlanMode(value=(1,)),
]


def test_no_refused_append_changes_anything_whatever_the_log(prove: Prove) -> None:
    def check(tape: bytes, payload: Any) -> None:
        session: Session = written(tape)
        told: list[Any] = []
        session.subscribe(told.append)
        before, view = standing(session), session.derive_messages()
        then = list(view)
        for place in ({}, {"sources": [10**6]}, {"replaces": (10**6, 0), "sources": [0]}):
            if place and not isinstance(payload, SurfacePayload):
                continue
            with pytest.raises(ValueError if isinstance(payload, PlanMode) else Exception):
                session.append(payload, **place)
        assert standing(session) == before
        assert list(view) == then
        assert told == []

    prove("refused appends", check, tapes, st.sampled_from(REFUSED))
