"""A scripted model says what the script says, and complains about anything else."""

from __future__ import annotations

import asyncio

import pytest

from tests.model.asking import answer, assembled, collect, request
from turnlog.events import (
    BlockEnd,
    BlockStart,
    Failure,
    Finish,
    FinishError,
    FinishMaxTokens,
    FinishStop,
    FinishToolCalls,
    ReasoningBlock,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)
from turnlog.model import (
    Model,
    ScriptedModel,
    ScriptError,
    call,
    crash,
    cut,
    error,
    max_tokens,
    raw,
    reasoning,
    stop,
    text,
    usage,
    wait,
)


def test_an_answer_is_a_stream_of_chunks_that_ends_with_a_finish() -> None:
    model = ScriptedModel([[text("Hel", "lo"), usage(10, 2, cache_read=5)]])
    assert answer(model) == [
        BlockStart(0, "text"),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        BlockEnd(0, TextBlock("Hello")),
        UsageChunk(TokenUsage(10, 2, 5)),
        Finish(FinishStop()),
    ]
    model.assert_done()


def test_calls_are_numbered_over_the_life_of_the_model_and_finish_with_tool_calls() -> None:
    model = ScriptedModel([[reasoning("Hm."), call("read", path="a")], call("bash", '{"comm', 'and":"ls"}', id="x")])
    first, second = answer(model), answer(model)
    assert assembled(first).content() == (ReasoningBlock("Hm."), ToolCallBlock("call_1", "read", '{"path":"a"}'))
    assert first[-1] == Finish(FinishToolCalls())
    deltas = [chunk for chunk in second if isinstance(chunk, ToolCallDelta)]
    assert [(one.id, one.name, one.arguments_delta) for one in deltas] == [
        ("x", "bash", ""),
        ("x", "bash", '{"comm'),
        ("x", "bash", 'and":"ls"}'),
    ]


def test_equal_ids_in_one_answer_are_made_unique_before_they_are_given_out() -> None:
    chunks = answer(ScriptedModel([[call("a", id="same"), call("b", id="same"), call("c", id="same~2")]]))
    assert {chunk.id for chunk in chunks if isinstance(chunk, ToolCallDelta)} == {"same", "same~2", "same~2~2"}


def test_endings() -> None:
    model = ScriptedModel(
        [
            ["cut", max_tokens()],
            ["lost", error("RATE_LIMIT", "slow down", status=429, retry_after_ms=20.5, request_id="r")],
            [call("a"), stop({"response": {"id": 1}})],
            ["no end", cut()],
            lambda asked: f"attempt {asked.attempt}",
        ]
    )
    assert answer(model)[-1] == Finish(FinishMaxTokens())
    assert answer(model)[1:] == [
        TextDelta(0, "lost"),
        Finish(FinishError(Failure("slow down", "RATE_LIMIT", 429, 20.5, "r"))),
    ]
    assert answer(model)[-1] == Finish(FinishStop(), {"response": {"id": 1}})
    assert answer(model)[-1] == TextDelta(0, "no end")
    assert assembled(answer(model, request(attempt=3))).content() == (TextBlock("attempt 3"),)
    model.assert_done()


def test_raw_chunks_are_given_out_as_they_are() -> None:
    chunks = [TextDelta(7, "x"), Finish(FinishStop())]
    assert answer(ScriptedModel([raw(*chunks)])) == chunks


def test_a_crash_is_raised() -> None:
    async def run() -> None:
        with pytest.raises(RuntimeError, match="bug"):
            await collect(ScriptedModel([[text("a"), crash(RuntimeError("bug"))]]))

    asyncio.run(run())


def test_one_request_too_many_fails_and_is_remembered() -> None:
    model = ScriptedModel(["one"])
    answer(model)
    [finish] = answer(model, request("What now?", turn=2))
    assert isinstance(finish, Finish)
    assert isinstance(finish.reason, FinishError)
    assert finish.reason.failure.code == "UNEXPECTED_REQUEST"
    with pytest.raises(ScriptError, match=r"unexpected request 2 \(t2.s1.a1\): the script has 1 answers.*What now"):
        model.assert_done()


def test_answers_nobody_asked_for_fail_when_the_block_is_left() -> None:
    with (
        pytest.raises(ScriptError, match=r"2 of 2 answers were never asked for; the next is 'one'"),
        ScriptedModel(["one", "two"]),
    ):
        pass
    with pytest.raises(KeyError), ScriptedModel(["one"]):  # what went wrong in the block is the news
        raise KeyError


def test_requests_are_kept() -> None:
    model = ScriptedModel(["a", "b"])
    asked = [request("1"), request("2")]
    for one in asked:
        answer(model, one)
    assert model.requests == tuple(asked)
    assert model.remaining == 0
    assert isinstance(model, Model)


def test_an_answer_waits_for_its_gate_and_can_be_cancelled_there() -> None:
    async def run() -> None:
        gate = asyncio.Event()
        model = ScriptedModel([["before", wait(gate), wait(0.001), "after"], [wait(gate), "never"]])
        waiting = asyncio.create_task(collect(model))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        gate.set()
        assert assembled(await waiting).content() == (TextBlock("before"), TextBlock("after"))
        gate.clear()
        waiting = asyncio.create_task(collect(model))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        model.assert_done()
        await model.aclose()
        assert model.closed

    asyncio.run(run())
