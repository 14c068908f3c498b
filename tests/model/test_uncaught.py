"""A model from elsewhere is held to the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import pytest

from tests.model.asking import request
from turnlog.events import Failure, Finish, FinishError, FinishStop, StreamChunk, TextDelta
from turnlog.model import ModelInfo, Request, ScriptedModel, crash, cut, text, uncaught

CHUNK = TextDelta(0, "x")


@dataclass
class Foreign:
    make: Callable[[], AsyncGenerator[StreamChunk, None]]

    @property
    def info(self) -> ModelInfo:
        return ModelInfo("foreign", "model")

    def stream(self, request: Request) -> AsyncGenerator[StreamChunk, None]:
        return self.make()

    async def aclose(self) -> None: ...


def held(model: Foreign | ScriptedModel) -> list[StreamChunk]:
    async def run() -> list[StreamChunk]:
        return [chunk async for chunk in uncaught(model, request())]

    return asyncio.run(run())


def test_an_exception_becomes_the_last_chunk_with_its_causes() -> None:
    async def raises() -> AsyncGenerator[StreamChunk, None]:
        yield CHUNK
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer with key sk-0123456789") from error

    failure = Failure("RuntimeError: outer with key [redacted]; from KeyError: 'inner'", "UNKNOWN")
    assert held(Foreign(raises)) == [CHUNK, Finish(FinishError(failure))]


def test_an_exception_that_cannot_show_itself_and_a_group() -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert held(ScriptedModel([crash(Shy())]))[-1] == Finish(FinishError(Failure("Shy", "UNKNOWN")))
    [finish] = held(ScriptedModel([crash(ExceptionGroup("two", [ValueError("a"), Shy()]))]))
    assert finish == Finish(
        FinishError(Failure("ExceptionGroup: two (2 sub-exceptions) [ValueError: a; Shy]", "UNKNOWN"))
    )


def test_not_even_starting_is_a_failure() -> None:
    def refuses() -> AsyncGenerator[StreamChunk, None]:
        raise OSError("no")

    assert held(Foreign(refuses)) == [Finish(FinishError(Failure("OSError: no", "UNKNOWN")))]


def test_a_missing_end_is_a_closed_stream() -> None:
    chunks = held(ScriptedModel([[text("x"), cut()]]))
    assert chunks[-1] == Finish(FinishError(Failure("the stream ended without a finish", "STREAM_CLOSED")))


def test_nothing_follows_the_finish() -> None:
    async def talks_on() -> AsyncGenerator[StreamChunk, None]:
        try:
            yield Finish(FinishStop())
            yield CHUNK
        finally:
            raise RuntimeError("while closing")

    assert held(Foreign(talks_on)) == [Finish(FinishStop())]


def test_cancellation_passes_and_closing_closes_the_model() -> None:
    closed: list[str] = []

    async def waits() -> AsyncGenerator[StreamChunk, None]:
        try:
            yield CHUNK
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    async def run() -> None:
        stream = uncaught(Foreign(waits), request())
        await anext(stream)
        await stream.aclose()
        assert closed == ["closed"]
        stream = uncaught(Foreign(waits), request())
        await anext(stream)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert closed == ["closed"] * 2

    asyncio.run(run())
