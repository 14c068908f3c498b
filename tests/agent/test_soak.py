"""Many turns in which anything may happen, and processes that are killed in the middle of them."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median

import pytest

import turnlog
from tests.agent.harness import kinds
from tests.agent.points import alive, others
from tests.agent.soak import agent_on, turn
from tests.conftest import FULL
from turnlog.agent import Agent
from turnlog.events import Completed, Interrupted, ToolCall, ToolCallBlock, ToolResult, TurnEnd, TurnStart
from turnlog.log import Session
from turnlog.log.grammar import Grammar
from turnlog.model import ScriptedModel

ROOT = Path(__file__).parents[2]
Record = Callable[[str, object], None]

TURNS = 5_000 if FULL else 200
PER_SESSION = 25
"""Turns after which a new session begins, so that what grows is not the log."""
KILLS = 200 if FULL else 6


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def check(session: Session) -> int:
    """The log is balanced and nothing in it is unanswered; how many turns it has."""
    grammar = Grammar()
    for event in session.events:
        replaces = event.surface_op not in ("append",) and hasattr(event.surface_op, "start")
        assert grammar.fault(event.data, replaces=replaces) is None
        grammar.advance(event.data, replaces=replaces)
    assert (grammar.turn, grammar.step, grammar.pending) == (0, 0, {})
    starts = [event.data.turn for event in session.select(TurnStart)]
    assert starts == list(range(1, len(starts) + 1))
    assert len(list(session.select(TurnEnd))) == len(starts)
    asked = [b.id for m in session.derive_messages() for b in m.content if isinstance(b, ToolCallBlock)]
    assert [event.data.call_id for event in session.select(ToolCall)] == asked
    assert sorted(event.data.call_id for event in session.select(ToolResult)) == sorted(asked)
    return len(starts)


@pytest.mark.proof
def test_any_number_of_turns_with_anything_happening_keeps_logs_balanced_and_memory_flat(
    tmp_path: Path, record_property: Record
) -> None:
    """Memory is what is left after each session was closed and forgotten, tools, hooks and tasks included; the logs
    themselves are bounded by beginning a new session every 25 turns."""
    held: list[int] = []
    reasons: dict[str, int] = {}
    turns = 0

    async def session(seed: int) -> int:
        random = Random(seed)
        async with agent_on(Session(), random, tmp_path, None) as agent:
            for _ in range(PER_SESSION):
                await turn(agent, random)
        for end in agent.session.select(TurnEnd):
            name = type(end.data.reason).__name__
            reasons[name] = reasons.get(name, 0) + 1
        return check(agent.session)

    async def soak() -> None:
        nonlocal turns
        before = others()
        for seed in itertools.count():
            turns += await session(seed)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
            assert others() == before
            if turns >= TURNS:
                return

    tracemalloc.start()
    try:
        asyncio.run(soak())
    finally:
        tracemalloc.stop()

    quarter = max(1, len(held) // 4)
    first, last = median(held[:quarter]), median(held[-quarter:])
    assert last < first + 256 * 1024, held
    assert {"Completed", "Aborted", "Errored", "Blocked", "MaxTokens"} <= reasons.keys()
    record_property(
        "proof",
        f"turns with random cancels, steers, failures, retries: {turns:,} in {len(held)} sessions "
        f"({', '.join(f'{name} {count:,}' for name, count in sorted(reasons.items()))}); held after a session: "
        f"first quarter {first / 1024:,.0f} KiB, last {last / 1024:,.0f} KiB",
    )


# -- kill -9 --------------------------------------------------------------------------------------------------------


class Killed:
    """What a killed process had promised."""

    def __init__(self, root: Path, seed: int, seconds: float) -> None:
        self.root = root
        root.mkdir()
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.agent.soak", str(root), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            start_new_session=True,
        )
        assert child.stdout is not None
        self.id = child.stdout.readline().decode().strip()
        time.sleep(seconds)
        os.kill(child.pid, signal.SIGKILL)
        rest, _ = child.communicate()
        self.durable = max(map(int, rest.split()), default=0)
        """Events that were promised to be there."""

    def log(self) -> Path | None:
        return next(iter(self.root.rglob("session.jsonl")), None)

    def lines(self) -> list[bytes]:
        """The whole lines of the log as the kill left it."""
        log = self.log()
        return [] if log is None else log.read_bytes().split(b"\n")[:-1]

    def processes_gone(self) -> bool:
        pids = self.root / "pids"
        started = [int(one) for one in pids.read_text().split()] if pids.exists() else []
        for _ in range(300):
            if not any(map(alive, started)):
                return True
            time.sleep(0.01)
        return False


async def resumed(killed: Killed) -> tuple[int, bool]:
    """Goes on with a killed session; its events before that, and whether its last turn had been interrupted."""
    before = killed.lines()
    async with turnlog.open_store(killed.root / "store") as store:
        session = await store.resume(killed.id)
        assert len(session) >= killed.durable
        agent = Agent(session, ScriptedModel(["I go on."] * 50), [])
        result = await agent.run("Where were we?")
        assert result.reason == Completed(), kinds(session)[-10:]
        check(session)
        interrupted = any(isinstance(event.data.reason, Interrupted) for event in session.select(TurnEnd))
    after = killed.lines()
    assert after[: len(before)] == before  # every written event is there
    log = killed.log()
    assert log is not None
    report = turnlog.verify(log)
    assert [str(one) for one in report.findings if one.severity != "note"] == []
    return killed.durable, interrupted


@pytest.mark.proof
def test_a_session_whose_process_was_killed_has_all_that_was_written_and_goes_on(
    tmp_path: Path, record_property: Record
) -> None:
    random = Random(os.environ.get("TURNLOG_SEED", "kills"))
    events = interrupted = 0
    for number in range(KILLS):
        killed = Killed(tmp_path / str(number), number, random.uniform(0.02, 0.7))
        assert killed.processes_gone()
        if killed.log() is None:  # killed before its first event was written
            assert killed.durable == 0
            continue
        count, cut = asyncio.run(resumed(killed))
        events += count
        interrupted += cut
    record_property(
        "proof",
        f"kill -9 at a random moment of a run: {KILLS}, {events:,} durable events all there, {interrupted} in the "
        "middle of a turn, each resumed to a completed turn, no process left",
    )
