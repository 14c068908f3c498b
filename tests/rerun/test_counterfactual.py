"""From a step on something else happens: what comes before is the log's, what comes after is real."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.rerun.scenarios import AT_ONCE, agent, echo
from turnlog import Agent, Session, tool
from turnlog.agent import Context, PreStep
from turnlog.events import AssistantMessage, RequestHeader, ToolResult, UserMessage
from turnlog.model import ModelInfo, ScriptedModel, call, text
from turnlog.rerun import NotFaithful, Rerun, RerunError, rerun
from turnlog.views.address import AddressInvalid, AddressUnknown


@tool(name="write")
async def pretend(path: str, content: str) -> str:
    """Write a file, or so it says."""
    return f"wrote {path}"


def session_of(*answers: Any, prompts: tuple[str, ...] = ("Go.", "Again.")) -> Session:
    async def work() -> Session:
        session = Session(cwd="/tmp")
        model = ScriptedModel(answers, info=ModelInfo("scripted", "script"))
        async with Agent(session, model, [echo, pretend], retry=AT_ONCE, system="Work.") as one:
            for prompt in prompts:
                await one.run(prompt)
        return session

    return asyncio.run(work())


def usual() -> Session:
    return session_of(
        [call("echo", said="a")], [text("Now write."), call("write", path="x", content="y")], "Done.", "And done."
    )


def run(session: Session, **options: Any) -> Rerun:
    return asyncio.run(rerun(session, patience=2, **options))


def said(session: Session) -> list[str]:
    return [event.data.message.text for event in session.select(AssistantMessage)]


def test_another_model_answers_from_the_step_on() -> None:
    recorded = usual()
    model = ScriptedModel(["Never mind.", "Bye."], info=ModelInfo("other", "one", max_tokens=99))
    made = run(recorded, from_="t1.s2", model=model)
    assert said(made.session) == ["", "Never mind.", "Bye."]
    assert [(step.address, step.live) for step in made.steps] == [("t1.s1", False), ("t1.s2", True), ("t2.s1", True)]
    assert [event.data.header.config.model for event in made.session.select(RequestHeader)] == ["script", "one"]
    assert [message.text for message in model.requests[0].messages[:2]] == ["Go.", ""]
    assert not made.same
    assert made.divergence is not None
    assert made.divergence.left is not None
    assert made.divergence.left.type == "assistant/chunk"
    assert made.summary() == [f"{recorded.id} run again: t1.s1 to t1.s1 recorded, t1.s2 to t2.s1 live"]


def test_what_comes_before_is_the_logs_event_by_event() -> None:
    recorded = usual()
    made = run(recorded, from_="t2", model=ScriptedModel(["Else."], info=ModelInfo("scripted", "script")))
    first = next(step.seq for step in made.steps if step.live)
    assert [event.type for event in made.session.events][:first] == [event.type for event in recorded.events][:first]
    assert said(made.session) == ["", "Now write.", "Done.", "Else."]


def test_recorded_results_are_given_to_equal_calls_only() -> None:
    answers = [[call("write", path="x", content="y"), call("echo", said="never asked")], "So."]
    made = run(usual(), from_="t1.s2", model=ScriptedModel([*answers, "Bye."], info=ModelInfo("other", "one")))
    results = [event.data.message.text for event in made.session.select(ToolResult)]
    assert results[:2] == ["a", "wrote x"]
    assert "was not called with these arguments in the recording" in results[2]


def test_live_tools_really_run() -> None:
    ran: list[str] = []

    @tool(name="echo")
    async def louder(said: str) -> str:
        """Say it louder."""
        ran.append(said)
        return said.upper()

    model = ScriptedModel([[call("echo", said="b")], "Loud.", "Bye."], info=ModelInfo("scripted", "script"))
    made = run(usual(), from_="t1.s2", model=model, tools=[louder])
    assert ran == ["b"]
    assert [event.data.message.text for event in made.session.select(ToolResult)] == ["a", "B"]
    assert [one.name for one in list(made.session.select(RequestHeader))[-1].data.header.tools or ()] == ["echo"]


def test_listeners_hear_the_live_steps_only() -> None:
    heard: list[str] = []

    def listen(one: Agent) -> None:
        async def note(event: PreStep, next: Any) -> Any:
            heard.append(f"t{event.turn}.s{event.step}")
            return await next()

        one.on(PreStep, note)

    run(usual(), from_="t2", model=ScriptedModel(["Else."], info=ModelInfo("scripted", "script")), listeners=[listen])
    assert heard == ["t2.s1"]


def test_effects_on_the_workspace_are_told_and_can_be_refused() -> None:
    recorded = usual()
    model = ScriptedModel(["Else."], info=ModelInfo("scripted", "script"))
    made = run(recorded, from_="t2", model=model)
    assert [str(one) for one in made.effects] == ['t1.s2.call:call_2 write {"path":"x","content":"y"}']
    with pytest.raises(NotFaithful, match=r"before t2\.s1 changed the workspace.*call_2 write"):
        run(recorded, from_="t2", model=model, require_faithful=True)
    faithful = run(recorded, from_="t1.s2", require_faithful=True, model=ScriptedModel(["E.", "F."]))
    assert faithful.effects == ()


def test_places_that_are_none_are_refused() -> None:
    recorded = usual()
    with pytest.raises(AddressUnknown, match="t9"):
        run(recorded, from_="t9.s1", model=ScriptedModel([]))
    with pytest.raises(AddressInvalid, match="step"):
        run(recorded, from_="@3", model=ScriptedModel([]))
    with pytest.raises(RerunError, match="from_"):
        run(recorded, model=ScriptedModel([]))


def test_contexts_stay_as_they_were() -> None:
    async def work() -> Session:
        session = Session()
        async with agent(session, ["One.", "Two."], contexts=[Context("place", "Here.")]) as one:
            await one.run("Go.")
            await one.run("Again.")
        return session

    made = run(asyncio.run(work()), from_="t2", model=ScriptedModel(["Else."]))
    assert [event.data.message.text.count("Here.") for event in made.session.select(UserMessage)] == [0, 1, 0]
