"""Sessions of every kind that the loop writes, with the hooks that were there, to be run again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from turnlog import Agent, Session, tool
from turnlog.agent import Context, Enter, PreStep, Reject, RequestConfig, RetryPolicy, TurnStopping
from turnlog.bus import Next, Outcome, stop
from turnlog.events import AssistantChunk, CallConfig, LlmRetry, SessionTitle, ToolCall, UserMessage
from turnlog.model import (
    ModelInfo,
    ScriptedModel,
    call,
    crash,
    cut,
    error,
    max_tokens,
    reasoning,
    text,
    usage,
    wait,
)
from turnlog.rerun import Listen
from turnlog.tools import Approvals, Policy, ToolContext, ToolOutput

AT_ONCE: Final = RetryPolicy(initial_ms=0, max_ms=1, max_retries=2)


@tool(parallel=True)
async def echo(said: str) -> str:
    """Say it again."""
    return said


@tool(parallel=True)
async def nap(ms: int) -> str:
    """Take some time."""
    await asyncio.sleep(ms / 1000)
    return f"slept {ms}"


@tool
async def huge() -> str:
    """More than fits."""
    return "all work and no play " * 1000


@tool
async def look(ctx: ToolContext) -> str:
    """Look around."""
    ctx.defer(UserMessage.of("Mind the step."))
    return "seen"


@tool(parallel=True)
async def slow() -> str:
    """Take for ever."""
    await asyncio.Event().wait()
    return "never"


@tool(policy=Policy(default="ask"))
async def delicate() -> str:
    """Ask first."""
    return "done with care"


@tool
async def enough() -> ToolOutput:
    """End the turn."""
    return ToolOutput("That is it.", meta={"why": "enough"}, concludes_turn=True)


@tool
async def broken() -> str:
    """Fail."""
    raise RuntimeError("out of order")


TOOLS: Final = [echo, nap, huge, look, slow, delicate, enough, broken]


def agent(session: Session, answers: list[Any], **options: Any) -> Agent:
    """An agent with everything an agent may have."""
    streams = options.pop("streams", True)
    info = ModelInfo("scripted", "script", context_window=100_000, max_tokens=4096, streams=streams)
    return Agent(session, ScriptedModel(answers, info=info), TOOLS, **{"retry": AT_ONCE, "system": "Work.", **options})


async def plain(session: Session) -> None:
    answers = [
        [reasoning("Hm."), text("Let ", "me see."), call("echo", said="a"), call("echo", said="b"), usage(10, 5)],
        [call("look"), call("nothing_like_it"), call("echo", "{not json"), call("echo", nothing=1), call("broken")],
        [text("All done."), usage(30, 3, cache_read=8)],
        [text("Again.")],
    ]
    places = iter(["Here.", "Here.", "There.", "There.", ""])
    async with agent(session, answers, contexts=[Context("place", lambda: next(places)), Context("n", "1")]) as one:
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
        crash(ValueError("a bug")),
        *(error("SERVER") for _ in range(3)),
    ]
    async with agent(session, answers) as one:
        for said in ("One.", "Two.", "Three.", "Four.", "Five.", "Six."):
            await one.run(said)


async def cancelled(session: Session) -> None:
    running = asyncio.Event()
    answers: list[Any] = [
        [text("Working"), wait(3600)],
        [call("echo", said="y"), call("slow"), call("delicate"), call("echo", said="x")],
        [text(" "), wait(3600)],
        [wait(3600)],
    ]
    async with agent(session, answers) as one:
        one.on(AssistantChunk, lambda event: running.set())
        one.on(ToolCall, lambda event: running.set())
        for said in ("One.", "Two.", "Three.", "Four."):
            running.clear()
            one.followup(said)
            if said == "One.":
                one.followup("Never taken.")
                one.inject("Nor this.")
            if said != "Four.":
                await running.wait()
            await asyncio.sleep(0.02)
            one.cancel()
            await one.when_idle()


async def while_waiting(session: Session) -> None:
    """Steered, injected and cancelled while a retry waits."""
    slowly = RetryPolicy(initial_ms=10_000, max_ms=10_000)
    answers: list[Any] = [error("SERVER"), error("SERVER"), error("SERVER"), text("Well."), error("SERVER")]
    async with agent(session, answers, retry=slowly) as one:
        waits = asyncio.Event()
        one.on(LlmRetry, lambda event: waits.set())
        one.followup("Go.")
        for said in ("Quick.", "Quicker.", "Now."):
            await waits.wait()
            waits.clear()
            if said == "Quicker.":
                one.inject("No hurry.")
            await asyncio.sleep(0)
            one.steer(said)
        await waits.wait()
        one.cancel()
        await one.when_idle()


async def guard(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
    if not event.messages:
        return await next()
    said = event.messages[0].message.text
    if "secret" in said:
        return stop(Reject("no secrets"), reason="it names a secret")
    if "nothing" in said:
        return (await next()).with_value(Enter(()))
    if "fail" in said:
        raise RuntimeError("the guard fell asleep")
    return await next()


async def warmer(event: RequestConfig, next: Next[RequestConfig, CallConfig]) -> Outcome[CallConfig]:
    """Another sampling, and then another route, by turn."""
    import msgspec

    changed = msgspec.structs.replace(event.config, temperature=0.5 if event.turn > 3 else None)
    return await next(type(event)(event.agent, event.turn, event.step, event.attempt, changed, event.cancellation))


def hooks(one: Agent) -> None:
    one.on(PreStep, guard)
    one.on(RequestConfig, warmer)


async def hooked(session: Session) -> None:
    async with agent(session, [text("Fine."), text("Fine too.")]) as one:
        hooks(one)
        for said in ("A secret.", "nothing", "Else.", "fail", "Good."):
            await one.run(said)


async def approved(session: Session) -> None:
    async def yes(_question: object) -> Any:
        return "allow"

    async def no(_question: object) -> Any:
        return "deny"

    answers = [[call("delicate"), call("echo", said="a"), call("delicate")], [text("Done.")]]
    for approvals in (
        Approvals(answerer=yes),
        Approvals(answerer=no),
        Approvals(policy="deny"),
        Approvals(),
        Approvals(policy="allow"),
    ):
        async with agent(session, answers, approvals=approvals) as one:
            await one.run("Go.")


async def asked_and_cancelled(session: Session) -> None:
    asked = asyncio.Event()

    async def thinks(_question: object) -> Any:
        asked.set()
        await asyncio.sleep(3600)

    async with agent(
        session, [[call("delicate"), call("echo", said="a")]], approvals=Approvals(answerer=thinks)
    ) as one:
        one.followup("Go.")
        await asked.wait()
        one.cancel()
        await one.when_idle()


async def pruned(session: Session) -> None:
    answers = [[call("huge")], error("CONTEXT_WINDOW_EXCEEDED"), [text("Short enough now.")]]
    async with agent(session, answers) as one:
        await one.run("Go.")


async def whole_answers(session: Session) -> None:
    answers = [
        [text("Let me see."), call("echo", said="a"), usage(1, 1)],
        error("SERVER"),
        [text("Done."), usage(2, 1)],
        [text("Cut"), call("echo", said="b"), max_tokens()],
    ]
    async with agent(session, answers, streams=False) as one:
        await one.run("Go.")
        await one.run("Again.")


async def steered(session: Session) -> None:
    async with agent(session, [[call("echo", said="a")], [text("Noted.")], [text("More.")]]) as one:
        one.inject("Before anything.")
        one.followup("Go.")
        one.followup("And then this.")
        one.steer("By the way.")
        await one.when_idle()


async def cut_and_steered(session: Session) -> None:
    """A turn that was cut stays cut, whatever follows in it."""
    said: list[str] = []

    async def shorter(event: TurnStopping) -> None:
        if not said:
            said.append(event.agent.steer("Shorter.").id)

    async with agent(session, [[text("too lo"), max_tokens()], [text("Short.")]]) as one:
        one.on(TurnStopping, shorter)
        await one.run("Go.")


async def crowded(session: Session) -> None:
    """More calls than may run at once, some by themselves, ending in any order."""
    calls = [call("nap", ms=ms) for ms in (30, 5, 20, 1, 10, 2)]
    answers = [
        [*calls, call("look"), *calls[:3], call("huge"), call("echo", said="z"), call("nap", ms=1)],
        [text("Done.")],
    ]
    async with agent(session, answers, max_parallel=2) as one:
        await one.run("Go.")


async def same_ids(session: Session) -> None:
    answers = [[call("echo", said=str(n), id="call_0"), call("echo", said="b", id="call_0")] for n in range(3)]
    async with agent(session, [*answers, [call("enough")], [text("And on.")]]) as one:
        await one.run("Go.")
        await one.run("Go on.")


async def limited(session: Session) -> None:
    answers = [[call("echo", said=str(n))] for n in range(4)]
    async with agent(session, answers, max_steps=2) as one:
        await one.run("Go.")
        await one.run("Go on.")


async def told_by_others(session: Session) -> None:
    """Programs around the loop log things of their own, between turns and in the middle of an answer."""
    async with agent(session, [[text("Yes"), wait(0.05), text(", well.")], [text("No.")]]) as one:
        session.append(SessionTitle(value={"title": "Before", "messageSeqs": [], "source": {"kind": "user"}}))
        one.followup("Go.")
        await asyncio.sleep(0.02)
        session.append(SessionTitle(value={"title": "While", "messageSeqs": [], "source": {"kind": "user"}}))
        await one.when_idle()
        session.append(SessionTitle(value={"title": "After", "messageSeqs": [], "source": {"kind": "user"}}))
        await one.run("Again.")


async def raised(session: Session) -> None:
    """Structured output: a tool that comes and goes, and reminders."""
    answers = [[text("So what?")], [call("final_answer", answer=42)], [text("Plain.")]]
    async with agent(session, answers) as one:
        await one.run("How many?", output=int)
        await one.run("Thanks.")


Scenario = Callable[[Session], Awaitable[None]]
SCENARIOS: Final[list[Scenario]] = [
    plain, failing, cancelled, while_waiting, hooked, approved, asked_and_cancelled, pruned, whole_answers, steered,
    cut_and_steered, crowded, same_ids, limited, told_by_others, raised,
]  # fmt: skip
LISTENERS: Final[dict[str, tuple[Listen, ...]]] = {"hooked": (hooks,)}
