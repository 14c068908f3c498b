"""What questions cost: outline, context at a step, trace and diff, beside what dsh's session package can answer.

Each case runs in a process of its own (``python -m benchmarks.asking CASE LOG``) and prints one JSON line. Opening the
log is not timed, except where the row says so. A question is asked of a session that was never asked anything before
(*first*) and of one that was; for questions about one place the slowest of ``PLACES`` places counts, each asked
several times with the best run taken, so that what else the machine does is not counted.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from . import peer_dsh
from .logs import write_log
from .report import Row, at_most

WORK: Final = Path(__file__).parent / ".work" / "asked"
STEPS: Final = 972
"""Steps of a log of 50,000 events."""
MANY_STEPS: Final = 19_420
"""Steps of a log of 1,000,000 events."""
PLACES: Final = 40
AGAIN: Final = 5


def rows(quick: bool, peer: Path | None) -> Iterator[Row]:
    """The rows of the section *asking*; *quick* leaves the log of 1,000,000 events out."""
    logs = _logs(quick)
    for layout in ("plain", "packed"):
        found = child("outline", logs[layout])
        yield at_most(f"outline of {found['events']:,} events, {layout} (s)", 0.25, found["seconds"])
    if "many" in logs:
        found = child("outline", logs["many"])
        yield at_most(f"outline of {found['events']:,} events, plain (s)", 3, found["seconds"])
    for layout in ("plain", "packed"):
        found = child("context", logs[layout])
        yield at_most(f"context at a step, first after open, {layout} (ms)", 20, found["first"] * 1e3)
        yield at_most(f"context, slowest of {found['places']} steps, {layout} (ms)", 20, found["slowest"] * 1e3)
        yield _beside_dsh(layout, logs[layout], found, peer)
        found = child("trace", logs[layout])
        yield Row(f"trace call:ID, first after open, {layout} (ms)", "", f"{found['first'] * 1e3:.3g}", None)
        yield at_most(f"trace call:ID, slowest of {found['places']}, {layout} (ms)", 5, found["slowest"] * 1e3)
        yield at_most(f"trace @SEQ, slowest of {found['places']}, {layout} (ms)", 5, found["by_seq"] * 1e3)
    for layout in ("plain", "packed"):
        found = child("diff", logs[layout], logs[f"other {layout}"])
        yield at_most(
            f"diff of two sessions of {found['events']:,} events, {layout} (s)", 2, found["seconds"]
        )  # fmt: skip
        yield Row(f"  and of a session with itself, {layout} (s)", "", f"{found['same']:.3g}", None)


def _beside_dsh(layout: str, log: Path, found: dict[str, Any], peer: Path | None) -> Row:
    """The same question at the last step that was asked about; dsh restores the log up to there."""
    name = f"messages sent at @{found['at']}, {layout}: ours {found['messages_at'] * 1e3:.2f} ms"
    if peer is None:
        return Row(name, "", "no dsh here", None)
    theirs = peer_dsh.run_peer(peer, "asking.mjs", log, str(found["at"]))
    if theirs["messages"] != found["messages"]:
        raise RuntimeError(f"dsh derives {theirs['messages']} messages at @{found['at']}, we {found['messages']}")
    seconds = theirs["medianSeconds"]
    return Row(f"{name}, dsh {seconds * 1e3:.2f}", "", f"{seconds / found['messages_at']:.1f}×", None)


def _logs(quick: bool) -> dict[str, Path]:
    WORK.mkdir(parents=True, exist_ok=True)
    made: dict[str, Path] = {}
    for layout in ("plain", "packed"):
        for name, seed in ((layout, 1), (f"other {layout}", 2)):
            made[name] = WORK / f"{name.replace(' ', '-')}.jsonl"
            if not made[name].exists():
                write_log(made[name], steps=STEPS, packed=layout == "packed", seed=seed, session_id=f"seed-{seed}")
    if not quick:
        made["many"] = WORK / "many.jsonl"
        if not made["many"].exists():
            write_log(made["many"], steps=MANY_STEPS, packed=False)
    return made


def child(case: str, *logs: Path) -> dict[str, Any]:
    """Run one case in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.asking", case, *map(str, logs)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# -- the cases --------------------------------------------------------------------------------------------------


def _timed(work: Callable[[], object], times: int = AGAIN) -> float:
    """Seconds of the best of several runs; earlier garbage is collected outside of the clock."""
    gc.collect()
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        kept = work()
        best = min(best, time.perf_counter() - start)
        del kept
    return best


def _outline(log: Path) -> dict[str, Any]:
    import turnlog
    from turnlog.views import outline

    session = turnlog.load(log)
    return {"seconds": _timed(lambda: outline(session), 3), "events": len(session)}


def _first(log: Path, ask: Callable[[Any], object]) -> float:
    """Seconds of the first question to a session that was just opened; the best of several sessions."""
    import turnlog

    best = float("inf")
    for _ in range(AGAIN):
        session = turnlog.load(log)
        best = min(best, _timed(lambda session=session: ask(session), 1))  # type: ignore[misc]
    return best


def _context(log: Path) -> dict[str, Any]:
    import turnlog
    from turnlog.views import context, structure

    session = turnlog.load(log)
    steps = [step.address for turn in structure(session).turns for step in turn.steps]
    chosen = steps[:: max(len(steps) // PLACES, 1)]
    chosen[-1] = steps[-1]
    first = _first(log, lambda session: context(session, steps[-1]))
    asked = [_timed(lambda place=place: context(session, place)) for place in chosen]  # type: ignore[misc]
    last = structure(session)[steps[-1]]
    at = last.attempts[0].events[0].seq  # type: ignore[union-attr]
    messages = turnlog.load(log).derive_messages(at=at)
    fresh = _first(log, lambda session: session.derive_messages(at=at))
    return {"first": first, "slowest": max(asked), "places": len(asked), "at": at, "messages": len(messages),
            "messages_at": fresh}  # fmt: skip


def _trace(log: Path) -> dict[str, Any]:
    import turnlog
    from turnlog.events import ToolCall
    from turnlog.views import trace

    session = turnlog.load(log)
    calls = [(event.data.call_id, event.seq) for event in session.select(ToolCall)]
    chosen = calls[:: max(len(calls) // PLACES, 1)]
    first = _first(log, lambda session: trace(session, f"call:{calls[-1][0]}"))
    by_id = [_timed(lambda id=id: trace(session, f"call:{id}")) for id, _seq in chosen]  # type: ignore[misc]
    by_seq = [_timed(lambda seq=seq: trace(session, f"@{seq}")) for _id, seq in chosen]  # type: ignore[misc]
    return {"first": first, "slowest": max(by_id), "by_seq": max(by_seq), "places": len(by_id)}


def _diff(log: Path, other: Path) -> dict[str, Any]:
    import turnlog
    from turnlog.views import diff

    def fresh(right: Path) -> float:
        left_session, right_session = turnlog.load(log), turnlog.load(right)
        return _timed(lambda: diff(left_session, right_session), 1)

    events = len(turnlog.load(log))
    return {"seconds": min(fresh(other) for _ in range(3)), "same": min(fresh(log) for _ in range(3)), "events": events}


CASES: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "outline": _outline,
    "context": _context,
    "trace": _trace,
    "diff": _diff,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](*map(Path, sys.argv[2:]))))
