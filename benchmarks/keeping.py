"""What it costs to keep sessions, beside the raw disk and dsh's file backend; rounds alternate on the same disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from . import peer_dsh
from .report import Row, at_least, at_most, times

WORK = Path(__file__).parent / ".work" / "kept"
ROUNDS = 3


def rows(peer: Path | None) -> Iterator[Row]:
    """The rows of the second half of the report."""
    disk = [ours("raw")["rate"] for _ in range(ROUNDS)]
    rates, theirs = beside("one", peer)
    yield times("one event, then durable", 0.5, max(rates), max(disk), "raw disk")
    yield times("one event, then durable", 2, max(rates), theirs, "dsh")
    for case, name, ratio in (("twenty", "20 events, then durable", 2), ("many", "200 sessions × 10, then durable", 4)):
        rates, theirs = beside(case, peer)
        yield times(name, ratio, max(rates), theirs, "dsh")
    yield at_least("appends with a store writing behind (events/s)", 100_000, max(_rates("accepted")))
    yield at_least("durable sessions created (per s)", 500, max(_rates("created")))
    yield at_most("10,000 sessions listed (s)", 0.5, ours("listed")["seconds"])
    pairs = [ours("attested") for _ in range(ROUNDS)]
    cost = median(pair["with"] / pair["without"] for pair in pairs) - 1
    yield at_most("attestation, share of a barrier (%)", 5, cost * 100)


def beside(case: str, peer: Path | None) -> tuple[list[float], float | None]:
    """Our rates and dsh's best, in alternating rounds."""
    rates, theirs = [], []
    for _ in range(ROUNDS):
        rates.append(ours("durable", case)["rate"])
        if peer is not None:
            shutil.rmtree(WORK, ignore_errors=True)
            WORK.mkdir(parents=True)
            theirs.append(peer_dsh.run_peer(peer, "persist.mjs", case, str(WORK))["rate"])
    return rates, max(theirs, default=None)


def _rates(case: str) -> list[float]:
    return [ours(case)["rate"] for _ in range(ROUNDS)]


def ours(case: str, *arguments: str) -> dict[str, Any]:
    """One case of ``disk`` in a fresh process and a fresh root."""
    shutil.rmtree(WORK, ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.disk", case, str(WORK), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
