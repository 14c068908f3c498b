"""`ScriptedModel`: a model that says what a test wrote down, and nothing else.

```python
model = ScriptedModel([
    [reasoning("Look first."), call("read", path="a.txt")],   # first answer
    error("RATE_LIMIT", retry_after_ms=20),                   # the second request fails
    [text("It says hello."), usage(120, 5)],                  # the third is answered
])
```

It is strict. A request that no answer is left for ends with the failure ``UNEXPECTED_REQUEST``, and
:meth:`ScriptedModel.assert_done` (or leaving the ``with`` block) raises for that and for answers that nobody asked for.

Answers run through the same stage as a provider's (:mod:`turnlog.model.deltas`), so ids are made unique, odd pieces are
mended, and the chunks are of the shape that adapters give.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

import anyio

from turnlog.events import (
    Failure,
    Finish,
    FinishError,
    FinishMaxTokens,
    FinishReason,
    FinishStop,
    FinishToolCalls,
    Json,
    StreamChunk,
    TokenUsage,
    UsageChunk,
)
from turnlog.events.lossless import dump

from .deltas import Answer, CallSlot
from .errors import ScriptError
from .protocol import ModelInfo
from .request import Request


class Gate(Protocol):
    """What an answer can wait for: an ``anyio.Event``, an ``asyncio.Event``."""

    def wait(self) -> Awaitable[object]:
        """Come back when it is open."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text, piece by piece."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning, piece by piece."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, its raw arguments piece by piece."""

    name: str
    pieces: tuple[str, ...]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What the answer cost."""

    usage: TokenUsage


@dataclass(frozen=True, slots=True)
class Ending:
    """How the answer ends, where it is not by stopping or by waiting for its calls. None: the stream just ends."""

    reason: FinishReason | None
    replay_state: Json = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing comes for some seconds, or until a gate opens."""

    until: float | Gate


@dataclass(frozen=True, slots=True)
class Raw:
    """Chunks, as they are."""

    chunks: tuple[StreamChunk, ...]


@dataclass(frozen=True, slots=True)
class Crash:
    """The adapter has a bug: it raises."""

    exception: BaseException


Part: TypeAlias = Text | Reasoning | Call | Usage | Ending | Wait | Raw | Crash
Scripted: TypeAlias = Part | str | Sequence[Part | str]
"""One answer: a part, several, or a string for its text."""
Answers: TypeAlias = Iterable[Scripted | Callable[[Request], Scripted]]
"""Answers in the order of the requests; a function is asked with the request."""


def text(*pieces: str) -> Text:
    """Visible text; several pieces come as several deltas of one block."""
    return Text(pieces)


def reasoning(*pieces: str) -> Reasoning:
    """Reasoning; several pieces come as several deltas of one block."""
    return Reasoning(pieces)


def call(name: str, /, *pieces: str, id: str | None = None, **arguments: Json) -> Call:
    """A tool call. Arguments are given by name, or as raw text in one or more pieces.

    Without *id* the calls of a model are named ``call_1``, ``call_2``, …
    """
    return Call(name, pieces or (dump(arguments).decode(),), id)


def usage(
    input_tokens: int,
    output_tokens: int,
    *,
    cache_read: int | None = None,
    cache_write: int | None = None,
    reasoning: int | None = None,
) -> Usage:
    """What the answer cost, in tokens."""
    return Usage(TokenUsage(input_tokens, output_tokens, cache_read, cache_write, reasoning))


def error(
    code: str, message: str = "", *, status: int | None = None, retry_after_ms: float | None = None,
    request_id: str | None = None,
) -> Ending:  # fmt: skip
    """The request fails; what came before it in the answer was streamed."""
    return Ending(FinishError(Failure(message or f"scripted {code}", code, status, retry_after_ms, request_id)))


def max_tokens() -> Ending:
    """The output limit cuts the answer."""
    return Ending(FinishMaxTokens())


def stop(replay_state: Json = None) -> Ending:
    """The model says that it is done, whatever it asked for."""
    return Ending(FinishStop(), replay_state)


def cut() -> Ending:
    """The stream ends and does not say how."""
    return Ending(None)


def wait(until: float | Gate) -> Wait:
    """Seconds, or an event to wait for."""
    return Wait(until)


def raw(*chunks: StreamChunk) -> Raw:
    """Chunks given out as they are; a ``Finish`` among them ends the answer."""
    return Raw(chunks)


def crash(exception: BaseException) -> Crash:
    """Raise instead of answering."""
    return Crash(exception)


class ScriptedModel:
    """Gives its answers one by one, in the order of the requests. Used by one task at a time or by several."""

    def __init__(self, answers: Answers, *, info: ModelInfo | None = None) -> None:
        self._answers = list(answers)
        self._info = info or ModelInfo("scripted", "script")
        self._requests: list[Request] = []
        self._calls = 0
        self._unexpected: ScriptError | None = None
        self.closed = False

    @property
    def info(self) -> ModelInfo:
        """Its route; ``scripted/script`` unless told otherwise."""
        return self._info

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request so far, unexpected ones too. Their messages are views of the log, not copies."""
        return tuple(self._requests)

    @property
    def remaining(self) -> int:
        """How many answers nobody has asked for."""
        return max(len(self._answers) - len(self._requests), 0)

    async def stream(self, request: Request) -> AsyncGenerator[StreamChunk, None]:
        """The next answer. Cancelling ends it where it is; the answer counts as given."""
        place = len(self._requests)
        self._requests.append(request)
        if place >= len(self._answers):
            yield self._refuse(request)
            return
        scripted = self._answers[place]
        answer = Answer()
        ending: Ending | None = None
        counts: list[StreamChunk] = []
        for part in _parts(scripted(request) if callable(scripted) else scripted):
            if isinstance(part, Wait):
                await _wait(part)
            elif isinstance(part, Crash):
                raise part.exception
            elif isinstance(part, Ending):
                ending = part
            elif isinstance(part, Usage):
                counts.append(UsageChunk(part.usage))
            else:
                self._write(answer, part)
            for chunk in answer.take():
                yield chunk
                if isinstance(chunk, Finish):
                    return
        for chunk in _end(answer, ending, counts):
            yield chunk

    async def aclose(self) -> None:
        """Remembered in :attr:`closed`."""
        self.closed = True

    def assert_done(self) -> None:
        """Raise :class:`ScriptError` unless every answer was asked for and nothing else was."""
        if self._unexpected is not None:
            raise self._unexpected
        if self.remaining:
            left = self._answers[len(self._requests)]
            raise ScriptError(
                f"{self.remaining} of {len(self._answers)} answers were never asked for; the next is {left!r:.200}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.assert_done()

    def __repr__(self) -> str:
        return f"<ScriptedModel {len(self._requests)} of {len(self._answers)} answers given>"

    def _refuse(self, request: Request) -> Finish:
        place = f"t{request.turn}.s{request.step}.a{request.attempt}"
        fact = f"unexpected request {len(self._requests)} ({place}): the script has {len(self._answers)} answers"
        last = f"; its last message: {request.messages[-1]!r:.200}" if request.messages else ""
        self._unexpected = self._unexpected or ScriptError(fact + last)
        return Finish(FinishError(Failure(fact + last, "UNEXPECTED_REQUEST")))

    def _write(self, answer: Answer, part: Text | Reasoning | Call | Raw) -> None:
        match part:
            case Text(pieces=pieces) | Reasoning(pieces=pieces):
                slot = answer.open_text() if isinstance(part, Text) else answer.open_reasoning()
                for piece in pieces:
                    slot.add(piece)
            case Call(name=name, pieces=pieces, id=id):
                self._calls += 1
                call = answer.open_call()
                call.add("", id or f"call_{self._calls}", name)
                for piece in pieces:
                    call.add(piece)
            case Raw(chunks=chunks):
                answer.chunks.extend(chunks)


def _parts(scripted: Scripted) -> list[Part]:
    several = [scripted] if isinstance(scripted, str) or not isinstance(scripted, Sequence) else scripted
    return [text(part) if isinstance(part, str) else part for part in several]


async def _wait(part: Wait) -> None:
    if isinstance(part.until, int | float):
        await anyio.sleep(part.until)
    else:
        await part.until.wait()


def _end(answer: Answer, ending: Ending | None, counts: list[StreamChunk]) -> list[StreamChunk]:
    """The ends of blocks, what it cost, how it ended: the order in which adapters say it."""
    if ending is None:
        calls = any(isinstance(slot, CallSlot) for slot in answer.slots)
        ending = Ending(FinishToolCalls() if calls else FinishStop())
    if ending.reason is None:
        return counts
    if not isinstance(ending.reason, FinishError):
        answer.close()
    return [*answer.take(), *counts, Finish(ending.reason, ending.replay_state)]
