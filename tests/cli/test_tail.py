"""``tail``: a session as it is written, through the transcript of ``run`` and ``replay``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import turnlog
from tests.cli.homes import Home, printed, running, until
from tests.cli.running import Ran
from tests.store.test_follow import append, replaced, writer
from tests.views.logs import CASES, LONG, SAMPLE, TOOLS, end, finish, log, root, step, step_end, turn, user
from tests.views.logs import chunk as chunk_event
from tests.views.logs import text as delta
from turnlog.cli import completion
from turnlog.cli.commands.tail import KINDS, MOMENTS
from turnlog.model import call, text, wait
from turnlog.testing import LoopbackServer
from turnlog.testing.replies import reply
from turnlog.views.play_groups import GRANULARITIES

STORED = [(version, name) for version in (0, 3, 4) for name in (TOOLS[version], LONG[version])]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# -- one renderer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "name"), [*STORED, (0, "crashed-session"), (3, "multi-turn")])
def test_it_shows_what_a_replay_shows(run: Callable[..., Ran], version: int, name: str) -> None:
    played = run("replay", name, "--root", root(version), "--speed", "0", "--stall", "inf", "--idle-limit", "inf")
    shown = run("tail", name, "--root", root(version), "--from", "@0")
    assert (shown.code, shown.out) == (0, played.out)


def test_it_shows_what_the_run_shows_while_it_runs(home: Home) -> None:
    """Both from the beginning, and of the same lines; the tail ends when the run does."""
    script = [[call("glob", pattern="*")], lambda _: reply(wait(0.2), text(*["word "] * 40), pause=0.01)]
    with LoopbackServer(script) as server, running(home.start(server, "run", "Go.")) as work:
        printed(work, "[step/start]")
        until(lambda: bool(list((home.path / "sessions").rglob("session.jsonl"))))
        with running(home.start(server, "tail", "--from", "@0")) as watcher:
            out, err = watcher.communicate(timeout=60)
        rest = work.communicate(timeout=60)[0]
    assert watcher.returncode == 0, err
    assert "  assistant: word word " in out
    assert out.endswith(rest[-60:])
    again = home.run(server, "replay", "--latest", "--speed", "0", "--stall", "inf", "--idle-limit", "inf")
    assert out == again.stdout


def test_no_stored_log_however_bad_ends_in_a_traceback(run: Callable[..., Ran]) -> None:
    for path in sorted(CASES.rglob("*")):
        if path.is_file() and path.suffix in (".jsonl", ".zstd"):
            shown = run("tail", path)
            assert shown.code in (0, 3, 4), path
            assert "Traceback" not in shown.err, path
            assert "internal error" not in shown.err, path


# -- where it begins, and what it shows -----------------------------------------------------------------------------


def test_it_begins_at_the_last_turn_or_where_it_is_told(run: Callable[..., Ran]) -> None:
    shown = run("tail", "multi-turn", "--root", root(3)).out
    assert shown.startswith("[turn/start] turn=")
    assert shown.count("[turn/start]") == 1
    assert run("tail", SAMPLE, "--from", "@8").out == (
        "  [step/end] turn=1 step=1\n[turn/end] turn=1 reason={'kind': 'completed'}\n"
    )


def test_a_place_behind_the_end_of_a_log_that_nobody_writes_is_said(run: Callable[..., Ran]) -> None:
    assert (run("tail", SAMPLE, "--from", "@10").code, run("tail", SAMPLE, "--from", "@10").out) == (0, "")
    shown = run("tail", SAMPLE, "--from", "@11")
    assert (shown.code, shown.out) == (1, "")
    assert "ends at @9, before @11" in shown.err


def test_json_is_the_log_from_there_on(run: Callable[..., Ran]) -> None:
    assert run("tail", SAMPLE, "--json").out == run("events", SAMPLE, "--json").out
    shown = run("tail", TOOLS[0], "--root", root(0), "--from", "@9", "--json")
    assert shown.out == run("events", TOOLS[0], "--root", root(0), "--json", "--from", "@9").out


@pytest.mark.parametrize(
    ("only", "has", "lacks"),
    [
        ("text", ["assistant: "], ["asks for", "tool/", "[turn", "user/message"]),
        ("tools", ["asks for bash", "tool/call: bash", "tool/result"], ["assistant: ", "[turn", "user/"]),
        ("writes", ["tool/call: bash", "tool/result"], ["assistant: "]),
        ("prompts,turns", ["user/message", "[turn/start]", "[step/end]"], ["assistant: ", "tool/"]),
        ("errors", [], ["assistant: ", "tool/", "[turn", "user/message"]),
    ],
)
def test_only_some_kinds_can_be_shown(run: Callable[..., Ran], only: str, has: list[str], lacks: list[str]) -> None:
    shown = run("tail", SAMPLE, "--only", only).out
    assert [one for one in has if one not in shown] == []
    assert [one for one in lacks if one in shown] == []


def test_every_event_is_of_some_kind(run: Callable[..., Ran]) -> None:
    kinds = "text,thinking,tools,writes,prompts,errors,turns,other"
    for name in (TOOLS[0], "crashed-session"):
        whole = run("tail", name, "--root", root(0), "--from", "@0", "--json").out
        assert run("tail", name, "--root", root(0), "--from", "@0", "--json", "--only", kinds).out == whole
        parts = [set(run("tail", name, "--root", root(0), "--from", "@0", "--json", "--only", one).out.splitlines())
                 for one in kinds.split(",")]  # fmt: skip
        assert set().union(*parts) == set(whole.splitlines())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "fish"], "--only takes text, thinking"),
        (["--until", "tomorrow"], "--until takes turn-end"),
        (["--from", "nowhere"], "no address"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Callable[..., Ran], words: list[str], told: str) -> None:
    shown = run("tail", SAMPLE, *words)
    assert (shown.code, shown.out) == (2, "")
    assert told in shown.err


def test_the_shell_offers_what_the_options_take() -> None:
    assert completion.kinds("") == list(KINDS)
    assert completion.kinds("text,t") == ["text,text", "text,thinking", "text,tools", "text,turns"]
    assert completion.moments("") == list(MOMENTS)
    assert completion.granularities("") == list(GRANULARITIES)
    assert completion.granularities("st") == ["step"]


def test_standard_input_cannot_be_followed(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SAMPLE.read_bytes())))
    shown = run("tail", "-")
    assert shown.code == 2
    assert "cannot be followed" in shown.err


# -- until ----------------------------------------------------------------------------------------------------------


def test_an_ended_turn_is_what_turn_end_waits_for(run: Callable[..., Ran]) -> None:
    for moment, code in (("turn-end", 0), ("idle", 0), ("error", 1)):
        assert run("tail", SAMPLE, "--until", moment).code == code
        shown = run("tail", "crashed", "--root", root(0), "--until", moment)
        assert shown.code == 1
        assert f"did not come to {moment}" in shown.err


FAILED = {"kind": "error", "error": {"message": "no", "code": "TRANSPORT"}}


@pytest.mark.parametrize("moment", ["turn-end", "error", "idle"])
def test_it_ends_at_the_moment_and_shows_nothing_after_it(
    run: Callable[..., Ran], tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its writer goes on; what comes in one piece with the end of the turn is left for the next time."""
    lines = log(turn(), step(), user(), step_end(), end(reason=FAILED), turn(2)).splitlines(keepends=True)
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(lines[:3]))
    pending = lines[3:7] if moment != "idle" else lines[3:6]

    def rest(_seconds: float) -> None:
        """The first time that there is nothing new."""
        append(path, b"".join(pending))
        pending.clear()

    monkeypatch.setattr("turnlog.cli.commands.tail.IDLE", 0.0)
    monkeypatch.setattr("turnlog.cli.commands.tail._rest", rest)
    with writer(tmp_path):
        shown = run("tail", path, "--until", moment)
    assert shown.code == 0
    assert shown.out.rstrip().splitlines()[-1].startswith("[turn/end] turn=1")


# -- following ------------------------------------------------------------------------------------------------------


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "turnlog", "tail", *map(str, words)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def test_words_are_shown_as_they_come_and_the_end_of_the_writer_is_the_end(tmp_path: Path) -> None:
    """In the middle of a line, across another file in its place, and with how a dead writer's turn is closed."""
    said = [chunk_event(delta(word)) for word in ("one ", "two ", "three ", "four ")]
    lines = log(turn(), step(), user(), *said, chunk_event(finish())).splitlines(keepends=True)
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(lines[:5]))
    with writer(tmp_path) as gone, running(start(path)) as process:
        printed(process, "assistant: one ")
        append(path, lines[5][:20])
        append(path, lines[5][20:])
        printed(process, "two ")
        replaced(path, b"".join(lines[:7]))
        printed(process, "three ")
        append(path, lines[7])
        printed(process, "four ")
        gone()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.rstrip().endswith(
        "[turn/end] turn=1 reason={'kind': 'interrupted'} (synthetic: interrupted, not repaired)"
    )
    assert "one" not in out
    assert "changed" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_says_where_to_go_on(tmp_path: Path, number: int, code: int) -> None:
    lines = log(turn(), step(), user("hi"), id="mine").splitlines(keepends=True)
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(lines))
    with writer(tmp_path), running(start(path)) as process:
        printed(process, "user/message: hi\n")
        process.send_signal(number)
        _out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err == "turnlog: turnlog tail mine --from @3 goes on from here\n"


def test_a_reader_that_goes_away_ends_it_also_when_nothing_is_said(tmp_path: Path) -> None:
    """BC-073: nothing is written for a long time, so that no write fails."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(log(turn(), step(), user("hi")))
    with writer(tmp_path), running(start(path)) as process:
        printed(process, "user/message: hi\n")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 141


def test_damage_ends_it_with_the_reason_after_what_is_readable(tmp_path: Path) -> None:
    lines = log(turn(), step(), user("hi"), step_end(), end()).splitlines(keepends=True)
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(lines[:3]))
    with writer(tmp_path), running(start(path)) as process:
        printed(process, "[step/start] turn=1 step=1\n")
        append(path, lines[3] + lines[5])
        out, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert out == "  user/message: hi\n"
    assert "@3 is missing" in err


def test_watching_does_not_disturb_the_writer(home: Home) -> None:
    with LoopbackServer([[text("Done.")]]) as server:
        assert home.run(server, "run", "Go.").returncode == 0
        before = {path.name: path.read_bytes() for path in (home.path / "sessions").rglob("*") if path.is_file()}
        assert home.run(server, "tail").returncode == 0
        assert before == {
            path.name: path.read_bytes() for path in (home.path / "sessions").rglob("*") if path.is_file()
        }
    assert turnlog.load(next((home.path / "sessions").rglob("session.jsonl"))).closers == ()
