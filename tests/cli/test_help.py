"""``--help``: examples come first, and every one of them works."""

from __future__ import annotations

import io
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.views.logs import SAMPLE, root
from turnlog.model import text
from turnlog.testing import LoopbackServer

COMMANDS = (
    *("run", "chat", "resume"),
    *("ls", "show", "events", "messages", "turn", "call", "sources", "replay", "tail", "verify"),
    *("context", "diff", "fork"),
    *("trace",),
    *("rerun", "search", "index", "usage"),
    *("repair", "convert", "compress", "decompress", "redact", "rm"),
)


def examples(text: str) -> list[str]:
    """The examples of a help text, without what is said about them."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("    turnlog ")]
    return [re.split(r"  +| \| ", line)[0] for line in lines]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_begins_with_examples_of_it(run: Callable[..., Ran], command: str) -> None:
    shown = run(command, "--help")
    assert shown.code == 0
    usage, summary, first = shown.out.split("\n\n")[:3]
    assert usage.startswith(f"Usage: turnlog {command}")
    assert len(summary.splitlines()) == 1
    assert all(line.startswith(f"    turnlog {command}") for line in first.splitlines())
    assert len(examples(first)) >= 2
    assert shown.out.index(first) < shown.out.index("Options:")


def test_the_list_of_commands_says_what_each_does_in_whole_sentences(run: Callable[..., Ran]) -> None:
    listed = run("--help").out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_example_works(
    run: Callable[..., Ran], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(SAMPLE, tmp_path / "session.jsonl")
    shutil.copytree(root(0), tmp_path / "dsh" / "sessions")
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "dsh"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    monkeypatch.chdir(tmp_path)
    with LoopbackServer(lambda _body: text("Done.")) as server:
        monkeypatch.setenv("TURNLOG_MODEL", "openai/scripted")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        _try_examples(run, command, tmp_path, monkeypatch, server.base_url)


def _try_examples(
    run: Callable[..., Ran], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base_url: str
) -> None:
    found = examples(run(*filter(None, [command]), "--help").out)
    assert found
    for example in found:
        example = example.replace("/backup/sessions", str(root(0)))
        example = example.replace("~/.dsh/sessions", str(tmp_path / "dsh" / "sessions"))
        example = example.replace("http://localhost:11434/v1", base_url)
        monkeypatch.setattr("sys.stdin", io.StringIO("Do it.\n"))
        if example.startswith(("turnlog resume", "turnlog rerun")):
            assert run("run", "Begin.").code == 0
        shown = run(*shlex.split(example)[1:])
        may_be_none = "--since" in example or "--project" in example or "turnlog search" in example
        assert shown.code in (0, int(may_be_none)), (example, shown.err)


def test_display_options_are_listed_where_they_are_looked_for(run: Callable[..., Ran]) -> None:
    options = run("--help").out.partition("Options:\n")[2]
    for option in ("--color", "--no-pager", "--timezone", "--install-completion"):
        assert option in options
