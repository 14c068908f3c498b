"""The seam to providers: one async stream of chunks for a request."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from turnlog.events import StreamChunk

from .request import Request


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What an adapter knows of its route."""

    provider: str
    model: str
    context_window: int | None = None
    """Tokens; None when the route does not say."""
    max_tokens: int | None = None
    """What the adapter asks for when nobody says (logged as an adapter default); None leaves it to the provider."""
    reasoning_effort: str | None = None
    """Likewise."""
    streams: bool = True
    """False for a route asked without streaming: its chunks are assembled but not logged, the message cites none."""


@runtime_checkable
class Model(Protocol):
    """A provider's model, a scripted one, a recorded one: anything that streams chunks for a request."""

    @property
    def info(self) -> ModelInfo:
        """Its route."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[StreamChunk, None]:
        """The answer, chunk by chunk, ending with a ``Finish``.

        A failure is the last chunk (``Finish(FinishError(failure))``), not an exception. What is raised nevertheless
        is logged as a failure with the code ``UNKNOWN``, a stream that ends without ``Finish`` as ``STREAM_CLOSED``.
        Cancelling, or closing the generator early, closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections. Idempotent."""
        ...
