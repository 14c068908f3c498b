"""``ls``: one bad session never hides the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.running import Ran
from tests.views.logs import CASES, root

BAD = CASES / "BC-032" / "root"


def test_sessions_are_listed_newest_first_with_full_ids(run: Callable[..., Ran]) -> None:
    shown = run("ls", "--root", root(0))
    assert (shown.code, shown.err) == (0, "")
    rows = shown.out.splitlines()
    assert rows[0].split() == ["SESSION", "CREATED", "FORMAT", "SIZE", "DIRECTORY"]
    assert rows[1].split() == ["crashed-session", "2026-11-30T18:55:21.969Z", "0", "4.9", "KB", "/home/dev/project"]
    assert len(rows) == 14
    assert all("session-" in row and len(row.split()[0]) == 40 for row in rows[2:])


def test_damaged_sessions_are_rows_with_their_reason_and_the_exit_code_says_so(run: Callable[..., Ran]) -> None:
    """BC-032: a single damaged log made the list fail."""
    shown = run("ls", "--root", BAD)
    assert shown.code == 4
    assert "Traceback" not in shown.err
    assert "4 of 6 sessions are damaged" in shown.err
    rows = {line.split()[0]: line for line in shown.out.splitlines()}
    assert "damaged" not in rows["sess-ok-1"] + rows["sess-ok-2"]
    for name, reason in {"empty": "the file is empty", "garbage": "not JSON", "truncated": "never finished",
                         "version": "format 7"}.items():  # fmt: skip
        row = rows[f"sess-bad-{name}"]
        assert reason in row
        assert f"sess-bad-{name}/session.jsonl" in row


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
    assert run("ls", "--root", tmp_path, "--json").json == {"schemaVersion": 1, "sessions": []}


def test_sessions_whose_name_and_header_disagree_are_flagged(run: Callable[..., Ran]) -> None:
    """BC-061"""
    shown = run("ls", "--root", CASES / "BC-061" / "root")
    assert shown.code == 4
    assert shown.out.count("damaged:") >= 4
