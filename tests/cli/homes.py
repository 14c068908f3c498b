"""A home directory, a workspace, and ``turnlog`` in it: with pipes, or at a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import turnlog
from turnlog.events import TurnEnd
from turnlog.store import StoredSession
from turnlog.store.discover import latest
from turnlog.testing import LoopbackServer


class Home:
    """A home directory, a workspace, and the program in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workspace = path / "work"
        self.workspace.mkdir()

    def environment(self, server: LoopbackServer) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        return {
            **kept,
            "TURNLOG_HOME": str(self.path),
            "TURNLOG_MODEL": "openai/scripted",
            "OPENAI_BASE_URL": server.base_url,
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, server: LoopbackServer, *words: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "turnlog", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, cwd=self.workspace, env=self.environment(server), text=True, **pipes)

    def run(self, server: LoopbackServer, *words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "turnlog", *words]
        return subprocess.run(
            command, cwd=self.workspace, env=self.environment(server), text=True, capture_output=True, input=typed
        )

    @property
    def session(self) -> StoredSession:
        return turnlog.load(latest([self.path / "sessions"]))


class AtTerminal:
    """The program with a pseudo-terminal as its controlling terminal, and whoever sits at it."""

    def __init__(self, home: Home, server: LoopbackServer, *words: str) -> None:
        self.keyboard, end = pty.openpty()
        self.shown = ""
        self._open = True
        self.process = subprocess.Popen(
            [sys.executable, "-m", "turnlog", *words],
            cwd=home.workspace, env=home.environment(server), stdin=end, stdout=end, stderr=end, preexec_fn=_take_it,
        )  # fmt: skip
        os.close(end)

    def __enter__(self) -> AtTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.leave()

    def type(self, keys: str | bytes) -> None:
        os.write(self.keyboard, keys if isinstance(keys, bytes) else keys.encode())

    def leave(self) -> None:
        """The terminal goes away."""
        if self._open:
            self._open = False
            os.close(self.keyboard)

    def sees(self, wanted: str) -> None:
        """Read on until *wanted* is shown."""
        end = time.monotonic() + 60
        while wanted not in self.shown:
            more = self._pump() and time.monotonic() < end
            assert more, f"{wanted!r} was never shown: {self.shown}"

    def ends(self) -> int:
        """The exit code; all that it shows is read before."""
        while self._pump():
            pass
        return self.process.wait(timeout=60)

    def _pump(self) -> bool:
        ready, _, _ = select.select([self.keyboard], [], [], 60)
        assert ready, f"nothing was shown for a minute: {self.shown}"
        try:
            read = os.read(self.keyboard, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += read.decode(errors="replace").replace("\r\n", "\n")
        return bool(read)


def _take_it() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def printed(process: subprocess.Popen[str], wanted: str) -> None:
    """Read on until *wanted* was printed; an answer has no end of line while it streams."""
    assert process.stdout is not None
    shown = ""
    while wanted not in shown:
        character = process.stdout.read(1)
        assert character, f"it ended before it printed {wanted!r}: {shown}"
        shown += character


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def ends(session: StoredSession) -> list[str]:
    return [type(event.data.reason).__name__ for event in session.select(TurnEnd)]
