"""Pending input: two lists that are rebuilt from the log (dsh-v0 §4.2, items 65-75)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import turnlog
from tests.agent.harness import Refused, agent_of, kinds, refusing, streaming, text
from turnlog.agent import Agent, InboxClaimed, InboxDiscarded, InboxError, InboxInserted, PreStep
from turnlog.bus import Next, Outcome
from turnlog.events import InboxSpliced, Json, PluginSource, UserMessage
from turnlog.events.lossless import LosslessError
from turnlog.log import Session
from turnlog.model import ScriptedModel, wait


def said(*texts: str) -> list[UserMessage]:
    return [UserMessage.of(one) for one in texts]


def waiting(agent: Agent) -> tuple[list[str], list[str]]:
    """What waits for a turn, and for a step."""
    return (
        [one.message.text for one in agent.inbox.waiting("next-turn")],
        [one.message.text for one in agent.inbox.waiting("next-step")],
    )


def heard(agent: Agent) -> list[str]:
    """What the inbox tells, from now on."""
    told: list[str] = []
    agent.on(InboxInserted, lambda event: told.append(f"+{event.message.message.text}"))
    agent.on(InboxDiscarded, lambda event: told.append(f"-{event.message.message.text}"))
    agent.on(InboxClaimed, lambda event: told.append(f"t{event.turn} {event.message.message.text}"))
    return told


async def test_when_send_returns_the_turn_is_open_and_its_first_event_is_the_splice() -> None:
    agent = agent_of("one")

    agent.followup("Hi.")

    assert kinds(agent.session) == [
        "agent/inbox/spliced next-turn +1",
        "turn/start",
        "agent/inbox/spliced next-turn -1",
    ]
    assert agent.status == "running"
    await agent.when_idle()


async def test_a_burst_of_prompts_gives_one_turn_each_in_order() -> None:
    agent = agent_of("a", "b", "c", "d")

    for prompt in "1234":
        agent.followup(prompt)
    await agent.when_idle()

    log = kinds(agent.session)
    assert [one for one in log if one.startswith(("turn/start", "user/"))] == [
        one for prompt in "1234" for one in ("turn/start", f"user/message {prompt}")
    ]


async def test_idle_inject_is_durable_opens_nothing_and_survives_a_restart() -> None:
    agent = agent_of()
    agent.inject("For later.")
    assert kinds(agent.session) == ["agent/inbox/spliced next-step +1"]

    session = Session.resumed(agent.session)
    session.settle()
    again = agent_of("ok", session=session)

    assert waiting(again) == ([], ["For later."])
    await again.run("Now.")
    assert [one.text for one in session.derive_messages()] == ["For later.", "Now.", "ok"]


async def test_a_fork_does_not_inherit_what_its_parent_had_pending() -> None:
    agent = agent_of()
    agent.inject("For later.")

    assert waiting(agent_of(session=agent.session.fork())) == ([], [])


async def test_what_came_after_a_fork_is_pending_in_the_fork_also_after_a_restart() -> None:
    parent = agent_of()
    parent.inject("The parent's.")
    child = agent_of(session=parent.session.fork())
    child.inject("The child's.")

    assert waiting(agent_of(session=Session.resumed(child.session))) == ([], ["The child's."])


async def test_an_empty_plugin_source_is_kept() -> None:
    agent = agent_of()
    agent.inject(UserMessage.of("x", source=PluginSource(plugin="")))

    (message,) = agent_of(session=Session.resumed(agent.session)).inbox.waiting("next-step")
    assert message.source == PluginSource(plugin="")


async def test_input_that_is_no_json_is_refused_before_it_is_queued() -> None:
    agent = agent_of()

    with pytest.raises(LosslessError):
        agent.followup("half a character \ud800")

    assert len(agent.inbox) == len(agent.session) == 0
    assert agent.status == "idle"


async def test_a_refused_splice_leaves_the_inbox_as_it_was() -> None:
    agent = agent_of()
    agent.inject("first")
    refusing(agent.session, InboxSpliced, times=3)

    with pytest.raises(Refused):
        agent.inject("second")
    with pytest.raises(Refused):
        agent.inbox.clear()
    with pytest.raises(Refused):
        agent.followup("third")

    assert waiting(agent) == ([], ["first"])
    assert agent.status == "idle"


def test_without_an_event_loop_nothing_is_queued() -> None:
    agent = agent_of()

    with pytest.raises(RuntimeError, match="no running event loop"):
        agent.followup("Hi.")

    assert len(agent.session) == 0


async def test_replace_keeps_the_place_and_reports_both_and_a_missing_id_is_false() -> None:
    agent = agent_of()
    one, two, three, new = said("one", "two", "three", "new")
    agent.inbox.append("next-turn", one, two, three)
    told = heard(agent)

    assert agent.inbox.replace(two.id, new)
    assert not agent.inbox.replace(two.id, UserMessage.of("never"))

    assert waiting(agent) == (["one", "new", "three"], [])
    assert told == ["-two", "+new"]
    assert kinds(agent.session)[-1] == "agent/inbox/spliced next-turn +1-1 canceled"


async def test_replace_finds_a_message_in_either_list() -> None:
    agent = agent_of()
    turn, step, new = said("turn", "step", "new")
    agent.inbox.append("next-turn", turn)
    agent.inbox.append("next-step", step)

    assert agent.inbox.replace(step.id, new)

    assert waiting(agent) == (["turn"], ["new"])


async def test_remove_withdraws_one_and_says_whether_it_waited() -> None:
    agent = agent_of()
    one, two = said("one", "two")
    agent.inbox.append("next-step", one, two)

    assert agent.inbox.remove(one.id)
    assert not agent.inbox.remove(one.id)

    assert waiting(agent) == ([], ["two"])
    assert kinds(agent.session)[-1] == "agent/inbox/spliced next-step -1 canceled"


async def test_clear_withdraws_what_waits_for_a_step_first_and_writes_nothing_for_an_empty_list() -> None:
    agent = agent_of()
    agent.inbox.clear()
    assert len(agent.session) == 0
    agent.inbox.append("next-turn", *said("turn"))
    agent.inbox.append("next-step", *said("a", "b"))

    agent.inbox.clear()

    assert kinds(agent.session)[-2:] == [
        "agent/inbox/spliced next-step -2 canceled",
        "agent/inbox/spliced next-turn -1 canceled",
    ]


async def test_prepend_puts_messages_first() -> None:
    agent = agent_of()
    agent.inbox.append("next-turn", *said("last"))
    agent.inbox.prepend("next-turn", *said("first", "second"))

    assert waiting(agent) == (["first", "second", "last"], [])


async def test_a_message_is_pending_once_across_both_lists() -> None:
    agent = agent_of()
    (one,) = said("one")
    agent.inbox.append("next-turn", one)
    length = len(agent.session)

    for target in ("next-turn", "next-step"):
        with pytest.raises(InboxError, match="waits already"):
            agent.inbox.append(target, one)
    with pytest.raises(InboxError):
        agent.inbox.append("next-step", *(said("two") * 2))

    assert len(agent.session) == length


async def test_observers_of_a_splice_see_the_list_before_it_and_listeners_the_list_after() -> None:
    agent = agent_of()
    seen: list[int] = []
    agent.on(InboxSpliced, lambda event: seen.append(len(agent.inbox)))
    agent.on(InboxInserted, lambda event: seen.append(len(agent.inbox)))

    agent.inject("one")

    assert seen == [0, 1]


async def test_a_claim_takes_all_that_waits_for_a_step_then_one_prompt_and_tells_after_both() -> None:
    agent = agent_of("a", "b")
    agent.inject("note one")
    agent.inject("note two")
    told = heard(agent)

    agent.followup("prompt one")
    agent.followup("prompt two")
    await agent.when_idle()

    assert told == [
        "+prompt one",
        "t1 note one",
        "t1 note two",
        "t1 prompt one",
        "+prompt two",
        "t2 prompt two",
    ]


async def test_input_during_pre_step_is_for_the_next_step_not_for_the_batch_that_was_claimed() -> None:
    agent = agent_of("one", "two")

    async def stage(event: PreStep, next: Next[PreStep, Any]) -> Outcome[Any]:
        if event.step == 1:
            agent.inject("injected")
            agent.steer("steered")
        return await next()

    agent.on(PreStep, stage)
    await agent.run("Go.")

    assert [one.text for one in agent.session.derive_messages()] == ["Go.", "one", "injected", "steered", "two"]


@pytest.mark.parametrize(
    "record",
    [
        {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []},
        {"target": "next-week", "start": 0, "inserted": []},
        {"target": "next-turn", "start": -1, "inserted": []},
        {"target": "next-turn", "start": 0, "inserted": [{"role": "user"}]},
        {"target": "next-turn", "start": 0, "inserted": 7},
        {"start": 0},
        7,
    ],
)
def test_a_logged_splice_that_does_not_fit_fails_reconstruction_naming_it(record: Json) -> None:
    session = Session()
    session.append(InboxSpliced(value={"target": "next-turn", "start": 0, "inserted": []}))
    session.append(InboxSpliced(value=record))

    with pytest.raises(InboxError, match=r"@1: this agent/inbox/spliced"):
        agent_of(session=session)


async def test_pending_input_goes_through_a_store(tmp_path: Any) -> None:
    async with turnlog.open_store(tmp_path) as store:
        session = await store.create()
        agent = Agent(session, ScriptedModel([[text("one"), wait(asyncio.Event())]]))
        agent.followup("One.")
        agent.followup("Two.")
        agent.inject("Note.")
        await streaming(agent)
        agent.cancel(keep_inbox=True)
        await agent.when_idle()
    async with turnlog.open_store(tmp_path) as store:
        resumed = await store.resume(session.id)
        again = Agent(resumed, ScriptedModel(["two", "three"]))
        assert waiting(again) == (["Two."], ["Note."])
        await again.run("Three.")
        assert [one.text for one in resumed.derive_messages()][-5:] == ["Note.", "Two.", "two", "Three.", "three"]
