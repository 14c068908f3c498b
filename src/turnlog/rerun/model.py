"""The models of a rerun: one that gives the recorded answers at their places, and from some step on a live one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Final

import anyio

from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    BlockEnd,
    Failure,
    Finish,
    FinishError,
    FinishMaxTokens,
    FinishStop,
    FinishToolCalls,
    Header,
    ModelSource,
    StreamChunk,
    ToolCallBlock,
    UsageChunk,
)
from turnlog.model import Model, ModelInfo, Request

from .conductor import Conductor

NO_END: Final = Failure("the stream ended without saying how", "STREAM_CLOSED")
"""What the loop makes of a stream that just ends: it has to make it again."""


class Answers:
    """The model that the loop is given."""

    def __init__(self, conductor: Conductor, live: Model | None) -> None:
        """*live*: asked from the step on from which nothing is recorded."""
        self._conductor = conductor
        self._live = live

    @property
    def info(self) -> ModelInfo:
        """The route that the recorded request at this place took."""
        if self._conductor.live and self._live is not None:
            return self._live.info
        recording, length = self._conductor.recording, self._conductor.length
        header = recording.header(length)
        if header is None:
            return ModelInfo("recorded", recording.session.id)
        limit, effort = _defaults(header)
        window, streams = recording.window(length), recording.streams(length)
        return ModelInfo(header.config.provider, header.config.model, window, limit, effort, streams)

    async def stream(self, request: Request) -> AsyncGenerator[StreamChunk, None]:
        """The recorded answer. Where none is recorded, the request fails with ``DIVERGED``."""
        source = self._live.stream(request) if self._conductor.live and self._live is not None else self._recorded()
        async with aclosing(source):
            async for chunk in source:
                yield chunk

    async def aclose(self) -> None:
        """Nothing to close: the live model belongs to whoever gave it."""

    async def _recorded(self) -> AsyncGenerator[StreamChunk, None]:
        conductor, recording = self._conductor, self._conductor.recording
        begun = False
        while True:
            event = recording.at(conductor.length)
            told = event.data if event is not None and not begun else None
            if isinstance(told, AssistantMessage) and conductor.open:
                for chunk in _told(told, cut=recording.hit_limit(conductor.length)):
                    yield chunk
                if not told.interrupted:
                    return
            await conductor.settle()
            event = recording.at(conductor.length)
            if not conductor.open or event is None:
                break
            if isinstance(event.data, AssistantChunk):
                chunk = event.data.chunk
                if isinstance(chunk, Finish) and chunk.reason == FinishError(NO_END):
                    return
                begun = True
                yield chunk
                if isinstance(chunk, Finish):
                    await conductor.settle()
                    return
            elif conductor.agent is not None and conductor.cancelling:
                await anyio.sleep_forever()
            elif begun and isinstance(event.data, AssistantMessage):
                return
            else:
                break
        yield Finish(FinishError(Failure("nothing is recorded that would answer this request", "DIVERGED")))


def _defaults(header: Header) -> tuple[int | None, str | None]:
    """What the adapter had filled in: limit and effort."""
    filled = header.adapter_defaults
    if filled is None:
        return None, None
    limit = header.config.max_tokens if filled.max_tokens else None
    return limit, header.config.reasoning_effort if filled.reasoning_effort else None


def _told(answer: AssistantMessage, *, cut: bool) -> Iterator[StreamChunk]:
    """An answer that was not streamed, block by block; without an end when it never came to one."""
    blocks = answer.message.content
    for index, block in enumerate(blocks):
        yield BlockEnd(index, block)
    if answer.usage is not None:
        yield UsageChunk(answer.usage)
    if answer.interrupted:
        return
    source = answer.message.source
    calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    reason = FinishMaxTokens() if cut else FinishToolCalls() if calls else FinishStop()
    yield Finish(reason, source.replay_state if isinstance(source, ModelSource) else None)
