"""The public face: run, run_sync, stream, and facts listened to by class."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from tests.agent.harness import agent_of, call, echo, kinds, reason, script, settled, streaming, text
from turnlog.agent import Agent, AgentFailed, PreStep, RequestConfig, RequestError, TurnStopping
from turnlog.bus import Bus, Next, Outcome
from turnlog.events import (
    Aborted,
    AssistantChunk,
    CancelledByUser,
    Errored,
    TextBlock,
    ToolCall,
    UserMessage,
)
from turnlog.log import SessionEvent
from turnlog.model import error, usage, wait


def test_run_sync_may_be_called_again_and_again() -> None:
    agent = agent_of("one", error("RATE_LIMIT"), "two")

    assert agent.run_sync("One.").text == "one"
    assert agent.run_sync("Two.").text == "two"


def test_a_message_may_be_text_blocks_or_a_whole_message() -> None:
    agent = agent_of("a", "b", "c")
    agent.run_sync("text")
    agent.run_sync([TextBlock("one"), TextBlock("two")])
    agent.run_sync(UserMessage.of("whole"))

    assert [len(event.data.content) for event in agent.session.select(UserMessage)] == [1, 2, 1]


async def test_a_result_tells_how_its_own_turn_went() -> None:
    agent = agent_of([text("one"), usage(10, 5)], [text("two"), usage(20, 7, cache_read=3)])

    one = await agent.run("1")
    two = await agent.run("2")

    assert (one.address, one.usage.input_tokens, one.usage.cache_read_tokens) == ("t1", 10, None)
    assert (two.address, two.usage.output_tokens, two.usage.cache_read_tokens) == ("t2", 7, 3)
    assert agent.last_context_tokens == 30


async def test_stream_gives_every_event_of_the_log_in_order_until_its_turn_has_ended() -> None:
    agent = agent_of([call("echo", text="x")], "done", tools=[echo])

    seen = [event async for event in agent.stream("Go.")]

    assert [event.seq for event in seen] == list(range(len(agent.session)))
    assert seen[-1].type == "turn/end"


async def test_a_stream_that_is_left_early_cancels_its_turn_and_waits_for_its_end() -> None:
    agent = agent_of([text("Hel", "lo"), wait(asyncio.Event())])

    async with aclosing(agent.stream("Go.")) as events:
        async for event in events:
            if isinstance(event.data, AssistantChunk):
                break

    assert agent.status == "idle"
    assert reason(agent.session) == Aborted(CancelledByUser())


async def test_a_stream_raises_what_keeps_its_turn_from_starting() -> None:
    from tests.agent.harness import Refused, refusing
    from turnlog.events import TurnStart

    agent = agent_of()
    refusing(agent.session, TurnStart)

    with pytest.raises(Refused):
        async for _ in agent.stream("Go."):
            pass


async def test_facts_are_listened_to_by_their_class_with_typed_data() -> None:
    agent = agent_of([call("echo", text="x")], "done", tools=[echo])
    names: list[str] = []

    def called(event: SessionEvent[ToolCall]) -> None:
        names.append(event.data.name)

    with agent.on(ToolCall, called):
        await agent.run("Go.")

    assert names == ["echo"]


async def test_a_closed_agent_hears_no_more_facts() -> None:
    heard: list[object] = []
    agent = agent_of("one")
    agent.on(UserMessage, heard.append)
    await agent.aclose()
    agent.session.append(UserMessage.of("x"))

    assert heard == []


async def test_agents_that_share_a_bus_keep_their_logs_apart() -> None:
    bus = Bus()
    one = agent_of(error("SERVER"), "one", bus=bus)
    two = agent_of(error("SERVER"), "two", bus=bus)

    await asyncio.gather(one.run("Go."), two.run("Go."))

    for agent in (one, two):
        assert kinds(agent.session).count("llm/retry") == 1


async def test_a_tool_that_asks_for_a_step_sees_it_from_inside_the_same_session() -> None:
    agent = agent_of([text("a"), wait(asyncio.Event())])
    agent.followup("Go.")
    await streaming(agent)
    assert agent.status == "running"
    await agent.aclose()
    await settled(lambda: agent.status == "idle")


async def _nothing(event: object, next: object) -> None:
    """Forgets next."""


async def _twice(event: object, next: Next[object, object]) -> Outcome[object]:
    await next()
    return await next()


@pytest.mark.parametrize("listener", [_nothing, _twice])
@pytest.mark.parametrize("hook", [PreStep, RequestConfig, RequestError])
async def test_a_listener_that_breaks_its_contract_ends_the_turn_by_name(hook: type, listener: object) -> None:
    agent = agent_of(error("AUTH"), "never")
    failures: list[AgentFailed] = []
    agent.on(AgentFailed, failures.append)
    agent.on(hook, listener)  # type: ignore[call-overload]

    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert result.reason.error.code == "HOOK_CONTRACT"
    assert listener.__name__ in result.reason.error.message  # type: ignore[attr-defined]
    assert "test_public.py" in result.reason.error.message
    assert len(failures) == 1
    assert len(script(agent).requests) <= 1


async def test_a_listener_of_llm_stream_that_breaks_its_contract_sends_nothing_twice() -> None:
    from turnlog.model.hooks import LlmStream

    for listener, requests in ((_nothing, 0), (_twice, 1)):
        agent = agent_of("one", "two")
        agent.on(LlmStream, listener)  # type: ignore[arg-type]
        result = await agent.run("Go.")
        assert isinstance(result.reason, Errored)
        assert result.reason.error.code == "HOOK_CONTRACT"
        assert len(script(agent).requests) <= requests


async def test_a_slow_listener_is_cut_off_at_its_deadline_and_named() -> None:
    async def slow(event: PreStep, next: Next[PreStep, object]) -> Outcome[object]:
        await asyncio.sleep(600)
        return await next()

    agent = agent_of()
    agent.on(PreStep, slow, deadline=0.02)  # type: ignore[arg-type]
    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert result.reason.error.code == "HOOK_TIMEOUT"
    assert "slow" in result.reason.error.message


async def test_a_serial_listener_that_raises_is_named_by_its_error() -> None:
    async def broken(event: TurnStopping) -> None:
        raise OSError("disk")

    agent = agent_of("one")
    agent.on(TurnStopping, broken)
    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert result.reason.error.message == "disk"


async def test_an_agent_is_a_context_manager_that_ends_what_runs() -> None:
    async with agent_of([wait(asyncio.Event())]) as agent:
        agent.followup("Go.")
        await settled(lambda: bool(script(agent).requests))

    assert isinstance(agent, Agent)
    assert agent.status == "idle"
    assert kinds(agent.session)[-1] == "turn/end aborted disposal"
