"""Cancel at every await point of a run: the log is balanced, nothing runs on, no process is left.

The points are enumerated, not sampled: a run is repeated until it ends before its k-th point comes. What happens at the
point is each way in which a run can be ended from outside.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from tests.agent.harness import AT_ONCE, agent_of, call, echo, kinds, text
from tests.agent.points import Points, alive, children, others
from turnlog.agent import Agent, Context, Enter, PreStep, Reject, TurnStopping
from turnlog.bus import Next, Outcome
from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    CancelledByHook,
    CancelledByParent,
    Finish,
    FinishError,
    LlmRetry,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCall,
    ToolCallBlock,
    ToolResult,
)
from turnlog.model import error, reasoning, usage, wait
from turnlog.tools import Approvals, ToolContext, tool
from turnlog.tools.builtin.bash import bash

Record = Callable[[str, object], None]


@tool(parallel=True)
async def slow(ctx: ToolContext) -> str:
    """Take some turns of the loop, and leave a message."""
    for _ in range(3):
        await asyncio.sleep(0)
    return "slow"


@tool(parallel=True)
async def quick() -> str:
    """Be quick."""
    await asyncio.sleep(0)
    return "quick"


@tool
def threaded() -> str:
    """Work in a thread."""
    return "threaded"


async def _look(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
    await asyncio.sleep(0)
    outcome = await next()
    await asyncio.sleep(0)
    return outcome


async def _stopping(event: TurnStopping) -> None:
    await asyncio.sleep(0)


class Scene:
    """One run on a real store, and what has to hold after it however it ended."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pids = root / "pids"

    def agent(self, session: turnlog.Session) -> Agent:
        raise NotImplementedError

    async def play(self, points: Points, how: str, *, at_events: bool = False) -> None:
        """*at_events*: points are committed events, seen by a subscriber, instead of awaits."""
        async with turnlog.open_store(self.root) as store:
            session = await store.create(cwd=self.root)
            before = others()
            agent = self.agent(session)
            points.act = lambda: ACTS[how](agent, running)
            with closing(session.subscribe(points.pass_one)) if at_events else points.watching():
                points.counting = True
                running = asyncio.ensure_future(self.run(agent))
                await asyncio.wait([running])
                if how == "run task.cancel":  # the cancel is passed on once all is closed
                    assert agent.status == "idle"
                await agent.when_idle()
            if not points.reached:
                running.result()
            elif not running.cancelled():
                running.exception()
            await self.check(agent, before)
            path = self.root.glob(f"**/{session.id}*/session.jsonl")
            log = next(path, None) or next(one for one in self.root.rglob("*.jsonl") if session.id in str(one))
        report = turnlog.verify(log)
        assert report.findings == (), [str(one) for one in report.findings]
        assert len(report.session.events) == len(session)

    async def run(self, agent: Agent) -> None:
        await agent.run("Go.")

    async def check(self, agent: Agent, before: set[asyncio.Task[Any]]) -> None:
        session = agent.session
        assert agent.status == "idle"
        for _ in range(100):
            if others() == before:
                break
            await asyncio.sleep(0.002)
        assert others() == before
        types = [event.type for event in session.events]
        assert types.count("turn/start") == types.count("turn/end")
        assert types.count("step/start") == types.count("step/end")
        asked = [
            block.id
            for message in session.derive_messages()
            for block in message.content
            if isinstance(block, ToolCallBlock)
        ]
        calls = [event.data.call_id for event in session.select(ToolCall)]
        results = [event.data.call_id for event in session.select(ToolResult)]
        assert asked == calls
        assert sorted(results) == sorted(calls)
        if "turn/start" in types:
            assert [one for one in types if not one.startswith("agent/inbox")][-1] == "turn/end"
        assert not unsaid(session)
        await self.no_process()
        # the next turn works, on the same agent and log
        length = len(session)
        agent._model = type(agent._model)(["again"] * 4)  # what was kept comes first
        assert (await agent.run("And now?")).text == "again", kinds(session, length)

    async def no_process(self) -> None:
        started = [int(one) for one in self.pids.read_text().split()] if self.pids.exists() else []
        for _ in range(400):
            if not children() and not any(map(alive, started)):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"left behind: {children()} {[one for one in started if alive(one)]}")


def unsaid(session: turnlog.Session) -> list[int]:
    """Where a step ended although text that had been shown is in no message."""
    lost, shown = [], False
    for event in session.events:
        match event.data:
            case StepStart() | LlmRetry() | AssistantMessage():
                shown = False
            case AssistantChunk(chunk=TextDelta(text=said)):
                shown = shown or bool(said.strip())
            case AssistantChunk(chunk=Finish(reason=FinishError())):
                shown = False  # it failed, and says so
            case StepEnd() if shown:
                lost.append(event.seq)
    return lost


class Busy(Scene):
    """Hooks, contexts, a retry, parallel and threaded tools, steering, several steps."""

    def agent(self, session: turnlog.Session) -> Agent:
        answers = [
            [reasoning("Hm."), text("So, "), error("RATE_LIMIT")],
            [text("Look."), call("slow"), call("quick"), call("echo", text="x"), usage(5, 5)],
            [wait(0), call("threaded"), call("nobody")],
            [text("Do"), wait(0), text("ne."), usage(7, 1)],
        ]
        agent = agent_of(
            *answers,
            tools=[slow, quick, echo, threaded],
            session=session,
            contexts=[Context("place", _somewhere)],
            retry=AT_ONCE,
        )
        agent.on(PreStep, _look)
        agent.on(TurnStopping, _stopping)
        return agent


async def _somewhere() -> str:
    await asyncio.sleep(0)
    return "here"


class Shell(Scene):
    """A real command."""

    def agent(self, session: turnlog.Session) -> Agent:
        command = f"echo $$ >> {self.pids}; sleep 0.02 & echo $! >> {self.pids}; sleep 0.02; echo done"
        return agent_of(
            [text("Run."), call("bash", command=command), call("echo", text="x")],
            "Done.",
            tools=[bash, echo],
            session=session,
            approvals=Approvals(policy="allow"),
            workspace=self.root,
            spill=self.root,
        )


def _cancel(agent: Agent, running: asyncio.Future[None]) -> None:
    agent.cancel()


def _cancel_and_keep(agent: Agent, running: asyncio.Future[None]) -> None:
    agent.cancel(CancelledByParent(), keep_inbox=True)


def _cancel_driver(agent: Agent, running: asyncio.Future[None]) -> None:
    if (task := agent._driver._task) is not None:
        task.cancel()


def _cancel_run(agent: Agent, running: asyncio.Future[None]) -> None:
    running.cancel()


def _all_at_once(agent: Agent, running: asyncio.Future[None]) -> None:
    _cancel(agent, running)
    _cancel_driver(agent, running)
    _cancel_run(agent, running)


def _cancel_and_go_on(agent: Agent, running: asyncio.Future[None]) -> None:
    agent.cancel()
    agent._model = type(agent._model)(["again"] * 3)
    agent.followup("Something else.")


def _cancel_soon(agent: Agent, running: asyncio.Future[None]) -> None:
    asyncio.get_running_loop().call_soon(agent.cancel)


def _cancel_driver_soon(agent: Agent, running: asyncio.Future[None]) -> None:
    asyncio.get_running_loop().call_soon(_cancel_driver, agent, running)


def _time_is_up(agent: Agent, running: asyncio.Future[None]) -> None:
    """What ``max_seconds`` does."""
    if (turn := agent._driver._cancellation).cause is None:
        turn.cancel(CancelledByHook("TIME_LIMIT"))


ACTS = {
    "agent.cancel": _cancel,
    "agent.cancel(keep_inbox=True)": _cancel_and_keep,
    "driver task.cancel": _cancel_driver,
    "run task.cancel": _cancel_run,
    "all of them": _all_at_once,
    "agent.cancel and a followup": _cancel_and_go_on,
    "agent.cancel one turn of the loop later": _cancel_soon,
    "driver task.cancel one turn of the loop later": _cancel_driver_soon,
    "a hook's cancel": _time_is_up,
}


def _enumerated(scene: Callable[[Path], Scene], root: Path, how: str, *, at_events: bool = False) -> int:
    """Runs the scene once for each of its points; how many there are."""
    for point in itertools.count():
        points = Points(at=point)
        place = root / f"{point}"
        place.mkdir()
        try:
            asyncio.run(scene(place).play(points, how, at_events=at_events))
        except AssertionError as fault:
            raise AssertionError(f"{how} at point {point}: {fault}") from fault
        if not points.reached:
            return point
    raise AssertionError


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)  # abandoned tools and the like
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.proof
@pytest.mark.parametrize("how", ACTS)
@pytest.mark.parametrize("scene", [Busy, Shell])
def test_cancelling_at_every_await_point_leaves_a_balanced_log_and_nothing_running(
    scene: Callable[[Path], Scene], how: str, tmp_path: Path, record_property: Record
) -> None:
    count = _enumerated(scene, tmp_path, how)
    assert count > 10
    name = scene.__name__.lower()  # type: ignore[attr-defined]
    record_property("proof", f"{how} at every await point of a {name} run: {count} points, all balanced")


def test_a_run_that_nobody_cancels_passes_the_same_checks(tmp_path: Path) -> None:
    points = Points()
    asyncio.run(Busy(tmp_path).play(points, "agent.cancel"))
    assert points.count > 30


@pytest.mark.proof
@pytest.mark.parametrize("how", ["agent.cancel", "agent.cancel(keep_inbox=True)"])
def test_a_subscriber_that_cancels_at_any_event_leaves_a_balanced_log(
    how: str, tmp_path: Path, record_property: Record
) -> None:
    count = _enumerated(Queued, tmp_path, how, at_events=True)
    record_property("proof", f"{how} by a subscriber at every event of a queue's runs: {count} points, all balanced")


class Queued(Busy):
    """The same with a prompt that waits, and one that nobody awaits."""

    async def run(self, agent: Agent) -> None:
        first = asyncio.ensure_future(agent.run("Go."))
        await asyncio.sleep(0)
        agent.inject("By the way.")
        second = asyncio.ensure_future(agent.run("Next."))
        await asyncio.wait([first, second])  # neither hangs
        assert agent.status == "idle"
