"""What precedes an action is durable before the action; a disk that fails blocks it (dsh-v0 §9.2, BC-059)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.agent.harness import agent_of, call, kinds, reason, script, settled
from turnlog.agent import Agent
from turnlog.events import Aborted, CancelledByUser, Errored, ToolResult
from turnlog.tools import tool


class Disk:
    """Says when it is waited for; may hang or fail there."""

    def __init__(self, agent: Agent) -> None:
        self.waits: list[str] = []
        self.fails_at: int | None = None
        self.hangs_at: int | None = None
        self._agent = agent
        agent.session.attach(self)

    async def durable(self, length: int) -> Any:
        self.waits.append(kinds(self._agent.session)[-1])
        here = len(self.waits)
        await asyncio.sleep(0)
        if here == self.hangs_at:
            await asyncio.Event().wait()
        if self.fails_at is not None and here >= self.fails_at:
            raise OSError("no space left on device")


def acting() -> tuple[Agent, Disk, list[str]]:
    ran: list[str] = []

    @tool
    async def act() -> str:
        """Act."""
        ran.append("act")
        return "done"

    agent = agent_of([call("act")], "ok", tools=[act])
    return agent, Disk(agent), ran


async def test_the_claim_the_request_the_call_and_each_next_step_wait_for_the_disk() -> None:
    agent, disk, _ = acting()
    await agent.run("Go.")

    assert disk.waits == [
        "agent/inbox/spliced next-turn -1",
        "request/context",
        "tool/call act",
        "step/end",
        "step/start",
    ]


async def test_a_full_disk_lets_no_step_begin_and_no_request_out() -> None:
    agent, disk, _ = acting()
    disk.fails_at = 1
    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert "no space left" in result.reason.error.message
    assert script(agent).requests == ()
    assert "step/start" not in kinds(agent.session)


async def test_a_disk_that_fails_before_a_request_lets_none_out() -> None:
    agent, disk, _ = acting()
    disk.fails_at = 2
    await agent.run("Go.")

    assert isinstance(reason(agent.session), Errored)
    assert script(agent).requests == ()


async def test_a_disk_that_fails_before_a_tool_lets_its_body_not_run_and_the_call_has_its_result() -> None:
    agent, disk, ran = acting()
    disk.fails_at = 3
    await agent.run("Go.")

    assert ran == []
    (result,) = agent.session.select(ToolResult)
    assert "no space left" in result.data.message.text
    assert isinstance(reason(agent.session), Errored)


async def test_a_cancel_while_the_disk_is_waited_for_sends_nothing() -> None:
    for hangs_at, calls in ((1, 0), (2, 0), (3, 1)):
        agent, disk, ran = acting()
        disk.hangs_at = hangs_at
        agent.followup("Go.")
        await settled(lambda disk=disk, at=hangs_at: len(disk.waits) == at)

        agent.cancel()
        async with asyncio.timeout(5):
            await agent.when_idle()

        assert reason(agent.session) == Aborted(CancelledByUser())
        assert ran == []
        results = [event.data.error for event in agent.session.select(ToolResult)]
        assert [one.code for one in results if one] == ["ABORTED_BEFORE_DISPATCH"] * calls
