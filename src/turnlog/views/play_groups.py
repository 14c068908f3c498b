"""Granularity: which frames are shown together.

Grouping never leaves out or reorders frames. A *block* is what one block of an answer says in a row; a *step* reaches
from its start to its end, a *turn* likewise. What lies outside of such a part is a group of its own, frame by frame.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

from turnlog.events import BlockStart, ReasoningDelta, StreamChunk, TextDelta, ToolCallDelta
from turnlog.log import AnyEvent, Session

from .index import index_of
from .play_frames import Frame
from .rows import end_before

Granularity: TypeAlias = Literal["token", "block", "step", "turn"]
GRANULARITIES: Final[tuple[Granularity, ...]] = get_args(Granularity)

_DELTAS: Final = (TextDelta, ReasoningDelta, ToolCallDelta)


def same_block(frame: Frame, following: Frame) -> bool:
    """Whether two frames, one right after the other, belong to one block."""
    before, after = frame.chunk, following.chunk
    if before is None or after is None or isinstance(after, BlockStart):
        return False
    index = _index(before)
    if index is None or index != _index(after):
        return False
    return not (isinstance(before, _DELTAS) and isinstance(after, _DELTAS) and type(before) is not type(after))


def _index(chunk: StreamChunk) -> int | None:
    return getattr(chunk, "index", None)


class Part:
    """The turn or step that a frame lies in, as far as it reaches."""

    def __init__(self, session: Session, closers: Sequence[AnyEvent], kind: Literal["step", "turn"]) -> None:
        self._session = session
        self._closers = closers
        self._start, self._end = f"{kind}/start", f"{kind}/end"
        index = index_of(session)
        self._edges = index.step_edges if kind == "step" else index.turn_edges

    def bounds(self, seq: int) -> tuple[int, int | None] | None:
        """First and last seq of the part that the event at *seq* lies in; the last is None while it has no end. None
        where it lies in none."""
        edges = self._edges
        length = len(self._session)
        at = bisect_right(edges, seq) - 1
        if at < 0:
            return None
        first = edges[at]
        if self._type(first) == self._end:
            if seq != first or at == 0 or self._type(edges[at - 1]) != self._start:
                return None
            return edges[at - 1], first
        if at + 1 < len(edges):
            following = edges[at + 1]
            ended = self._type(following) == self._end
            return first, following if ended else end_before(self._session, following) - 1
        closing = next((event.seq for event in self._closers if event.type == self._end), None)
        if closing is None:
            return first, None
        return (first, closing) if seq < length or seq <= closing else None

    def _type(self, seq: int) -> str:
        return self._session.event(seq).type
