"""What the shell completes: session ids and event types; whatever happens, nothing else appears."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import spawn
from tests.views.logs import CASES, TOOLS, root

V0 = root(0)


def complete(*words: str, env: dict[str, str] | None = None) -> list[str]:
    """What bash would offer for the last of *words*."""
    line = "\n".join(["turnlog", *words])
    variables = {"_TURNLOG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    done = spawn(env={**variables, **(env or {})})
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().split()


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose usual place holds the real sessions of format 0."""
    shutil.copytree(V0, tmp_path / "dsh" / "sessions")
    return {"DSH_HOME": str(tmp_path / "dsh"), "TURNLOG_HOME": str(tmp_path / "none")}


@pytest.mark.parametrize("command", ["show", "events", "messages", "replay", "verify", "turn", "call", "sources"])
def test_every_command_completes_session_ids(command: str, home: dict[str, str]) -> None:
    assert complete(command, "session-9", env=home) == [TOOLS[0]]
    assert complete(command, "nosuch", env=home) == []


def test_an_empty_word_offers_every_session_under_the_root() -> None:
    offered = complete("show", "--root", str(V0), "")
    assert len(offered) == 13
    assert offered == sorted(offered)
    assert {"crashed-session", TOOLS[0]} < set(offered)


def test_display_options_do_not_stand_in_the_way(home: dict[str, str]) -> None:
    for words in (["--color", "never", "show"], ["--timezone", "UTC", "show"], ["show", "--no-pager"]):
        assert complete(*words, "session-9", env=home) == [TOOLS[0]]


def test_nothing_is_offered_where_no_session_is_wanted(home: dict[str, str]) -> None:
    assert complete("show", "--latest", "", env=home) == []
    assert complete("turn", TOOLS[0], "", env=home) == []
    assert complete("show", TOOLS[0], "", env=home) == []


@pytest.mark.parametrize("begun", ["./s", "/work", "../", "~/s"])
def test_paths_are_left_to_the_shell(begun: str, home: dict[str, str]) -> None:
    assert complete("show", begun, env=home) == []


@pytest.mark.parametrize("typed", [["--type"], ["--type", "="]], ids=["--type X", "--type=X"])
def test_event_types_are_completed_also_after_a_comma(typed: list[str]) -> None:
    offered = complete("events", "some-session", *typed, "tool/")
    assert {"tool/call", "tool/result"} <= set(offered)
    assert all(one.startswith("tool/") for one in offered)
    assert complete("events", *typed, "tool/call,turn/") == ["tool/call,turn/end", "tool/call,turn/start"]
    assert complete("events", *typed, "nosuch") == []


@pytest.mark.parametrize("place", [CASES, CASES / "BC-032" / "root", Path(__file__), Path("/nosuch")], ids=str)
def test_whatever_is_on_the_disk_no_error_appears(place: Path) -> None:
    complete("show", "--root", str(place), "")


def test_damaged_sessions_are_offered_too() -> None:
    assert len(complete("verify", "--root", str(CASES / "BC-032" / "root"), "sess-bad")) == 4


@pytest.mark.parametrize("name", ["a b", "x$(id)", "x`id`", "x;id", "x\x1b[31m", "x'", "x~0041", "x*", "é"])
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_that_a_shell_would_obey_are_not_offered(tmp_path: Path, name: str, shell: str) -> None:
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
    done = spawn(env=variables)
    assert b"harmless" in done.stdout
    assert name.encode() not in done.stdout


def test_no_log_is_opened_for_it(tmp_path: Path) -> None:
    directory = tmp_path / "--p--" / "sealed"
    directory.mkdir(parents=True)
    (directory / "session.jsonl").symlink_to(directory / "session.jsonl")  # opening it would fail
    assert complete("show", "--root", str(tmp_path), "") == ["sealed"]


def test_the_script_for_a_shell_is_printed() -> None:
    code = """import sys, json, turnlog.cli.app as app
from typer.completion import get_completion_script
print(json.dumps([get_completion_script(prog_name="turnlog", complete_var="_TURNLOG_COMPLETE", shell=shell)
                  for shell in ("bash", "zsh", "fish")]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert all("_TURNLOG_COMPLETE" in script for script in json.loads(done.stdout))
    for shell in ("bash", "zsh", "fish"):
        shown = spawn("--show-completion", shell, env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
        assert shown.returncode == 0
        assert b"_TURNLOG_COMPLETE" in shown.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_itself_completes_with_the_script(home: dict[str, str]) -> None:
    import os

    scripts = Path(sys.executable).parent
    shown = spawn("--show-completion", "bash", env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}).stdout
    program = (
        shown.decode()
        + """
COMP_WORDS=(turnlog show session-9); COMP_CWORD=2
_turnlog_completion turnlog
printf '%s\\n' "${COMPREPLY[@]}"
"""
    )
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, check=True, env={**os.environ, **home, "PATH": path}
    )
    assert done.stdout.decode().split() == [TOOLS[0]]
