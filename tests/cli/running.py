"""Running the command line, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from turnlog.cli import main

GOLDEN: Final = Path(__file__).parent / "golden"


@dataclass
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one JSON document."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def runner(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Ran]:
    """Runs in this process."""

    def run(*arguments: object) -> Ran:
        code = main([str(one) for one in arguments])
        out, err = capsysbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return run


def spawn(
    *arguments: object, stdin: bytes | None = None, env: Mapping[str, str] | None = None, **how: Any
) -> subprocess.CompletedProcess[bytes]:
    """Runs in a process of its own, as a user would."""
    command = [sys.executable, "-c", "import sys; from turnlog.cli import main; sys.exit(main())"]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", **(env or {})}
    environment = {name: value for name, value in environment.items() if name not in ("NO_COLOR", "COLUMNS") or env}
    if "stdout" not in how:
        how["capture_output"] = True
    return subprocess.run([*command, *map(str, arguments)], input=stdin, env=environment, check=False, **how)


def golden(name: str) -> str:
    """What a command must print, to the letter."""
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def on_terminal(arguments: list[str], env: dict[str, str]) -> tuple[bytes, int]:
    """Run with a pseudo-terminal as standard output and error; gives what appears on it and the exit code."""
    import pty

    leader, follower = pty.openpty()
    environment = {**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "PAGER")}, **env}
    command = [sys.executable, "-c", "import sys; from turnlog.cli import main; sys.exit(main())", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    shown = b"".join(_chunks(leader))
    os.close(leader)
    return shown.replace(b"\r\n", b"\n"), process.wait()


def _chunks(leader: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux says so when the other side is closed
            return
        if not piece:
            return
        yield piece
