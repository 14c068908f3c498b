"""`Attempt`: one request to the model, with its stream, cost and outcome, the same for every format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    Failure,
    OpaquePayload,
    ReasoningDelta,
    StreamChunk,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    UsageChunk,
    is_token,
    thaw,
)
from turnlog.events.lenient import Mismatch, convert
from turnlog.log import AnyEvent
from turnlog.log.rows import PackedRun

from .rows import Slot
from .streams import TimedChunk, chunks_of, embedded

Outcome: TypeAlias = Literal["completed", "failed", "cancelled", "interrupted", "running"]
"""``interrupted``: the writer died. ``running``: it lives, and the attempt is not over."""


@dataclass(frozen=True)
class Attempt:
    """One request to the model."""

    turn: int
    step: int
    number: int
    """1 for the first attempt of its step."""
    started: int
    """Epoch ms of the last thing logged before the request: the log does not say when it left."""
    outcome: Outcome
    event: AnyEvent | None = None
    """The event that settled it: ``assistant/message``, ``assistant/attempt``, or None."""
    failure: Failure | None = None
    retry: AnyEvent | None = None
    """The ``llm/retry`` that another attempt followed."""
    synthetic: bool = False
    """Whether its message is a closer: not in the log, made from the chunks of a writer that died."""
    parts: tuple[Slot, ...] = field(default=(), repr=False)
    cited: frozenset[int] | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """``t3.s2.a1``"""
        return f"t{self.turn}.s{self.step}.a{self.number}"

    @property
    def message(self) -> AnyEvent | None:
        """Its ``assistant/message``, if it came to one."""
        return self.event if self.event is not None and self.event.type == "assistant/message" else None

    @cached_property
    def chunks(self) -> tuple[TimedChunk, ...]:
        """Its stream, chunk by chunk; empty when the answer was not streamed."""
        return tuple(self._stream())

    @property
    def argument_chunks(self) -> Iterator[TimedChunk]:
        """The argument deltas of its stream; runs of words stay packed."""
        for part in self.parts:
            if not isinstance(part.row, PackedRun) or part.row.type == "tool-call-chunks":
                yield from (one for one in chunks_of(part.row) if _is_argument(one) and self._mine(one.seq))
        yield from filter(_is_argument, self._embedded)

    @cached_property
    def usage(self) -> TokenUsage | None:
        """What it cost: the last figure of its stream, else that of the event that settled it; never both."""
        usage: TokenUsage | None = None
        for chunk in self._singles():
            if isinstance(chunk, UsageChunk):
                usage = chunk.usage
        if usage is not None:
            return usage
        message = self.message
        if message is not None and isinstance(message.data, AssistantMessage):
            return message.data.usage
        return _usage_of(self.event)

    @cached_property
    def first_token_ms(self) -> int | None:
        """From :attr:`started` to the first chunk that shows something of the answer; never negative."""
        first = next((timed for timed in self._stream() if is_token(timed.chunk)), None)
        return None if first is None else max(first.time - self.started, 0)

    @property
    def ended(self) -> int:
        """Epoch ms of its last chunk, or of the event that settled it when nothing was streamed."""
        if self._embedded:
            return self._embedded[-1].time
        for part in reversed(self.parts):
            for timed in reversed(tuple(chunks_of(part.row))):
                if self._mine(timed.seq):
                    return timed.time
        return self.started if self.event is None or self.synthetic else self.event.time

    @property
    def duration_ms(self) -> int:
        """From :attr:`started` to :attr:`ended`; never negative."""
        return max(self.ended - self.started, 0)

    @property
    def text(self) -> str:
        """The visible text that was streamed."""
        return "".join(timed.chunk.text for timed in self.chunks if isinstance(timed.chunk, TextDelta))

    @property
    def reasoning(self) -> str:
        """The reasoning that was streamed."""
        return "".join(timed.chunk.text for timed in self.chunks if isinstance(timed.chunk, ReasoningDelta))

    @property
    def seqs(self) -> tuple[int, ...]:
        """Its events in the log, in order; for a request that failed before its first chunk, the ``llm/retry``."""
        found = [seq for part in self.parts for seq in range(part.seq, part.seq + part.size) if self._mine(seq)]
        found += [] if self.event is None or self.synthetic else [self.event.seq]
        return tuple(sorted(found) or ([] if self.retry is None else [self.retry.seq]))

    def _mine(self, seq: int) -> bool:
        return self.cited is None or seq in self.cited

    def _stream(self) -> Iterator[TimedChunk]:
        for part in self.parts:
            yield from (timed for timed in chunks_of(part.row) if self._mine(timed.seq))
        yield from self._embedded

    @cached_property
    def _embedded(self) -> tuple[TimedChunk, ...]:
        return () if self.event is None else embedded(self.event)

    def _singles(self) -> Iterator[StreamChunk]:
        """The chunks that are never packed (usage and finish among them), so that runs stay packed."""
        for part in self.parts:
            if self._mine(part.seq) and (chunk := single_chunk(part)) is not None:
                yield chunk
        yield from (timed.chunk for timed in self._embedded)


def _is_argument(timed: TimedChunk) -> bool:
    return isinstance(timed.chunk, ToolCallDelta)


def single_chunk(slot: Slot) -> StreamChunk | None:
    """The chunk of a row that is one chunk event."""
    row = slot.row
    return row.data.chunk if not isinstance(row, PackedRun) and isinstance(row.data, AssistantChunk) else None


def _usage_of(event: AnyEvent | None) -> TokenUsage | None:
    """The figure that an ``assistant/attempt`` carries beside its stream."""
    value = event.data.value if event is not None and isinstance(event.data, OpaquePayload) else None
    try:
        return convert(TokenUsage, thaw(value["usage"])) if isinstance(value, Mapping) and "usage" in value else None
    except Mismatch:
        return None
