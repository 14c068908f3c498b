"""The outline: everything is somewhere, and what was never closed is not shown as running for years."""

from __future__ import annotations

import pytest

from tests.log import sessions
from tests.views.logs import (
    CASES,
    LONG,
    case,
    chunk,
    end,
    event,
    log,
    message,
    real,
    session,
    step,
    step_end,
    text,
    turn,
    user,
)
from turnlog.log import AnyEvent, Session, SessionEvent
from turnlog.store import LogRefused, load
from turnlog.views import outline
from turnlog.views.outline import Chunks, Item, Step, Turn


def shape(items: list[Item] | list[AnyEvent | Chunks] | list[Step | AnyEvent | Chunks]) -> list[object]:
    """The items as nested lists of addresses and types."""
    return [
        [item.address, *shape(item.items)]
        if isinstance(item, Turn | Step)
        else f"{item.kind}×{item.number}"
        if isinstance(item, Chunks)
        else item.type
        for item in items
    ]


def of(log: Session) -> list[object]:
    return shape(outline(log).items)


def test_turns_hold_steps_and_steps_hold_what_happened_in_them() -> None:
    found = session(event("feedback/record"), turn(), step(), user(), message(), step_end(), step(2), message(),
                    step_end(2), end(), event("session/title"))  # fmt: skip
    assert of(found) == [
        "feedback/record",
        ["t1", ["t1.s1", "user/message", "assistant/message"], ["t1.s2", "assistant/message"]],
        "session/title",
    ]


def test_a_blocked_turn_has_no_steps() -> None:
    found = outline(session(turn(), event("hook/result"), end(reason={"kind": "blocked"})))
    assert shape(found.items) == [["t1", "hook/result"]]
    assert found.turns[0].steps == ()
    assert found.turns[0].state == "ended"


@pytest.mark.parametrize("version", [0, 3, 4])
def test_chunks_of_one_kind_in_a_row_are_one_item_in_every_format(version: int) -> None:
    (found,) = outline(real(version, LONG[version])).turns
    runs = [item for item in found.steps[0].items if isinstance(item, Chunks)]
    assert [(run.kind, run.number) for run in runs][:3] == [("block-start", 1), ("text-delta", 600), ("block-end", 1)]
    assert runs[1].address == {0: "@9", 3: "@13/1", 4: "@14/1"}[version]


def test_an_end_without_its_start_stands_where_it_was_logged() -> None:
    """BC-065: such rows were dropped."""
    found = outline(case("BC-065/end-without-start.jsonl"))
    assert shape(found.items) == ["text-delta×1", "step/end", "turn/end"]
    assert found.orphans == {1, 2}


def test_an_end_that_names_another_turn_or_step_is_an_orphan_of_its_place() -> None:
    found = outline(session(turn(), step(), step_end(7), step_end(), end(9), end()))
    assert shape(found.items) == [["t1", ["t1.s1", "step/end"], "turn/end"]]
    assert found.orphans == {2, 4}
    assert found.turns[0].state == "ended"


def test_what_a_dead_writer_left_open_is_interrupted_and_closed_by_synthetic_ends() -> None:
    """BC-065: it was shown as running for 43,000 hours."""
    found = outline(case("BC-065/open-turn-old.jsonl"))
    last = found.turns[-1]
    assert (last.state, last.steps[0].state) == ("interrupted", "interrupted")
    assert last.end is not None
    assert found.is_synthetic(last.end)
    assert last.end.time == 1760000000170  # the last event's
    synthetic = [one.type for one in last.steps[0].items if isinstance(one, SessionEvent) and found.is_synthetic(one)]
    assert synthetic == ["tool/result"]


def test_the_stored_view_has_no_synthetic_ends() -> None:
    found = outline(case("BC-065/open-turn-old.jsonl"), as_stored=True)
    assert found.turns[-1].end is None
    assert found.turns[-1].state == "interrupted"


def test_an_open_turn_is_running_while_its_writer_lives() -> None:
    found = outline(sessions.in_step())
    assert (found.turns[0].state, found.turns[0].steps[0].state, found.turns[0].end) == ("running", "running", None)


def test_a_turn_that_never_ended_before_the_next_one_is_interrupted() -> None:
    found = outline(session(turn(), step(), turn(2), end(2)))
    assert [(one.turn, one.state) for one in found.turns] == [(1, "interrupted"), (2, "ended")]
    assert found.turns[0].steps[0].state == "interrupted"


def test_boundaries_that_do_not_have_their_shape_are_shown_as_plain_events() -> None:
    found = outline(session(event("turn/start", {"turn": "one"}), chunk(text("x")), event("step/end")))
    assert shape(found.items) == ["turn/start", "text-delta×1", "step/end"]


def test_unknown_event_types_are_never_dropped() -> None:
    assert of(session(turn(), event("acme/novel", ignorable=True), end())) == [["t1", "acme/novel"]]


def test_every_event_of_every_readable_case_is_in_its_outline() -> None:
    paths = sorted(CASES.rglob("*.jsonl*"))
    assert len(paths) > 40
    for path in paths:
        try:
            found = load(path, forensic=True)
        except LogRefused:
            continue  # not even a header
        counted = sum(_count(item) for item in outline(found, as_stored=True).items)
        assert counted == sum(1 for _event in found.events), path


def test_an_empty_log_has_an_empty_outline() -> None:
    assert outline(load(log())).items == []


def _count(item: object) -> int:
    if isinstance(item, Turn | Step):
        return (item.start is not None) + (item.end is not None) + sum(map(_count, item.items))
    if isinstance(item, Chunks):
        return item.number if item.k is None else 0
    return 1
