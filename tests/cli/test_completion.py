"""What the shell completes: session ids and event types; whatever happens, nothing else appears."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.completion import get_completion_script

from tests.cli.running import Ran
from tests.views.logs import CASES, TOOLS, root

V0 = root(0)

Complete: TypeAlias = Callable[..., list[str]]


@pytest.fixture
def complete(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Complete:
    """``complete("show", "se")`` gives what bash would offer for the last word."""

    def offered(*words: object) -> list[str]:
        monkeypatch.setenv("_TURNLOG_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["turnlog", *map(str, words)]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        shown = run()
        assert (shown.code, shown.err) == (0, "")
        return shown.out.split()

    return offered


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The usual place; it holds the real sessions of format 0."""
    shutil.copytree(V0, tmp_path / "dsh" / "sessions")
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "dsh"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "none"))
    return tmp_path


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("command", ["show", "events", "messages", "replay", "verify", "turn", "call", "sources"])
def test_every_command_completes_session_ids(complete: Complete, command: str) -> None:
    assert complete(command, "session-9") == [TOOLS[0]]
    assert complete(command, "nosuch") == []


def test_an_empty_word_offers_every_session_under_the_root(complete: Complete) -> None:
    offered = complete("show", "--root", V0, "")
    assert len(offered) == 13
    assert offered == sorted(offered)
    assert {"crashed-session", TOOLS[0]} < set(offered)


@pytest.mark.usefixtures("home")
def test_display_options_do_not_stand_in_the_way(complete: Complete) -> None:
    for words in (["--color", "never", "show"], ["--timezone", "UTC", "show"], ["show", "--no-pager"]):
        assert complete(*words, "session-9") == [TOOLS[0]]


@pytest.mark.usefixtures("home")
def test_nothing_is_offered_where_no_session_is_wanted(complete: Complete) -> None:
    assert complete("show", "--latest", "") == []
    assert complete("turn", TOOLS[0], "") == []
    assert complete("show", TOOLS[0], "") == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("begun", ["./s", "/work", "../", "~/s"])
def test_paths_are_left_to_the_shell(complete: Complete, begun: str) -> None:
    assert complete("show", begun) == []


def test_event_types_are_completed_also_after_a_comma(complete: Complete) -> None:
    offered = complete("events", "some-session", "--type", "tool/")
    assert {"tool/call", "tool/result"} <= set(offered)
    assert all(one.startswith("tool/") for one in offered)
    assert complete("events", "--type", "tool/call,turn/") == ["tool/call,turn/end", "tool/call,turn/start"]
    assert complete("events", "--type", "nosuch") == []


@pytest.mark.parametrize("place", [CASES, CASES / "BC-032" / "root", Path(__file__), Path("/nosuch")], ids=str)
def test_whatever_is_on_the_disk_no_error_appears(complete: Complete, place: Path) -> None:
    complete("show", "--root", place, "")


def test_damaged_sessions_are_offered_too(complete: Complete) -> None:
    assert len(complete("verify", "--root", CASES / "BC-032" / "root", "sess-bad")) == 4


@pytest.mark.parametrize("name", ["a b", "x$(id)", "x`id`", "x;id", "x\x1b[31m", "x'", "x~0041", "x*", "é"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_that_a_shell_would_obey_are_not_offered(
    run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, shell: str
) -> None:
    for one in (name, "harmless"):
        (tmp_path / "--p--" / one).mkdir(parents=True)
    line = f"turnlog show --root {tmp_path} "
    variables = {
        "_TURNLOG_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": line.replace(" ", "\n"),
        "COMP_CWORD": "4",
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    shown = run()
    assert "harmless" in shown.out
    assert name not in shown.out


def test_no_log_is_opened_for_it(complete: Complete, tmp_path: Path) -> None:
    directory = tmp_path / "--p--" / "sealed"
    directory.mkdir(parents=True)
    (directory / "session.jsonl").symlink_to(directory / "session.jsonl")  # opening it would fail
    assert complete("show", "--root", tmp_path, "") == ["sealed"]


@pytest.mark.usefixtures("home")
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_itself_completes_with_the_script() -> None:
    script = get_completion_script(prog_name="turnlog", complete_var="_TURNLOG_COMPLETE", shell="bash")
    line = "COMP_WORDS=(turnlog show session-9); COMP_CWORD=2; _turnlog_completion turnlog; echo ${COMPREPLY[@]}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{line}"], capture_output=True, check=True, env={**os.environ, "PATH": path}
    )
    assert (done.stdout.decode(), done.stderr) == (f"{TOOLS[0]}\n", b"")
