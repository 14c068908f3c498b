"""Attempts and answers: what of a stream becomes part of the conversation (dsh-v0 §4.7, items 84-97, 144-145)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.agent.harness import Refused, agent_of, call, code, echo, kinds, reason, script, settled, streaming, text
from turnlog.agent import Agent, GiveUp, RequestError, Retry
from turnlog.bus import Next, Outcome, stop
from turnlog.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    CancelledByUser,
    Completed,
    Errored,
    Finish,
    FinishError,
    MaxTokens,
    Message,
    StreamChunk,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
)
from turnlog.log import Session
from turnlog.model import ModelInfo, ScriptedModel, crash, cut, error, max_tokens, raw, reasoning, usage, wait
from turnlog.model import stop as says_done
from turnlog.model.hooks import LlmStream
from turnlog.tools import ToolContext, tool

Stream = AsyncGenerator[StreamChunk, None]


def answers(session: Session) -> list[AssistantMessage]:
    return [event.data for event in session.select(AssistantMessage)]


async def cancelled_after(*parts: Any, chunks: int) -> Session:
    agent = agent_of([*parts, wait(asyncio.Event())])
    agent.followup("Go.")
    await streaming(agent, chunks)
    agent.cancel()
    await agent.when_idle()
    assert reason(agent.session) == Aborted(CancelledByUser())
    return agent.session


# -- what a cancel keeps --------------------------------------------------------------------------------------------


async def test_a_cancel_while_only_reasoning_was_shown_keeps_it() -> None:
    session = await cancelled_after(reasoning("Let me", " think"), chunks=3)

    (answer,) = answers(session)
    assert answer.interrupted
    assert [type(block).__name__ for block in answer.message.content] == ["ReasoningBlock"]


async def test_a_cancel_drops_half_a_call_and_keeps_the_text() -> None:
    session = await cancelled_after(text("I will."), call("echo", '{"te'), chunks=4)

    (answer,) = answers(session)
    assert [type(block).__name__ for block in answer.message.content] == ["TextBlock"]
    assert "tool/call" not in kinds(session)


async def test_an_interrupted_answer_cites_its_chunks_and_what_it_cost_so_far() -> None:
    (answer,) = (await cancelled_after(raw(TextDelta(0, "Hello")), chunks=1)).select(AssistantMessage)
    assert answer.sources is not None
    assert len(answer.sources) == 1


async def test_a_cancel_while_a_failure_is_recovered_from_writes_no_message_for_the_failed_stream() -> None:
    reached = asyncio.Event()

    async def ponder(event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        reached.set()
        await asyncio.Event().wait()
        return await next()

    agent = agent_of([text("Half an answer"), error("AUTH")])
    agent.on(RequestError, ponder)
    agent.followup("Go.")
    await reached.wait()

    agent.cancel()
    await agent.when_idle()

    assert answers(agent.session) == []
    assert reason(agent.session) == Aborted(CancelledByUser())


async def test_a_retry_that_is_granted_after_a_cancel_is_ignored() -> None:
    async def late(event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        event.agent.cancel()
        return stop(Retry(), reason="why not")

    agent = agent_of(error("AUTH"), "never")
    agent.on(RequestError, late)

    assert (await agent.run("Go.")).reason == Aborted(CancelledByUser())
    assert len(script(agent).requests) == 1


async def test_a_cancel_closes_the_stream_of_the_model_also_under_a_wrapper_that_does_not() -> None:
    closed: list[bool] = []

    class Model(ScriptedModel):
        async def stream(self, request: Any) -> Stream:
            try:
                while True:
                    yield TextDelta(0, "x")
                    await asyncio.sleep(0)
            finally:
                closed.append(True)

    async def wrap(event: LlmStream, next: Next[LlmStream, Stream]) -> Outcome[Stream]:
        outcome = await next()

        async def wrapped(inner: Stream) -> Stream:
            async for chunk in inner:
                yield chunk
                await asyncio.sleep(0)

        return outcome.with_value(wrapped(outcome.value))

    agent = Agent(Session(), Model([]))
    agent.on(LlmStream, wrap)
    agent.on(AssistantChunk, lambda event: agent.cancel() if event.seq > 20 else None)

    assert (await agent.run("Go.")).reason == Aborted(CancelledByUser())
    assert closed == [True]


# -- what an answer is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [[call("echo", text="x"), usage(3, 4), max_tokens()], [usage(3, 4), says_done()]])
async def test_an_answer_without_content_is_an_anchor_with_sources_and_usage_and_no_message(answer: Any) -> None:
    agent = agent_of(answer, tools=[echo])

    result = await agent.run("Go.")

    (anchor,) = agent.session.select(AssistantMessage)
    assert anchor.data.message.content == ()
    assert anchor.sources == tuple(event.seq for event in agent.session.select(AssistantChunk))
    assert anchor.data.usage is not None
    assert result.usage.output_tokens == 4
    assert len(agent.session.derive_messages()) == 1
    assert "tool/call" not in kinds(agent.session)


async def test_calls_are_run_whatever_the_finish_says() -> None:
    agent = agent_of([call("echo", text="x"), says_done()], "done", tools=[echo])

    assert (await agent.run("Go.")).text == "done"


async def test_max_tokens_keeps_the_text_and_ends_the_turn() -> None:
    agent = agent_of([text("cut"), call("echo", text="x"), max_tokens()], tools=[echo])

    result = await agent.run("Go.")

    assert (result.reason, result.text) == (MaxTokens(), "cut")
    assert "tool/call" not in kinds(agent.session)


async def test_what_comes_after_the_end_of_a_block_is_ignored_and_blocks_may_interleave() -> None:
    chunks = [TextDelta(1, "b"), TextDelta(0, "a"), TextDelta(1, "B")]
    agent = agent_of([raw(*chunks), says_done()])

    assert (await agent.run("Go.")).text in ("bB\na", "bBa", "bB\n\na")


async def test_a_stream_that_ends_without_saying_how_is_a_failure_that_is_tried_again() -> None:
    agent = agent_of([text("Hal"), cut()], "Hello.")

    assert (await agent.run("Go.")).text == "Hello."
    (finish,) = [
        event.data.chunk.reason
        for event in agent.session.select(AssistantChunk)
        if isinstance(event.data.chunk, Finish) and isinstance(event.data.chunk.reason, FinishError)
    ]
    assert finish.failure.code == "STREAM_CLOSED"


async def test_an_adapter_that_raises_has_failed_and_somebody_may_recover() -> None:
    agent = agent_of([text("Hal"), crash(ZeroDivisionError("a bug"))], "Hello.")
    seen: list[str] = []

    async def again(event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        seen.append(event.failure.message)
        return stop(Retry(), reason="it may pass")

    agent.on(RequestError, again)

    assert (await agent.run("Go.")).text == "Hello."
    assert seen == ["a bug"]


async def test_an_adapter_that_raises_ends_the_turn_with_what_it_raised() -> None:
    agent = agent_of([text("Hal"), crash(ZeroDivisionError("a bug"))])

    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert result.reason.error.message == "a bug"
    assert result.text == ""


@pytest.mark.parametrize("late", [True, False])
async def test_failures_of_listeners_around_the_model_are_not_offered_to_recovery(late: bool) -> None:
    asked: list[object] = []

    async def broken(event: LlmStream, next: Next[LlmStream, Stream]) -> Outcome[Stream]:
        if not late:
            raise KeyError("listener")
        outcome = await next()

        async def failing(inner: Stream) -> Stream:
            async for chunk in inner:
                yield chunk
                raise KeyError("listener")

        return outcome.with_value(failing(outcome.value))

    async def recover(event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        asked.append(event)
        return stop(Retry(), reason="again")

    agent = agent_of("Hello.")
    agent.on(LlmStream, broken)
    agent.on(RequestError, recover)

    await agent.run("Go.")

    assert code(agent.session) == "UNKNOWN"
    assert asked == []


async def test_a_listener_may_answer_in_the_place_of_the_model() -> None:
    async def cached(event: LlmStream, next: Next[LlmStream, Stream]) -> Outcome[Stream]:
        return stop(ScriptedModel(["from the cache"]).stream(event.request), reason="cached")

    agent = agent_of()
    agent.on(LlmStream, cached)

    assert (await agent.run("Go.")).text == "from the cache"


async def test_a_listener_that_gives_no_stream_breaks_its_contract() -> None:
    async def wrong(event: LlmStream, next: Next[LlmStream, Any]) -> Outcome[Any]:
        return stop(["not", "a", "stream"], reason="wrong")

    agent = agent_of()
    agent.on(LlmStream, wrong)
    await agent.run("Go.")

    assert code(agent.session) == "HOOK_CONTRACT"


async def test_a_log_that_refuses_a_chunk_ends_the_turn_and_closes_it() -> None:
    agent = agent_of("Hello.")
    from tests.agent.harness import refusing

    refusing(agent.session, AssistantChunk)
    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert kinds(agent.session)[-2:] == ["step/end", "turn/end error UNKNOWN"]


async def test_an_answer_with_one_id_twice_from_a_careless_adapter_is_refused_and_nothing_runs() -> None:
    chunks = [ToolCallDelta(i, "call_0", "echo", f'{{"text":"{i}"}}') for i in range(2)]
    agent = agent_of([raw(*chunks), says_done()], tools=[echo])

    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert "'call_0' is used by 2 blocks" in result.reason.error.message
    assert kinds(agent.session)[-3:] == ["assistant/chunk", "step/end", "turn/end error UNKNOWN"]


# -- streaming or not, the same history (BC-077) --------------------------------------------------------------------

SCRIPT: Any = [
    text("Hello."),
    [call("now", "")],
    [call("echo", text="a"), call("echo", text="b")],
    [call("echo", '{"text": "cu')],
    [text("Sorry."), error("AUTH")],
    [says_done()],
]


@tool(parallel=True)
async def now() -> str:
    """Tell the time."""
    return "noon"


def history(session: Session) -> list[object]:
    """All but chunks and ids."""
    ids = {message.id: f"m{n}" for n, message in enumerate(session.derive_messages())}
    told: list[object] = []
    for event in session.events:
        match event.data:
            case ToolCall(call_id=call_id, name=name, arguments=arguments):
                told.append((call_id, name, arguments))
            case ToolResult(message=message, error=failure):
                told.append((message.text, failure))
            case AssistantMessage(message=message, usage=used):
                told.append((message.content, used))
    derived: list[Message] = list(session.derive_messages())
    return [told, [ids[one.id] for one in derived], [one.content for one in derived]]


async def _through(how: str) -> tuple[list[object], list[str]]:
    info = ModelInfo("scripted", "script", streams=how != "not streaming")
    parts = [*SCRIPT[:1], SCRIPT[1], "t2", SCRIPT[2], "t3", SCRIPT[3], "t4", SCRIPT[4], SCRIPT[5]]
    agent = Agent(Session(), ScriptedModel(parts, info=info), [echo, now])
    reasons: list[str] = []
    for prompt in "123456":
        if how == "stream()":
            async for _ in agent.stream(prompt):
                pass
        elif how == "followup()":
            agent.followup(prompt)
            await agent.when_idle()
        else:
            await agent.run(prompt)
        reasons.append(type(reason(agent.session)).__name__)
    return history(agent.session), reasons


@pytest.mark.parametrize("how", ["not streaming", "stream()", "followup()"])
async def test_every_way_to_run_gives_the_same_history(how: str) -> None:
    expected = await _through("run()")

    assert await _through(how) == expected
    assert expected[1] == ["Completed"] * 4 + ["Errored", "Completed"]


async def test_a_cut_call_is_answered_with_its_fault_and_never_run(tmp_path: Any) -> None:
    ran: list[str] = []

    @tool
    async def act(what: str) -> str:
        """Act."""
        ran.append(what)
        return what

    agent = agent_of([call("act", '{"what": "rm -')], "I see.", tools=[act])

    assert (await agent.run("Go.")).text == "I see."
    assert ran == []
    (asked,) = agent.session.select(ToolCall)
    assert asked.data.arguments == '{"what": "rm -'
    (result,) = agent.session.select(ToolResult)
    assert result.data.error is not None
    assert "JSON" in result.data.message.text


async def test_an_answer_is_logged_before_a_tool_of_it_begins_and_a_failed_tool_does_not_end_the_turn() -> None:
    seen: list[list[str]] = []

    @tool
    async def peek(ctx: ToolContext) -> str:
        """Look at the log."""
        seen.append(kinds(agent.session)[-2:])
        raise Refused("no")

    agent = agent_of([call("peek")], "done", tools=[peek])
    await settled(lambda: True)

    assert (await agent.run("Go.")).reason == Completed()
    assert seen == [["assistant/message ", "tool/call peek"]]
