"""Playback: a session as it happened, frame by frame, each with the wait before it.

Waits come from recorded times: those of chunks, also inside embedded streams, and of events. Nothing here sleeps or
reads a clock; the caller waits as long as it is told. A clock that stepped back gives no wait and goes on from there;
a stream stored in a later event overlaps what was logged meanwhile, and costs no extra time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from turnlog.events import AssistantChunk, StreamChunk
from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun

from .resolve import Target
from .rows import Slot, closed, slots
from .streams import TimedChunk, chunks_of, embedded


@dataclass(frozen=True, slots=True)
class Frame:
    """One thing that happened: an event, or one chunk."""

    time: int
    """Epoch ms as recorded."""
    seq: int
    k: int | None
    """Place inside an embedded stream."""
    chunk: StreamChunk | None
    """The chunk; None for any other event."""
    event: AnyEvent | None
    """The event; None for chunks."""
    synthetic: bool = False
    """Whether it is a closer: nobody saw it happen."""
    cut_ms: int = 0
    """How much of the recorded wait before it was left out (idle limit)."""

    @property
    def address(self) -> str:
        """``@SEQ`` or ``@SEQ/k``"""
        return f"@{self.seq}" if self.k is None else f"@{self.seq}/{self.k}"


def playback(
    session: Session,
    *,
    speed: float = 1.0,
    start: Target | None = None,
    idle_limit_ms: float | None = None,
    as_stored: bool = False,
) -> Iterator[tuple[float, Frame]]:
    """Frames with the wait before each, in ms.

    *speed* 2 halves every wait, 0 leaves all out. From *start* on, when given; nothing is waited before the first
    frame. Recorded waits longer than *idle_limit_ms* are cut to it, and the frame after says by how much.
    Raises ``ValueError`` for a negative or undefined speed or limit.
    """
    if not speed >= 0 or not (idle_limit_ms is None or idle_limit_ms >= 0):
        raise ValueError("speed and idle limit are numbers from 0 on")
    return _paced(session, speed, start, math.inf if idle_limit_ms is None else idle_limit_ms, as_stored)


def _paced(
    session: Session, speed: float, start: Target | None, limit: float, as_stored: bool
) -> Iterator[tuple[float, Frame]]:
    clock: int | None = None
    before = {True: -math.inf, False: -math.inf}  # last time inside the stream being played; of the last event
    stream = None
    for frame in _frames(session, start, as_stored):
        inside = frame.k is not None
        if inside and frame.seq != stream:
            before[True], stream = -math.inf, frame.seq
        wait = 0
        if clock is None or frame.time < before[inside]:  # the first frame, or the clock was set back
            clock = frame.time
        elif frame.time > clock:
            wait, clock = frame.time - clock, frame.time
        before[inside] = frame.time
        if wait > limit:
            frame, wait = replace(frame, cut_ms=round(wait - limit)), round(limit)
        yield (wait / speed if speed else 0.0), frame


def _frames(session: Session, start: Target | None, as_stored: bool) -> Iterator[Frame]:
    first = 0 if start is None else start.first
    for slot in slots(session, first):
        for frame in _of_slot(slot):
            if start is None or (frame.seq >= first and not _before(frame, start)):
                yield frame
    for event in closed(session, as_stored=as_stored):
        yield Frame(event.time, event.seq, None, None, event, synthetic=True)


def _before(frame: Frame, start: Target) -> bool:
    """Whether a chunk of the event where playback starts comes before the chunk where it starts."""
    return frame.seq == start.first and start.k is not None and frame.k is not None and frame.k < start.k


def _of_slot(slot: Slot) -> Iterator[Frame]:
    row = slot.row
    if isinstance(row, PackedRun) or (row.type == "assistant/chunk" and isinstance(row.data, AssistantChunk)):
        yield from map(_chunk_frame, chunks_of(row))
        return
    yield from map(_chunk_frame, embedded(row))
    yield Frame(row.time, row.seq, None, None, row)


def _chunk_frame(timed: TimedChunk) -> Frame:
    return Frame(timed.time, timed.seq, timed.k, timed.chunk, None)
