"""What every command keeps to: exit codes, streams, colour, and never a traceback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran, on_terminal, spawn
from tests.views.logs import CASES, LONG, SAMPLE, root

COMMANDS = {
    "show": ["show"], "show --all": ["show", "--all"], "show --json": ["show", "--json"], "events": ["events"],
    "events --json": ["events", "--json"], "messages": ["messages"], "messages --json": ["messages", "--json"],
    "replay": ["replay", "--speed", "0"], "verify": ["verify"], "verify --forensic": ["verify", "--forensic"],
}  # fmt: skip
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_stored_log_however_bad_ends_in_a_traceback_or_speaks_to_the_terminal(
    run: Callable[..., Ran], command: list[str]
) -> None:
    paths = [path for path in sorted(CASES.rglob("*")) if path.is_file() and path.suffix in (".jsonl", ".zstd")]
    assert len(paths) > 60
    for path in paths:
        shown = run(command[0], path, *command[1:])
        assert shown.code in (0, 1, 3, 4), path
        assert "Traceback" not in shown.err, path
        assert "internal error" not in shown.err, path
        assert not CONTROL.search(shown.err), path
        if "--json" not in command:
            assert not CONTROL.search(shown.out), path
        if shown.code == 3:
            assert shown.err or shown.out, path


def test_escape_sequences_of_a_log_are_shown_as_text(run: Callable[..., Ran]) -> None:
    """BC-055: terminal escapes in tool output."""
    hostile = CASES / "BC-055" / "session.jsonl"
    assert "\\x1b]0;owned\\x07\\x1b[31mred" in run("show", hostile, "--all").out
    assert "\\x1b]0;owned\\x07" in run("replay", hostile, "--speed", "0").out
    assert "\x1b" not in run("show", hostile, "--color", "never").out


def test_nul_and_other_control_characters_survive_json_and_never_reach_the_terminal(run: Callable[..., Ran]) -> None:
    """BC-056"""
    nul = CASES / "BC-056" / "session.jsonl"
    assert "\0" not in run("messages", nul).out
    texts = str(run("messages", nul, "--json").json)
    assert "\\x00" in texts


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show", SAMPLE], 0),
        (["ls", "--root", root(0)], 0),
        (["turn", SAMPLE, "7"], 1),
        (["call", SAMPLE, "nope"], 1),
        (["sources", SAMPLE, "@77"], 1),
        (["sources", SAMPLE, "t1.s1.a9"], 1),
        (["verify", CASES / "BC-070" / "dup-seq-key.jsonl"], 1),
        ([], 2),
        (["nosuch"], 2),
        (["show"], 2),
        (["show", SAMPLE, "--nosuch"], 2),
        (["show", SAMPLE, "--color", "pink"], 2),
        (["turn", SAMPLE, "one"], 2),
        (["sources", SAMPLE, "one"], 2),
        (["sources", CASES / "BC-041" / "session.jsonl", "call:call_0"], 2),
        (["events", SAMPLE, "--limit", "x"], 2),
        (["show", "nosuch"], 1),
        (["show", "--latest", "--root", CASES / "BC-055"], 1),
        (["messages", SAMPLE, "--before", "0"], 1),
        (["events", SAMPLE, "--type", "approval/asked"], 1),
        (["events", SAMPLE, "--type", "tool/cal"], 2),
        (["events", SAMPLE, "--turn", "one"], 2),
        (["events", SAMPLE, "--header"], 2),
        (["ls", "--root", "/nosuch"], 2),
        (["show", "session-9", "--root", SAMPLE], 2),
        (["show", CASES / "BC-050" / "utf16.jsonl"], 3),
        (["messages", CASES / "BC-032" / "root" / "--home-dev-demo--" / "sess-bad-version"], 3),
        (["show", CASES / "BC-049" / "torn-last-frame.jsonl.zstd"], 4),
        (["messages", CASES / "BC-049" / "bad-checksum-middle.jsonl.zstd"], 4),
        (["ls", "--root", CASES / "BC-032" / "root"], 4),
    ],
    ids=str,
)
def test_exit_codes_are_what_the_help_says(arguments: list[object], code: int) -> None:
    done = spawn(*arguments)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert (done.stderr != b"") == (code != 0 and "verify" not in arguments)


def test_what_strict_reading_refuses_is_shown_with_a_warning(run: Callable[..., Ran]) -> None:
    shown = run("show", CASES / "BC-049" / "bad-checksum-middle.jsonl.zstd")
    assert shown.code == 4
    assert shown.out.startswith("[turn/start] turn=1\n")
    assert "What is readable is shown" in shown.err


def test_a_newer_format_is_named_as_such(run: Callable[..., Ran]) -> None:
    shown = run("show", CASES / "BC-032" / "root" / "--home-dev-demo--" / "sess-bad-version")
    assert (shown.code, shown.out) == (3, "")
    assert "newer dsh" in shown.err


def test_version_is_printed_without_loading_the_commands() -> None:
    code = (
        "import sys; from turnlog.cli import main; main(['-V']); print(sorted({'typer', 'msgspec'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"turnlog \d+\.\d+\.\d+\n\[\]\n", done.stdout)


def test_the_package_is_a_program() -> None:
    for words in (["--version"], ["verify", str(SAMPLE)], ["show", "nosuch"]):
        as_module = subprocess.run([sys.executable, "-m", "turnlog", *words], capture_output=True, check=False)
        as_script = spawn(*words)
        assert (as_module.returncode, as_module.stdout) == (as_script.returncode, as_script.stdout)
    shown = subprocess.run([sys.executable, "-m", "turnlog", "show", "-h"], capture_output=True, check=True)
    assert shown.stdout.startswith(b"Usage: turnlog show")


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    code = "import sys; import turnlog.cli; print(sorted({'typer', 'rich', 'msgspec', 'zstandard'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_names_every_command_and_exit_code(run: Callable[..., Ran]) -> None:
    shown = run("--help")
    assert shown.code == 0
    for word in ("ls", "show", "events", "messages", "turn", "call", "sources", "replay", "verify", "130", "--latest"):
        assert word in shown.out
    assert run("show", "-h").code == 0
    assert run("-V").out == run("--version").out


def test_colour_is_off_in_pipes_and_on_demand_anywhere() -> None:
    assert b"\x1b" not in spawn("show", SAMPLE).stdout
    assert b"\x1b[1m" in spawn("show", SAMPLE, "--color", "always").stdout
    assert b"\x1b[1m" in spawn("--color=always", "show", SAMPLE, env={"NO_COLOR": "1"}).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
@pytest.mark.parametrize(
    ("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)], ids=["plain", "no", "dumb"]
)
def test_colour_on_a_terminal_honours_no_color(env: dict[str, str], colored: bool) -> None:
    out, code = on_terminal(["show", str(SAMPLE)], {"PAGER": "cat", "TERM": "xterm", **env})
    assert code == 0
    assert (b"\x1b[1m" in out) == colored


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_rows_are_cut_at_the_edge_of_a_terminal_and_json_has_no_hidden_characters() -> None:
    out, _code = on_terminal(["show", str(SAMPLE)], {"PAGER": "cat", "COLUMNS": "30", "NO_COLOR": "1"})
    assert b'  tool/call: bash args={"comma' not in out
    assert "…".encode() in out
    out, _code = on_terminal(["messages", str(SAMPLE), "--json"], {"PAGER": "cat"})
    assert out.startswith(b'{"schemaVersion":1')


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_a_pager_shows_the_data_and_hints_come_after_it() -> None:
    environment = {"PAGER": "sed s/^/paged:/", "TERM": "xterm", "NO_COLOR": "1"}
    out, code = on_terminal(["events", str(SAMPLE), "--limit", "2"], environment)
    lines = out.decode().splitlines()
    assert code == 0
    assert [line.startswith("paged:@") for line in lines] == [True, True, False]
    out, _code = on_terminal(["events", str(SAMPLE), "--no-pager"], environment)
    assert b"paged" not in out
    out, code = on_terminal(["events", LONG[0], "--root", str(root(0))], {**environment, "PAGER": "head -n 1"})
    assert (len(out.splitlines()), code) == (1, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    """BC-073"""
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as gone:
        for words in (["events", LONG[0], "--root", root(0)], ["--help"], ["--version"]):
            done = spawn(*words, stdout=gone, stderr=subprocess.PIPE)
            assert (done.returncode, done.stderr) == (141, b""), words


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_output_that_cannot_be_written_is_said() -> None:
    with open("/dev/full", "wb") as full:
        for words in (["show", SAMPLE], ["--help"], ["show", "--help"], ["--version"], ["--show-completion", "bash"]):
            done = spawn(*words, stdout=full, stderr=subprocess.PIPE)
            assert done.returncode == 74, words
            assert done.stderr.count(b"\n") == 1, words
            assert b"cannot be written" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_ends_a_replay_with_130_and_no_traceback() -> None:
    code = "import sys; from turnlog.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "replay", str(SAMPLE), "--speed", "0.0001", "--idle-limit", "inf"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"[turn/start] turn=1\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_fault_of_our_own_is_one_sentence_and_70(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("boom\x1b[31m")

    monkeypatch.setattr("turnlog.cli.commands.show.show", broken)
    monkeypatch.delenv("TURNLOG_DEBUG", raising=False)
    shown = run("show", SAMPLE)
    assert (shown.code, shown.out) == (70, "")
    assert shown.err == ("turnlog: internal error, please report it: RuntimeError: boom\\x1b[31m "
                         "(TURNLOG_DEBUG=1 shows where)\n")  # fmt: skip
    monkeypatch.setenv("TURNLOG_DEBUG", "1")
    assert "Traceback" in run("show", SAMPLE).err


def test_a_file_that_may_not_be_read_is_said(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", "/secret")

    monkeypatch.setattr("turnlog.store.load", refuse)
    assert run("show", SAMPLE) == Ran(3, "", "turnlog: /secret: Permission denied\n")


def test_the_docstring_of_the_command_line_lists_its_exit_codes() -> None:
    import turnlog.cli

    documented = turnlog.cli.__doc__ or ""
    for code in ("0", "1", "2", "3", "4", "70", "74", "130", "141"):
        assert re.search(rf"\b{code}\b", documented)
