"""Contexts: what the model is told besides the conversation, and when it is told anew (dsh-v0 §4.6)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.agent.harness import agent_of, call, code, echo, kinds, script
from turnlog.agent import Agent, Context, Enter, PreStep, Reject
from turnlog.bus import Next, Outcome
from turnlog.events import PluginSource, UserMessage
from turnlog.log import Session

CLEARED = "The context given earlier no longer applies."


def snapshots(session: Session) -> list[str]:
    """The last line of each message of ours."""
    ours = [event.data for event in session.select(UserMessage) if isinstance(event.data.source, PluginSource)]
    return [one.message.text.splitlines()[-1] for one in ours]


class Places:
    """A context that changes."""

    def __init__(self, *texts: str) -> None:
        self.now = ""
        self.texts = list(texts)

    async def run(self, agent: Agent) -> list[str]:
        for text in self.texts:
            self.now = text
            await agent.run("Go.")
        return snapshots(agent.session)


async def told(*texts: str, session: Session | None = None) -> tuple[Agent, list[str]]:
    places = Places(*texts)
    agent = agent_of(*["ok"] * len(texts), contexts=[Context("place", lambda: places.now)], session=session)
    return agent, await places.run(agent)


async def test_an_unchanged_context_is_told_once() -> None:
    assert (await told("here", "here", "there", "there"))[1] == ["here", "there"]


async def test_a_context_that_never_was_says_nothing() -> None:
    assert (await told("", ""))[1] == []


async def test_a_context_that_is_gone_is_cleared_once_and_may_come_back() -> None:
    assert (await told("here", "", "", "here"))[1] == ["here", CLEARED, "here"]


async def test_a_snapshot_names_its_sections_and_a_cleared_message_has_none() -> None:
    agent, _ = await told("here", "")

    first, last = [
        event.data.source for event in agent.session.select(UserMessage) if isinstance(event.data.source, PluginSource)
    ]
    assert first.form == "snapshot"
    assert first.sections is not None
    assert [(one.name, one.text) for one in first.sections] == [("place", "here")]
    assert (last.form, last.sections) == (None, None)


async def test_empty_sections_are_left_out_and_the_others_stand_in_order() -> None:
    contexts = [Context("a", "one"), Context("b", lambda: ""), Context("c", "three")]
    agent = agent_of("ok", contexts=contexts)

    await agent.run("Go.")

    assert [one.text for one in agent.session.derive_messages()][1].endswith("\n\none\n\nthree")


async def test_a_resumed_session_is_told_only_what_changed() -> None:
    agent, _ = await told("here")

    assert (await told("here", session=Session.resumed(agent.session)))[1] == ["here"]
    assert (await told("there", session=Session.resumed(agent.session)))[1] == ["here", "there"]
    assert (await told("", session=Session.resumed(agent.session)))[1] == ["here", CLEARED]


def replaced(agent: Agent) -> Session:
    """The session with its first two messages replaced by a summary."""
    session = agent.session
    first, last = session.surface[0], session.surface[1]
    session.append(UserMessage.of("Summary."), replaces=(first, last), sources=(first, last))
    return session


async def test_a_snapshot_that_was_replaced_is_told_again() -> None:
    agent, _ = await told("here")
    session = replaced(agent)

    assert (await told("here", session=Session.resumed(session)))[1][-2:] == ["here", "here"]


async def test_a_snapshot_that_was_replaced_is_cleared_when_there_is_none_any_more() -> None:
    agent, _ = await told("here")
    session = replaced(agent)

    assert (await told("", "", session=Session.resumed(session)))[1][1:] == [CLEARED]


async def test_a_context_that_changes_while_tools_run_is_told_at_the_next_step() -> None:
    count = 0

    def counted() -> str:
        nonlocal count
        count += 1
        return f"look {count}"

    agent = agent_of([call("echo", text="x")], "done", tools=[echo], contexts=[Context("count", counted)])
    await agent.run("Go.")

    assert snapshots(agent.session) == ["look 1", "look 2"]
    assert kinds(agent.session).count("turn/start") == 1


async def test_a_listener_gets_the_snapshot_last_and_may_take_it_out() -> None:
    async def without(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        assert isinstance(event.messages[-1].source, PluginSource)
        outcome = await next()
        return outcome.with_value(Enter(event.messages[:-1]))

    agent = agent_of("a", "b", contexts=[Context("place", "here")])
    registration = agent.on(PreStep, without)
    await agent.run("Go.")
    registration.close()
    assert snapshots(agent.session) == []

    await agent.run("Go.")
    assert snapshots(agent.session) == ["here"]


async def test_contexts_may_be_asynchronous_and_a_failing_one_ends_the_turn() -> None:
    async def slowly() -> str:
        await asyncio.sleep(0)
        return "slowly"

    def broken() -> Any:
        raise OSError("no such place")

    agent = agent_of("ok", contexts=[Context("place", slowly)])
    await agent.run("Go.")
    assert snapshots(agent.session) == ["slowly"]

    failing = agent_of(contexts=[Context("place", broken)])
    await failing.run("Go.")
    assert code(failing.session) == "UNKNOWN"
    assert script(failing).requests == ()
