"""Reported faults of directories: one bad session hides the others, two sessions claim one id."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.inputs import CASES
from turnlog.store import (
    FileStore,
    SessionAmbiguous,
    SessionNotFound,
    find_session,
    latest,
    list_sessions,
    load,
    verify,
)

DAMAGED = CASES / "BC-032" / "root"
CONFUSED = CASES / "BC-061" / "root"


def test_bc_032_good_sessions_are_listed_beside_damaged_ones_each_with_its_reason() -> None:
    entries = {entry.path.parent.name: entry for entry in list_sessions([DAMAGED])}
    problems = {name: entry.problem for name, entry in entries.items()}
    assert problems == {
        "sess-ok-1": None,
        "sess-ok-2": None,
        "sess-bad-empty": "the file is empty",
        "sess-bad-garbage": "the first line is not JSON, so there is no header",
        "sess-bad-truncated": "its first frame was never finished, so there is no header",
        "sess-bad-version": "format 7 was written by a newer dsh; this build reads formats 0 to 4",
    }
    assert all(entry.path.is_file() for entry in entries.values())


def test_bc_032_a_directory_without_a_log_and_stray_files_are_ignored() -> None:
    names = {entry.path.parent.name for entry in list_sessions([DAMAGED])}
    assert "sess-no-log" not in names
    assert len(names) == 6
    assert (DAMAGED / "--home-dev-demo--" / "stray-file.txt").exists()


def test_bc_032_a_good_session_opens_while_bad_ones_lie_beside_it() -> None:
    assert len(load(find_session("sess-ok-1", [DAMAGED]))) == 11
    assert latest([DAMAGED]).parent.name in ("sess-ok-1", "sess-ok-2")
    store = FileStore(DAMAGED)
    assert sorted(header.id for header in store.headers()) == ["sess-ok-1", "sess-ok-2"]
    assert len(list(store.read("sess-ok-2"))) == 12


def test_bc_061_identity_faults_are_flagged_and_nothing_is_chosen_in_silence() -> None:
    entries = {str(entry.path.relative_to(CONFUSED).parent): entry for entry in list_sessions([CONFUSED])}
    home = "--home-dev-demo--"
    listed = entries[f"{home}/sess-b"]
    assert (listed.id, listed.problem) == (
        "sess-a",
        "the directory is named for session 'sess-b', but the log says it is 'sess-a'",
    )
    twice = entries[f"{home}/sess-c"]
    assert twice.id == "sess-c"
    assert twice.problem is not None
    assert "the same id is also at" in twice.problem
    moved = entries[f"{home}/sess-d"]
    assert moved.problem == "the directory '--home-dev-demo--' is not the one of the log's cwd '/somewhere/else'"
    assert entries["--home-dev-other--/sess-c"].problem is not None
    with pytest.raises(SessionAmbiguous, match="matches 2 sessions"):
        find_session("sess-c", [CONFUSED])
    with pytest.raises(SessionAmbiguous, match="exists twice"):
        list(FileStore(CONFUSED).read("sess-c"))


def test_bc_061_the_log_itself_says_what_does_not_agree() -> None:
    home = CONFUSED / "--home-dev-demo--"
    (finding,) = verify(home / "sess-b").findings
    assert (finding.code, finding.severity) == ("identity", "fault")
    assert "'sess-b'" in finding.text
    assert "'sess-a'" in finding.text
    (finding,) = verify(home / "sess-d").findings
    assert (finding.code, finding.severity) == ("identity", "fault")
    assert "/somewhere/else" in finding.text
    assert verify(home / "sess-c").findings == ()


def test_bc_061_an_id_that_looks_like_a_path_stays_inside_the_root() -> None:
    found = find_session("../../etc/x", [CONFUSED])
    assert found.resolve().is_relative_to(CONFUSED.resolve())
    assert load(found).id == "../../etc/x"
    assert verify(found).findings == ()
    with pytest.raises(SessionNotFound):
        find_session("../../etc/y", [CONFUSED])


def test_bc_061_the_directories_are_those_of_the_case() -> None:
    names = sorted(str(path.relative_to(CONFUSED)) for path in CONFUSED.rglob("session.jsonl"))
    assert len(names) == 5
    assert Path(names[0]).parts[0] == "--home-dev-demo--"
