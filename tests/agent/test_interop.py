"""What the loop writes, dsh's own code opens, nests and migrates.

Run by ``make interop``, like tests/interop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

import turnlog
from benchmarks import peer_dsh
from tests.agent.harness import agent_of, call, refusing, streaming, text
from tests.agent.soak import agent_on, turn
from turnlog.agent import Agent, Context, RetryPolicy
from turnlog.events import CancelledByHook, CancelledByParent, StepStart, ToolResult, TurnStart
from turnlog.log import Session
from turnlog.model import ModelInfo, ScriptedModel, cut, error, reasoning, wait
from turnlog.tools import Approvals, Policy, tool

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]

SESSIONS = 30


async def written(root: Path) -> list[Session]:
    """Sessions in which anything happened: refusals, retries, cancels, steering, real commands."""
    sessions = []
    async with turnlog.open_store(root) as store:
        for seed in range(SESSIONS):
            random = Random(seed)
            session = await store.create(cwd="/work")
            async with agent_on(session, random, root.parent, "echo ran" if seed % 5 == 0 else None) as agent:
                for _ in range(6):
                    await turn(agent, random)
            sessions.append(session)
    return sessions


def messages(session: Session) -> list[Any]:
    return [json.loads(event.message_json) for event in session.message_events(as_stored=True)]


def accepted(root: Path, make: Any) -> set[str]:
    """Have dsh judge the sessions that *make* stores; the event types in them."""
    peer = peer_dsh.ensure_peer()
    if peer is None:
        pytest.skip("no Node.js, or its registry cannot be reached")
    logging.disable(logging.ERROR)
    try:
        sessions: list[Session] = asyncio.run(make(root))
    finally:
        logging.disable(logging.NOTSET)
    verdicts = {one["id"]: one for one in peer_dsh.run_peer(peer, "judge.mjs", root, "none")}

    assert set(verdicts) == {session.id for session in sessions}
    refused = {one["id"]: one["migrated"] for one in verdicts.values() if "error" in one["migrated"]}
    assert refused == {}
    for session in sessions:
        theirs = verdicts[session.id]
        types = [event.type for event in session.events]
        assert theirs["inspected"]["value"] == types
        assert "error" not in theirs["nested"], theirs["nested"]
        assert theirs["restored"]["value"]["nodes"] == list(session.surface)
        assert theirs["restored"]["value"]["messages"] == messages(session)
    return {event.type for session in sessions for event in session.events}


def test_dsh_opens_nests_and_migrates_what_the_loop_writes(tmp_path: Path) -> None:
    seen = accepted(tmp_path / "store", written)

    assert {"hook/invoked", "hook/result", "llm/retry", "llm/retry-started", "tool/result"} <= seen


@tool
async def show(length: int) -> str:
    """Show something long."""
    return "x" * length


@tool(policy=Policy(default="ask"))
async def delicate() -> str:
    """Needs to be asked for."""
    return "done"


async def _answer(_question: Any) -> Any:
    return "allow"


async def _contexts(session: Session) -> None:
    places = ["here", "", "there"]
    agent = agent_of(*"abc", session=session, system="Be brief.", contexts=[Context("place", lambda: places.pop(0))])
    for prompt in "123":
        await agent.run(prompt)


async def _pruned(session: Session) -> None:
    full = error("CONTEXT_WINDOW_EXCEEDED")
    await agent_of([call("show", length=9000)], full, "ok", tools=[show], session=session).run("Go.")


async def _output(session: Session) -> None:
    await agent_of("Hm.", [call("final_answer", answer=3)], session=session).run("Go.", output=int)


async def _lost(session: Session) -> None:
    agent = agent_of([call("show", length=1), call("show", length=2)], "ok", tools=[show], session=session)
    refusing(session, ToolResult)
    await agent.run("Go.")
    await agent.run("Go on.")


async def _asked(session: Session) -> None:
    for approvals in (Approvals(answerer=_answer), Approvals(policy="deny"), Approvals()):
        agent = agent_of([call("delicate")], "ok", tools=[delicate], approvals=approvals, session=session)
        await agent.run("Go.")


async def _limits(session: Session) -> None:
    await agent_of([text("So"), wait(9)], max_seconds=0.02, session=session).run("Go.")
    await agent_of([call("show", length=1)], tools=[show], max_steps=1, session=session).run("Go.")


async def _closed(session: Session) -> None:
    agent = agent_of([text("So"), cut()], [reasoning("Hm."), wait(9)], session=session)
    agent.followup("One.")
    agent.followup("Two.")
    await streaming(agent, 4)
    await agent.aclose()


async def _by_a_hook(session: Session) -> None:
    agent = agent_of("one", session=session)
    agent.on(StepStart, lambda event: agent.cancel(CancelledByHook("enough")))
    await agent.run("Go.")
    agent.on(TurnStart, lambda event: agent.cancel(CancelledByParent()))
    await agent.run("Go.")


async def _route(session: Session) -> None:
    info = ModelInfo("scripted", "script", context_window=9, max_tokens=8, reasoning_effort="low", streams=False)
    agent = Agent(session, ScriptedModel(["a", [error("AUTH")]], info=info), temperature=0.5, stop=["x"])
    await agent.run("1")
    await agent.run("2")
    await agent_of("b", session=session).run("3")


async def _retries(session: Session) -> None:
    for policy in (RetryPolicy(initial_ms=1.25, jitter=0.5), RetryPolicy(mode="always", initial_ms=0.3)):
        failures = [error("SERVER", status=503), error("RATE_LIMIT", retry_after_ms=1.5, request_id="r")]
        await agent_of(*failures, "ok", session=session, retry=policy).run("Go.")


SCENES = [_retries, _contexts, _pruned, _output, _lost, _asked, _limits, _closed, _by_a_hook, _route]


def test_dsh_opens_nests_and_migrates_what_comes_seldom(tmp_path: Path) -> None:
    async def make(root: Path) -> list[Session]:
        sessions = []
        async with turnlog.open_store(root) as store:
            for scene in SCENES:
                session = await store.create(cwd="/work", id=scene.__name__)
                await scene(session)
                sessions.append(session)
        return sessions

    seen = accepted(tmp_path / "store", make)

    assert {"compaction/prune", "approval/asked", "approval/decided", "approval/policy"} <= seen
