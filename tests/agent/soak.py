"""A conversation without end, in which anything may happen: for the soak, and as the child process of the kills.

``python -m tests.agent.soak ROOT SEED`` runs turns on a real store until it is killed, and says on stdout how much of
its log is written.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import turnlog
from turnlog.agent import Agent, PreStep, Reject, RetryPolicy
from turnlog.bus import Next, Outcome, stop
from turnlog.events import CancelledByParent
from turnlog.log import Session
from turnlog.model import ScriptedModel, call, crash, error, max_tokens, reasoning, text, usage, wait
from turnlog.tools import Approvals, ToolContext, tool
from turnlog.tools.builtin.bash import bash


@tool(parallel=True)
async def side(ctx: ToolContext, turns: int = 1) -> str:
    """Take some turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return "side"


@tool
async def alone(text: str) -> str:
    """Say it."""
    if text == "fail":
        raise ValueError("it failed")
    return text


@tool
def threaded() -> str:
    """Work in a thread."""
    return "threaded"


def answers(random: Random, shell: str | None) -> list[Any]:
    """The answers of one turn."""
    script: list[Any] = []
    for _ in range(random.randrange(3)):
        script.append(
            random.choice(
                [
                    [text("I'll look."), call("side", turns=3), call("side"), usage(5, 5)],
                    [call("alone", text=random.choice(["hi", "fail"])), call("nobody"), call("alone", '{"te')],
                    [reasoning("Hm."), call("threaded"), call("side", turns=2)],
                    [text("Wai"), error(random.choice(["RATE_LIMIT", "SERVER", "STREAM_CLOSED"]))],
                    *([[text("Run."), call("bash", command=shell)]] if shell else []),
                ]
            )
        )
    ending = random.choices(
        [[text("Do", "ne."), usage(9, 2)], error("AUTH"), [text("Cu"), max_tokens()], [wait(0), text("ok")],
         crash(ZeroDivisionError("a bug"))],
        [12, 1, 1, 3, 1],
    )  # fmt: skip
    return [*script, ending[0]]


def model(random: Random, turns: int, shell: str | None = None) -> ScriptedModel:
    """Never at a loss for an answer."""
    return ScriptedModel([one for _ in range(turns) for one in answers(random, shell)])


async def guard(event: PreStep, next: Next[PreStep, Any]) -> Outcome[Any]:
    """Refuses some input, and drops some."""
    said = " ".join(one.message.text for one in event.messages)
    if "forbidden" in said:
        return stop(Reject("no"), reason="forbidden")
    if "nothing" in said:
        return await next(replace(event, messages=()))
    return await next()


def agent_on(session: Session, random: Random, root: Path, shell: str | None) -> Agent:
    agent = Agent(
        session,
        model(random, 40, shell),
        [side, alone, threaded, *([bash] if shell else [])],
        approvals=Approvals(policy="allow"),
        workspace=root,
        spill=root,
        retry=RetryPolicy(initial_ms=0, max_ms=0, max_retries=2),
        max_steps=6,
    )
    agent.on(PreStep, guard)
    return agent


async def turn(agent: Agent, random: Random) -> None:
    """One or several prompts, and whatever happens meanwhile."""
    prompts = [random.choice(["Go.", "Go on.", "forbidden", "nothing"]) for _ in range(random.choice([1, 1, 1, 2, 3]))]
    for prompt in prompts:
        agent.followup(prompt)
    for _ in range(random.randrange(3)):
        for _ in range(random.randrange(30)):
            await asyncio.sleep(0)
        act: Callable[[], object] = random.choice(
            [
                agent.cancel,
                lambda: agent.cancel(CancelledByParent(), keep_inbox=True),
                lambda: agent.steer("Also."),
                lambda: agent.inject("By the way."),
                lambda: agent.followup("And then."),
                lambda: agent._driver._task and agent._driver._task.cancel(),
            ]
        )
        act()
    await agent.when_idle()


async def live(root: Path, seed: int) -> None:
    """Turns with real commands until the process is killed."""
    random = Random(seed)
    shell = f"echo $$ >> {root}/pids; sleep 0.03 & echo $! >> {root}/pids; sleep 0.01; echo ran"
    async with turnlog.open_store(root / "store") as store:
        session = await store.create(id=f"soak-{seed}")
        print(session.id, flush=True)
        while True:
            agent = agent_on(session, random, root, shell)
            for _ in range(10):
                await turn(agent, random)
                durable = await session.durable()
                print(durable.length, flush=True)
            await agent.aclose()


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), int(sys.argv[2])))
