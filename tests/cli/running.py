"""Running the command line, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
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
