"""`Take`: one recorded attempt of a session: where its request was made, and the chunks that answered it.

Read from events alone, for every format: where the log holds chunks they are the answer; an answer that was not
streamed (or whose stream lies inside its message) is told as one chunk per block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    BlockEnd,
    Failure,
    Finish,
    FinishAborted,
    FinishError,
    FinishStop,
    FinishToolCalls,
    LlmRetry,
    ModelSource,
    StepEnd,
    StepStart,
    StreamChunk,
    ToolCallBlock,
    TurnEnd,
    UsageChunk,
)
from turnlog.log import AnyEvent, Session


@dataclass(slots=True)
class Take:
    """One recorded attempt."""

    turn: int
    step: int
    at: int
    """How many events the log held when its request was made."""
    chunks: list[StreamChunk] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether its stream came to a finish."""
        return bool(self.chunks) and isinstance(self.chunks[-1], Finish)


def takes(session: Session) -> Iterator[Take]:
    """The attempts of *session*, in order."""
    reader = _Reader()
    for event in session.events:
        yield from reader.read(event)
    yield from reader.close()


class _Reader:
    def __init__(self) -> None:
        self._open: Take | None = None

    def read(self, event: AnyEvent) -> Iterator[Take]:
        match event.data:
            case AssistantChunk(turn=turn, step=step, chunk=chunk):
                if self._open is not None and self._open.ended:
                    yield from self.close()
                if self._open is None:
                    self._open = Take(turn, step, event.seq)
                self._open.chunks.append(chunk)
            case AssistantMessage() as message:
                if self._open is None:
                    yield Take(message.turn, message.step, event.seq, _told(message))
                yield from self.close(message)
            case LlmRetry(value=value):
                if self._open is None:
                    yield from _failed(event, value)
                yield from self.close()
            case StepStart() | StepEnd() | TurnEnd():
                yield from self.close()
            case _:
                pass

    def close(self, message: AssistantMessage | None = None) -> Iterator[Take]:
        """The open take, with an end where its stream has none."""
        take, self._open = self._open, None
        if take is None:
            return
        if not take.ended:
            stopped = message is None or message.interrupted
            failure = Failure("the recorded attempt was interrupted here", "ABORTED")
            take.chunks.append(Finish(FinishAborted(failure) if stopped else FinishStop()))
        yield take


def _told(message: AssistantMessage) -> list[StreamChunk]:
    """A whole answer as chunks."""
    blocks = message.message.content
    chunks: list[StreamChunk] = [BlockEnd(index, block) for index, block in enumerate(blocks)]
    if message.usage is not None:
        chunks.append(UsageChunk(message.usage))
    source = message.message.source
    state = source.replay_state if isinstance(source, ModelSource) else None
    calls = any(isinstance(block, ToolCallBlock) for block in blocks)
    return [*chunks, Finish(FinishToolCalls() if calls else FinishStop(), state)]


def _failed(event: AnyEvent, value: object) -> Iterator[Take]:
    """An attempt that left nothing but its ``llm/retry``."""
    if not isinstance(value, Mapping):
        return
    said = value.get("failure")
    words, code = (str(said.get(name, "")) if isinstance(said, Mapping) else "" for name in ("message", "code"))
    failure = Failure(words or "the recorded attempt failed", code or "UNKNOWN")
    turn, step = (one if isinstance(one, int) else 0 for one in (value.get("turn"), value.get("step")))
    yield Take(turn, step, event.seq, [Finish(FinishError(failure))])
