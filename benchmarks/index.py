"""The index: how fast it is made, and what a list and a search of ten thousand sessions take, whole processes.

Logs and directories are the same each time; the best of some rounds counts, since everything else that the machine does
only adds to it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .logs import write_log
from .report import Row, at_least, at_most

WORK = Path(__file__).parent / ".work" / "index"
SESSIONS = 10_000
ROUNDS = 5
_LOG = 40_000_000
"""Bytes of the logs that throughput is measured on."""

_INDEX = """
import sys, time
from pathlib import Path
from turnlog.catalogue import Catalogue
from turnlog.catalogue import facts  # loaded before the clock starts
began = time.process_time()
Catalogue([Path(sys.argv[1])]).close()
print(time.process_time() - began)
"""
_TEXT = """
import sys, time
from pathlib import Path
from turnlog.catalogue import Catalogue
from turnlog.catalogue.building import build
root = Path(sys.argv[1])
Catalogue([root]).close()
began = time.process_time()
build([root])
print(time.process_time() - began)
"""


def rows(quick: bool) -> Iterator[Row]:
    """The rows of the section; *quick* with a tenth of the sessions and smaller logs."""
    size = _LOG // 4 if quick else _LOG
    for packed in (False, True):
        name = "packed" if packed else "plain"
        root = WORK / f"one-{name}-{size}"
        _one(root, packed=packed, size=size)
        yield at_least(f"indexed without full text, {name} (MB/s)", 60, size / 1e6 / _best(_INDEX, root))
    root = WORK / f"text-{size}"
    _one(root, packed=True, size=size, words=40)
    yield at_least("full text, long answers (MB/s)", 6, size / 1e6 / _best(_TEXT, root))
    yield from _many(SESSIONS // 10 if quick else SESSIONS)


def _many(number: int) -> Iterator[Row]:
    root = WORK / f"many-{number}"
    _sessions(root, number)
    environment = _environment(WORK / "many-index")
    _turnlog(environment, "index", "build", "--quiet", "--root", str(root))
    for case, asked, words in (
        (f"ls of {number:,} sessions (s)", 0.3, ["ls"]),
        (f"ls of the 20 newest of {number:,} (s)", 0.3, ["ls", "--limit", "20"]),
        (f"search in {number:,}, found (s)", 0.5, ["search", "surface"]),
        (f"search in {number:,}, two characters (s)", 0.5, ["search", "会话"]),
        (f"search in {number:,}, nothing (s)", 0.5, ["search", "zebra"]),
        (f"search in {number:,}, expression (s)", 0.5, ["search", "--regex", "index +re[a-z]+s"]),
    ):
        yield at_most(case, asked, min(_turnlog(environment, *words, "--root", str(root)) for _ in range(ROUNDS)))


def _turnlog(environment: dict[str, str], *words: str) -> float:
    """Seconds that a command takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "turnlog", *words], env=environment, capture_output=True, check=False)
    return time.perf_counter() - began


def _best(program: str, root: Path) -> float:
    """Processor seconds of *program*, each time from an empty index."""
    best = float("inf")
    for _ in range(3):
        index = WORK / "index-of-one"
        shutil.rmtree(index, ignore_errors=True)
        done = subprocess.run(
            [sys.executable, "-c", program, str(root)],
            env=_environment(index),
            capture_output=True,
            text=True,
            check=True,
        )
        best = min(best, float(done.stdout))
    return best


def _environment(index: Path) -> dict[str, str]:
    return {**os.environ, "TURNLOG_INDEX": str(index), "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def _one(root: Path, *, packed: bool, size: int, words: int = 1) -> None:
    path = root / "--home-dev-project--" / "bench" / "session.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True)
        write_log(path, packed=packed, target_bytes=size, text_words=words)


def _sessions(root: Path, number: int) -> None:
    if root.exists():
        return
    for one in range(number):
        id = f"session-{one:032x}"
        path = root / f"--home-dev-p{one % 40}--" / id / "session.jsonl"
        path.parent.mkdir(parents=True)
        write_log(path, steps=1 + one % 5, deltas=10, packed=True, seed=one, session_id=id)
        text = path.read_bytes()
        path.write_bytes(text.replace(b'"cwd":"/home/dev/project"', b'"cwd":"/home/dev/p%d"' % (one % 40), 1))
