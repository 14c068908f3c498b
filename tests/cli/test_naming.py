"""Naming a session: id, prefix, path, standard input, the newest one."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran, spawn
from tests.views.logs import SAMPLE, TOOLS, real, root

V0 = root(0)
FIRST = "[turn/start] turn=1\n"


@pytest.mark.parametrize("name", [TOOLS[0], "session-9b26", "session-9"])
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
    assert "session-9b26029093b9418888b55d8948fed479" in shown.err
    assert shown.err.count("\n") == 1


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
    assert (shown.code, shown.out) == (3, "")
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err


def test_a_directory_without_a_session_is_an_error(run: Callable[..., Ran], tmp_path: Path) -> None:
    shown = run("show", tmp_path)
    assert shown.code == 3
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
    assert b"is missing" in done.stderr


def test_the_real_log_is_the_one_that_the_name_says(run: Callable[..., Ran]) -> None:
    document = run("show", TOOLS[3], "--root", root(3), "--json").json
    assert document["session"]["id"] == TOOLS[3] == real(3, TOOLS[3]).id
    assert document["session"]["format"] == "format 3"
