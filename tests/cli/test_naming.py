"""Naming a session: id, prefix, path, standard input, the newest one."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran, spawn
from tests.views.logs import CASES, SAMPLE, TOOLS, log, real, root, turn
from turnlog.store.names import encode_session

V0 = root(0)
FIRST = "[turn/start] turn=1\n"


@pytest.mark.parametrize("name", [TOOLS[0], "session-9b26", "session-9", "9b26", "9"])
def test_an_id_or_a_unique_prefix_names_a_session_under_a_root(run: Callable[..., Ran], name: str) -> None:
    shown = run("messages", name, "--root", V0, "--json")
    assert shown.code == 0
    assert shown.json["messages"][0]["content"][0]["text"] == "#tools please"


def test_a_file_or_a_session_directory_names_a_session(run: Callable[..., Ran]) -> None:
    directory = V0 / "--home-dev-project--" / TOOLS[0]
    assert (
        run("show", directory) == run("show", directory / "session.jsonl.zstd") == run("show", TOOLS[0], "--root", V0)
    )


def test_an_ambiguous_prefix_lists_what_matches_and_is_wrong_usage(run: Callable[..., Ran]) -> None:
    shown = run("show", "session-", "--root", V0)
    assert (shown.code, shown.out) == (2, "")
    said, *matches = shown.err.splitlines()
    assert said == "turnlog: 'session-' matches 12 sessions; give more of the id, or the path:"
    assert matches[-1] == "  and 2 more"
    assert len(matches) == 11
    for match in matches[:-1]:
        id, path = match.split()
        assert Path(path.strip("()")).parent.name == id


def test_a_beginning_may_match_with_and_without_session_before_it(run: Callable[..., Ran], tmp_path: Path) -> None:
    for id in ("9b", "session-9b"):
        directory = tmp_path / "_no-cwd" / id
        directory.mkdir(parents=True)
        (directory / "session.jsonl").write_bytes(log(turn(), id=id))
    shown = run("show", "9", "--root", tmp_path)
    assert shown.code == 2
    assert [line.split()[0] for line in shown.err.splitlines()[1:]] == ["9b", "session-9b"]
    assert run("show", "9b", "--root", tmp_path, "--json").json["session"]["id"] == "9b"


def test_sessions_with_one_id_can_only_be_told_apart_by_path(run: Callable[..., Ran]) -> None:
    shown = run("show", "sess-c", "--root", CASES / "BC-061" / "root")
    said, *matches = shown.err.splitlines()
    assert (shown.code, said) == (2, "turnlog: 'sess-c' matches 2 sessions with one id; give the path:")
    for match in matches:
        assert run("show", match.strip()).code == 0


def test_an_id_cannot_forge_a_line_of_the_list(run: Callable[..., Ran], tmp_path: Path) -> None:
    for id in ("x\n  evil", "x2"):
        directory = tmp_path / "_no-cwd" / encode_session(id)
        directory.mkdir(parents=True)
        (directory / "session.jsonl").write_bytes(log(turn(), id=id))
    assert len(run("show", "x", "--root", tmp_path).err.splitlines()) == 3


def test_latest_is_the_session_that_began_last(run: Callable[..., Ran]) -> None:
    assert run("show", "--latest", "--root", V0) == run("show", "crashed-session", "--root", V0)
    assert run("turn", "--latest", "1", "--root", V0).code == 0


def test_several_roots_are_searched_together(run: Callable[..., Ran]) -> None:
    assert run("show", TOOLS[4], "--root", V0, "--root", root(4)).code == 0


def test_without_a_root_the_usual_places_are_searched(run: Callable[..., Ran], tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    shutil.copytree(V0, tmp_path / "sessions")
    monkeypatch.setenv("DSH_HOME", str(tmp_path))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "none"))
    assert run("show", "crashed").code == 0


@pytest.mark.parametrize("words", [[], [SAMPLE, "--latest"], [SAMPLE, SAMPLE]])
def test_no_session_or_two_of_them_are_wrong_usage(run: Callable[..., Ran], words: list[object]) -> None:
    shown = run("show", *words)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err


@pytest.mark.parametrize("command", ["turn", "call", "sources"])
def test_a_query_says_which_words_it_expects(run: Callable[..., Ran], command: str) -> None:
    shown = run(command, SAMPLE)
    assert shown.code == 2
    assert "expected SESSION" in shown.err
    assert "expected" in run(command, "--latest", "a", "b").err


@pytest.mark.parametrize("name", ["nosuch", "no/such/file.jsonl", "", "x" * 5000, "a\0b"])
def test_a_session_that_is_not_there_is_an_error_in_one_sentence(run: Callable[..., Ran], name: str) -> None:
    shown = run("show", name, "--root", V0)
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("name", ["no/such", "no/such/file.jsonl", "file.jsonl", "session.jsonl.zstd"])
def test_what_looks_like_a_path_and_is_none_is_no_such_file(run: Callable[..., Ran], name: str) -> None:
    shown = run("show", name, "--root", V0)
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith(f"turnlog: {name}: no such file")


def test_a_directory_without_a_session_is_an_error(run: Callable[..., Ran], tmp_path: Path) -> None:
    shown = run("show", tmp_path)
    assert shown.code == 1
    assert "no session file in this directory" in shown.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_read_once_even_when_its_log_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(_gap()), daemon=True)
    writer.start()
    done = spawn("show", pipe)
    writer.join()
    assert done.returncode == 4
    assert b"[turn/end]" in done.stdout


def _gap() -> bytes:
    """The sample without one of its events."""
    lines = SAMPLE.read_bytes().splitlines(keepends=True)
    return b"".join(lines[:3] + lines[4:])


def test_a_damaged_log_from_standard_input_is_shown_with_a_warning() -> None:
    done = spawn("show", "-", stdin=_gap())
    assert done.returncode == 4
    assert done.stdout.decode().endswith("reason={'kind': 'completed'}\n")
    assert done.stderr.startswith(b"turnlog: standard input, line 4, byte ")
    assert b"is missing" in done.stderr


def test_standard_input_is_named_as_such_and_has_no_path() -> None:
    done = spawn("verify", "-", stdin=b"no log")
    assert (done.returncode, done.stdout.splitlines()[0]) == (3, b"refused: standard input")
    document = json.loads(spawn("verify", "-", "--json", stdin=SAMPLE.read_bytes()).stdout)
    assert (document["path"], document["verdict"]) == (None, "ok")


def test_the_real_log_is_the_one_that_the_name_says(run: Callable[..., Ran]) -> None:
    document = run("show", TOOLS[3], "--root", root(3), "--json").json
    assert document["session"]["id"] == TOOLS[3] == real(3, TOOLS[3]).id
    assert document["session"]["format"] == "format 3"
