"""Which seqs a log has, and what holes it has."""

from __future__ import annotations

import turnlog
from tests.views.logs import CASES, LONG, end, event, log, packed, real, step, step_end, turn
from turnlog.views.outline import Chunks, chunks_in, outline
from turnlog.views.queries import turn as turn_events
from turnlog.views.rows import holes, ranges_of, seq_ranges, slots
from turnlog.views.streams import embedded, embedded_runs


def test_a_sound_log_is_one_range_and_an_empty_one_none() -> None:
    session = real(0, LONG[0])
    assert seq_ranges(session) == [(0, 614)]
    assert holes(seq_ranges(session)) == []
    empty = turnlog.load(log())
    assert (seq_ranges(empty), holes([])) == ([], [])


def test_a_hole_lies_between_ranges_also_after_a_packed_run() -> None:
    run = packed("text-chunks", 2, ["a", "b", "c"], time0=1020, dt=[1, 1])
    data = log(turn(), step()) + run + log(*(event("acme/x") for _ in range(9)), end()).splitlines(keepends=True)[-1]
    session = turnlog.load(data, forensic=True)
    ranges = seq_ranges(session)
    assert ranges == [(0, 4), (9, 9)]
    assert ranges == ranges_of(session.events)
    assert list(map(str, ranges)) == ["@0-@4", "@9"]
    assert [one.size for one in ranges] == [5, 1]
    assert holes(ranges) == [(5, 8)]
    assert holes(ranges, base=-2)[0] == (-2, -1)


def test_a_turn_that_the_log_lost_the_end_of_ends_with_its_last_event() -> None:
    session = turnlog.load(CASES / "BC-049" / "frame-missing-middle.jsonl.zstd", forensic=True)
    first, second = outline(session).turns
    assert (first.turn, second.turn) == (1, 3)
    lost = turnlog.load(log(turn(), event("acme/x"), {**turn(2), "seq": 7}, end(2)), forensic=True)
    span = turn_events(lost, 1).span
    assert (span.first, span.stop, span.ended) == (0, 2, False)


def test_the_end_of_a_turn_is_in_none_of_its_steps() -> None:
    session = turnlog.load(log(turn(), step(), event("acme/x"), end(), turn(2), step(1, 2), step_end(1, 2), end(2)))
    (unclosed,) = turn_events(session, 1).steps
    (closed,) = turn_events(session, 2).steps
    assert (unclosed.first, unclosed.stop, unclosed.ended) == (1, 3, False)
    assert (closed.first, closed.stop, closed.ended) == (5, 7, True)


def test_chunks_have_the_time_of_their_first_one_in_every_format() -> None:
    for version in (0, 3, 4):
        session = real(version, LONG[version])
        for slot in slots(session):
            for found in chunks_in(slot):
                assert isinstance(found, Chunks)
                if found.k is None:
                    assert found.time == session.event(found.seq).time
                else:
                    assert found.time == embedded(session.event(found.seq))[found.k].time


def test_runs_inside_an_event_count_its_chunks() -> None:
    session = real(4, LONG[4])
    for slot in slots(session):
        if slot.row.type == "assistant/message":
            held = session.event(slot.seq)
            assert sum(run.number for run in embedded_runs(held)) == len(embedded(held))
