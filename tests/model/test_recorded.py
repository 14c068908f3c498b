"""A recorded session answers as it did, as long as it is asked what it was asked."""

from __future__ import annotations

import asyncio

import pytest

import turnlog
from tests.cases.inputs import case
from tests.model.asking import collect, user
from turnlog import Session
from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    BlockEnd,
    CallConfig,
    Failure,
    Finish,
    FinishAborted,
    FinishError,
    FinishStop,
    FinishToolCalls,
    Header,
    LlmRetry,
    Message,
    RequestHeader,
    StepEnd,
    StepStart,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    TurnStart,
    UsageChunk,
    UserMessage,
)
from turnlog.model import Assembler, Diverged, Model, RecordedModel, Request, ScriptError

HEADER = Header(CallConfig("example", "demo-1"), system="Be brief.")
OTHER = Header(CallConfig("example", "other"), system="Be brief.")
FAILED = Finish(FinishError(Failure("slow down", "RATE_LIMIT")))


def recording() -> Session:
    """Two steps: a failed attempt, one with a call; then an answer that was not streamed."""
    session = Session()
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    session.append(UserMessage.of("List it."))
    session.append(RequestHeader(header=HEADER, reason="initial"))
    say(session, 1, TextDelta(0, "lost"), FAILED)
    session.append(
        LlmRetry(value={"retryId": "r", "turn": 1, "step": 1, "failure": {"message": "m", "code": "SERVER"}})
    )
    session.append(
        LlmRetry(value={"retryId": "r2", "turn": 1, "step": 1, "failure": {"message": "m", "code": "SERVER"}})
    )
    block = ToolCallBlock("c1", "ls", "{}")
    seqs = say(session, 1, BlockEnd(0, block), Finish(FinishToolCalls()))
    answer = Message.from_model(block, provider="example", model="demo-1")
    session.append(AssistantMessage(turn=1, step=1, message=answer), sources=seqs)
    session.append(ToolCall(turn=1, step=1, call_id="c1", name="ls", arguments="{}"))
    result = Message.from_tool("c1", TextBlock("a.txt"))
    session.append(ToolResult(turn=1, step=1, message=result), sources=[session.events[-1].seq])
    session.append(StepEnd(turn=1, step=1))
    session.append(StepStart(turn=1, step=2))
    said = Message.from_model(TextBlock("One file."), provider="example", model="demo-1")
    session.append(AssistantMessage(turn=1, step=2, message=said, usage=TokenUsage(5, 2)), sources=[])
    session.append(StepEnd(turn=1, step=2))
    session.append(StepStart(turn=1, step=3))
    say(session, 3, TextDelta(0, "cut off"))
    return session


def say(session: Session, step: int, *chunks: StreamChunk) -> list[int]:
    return [session.append(AssistantChunk(turn=1, step=step, chunk=chunk)).seq for chunk in chunks]


def ask(*messages: Message, header: Header = HEADER, step: int = 1) -> Request:
    return Request("another", 1, step, 1, header, messages)


FIRST = (user("List it.", "fresh-id"),)
CALLED = Message.from_model(ToolCallBlock("c1", "ls", "{}"), provider="x", model="y")
SECOND = (*FIRST, CALLED, Message.from_tool("c1", TextBlock("a.txt")))
THIRD = (*SECOND, Message.from_model(TextBlock("One file."), provider="x", model="y"))


def test_attempts_are_given_one_by_one() -> None:
    async def run() -> None:
        model = RecordedModel(recording())
        assert isinstance(model, Model)
        assert (model.info.provider, model.info.model, model.remaining) == ("example", "demo-1", 5)
        assert await collect(model, ask(*FIRST)) == [TextDelta(0, "lost"), FAILED]
        assert await collect(model, ask(*FIRST)) == [Finish(FinishError(Failure("m", "SERVER")))]
        assert await collect(model, ask(*FIRST)) == [
            BlockEnd(0, ToolCallBlock("c1", "ls", "{}")),
            Finish(FinishToolCalls()),
        ]
        assert await collect(model, ask(*SECOND, step=2)) == [
            BlockEnd(0, TextBlock("One file.")),
            UsageChunk(TokenUsage(5, 2)),
            Finish(FinishStop()),
        ]
        with pytest.raises(ScriptError, match=r"1 of 5 recorded attempts were never asked for; the next is of t1.s3"):
            model.assert_done()
        [text, finish] = await collect(model, ask(*THIRD, step=3))
        assert text == TextDelta(0, "cut off")
        assert isinstance(finish, Finish)
        assert isinstance(finish.reason, FinishAborted)
        model.assert_done()
        await model.aclose()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (ask(user("List everything.")), '+message 1 user {"type":"text","text":"List everything."}'),
        (ask(*FIRST, header=Header(HEADER.config, system="Be long.")), "+system Be long."),
        (ask(*FIRST, header=OTHER), '+config {"provider":"example","model":"other"}'),
        (ask(*SECOND), '+message 2 assistant {"type":"tool-call","id":"c1","name":"ls","arguments":"{}"}'),
    ],
)
def test_the_first_request_that_differs_fails_with_a_diff_and_so_does_every_later_one(
    request_: Request, line: str
) -> None:
    async def run() -> None:
        model = RecordedModel(recording())
        [finish] = await collect(model, request_)
        assert isinstance(finish, Finish)
        assert isinstance(finish.reason, FinishError)
        assert finish.reason.failure.code == "DIVERGED"
        assert line in finish.reason.failure.message.splitlines()
        assert await collect(model, ask(*FIRST)) == [finish]
        with pytest.raises(Diverged, match=r"request 1 \(t1.s1.a1\) is not what was recorded for t1.s1 \(@4\)"), model:
            pass
        assert model.diverged is not None

    asyncio.run(run())


def test_one_request_more_than_was_recorded() -> None:
    async def run() -> None:
        model = RecordedModel(Session())
        [finish] = await collect(model, ask(*FIRST))
        assert "has only 0 recorded attempts" in repr(finish)

    asyncio.run(run())


@pytest.mark.parametrize("number", [2, 14, 37, 40, 41])
def test_the_sessions_of_the_reports_replay_to_their_own_messages(number: int) -> None:
    name = "after-compaction.jsonl" if number == 37 else "session.jsonl"
    session = turnlog.load(case(number, name), forensic=True)

    async def run() -> None:
        model = RecordedModel(session)
        answers = list(session.select(AssistantMessage))
        for event in answers:
            header = session.request_header(event.seq) or HEADER
            at = min(event.sources or (), default=event.seq)
            asked = Request(session.id, 1, 1, 1, header, session.derive_messages(at))
            assembler = Assembler()
            for chunk in await collect(model, asked):
                assembler.feed(chunk)
            assert assembler.content() == event.data.message.content
        assert answers

    asyncio.run(run())
