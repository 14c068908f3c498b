"""Playback: the recorded timing, without ever waiting a negative or a pointless time."""

from __future__ import annotations

import math

import pytest

from tests.views.logs import (
    LONG,
    SAMPLE,
    TOOLS,
    case,
    chunk,
    end,
    event,
    finish,
    message,
    real,
    session,
    step,
    step_end,
    text,
    turn,
)
from turnlog import load
from turnlog.log import Session
from turnlog.views import playback, resolve


def waits(log: Session, **how: float) -> list[float]:
    return [wait for wait, _frame in playback(log, **how)]  # type: ignore[arg-type]


def at(*times: int) -> Session:
    """A log whose events happened at these times."""
    return session(*[{**event("session/title"), "time": time} for time in times])


def test_every_event_and_chunk_is_one_frame_at_its_recorded_time() -> None:
    frames = list(playback(load(SAMPLE)))
    assert [frame.address for _wait, frame in frames] == [f"@{seq}" for seq in range(10)]
    assert [wait for wait, _frame in frames] == [0, *[10] * 9]
    assert [frame.chunk is not None for _wait, frame in frames] == [seq in (3, 4) for seq in range(10)]


def test_the_total_wait_is_the_recorded_duration() -> None:
    for log in (real(0, TOOLS[0]), real(0, LONG[0]), case("BC-041/session.jsonl")):
        first, last = log.events[0].time, log.events[-1].time
        assert sum(waits(log)) == last - first


@pytest.mark.parametrize("version", [3, 4])
def test_a_stream_inside_its_message_is_played_before_it_and_costs_no_extra_time(version: int) -> None:
    log = real(version, LONG[version])
    frames = [frame for _wait, frame in playback(log)]
    addresses = [frame.address for frame in frames]
    first = addresses.index(f"@{frames[-3].seq}/0")
    assert addresses[first : first + 604] == [f"@{frames[-3].seq}/{k}" for k in range(604)]
    assert addresses[first + 604] == f"@{frames[-3].seq}"
    times = [frame.time for frame in frames]
    assert sum(waits(log)) == max(times) - times[0]


def test_a_clock_that_was_set_back_gives_no_wait_and_goes_on_from_there() -> None:
    assert waits(at(1000, 1010, 400, 405, 500)) == [0, 10, 0, 5, 95]


def test_what_was_logged_while_a_stream_ran_overlaps_it() -> None:
    stream = [{"type": "text-chunks", "time0": 1015, "index": 0, "dt": [10, 20, 30], "texts": ["a", "b", "c", "d"]}]
    answer = {**message(stream=stream), "time": 1080}
    log = session(turn(), step(), event("session/title", {}, time=1040), answer, {**step_end(), "time": 1090},
                  {**end(), "time": 1090}, version=3)  # fmt: skip
    assert [frame.address for _wait, frame in playback(log)] == [
        "@0", "@1", "@2", "@3/0", "@3/1", "@3/2", "@3/3", "@3", "@4", "@5",
    ]  # fmt: skip
    assert waits(log) == [0, 10, 30, 0, 0, 5, 30, 5, 10, 0]


def test_a_clock_that_was_set_back_inside_a_stream_does_not_freeze_it() -> None:
    stream = [{"type": "text-chunks", "time0": 5000, "index": 0, "dt": [10, -4000, 10, 10], "texts": list("abcde")}]
    log = session(turn(), step(), {**message(stream=stream), "time": 1050}, version=3)
    assert waits(log)[2:7] == [3990, 10, 0, 10, 10]


def test_speed_divides_waits_and_zero_leaves_them_out() -> None:
    log = at(0, 100, 300)
    assert waits(log, speed=4) == [0, 25, 50]
    assert waits(log, speed=0.5) == [0, 200, 400]
    assert waits(log, speed=0) == [0, 0, 0]


def test_long_waits_are_cut_to_the_limit_and_the_cut_is_marked() -> None:
    frames = list(playback(at(0, 100, 90_000), idle_limit_ms=2000, speed=2))
    assert [(wait, frame.cut_ms) for wait, frame in frames] == [(0, 0), (50, 0), (1000, 87_900)]


def test_playback_can_begin_anywhere_and_waits_for_nothing_before_its_first_frame() -> None:
    log = load(SAMPLE)
    frames = list(playback(log, start=resolve(log, "@4")))
    assert [frame.seq for _wait, frame in frames] == [4, 5, 6, 7, 8, 9]
    assert frames[0][0] == 0
    long = real(4, LONG[4])
    frames = list(playback(long, start=resolve(long, "@14/600")))
    assert [frame.address for _wait, frame in frames][:5] == ["@14/600", "@14/601", "@14/602", "@14/603", "@14"]


def test_playback_can_begin_inside_a_packed_row() -> None:
    log = real(0, LONG[0])
    frames = list(playback(log, start=resolve(log, "@300")))
    assert [frame.seq for _wait, frame in frames] == list(range(300, 615))


def test_closers_are_frames_marked_synthetic_and_left_out_of_the_stored_view() -> None:
    log = real(0, "crashed-session")
    synthetic = [frame.event.type for _wait, frame in playback(log) if frame.synthetic and frame.event is not None]
    assert synthetic == ["assistant/message", "step/end", "turn/end"]
    assert not any(frame.synthetic for _wait, frame in playback(log, as_stored=True))


@pytest.mark.parametrize(
    "how", [{"speed": -1.0}, {"speed": math.nan}, {"idle_limit_ms": -1.0}, {"idle_limit_ms": math.nan}]
)
def test_a_negative_or_undefined_pace_is_refused_at_once(how: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        playback(load(SAMPLE), **how)  # type: ignore[arg-type]


def test_unreadable_chunks_are_played_as_the_events_they_are() -> None:
    log = session(turn(), step(), event("assistant/chunk", {"turn": 1}), chunk(text("x")), chunk(finish()))
    frames = [frame for _wait, frame in playback(log, as_stored=True)]
    assert [frame.event is not None for frame in frames] == [True, True, True, False, False]
