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
ROUNDS = 5


def rows(peer: Path | None) -> Iterator[Row]:
    """The rows of the second half of the report: medians of rounds that alternate.

    Both sides do the same: append to live sessions, then wait until it is durable. dsh's file backend alone, given
    finished events, is shown beside; ours never does less than the whole.
    """
    ours_one, theirs, disk, alone = beside("one", peer)
    yield times("one event, then durable", 0.5, ours_one, disk, "raw disk")
    yield times("one event, then durable", 2, ours_one, theirs, "dsh")
    yield times("one event, dsh's files alone", None, ours_one, alone, "dsh")
    for case, name, ratio in (("twenty", "20 events", 2), ("many", "200 sessions × 10", 4)):
        rate, theirs, _disk, alone = beside(case, peer)
        yield times(f"{name}, then durable", ratio, rate, theirs, "dsh")
        yield times(f"{name}, dsh's files alone", None, rate, alone, "dsh")
    yield at_least("appends with a store writing behind (events/s)", 100_000, median(_rates("accepted")))
    yield at_least("durable sessions created (per s)", 500, median(_rates("created")))
    yield at_most("10,000 sessions listed (s)", 0.5, ours("listed")["seconds"])
    pairs = [ours("attested") for _ in range(ROUNDS)]
    cost = median(pair["with"] / pair["without"] for pair in pairs) - 1
    yield at_most("attestation, share of a barrier (%)", 5, cost * 100)


def beside(case: str, peer: Path | None) -> tuple[float, float | None, float, float | None]:
    """The rates of ours, of dsh, of the raw disk, and of dsh's files alone, in alternating rounds."""
    rates: dict[str, list[float]] = {"ours": [], "live": [], "raw": [], "files": []}
    for _ in range(ROUNDS):
        rates["raw"].append(ours("raw")["rate"])
        rates["ours"].append(ours("durable", case)["rate"])
        for way in ("live", "files") if peer is not None else ():
            shutil.rmtree(WORK, ignore_errors=True)
            WORK.mkdir(parents=True)
            assert peer is not None
            rates[way].append(peer_dsh.run_peer(peer, "persist.mjs", case, way, str(WORK))["rate"])
    middle = {name: median(found) if found else None for name, found in rates.items()}
    assert middle["ours"] is not None
    assert middle["raw"] is not None
    return middle["ours"], middle["live"], middle["raw"], middle["files"]


def _rates(case: str) -> list[float]:
    return [ours(case)["rate"] for _ in range(ROUNDS)]


def ours(case: str, *arguments: str) -> dict[str, Any]:
    """One case of ``disk`` in a fresh process and a fresh root."""
    shutil.rmtree(WORK, ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.disk", case, str(WORK), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
