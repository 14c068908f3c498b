"""The store's side of the benchmarks: what it costs to make events durable, beside the raw disk and dsh."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from turnlog import Session
from turnlog.events import AssistantChunk, SessionTitle, StepStart, TextDelta, TurnStart
from turnlog.store import LiveStore, open_store

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
