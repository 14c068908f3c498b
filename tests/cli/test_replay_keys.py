"""Keys of a running ``replay`` at a real terminal, which is given back as it was however that ends."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.homes import _take_it
from tests.views.logs import SAMPLE
from turnlog.cli.keys import GONE, Keys

SLOW = ("--speed", "0.00001", "--idle-limit", "inf")
"""Every wait of the sample is a quarter of an hour: nothing is shown that no key asked for."""
RAISING = """
import sys
from turnlog.cli import main, transcript
def show(self, frame):
    self.line("shown once")
    if frame.seq == 1:
        raise RuntimeError("boom")
transcript.Transcript.frame = show
sys.exit(main())
"""
LEADER = """
import os, signal, sys, termios
def cooked():
    return bool(termios.tcgetattr(0)[3] & termios.ICANON)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-m", "turnlog", *sys.argv[1:]])
_, status = os.waitpid(pid, os.WUNTRACED)
print("stopped", os.WIFSTOPPED(status), "cooked", cooked(), flush=True)
os.tcsetpgrp(0, os.getpgrp())
sys.stdin.readline()
os.tcsetpgrp(0, pid)
os.kill(pid, signal.SIGCONT)
_, status = os.waitpid(pid, 0)
os.tcsetpgrp(0, os.getpgrp())
print("ended", os.waitstatus_to_exitcode(status), "cooked", cooked(), flush=True)
"""


class Sitting:
    """Somebody at a terminal in which a program runs."""

    def __init__(self, *words: str, code: str | None = None) -> None:
        self.keyboard, end = pty.openpty()
        self.before = termios.tcgetattr(self.keyboard)
        self.shown = ""
        command = [sys.executable, *(("-m", "turnlog") if code is None else ("-c", code)), *words]
        environment = {**os.environ, "TERM": "dumb", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            command, stdin=end, stdout=end, stderr=end, env=environment, preexec_fn=_take_it
        )  # fmt: skip
        os.close(end)

    def __enter__(self) -> Sitting:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.keyboard)

    def type(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def sees(self, wanted: str) -> None:
        end = time.monotonic() + 60
        while wanted not in self.shown:
            assert self._pump(), f"{wanted!r} was never shown: {self.shown}"
            assert time.monotonic() < end, f"{wanted!r} was never shown: {self.shown}"

    def ends(self) -> int:
        """The exit code; the terminal is as it was."""
        while self._pump():
            pass
        code = self.process.wait(timeout=60)
        assert termios.tcgetattr(self.keyboard) == self.before
        assert "Traceback" not in self.shown
        return code

    @property
    def raw(self) -> bool:
        """Whether keys come one by one."""
        return not termios.tcgetattr(self.keyboard)[3] & termios.ICANON

    def _pump(self) -> bool:
        ready, _, _ = select.select([self.keyboard], [], [], 60)
        assert ready, f"nothing was shown for a minute: {self.shown}"
        try:
            read = os.read(self.keyboard, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += read.decode(errors="replace").replace("\r\n", "\n")
        return bool(read)


@pytest.fixture
def sitting() -> Iterator[Callable[..., Sitting]]:
    """``sitting(*options)``: at a replay of the sample that shows nothing by itself."""
    opened: list[Sitting] = []

    def sit(*options: str, code: str | None = None) -> Sitting:
        opened.append(Sitting("replay", str(SAMPLE), *SLOW, *options, code=code))
        return opened[-1]

    yield sit
    for one in opened:
        one.__exit__()


def test_keys_show_a_token_a_block_a_step_and_a_turn_more(sitting: Callable[..., Sitting]) -> None:
    person = sitting()
    person.sees("[turn/start] turn=1\n")
    assert person.raw
    person.type(".")
    person.sees("[step/start] turn=1 step=1\n")
    person.type("b")
    person.sees("user/message: Fix the typo in the runoob README.\n")
    person.type("b")
    person.sees("assistant: I'll ")
    assert "asks for" not in person.shown
    person.type("s")
    person.sees("[step/end] turn=1 step=1\n")
    assert "[turn/end]" not in person.shown
    person.type("t")
    assert person.ends() == 0
    assert person.shown.endswith("[turn/end] turn=1 reason={'kind': 'completed'}\n")


def test_space_pauses_and_n_skips_a_wait(sitting: Callable[..., Sitting]) -> None:
    person = sitting()
    person.sees("[turn/start] turn=1\n")
    person.type("n")
    person.sees("[step/start] turn=1 step=1\n")
    person.type(" ")
    person.sees("paused before @2, 20 ms of 90 ms; space goes on, ? lists keys\n")
    person.type("?")
    person.sees("+ and - play faster and slower")
    person.type(" n")
    person.sees("user/message: Fix")
    person.type("q")
    assert person.ends() == 0
    assert "[turn/end]" not in person.shown


def test_the_speed_can_be_changed_while_it_plays(sitting: Callable[..., Sitting]) -> None:
    person = sitting()
    person.sees("[turn/start] turn=1\n")
    person.type("-")
    person.sees("speed 0.015625\n")
    person.type("+" * 17)
    assert person.ends() == 0
    assert "speed 0.03125\n" in person.shown
    assert person.shown.rstrip().endswith("reason={'kind': 'completed'}")


def test_it_can_go_back_to_the_beginning_of_a_step(sitting: Callable[..., Sitting]) -> None:
    person = sitting()
    person.sees("[turn/start] turn=1\n")
    person.type("..b")
    person.sees("user/message: Fix the typo")
    person.type("S")
    person.sees("back to @1\n")
    person.type(".")
    person.sees("back to @1\n  [step/start] turn=1 step=1\n")
    person.type("T")
    person.sees("back to @0\n")
    person.type("q")
    assert person.ends() == 0


@pytest.mark.parametrize(("how", "code"), [("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupt_gives_the_terminal_back(sitting: Callable[..., Sitting], how: Any, code: int) -> None:
    person = sitting()
    person.sees("[turn/start] turn=1\n")
    assert person.raw
    if isinstance(how, str):
        person.type(how)
    else:
        person.process.send_signal(how)
    assert person.ends() == code


def test_a_renderer_that_raises_gives_the_terminal_back(sitting: Callable[..., Sitting]) -> None:
    person = sitting(code=RAISING)
    person.sees("shown once\n")
    assert person.raw
    person.type(".")
    assert person.ends() == 70
    assert "RuntimeError: boom" in person.shown


def test_ctrl_z_stops_with_the_terminal_as_it_was_and_goes_on(sitting: Callable[..., Sitting]) -> None:
    with Sitting("replay", str(SAMPLE), *SLOW, code=LEADER) as person:
        person.sees("[turn/start] turn=1\n")
        person.type("\x1a")
        person.sees("stopped True cooked True\n")
        person.type("go on\n")
        person.type(".")
        person.sees("[step/start] turn=1 step=1\n")
        person.type("q")
        person.sees("ended 0 cooked True\n")


def test_without_a_person_at_the_terminal_no_key_is_read(sitting: Callable[..., Sitting]) -> None:
    """Output into a pipe, or a keyboard that is none: it plays as ever."""
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", "replay", str(SAMPLE), "--speed", "0"],
        stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


# -- one by one -----------------------------------------------------------------------------------------------------


def test_keys_are_characters_and_names_of_arrows() -> None:
    keyboard, end = pty.openpty()
    before = termios.tcgetattr(end)
    try:
        with Keys(end) as keys:
            os.write(keyboard, "a\x1b[Aé\x1b[D\x1bOB\x1b[1;5C ".encode())
            assert [keys.wait(60) for _ in range(6)] == ["a", "up", "é", "left", "down", " "]
            os.write(keyboard, b"\x1b")
            assert keys.wait(60) == "escape"
            assert keys.wait(0) is None
            os.write(keyboard, b"\xff")
            assert keys.wait(60) == "\ufffd"
        assert termios.tcgetattr(end) == before
        with Keys(end) as keys:
            os.close(keyboard)
            keyboard = -1
            assert keys.wait(60) == GONE
    finally:
        os.close(end)
        if keyboard >= 0:
            os.close(keyboard)
