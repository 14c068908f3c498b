"""Five extensions as a user would write them: each is a few lines, and each leaves its mark in the log."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tests.agent.harness import agent_of, call, echo, kinds, script, text
from turnlog.agent import Agent, Enter, PreStep, Reject
from turnlog.bus import Next, Outcome, stop
from turnlog.events import (
    AssistantChunk,
    Block,
    Blocked,
    CancelledByHook,
    HookResult,
    ModelInput,
    PluginEventWarning,
    StreamChunk,
    TextBlock,
    TokenUsage,
    UsageChunk,
    UserMessage,
    Vocabulary,
)
from turnlog.log import Session, SessionEvent
from turnlog.model import usage
from turnlog.model.hooks import LlmStream

Stream = AsyncGenerator[StreamChunk, None]


# -- 1: a redactor rewrites what enters a step -----------------------------------------------------------------------

KEY = re.compile(r"sk-[A-Za-z0-9]+")


async def redact(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
    messages = tuple(
        UserMessage.of(KEY.sub("[key]", one.message.text), source=one.source) if KEY.search(one.message.text) else one
        for one in event.messages
    )
    return await next(replace(event, messages=messages))


async def test_a_redactor_keeps_a_key_from_the_model() -> None:
    agent = agent_of("ok", "ok")
    agent.on(PreStep, redact)

    await agent.run("Use sk-abc123 to log in.")
    await agent.run("Thanks.")

    assert [one.text for one in agent.session.derive_messages()][:3] == ["Use [key] to log in.", "ok", "Thanks."]
    assert all("sk-abc123" not in repr(list(one.messages)) for one in script(agent).requests)


# -- 2: a guard refuses input ----------------------------------------------------------------------------------------


async def guard(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
    if any("production" in one.message.text for one in event.messages):
        return stop(Reject("production is off limits"), reason="policy 7")
    return await next()


async def test_a_guard_blocks_and_the_log_says_who_and_why() -> None:
    agent = agent_of("fine")
    agent.on(PreStep, guard)

    blocked = await agent.run("Drop the production database.")
    fine = await agent.run("List the tables.")

    assert (blocked.reason, fine.text) == (Blocked(), "fine")
    (said,) = agent.session.select(HookResult)
    assert "guard" in str(said.data.value["handlerId"])  # type: ignore[index,call-overload]
    assert said.data.value["stderrSummary"] == "policy 7; production is off limits"  # type: ignore[index,call-overload]
    assert all("production" not in one.text for one in agent.session.derive_messages())


# -- 3: a context injector: a fact of its own, shown to the model ----------------------------------------------------


class Weather(ModelInput, type="acme/weather"):
    """What the station measured."""

    celsius: float

    def render(self) -> tuple[Block, ...]:
        return (TextBlock(f"It is {self.celsius:g} °C outside."),)


class Station:
    """Tells the model the weather with the first step of each turn."""

    def __init__(self, agent: Agent) -> None:
        self._session = agent.session
        agent.on(LlmStream, self.inject)

    async def inject(self, event: LlmStream, next: Next[LlmStream, Stream]) -> Outcome[Stream]:
        if event.request.step == 1:
            self._session.append_input(Weather(celsius=21.5))
        return await next()


async def test_an_injector_logs_its_fact_and_the_message_it_becomes_and_the_model_sees_it() -> None:
    with pytest.warns(PluginEventWarning):
        vocabulary = Vocabulary.core.extend(Weather)
    agent = agent_of("Wear a shirt.", session=Session(vocabulary=vocabulary))
    Station(agent)

    await agent.run("What shall I wear?")

    (fact,) = agent.session.select(Weather)
    (shown,) = [event for event in agent.session.select(UserMessage) if event.sources]
    assert shown.sources == (fact.seq,)
    (request,) = script(agent).requests
    assert [one.text for one in request.messages] == ["What shall I wear?", "It is 21.5 °C outside."]


# -- 4: an audit of everything that goes over the wire ---------------------------------------------------------------


class Audit:
    """Notes each request and each piece of its answer, and changes neither."""

    def __init__(self, agent: Agent) -> None:
        self.lines: list[str] = []
        agent.on(LlmStream, self.watch)

    async def watch(self, event: LlmStream, next: Next[LlmStream, Stream]) -> Outcome[Stream]:
        request = event.request
        self.lines.append(f"t{request.turn}.s{request.step}.a{request.attempt}: {len(request.messages)} messages")
        outcome = await next()
        return outcome.with_value(self._noted(outcome.value))

    async def _noted(self, stream: Stream) -> Stream:
        async for chunk in stream:
            self.lines.append(type(chunk).__name__)
            yield chunk


async def test_an_audit_sees_every_request_and_every_chunk_and_changes_nothing() -> None:
    agent, plain = (agent_of([text("so"), call("echo", text="x")], "done", tools=[echo]) for _ in range(2))
    audit = Audit(agent)

    await agent.run("Go.")
    await plain.run("Go.")

    assert [one for one in audit.lines if ":" in one] == ["t1.s1.a1: 1 messages", "t1.s2.a1: 3 messages"]
    assert len([one for one in audit.lines if ":" not in one]) == len(list(agent.session.select(AssistantChunk)))
    assert kinds(agent.session) == kinds(plain.session)


# -- 5: a budget stops the agent -------------------------------------------------------------------------------------


class Budget:
    """Cancels the turn as soon as the session has used up its tokens, and refuses the turns after it."""

    def __init__(self, agent: Agent, tokens: int) -> None:
        self._agent = agent
        self._left = tokens
        agent.on(AssistantChunk, self.count)
        agent.on(PreStep, self.check)

    def count(self, event: SessionEvent[AssistantChunk]) -> None:
        if isinstance(event.data.chunk, UsageChunk):
            used: TokenUsage = event.data.chunk.usage
            self._left -= used.input_tokens + used.output_tokens
            if self._left < 0:
                self._agent.cancel(CancelledByHook("the budget is used up"))

    async def check(self, event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        if self._left < 0:
            return stop(Reject("the budget is used up"), reason=f"{-self._left} tokens over")
        return await next()


async def test_a_budget_stops_a_running_turn_and_those_after_it() -> None:
    answers = [[call("echo", text="x"), usage(40, 10)] for _ in range(5)]
    agent = agent_of(*answers, tools=[echo])
    Budget(agent, 120)

    first = await agent.run("Go.")
    second = await agent.run("Go on.")

    assert repr(first.reason) == "Aborted(reason=CancelledByHook(reason='the budget is used up'))"
    assert second.reason == Blocked()
    assert len(script(agent).requests) == 3
    assert kinds(agent.session).count("tool/call echo") == 2


@pytest.mark.parametrize("extension", [redact, guard])
async def test_an_extension_can_be_taken_away_again(extension: object) -> None:
    agent = agent_of("one")
    agent.on(PreStep, extension).close()  # type: ignore[arg-type]

    assert (await agent.run("production sk-abc")).text == "one"
