"""Turnlog's side of the benchmarks: each case runs in a process of its own and prints one JSON line."""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any


def timed(work: Callable[[], object]) -> float:
    """Seconds that *work* takes; garbage of before is collected outside the clock, as for dsh."""
    gc.collect()
    start = time.perf_counter()
    kept = work()
    seconds = time.perf_counter() - start
    del kept
    return seconds


def summary(seconds: list[float]) -> dict[str, float]:
    """The median and the best of several runs, as dsh's side gives them."""
    return {"seconds": median(seconds), "best": min(seconds)}


def child(case: str, log: Path | None = None) -> dict[str, Any]:
    """Run one case in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.ours", case, *([str(log)] if log is not None else [])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _load(log: Path) -> dict[str, Any]:
    """From file bytes to a restored session."""
    import turnlog

    events = len(turnlog.load(log))
    found = summary([timed(lambda: turnlog.load(log)) for _ in range(9)])
    return {**found, "rate": events / found["best"]}


def _append(log: Path) -> dict[str, Any]:
    """The payloads of a whole log into a new session; payloads are made beforehand, as dsh's are."""
    import turnlog
    from turnlog import Session

    said = [(event.data, event.sources) for event in turnlog.load(log).events]

    def work() -> Session:
        session = Session("bench")
        append = session.append
        for payload, sources in said:
            if sources is None:
                append(payload)  # type: ignore[call-overload]
            else:
                append(payload, sources=sources)  # type: ignore[call-overload]
        return session

    return summary([timed(work) for _ in range(7)])


def _derive_first(log: Path) -> dict[str, Any]:
    import turnlog

    return summary([timed(turnlog.load(log).derive_messages) for _ in range(15)])


def _derive_and_read(log: Path) -> dict[str, Any]:
    import turnlog
    from turnlog import Session

    def read(session: Session) -> Callable[[], object]:
        return lambda: [message.content for message in session.derive_messages()]

    return summary([timed(read(turnlog.load(log))) for _ in range(15)])


def _derive_after_append() -> dict[str, Any]:
    """One user message more on 100,000 events, 4,000 of them messages; the append is not timed."""
    from turnlog import Session
    from turnlog.events import SessionTitle, UserMessage

    session = Session("bench")
    for number in range(4_000):
        session.append(UserMessage.of(f"message {number}"))
        for _ in range(24):
            session.append(SessionTitle(value={"title": "t"}))
    session.derive_messages()
    best = 9.0
    for number in range(200):
        session.append(UserMessage.of(f"more {number}"))
        start = time.perf_counter()
        session.derive_messages()
        best = min(best, time.perf_counter() - start)
    return {"seconds": best, "events": len(session)}


def _tail(log: Path) -> dict[str, Any]:
    from turnlog import open_tail

    return {"seconds": min(timed(lambda: list(open_tail(log, 100).events)) for _ in range(9))}


def _memory(log: Path) -> dict[str, Any]:
    """Resident bytes of the whole process, over what it had before, per event kept."""
    import turnlog
    from turnlog.store import load

    before = _resident()
    session = load(log)
    gc.collect()
    return {"per": (_resident() - before) / len(session), "version": turnlog.__version__}


def _big(log: Path) -> dict[str, Any]:
    """One load of a large file that is in the page cache: what is timed is the reader, not the disk."""
    import turnlog

    turnlog.open_tail(log, 1)
    with log.open("rb") as file:
        while file.read(1 << 20):
            pass
    start = time.perf_counter()
    session = turnlog.load(log)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "peak": peak, "events": len(session)}


def _big_cold(log: Path) -> dict[str, Any]:
    """The same with the file dropped from the page cache, where the system lets go of it."""
    import turnlog

    turnlog.open_tail(log, 1)
    with log.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    turnlog.load(log)
    return {"seconds": time.perf_counter() - start}


def _verify(log: Path) -> dict[str, Any]:
    import turnlog

    start = time.perf_counter()
    report = turnlog.verify(log)
    return {"seconds": time.perf_counter() - start, "findings": len(report.findings)}


def _import() -> dict[str, Any]:
    """Time of ``import turnlog`` in fresh processes, without the interpreter's own start."""
    code = "import time; t = time.perf_counter(); import turnlog; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(7)]
    return {"seconds": min(float(run.stdout) for run in runs)}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "load": _load,
    "append": _append,
    "derive-first": _derive_first,
    "derive-and-read": _derive_and_read,
    "derive-after-append": _derive_after_append,
    "tail": _tail,
    "memory": _memory,
    "big": _big,
    "big-cold": _big_cold,
    "verify": _verify,
    "import": _import,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](*map(Path, sys.argv[2:]))))
