"""``events``: what is stored, filtered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.views.logs import LONG, SAMPLE, event, log, root, turn
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
    shown = run("events", SAMPLE, "--type", "nosuch")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err == "turnlog: no event matches\n"


def test_unknown_members_and_types_come_out_as_they_are(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    novel = event("acme/novel", {"x": [1, {"y": None}], "n": 1e100}, ignorable=True)
    path.write_bytes(log(turn(), novel))
    assert run("events", path, "--json", "--type", "acme/novel").json_lines == [{**novel, "seq": 1, "time": 1010}]


def test_json_lines_load_again_as_the_same_log(run: Callable[..., Ran]) -> None:
    name = LONG[0]
    lines = run("events", name, "--root", root(0), "--json").out
    header = {"type": "session", "version": 0, "id": name, "createdAt": 1, "delegationDepth": 0}
    again = load(f"{json.dumps(header)}\n{lines}".encode())
    stored = load(root(0) / "--home-dev-project--" / name)
    assert list(again.derive_messages()) == list(stored.derive_messages())
    assert again.events == stored.events
