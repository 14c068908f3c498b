"""`python -m benchmarks`: what was asked, what was reached, in one run beside dsh and other harnesses.

Ratios against dsh are taken from rounds that alternate on the same machine and the same logs. Medians decide, on both
sides; the best runs are shown beside them. Absolute figures are those of the best runs: they depend on the machine and
are printed beside what was asked. ``--quick`` leaves the 500 MB log out. Nothing here decides whether a test passes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from . import asking, keeping, ours, peer_dsh, working
from .logs import write_log
from .report import Row, at_least, at_most

WORK = Path(__file__).parent / ".work" / "logs"
STEPS = 2_000
BIG = 500_000_000


def main() -> int:
    """Run everything and print the table."""
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--quick", action="store_true", help="leave out the 500 MB log, repeat less")
    options.add_argument("--only", choices=("reading", "keeping", "working", "asking", "index"), help="one part of it")
    chosen = options.parse_args()
    peer = None if chosen.only in ("working", "index") else peer_dsh.ensure_peer()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.2f}\n")
    print(f"{'case':58} {'asked':>16} {'reached':>26}")
    missed = 0
    for row in _chosen(chosen.only, chosen.quick, peer):
        mark = {True: "met", False: "MISSED", None: ""}[row.met]
        print(f"{row.case:58} {row.asked:>16} {row.reached:>26}  {mark}", flush=True)
        missed += row.met is False
    print(f"\n{missed} of what was asked was missed." if missed else "\nAll that was asked was reached.")
    return 0


def _chosen(only: str | None, quick: bool, peer: Path | None) -> Iterator[Row]:
    if only in (None, "reading"):
        yield from _rows(_logs(quick), peer)
    if only in (None, "keeping"):
        yield from keeping.rows(peer)
    if only in (None, "working"):
        yield from working.rows(quick)
    if only in (None, "asking"):
        yield from asking.rows(quick, peer)
    if only in (None, "index"):
        from . import index  # only here: it needs what keeps the catalogue

        yield from index.rows(quick)


def _logs(quick: bool) -> dict[str, Path]:
    WORK.mkdir(parents=True, exist_ok=True)
    made = {"packed": WORK / "packed.jsonl", "plain": WORK / "plain.jsonl", "zstd": WORK / "frames.jsonl.zstd"}
    if not all(path.exists() for path in made.values()):
        write_log(made["packed"], steps=STEPS, packed=True)
        write_log(made["plain"], steps=STEPS, packed=False)
        write_log(made["zstd"], steps=STEPS, packed=False, zstd_frame=20)
    if not quick:
        made["big"] = WORK / "big.jsonl"
        if not made["big"].exists():
            write_log(made["big"], packed=False, text_words=10, target_bytes=BIG)
    return made


def _rows(logs: dict[str, Path], peer: Path | None) -> Iterator[Row]:
    yield from _beside_dsh(logs, peer)
    rate = ours.child("load", logs["zstd"])["rate"]
    yield at_least("load zstd, frames of 20 (events/s)", 1_000_000, rate)
    view = ours.child("derive-after-append")
    yield at_most("derive after one append at 100,000 events (µs)", 20, view["seconds"] * 1e6)
    for name in ("plain", "packed", "zstd"):
        seconds = ours.child("tail", logs[name.split()[0]])["seconds"]
        yield at_most(f"last 100 of 100,000 events, {name} (ms)", 5, seconds * 1e3)
    yield at_most(
        "memory per kept event, plain, whole process (bytes)", 600, ours.child("memory", logs["plain"])["per"]
    )
    if "big" in logs:
        yield from _big(logs["big"])
    yield at_most("import turnlog (s)", 0.1, ours.child("import")["seconds"])
    yield at_most("turnlog --version, whole process (s)", 0.15, _whole_process("--version"))


def _beside_dsh(logs: dict[str, Path], peer: Path | None) -> Iterator[Row]:
    for case, name, log, ratio in (
        ("load-packed", "strict load, packed rows", logs["packed"], 4.0),
        ("load-plain", "strict load, plain rows", logs["plain"], 2.5),
        ("append", "append in memory", logs["plain"], 2.0),
        ("derive-first", "first derive of 4,000 messages", logs["plain"], 1.0),
    ):
        rounds = [_round(case, log, peer) for _ in range(3)]
        mine, best = _middle_and_best([one for one, _dsh in rounds])
        dsh = [dsh for _one, dsh in rounds if dsh is not None]
        if not dsh:
            yield Row(f"{name}: {mine * 1e3:.2f} ms", f"≥ {ratio:g}× dsh", "no dsh here", None)
            continue
        theirs, dsh_best = _middle_and_best(dsh)
        yield Row(
            f"{name}: ours {mine * 1e3:.2f} ms (best {best * 1e3:.2f}), dsh {theirs * 1e3:.2f} ({dsh_best * 1e3:.2f})",
            f"≥ {ratio:g}× dsh",
            f"{theirs / mine:.2f}× (best {dsh_best / best:.2f}×)",
            theirs / mine >= ratio,
        )
    read = ours.child("derive-and-read", logs["plain"])["seconds"]
    yield Row(f"first derive and reading every message: {read * 1e3:.2f} ms", "", "decoded when looked at", None)


def _round(case: str, log: Path, peer: Path | None) -> tuple[tuple[float, float], tuple[float, float] | None]:
    """Median and best seconds, ours and dsh's."""
    found = ours.child("load" if case.startswith("load") else case, log)
    mine = found["seconds"], found["best"]
    if peer is None:
        return mine, None
    figures = peer_dsh.run_peer(peer, "bench.mjs", case, str(log))
    return mine, (figures["medianSeconds"], figures["bestSeconds"])


def _middle_and_best(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    """The median of the medians, which decides, and the best of all, which is shown."""
    return median(middle for middle, _best in rounds), min(best for _middle, best in rounds)


def _big(log: Path) -> Iterator[Row]:
    size = log.stat().st_size
    loaded = ours.child("big", log)
    yield at_most("500 MB: strict load, file in the page cache (s)", 2.5, loaded["seconds"])
    yield at_most("500 MB: peak memory of the load (× file)", 3.0, loaded["peak"] / size)
    yield at_most("500 MB: memory per kept event (bytes)", 600, loaded["peak"] / loaded["events"])
    yield at_most("500 MB: tail (ms)", 5, ours.child("tail", log)["seconds"] * 1e3)
    yield at_most("500 MB: full verify (s)", 8, ours.child("verify", log)["seconds"])
    if hasattr(os, "posix_fadvise"):
        cold = ours.child("big-cold", log)["seconds"]
        yield Row(
            "500 MB: strict load, file not in the page cache (s)", "", f"{cold:.3g}, the disk's part included", None
        )


def _whole_process(*arguments: str) -> float:
    command = [str(Path(sys.executable).with_name("turnlog")), *arguments]
    return min(ours.timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(7))


if __name__ == "__main__":
    sys.exit(main())
