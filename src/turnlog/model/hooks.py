"""The capability hook around a model in use."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import ClassVar

from turnlog.bus import Cancellation, Waterfall
from turnlog.events import StreamChunk

from .protocol import Model
from .request import Request


@dataclass(frozen=True, slots=True)
class LlmStream(Waterfall["LlmStream", AsyncGenerator[StreamChunk, None]]):
    """A request is about to be sent; the chain gives its stream of chunks.

    A listener may look (audit), wrap the stream, or answer itself with ``stop(stream, reason=…)``. What it may not do
    is change what the model sees: the request is compared with the log right before it leaves.
    """

    wire: ClassVar[str] = "llm/stream"
    request: Request
    model: Model
    cancellation: Cancellation
