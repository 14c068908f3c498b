"""Tool calls: which run when, and that each has its result (dsh-v0 §4.9, items 87-89, 105-111)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.harness import agent_of, call, echo, kinds, reason, refusing, script, settled
from turnlog.agent import Agent
from turnlog.bus import Next, Outcome, stop
from turnlog.events import (
    Aborted,
    CancelledByUser,
    Errored,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
    UserMessage,
)
from turnlog.log import Session
from turnlog.tools import Accept, Deny, PostExecute, PreExecute, Review, ToolContext, Verdict, tool


class Bench:
    """Tools that note when they begin and end, and end when told."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.running = 0
        self.most = 0
        self.gates: dict[str, asyncio.Event] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def work(self, name: str, wait: bool) -> str:
        self.log.append(f"+{name}")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await (self.gate(name).wait() if wait else asyncio.sleep(0.001))
        finally:
            self.running -= 1
            self.log.append(f"-{name}")
        return name

    @property
    def tools(self) -> list[Any]:
        @tool(parallel=True)
        async def side(who: str, wait: bool = False) -> str:
            """Run beside others."""
            return await self.work(who, wait)

        @tool
        async def alone(who: str, wait: bool = False) -> str:
            """Run alone."""
            return await self.work(who, wait)

        return [side, alone]


def results(session: Session) -> list[str]:
    return [event.data.message.text for event in session.select(ToolResult)]


def codes(session: Session) -> list[str | None]:
    return [event.data.error.code if event.data.error else None for event in session.select(ToolResult)]


async def run(bench: Bench, *calls: Any, **options: Any) -> Agent:
    agent = agent_of(list(calls), "done", tools=bench.tools, **options)
    await agent.run("Go.")
    return agent


async def test_results_stand_in_model_order_whatever_ends_first() -> None:
    bench = Bench()
    agent = agent_of([call("side", who=n, wait=True) for n in "abc"], "done", tools=bench.tools)
    agent.followup("Go.")
    await settled(lambda: bench.running == 3)
    for name in "cab":
        bench.gate(name).set()
        await asyncio.sleep(0.005)
        if name == "c":
            assert results(agent.session) == []
    await agent.when_idle()

    assert bench.log[3:] == ["-c", "-a", "-b"]
    assert results(agent.session) == ["a", "b", "c"]
    asked = [b.id for m in agent.session.derive_messages() for b in m.content if isinstance(b, ToolCallBlock)]
    answered = [
        b.tool_call_id for m in agent.session.derive_messages() for b in m.content if isinstance(b, ToolResultBlock)
    ]
    assert asked == answered
    for event in agent.session.select(ToolResult):
        assert event.sources is not None
        (source,) = event.sources
        cited = agent.session.event(source).data
        assert isinstance(cited, ToolCall)
        assert cited.call_id == event.data.call_id


async def test_an_exclusive_call_between_parallel_ones_makes_three_groups() -> None:
    bench = Bench()
    await run(bench, call("side", who="a"), call("alone", who="b"), call("side", who="c"))

    assert bench.log == ["+a", "-a", "+b", "-b", "+c", "-c"]


async def test_exclusive_calls_alternate_with_their_results() -> None:
    agent = await run(Bench(), call("alone", who="a"), call("alone", who="b"))

    log = [one for one in kinds(agent.session) if one.startswith("tool/")]
    assert log == ["tool/call alone", "tool/result a", "tool/call alone", "tool/result b"]


async def test_a_call_that_becomes_exclusive_while_others_run_waits_for_them() -> None:
    bench, exclusive = Bench(), False

    @tool(parallel=lambda arguments: not exclusive)
    async def moody(who: str) -> str:
        """Be asked again right before each start."""
        return await bench.work(who, False)

    async def change(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        nonlocal exclusive
        exclusive = event.arguments["who"] == "b"
        return await next()

    agent = agent_of([call("moody", who=n) for n in "abcd"], "done", tools=[moody])
    agent.on(PreExecute, change)
    await agent.run("Go.")

    assert set(bench.log[:2]) == {"+a", "+b"}
    assert bench.log.index("+c") > max(bench.log.index("-a"), bench.log.index("-b"))


@pytest.mark.parametrize("answer", [1, "yes", None])
async def test_an_answer_that_is_truthy_but_not_true_means_exclusive(answer: Any) -> None:
    bench = Bench()

    @tool(parallel=lambda arguments: answer)
    async def odd(who: str) -> str:
        """Be odd."""
        return await bench.work(who, False)

    agent = agent_of([call("odd", who=n) for n in "abc"], "done", tools=[odd])
    await agent.run("Go.")

    assert bench.most == 1


@pytest.mark.parametrize(("cap", "most"), [(1, 1), (2, 2), (10, 5)])
async def test_the_cap_is_kept_and_slots_are_filled_again(cap: int, most: int) -> None:
    bench = Bench()
    agent = await run(bench, *[call("side", who=n) for n in "abcde"], max_parallel=cap)

    assert bench.most == most
    assert results(agent.session) == list("abcde")


@pytest.mark.parametrize("cap", [0, -1, 1.5, True])
def test_a_cap_that_is_no_positive_number_is_refused(cap: Any) -> None:
    with pytest.raises(ValueError, match="max_parallel"):
        agent_of(max_parallel=cap)


async def test_hooks_before_and_after_see_the_order_of_the_model_and_a_denied_call_runs_nothing() -> None:
    bench, seen = Bench(), []

    async def before(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        seen.append(f"before {event.arguments['who']}")
        if event.arguments["who"] == "b":
            return stop(Deny("not b"), reason="it is b")
        return await next()

    async def after(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        seen.append(f"after {event.arguments['who']}")
        return stop(Accept(), reason="fine")

    agent = agent_of([call("side", who=n) for n in "abc"], "done", tools=bench.tools, max_parallel=3)
    agent.on(PreExecute, before)
    agent.on(PostExecute, after)
    await agent.run("Go.")

    assert [one for one in seen if one.startswith("before")] == ["before a", "before b", "before c"]
    assert [one for one in seen if one.startswith("after")] == ["after a", "after b", "after c"]
    assert "+b" not in bench.log
    assert results(agent.session) == ["a", "Error: not b", "c"]


async def test_a_cancel_drains_what_runs_keeps_results_and_answers_what_never_began() -> None:
    bench = Bench()
    agent = agent_of(
        [call("side", who="a"), call("side", who="b", wait=True), call("alone", who="c"), call("side", who="d")],
        tools=bench.tools,
    )
    agent.followup("Go.")
    await settled(lambda: len(results(agent.session)) == 1)

    agent.cancel()
    await agent.when_idle()

    assert codes(agent.session) == [None, "ABORTED", "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
    assert "+c" not in bench.log
    assert "+d" not in bench.log
    assert bench.running == 0


async def test_a_cancel_during_pre_execute_skips_the_body() -> None:
    bench, reached = Bench(), asyncio.Event()

    async def ponder(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        reached.set()
        await asyncio.Event().wait()
        return await next()

    agent = agent_of([call("alone", who="a"), call("alone", who="b")], tools=bench.tools)
    agent.on(PreExecute, ponder)
    agent.followup("Go.")
    await reached.wait()

    agent.cancel()
    await agent.when_idle()

    assert bench.log == []
    assert codes(agent.session) == ["ABORTED_BEFORE_DISPATCH"] * 2


async def test_context_of_a_tool_that_ended_after_the_cancel_is_parked() -> None:
    running = asyncio.Event()

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Clean up."""
        try:
            running.set()
            await asyncio.Event().wait()
        finally:
            ctx.defer(UserMessage.of("I was interrupted."))
        return "never"

    agent = agent_of([call("stubborn")], "ok", tools=[stubborn])
    agent.followup("Go.")
    await running.wait()

    agent.cancel()
    await agent.when_idle()

    assert [one.message.text for one in agent.inbox.waiting("next-step")] == ["I was interrupted."]
    assert reason(agent.session) == Aborted(CancelledByUser())


async def test_context_that_waits_already_is_not_queued_twice() -> None:
    note = UserMessage.of("Mind the step.")

    @tool(parallel=True)
    async def look(ctx: ToolContext) -> str:
        """Look."""
        ctx.defer(note)
        return "seen"

    agent = agent_of([call("look"), call("look")], "done", tools=[look])

    assert (await agent.run("Go.")).text == "done"
    assert [one.text for one in agent.session.derive_messages()].count("Mind the step.") == 1


@pytest.mark.parametrize("kind", [ToolCall, ToolResult])
@pytest.mark.parametrize("name", ["side", "alone"])
async def test_whatever_fails_in_the_harness_every_call_has_its_result_before_the_step_ends(
    kind: type[Any], name: str
) -> None:
    agent = agent_of([call(name, who=n) for n in "abc"], tools=Bench().tools)
    refusing(agent.session, kind)

    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    calls = [event.data.call_id for event in agent.session.select(ToolCall)]
    assert calls == ["call_1", "call_2", "call_3"]
    assert [event.data.call_id for event in agent.session.select(ToolResult)] == calls
    assert set(codes(agent.session)) <= {None, "TOOL_OUTCOME_UNKNOWN", "ABORTED_BEFORE_DISPATCH"}


@pytest.mark.parametrize(("raw", "got"), [("", "{}"), (" \n", "{}"), ("{}", "{}")])
async def test_empty_arguments_are_an_empty_object_and_stay_raw_in_the_log(raw: str, got: str) -> None:
    seen: list[str] = []

    @tool
    async def nothing() -> str:
        """Take nothing."""
        seen.append("{}")
        return "ok"

    agent = agent_of([call("nothing", raw)], "done", tools=[nothing])
    await agent.run("Go.")

    assert seen == [got]
    assert [event.data.arguments for event in agent.session.select(ToolCall)] == [raw]


async def test_an_unknown_tool_is_answered_and_the_turn_goes_on() -> None:
    agent = agent_of([call("nobody"), call("echo", text="x")], "done", tools=[echo])

    assert (await agent.run("Go.")).text == "done"
    assert codes(agent.session) == ["UNKNOWN_TOOL", None]
    assert len(script(agent).requests) == 2
