"""Finding sessions: what is listed, what is found by id, prefix or path, and what is said about the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.store.logs import START, Log, frame
from tests.store.reading import texts
from turnlog.store import (
    SessionAmbiguous,
    SessionNotFound,
    default_roots,
    find_session,
    latest,
    list_sessions,
    load,
    locate,
)
from turnlog.store.names import encode_project, encode_session


def keep(
    root: Path,
    id: str,
    *,
    created: int = START,
    cwd: str | None = "/home/dev/demo",
    name: str = "session.jsonl",
    directory: str | None = None,
    project: str | None = None,
    version: int = 0,
) -> Path:
    """A session of one message under *root*; gives its log file."""
    log = Log(id, version=version, cwd=cwd, createdAt=created)
    log.user(f"I am {id}")
    home = root / (project or encode_project(cwd)) / (directory or encode_session(id))
    home.mkdir(parents=True, exist_ok=True)
    path = home / name
    path.write_bytes(log.zstd() if name.endswith(".zstd") else log.text())
    return path


def test_sessions_are_listed_newest_first_with_what_their_headers_say(tmp_path: Path) -> None:
    keep(tmp_path, "old", created=START)
    keep(tmp_path, "new", created=START + 2, name="session.jsonl.zstd")
    keep(tmp_path, "mid", created=START + 1, cwd=None, name="session.v3.jsonl", version=3)
    entries = list_sessions([tmp_path])
    assert [entry.id for entry in entries] == ["new", "mid", "old"]
    assert [entry.problem for entry in entries] == [None, None, None]
    assert [entry.version for entry in entries] == [0, 3, 0]
    assert [entry.created_ms - START for entry in entries] == [2, 1, 0]
    assert [entry.header.cwd if entry.header else ... for entry in entries] == [
        "/home/dev/demo",
        None,
        "/home/dev/demo",
    ]
    for entry in entries:
        assert entry.size == entry.path.stat().st_size
        assert entry.modified_ms == entry.path.stat().st_mtime_ns // 1_000_000


def test_equal_times_are_listed_by_id(tmp_path: Path) -> None:
    for id in ("b", "a", "c"):
        keep(tmp_path, id)
    assert [entry.id for entry in list_sessions([tmp_path])] == ["a", "b", "c"]


def test_roots_that_do_not_exist_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert list_sessions([tmp_path / "missing", tmp_path / "file", tmp_path]) == []
    assert list_sessions([]) == []


def test_several_roots_are_one_list_and_an_id_in_both_is_flagged(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    first, second = keep(ours, "twice"), keep(theirs, "twice")
    keep(theirs, "once")
    problems = {str(entry.path): entry.problem for entry in list_sessions([ours, theirs])}
    assert problems[str(first)] == f"the same id is also at {second}"
    assert problems[str(second)] == f"the same id is also at {first}"
    assert sorted(problems.values(), key=str)[0] is None


@pytest.mark.parametrize(("text", "problem"), [
    (b"", "the file is empty"),
    (b"garbage\n", "the first line is not JSON, so there is no header"),
    (b"[]\n", "the first line is no session header"),
    (b'{"type":"session","version":9}\n', "format 9 was written by a newer dsh; this build reads formats 0 to 4"),
    (frame(b"x" * 100)[:20], "its first frame was never finished, so there is no header"),
    (frame(b"garbage\n"), "the first line is not JSON, so there is no header"),
    (frame(b'{"type":"session"}\n')[:-1] + b"x", "its first frame does not verify"),
])  # fmt: skip
def test_a_damaged_session_is_listed_under_its_directory_with_the_reason(
    tmp_path: Path, text: bytes, problem: str
) -> None:
    path = keep(tmp_path, "good").parent.parent / "s~002F1" / "session.jsonl"
    path.parent.mkdir()
    path.write_bytes(text)
    entries = {entry.id: entry for entry in list_sessions([tmp_path])}
    assert entries["good"].problem is None
    damaged = entries["s/1"]
    assert (damaged.header, damaged.problem, damaged.path) == (None, problem, path)
    assert damaged.created_ms == damaged.modified_ms


def test_a_file_that_cannot_be_opened_is_listed_with_the_reason(tmp_path: Path) -> None:
    keep(tmp_path, "good")
    path = keep(tmp_path, "shut")
    path.unlink()
    path.symlink_to(path)  # a loop: nobody can open it, root neither
    entries = {entry.id: entry for entry in list_sessions([tmp_path])}
    assert entries["good"].problem is None
    assert (entries["shut"].header, entries["shut"].size) == (None, 0)
    assert str(entries["shut"].problem).startswith("cannot be opened: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_without_permission_is_listed_with_the_reason(tmp_path: Path) -> None:
    path = keep(tmp_path, "shut")
    path.chmod(0)
    (entry,) = list_sessions([tmp_path])
    assert entry.problem == "cannot be opened: Permission denied"


def test_a_directory_in_the_place_of_a_log_is_listed_with_the_reason(tmp_path: Path) -> None:
    keep(tmp_path, "good")
    (tmp_path / "--home-dev-demo--" / "odd" / "session.jsonl").mkdir(parents=True)
    entries = {entry.id: entry for entry in list_sessions([tmp_path])}
    assert str(entries["odd"].problem).startswith("cannot be opened: ")
    assert entries["good"].problem is None


def test_identity_faults_are_named(tmp_path: Path) -> None:
    keep(tmp_path, "moved", directory="elsewhere")
    keep(tmp_path, "strayed", project="--other--")
    keep(tmp_path, "both")
    keep(tmp_path, "both", name="session.jsonl.zstd")
    path = keep(tmp_path, "mislabelled", name="session.v3.jsonl", version=2)
    problems = {entry.id: entry.problem for entry in list_sessions([tmp_path])}
    assert problems == {
        "moved": "the directory is named for session 'elsewhere', but the log says it is 'moved'",
        "strayed": "the directory '--other--' is not the one of the log's cwd '/home/dev/demo'",
        "both": "session.jsonl and session.jsonl.zstd are two files of one generation",
        "mislabelled": "the file is named as format 3, but its header says format 2",
    }
    assert path.exists()


# -- by name ----------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for created, id in enumerate(("session-aa1", "session-aa2", "session-b", "session-b-more", "other")):
        keep(tmp_path / "root", id, created=START + created)
    return tmp_path / "root"


def test_a_session_is_found_by_id_and_by_a_prefix_of_one_id(root: Path) -> None:
    for text, id in {
        "session-aa1": "session-aa1",
        "session-b": "session-b",  # an id wins over being a prefix of another
        "session-b-": "session-b-more",
        "o": "other",
    }.items():
        assert texts(load(find_session(text, [root])).derive_messages()) == [f"I am {id}"]


def test_an_ambiguous_prefix_lists_what_matches(root: Path) -> None:
    with pytest.raises(SessionAmbiguous) as caught:
        find_session("session-a", [root])
    said = str(caught.value)
    assert "matches 2 sessions" in said
    for id in ("session-aa1", "session-aa2"):
        assert f"{id} ({find_session(id, [root])})" in said
    assert "session-b" not in said


@pytest.mark.parametrize("text", ["nothing", "ession", "SESSION-B", "x" * 5000, "a\0b", "session-b/x", "~", "-"])
def test_what_is_no_session_is_said_not_to_be_found(root: Path, text: str) -> None:
    with pytest.raises(SessionNotFound, match="turnlog ls"):
        find_session(text, [root])
    with pytest.raises(SessionNotFound):
        find_session(text, [])


def test_a_session_is_found_by_the_path_of_its_file_or_directory(root: Path) -> None:
    path = find_session("other", [root])
    assert find_session(str(path), []) == path
    assert find_session(str(path.parent), []) == path
    assert locate(path.parent) == path
    with pytest.raises(SessionNotFound, match="no session file in this directory"):
        find_session(str(root), [])
    with pytest.raises(SessionNotFound, match="no such file or directory"):
        locate(root / "missing")
    with pytest.raises(SessionNotFound, match="no such file or directory"):
        load(root / "missing.jsonl")


def test_damaged_sessions_are_found_by_their_directory(root: Path) -> None:
    path = find_session("other", [root])
    path.write_bytes(b"garbage")
    assert find_session("other", [root]) == path


def test_the_latest_session_is_the_newest_that_can_be_read(root: Path) -> None:
    assert latest([root]).parent.name == "other"
    latest([root]).write_bytes(b"garbage")
    assert latest([root]).parent.name == "session-b-more"
    keep(root, "newest", created=START + 99, name="session.v3.jsonl", version=2)
    assert latest([root]).parent.name == "session-b-more"
    with pytest.raises(SessionNotFound, match="no readable session"):
        latest([root / "missing"])
    with pytest.raises(SessionNotFound, match="any root"):
        latest([])


def test_the_usual_roots_are_ours_and_dshs_as_far_as_they_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "t"))
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "d"))
    assert default_roots() == []
    for home in ("d", "t"):
        (tmp_path / home / "sessions").mkdir(parents=True)
    assert default_roots() == [tmp_path / "t" / "sessions", tmp_path / "d" / "sessions"]
    monkeypatch.delenv("TURNLOG_HOME")
    monkeypatch.delenv("DSH_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (".turnlog", ".dsh"):
        (tmp_path / "home" / name / "sessions").mkdir(parents=True)
    assert default_roots() == [tmp_path / "home" / name / "sessions" for name in (".turnlog", ".dsh")]


def test_ids_that_are_hard_for_a_file_system_are_listed_and_found(tmp_path: Path) -> None:
    ids = ["..", ".", "../../etc/passwd", "a/b", "é😀", "half \ud83d", "~002E", " ", "con\0trol"]
    for id in ids:
        keep(tmp_path, id)
    entries = list_sessions([tmp_path])
    assert sorted(entry.id for entry in entries) == sorted(ids)
    assert [entry.problem for entry in entries] == [None] * len(ids)
    for entry in entries:
        assert entry.path.resolve().is_relative_to(tmp_path.resolve())
        if not Path(entry.id.replace("\0", "")).exists():
            assert find_session(entry.id, [tmp_path]) == entry.path


def test_a_session_is_found_by_its_full_id_without_looking_at_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keep(tmp_path, "session-a")
    keep(tmp_path, "session-ab")
    misplaced = keep(tmp_path, "session-b", directory="elsewhere")
    assert find_session("session-b", [tmp_path]) == misplaced

    def listed(_roots: object) -> list[object]:
        raise AssertionError("all sessions were listed")

    monkeypatch.setattr("turnlog.store.discover.list_sessions", listed)
    assert find_session("session-a", [tmp_path]) == path
    keep(tmp_path, "session-a", cwd="/home/dev/other")
    with pytest.raises(SessionAmbiguous, match="matches 2 sessions with one id"):
        find_session("session-a", [tmp_path])
