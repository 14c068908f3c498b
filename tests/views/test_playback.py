"""Playback: the recorded timing, without ever waiting a negative or a pointless time."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from tests.views import logs
from tests.views.logs import (
    LONG,
    SAMPLE,
    TOOLS,
    asks,
    call,
    case,
    chunk,
    end,
    event,
    finish,
    message,
    real,
    result,
    session,
    step,
    step_end,
    text,
    turn,
    usage,
    user,
)
from turnlog import load
from turnlog.events import StepEnd, StepStart, TurnEnd, TurnStart
from turnlog.events.reasons import Completed
from turnlog.log import Session
from turnlog.testing import FrozenClock
from turnlog.views import AddressUnknown, Frame, Playback, playback, resolve


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


def test_what_follows_a_packed_row_has_the_times_it_has_when_the_row_is_played() -> None:
    lines = logs.log(turn(), step()).splitlines(keepends=True)
    row = logs.packed("text-chunks", 2, ["a", "b", "c"], time0=1030, dt=[100, 200])
    later = [{**chunk(text("d")), "seq": 5, "time": 1370}, {**event("session/title"), "seq": 6, "time": 1350}]
    log = load(b"".join([*lines, row, *(json.dumps(one).encode() + b"\n" for one in later)]))
    played = [(one.recorded_ms, one.gap_ms, one.offset_ms) for one in Playback(log, as_stored=True)]
    assert played == [(0, None, 0), (10, None, 10), (20, None, 30), (100, 100, 130), (200, 200, 330), (40, 40, 370),
                      (0, None, 370)]  # fmt: skip
    for number, wanted in enumerate(played):
        sought = Playback(log, as_stored=True)
        sought.seek(number)
        (frame,) = sought.take()
        assert (frame.recorded_ms, frame.gap_ms, frame.offset_ms) == wanted


def test_a_clock_that_was_set_back_behind_a_packed_row_is_noticed_after_a_seek() -> None:
    lines = logs.log(turn(), step()).splitlines(keepends=True)
    row = logs.packed("text-chunks", 2, ["a", "b"], time0=1030, dt=[100])
    later = [{**event("session/title"), "seq": 4, "time": 1100}, {**event("session/title"), "seq": 5, "time": 1160}]
    log = load(b"".join([*lines, row, *(json.dumps(one).encode() + b"\n" for one in later)]))
    assert [one.recorded_ms for one in Playback(log)][4:6] == [0, 60]
    sought = Playback(log)
    sought.seek("@5")
    assert sought.take()[0].recorded_ms == 60


def test_closers_are_frames_marked_synthetic_and_left_out_of_the_stored_view() -> None:
    log = real(0, "crashed-session")
    synthetic = [frame.event.type for _wait, frame in playback(log) if frame.synthetic and frame.event is not None]
    assert synthetic == ["assistant/message", "step/end", "turn/end"]
    assert not any(frame.synthetic for _wait, frame in playback(log, as_stored=True))


@pytest.mark.parametrize(
    "how",
    [{"speed": -1.0}, {"speed": math.nan}, {"speed": math.inf}, {"idle_limit_ms": -1.0}, {"idle_limit_ms": math.nan}],
)
def test_a_negative_or_undefined_pace_is_refused_at_once(how: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        playback(load(SAMPLE), **how)  # type: ignore[arg-type]


def test_unreadable_chunks_are_played_as_the_events_they_are() -> None:
    log = session(turn(), step(), event("assistant/chunk", {"turn": 1}), chunk(text("x")), chunk(finish()))
    frames = [frame for _wait, frame in playback(log, as_stored=True)]
    assert [frame.event is not None for frame in frames] == [True, True, True, False, False]


# -- from one place to another --------------------------------------------------------------------------------------


def addresses(played: Playback) -> list[str]:
    return [frame.address for frame in played]


def test_playback_ends_where_it_is_told_included() -> None:
    log = load(SAMPLE)
    assert addresses(Playback(log, start="@2", until="@4")) == ["@2", "@3", "@4"]
    assert addresses(Playback(log, until="t1.s1")) == [f"@{seq}" for seq in range(9)]
    assert addresses(Playback(log, start="t1.s1", until="t1.s1")) == [f"@{seq}" for seq in range(1, 9)]
    assert addresses(Playback(log, start="call:call_1", until="call:call_1")) == ["@5", "@6", "@7"]
    long = real(4, LONG[4])
    assert addresses(Playback(long, start="@14/600", until="@14/602")) == ["@14/600", "@14/601", "@14/602"]
    assert addresses(Playback(long, start="@14", until="@14"))[-2:] == ["@14/603", "@14"]


def test_an_open_part_reaches_to_its_closers() -> None:
    log = real(0, "crashed-session")
    whole = [frame.number for frame in Playback(log)]
    assert [frame.number for frame in Playback(log, until="t2")] == whole
    assert not any(frame.synthetic for frame in Playback(log, until=f"@{len(log) - 1}"))


def test_an_end_before_the_start_and_places_that_do_not_exist_are_refused() -> None:
    log = load(SAMPLE)
    with pytest.raises(ValueError, match="@3 lies before @5"):
        Playback(log, start="@5", until="@3")
    with pytest.raises(AddressUnknown):
        Playback(log, start="t9")
    played = Playback(log)
    with pytest.raises(AddressUnknown):
        played.seek("@77")
    with pytest.raises(IndexError, match="up to frame 10; 11 lies behind it"):
        played.seek(11)
    with pytest.raises(IndexError, match="up to frame 4; @7 lies behind it"):
        Playback(log, until="@3").seek("@7")
    with pytest.raises(ValueError, match="granularity"):
        Playback(log, granularity="word")  # type: ignore[arg-type]


def test_the_beginning_of_the_block_step_or_turn_that_was_shown_can_be_gone_back_to() -> None:
    log = real(0, TOOLS[0])
    played = Playback(log)
    frames = list(played)
    at = next(frame.number for frame in frames if frame.event is not None and frame.event.type == "tool/call")
    played.seek(at + 1)
    assert frames[played.start_of("step")].event.type == "step/start"  # type: ignore[union-attr]
    assert frames[played.start_of("turn")].event.type == "turn/start"  # type: ignore[union-attr]
    assert played.start_of("token") == played.start_of("block") == at
    chunk = next(frame.number for frame in frames if frame.chunk is not None and frames[frame.number + 2].chunk)
    played.seek(chunk + 2)
    assert frames[played.start_of("block")].chunk is not None
    assert played.start_of("block") <= chunk + 1


def test_a_block_is_what_one_block_says_in_a_row() -> None:
    start = {"type": "block-start", "index": 0, "blockType": "text"}
    stop = {"type": "block-end", "index": 0, "block": {"type": "text", "text": "ab"}}
    thought = {"type": "reasoning-delta", "index": 0, "text": "hm"}
    said = [start, text("a"), text("b"), stop, start, thought, text("c"), text("d", 1), usage(), finish()]
    log = session(turn(), step(), *map(chunk, said))
    played = Playback(log, granularity="block", as_stored=True)
    groups = [[frame.seq for frame in group] for group in iter(played.take, ())]
    assert groups == [[0], [1], [2, 3, 4, 5], [6, 7], [8], [9], [10], [11]]


def test_lost_events_are_no_frames_and_belong_to_no_part() -> None:
    lines = logs.log(turn(), step(), user(), user(id="u2"), step(2), step_end(2)).splitlines(keepends=True)
    log = load(b"".join([*lines[:3], *lines[5:]]), forensic=True)
    assert addresses(Playback(log, as_stored=True)) == ["@0", "@1", "@4", "@5"]
    played = Playback(log, granularity="step", as_stored=True)
    assert [[frame.seq for frame in group] for group in iter(played.take, ())] == [[0], [1], [4, 5]]
    played.seek("@4")
    assert played.position == 2
    assert addresses(Playback(log, start="@1", until="@4")) == ["@1", "@4"]


# -- stalls ---------------------------------------------------------------------------------------------------------


def streamed(*gaps: int, before: int = 0) -> Session:
    """One answer whose chunks came with these gaps."""
    times = [1000, 1000, 1000 + before]
    for gap in gaps:
        times.append(times[-1] + gap)
    chunks = [{**chunk(text("x")), "time": time} for time in times[2:]]
    return session({**turn(), "time": 1000}, {**step(), "time": 1000}, *chunks)


def stalls(log: Session, **how: Any) -> list[tuple[str, int]]:
    return [(frame.address, frame.stall_ms) for frame in Playback(log, as_stored=True, **how) if frame.stall_ms]


def test_a_gap_longer_than_nearly_all_others_is_a_stall_with_its_length() -> None:
    assert stalls(streamed(*[20] * 150, 900, *[20] * 149)) == [("@153", 900)]


def test_a_gap_that_nobody_would_notice_is_no_stall() -> None:
    assert stalls(streamed(*[2] * 150, 400, *[2] * 149)) == []


def test_a_long_gap_is_a_stall_in_every_session() -> None:
    assert stalls(streamed(3001, 3500, 4000)) == [("@3", 3001), ("@4", 3500), ("@5", 4000)]
    assert stalls(streamed(2000, 2000, 2000)) == []


def test_the_measure_of_a_stall_can_be_given() -> None:
    log = streamed(100, 200, 5000)
    assert stalls(log, stall_ms=150) == [("@4", 200), ("@5", 5000)]
    assert stalls(log, stall_ms=math.inf) == []


def test_what_is_waited_before_an_answer_is_no_stall() -> None:
    assert stalls(streamed(10, 10, before=60_000)) == []
    two = session(turn(), step(), chunk(text("a")), {**message(), "time": 2000}, {**step_end(), "time": 2000},
                  {**step(2), "time": 90_000}, {**chunk(text("b"), step=2), "time": 95_000})  # fmt: skip
    assert stalls(two) == []


def test_a_stall_keeps_its_length_when_the_wait_is_cut() -> None:
    frame = list(Playback(streamed(9000), idle_limit_ms=1000, as_stored=True))[-1]
    assert (frame.stall_ms, frame.cut_ms, frame.wait_ms) == (9000, 8000, 1000)


# -- state ----------------------------------------------------------------------------------------------------------


def test_the_state_at_a_frame_is_what_the_session_had_come_to() -> None:
    log = session(
        turn(), step(), user("hi", "u1"), chunk(text("I will")), chunk(usage()), message(asks("c1"), sources=[3, 4]),
        call("c1"), result("c1"), step_end(), end(),
    )  # fmt: skip
    played = Playback(log)
    seen = {}
    for frame in played:
        state = played.state
        tokens = None if state.usage is None else state.usage.input_tokens
        calls = [(one.id, one.name, one.started) for one in state.open_calls]
        seen[frame.seq] = (state.turn, state.step, state.surface, len(state.messages), calls, tokens)
    assert seen == {
        0: (1, None, (), 0, [], None),
        1: (1, 1, (), 0, [], None),
        2: (1, 1, (2,), 1, [], None),
        3: (1, 1, (2,), 1, [], None),
        4: (1, 1, (2,), 1, [], 10),
        5: (1, 1, (2, 5), 2, [("c1", "bash", None)], 10),
        6: (1, 1, (2, 5), 2, [("c1", "bash", 6)], 10),
        7: (1, 1, (2, 5, 7), 3, [], 10),
        8: (1, 1, (2, 5, 7), 3, [], 10),
        9: (1, None, (2, 5, 7), 3, [], 10),
    }


def test_a_chunk_inside_an_event_was_there_before_the_event() -> None:
    log = real(4, LONG[4])
    played = Playback(log)
    played.seek("@14/600")
    played.take()
    state = played.state
    assert (state.length, len(state.messages)) == (14, len(log.derive_messages(at=14)))
    assert state.usage is None
    played.seek(played.stop)
    assert played.state.usage is not None


def test_before_the_first_frame_there_is_nothing() -> None:
    state = Playback(load(SAMPLE)).state
    assert (state.length, state.messages, state.surface, state.open_calls, state.usage, state.turn) == (
        0, (), (), (), None, None,
    )  # fmt: skip


def test_closers_are_part_of_the_state_as_they_are_shown() -> None:
    log = session(turn(), step(), user(), message(asks("c1")), call("c1"))
    played = Playback(log)
    shown = [(frame.synthetic, [one.id for one in played.state.open_calls], len(played.state.messages))
             for frame in played]  # fmt: skip
    assert shown == [
        (False, [], 0), (False, [], 0), (False, [], 1), (False, ["c1"], 2), (False, ["c1"], 2),
        (True, [], 3), (True, [], 3), (True, [], 3),
    ]  # fmt: skip
    assert list(played.state.messages) == list(log.derive_messages())


def test_calls_with_one_id_are_open_until_each_has_its_result() -> None:
    log = session(
        turn(), step(), message(asks("c"), asks("c")), call("c"), call("c"), result("c"), result("c", message_id="r2"),
    )  # fmt: skip
    played = Playback(log, as_stored=True)
    calls = [[(one.id, one.started) for one in played.state.open_calls] for _frame in played]
    assert calls[2:] == [[("c", None)] * 2, [("c", 3), ("c", None)], [("c", 3), ("c", 4)], [("c", 4)], []]


# -- cost -----------------------------------------------------------------------------------------------------------


class Counting(list[Any]):
    """Rows that count how often one is looked at."""

    looked = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.looked += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self) -> Iterator[Any]:
        self.looked += len(self)
        return super().__iter__()


def many(turns: int) -> Session:
    """A log of 40 events per turn, none packed."""
    events: list[dict[str, Any]] = []
    for number in range(1, turns + 1):
        words = [chunk(text("x"), number) for _ in range(33)]
        events += [turn(number), step(1, number), user(id=f"u{number}"), *words, chunk(usage(), number),
                   message(turn=number, id=f"a{number}"), step_end(1, number), end(number)]  # fmt: skip
    found = load(logs.log(*events))
    rows = Counting(found.rows.rows)
    found.rows.rows = rows
    return found


def test_seeking_and_state_look_at_no_more_of_a_longer_log() -> None:
    """The number of rows that are looked at is the same for logs of 4,000 and of 80,000 events."""
    looked = []
    for turns in (100, 2000):
        log = many(turns)
        played = Playback(log)
        assert played.stop == 40 * turns
        assert played.state_at(next(iter(Playback(log, start=f"@{len(log) - 1}")))).usage is not None  # opens
        rows = log.rows.rows
        assert isinstance(rows, Counting)
        most = 0
        for part in range(1, 40):
            rows.looked = 0
            played.seek(f"@{part * len(log) // 40 + part}")
            (frame,) = played.take()
            state = played.state_at(frame)
            assert state.usage is not None
            assert (state.turn, state.open_calls) == (frame.seq // 40 + 1, ())
            most = max(most, rows.looked)
        looked.append(most)
    assert looked[1] <= looked[0] + 5
    assert looked[0] < 300


# -- playing --------------------------------------------------------------------------------------------------------


def test_frames_come_when_their_time_has_come() -> None:
    async def main() -> list[str]:
        return [frame.address async for frame in Playback(load(SAMPLE))]

    begun = time.monotonic()
    assert anyio.run(main) == [f"@{seq}" for seq in range(10)]
    assert time.monotonic() - begun >= 0.09  # what the log spans; a slow machine only makes it longer


def test_a_live_session_is_followed_as_it_grows() -> None:
    clock = FrozenClock(1000, 10)
    live = Session("s", clock=clock)
    live.append(TurnStart(turn=1))

    async def main() -> list[tuple[str, int]]:
        played = Playback(live, speed=0)
        seen = []
        async for frame in played.play(follow=True):
            state = played.state
            seen.append((frame.address, state.length))
            if frame.seq == 0:
                live.append(StepStart(turn=1, step=1))
            elif frame.seq == 1:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(finish_turn)
            elif frame.seq == 3:
                return seen
        raise AssertionError("it ended by itself")

    async def finish_turn() -> None:
        await anyio.sleep(0)
        live.append(StepEnd(turn=1, step=1))
        live.append(TurnEnd(turn=1, reason=Completed()))

    assert anyio.run(main) == [("@0", 1), ("@1", 2), ("@2", 3), ("@3", 4)]


def test_a_group_of_a_live_session_waits_until_it_is_whole() -> None:
    live = Session("s", clock=FrozenClock(1000, 10))
    live.append(TurnStart(turn=1))
    live.append(StepStart(turn=1, step=1))
    played = Playback(live, granularity="turn")
    assert played.take(whole=True) == ()
    assert played.position == 0
    live.append(StepEnd(turn=1, step=1))
    live.append(TurnEnd(turn=1, reason=Completed()))
    assert [frame.seq for frame in played.take(whole=True)] == [0, 1, 2, 3]


def test_without_following_a_live_session_ends_where_it_is() -> None:
    live = Session("s", clock=FrozenClock(1000, 10))
    live.append(TurnStart(turn=1))
    played = Playback(live, speed=0)
    assert addresses(played) == ["@0"]
    live.append(StepStart(turn=1, step=1))
    assert addresses(played) == ["@1"]


def test_a_pause_holds_steps_pass_and_what_was_left_of_a_wait_is_waited_for() -> None:
    log = at(0, 60_000, 60_001, 60_002)

    async def main() -> list[str]:
        played = Playback(log)
        seen: list[str] = []

        async def watch() -> None:
            async for frame in played:
                seen.append(frame.address)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await settled()
            assert seen == ["@0"]  # the next one is a minute away
            played.pause()
            await settled()
            assert played.state.length == 1
            played.resume()
            await settled()
            assert seen == ["@0"]  # what was left of the minute is waited for
            played.pause()
            played.step()
            await settled()
            assert seen == ["@0", "@1"]
            assert played.paused
            played.step("turn")
            await settled()
            assert seen == ["@0", "@1", "@2"]
            played.resume()
        return seen

    assert anyio.run(main) == ["@0", "@1", "@2", "@3"]


def test_a_seek_or_another_speed_breaks_off_a_wait() -> None:
    log = at(0, 60_000, 120_000, 180_000)

    async def main() -> list[str]:
        played = Playback(log)
        seen: list[str] = []

        async def watch() -> None:
            async for frame in played:
                seen.append(frame.address)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await settled()
            played.seek("@2")
            await settled()
            assert seen == ["@0", "@2"]
            played.seek("@1")
            await settled()
            assert seen == ["@0", "@2", "@1"]
            played.pause()
            await settled()
            played.speed = 0
            played.resume()
        return seen

    assert anyio.run(main) == ["@0", "@2", "@1", "@2", "@3"]


async def settled() -> None:
    """Let the other task come as far as it can without waiting."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


def test_seeking_while_frames_of_a_group_are_given_leaves_the_rest_of_it() -> None:
    played = Playback(load(SAMPLE), granularity="turn")
    seen: list[Frame] = []
    for frame in played:
        seen.append(frame)
        if frame.seq == 3 and len(seen) == 4:
            played.seek("@8")
    assert [frame.seq for frame in seen] == [0, 1, 2, 3, 8, 9]
