"""Structured output: a tool the model answers with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from tests.agent.harness import agent_of, call, kinds, reason, script, text
from turnlog.agent import NoOutput
from turnlog.agent.output import NAME, REMINDERS
from turnlog.events import Completed, ToolResult
from turnlog.tools import ToolDefinitionError


class City(BaseModel):
    name: str
    people: int


@dataclass
class Pair:
    left: int
    right: int


async def test_the_answer_is_validated_typed_and_ends_the_turn() -> None:
    agent = agent_of([text("Paris it is."), call(NAME, answer={"name": "Paris", "people": 2_100_000})])

    result = await agent.run("Which city?", output=City)

    assert result.output == City(name="Paris", people=2_100_000)
    assert (result.reason, result.text) == (Completed(), "Paris it is.")
    assert len(script(agent).requests) == 1


ANSWERS = [(int, 7, 7), (list[str], ["a"], ["a"]), (Pair, {"left": 1, "right": 2}, Pair(1, 2))]


@pytest.mark.parametrize(("kind", "raw", "value"), ANSWERS)
async def test_any_type_may_be_asked_for(kind: type, raw: object, value: object) -> None:
    agent = agent_of([call(NAME, answer=raw)])  # type: ignore[arg-type]

    assert (await agent.run("Go.", output=kind)).output == value


async def test_a_wrong_answer_goes_back_with_the_field_it_got_wrong() -> None:
    agent = agent_of(
        [call(NAME, answer={"name": "Paris", "people": "many"})], [call(NAME, answer={"name": "Paris", "people": 1})]
    )

    result = await agent.run("Which city?", output=City)

    first = next(agent.session.select(ToolResult)).data
    assert "people" in first.message.text
    assert result.output.people == 1


async def test_a_model_that_forgets_is_reminded_and_then_the_run_says_how_it_ended() -> None:
    agent = agent_of(*["Paris."] * (REMINDERS + 1))

    result = await agent.run("Which city?", output=City)

    assert result.completed
    with pytest.raises(NoOutput, match=r"Paris\."):
        _ = result.output
    assert kinds(agent.session).count("step/start") == REMINDERS + 1


async def test_the_tool_is_there_only_while_the_run_lasts() -> None:
    agent = agent_of([call(NAME, answer=1)], "plain")

    await agent.run("A number.", output=int)
    assert NAME not in agent.toolbox
    await agent.run("No number.")

    first, second = script(agent).requests
    assert [one.name for one in first.header.tools or ()] == [NAME]
    assert second.header.tools is None


async def test_only_the_turn_that_was_asked_for_output_is_reminded() -> None:
    agent = agent_of("one", [call(NAME, answer=2)])

    one, two = await asyncio.gather(agent.run("One."), agent.run("Two.", output=int))

    assert (one.text, two.output) == ("one", 2)
    assert kinds(agent.session).count("step/start") == 2


async def test_two_runs_that_want_output_at_once_are_refused_by_name_and_the_first_goes_on() -> None:
    agent = agent_of([call(NAME, answer=1)])

    first, second = await asyncio.gather(
        agent.run("One.", output=int), agent.run("Two.", output=int), return_exceptions=True
    )

    assert not isinstance(first, BaseException)
    assert first.output == 1
    assert isinstance(second, ToolDefinitionError)


async def test_a_cancelled_run_gives_no_output_and_takes_its_tool_away() -> None:
    agent = agent_of("never")
    task = asyncio.ensure_future(agent.run("Go.", output=int))
    await asyncio.sleep(0)
    agent.cancel()

    with pytest.raises(NoOutput, match="Aborted"):
        _ = (await task).output
    assert len(agent.toolbox) == 0
    assert reason(agent.session) is not None


def test_run_sync_gives_output_too() -> None:
    assert agent_of([call(NAME, answer=3)]).run_sync("Go.", output=int).output == 3
