"""What a log does and does not hold, said honestly."""

from __future__ import annotations

from pathlib import Path

import turnlog
from tests.log import sessions
from tests.views.logs import (
    SAMPLE,
    call,
    case,
    chunk,
    end,
    event,
    log,
    message,
    result,
    session,
    step,
    step_end,
    text,
    turn,
    user,
)
from turnlog.store.proven import Proof
from turnlog.views.captured import Captured, captured


def codes(found: Captured) -> list[str]:
    return [remark.code for remark in found.lacks]


def test_a_sound_log_still_has_no_environment_and_no_proof() -> None:
    found = captured(turnlog.load(SAMPLE))
    assert codes(found) == ["no-environment", "unsealed", "unattested-requests"]
    assert found["events"].number == 10
    assert found["tokens"].number == 1


def test_nothing_is_missing_from_a_log_that_is_proven_but_the_world_around_it() -> None:
    log = turnlog.load(SAMPLE)
    assert codes(captured(log, Proof("proven", 10, requests=1))) == ["no-environment"]
    assert captured(log, Proof("unsealed", 7, requests=1))["unsealed"][2:] == (3, 7)
    assert "altered" in captured(log, Proof("altered", 4, at=5))
    assert captured(log, Proof("shorter", 4, missing=3))["shorter"].number == 3


def test_a_torn_tail_and_the_closers_that_views_show_are_told() -> None:
    data = log(turn(), step(), user(), chunk(text("he")))
    found = captured(turnlog.load(data + b'{"type":"assistant/ch'))
    assert found["torn-tail"].number == 21
    assert found["open-turns"].seq == 0
    assert found["synthetic-closers"].seq == 4


def test_an_open_turn_of_a_live_writer_is_running_and_nothing_is_made_up() -> None:
    found = captured(sessions.in_step())
    assert "running" in found
    assert not {"open-turns", "synthetic-closers"} & set(codes(found))


def test_a_fork_says_what_it_inherited() -> None:
    parent = sessions.talk("a", "b")
    found = captured(parent.fork(1))
    assert found["inherited-prefix"].number == 1
    assert parent.id in found["inherited-prefix"].text


def test_what_was_streamed_before_a_crash_is_lost_in_formats_that_write_streams_late() -> None:
    crashed = [turn(), step(), user()]
    lost = captured(turnlog.load(log(*crashed, version=3)))["lost-chunks"]
    assert (lost.number, lost.seq) == (1, 1)
    assert "t1.s1" in lost.text
    assert "lost-chunks" not in captured(turnlog.load(log(*crashed)))
    whole = [*crashed, message(stream=[]), step_end(), end()]
    assert "lost-chunks" not in captured(turnlog.load(log(*whole, version=3)))


def test_redactions_are_counted_by_kind_wherever_they_are() -> None:
    log = session(turn(), step(), user("key [redacted:api-key] and [redacted:api-key]"),
                  call("c", '{"p":"[redacted:password]"}'), result("c"), step_end(), end())  # fmt: skip
    found = captured(log)["redactions"]
    assert (found.number, found.seq) == (3, 2)
    assert "api-key ×2, password ×1" in found.text


def test_clock_steps_lost_events_other_writers_and_plugins_are_told() -> None:
    log = session(
        turn(), {**user(), "time": 5}, event("acme/x", ignorable=True), event("acme/x", ignorable=True), end()
    )
    found = captured(log)
    assert found["clock-steps"][2:] == (1, 1)
    assert found["plugin-events"][2:] == (2, 2)
    assert "acme/x ×2" in found["plugin-events"].text


def test_missing_events_and_branches_of_damaged_logs_are_told(tmp_path: Path) -> None:
    lines = log(turn(), user(), user(id="v"), end()).splitlines(keepends=True)
    gap = captured(turnlog.load(b"".join([*lines[:2], *lines[3:]]), forensic=True))
    assert gap["missing-events"][2:] == (1, 1)
    twice = captured(turnlog.load(b"".join([*lines, lines[-1]]), forensic=True))
    assert twice["branches"].number == 1


def test_answers_without_sources_and_events_without_shape_are_told() -> None:
    log = session(turn(), step(), message(), step_end(), event("step/start", {"turn": "x"}), end())
    found = captured(log)
    assert found["unknown-sources"][2:] == (1, 2)
    assert found["unreadable-events"][2:] == (1, 4)


def test_replaced_messages_are_still_held() -> None:
    """BC-037."""
    found = captured(case("BC-037/after-compaction.jsonl"))
    assert found["replaced"].number == 1
