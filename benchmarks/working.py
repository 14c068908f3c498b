"""What the loop costs: a turn beside other harnesses, over HTTP, per streamed chunk, in long sessions, for many agents.

Every case runs in a process of its own, ours and the peers' by turns; the provider is another process, so that its
work is not counted as ours. A figure is the median of its quietest round, because a busy neighbour only ever adds; the
best single one is shown beside it. Peers are treated the same. All are wall-clock times except where a case says CPU:
there the stream's pace or other programs on the machine would be measured instead. *Queued* is the share of the time
that the process was ready and other programs had the processors: a lag measured above a few percent of it is theirs.

What one turn is, for ours and for each peer, is in `peers_agent.workload`: the history is in place and the harness
warm; its answer is streamed and every event of it is read by whoever asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from . import peer_agents
from .loop_server import serving
from .peers_agent import workload
from .report import Row, at_most

HERE: Final = Path(__file__).resolve().parent
KEPT: Final = HERE / ".work" / "working"
SHORT, LONG, KEPT_MESSAGES = 10, 2_000, 1_000
VARIANTS: Final = {"text": "20 chunks", "tool": "call, result, 20 chunks"}
SATURATED: Final = 20_000
TRICKLE, PACE = 300, 0.002
"""Chunks, and seconds between two of them."""
Rounds = list[list[float]]
"""The figures of each round."""
AGENTS, PER_SECOND = 100, 50
HURRY: Final = 0.85
"""Share of the pause that the server is told: what it does itself comes on top, for 100 streams in one process."""


def rows(quick: bool) -> Iterator[Row]:
    """The rows of the third part of the report."""
    yield from _turns(quick)
    yield from _kept(quick)
    yield from _streams(quick)
    yield from _long(quick)
    yield from _many(quick)


# -- turns ----------------------------------------------------------------------------------------------------------


def _turns(quick: bool) -> Iterator[Row]:
    peers = list(peer_agents.PEERS) if peer_agents.ensure_peers() else []
    for variant, what in VARIANTS.items():
        for messages in (SHORT, LONG):
            ours, theirs, first = _beside(messages, variant, peers, rounds=2 if quick else 4)
            yield _row(f"turn after {messages:,} messages, {what} (ms)", 1, ours, 1e3)
            for peer in peer_agents.PEERS:
                yield _ratio(f"  beside {peer}", 20 if messages == LONG else None, ours, theirs.get(peer), peer)
            if messages == LONG and variant == "text":
                yield Row("  its first turn, before anything is derived (ms)", "", f"{first * 1e3:.3g}", None)


def _beside(messages: int, variant: str, peers: Sequence[str], rounds: int) -> tuple[Rounds, dict[str, Rounds], float]:
    """Seconds of our turns and of each peer's, in alternating rounds; and the seconds of our first turn."""
    ours: Rounds = []
    theirs: dict[str, Rounds] = {peer: [] for peer in peers}
    first: list[float] = []
    for _ in range(rounds):
        found = _child("turns", messages, variant, 4)
        ours.append(found["seconds"])
        first.append(found["first"])
        for peer in peers:
            theirs[peer].append(peer_agents.run_peer(peer, messages, variant, 2))
    return ours, theirs, min(first)


def _ratio(case: str, asked: float | None, ours: Rounds, theirs: Rounds | None, peer: str) -> Row:
    wanted = "" if asked is None else f"≥ {asked:g}×"
    if not theirs:
        return Row(case, wanted, f"no {peer} here", None)
    quiet, best = _quietest(theirs) / _quietest(ours), _best(theirs) / _best(ours)
    named = f"{case}: {_quietest(theirs) * 1e3:.1f} ms (best {_best(theirs) * 1e3:.1f})"
    return Row(named, wanted, f"{quiet:.0f}× (best {best:.0f}×)", None if asked is None else quiet >= asked)


def _kept(quick: bool) -> Iterator[Row]:
    with serving(len(workload.PIECES)) as base_url:
        rounds = [_child("kept-turns", base_url, KEPT, KEPT_MESSAGES, 40) for _ in range(2 if quick else 5)]
    case = f"HTTP turn, durable, {KEPT_MESSAGES:,} messages (ms; dsh: 60-67)"
    yield _row(case, 10, [found["seconds"] for found in rounds], 1e3)
    barrier = min(found["barrier"] for found in rounds)
    yield Row("  one event made durable on this disk (ms)", "", f"{barrier * 1e3:.3g}", None)


# -- streams --------------------------------------------------------------------------------------------------------


def _streams(quick: bool) -> Iterator[Row]:
    rounds = 2 if quick else 5
    for size, how in ((0, "each read by itself"), (65_536, "64 KB a read")):
        found = [_child("lines", 10_000, size) for _ in range(rounds)]
        yield _row(f"SSE event to commit, {how} (µs)", 10, [one["seconds"] for one in found], 1e6)
        yield Row("  of which reading it (µs)", "", f"{min(one['read'] for one in found) * 1e6:.3g}", None)
    with serving(SATURATED) as base_url:
        found = [_child("saturated", base_url, SATURATED, 3) for _ in range(rounds)]
    yield _row("saturated stream over HTTP, per chunk (µs)", 20, [one["seconds"] for one in found], 1e6)
    yield Row("  of which CPU (µs)", "", _figures([one["cpu"] for one in found], 1e6), None)
    with serving(TRICKLE, PACE) as base_url:
        found = [_child("trickle", base_url, TRICKLE, 3) for _ in range(rounds)]
    bare = _quietest([one["bare"] for one in found]) * 1e6
    above = {name: [_above(found, name, _quietest), _above(found, name, _best)] for name in ("bare", "usual")}
    case = f"trickle, CPU per chunk above bare httpx's {bare:.0f} (µs)"
    yield Row(case, "≤ 40", _pair(above["bare"], 1e6), above["bare"][0] * 1e6 <= 40)
    yield Row("  above httpx and json by hand (µs)", "", _pair(above["usual"], 1e6), None)


def _above(found: list[dict[str, Any]], name: str, of: Callable[[Rounds], float]) -> float:
    """Ours less theirs, both at their quietest: a difference of two noisy figures can be anything."""
    return of([one["ours"] for one in found]) - of([one[name] for one in found])


# -- long and many --------------------------------------------------------------------------------------------------


def _long(quick: bool) -> Iterator[Row]:
    rounds = [_child("long", 10_000)["quarters"] for _ in range(1 if quick else 3)]
    ratios = [quarters[-1] / quarters[0] for quarters in rounds]  # noise goes either way here
    step = min(sum(quarters) for quarters in rounds) / 10_000 * 1e6
    spread = f"{median(ratios):.3g} ({min(ratios):.3g} to {max(ratios):.3g})"
    yield Row(f"10,000 steps of {step:.0f} µs CPU: last quarter / first", "≤ 1.2", spread, median(ratios) <= 1.2)


def _many(quick: bool) -> Iterator[Row]:
    chunks = PER_SECOND * (3 if quick else 10)
    pause = 1 / PER_SECOND
    rounds = 1 if quick else 2
    yield _lag("stub models", [_child("many", "", "", AGENTS, chunks, pause) for _ in range(rounds)])
    with serving(chunks, pause * HURRY) as base_url:
        for root, how in (("", "HTTP"), (KEPT, "HTTP, kept on disk")):
            yield _lag(how, [_child("many", base_url, root, AGENTS, chunks, pause) for _ in range(rounds)])


def _lag(how: str, rounds: list[dict[str, Any]]) -> Row:
    found = min(rounds, key=lambda one: one["p99"])
    each, cpu = found["rate"] / AGENTS, found["cpu"] * 100
    case = f"loop lag p99, {AGENTS} agents × {each:.0f}/s, {how} (ms)"
    row = at_most(case, 50, found["p99"] * 1e3)
    row.reached += f" ({cpu:.0f}% CPU, {found['queued'] * 100:.0f}% queued)"
    return row


# -- both -----------------------------------------------------------------------------------------------------------


def _row(case: str, asked: float, rounds: Rounds, scale: float) -> Row:
    return Row(case, f"≤ {asked:g}", _figures(rounds, scale), _quietest(rounds) * scale <= asked)


def _figures(rounds: Rounds, scale: float) -> str:
    return _pair([_quietest(rounds), _best(rounds)], scale)


def _pair(figures: Sequence[float], scale: float) -> str:
    figure, best = figures
    return f"{figure * scale:.3g} (best {best * scale:.3g})"


def _quietest(rounds: Rounds) -> float:
    return min(map(median, rounds))


def _best(rounds: Rounds) -> float:
    return min(map(min, rounds))


def _child(case: str, *arguments: object) -> dict[str, Any]:
    """One case of `loop` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.loop", case, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{case}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
