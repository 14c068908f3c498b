"""Reported faults of derived data: filters, windows and pages over the logs that other programs failed on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.inputs import case
from tests.views.logs import chunk as chunk_line
from tests.views.logs import event, message, session, step, step_end, text, turn
from turnlog import Session
from turnlog.events import SessionTitle
from turnlog.store import StoredSession, load
from turnlog.views import EventFilter, calls, documents, event_records, page, select, surface_events, window
from turnlog.views.filters import event_text


def found(log: Session, **conditions: Any) -> list[int]:
    return [one.seq for one in select(log, EventFilter(log, **conditions))]


def paged(log: Session, limit: int, **conditions: Any) -> list[int]:
    """The seqs of all pages."""
    keeps = EventFilter(log, **conditions)
    shown = page(log, keeps, limit=limit)
    seqs = [one.seq for one in shown.events]
    while shown.cursor is not None:
        shown = page(log, keeps, limit=limit, cursor=shown.cursor)
        seqs += [one.seq for one in shown.events]
    return seqs


def test_bc_023_a_large_number_is_found_and_shown_with_all_its_digits() -> None:
    log = load(case(23, "big-arg.jsonl"))
    calls_ = found(log, text="2512292042121000001", types=["tool/call"])
    assert calls_, "the number was rounded"
    assert all("2512292042121000001" in event_text(log.event(seq)) for seq in calls_)
    assert found(log, text="2512292042121000000") == []


def test_bc_037_what_the_model_is_shown_falls_with_a_compaction_and_what_was_spent_does_not() -> None:
    from turnlog.views import structure

    log = load(case(37, "after-compaction.jsonl"))

    def size(at: int) -> int:
        return sum(len(one.message_json) for one in log.message_events(at))

    assert [one.seq for one in surface_events(log).events] == [14]
    assert size(15) < size(14) / 2
    usage = structure(log).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (4200, 10)
    assert {one.seq: one.surface for one in event_records(log) if one.surface != "log-only"} == {
        2: "shadowed", 9: "shadowed", 14: "current",
    }  # fmt: skip


def test_bc_041_everything_about_a_tool_is_found_where_ids_repeat_and_each_result_in_its_step() -> None:
    log = load(case(41))
    about = EventFilter(log, tools=["*"], types=["tool/result"])
    said = [event_text(one) for one in select(log, about)]
    assert [next(word for word in ("date", "uptime", "whoami") if word in one) for one in said] == [
        "date", "uptime", "whoami",
    ]  # fmt: skip


def test_bc_041_of_two_calls_with_one_id_in_a_step_neither_is_lost_to_a_filter() -> None:
    log = load(case(41, "twice-in-one-step.jsonl"))
    about = found(log, tools=["*"])
    assert {kind: sum(log.event(seq).type == kind for seq in about) for kind in ("tool/call", "tool/result")} == {
        "tool/call": 2,
        "tool/result": 2,
    }


@pytest.mark.parametrize("count", [3_000, 30_000])
def test_bc_044_a_log_with_one_message_that_cites_everything_is_paged_without_a_gap(count: int) -> None:
    chunks = (chunk_line(text("x")) for _ in range(count))
    log = session(turn(), step(), *chunks, message(sources=list(range(2, count + 2))), step_end())
    assert paged(log, 1000) == list(range(count + 4))
    assert [one.seq for one in window(log, f"@{count + 2}", before=2, after=1).events] == list(range(count, count + 4))


def test_bc_056_a_nul_is_found_and_stops_nothing_behind_it() -> None:
    log = load(case(56))
    (with_nul,) = [
        one for one in documents(log) if one.text is not None and "\0" in one.text and one.type == "tool/result"
    ]
    assert found(log, text="\0", types=["tool/result"]) == [with_nul.seq]
    assert found(log, text="binary.") == [17]
    assert paged(log, 3) == list(range(20))


def test_bc_062_messages_that_share_one_id_are_told_one_by_one() -> None:
    log = load(case(62))
    shown = [one.seq for one in surface_events(log).events]
    assert len(shown) == 4
    assert found(log, surfaces=["current"]) == shown
    assert [[one.seq for one in window(log, f"@{seq}").events] for seq in shown] == [[seq] for seq in shown]


def test_bc_064_a_reader_with_a_cursor_sees_every_event_once_while_the_log_is_written() -> None:
    log = Session("s")

    def write(number: int) -> None:
        for _ in range(number):
            log.append(SessionTitle(value={"title": str(len(log))}))

    write(1000)
    keeps = EventFilter(log, types=["session/title"])
    seen: list[int] = []
    cursor = None
    for part in range(200):
        shown = page(log, keeps, limit=7, cursor=cursor)
        seen += [one.seq for one in shown.events]
        if part < 50:
            write(1)
        if shown.cursor is None:
            break
        cursor = shown.cursor
    assert seen == list(range(1050))


def test_bc_065_ends_without_a_start_are_among_the_records_and_open_calls_are_interrupted() -> None:
    orphans = load(case(65, "end-without-start.jsonl"))
    assert [one.seq for one in event_records(orphans)] == [one.seq for one in orphans.events]
    ends = [one.seq for one in orphans.events if one.type in ("step/end", "turn/end")]
    assert ends
    assert found(orphans, types=["*/end"]) == ends
    old = load(case(65, "open-turn-old.jsonl"))
    assert "running" not in {one.state for one in calls(old)}


def test_bc_068_both_questions_are_found_though_they_have_one_id() -> None:
    log = load(case(68, "two-asks-one-id.jsonl"))
    asked = found(log, types=["approval/asked"], tools=["bash"])
    assert [json.loads(log.event(seq).raw)["callId"] for seq in asked] == ["call_a", "call_b"]


def test_unknown_bookkeeping_beside_a_place_is_in_its_window() -> None:
    log: StoredSession = session(turn(), event("example/odd", {"x": 1}, ignorable=True), step(), step_end())
    assert [one.type for one in window(log, "@2", before=1).events] == ["example/odd", "step/start"]
