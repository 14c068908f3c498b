"""``show`` and ``replay`` on richer logs than the sample."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.running import Ran, golden, on_terminal, spawn
from tests.views.logs import CASES, LONG, SAMPLE, TOOLS, event, log, root, step, turn


@pytest.mark.parametrize("version", [0, 3, 4])
def test_equal_chunks_in_a_row_are_one_line_in_every_format(run: Callable[..., Ran], version: int) -> None:
    assert run("show", LONG[version], "--root", root(version)).out == (
        "[turn/start] turn=1\n"
        "  [step/start] turn=1 step=1\n"
        "  chunk: block-start\n"
        "  chunk: text-delta ×600\n"
        "  chunk: block-end\n"
        "  chunk: usage\n"
        "  chunk: finish\n"
        "  [step/end] turn=1 step=1\n"
        "[turn/end] turn=1 reason={'kind': 'completed'}\n"
    )


def test_what_an_outline_leaves_out_is_said_at_a_terminal_only(run: Callable[..., Ran]) -> None:
    environment = {"PAGER": "cat", "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "200"}
    out, code = on_terminal(["show", str(SAMPLE)], environment)
    beside = "usage: 1 request, 12 in, 4 out, cost unknown\nturnlog: --all shows 3 more events\n"
    assert (out.decode(), code) == (golden("show") + beside, 0)
    assert len(run("show", SAMPLE, "--all").out.splitlines()) == len(golden("show").splitlines()) + 3
    out, _code = on_terminal(["show", str(SAMPLE), "--all"], environment)
    assert b"turnlog:" not in out


def test_what_a_dead_writer_left_open_is_closed_and_marked(run: Callable[..., Ran]) -> None:
    shown = run("show", "crashed", "--root", root(0))
    assert shown.code == 0
    assert shown.out.splitlines()[-2:] == [
        "  [step/end] turn=2 step=1 (synthetic: interrupted, not repaired)",
        "[turn/end] turn=2 reason={'kind': 'interrupted'} (synthetic: interrupted, not repaired)",
    ]
    assert "synthetic" not in run("show", "crashed", "--root", root(0), "--as-stored").out


def test_ends_without_a_start_are_shown_at_top_level(run: Callable[..., Ran]) -> None:
    """BC-065"""
    assert run("show", CASES / "BC-065" / "end-without-start.jsonl").out == (
        "chunk: text-delta\n"
        "[step/end] turn=5 step=2 (its start is not in the log)\n"
        "[turn/end] turn=5 reason={'kind': 'completed'} (its start is not in the log)\n"
    )


def test_failures_are_visible_without_asking_for_more(run: Callable[..., Ran]) -> None:
    assert "  tool/result: call_3_0 failed: " in run("show", TOOLS[4], "--root", root(4)).out
    assert "  assistant/attempt: failed MALFORMED_RESPONSE: " in run("show", "session-380d", "--root", root(4)).out


def test_all_adds_a_line_for_every_other_event(run: Callable[..., Ran]) -> None:
    short = run("show", TOOLS[4], "--root", root(4)).out.splitlines()
    full = run("show", TOOLS[4], "--root", root(4), "--all").out.splitlines()
    assert [line for line in full if line in short][: len(short)] == short
    assert "  user/message: #tools please" in full
    assert "  job/registered" in full


def test_the_json_outline_has_states_times_and_attempts(run: Callable[..., Ran]) -> None:
    document = run("show", "crashed", "--root", root(0), "--json").json
    assert document["schemaVersion"] == 1
    turns = [item for item in document["outline"] if item["kind"] == "turn"]
    assert [one["state"] for one in turns] == ["ended", "interrupted"]
    (open_step,) = [item for item in turns[1]["items"] if item["kind"] == "step"]
    assert (open_step["lastSeq"], open_step["endedAt"]) == (88, "2026-11-30T18:55:25.946Z")
    assert open_step["attempts"][0]["outcome"] == "interrupted"
    assert turns[0]["startedAt"].endswith("Z")


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_outline_and_the_turn_say_the_same_seqs_and_times(run: Callable[..., Ran], version: int) -> None:
    outline = run("show", TOOLS[version], "--root", root(version), "--json").json["outline"]
    (shown,) = [item for item in outline if item["kind"] == "turn"]
    asked = run("turn", TOOLS[version], "1", "--root", root(version), "--json").json
    for name in ("address", "state", "firstSeq", "lastSeq", "startedAt", "endedAt", "durationMs", "reason"):
        assert shown[name] == asked[name], name
    steps = [item for item in shown["items"] if item["kind"] == "step"]
    assert [(one["address"], one["firstSeq"], one["lastSeq"]) for one in steps] == [
        (one["address"], one["firstSeq"], one["lastSeq"]) for one in asked["steps"]
    ]


def test_an_outline_of_a_log_with_a_hole_counts_and_ends_at_what_is_there(run: Callable[..., Ran]) -> None:
    document = run("show", CASES / "BC-049" / "frame-missing-middle.jsonl.zstd", "--json").json
    assert document["session"]["events"] == 22
    turns = [(one["firstSeq"], one["lastSeq"]) for one in document["outline"] if one["kind"] == "turn"]
    assert turns == [(0, 10), (22, 32)]


@pytest.mark.parametrize("command", ["show", "turn", "call", "sources", "replay"])
def test_views_name_moments_and_spans_alike(run: Callable[..., Ran], command: str) -> None:
    words = {"turn": ["1"], "call": ["call_1"], "sources": ["@4"]}.get(command, [])
    wire = {"call", "result", "events", "event", "closers", "approvals", "others", "chunk", "header"}

    def names(value: object) -> Iterator[str]:
        if isinstance(value, list):
            for one in value:
                yield from names(one)
        elif isinstance(value, dict):
            for name, member in value.items():
                yield name
                if name not in wire or (isinstance(member, dict) and "loggedAt" in member):
                    yield from names(member)

    shown = run(command, SAMPLE, *words, "--json").json_lines
    assert all(one["schemaVersion"] == 1 for one in shown)
    found = set(names(shown))
    assert not found & {"at", "time", "time0", "startSeq", "endSeq"}
    assert found & {"loggedAt", "startedAt"}


def test_replay_streams_words_and_marks_what_nobody_saw(run: Callable[..., Ran]) -> None:
    shown = run("replay", "crashed", "--root", root(0), "--speed", "0")
    assert "  assistant: All done. Here is the final answer.\n" in shown.out
    assert "  assistant: s0 s1 s2 " in shown.out
    assert shown.out.endswith("reason={'kind': 'interrupted'} (synthetic: interrupted, not repaired)\n")


def test_replay_json_gives_each_frame_with_its_wait_and_does_not_wait(run: Callable[..., Ran]) -> None:
    frames = run("replay", LONG[4], "--root", root(4), "--json", "--speed", "0.001", "--idle-limit", "inf").json_lines
    assert len(frames) == 17 + 604
    assert all(list(frame)[:3] == ["schemaVersion", "waitMs", "address"] for frame in frames)
    assert frames[0]["waitMs"] == 0
    assert sum(frame["waitMs"] for frame in frames) > 10_000
    assert frames[20]["address"] == "@14/6"
    assert frames[20]["chunk"]["type"] == "text-delta"


def test_replay_begins_where_it_is_told_and_says_what_it_leaves_out(run: Callable[..., Ran]) -> None:
    shown = run("replay", "multi-turn", "--root", root(3), "--from", "t5", "--speed", "0")
    assert shown.out.startswith("[turn/start] turn=5\n")
    shown = run("replay", "crashed", "--root", root(0), "--speed", "0", "--idle-limit", "0.05")
    assert "of waiting left out" in shown.out


@pytest.mark.parametrize("pace", [["--speed", "-1"], ["--speed", "nan"], ["--idle-limit", "-1"], ["--speed", "fast"]])
def test_replay_refuses_a_pace_that_is_none(run: Callable[..., Ran], pace: list[str]) -> None:
    shown = run("replay", "crashed", "--root", root(0), *pace)
    assert (shown.code, shown.out) == (2, "")


def test_replay_at_the_recorded_pace_takes_the_recorded_time() -> None:
    begun = time.monotonic()
    done = spawn("replay", TOOLS[0], "--root", root(0))
    assert done.returncode == 0
    assert time.monotonic() - begun >= 0.1  # the log spans more; a slow machine only makes it longer


def test_a_log_without_events_is_shown_as_such(run: Callable[..., Ran], tmp_path: Path) -> None:
    empty = tmp_path / "log.jsonl"
    empty.write_bytes(log())
    for command in ("show", "replay", "events"):
        shown = run(command, empty)
        assert (shown.code, shown.out) == (1, "")
        assert "no events" in shown.err
    shown = run("show", empty, "--json")
    assert (shown.code, shown.json["outline"], shown.json["session"]["events"]) == (1, [], 0)


def test_an_unknown_event_is_shown_by_its_type(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(log(turn(), step(), event("acme/novel", ignorable=True)))
    assert "  acme/novel\n" in run("show", path).out


@pytest.mark.skipif(sys.platform == "win32", reason="file locks")
def test_a_session_whose_writer_lives_is_running_and_gets_no_closers(run: Callable[..., Ran], tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "session.jsonl"
    path.write_bytes(log(turn(), step()))
    with (tmp_path / "session.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shown = run("show", path)
        assert shown.out == "[turn/start] turn=1\n  [step/start] turn=1 step=1\n"
        assert "t1 is running" in shown.err
        assert "running" in run("turn", path, "1").err
    assert "synthetic" in run("show", path).out
