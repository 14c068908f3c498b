"""Whatever the log: sources, turns, calls, contexts, addresses and comparisons are what they are defined to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log import reference
from tests.log.strategies import tapes
from tests.views.naive import Naive, as_stored, random_log
from turnlog.log import Session
from turnlog.store import StoredSession
from turnlog.views import (
    AddressError,
    Call,
    call,
    calls,
    context,
    diff,
    first_divergence,
    normal_events,
    resolve,
    sources,
    structure,
    turn,
)

pytestmark = pytest.mark.proof


def both(tape: bytes) -> tuple[Session, StoredSession]:
    live = random_log(tape)
    return live, as_stored(live)


def test_sources_are_the_closure_of_what_events_cite_and_of_what_replaced_them(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        for log in both(tape):
            naive = Naive(log)
            cites = {line["seq"]: line.get("sourceEventSeqs") for line in naive.log}
            for seq in cites:
                found = sources(log, f"@{seq}")
                assert found.sources == (None if cites[seq] is None else tuple(cites[seq]))
                assert found.cited_by == tuple(one for one, told in cites.items() if seq in (told or ()))
                depth: dict[int, int] = {}
                level = set(cites[seq] or ())
                while level:
                    depth |= dict.fromkeys(level, max(depth.values(), default=0) + 1)
                    level = {one for below in level for one in cites[below] or ()} - set(depth)
                told = {one: run.depth for run in found.back for one in range(run.first, run.last + 1)}
                assert told == depth
                assert all(run.type == naive.log[one]["type"] for run in found.back for one in (run.first, run.last))
                assert found.replaces == tuple(one for one in cites[seq] or () if naive.replaced_by.get(one) == seq)
                chain = []
                above = naive.replaced_by.get(seq)
                while above is not None:
                    chain.append(above)
                    above = naive.replaced_by.get(above)
                assert found.replaced_by == tuple(chain)

    prove("sources equal the naive closure", check, tapes)


def test_a_turn_is_the_events_of_its_span(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        for log in both(tape):
            naive = Naive(log)
            for first, stop, ended in naive.spans("turn"):
                number = naive.log[first]["data"]["turn"]
                found = turn(log, number)
                assert [one.seq for one in found.events] == list(range(first, stop))
                assert (found.span.first, found.span.stop, found.span.ended) == (first, stop, ended)
                steps = list(naive.spans("step", first, stop - ended))
                assert [(one.first, one.stop, one.ended) for one in found.steps] == steps
                assert resolve(log, f"t{number}").first == first

    prove("turns equal their naive spans", check, tapes)


def test_the_calls_of_one_id_are_those_among_all_calls(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        for log in both(tape):
            for as_it_is in (True, False):
                found = calls(log, as_stored=as_it_is)
                for id in {one.id for one in found}:
                    assert call(log, id, as_stored=as_it_is) == tuple(one for one in found if one.id == id)
                replaced = {line["seq"] for line in Naive(log).log if isinstance(line.get("surfaceOp"), dict)}
                assert not replaced & {one.asked.seq for one in found if one.asked is not None}

    prove("calls of one id equal those among all", check, tapes)


def test_a_call_is_what_its_step_has_of_its_id_and_rank(prove: Prove) -> None:
    """Also where ids repeat: block, argument chunks, questions, start, result, what replaced it and who cites it."""

    def check(tape: bytes) -> None:
        for log in both(tape):
            wanted = Naive(log).lives(live=not isinstance(log, StoredSession))
            found = calls(log, as_stored=True)
            assert sorted(map(told, found), key=place) == sorted(wanted, key=place)

    prove("calls equal the naive join", check, tapes)


def place(life: Mapping[str, Any]) -> tuple[int, str, int]:
    """No two calls have the same."""
    return life["first"], life["id"], life.get("tool/result", -1)


def told(one: Call) -> dict[str, Any]:
    """A call as the naive definition tells it."""
    parts = {"assistant/message": one.asked, "tool/call": one.started, "tool/result": one.result}
    seqs = {type: event.seq for type, event in parts.items() if event is not None}
    assert not one.others
    return {
        "id": one.id,
        "first": min(seqs.values()),
        **seqs,
        "chunks": [timed.seq for timed in one.chunks],
        "state": one.state,
        "chain": list(one.replaced_by),
        "cited_by": list(one.cited_by),
        "approvals": [event.seq for event in one.approvals],
    }


def test_the_context_of_a_step_is_what_the_surface_showed_when_its_last_attempt_left(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        for log in both(tape):
            naive = Naive(log)
            for step in (step for one in structure(log).turns for step in one.steps):
                try:
                    found = context(log, step.address)
                except AddressError:  # two steps have one number
                    continue
                shown = [seq for seq in reference.nodes(naive.log[: found.at]) if reference.message(naive.log[seq])]
                assert [one.seq for one in found.events] == shown
                assert [one.id for one in found.messages] == naive.ids(shown)
                assert step.span.first < found.at <= step.span.stop
                left = naive.log[found.at] if found.at < step.span.stop - step.span.ended else None
                assert left is None or left["type"] in ("assistant/chunk", "llm/retry") or naive.is_answer(left)
                headers = [line["seq"] for line in naive.log[: found.at] if line["type"] == "request/header"]
                assert found.header_seq == (headers[-1] if headers else None)

    prove("contexts equal the naive surface", check, tapes)


def test_logs_part_at_the_first_event_that_is_not_the_same(prove: Prove) -> None:
    def check(tape: bytes, other: bytes) -> None:
        left, right = random_log(tape), random_log(other)
        mine, theirs = list(normal_events(left)), list(normal_events(right))
        told = [(one.type, one.body, one.replaces, one.sources) for one in mine]
        besides = [(one.type, one.body, one.replaces, one.sources) for one in theirs]
        place = next((k for k, (a, b) in enumerate(zip(told, besides, strict=False)) if a != b), None)
        if place is None and len(told) != len(besides):
            place = min(len(told), len(besides))
        found = first_divergence(normal_events(left), normal_events(right))
        assert (None if found is None else found.index) == place
        again = as_stored(left)
        assert first_divergence(mine, normal_events(again)) is None
        assert not diff(again, as_stored(left, packed=False)).differences

    prove("divergences equal the naive comparison", check, tapes, tapes | st.just(b""))
