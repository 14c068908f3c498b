"""``turnlog trace``, ``turnlog show --captured`` and the filters of ``turnlog events``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran, golden
from tests.views.logs import CASES, LONG, SAMPLE, log, root, step, turn, user

Run = Callable[..., Ran]


def test_an_answer_shows_its_tokens_what_it_rests_on_and_what_it_led_to(run: Run) -> None:
    shown = run("trace", SAMPLE, "@5")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == golden("trace")


def test_one_direction_leaves_out_the_other(run: Run) -> None:
    assert "led to" not in run("trace", SAMPLE, "@5", "--back").out
    forward = run("trace", SAMPLE, "5", "--forward").out
    assert "led to" in forward
    assert "tokens" not in forward
    both = run("trace", SAMPLE, "@5", "--back", "--forward")
    assert both.code == 2
    assert "exclude each other" in both.err


def test_json_marks_what_is_inferred(run: Run) -> None:
    found = run("trace", SAMPLE, "call:call_1", "--json").json
    assert found["schemaVersion"] == 1
    assert [(one["firstSeq"], one["kind"], one["inferred"]) for one in found["back"]] == [
        (6, "cites", False),
        (5, "asked", True),
        (3, "cites", False),
    ]
    assert found["requests"][0]["inferred"] is True
    assert (found["unknown"], found["missing"], found["forward"]) == ([], [], [])
    tokens = run("trace", SAMPLE, "@5", "--json").json["tokens"]
    assert [one["loggedAt"][-5:] for one in tokens] == [".030Z", ".040Z"]
    assert set(run("trace", SAMPLE, "@5", "--json", "--forward").json) & {"back", "tokens"} == set()


def test_a_stream_inside_a_message_is_traced_by_its_places(run: Run) -> None:
    path = root(3) / "--home-dev-project--" / LONG[3]
    found = run("trace", path, "@13", "--json").json
    assert found["tokens"][0]["address"] == "@13/0"
    assert found["unknown"] == []


def test_an_address_that_is_not_there_lists_what_is(run: Run) -> None:
    shown = run("trace", SAMPLE, "call:nope")
    assert shown.code == 1
    assert "call:call_1" in shown.err


def test_what_a_log_holds_and_lacks(run: Run) -> None:
    shown = run("show", CASES / "BC-065" / "open-turn-old.jsonl", "--captured")
    assert shown.code == 0
    for told in ("holds", "no-environment", "open-turns", "synthetic-closers", "unsealed"):
        assert told in shown.out
    found = run("show", SAMPLE, "--captured", "--json").json
    assert [one["code"] for one in found["lacks"]] == ["no-environment", "unsealed", "unattested-requests"]
    assert found["holds"][0] == {"code": "events", "text": "events, as they were logged", "number": 10, "seq": None}


def test_a_torn_log_says_so_and_is_read_in_part(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(log(turn(), step(), user()) + b'{"type":')
    shown = run("show", path, "--captured")
    assert shown.code == 4
    assert "torn-tail" in shown.out


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [
        (["--tool", "bash"], [4, 5, 6, 7]),
        (["--tool", "read,b*"], [4, 5, 6, 7]),
        (["--tool", "bash", "--surface", "current"], [5, 7]),
        (["--text", "RUNOOB"], [2, 5, 6, 7]),
        (["--text", "runoob", "--type", "tool/*"], [6, 7]),
        (["--surface", "log-only", "--type", "tool/*"], [6]),
        (["--surface", "current,shadowed"], [2, 5, 7]),
    ],
)
def test_events_are_filtered_by_tool_text_and_place(run: Run, arguments: list[str], seqs: list[int]) -> None:
    assert [one["seq"] for one in run("events", SAMPLE, "--json", *arguments).json_lines] == seqs


def test_failures_are_filtered_and_their_absence_is_said(run: Run) -> None:
    nothing = run("events", SAMPLE, "--errors")
    assert (nothing.code, nothing.out) == (1, "")
    assert "no event matches" in nothing.err


def test_filters_that_mean_nothing_are_refused(run: Run) -> None:
    assert run("events", SAMPLE, "--text", "  ").code == 2
    wrong = run("events", SAMPLE, "--surface", "hidden")
    assert wrong.code == 2
    assert "current, shadowed, log-only" in wrong.err
