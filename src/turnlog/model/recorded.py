"""`RecordedModel`: a session as a cassette.

Attempt by attempt it gives the chunks that were recorded, as long as it is asked what the recorded attempt was asked:
the same header (route, sampling, system, tools) and the same messages, their ids and who made them aside, since those
are new in every run. The first request that differs ends with the failure ``DIVERGED`` and a diff; every later one
ends the same way, for what was recorded after it answers another conversation.
"""

from __future__ import annotations

import difflib
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import islice
from types import TracebackType
from typing import Final, Self

from turnlog.events import Failure, Finish, FinishError, Header, Message, RequestContext, RequestHeader, StreamChunk
from turnlog.events.lossless import dump
from turnlog.log import Session

from .errors import Diverged, ScriptError
from .protocol import ModelInfo
from .request import Request
from .takes import Take, takes

MAX_DIFF: Final = 60
"""Lines of a diff that are shown."""


class RecordedModel:
    """Answers as the model of a recorded session did."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._takes = tuple(takes(session))
        self._given = 0
        self._requests: list[Request] = []
        self._diverged: Diverged | None = None
        self._info = _info(session)

    @property
    def info(self) -> ModelInfo:
        """The route of the recording's first request."""
        return self._info

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request so far."""
        return tuple(self._requests)

    @property
    def remaining(self) -> int:
        """How many recorded attempts nobody has asked for."""
        return len(self._takes) - self._given

    @property
    def diverged(self) -> Diverged | None:
        """The first request that was not the recorded one."""
        return self._diverged

    async def stream(self, request: Request) -> AsyncGenerator[StreamChunk, None]:
        """What was answered to this request when it was recorded."""
        self._requests.append(request)
        take = self._takes[self._given] if self.remaining else None
        if self._diverged is None:
            self._diverged = self._compare(take, request)
        if take is None or self._diverged is not None:
            yield Finish(FinishError(Failure(str(self._diverged), "DIVERGED")))
            return
        self._given += 1
        for chunk in take.chunks:
            yield chunk

    async def aclose(self) -> None:
        """Nothing to close."""

    def assert_done(self) -> None:
        """Raise :class:`Diverged`, or :class:`ScriptError` for recorded attempts that nobody asked for."""
        if self._diverged is not None:
            raise self._diverged
        if self.remaining:
            take = self._takes[self._given]
            raise ScriptError(
                f"{self.remaining} of {len(self._takes)} recorded attempts were never asked for; "
                f"the next is of t{take.turn}.s{take.step} (@{take.at})"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.assert_done()

    def __repr__(self) -> str:
        return f"<RecordedModel of {self._session.id}: {self._given} of {len(self._takes)} attempts given>"

    def _compare(self, take: Take | None, request: Request) -> Diverged | None:
        place = f"request {len(self._requests)} (t{request.turn}.s{request.step}.a{request.attempt})"
        if take is None:
            return Diverged(f"{place}: session {self._session.id} has only {len(self._takes)} recorded attempts")
        header, messages = self._session.request_header(take.at), self._session.derive_messages(take.at)
        if (header is None or _same_header(header, request.header)) and _same_messages(messages, request.messages):
            return None
        recorded = _lines(header or request.header, messages)
        diff = difflib.unified_diff(
            recorded, _lines(request.header, request.messages), "recorded", "asked", lineterm="", n=1
        )
        where = f"t{take.turn}.s{take.step} (@{take.at}) of session {self._session.id}"
        return Diverged("\n".join([f"{place} is not what was recorded for {where}:", *islice(diff, MAX_DIFF)]))


def _info(session: Session) -> ModelInfo:
    header = next((event.data.header for event in session.select(RequestHeader)), None)
    window = next((event.data.context_window for event in session.select(RequestContext)), None)
    if header is None:
        return ModelInfo("recorded", session.id, window)
    return ModelInfo(header.config.provider, header.config.model, window)


def _same_header(one: Header, other: Header) -> bool:
    return (one.config, one.system or None, one.tools or None) == (
        other.config,
        other.system or None,
        other.tools or None,
    )


def _same_messages(some: Sequence[Message], others: Sequence[Message]) -> bool:
    return len(some) == len(others) and all(
        one.role == other.role and one.content == other.content for one, other in zip(some, others, strict=True)
    )


def _lines(header: Header, messages: Iterable[Message]) -> list[str]:
    """A request in words: a line for each thing that may differ."""
    lines = [f"config {dump(header.config).decode()}"]
    lines += [f"system {line}" for line in (header.system or "").splitlines()]
    lines += [f"tool {dump(tool).decode()}" for tool in header.tools or ()]
    for number, message in enumerate(messages, 1):
        lines += [f"message {number} {message.role} {dump(block).decode()}" for block in message.content]
    return lines
