"""The store's side of the benchmarks: what it costs to make events durable, beside the raw disk and dsh."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from turnlog import Session
from turnlog.events import AssistantChunk, SessionTitle, StepStart, TextDelta, TurnStart
from turnlog.store import LiveStore, open_store
from turnlog.store.discover import list_sessions

ROUNDS = {"one": 400, "twenty": 200, "many": 5}
SIZE = {"one": 1, "twenty": 20, "many": 10}


def title(number: int) -> SessionTitle:
    """The same event that dsh's side writes."""
    text = f"an event of ordinary length, number {number}"
    return SessionTitle(value={"title": text, "messageSeqs": [], "source": {"kind": "user"}})


def raw(root: Path) -> dict[str, Any]:
    """write(2) and fdatasync(2) of one line, nothing else: what this disk can do."""
    line = b'{"type":"session/title","seq":1,"time":1760000000000,"data":{"title":"an event of ordinary length"}}\n'
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    start = time.perf_counter()
    for _ in range(400):
        os.write(descriptor, line)
        os.fdatasync(descriptor)
    return {"rate": 400 / (time.perf_counter() - start)}


def durable(root: Path, case: str) -> dict[str, Any]:
    """Append, then wait until it is durable; for ``many``, 200 sessions at once."""
    return asyncio.run(_durable(root, case))


async def _durable(root: Path, case: str) -> dict[str, Any]:
    async with open_store(root) as store:
        sessions = [await store.create(cwd="/bench") for _ in range(200 if case == "many" else 1)]
        for session in sessions:
            session.append(title(0))
        await asyncio.gather(*(session.durable() for session in sessions))
        times = []
        for _ in range(ROUNDS[case]):
            start = time.perf_counter()
            for session in sessions:
                for number in range(SIZE[case]):
                    session.append(title(number))
            if len(sessions) == 1:
                await sessions[0].durable()
            else:
                await asyncio.gather(*(session.durable() for session in sessions))
            times.append(time.perf_counter() - start)
        events = ROUNDS[case] * SIZE[case] * len(sessions)
        return {"rate": events / sum(times), "median": sorted(times)[len(times) // 2]}


def accepted(root: Path) -> dict[str, Any]:
    """Streamed chunks appended per second while a store writes them behind."""
    return asyncio.run(_accepted(root))


async def _accepted(root: Path) -> dict[str, Any]:
    async with open_store(root) as store:
        session = await store.create(cwd="/bench")
        session.append(TurnStart(turn=1))
        session.append(StepStart(turn=1, step=1))
        payloads = [AssistantChunk(turn=1, step=1, chunk=TextDelta(0, f"word{n} ")) for n in range(200_000)]
        start = time.perf_counter()
        for payload in payloads:
            session.append(payload)
        seconds = time.perf_counter() - start
        await session.durable()
        return {"rate": len(payloads) / seconds}


def created(root: Path) -> dict[str, Any]:
    """New sessions per second, each with one durable event."""
    return asyncio.run(_created(root))


async def _created(root: Path) -> dict[str, Any]:
    async with open_store(root) as store:
        start = time.perf_counter()
        await asyncio.gather(*(_create_one(store) for _ in range(500)))
        return {"rate": 500 / (time.perf_counter() - start)}


async def _create_one(store: LiveStore) -> Session:
    session = await store.create(cwd="/bench")
    session.append(title(0))
    await session.durable()
    return session


def listed(root: Path) -> dict[str, Any]:
    """Listing a root of 10,000 sessions, read from the disk's cache."""
    for number in range(10_000):
        directory = root / "--bench--" / f"session-{number:05d}"
        directory.mkdir(parents=True)
        header = {"type": "session", "version": 0, "id": directory.name, "createdAt": number, "cwd": "/bench"}
        (directory / "session.jsonl").write_text(json.dumps(header, separators=(",", ":")) + "\n")
    found, seconds = [], []
    for _ in range(3):
        start = time.perf_counter()
        found = list_sessions([root])
        seconds.append(time.perf_counter() - start)
    assert len(found) == 10_000
    return {"seconds": min(seconds)}


class _Unattested:
    """A hash of nothing, for a session that attests nothing."""

    length = 0

    def extend_lines(self, lines: list[bytes]) -> None:
        pass

    def seal(self, time: int) -> None:
        return None


def attested(root: Path) -> dict[str, Any]:
    """The median seconds of a barrier with and without what attesting it costs, taken in turns."""
    return asyncio.run(_attested(root))


async def _attested(root: Path) -> dict[str, Any]:
    async with open_store(root) as store, open_store(root) as other:
        sessions = {True: await store.create(cwd="/bench"), False: await other.create(cwd="/bench")}
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for session in sessions.values():
            session.append(title(0))
            await session.durable()
        other._keeping[sessions[False].id]._hash = _Unattested()  # type: ignore[assignment]
        for number in range(60):
            sealed = number % 2 == 0
            start = time.perf_counter()
            for _ in range(20):
                sessions[sealed].append(title(number))
                await sessions[sealed].durable()
            seconds[sealed].append(time.perf_counter() - start)
            await asyncio.sleep(0.03)  # the last seal is the other's no more
        return {"with": median(seconds[True]), "without": median(seconds[False])}


CASES: dict[str, Callable[..., dict[str, Any]]] = {
    "raw": raw,
    "durable": durable,
    "accepted": accepted,
    "created": created,
    "listed": listed,
    "attested": attested,
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])))
