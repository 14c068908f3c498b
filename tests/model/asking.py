"""What tests of models share: requests to send and a way to collect answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from turnlog import Session
from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    CallConfig,
    FinishAborted,
    FinishError,
    Header,
    Message,
    StepStart,
    StreamChunk,
    TextBlock,
    ToolSchema,
    TurnStart,
    UserSource,
)
from turnlog.model import Assembler, Model, Request


def user(text: str, id: str = "u1") -> Message:
    return Message("user", (TextBlock(text),), UserSource(), id)


def request(
    *messages: Message | str,
    config: CallConfig | None = None,
    system: str | None = None,
    tools: Sequence[ToolSchema] = (),
    session: str = "s1",
    turn: int = 1,
    step: int = 1,
    attempt: int = 1,
) -> Request:
    header = Header(config or CallConfig("scripted", "script"), system=system, tools=tuple(tools) or None)
    sent = tuple(user(one, f"u{place}") if isinstance(one, str) else one for place, one in enumerate(messages))
    return Request(session, turn, step, attempt, header, sent or (user("Hello"),))


async def collect(model: Model, asked: Request | None = None) -> list[StreamChunk]:
    return [chunk async for chunk in model.stream(asked or request())]


def answer(model: Model, asked: Request | None = None) -> list[StreamChunk]:
    return asyncio.run(collect(model, asked))


def logged(chunks: Iterable[StreamChunk]) -> Session:
    """A log that took the chunks and the message they make; the log refuses what breaks its rules."""
    session = Session()
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    assembler = Assembler()
    for chunk in chunks:
        session.append(AssistantChunk(turn=1, step=1, chunk=chunk))
        assembler.feed(chunk)
    if not isinstance(assembler.finish, FinishError | FinishAborted):
        state = assembler.replay_state
        message = Message.from_model(*assembler.content(), provider="p", model="m", replay_state=state)
        session.append(AssistantMessage(turn=1, step=1, message=message, usage=assembler.usage), sources=[])
    return session


def assembled(chunks: Iterable[StreamChunk]) -> Assembler:
    assembler = Assembler()
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler
