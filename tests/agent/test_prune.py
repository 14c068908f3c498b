"""Tool results too large for the context are cut, by a replace that the log shows (dsh-v0 §9.1, items 104, 147-152)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.harness import agent_of, call, code, kinds, script, text
from turnlog.agent import Agent
from turnlog.agent.prune import HEAD, LONGEST, TAIL, prune
from turnlog.events import CompactionPrune, ToolResult, ToolSource
from turnlog.log import Session
from turnlog.model import ModelInfo, ScriptedModel, error, usage
from turnlog.tools import tool


@tool
async def show(length: int, of: str = "x") -> str:
    """Show something long."""
    return of * length


def shown(session: Session) -> list[str]:
    return [one.text for one in session.derive_messages() if isinstance(one.source, ToolSource)]


FULL = error("CONTEXT_WINDOW_EXCEEDED", "too long")


async def test_a_full_context_is_pruned_once_and_the_request_sent_again_in_the_same_step() -> None:
    agent = agent_of([call("show", length=LONGEST + 1)], FULL, "ok", tools=[show])

    assert (await agent.run("Go.")).text == "ok"

    log = kinds(agent.session)
    failed = log.index("compaction/prune")
    assert log[failed - 1] == "assistant/chunk"
    assert log[failed + 1].startswith("tool/result xxx")
    assert log[failed + 2] == "assistant/chunk"
    (pruned,) = [event for event in agent.session.select(ToolResult) if event.surface_op != "append"]
    assert pruned.sources is not None
    assert len(shown(agent.session)[0]) < LONGEST
    assert script(agent).requests[-1].messages[-1].text == shown(agent.session)[0]


async def test_a_full_context_with_nothing_to_prune_ends_the_turn_with_a_clear_error_after_two_requests() -> None:
    agent = agent_of([call("show", length=LONGEST + 1)], FULL, FULL, "never", tools=[show])

    await agent.run("Go.")

    assert code(agent.session) == "CONTEXT_WINDOW_EXCEEDED"
    assert len(script(agent).requests) == 3  # the call, the full one, once more after pruning


async def test_a_full_context_without_any_tool_result_is_not_tried_again() -> None:
    agent = agent_of(FULL, "never")

    await agent.run("Go.")

    assert code(agent.session) == "CONTEXT_WINDOW_EXCEEDED"
    assert len(script(agent).requests) == 1


async def test_pruning_and_retries_have_budgets_of_their_own() -> None:
    agent = agent_of([call("show", length=LONGEST + 1)], error("SERVER"), FULL, error("SERVER"), "ok", tools=[show])

    assert (await agent.run("Go.")).text == "ok"


@pytest.mark.parametrize(("length", "pruned"), [(LONGEST, False), (LONGEST + 1, True)])
async def test_only_what_is_longer_than_the_limit_is_pruned_and_one_pass_converges(length: int, pruned: bool) -> None:
    agent = agent_of([call("show", length=length)], "ok", [call("show", length=1)], "ok", tools=[show])
    await agent.run("Go.")
    counts: list[int] = []

    @tool
    async def cut() -> str:
        """Prune twice."""
        counts.extend((prune(agent.session), prune(agent.session)))
        return "cut"

    agent.toolbox.add(cut)
    agent._model = ScriptedModel([[call("cut")], "ok"])
    await agent.run("Prune.")

    assert counts == [int(pruned), 0]


async def test_head_and_tail_are_kept_and_no_character_is_split() -> None:
    agent = agent_of([call("show", length=LONGEST + 1, of="🐙")], FULL, "ok", tools=[show])
    await agent.run("Go.")

    (text,) = shown(agent.session)
    head, middle, tail = text.split("\n")
    assert (head, tail) == ("🐙" * HEAD, "🐙" * TAIL)
    assert str(LONGEST + 1 - HEAD - TAIL) in middle


async def test_the_log_names_what_was_pruned_and_keeps_it() -> None:
    agent = agent_of([call("show", length=LONGEST + 1)], FULL, "ok", tools=[show])
    await agent.run("Go.")

    (note,) = agent.session.select(CompactionPrune)
    old, new = agent.session.select(ToolResult)
    value: Any = note.data.value
    assert list(value["shadowedSeqs"]) == [old.seq]
    assert agent.session.replaced_by(old.seq) == new.seq
    assert len(old.data.message.text) == LONGEST + 1
    assert new.data.call_id == old.data.call_id


def windowed(*answers: Any, session: Session | None = None) -> Agent:
    info = ModelInfo("scripted", "script", context_window=1000)
    return Agent(session or Session(), ScriptedModel(answers, info=info), [show])


async def test_little_room_prunes_before_the_next_step_also_within_a_turn() -> None:
    agent = windowed([call("show", length=LONGEST + 1), usage(790, 10)], "ok")

    await agent.run("Go.")

    log = kinds(agent.session)
    assert log.index("step/end") < log.index("compaction/prune") < log.index("assistant/message ok")
    first, second = agent._model.requests  # type: ignore[attr-defined]
    assert len(first.messages) == 1
    assert len(second.messages[-1].text) < LONGEST


async def test_enough_room_prunes_nothing() -> None:
    agent = windowed([call("show", length=LONGEST + 1), usage(780, 10)], "ok")

    await agent.run("Go.")

    assert "compaction/prune" not in kinds(agent.session)


async def test_a_resumed_agent_knows_how_full_the_context_is() -> None:
    first = windowed([call("show", length=LONGEST + 1), usage(10, 10)], [text("ok"), usage(900, 1)])
    await first.run("Go.")

    again = windowed("ok", session=Session.resumed(first.session))
    assert again.last_context_tokens == 901
    await again.run("On.")

    assert "compaction/prune" in kinds(again.session)
