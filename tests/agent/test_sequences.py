"""Whole logs, event for event (dsh-v0 §4.10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.harness import agent_of, echo, kinds, script, settled
from turnlog.agent import Context, Enter, PreStep, Reject
from turnlog.bus import Next, Outcome, stop
from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    ToolResult,
    UserMessage,
)
from turnlog.log import Session
from turnlog.model import ModelInfo, call, error, max_tokens, reasoning, text, usage, wait
from turnlog.tools import ToolContext, tool

BEGIN = ["turn/start", "agent/inbox/spliced next-turn -1", "step/start"]
FIRST = ["request/header initial", "request/context"]


def prompted(said: str) -> list[str]:
    return ["agent/inbox/spliced next-turn +1", *BEGIN, f"user/message {said}", *FIRST]


async def test_simple_prompt() -> None:
    agent = agent_of([text("Hello."), usage(3, 2)])

    result = await agent.run("Hi.")

    assert kinds(agent.session) == [
        *prompted("Hi."),
        "assistant/chunk",
        "assistant/message Hello.",
        "step/end",
        "turn/end completed",
    ]
    assert (result.text, result.completed, result.address, result.usage.input_tokens) == ("Hello.", True, "t1", 3)
    (answer,) = agent.session.select(AssistantMessage)
    assert answer.sources == tuple(event.seq for event in agent.session.select(AssistantChunk))


async def test_runtime_context_enters_after_the_prompt_and_again_only_when_it_changes() -> None:
    where = ["room one"]
    agent = agent_of("a", "b", "c", contexts=[Context("place", lambda: where[0])])

    await agent.run("one")
    await agent.run("two")
    where[0] = "room two"
    await agent.run("three")

    said = [event.data.message.text for event in agent.session.select(UserMessage)]
    assert [one.splitlines()[-1] for one in said] == ["one", "room one", "two", "three", "room two"]
    (begin,) = [kinds(agent.session)[:6]]
    assert begin[4] == "user/message one"
    assert begin[5].startswith("user/message Current context.")


async def test_tool_round() -> None:
    agent = agent_of([call("echo", text="hi")], "done", tools=[echo])

    await agent.run("Say hi.")

    assert kinds(agent.session) == [
        *prompted("Say hi."),
        "assistant/chunk",
        "assistant/message ",
        "tool/call echo",
        "tool/result hi",
        "step/end",
        "step/start",
        "assistant/chunk",
        "assistant/message done",
        "step/end",
        "turn/end completed",
    ]
    (result,) = agent.session.select(ToolResult)
    assert result.sources == (result.seq - 1,)


async def test_two_parallel_tools_are_called_before_either_answers_and_answer_in_model_order() -> None:
    second_done = asyncio.Event()

    @tool(parallel=True)
    async def slow() -> str:
        """Wait for the other."""
        await second_done.wait()
        return "slow"

    @tool(parallel=True)
    async def quick() -> str:
        """Be first."""
        second_done.set()
        return "quick"

    agent = agent_of([call("slow"), call("quick")], "done", tools=[slow, quick])

    await agent.run("Go.")

    assert kinds(agent.session)[8:13] == [
        "assistant/message ",
        "tool/call slow",
        "tool/call quick",
        "tool/result slow",
        "tool/result quick",
    ]


async def test_tool_with_extra_context() -> None:
    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        ctx.defer(UserMessage.of("Mind the step."))
        return "seen"

    agent = agent_of([call("look")], "done", tools=[look])

    await agent.run("Go.")

    assert kinds(agent.session)[9:17] == [
        "tool/call look",
        "tool/result seen",
        "agent/inbox/spliced next-step +1",
        "step/end",
        "agent/inbox/spliced next-step -1",
        "step/start",
        "user/message Mind the step.",
        "assistant/chunk",
    ]


async def test_steering_during_a_step_is_claimed_at_the_next_boundary() -> None:
    gate = asyncio.Event()
    agent = agent_of([text("one"), wait(gate), text("more")], "two")
    agent.followup("Go.")
    await settled(lambda: any(agent.session.select(AssistantChunk)))

    agent.steer("Also this.")
    gate.set()
    await agent.when_idle()

    log = kinds(agent.session)
    steered = log.index("agent/inbox/spliced next-step +1")
    assert log[steered - 1] == "assistant/chunk"
    after = log.index("step/end")
    assert log[after : after + 4] == [
        "step/end",
        "agent/inbox/spliced next-step -1",
        "step/start",
        "user/message Also this.",
    ]
    assert log.count("turn/start") == 1


async def test_two_queued_prompts_are_two_turns_of_one_driver() -> None:
    agent = agent_of("one", "two")
    statuses: list[str] = []
    from turnlog.agent import StatusChanged

    agent.on(StatusChanged, lambda event: statuses.append(event.status))

    agent.followup("First.")
    agent.followup("Second.")
    await agent.when_idle()

    log = kinds(agent.session)
    assert log[:3] == ["agent/inbox/spliced next-turn +1", "turn/start", "agent/inbox/spliced next-turn -1"]
    assert log[log.index("turn/end completed") + 1 :][:4] == [
        "turn/start",
        "agent/inbox/spliced next-turn -1",
        "step/start",
        "user/message Second.",
    ]
    assert statuses == ["running", "idle"]


async def test_blocked_prompt_says_who_and_the_driver_goes_on() -> None:
    async def guard(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        if "secret" in event.messages[0].message.text:
            return stop(Reject("no secrets here"), reason="it names a secret")
        return await next()

    agent = agent_of("fine")
    agent.on(PreStep, guard)
    agent.followup("the secret")
    agent.followup("harmless")
    await agent.when_idle()

    log = kinds(agent.session)
    assert log[:7] == [
        "agent/inbox/spliced next-turn +1",
        "turn/start",
        "agent/inbox/spliced next-turn -1",
        "agent/inbox/spliced next-turn +1",
        "hook/invoked",
        "hook/result",
        "turn/end blocked",
    ]
    assert log[-1] == "turn/end completed"
    said: Any = next(event.data for event in agent.session.events if event.type == "hook/result")
    assert said.value["decision"] == "block"
    assert "guard" in said.value["handlerId"]
    assert "no secrets here" in said.value["stderrSummary"]


async def test_emptied_input_completes_without_a_step() -> None:
    async def drop(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        outcome = await next()
        return outcome.with_value(Enter(()))

    agent = agent_of()
    agent.on(PreStep, drop)

    await agent.run("Hi.")

    assert kinds(agent.session) == [
        "agent/inbox/spliced next-turn +1",
        "turn/start",
        "agent/inbox/spliced next-turn -1",
        "hook/invoked",
        "hook/result",
        "turn/end completed",
    ]


async def test_provider_error_without_retry() -> None:
    agent = agent_of([text("Hal"), error("AUTH", "no such key")])

    result = await agent.run("Hi.")

    assert kinds(agent.session) == [*prompted("Hi."), "assistant/chunk", "step/end", "turn/end error AUTH"]
    assert not result.completed


async def test_retry_stays_in_its_step_and_the_answer_cites_its_own_attempt_only() -> None:
    agent = agent_of([text("Hal"), usage(3, 1), error("RATE_LIMIT")], [text("Hello."), usage(3, 2)])

    result = await agent.run("Hi.")

    assert kinds(agent.session) == [
        *prompted("Hi."),
        "assistant/chunk",
        "llm/retry",
        "llm/retry-started",
        "assistant/chunk",
        "assistant/message Hello.",
        "step/end",
        "turn/end completed",
    ]
    (answer,) = agent.session.select(AssistantMessage)
    started = next(event.seq for event in agent.session.events if event.type == "llm/retry-started")
    assert answer.sources is not None
    assert min(answer.sources) == started + 1
    assert result.usage.input_tokens == 6


async def test_max_tokens_drops_calls_and_ends_the_turn() -> None:
    agent = agent_of([call("echo", text="hi"), max_tokens()], tools=[echo])

    await agent.run("Hi.")

    assert kinds(agent.session)[7:] == [
        "assistant/chunk",
        "assistant/message ",
        "step/end",
        "turn/end maxtokens",
    ]
    assert len(agent.session.derive_messages()) == 1


async def test_cancel_while_streaming_keeps_what_was_shown() -> None:
    agent = agent_of([reasoning("Hm."), text("Hello wor"), wait(asyncio.Event())])
    agent.followup("Hi.")
    await settled(
        lambda: kinds(agent.session)[-1] == "assistant/chunk" and len(list(agent.session.select(AssistantChunk))) >= 4
    )

    agent.cancel()
    await agent.when_idle()

    assert kinds(agent.session)[7:] == [
        "assistant/chunk",
        "assistant/message Hello wor (interrupted)",
        "step/end",
        "turn/end aborted user",
    ]


async def test_cancel_while_nothing_is_visible() -> None:
    agent = agent_of([text(" "), wait(asyncio.Event())])
    agent.followup("Hi.")
    await settled(lambda: any(agent.session.select(AssistantChunk)))

    agent.cancel()
    await agent.when_idle()

    assert kinds(agent.session)[7:] == ["assistant/chunk", "step/end", "turn/end aborted user"]


async def test_cancel_during_tools_answers_every_call() -> None:
    running = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        running.set()
        await asyncio.Event().wait()
        return "never"

    agent = agent_of([call("hang"), call("echo", text="hi")], tools=[hang, echo])
    agent.followup("Go.")
    await running.wait()

    agent.cancel()
    await agent.when_idle()

    assert kinds(agent.session)[8:] == [
        "assistant/message ",
        "tool/call hang",
        "tool/result ABORTED",
        "tool/call echo",
        "tool/result ABORTED_BEFORE_DISPATCH",
        "step/end",
        "turn/end aborted user",
    ]


async def test_cancel_during_pre_step_leaves_a_turn_without_step() -> None:
    reached = asyncio.Event()

    async def slow(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        reached.set()
        await asyncio.Event().wait()
        return await next()

    agent = agent_of()
    agent.on(PreStep, slow)
    agent.followup("Hi.")
    await reached.wait()

    agent.cancel()
    await agent.when_idle()

    assert kinds(agent.session) == [
        "agent/inbox/spliced next-turn +1",
        "turn/start",
        "agent/inbox/spliced next-turn -1",
        "turn/end aborted user",
    ]


async def test_cancel_before_the_turn_starts_leaves_only_the_withdrawn_input() -> None:
    from turnlog.agent import StatusChanged

    agent = agent_of()
    agent.on(StatusChanged, lambda event: event.agent.cancel() if event.status == "running" else None)

    agent.followup("Hi.")
    await agent.when_idle()

    assert kinds(agent.session) == ["agent/inbox/spliced next-turn +1", "agent/inbox/spliced next-turn -1 canceled"]
    assert agent.status == "idle"


async def test_cancel_with_a_queued_tail_withdraws_it_first() -> None:
    agent = agent_of([text("Hello"), wait(asyncio.Event())])
    agent.followup("One.")
    agent.followup("Two.")
    await settled(lambda: any(agent.session.select(AssistantChunk)))

    agent.cancel()
    await agent.when_idle()

    log = kinds(agent.session)
    assert log[log.index("agent/inbox/spliced next-turn -1 canceled") :] == [
        "agent/inbox/spliced next-turn -1 canceled",
        "assistant/message Hello (interrupted)",
        "step/end",
        "turn/end aborted user",
    ]


async def test_resume_goes_on_counting_and_logs_its_header_as_resumed() -> None:
    first = agent_of("one")
    await first.run("One.")
    session = Session.resumed(first.session)
    session.settle()
    length = len(session)
    second = agent_of("two", session=session)

    await second.run("Two.")

    assert kinds(session, length - 1) == [
        "session/end-seed",
        "agent/inbox/spliced next-turn +1",
        "turn/start",
        "agent/inbox/spliced next-turn -1",
        "step/start",
        "user/message Two.",
        "request/header resume",
        "assistant/chunk",
        "assistant/message two",
        "step/end",
        "turn/end completed",
    ]


async def test_dispose_mid_turn_closes_it_and_starts_nothing_more() -> None:
    agent = agent_of([text("Hello"), wait(asyncio.Event())])
    agent.followup("One.")
    agent.followup("Two.")
    await settled(lambda: any(agent.session.select(AssistantChunk)))

    await agent.aclose()

    assert kinds(agent.session)[-4:] == [
        "agent/inbox/spliced next-turn -1 canceled",
        "assistant/message Hello (interrupted)",
        "step/end",
        "turn/end aborted disposal",
    ]


async def test_crash_and_reload_closes_what_was_open() -> None:
    agent = agent_of([text("Hello wor"), wait(asyncio.Event())])
    agent.followup("Hi.")
    await settled(lambda: any(agent.session.select(AssistantChunk)))
    copied = agent.session.fork(id="copy")

    assert kinds(copied)[-4:] == [
        "session/end-seed",
        "assistant/message Hello wor (interrupted)",
        "step/end",
        "turn/end interrupted",
    ]
    await agent.aclose()


@pytest.mark.parametrize("streams", [True, False])
async def test_streaming_or_not_the_history_is_the_same(streams: bool) -> None:
    info = ModelInfo("scripted", "script", streams=streams)
    from turnlog.agent import Agent
    from turnlog.model import ScriptedModel

    model = ScriptedModel([[call("echo", text="hi"), usage(3, 1)], [text("done"), usage(4, 1)]], info=info)
    agent = Agent(Session(), model, [echo])

    result = await agent.run("Hi.")

    without_chunks = [one for one in kinds(agent.session) if one != "assistant/chunk"]
    assert without_chunks == [
        *prompted("Hi."),
        "assistant/message ",
        "tool/call echo",
        "tool/result hi",
        "step/end",
        "step/start",
        "assistant/message done",
        "step/end",
        "turn/end completed",
    ]
    assert result.usage.input_tokens == 7
    assert script(agent).remaining == 0
    assert all(bool(event.sources) is streams for event in agent.session.select(AssistantMessage))
