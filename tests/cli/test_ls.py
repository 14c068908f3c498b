"""``ls``: one bad session never hides the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.views.logs import CASES, root

BAD = CASES / "BC-032" / "root"


def test_sessions_are_listed_newest_first_with_full_ids(run: Callable[..., Ran]) -> None:
    shown = run("ls", "--root", root(0))
    assert (shown.code, shown.err) == (0, "")
    rows = shown.out.splitlines()
    assert rows[0].split() == ["SESSION", "CREATED", "MODEL", "TURNS", "TOKENS", "COST", "END", "DIRECTORY", "TITLE"]
    assert rows[1].split() == [
        "crashed-session", "2026-11-30T18:55:21.969Z", "deepseek-v4-flash", "2", "320", "~$0.0001", "interrupted",
        "/home/dev/project", "#tools", "before", "crash",
    ]  # fmt: skip
    assert len(rows) == 14
    assert all("session-" in row and len(row.split()[0]) == 40 for row in rows[2:])


def test_damaged_sessions_are_rows_with_their_reason_and_the_exit_code_says_so(run: Callable[..., Ran]) -> None:
    """BC-032: a single damaged log made the list fail."""
    shown = run("ls", "--root", BAD)
    assert shown.code == 4
    assert "Traceback" not in shown.err
    assert "4 of 6 sessions have problems" in shown.err
    rows = {line.split()[0]: line for line in shown.out.splitlines()}
    assert "damaged" not in rows["sess-ok-1"] + rows["sess-ok-2"]
    for name, reason in {"empty": "the file is empty", "garbage": "not JSON", "truncated": "never finished",
                         "version": "format 7"}.items():  # fmt: skip
        row = rows[f"sess-bad-{name}"]
        assert reason in row
        assert f"sess-bad-{name}/session.jsonl" in row
        assert row.split()[1:3] == ["-", "-"]


def test_only_what_is_damaged_is_called_so(run: Callable[..., Ran]) -> None:
    rows = {line.split()[0]: line for line in run("ls", "--root", BAD).out.splitlines()}
    assert "unsupported: format 7 was written by a newer dsh" in rows["sess-bad-version"]
    assert "damaged: " in rows["sess-bad-garbage"]
    sessions = {one["id"]: one for one in run("ls", "--root", BAD, "--json").json["sessions"]}
    assert {id: one["trouble"] for id, one in sessions.items()} == {
        "sess-ok-1": None, "sess-ok-2": None, "sess-bad-empty": "damaged", "sess-bad-garbage": "damaged",
        "sess-bad-truncated": "damaged", "sess-bad-version": "unsupported",
    }  # fmt: skip
    assert {id: one["version"] for id, one in sessions.items() if one["trouble"]} == dict.fromkeys(
        ("sess-bad-empty", "sess-bad-garbage", "sess-bad-truncated", "sess-bad-version")
    )
    assert sessions["sess-ok-1"]["version"] == 0


def test_good_sessions_open_beside_bad_ones(run: Callable[..., Ran]) -> None:
    assert run("show", "sess-ok-1", "--root", BAD).code == 0
    assert run("show", "--latest", "--root", BAD).code == 0


def test_the_json_list_has_every_session_with_its_problem(run: Callable[..., Ran]) -> None:
    shown = run("ls", "--root", BAD, "--json")
    assert shown.code == 4
    assert shown.json["schemaVersion"] == 1
    sessions = {one["id"]: one for one in shown.json["sessions"]}
    assert len(sessions) == 6
    assert sessions["sess-ok-1"]["problem"] is None
    assert sessions["sess-ok-1"]["createdAt"] == "2025-10-09T08:53:20.000Z"
    assert sessions["sess-ok-1"]["header"]["createdAt"] == 1760000000000
    assert sessions["sess-bad-empty"]["header"] is None
    assert sessions["sess-bad-empty"]["createdAt"] is None


def test_an_empty_root_is_nothing_found(run: Callable[..., Ran], tmp_path: Path) -> None:
    shown = run("ls", "--root", tmp_path)
    assert (shown.code, shown.out) == (1, "")
    assert str(tmp_path) in shown.err
    assert run("ls", "--root", tmp_path, "--json").json == {"schemaVersion": 1, "sessions": [], "skipped": []}


@pytest.mark.parametrize("name", ["nosuch", "file"])
def test_a_root_that_is_no_directory_is_wrong_usage(run: Callable[..., Ran], tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / name
    said = "no such directory" if name == "nosuch" else "not a directory"
    for command in (["ls"], ["show", "session-9"], ["show", "--latest"]):
        assert run(*command, "--root", place) == Ran(2, "", f"turnlog: --root {place}: {said}\n")


def test_sessions_whose_name_and_header_disagree_are_flagged(run: Callable[..., Ran]) -> None:
    """BC-061"""
    shown = run("ls", "--root", CASES / "BC-061" / "root")
    assert shown.code == 4
    assert "damaged" not in shown.out + shown.err
    assert [line.partition(": ")[0].split()[-1] for line in shown.out.splitlines()[2:]] == [
        "misplaced", "duplicate", "misplaced", "misplaced",
    ]  # fmt: skip


def test_logs_in_places_where_no_session_lies_are_skipped_with_the_reason(run: Callable[..., Ran], days: Path) -> None:
    project = days / "_no-cwd"
    flat = project / "old.jsonl"
    flat.write_bytes((project / "a" / "session.jsonl").read_bytes())
    (project / "strange").mkdir()
    (project / "strange" / "session.v04.jsonl").touch()
    (project / "a" / "attest.jsonl").touch()
    (project / "b" / "notes.jsonl").touch()
    (project / "empty").mkdir()
    shown = run("ls", "--root", days)
    assert shown.code == 4
    assert [line.split()[0] for line in shown.out.splitlines()[1:5]] == list("dcba")
    assert shown.out.splitlines()[5:] == [
        f"skipped: {flat}: a log in no directory of its own; sessions are in <project>/<session>/session.jsonl",
        f"skipped: {project / 'strange'}: no file in it has a name that session files have (there is "
        "session.v04.jsonl)",
    ]
    assert "2 logs are skipped" in shown.err
    document = run("ls", "--root", days, "--json").json
    assert [one["path"] for one in document["skipped"]] == [str(flat), str(project / "strange")]
    assert all(one["reason"] for one in document["skipped"])


def test_a_root_that_only_holds_what_is_skipped_is_not_empty(run: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "--p--").mkdir()
    (tmp_path / "--p--" / "x.jsonl.zstd").touch()
    shown = run("ls", "--root", tmp_path)
    assert (shown.code, shown.out.startswith("skipped: ")) == (4, True)
    assert "1 log is skipped" in shown.err


# -- filters --------------------------------------------------------------------------------------------------------

DAYS = ("2026-01-01T08:00:00Z", "2026-01-02T08:00:00Z", "2026-01-02T20:00:00Z", "2026-01-03T08:00:00Z")


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A root with sessions of three days, a b c d from old to new."""
    for id, when in zip("abcd", DAYS, strict=True):
        stored(tmp_path, id, int(datetime.fromisoformat(when).timestamp() * 1000))
    return tmp_path


def stored(place: Path, id: str, created: int) -> None:
    header = {"type": "session", "version": 0, "id": id, "createdAt": created, "delegationDepth": 0}
    directory = place / "_no-cwd" / id
    directory.mkdir(parents=True)
    (directory / "session.jsonl").write_text(json.dumps(header) + "\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "dcba"),
        (["--since", "2026-01-02"], "dcb"),
        (["--until", "2026-01-02"], "cba"),
        (["--since", "2026-01-02", "--until", "2026-01-02"], "cb"),
        (["--since", "2026-01-02T08:00:00.001Z"], "dc"),
        (["--since", "2026-01-02T21:00:00+01:00"], "dc"),
        (["--limit", "2"], "dc"),
        (["--limit", "9"], "dcba"),
        (["--until", "2026-01-02", "--limit", "1"], "c"),
    ],
)
def test_sessions_are_listed_by_when_they_began(
    run: Callable[..., Ran], days: Path, options: list[str], expected: str
) -> None:
    shown = run("ls", "--root", days, *options)
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == list(expected)
    listed = run("ls", "--root", days, "--json", *options)
    assert [one["id"] for one in listed.json["sessions"]] == list(expected)
    assert listed.err == shown.err


def test_an_age_lists_what_began_since_then(run: Callable[..., Ran], tmp_path: Path) -> None:
    now = time.time_ns() // 1_000_000
    for hours in (1, 5, 50):
        stored(tmp_path, f"h{hours}", now - hours * 3_600_000)
    assert [one["id"] for one in run("ls", "--root", tmp_path, "--since", "2d", "--json").json["sessions"]] == [
        "h1",
        "h5",
    ]
    assert [one["id"] for one in run("ls", "--root", tmp_path, "--until", "2d", "--json").json["sessions"]] == ["h50"]


def test_what_the_limit_leaves_out_is_said_beside_the_data(run: Callable[..., Ran], days: Path) -> None:
    assert (
        run("ls", "--root", days, "--limit", "3").err == "turnlog: 3 of 4 sessions are shown; raise --limit for more\n"
    )
    assert run("ls", "--root", days, "--limit", "4").err == ""
    assert run("ls", "--root", days, "--limit", "-1").code == 2
    none = run("ls", "--root", days, "--limit", "0")
    assert (none.code, none.out) == (0, "")
    assert "0 of 4" in none.err


def test_no_session_of_that_time_is_nothing_found_and_says_that_there_are_others(
    run: Callable[..., Ran], days: Path
) -> None:
    shown = run("ls", "--root", days, "--since", "2026-02-01")
    assert shown == Ran(1, "", "turnlog: no session began in that time; there are 4 of other times\n")
    assert run("ls", "--root", days, "--since", "2026-02-01", "--json").json["sessions"] == []


def test_damaged_sessions_that_are_left_out_do_not_count(run: Callable[..., Ran], days: Path) -> None:
    (days / "_no-cwd" / "broken").mkdir()
    (days / "_no-cwd" / "broken" / "session.jsonl").touch()  # its time is that of the file: the newest
    shown = run("ls", "--root", days, "--limit", "1")
    assert (shown.code, "1 of 1 sessions has a problem" in shown.err, "1 of 5 sessions" in shown.err) == (4, True, True)
    shown = run("ls", "--root", days, "--until", "2026-01-03")
    assert (shown.code, shown.err) == (0, "")


def test_the_column_of_problems_is_named_when_there_are_any(run: Callable[..., Ran], days: Path) -> None:
    assert "PROBLEM" in run("ls", "--root", BAD).out.splitlines()[0]
    assert "PROBLEM" not in run("ls", "--root", days).out.splitlines()[0]
