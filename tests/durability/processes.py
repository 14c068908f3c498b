"""Processes that a test starts, stops and kills."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.durability.audit import Promises

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE: Final = 120.0
"""Seconds after which a process that says nothing has failed; no test is decided by less."""


def command(module: str, *arguments: object) -> list[str]:
    """The command line that runs ``main`` of a module of these tests."""
    code = f"import sys; from tests.durability.{module} import main; main(*sys.argv[1:])"
    return [sys.executable, "-c", code, *map(str, arguments)]


@contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a pipe from its stdout; killed at the end if it still lives."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def hear(process: subprocess.Popen[bytes], promises: Promises, seconds: float) -> None:
    """Take in what the process tells for some time."""
    assert process.stdout is not None
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], left)[0]:
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return
            promises.feed(data)


def hear_first(process: subprocess.Popen[bytes], promises: Promises) -> None:
    """Wait until the process has told something."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE)[0], "the process says nothing"
    data = os.read(process.stdout.fileno(), 1 << 16)
    assert data, "the process ended before it said anything"
    promises.feed(data)


def hear_rest(process: subprocess.Popen[bytes], promises: Promises) -> None:
    """Take in what is left in the pipe of a process that was killed."""
    assert process.stdout is not None
    while data := os.read(process.stdout.fileno(), 1 << 16):
        promises.feed(data)


def run(module: str, *arguments: object) -> Any:
    """Run ``main`` of a module in a fresh process without threads, which may fork; gives what it printed, as JSON."""
    with started(command(module, *arguments), stderr=subprocess.PIPE) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, f"{module} {arguments} exited with {process.returncode}:\n{errors.decode()[-8000:]}"
    return json.loads(output)
