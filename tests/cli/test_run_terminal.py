"""``turnlog run`` and ``chat`` at a real terminal: typing, questions, Ctrl-C, and a terminal that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.homes import AtTerminal, Home, ends, running, until
from turnlog.model import call, text, wait
from turnlog.testing import LoopbackServer
from turnlog.testing.replies import refuse, reply

STUBBORN = "(trap '' TERM; while :; do date +%s%N > beat; sleep 0.1; done) & echo began; wait"
"""A command whose grandchild does not hear TERM."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def results(server: LoopbackServer) -> dict[str, str]:
    """What the model was told of each call."""
    return {one["tool_call_id"]: one["content"] for one in server.bodies[-1]["messages"] if one["role"] == "tool"}


def test_a_question_shows_exactly_what_will_run(home: Home) -> None:
    """What str.splitlines takes for an end of line (\\r, \\x0b, \\x85, U+2028) looked like a newline."""
    hidden = "echo one\necho \x1b[2J\u202e\x85\x0b\r\u2028two"
    with (
        LoopbackServer([[call("bash", command=hidden)], [text("Well.")]]) as server,
        AtTerminal(home, server, "run", "Go.") as person,
    ):
        person.sees("[y]es, [n]o, [a]lways (exactly this)")
        person.type("n\n")
        code = person.ends()

    assert code == 0
    assert "\n  echo one\n  echo \\x1b[2J\\u202e\\x85\\x0b\\r\\u2028two\n" in person.shown
    assert "\x1b[2J" not in person.shown


def test_answers_are_yes_no_and_always(home: Home) -> None:
    asked: list[Any] = [
        [call("bash", id="a", command="echo A")],
        [call("bash", id="b", command="echo B")],
        [call("bash", id="c", command="echo B")],
        [text("Done.")],
    ]
    with LoopbackServer(asked) as server, AtTerminal(home, server, "run", "Go.") as person:
        person.sees("  echo A\nturnlog: [y]es")
        person.type("n\n")
        person.sees("  echo B\nturnlog: [y]es")
        person.type("perhaps\n")
        person.type("a\n")
        code = person.ends()
        told = results(server)

    assert code == 0
    assert "rejected" in told["a"]
    assert told["b"].startswith("B")
    assert told["c"].startswith("B")
    assert person.shown.count("wants to run") == 2


def test_the_end_of_input_leaves_a_question_unanswered(home: Home) -> None:
    with (
        LoopbackServer([[call("bash", id="a", command="echo A")], [text("Done.")]]) as server,
        AtTerminal(home, server, "run", "Go.") as person,
    ):
        person.sees("[y]es")
        person.type("\x04")
        code = person.ends()
        told = results(server)

    assert code == 0
    assert "nobody can be asked" in told["a"]


def test_typing_steers_also_with_bytes_that_are_no_text(home: Home) -> None:
    """Bad UTF-8 came as halves of surrogate pairs, which the log refuses with a traceback."""
    with (
        LoopbackServer([[call("bash", command="until [ -e go ]; do sleep 0.05; done")], [text("Done.")]]) as server,
        AtTerminal(home, server, "run", "Go.", "--allow", "bash") as person,
    ):
        person.sees("tool/call")
        person.type(b"and \xc3\xa4 \xff too\n")
        until(lambda: "too" in str([event.raw for event in home.session.events]))
        (home.workspace / "go").touch()
        code = person.ends()
        last = server.bodies[-1]["messages"][-1]

    assert code == 0
    assert last == {"role": "user", "content": "and ä \ufffd too"}
    assert "Traceback" not in person.shown


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_a_tool_that_does_not_want_to(home: Home, times: int) -> None:
    with (
        LoopbackServer([[call("bash", command=STUBBORN)]]) as server,
        AtTerminal(home, server, "run", "Go.", "--allow", "bash") as person,
    ):
        until((home.workspace / "beat").exists)
        for _ in range(times):
            person.type("\x03")
            time.sleep(0.1)
        code = person.ends()

    assert code == 130
    assert ends(home.session) == ["Aborted"] or home.session.closers
    until(lambda: _still(home.workspace / "beat"))


def _still(file: Path) -> bool:
    before = file.read_bytes()
    time.sleep(0.5)
    return file.read_bytes() == before


def test_ctrl_c_withdraws_a_question(home: Home) -> None:
    with (
        LoopbackServer([[call("bash", command="echo A")]]) as server,
        AtTerminal(home, server, "run", "Go.") as person,
    ):
        person.sees("[y]es")
        person.type("\x03")
        code = person.ends()

    assert code == 130
    assert "approval/decided: cancelled" in person.shown
    assert ends(home.session) == ["Aborted"]


def test_ctrl_c_shortens_the_wait_for_a_retry(home: Home) -> None:
    with (
        LoopbackServer([refuse(429, retry_after=9)]) as server,
        AtTerminal(home, server, "run", "Go.") as person,
    ):
        person.sees("llm/retry")
        began = time.monotonic()
        person.type("\x03")
        code = person.ends()

    assert code == 130
    assert time.monotonic() - began < 8
    assert ends(home.session) == ["Aborted"]


def test_a_terminal_that_goes_away_cancels(home: Home) -> None:
    with (
        LoopbackServer([lambda _: reply(text(*["word "] * 200), wait(3600), pause=0.01)]) as server,
        AtTerminal(home, server, "run", "Go.") as person,
    ):
        person.sees("word word")
        person.leave()
        code = person.process.wait(timeout=60)

    assert code in (130, 141)
    assert ends(home.session) == ["Aborted"]


def test_headless_goes_on_without_its_terminal_and_says_how_it_ended(home: Home) -> None:
    """It ended with 141, as if the work had been cut off."""
    with (
        LoopbackServer([lambda _: reply(text(*["word "] * 100), pause=0.01)]) as server,
        AtTerminal(home, server, "run", "Go.", "--headless") as person,
    ):
        person.sees("word word")
        person.leave()
        code = person.process.wait(timeout=60)

    assert code == 0
    assert ends(home.session) == ["Completed"]


def test_a_question_does_not_wait_for_a_terminal_that_is_gone(home: Home) -> None:
    """Somebody was thought to be there as long as reading had not met an end of input."""
    keyboard, end = os.openpty()
    with (
        LoopbackServer([[wait(1), call("bash", id="a", command="echo A")], [text("Done.")]]) as server,
        running(home.start(server, "run", "Go.", stdin=end)) as process,
    ):
        os.close(end)
        until(lambda: bool(server.requests))
        os.close(keyboard)
        process.communicate(timeout=60)
        told = results(server)

    assert process.returncode == 0
    assert "nobody can be asked" in told["a"]


def test_a_chat_ends_at_sigterm(home: Home) -> None:
    """It was not heard while nothing ran."""
    with LoopbackServer([]) as server, AtTerminal(home, server, "chat") as person:
        person.sees("Ctrl-D ends")
        person.process.send_signal(signal.SIGTERM)
        assert person.ends() == 0


def test_a_job_in_the_background_is_not_stopped_for_its_keyboard(home: Home) -> None:
    """To read a terminal from the background stops the program (SIGTTIN)."""
    with LoopbackServer([[text("Done.")]]) as server:
        keyboard, end = os.openpty()
        shell = subprocess.Popen(
            ["bash", "--norc", "-ic", f"{sys.executable} -m turnlog run Go. >out 2>&1 & wait; jobs >>out; touch over"],
            cwd=home.workspace, env=home.environment(server), stdin=end, stdout=end, stderr=end, start_new_session=True,
        )  # fmt: skip
        os.close(end)
        try:
            until(lambda: bool(server.requests))
            until((home.workspace / "over").exists)
        finally:
            shell.kill()
            shell.wait()
            os.close(keyboard)

    assert "Stopped" not in (home.workspace / "out").read_text()
    assert ends(home.session) == ["Completed"]
