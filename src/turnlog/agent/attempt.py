"""One attempt: a request is proven, sent, and its stream logged chunk by chunk before anything is made of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

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
    TokenUsage,
)
from turnlog.log import Session
from turnlog.log.proof import ProofChain
from turnlog.model import Assembler, Model, Request
from turnlog.model.hooks import LlmStream

from .failure import UnrecordedInput, checked, failure_of
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
        if self.usage is not None:
            self._turn.usage.append(self.usage)

    @property
    def usage(self) -> TokenUsage | None:
        """What it used, as far as the stream said."""
        return self._assembler.usage

    def end(self) -> None:
        """The stream is over. One that never said how is a failure: nobody knows what is missing."""
        if self._assembler.finish is None:
            failure = Failure("the stream ended without saying how", "STREAM_CLOSED")
            self.take(Finish(FinishError(failure)))

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
        logged = self._session.append(payload, sources=self._chunks).data.message  # what is run is what is logged
        if logged.text:
            self._turn.text = logged.text
        return logged

    @property
    def hit_limit(self) -> bool:
        """Whether the output limit cut the answer."""
        return isinstance(self._assembler.finish, FinishMaxTokens)


class Attempts:
    """Sends requests."""

    def __init__(self, session: Session, bus: Bus, used: Callable[[TokenUsage], None]) -> None:
        """*used*: told what each attempt used."""
        self._session = session
        self._bus = bus
        self._used = used
        self._chain = ProofChain(session)

    async def send(self, turn: Turn, model: Model, request: Request) -> Attempt:
        """Stream the answer to *request*. Cancelling logs what had been shown, then raises ``Cancelled``."""
        attempt = Attempt(self._session, turn, request, logged=model.info.streams)
        try:
            with turn.cancellation.scope():
                await self._stream(attempt, turn, LlmStream(request, model, turn.cancellation))
        except BaseException as error:
            if turn.cancellation.cause is not None or isinstance(error, asyncio.CancelledError):
                attempt.interrupt()  # what was shown is not lost, also when whoever runs the loop gives up
            raise
        finally:
            attempt.count()
            if attempt.usage is not None:
                self._used(attempt.usage)
        if turn.cancellation.cause is not None:
            attempt.interrupt()
        turn.check()
        attempt.end()
        return attempt

    async def _stream(self, attempt: Attempt, turn: Turn, event: LlmStream) -> None:
        """Log what the chain around the model gives. What the model itself gave is closed in any case."""
        opened: list[AsyncGenerator[StreamChunk, None]] = []

        async def send(given: LlmStream) -> AsyncGenerator[StreamChunk, None]:
            opened.append(self._open(event.request, given))
            return opened[0]

        try:
            stream = checked(LlmStream, (await self._bus.waterfall(event, send)).value, AsyncGenerator)
            async with aclosing(stream):
                async for chunk in stream:
                    if turn.cancellation.cause is not None:
                        return
                    attempt.take(chunk)
        finally:
            for inner in opened:
                await inner.aclose()

    def _open(self, built: Request, event: LlmStream) -> AsyncGenerator[StreamChunk, None]:
        """The innermost of ``llm/stream``: what leaves is what the log shows, and that is attested."""
        session = self._session
        request = replace(event.request, turn=built.turn, step=built.step, attempt=built.attempt)
        if request.messages is built.messages:  # as they are now: another thread may have logged one meanwhile
            request = replace(request, messages=session.derive_messages())
        if fault := difference(session, request):
            raise UnrecordedInput(fault)
        session.attest(self._chain.prove(request.turn, request.step, request.attempt, request.header))
        return _contained(event.model, request)


async def _contained(model: Model, request: Request) -> AsyncGenerator[StreamChunk, None]:
    """The model's stream; an adapter that raises instead of ending it has failed like one that says so."""
    try:
        async with aclosing(model.stream(request)) as stream:
            async for chunk in stream:
                yield chunk
    except Exception as error:  # an adapter's bug; whoever recovers from failures may recover from it
        yield Finish(FinishError(failure_of(error)))
