"""Sessions that the loop wrote pass dsh's own code: loader, grammar, session package, migrations.

Run by ``make interop``: needs Node.js and the npm registry.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

import pytest

import turnlog
from tests.interop.test_dsh_files import ENCODINGS, migrates, passes, verdicts
from turnlog import Agent, Session, tool
from turnlog.agent import Context, Enter, PreStep, Reject, RetryPolicy
from turnlog.bus import Next, Outcome, stop
from turnlog.events import UserMessage
from turnlog.model import ModelInfo, ScriptedModel, call, cut, error, max_tokens, reasoning, text, usage, wait
from turnlog.tools import Approvals, Policy, ToolContext

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]

AT_ONCE: Final = RetryPolicy(initial_ms=0, max_ms=0, max_retries=2)


@tool(parallel=True)
async def echo(said: str) -> str:
    """Say it again."""
    return said


@tool
async def huge() -> str:
    """More than fits."""
    return "all work and no play " * 1000


@tool
async def look(ctx: ToolContext) -> str:
    """Look around."""
    ctx.defer(UserMessage.of("Mind the step."))
    return "seen"


@tool
async def slow() -> str:
    """Take for ever."""
    await asyncio.Event().wait()
    return "never"


@tool(policy=Policy(default="ask"))
async def delicate() -> str:
    """Ask first."""
    return "done with care"


TOOLS: Final = [echo, huge, look, slow, delicate]


def agent(session: Session, answers: list[Any], **options: Any) -> Agent:
    info = ModelInfo(
        "scripted", "script", context_window=100_000, max_tokens=4096, streams=options.pop("streams", True)
    )
    return Agent(session, ScriptedModel(answers, info=info), TOOLS, retry=AT_ONCE, system="Work.", **options)


async def plain(session: Session) -> None:
    answers = [
        [
            reasoning("Hm."),
            text("Let ", "me see."),
            call("echo", said="a"),
            call("echo", said="b"),
            usage(10, 5, reasoning=2),
        ],
        [call("look"), call("nothing_like_it"), call("echo", "{not json")],
        [text("All done."), usage(30, 3, cache_read=8)],
        [text("Again.")],
    ]
    async with agent(session, answers, contexts=[Context("place", "Here.")]) as one:
        await one.run("Go.")
        await one.run("Once more.")


async def failing(session: Session) -> None:
    answers = [
        [text("Hal"), usage(3, 1), error("RATE_LIMIT", retry_after_ms=1, request_id="r-1")],
        [text("Hel"), cut()],
        [text("Hello.")],
        error("AUTH", status=401),
        [text("too lo"), max_tokens()],
        [],
    ]
    async with agent(session, answers) as one:
        for said in ("One.", "Two.", "Three.", "Four."):
            await one.run(said)


async def cancelled(session: Session) -> None:
    running = asyncio.Event()
    answers: list[Any] = [
        [text("Working"), wait(3600)],
        [call("slow"), call("echo", said="x")],
        [text(" "), wait(3600)],
    ]
    async with agent(session, answers) as one:
        from turnlog.events import AssistantChunk, ToolCall

        one.on(AssistantChunk, lambda event: running.set())
        one.on(ToolCall, lambda event: running.set())
        for said in ("One.", "Two.", "Three."):
            running.clear()
            one.followup(said)
            await running.wait()
            await asyncio.sleep(0.02)
            one.cancel()
            await one.when_idle()


async def hooked(session: Session) -> None:
    async def guard(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        if "secret" in event.messages[0].message.text:
            return stop(Reject("no secrets"), reason="it names a secret")
        if "nothing" in event.messages[0].message.text:
            return (await next()).with_value(Enter(()))
        return await next()

    async with agent(session, [[text("Fine.")]]) as one:
        one.on(PreStep, guard)
        for said in ("A secret.", "nothing", "Else."):
            await one.run(said)


async def approved(session: Session) -> None:
    async def yes(_question: object) -> Any:
        return "allow"

    answers = [[call("delicate")], [text("Done.")]]
    async with agent(session, answers, approvals=Approvals(answerer=yes)) as one:
        await one.run("Go.")
    async with agent(session, answers, approvals=Approvals(policy="deny")) as one:
        await one.run("Go.")
    async with agent(session, answers, approvals=Approvals()) as one:
        await one.run("Go.")


async def pruned(session: Session) -> None:
    answers = [[call("huge")], error("CONTEXT_WINDOW_EXCEEDED"), [text("Short enough now.")]]
    async with agent(session, answers) as one:
        await one.run("Go.")


async def whole_answers(session: Session) -> None:
    answers = [[text("Let me see."), call("echo", said="a"), usage(1, 1)], [text("Done."), usage(2, 1)]]
    async with agent(session, answers, streams=False) as one:
        await one.run("Go.")


async def steered(session: Session) -> None:
    async with agent(session, [[call("echo", said="a")], [text("Noted.")], [text("More.")]]) as one:
        one.inject("Before anything.")
        one.followup("Go.")
        one.followup("And then this.")
        one.steer("By the way.")
        await one.when_idle()


SCENARIOS: Final = [plain, failing, cancelled, hooked, approved, pruned, whole_answers, steered]


@ENCODINGS
def test_dsh_loads_and_migrates_what_the_loop_wrote(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sessions: list[Session] = []

    async def work() -> None:
        async with turnlog.open_store(tmp_path, compressed=encoding == "zstd") as store:
            for scenario in SCENARIOS:
                session = await store.create(cwd=tmp_path, id=scenario.__name__)
                await scenario(session)
                await session.durable()
                sessions.append(session)

    asyncio.run(work())
    found = verdicts(dsh, tmp_path, encoding)
    for session in sessions:
        passes(found[session.id], session)
        migrates(found[session.id], session)


@ENCODINGS
def test_dsh_loads_and_migrates_what_the_loop_resumed(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sessions: list[Session] = []

    async def work() -> None:
        async with turnlog.open_store(tmp_path, compressed=encoding == "zstd") as store:
            for scenario in SCENARIOS:
                await scenario(await store.create(cwd=tmp_path, id=scenario.__name__))
        async with turnlog.open_store(tmp_path) as store:
            for scenario in SCENARIOS:
                session = await store.resume(scenario.__name__)
                await plain(session)
                await session.durable()
                sessions.append(session)

    asyncio.run(work())
    found = verdicts(dsh, tmp_path, encoding)
    for session in sessions:
        passes(found[session.id], session)
        migrates(found[session.id], session)
