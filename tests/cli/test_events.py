"""``events``: what is stored, filtered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran, spawn
from tests.views.logs import (
    CASES,
    LONG,
    SAMPLE,
    TOOLS,
    end,
    event,
    log,
    real,
    root,
    step,
    step_end,
    turn,
    user,
)
from turnlog import load


def seqs(shown: Ran) -> list[int]:
    return [line["seq"] for line in shown.json_lines]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--type", "tool/call"], [6]),
        (["--type", "tool/*"], [6, 7]),
        (["--type", "tool/call,turn/end"], [6, 9]),
        (["--type", "tool/call", "--type", "turn/end"], [6, 9]),
        (["--from", "7"], [7, 8, 9]),
        (["--from", "@3", "--to", "@5"], [3, 4, 5]),
        (["--to", "call:call_1", "--type", "tool/*"], [6, 7]),
        (["--turn", "1", "--to", "2"], [0, 1, 2]),
        (["--turn", "t1", "--from", "8"], [8, 9]),
        (["--from", "8", "--to", "5000"], [8, 9]),
        (["--limit", "2"], [0, 1]),
    ],
)
def test_filters_are_joined_by_and_and_their_values_by_or(
    run: Callable[..., Ran], options: list[str], expected: list[int]
) -> None:
    assert seqs(run("events", SAMPLE, "--json", *options)) == expected
    assert len(run("events", SAMPLE, *options).out.splitlines()) == len(expected)


def test_packed_chunks_are_events_of_their_own(run: Callable[..., Ran]) -> None:
    name = LONG[0]
    assert seqs(run("events", name, "--root", root(0), "--json")) == list(range(615))
    assert seqs(run("events", name, "--root", root(0), "--json", "--from", "100", "--to", "102")) == [100, 101, 102]
    assert seqs(run("events", name, "--root", root(0), "--json", "--type", "turn/*")) == [1, 614]


def test_stored_events_have_no_closers(run: Callable[..., Ran]) -> None:
    assert seqs(run("events", "crashed", "--root", root(0), "--json")) == list(range(89))


def test_what_the_limit_leaves_out_is_said_beside_the_data(run: Callable[..., Ran]) -> None:
    shown = run("events", SAMPLE, "--limit", "3")
    assert (shown.code, len(shown.out.splitlines())) == (0, 3)
    assert "more than 3" in shown.err
    assert run("events", SAMPLE, "--limit", "10").err == ""


def test_no_match_is_nothing_found(run: Callable[..., Ran]) -> None:
    shown = run("events", SAMPLE, "--type", "approval/asked")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == "turnlog: no event matches\n"


def test_unknown_members_and_types_come_out_as_they_are(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    novel = event("acme/novel", {"x": [1, {"y": None}], "n": 1e100}, ignorable=True)
    path.write_bytes(log(turn(), novel))
    assert run("events", path, "--json", "--type", "acme/novel").json_lines == [{**novel, "seq": 1, "time": 1010}]


@pytest.mark.parametrize(
    ("type", "said"),
    [
        ("tool/cal", "there is no event type 'tool/cal'; did you mean tool/call"),
        ("nosuch", "there is no event type 'nosuch'; types look like tool/call, or tool/* for several"),
        ("tol/*", "there is no event type 'tol/*'"),
        ("", "one is empty"),
        ("tool/call,", "one is empty"),
    ],
)
def test_a_type_that_nothing_knows_is_wrong_usage_and_names_those_near_it(
    run: Callable[..., Ran], type: str, said: str
) -> None:
    shown = run("events", SAMPLE, "--type", type)
    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


def test_types_of_other_formats_and_of_plugins_in_the_log_are_known(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(log(turn(), event("acme/novel", ignorable=True)))
    assert run("events", path, "--type", "acme/*").code == 0
    assert run("events", path, "--type", "assistant/attempt").code == 1


# -- logs made of the lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 3, 4])
def test_json_lines_with_their_header_are_the_same_log_in_its_own_format(run: Callable[..., Ran], version: int) -> None:
    for name in (TOOLS[version], LONG[version]):
        shown = run("events", name, "--root", root(version), "--json", "--header")
        assert (shown.code, shown.json_lines[0]["type"], shown.json_lines[0]["id"]) == (0, "session", name)
        again, stored = load(shown.out.encode()), real(version, name)
        assert (again.format, again.header) == (stored.format, stored.header)
        assert again.events == stored.events
        assert list(again.derive_messages()) == list(stored.derive_messages())


def test_a_replace_is_spelled_as_its_format_spells_it(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    later = {**user("new", id="v"), "surfaceOp": {"op": "replace", "startSeq": 1, "endSeq": 1}, "sourceEventSeqs": [1]}
    path.write_bytes(log(turn(), user(), later, end(), version=3))
    shown = run("events", path, "--json", "--header")
    assert shown.json_lines[3]["surfaceOp"] == {"op": "replace", "startSeq": 1, "endSeq": 1}
    assert load(shown.out.encode()).events == load(path).events


def test_without_the_header_the_lines_are_refused_and_the_sentence_says_how_to_get_it() -> None:
    lines = spawn("events", TOOLS[0], "--root", root(0), "--json").stdout
    for command in ("verify", "show", "messages"):
        done = spawn(command, "-", stdin=lines)
        assert done.returncode == 3
        said = (done.stdout + done.stderr).decode()
        assert "standard input" in said
        assert "no header" in said
        assert "turnlog events SESSION --json --header" in said
        assert "-:" not in said
    whole = spawn("events", TOOLS[0], "--root", root(0), "--json", "--header").stdout
    assert spawn("verify", "-", stdin=whole).returncode == 0


def test_the_lines_of_the_sample_need_no_header_because_it_has_none(run: Callable[..., Ran]) -> None:
    lines = run("events", SAMPLE, "--json").out.encode()
    assert spawn("verify", "-", stdin=lines).returncode == 0
    shown = run("events", SAMPLE, "--json", "--header")
    assert (shown.code, shown.out) == (2, "")
    assert "has no header line" in shown.err


def test_a_file_that_lost_its_header_is_shown_with_a_warning(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(log(turn(), user(), end()).partition(b"\n")[2])
    shown = run("show", path)
    assert (shown.code, shown.out.splitlines()[0]) == (4, "[turn/start] turn=1")
    assert "there is no header" in shown.err


# -- what a second writer wrote -------------------------------------------------------------------------------------

RACE = CASES / "BC-005" / "forked-log.jsonl"


def test_events_that_cannot_follow_the_log_come_after_it_under_a_heading(run: Callable[..., Ran]) -> None:
    shown = run("events", RACE)
    lines = shown.out.splitlines()
    (heading,) = [place for place, line in enumerate(lines) if not line.startswith("@")]
    assert shown.code == 4
    assert lines[heading].startswith("branch 1: 6 events that cannot follow the log, at ")
    assert [line.split()[0] for line in lines[:heading]] == [f"@{seq}" for seq in range(8)]
    assert [line.split()[0] for line in lines[heading + 1 :]] == [f"@{seq}" for seq in range(5, 11)]


def test_in_json_each_of_them_says_its_branch(run: Callable[..., Ran]) -> None:
    lines = run("events", RACE, "--json").json_lines
    assert [(line["seq"], line.get("branch")) for line in lines] == [
        *((seq, None) for seq in range(8)),
        *((seq, 1) for seq in range(5, 11)),
    ]
    stored = [json.loads(line) for line in RACE.read_text().splitlines()[1:]]
    assert [{name: value for name, value in line.items() if name != "branch"} for line in lines] == stored


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--type", "tool/result"], [(5, None), (5, 1)]),
        (["--from", "7"], [(7, None), (7, 1), (8, 1), (9, 1), (10, 1)]),
        (["--to", "5", "--type", "tool/*"], [(4, None), (5, None), (5, 1)]),
        (["--turn", "1", "--type", "turn/*"], [(0, None), (7, None), (10, 1)]),
        (["--since", "2025-10-09T08:53:24.100Z"], [(9, 1), (10, 1)]),
        (["--limit", "9", "--from", "7"], [(7, None), (7, 1), (8, 1), (9, 1), (10, 1)]),
        (["--limit", "2", "--from", "7"], [(7, None), (7, 1)]),
    ],
)
def test_filters_hold_for_branches_too(
    run: Callable[..., Ran], options: list[str], expected: list[tuple[int, int | None]]
) -> None:
    lines = run("events", RACE, "--json", *options).json_lines
    assert [(line["seq"], line.get("branch")) for line in lines] == expected


def test_a_turn_that_only_a_branch_has_is_found(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    second = [{**one, "seq": 2 + seq, "time": 5000} for seq, one in enumerate((turn(2), event("acme/x"), end(2)))]
    path.write_bytes(log(turn(), step(), step_end(), end(), *second))
    lines = run("events", path, "--json", "--turn", "t2").json_lines
    assert [(line["type"], line["branch"]) for line in lines] == [("turn/start", 1), ("acme/x", 1), ("turn/end", 1)]
    shown = run("events", path, "--turn", "3")
    assert (shown.code, shown.out) == (1, "")
    assert "has no t3" in shown.err


def test_other_commands_say_that_there_are_branches(run: Callable[..., Ran]) -> None:
    assert "turnlog events lists 6 more that cannot follow the log" in run("show", RACE).err
    assert "lists 6 more" not in run("events", RACE).err


def test_a_window_is_a_place_and_so_many_events_before_and_after_it(run: Callable[..., Ran]) -> None:
    assert seqs(run("events", SAMPLE, "--json", "--around", "@5", "--window", "1")) == [4, 5, 6]
    assert seqs(run("events", SAMPLE, "--json", "--around", "7")) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert seqs(run("events", SAMPLE, "--json", "--around", "@7", "--window", "2", "--type", "tool/*")) == [6, 7]
    assert seqs(run("events", SAMPLE, "--json", "--around", "@5", "--window", "2", "--from", "5")) == [5, 6, 7]


def test_a_window_that_cannot_be_is_refused_with_what_can_be(run: Callable[..., Ran]) -> None:
    for options, said in (
        (["--around", "@10"], "no event @10; there are @0 to @9"),
        (["--around", "@5", "--window", "51"], "--window takes a whole number of events from 0 to 50, not 51"),
        (["--around", "@5", "--window", "-1"], "from 0 to 50, not -1"),
        (["--window", "3"], "--window goes with --around"),
    ):
        shown = run("events", SAMPLE, *options)
        assert (shown.out, shown.code) == ("", 1 if "no event" in said else 2)
        assert said in shown.err


def test_a_limit_says_where_the_rest_begins_and_so_every_event_is_reached_once(run: Callable[..., Ran]) -> None:
    told: list[int] = []
    start = "@0"
    while True:
        shown = run("events", SAMPLE, "--json", "--limit", "3", "--from", start, "--type", "*/*")
        told += seqs(shown)
        if not shown.err:
            break
        start = shown.err.split("--from ")[1].strip()
    assert told == list(range(10))
