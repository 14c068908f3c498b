"""One attempt: a request is proven, sent, and its stream logged chunk by chunk before anything is made of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from turnlog.bus import Bus
from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    Block,
    Failure,
    Finish,
    FinishAborted,
    FinishError,
    FinishMaxTokens,
    Message,
    StreamChunk,
)
from turnlog.log import Session
from turnlog.log.proof import ProofChain
from turnlog.model import Assembler, Model, Request
from turnlog.model.hooks import LlmStream

from .failure import UnrecordedInput
from .place import Turn
from .unrecorded import difference


class Attempt:
    """What came back for one request."""

    def __init__(self, session: Session, turn: Turn, request: Request, logged: bool) -> None:
        self._session = session
        self._turn = turn
        self._request = request
        self._logged = logged
        self._assembler = Assembler()
        self._chunks: list[int] = []

    @property
    def failure(self) -> Failure | None:
        """Why it failed; None for an answer."""
        match self._assembler.finish:
            case FinishError(failure=failure) | FinishAborted(failure=failure):
                return failure
            case _:
                return None

    def take(self, chunk: StreamChunk) -> None:
        """Log a chunk, then interpret it. Without streaming only a failure is logged: nothing else says it."""
        if self._logged or (isinstance(chunk, Finish) and isinstance(chunk.reason, FinishError | FinishAborted)):
            event = self._session.append(AssistantChunk(turn=self._turn.number, step=self._turn.step, chunk=chunk))
            self._chunks.append(event.seq)
        self._assembler.feed(chunk)

    def count(self) -> None:
        """Add what it used to the turn's bill, whether or not it succeeded."""
        if self._assembler.usage is not None:
            self._turn.usage.append(self._assembler.usage)

    def commit(self) -> Message:
        """Log the answer, citing exactly this attempt's chunks."""
        return self._commit(self._assembler.content(), interrupted=False)

    def interrupt(self) -> None:
        """Log what had been shown when it was cancelled, if anything was."""
        visible = self._assembler.visible()
        if visible and not isinstance(self._assembler.finish, FinishError):
            self._commit(visible, interrupted=True)

    def _commit(self, content: tuple[Block, ...], interrupted: bool) -> Message:
        config = self._request.header.config
        message = Message.from_model(
            *content,
            provider=config.provider,
            model=config.model,
            replay_state=None if interrupted else self._assembler.replay_state,
        )
        payload = AssistantMessage(
            turn=self._turn.number,
            step=self._turn.step,
            message=message,
            usage=self._assembler.usage,
            interrupted=True if interrupted else None,
        )
        self._session.append(payload, sources=self._chunks)
        if message.text:
            self._turn.text = message.text
        return message

    @property
    def hit_limit(self) -> bool:
        """Whether the output limit cut the answer."""
        return isinstance(self._assembler.finish, FinishMaxTokens)


class Attempts:
    """Sends requests."""

    def __init__(self, session: Session, bus: Bus) -> None:
        self._session = session
        self._bus = bus
        self._chain = ProofChain(session)

    async def send(self, turn: Turn, model: Model, request: Request) -> Attempt:
        """Stream the answer to *request*. Cancelling logs what had been shown, then raises ``Cancelled``."""
        attempt = Attempt(self._session, turn, request, logged=model.info.streams)
        try:
            with turn.cancellation.scope():
                event = LlmStream(request, model, turn.cancellation)
                stream = (await self._bus.waterfall(event, self._open)).value
                async with aclosing(stream):
                    async for chunk in stream:
                        if turn.cancellation.cause is not None:
                            break
                        attempt.take(chunk)
        except asyncio.CancelledError:  # whoever runs the loop gives up; what was shown is not lost
            attempt.interrupt()
            raise
        finally:
            attempt.count()
        if turn.cancellation.cause is not None:
            attempt.interrupt()
        turn.check()
        return attempt

    async def _open(self, event: LlmStream) -> AsyncGenerator[StreamChunk, None]:
        """The innermost of ``llm/stream``: what leaves is what the log shows, and that is attested."""
        request = event.request
        session = self._session
        if fault := difference(session, request):
            raise UnrecordedInput(fault)
        session.attest(self._chain.prove(request.turn, request.step, request.attempt, request.header))
        return event.model.stream(request)
