"""Frames, and the clock that they are played by.

A *frame* is one thing that happened: an event, or one chunk. The chunks inside an event (formats 2 to 4) come before
the event that holds them. Frames are numbered from 0 in this order, which no time changes.

Waits come from recorded times. A clock that stepped back gives no wait and goes on from there; a stream stored in a
later event overlaps what was logged meanwhile, and costs no extra time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

from turnlog.events import AssistantChunk, StreamChunk
from turnlog.log import AnyEvent
from turnlog.log.rows import PackedRun, Row

from .streams import STREAMED, TimedChunk, chunks_of, embedded

_BORDERS: Final = STREAMED | {"step/start", "llm/retry", "llm/retry-started"}
"""What stands between two requests: no gap between tokens reaches across it."""

Place: TypeAlias = tuple[int, int | None, StreamChunk | None, AnyEvent | None]
"""Seq, place inside a stream, chunk, event."""


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
    number: int = 0
    """How many frames come before it."""
    recorded_ms: int = 0
    """The recorded wait before it."""
    offset_ms: int = 0
    """The recorded waits up to it, added."""
    gap_ms: int | None = None
    """For a chunk: how long after the chunk before it in the same request; None for the first one."""
    stall_ms: int = 0
    """The same gap where it is long enough to be a stall, else 0."""
    wait_ms: float = 0.0
    """How long to wait before it is shown, after speed and idle limit."""

    @property
    def address(self) -> str:
        """``@SEQ`` or ``@SEQ/k``"""
        return f"@{self.seq}" if self.k is None else f"@{self.seq}/{self.k}"


class PlayClock:
    """The recorded time that playback has reached; moved frame by frame, or over whole rows."""

    __slots__ = ("_event", "_inside", "now", "offset", "said")

    def __init__(self) -> None:
        self.now: int | None = None
        """Epoch ms; None before the first frame."""
        self.offset = 0
        """Waits so far, added."""
        self.said: int | None = None
        """The offset at the last chunk of the request that is being answered."""
        self._event: float = float("-inf")  # time of the last event; those inside a stream have their own
        self._inside: float = float("-inf")

    def copy(self) -> PlayClock:
        """A clock that stands where this one does."""
        other = PlayClock()
        other.now, other.offset, other.said, other._event = self.now, self.offset, self.said, self._event
        return other

    def enter(self) -> None:
        """A stream inside an event begins: its times are compared with each other only."""
        self._inside = float("-inf")
        self.said = None

    def move(self, time: int, *, inside: bool = False) -> int:
        """Go to the next frame; gives the wait before it in ms."""
        before = self._inside if inside else self._event
        if inside:
            self._inside = time
        else:
            self._event = time
        now = self.now
        if now is None or time < before:  # the first frame, or the clock was set back
            self.now = time
            return 0
        if time <= now:
            return 0
        self.now = time
        self.offset += time - now
        return time - now

    def chunk(self) -> int | None:
        """The frame just reached is a chunk; gives its gap."""
        gap = None if self.said is None else self.offset - self.said
        self.said = self.offset
        return gap

    def event(self, type: str) -> None:
        """The frame just reached is an event that is no chunk."""
        if type in _BORDERS:
            self.said = None

    def over(self, row: Row) -> tuple[int, list[int]]:
        """Go over a whole row; gives the number of its frames, and the gaps before its chunks."""
        if isinstance(row, PackedRun):
            return self._over_run(row)
        if row.type == "assistant/chunk":
            self.move(row.time)
            gap = self.chunk()
            return 1, [] if gap is None else [gap]
        if row.type not in STREAMED:
            self.move(row.time)
            self.event(row.type)
            return 1, []
        return self._over_stream(row)

    def _over_run(self, row: PackedRun) -> tuple[int, list[int]]:
        data = row.unpack()
        self.move(row.time0)
        first = self.chunk()
        gaps = [] if first is None else [first]
        if data.dt and min(data.dt) >= 0 and self.now == row.time0:  # nothing overlaps it: the gaps are the waits
            total = sum(data.dt)
            self.now = row.time0 + total
            self._event = self.now
            self.offset += total
            self.said = self.offset
            return len(data.dt) + 1, [*gaps, *data.dt]
        times = accumulate(data.dt, initial=row.time0)
        next(times)
        return len(data.dt) + 1, [*gaps, *self._over_times(times, inside=False)]

    def _over_stream(self, row: AnyEvent) -> tuple[int, list[int]]:
        timed = embedded(row)
        if timed:
            self.enter()
        gaps = list(self._over_times((one.time for one in timed), inside=True))
        self.move(row.time)
        self.event(row.type)
        return len(timed) + 1, gaps

    def _over_times(self, times: Iterator[int], *, inside: bool) -> Iterator[int]:
        for time in times:
            self.move(time, inside=inside)
            gap = self.chunk()
            if gap is not None:
                yield gap


def frames_of(row: Row, clock: PlayClock, number: int) -> Iterator[Frame]:
    """The frames of one row, the first of which is *number*; *clock* goes along."""
    if isinstance(row, PackedRun) or (row.type == "assistant/chunk" and isinstance(row.data, AssistantChunk)):
        for timed in chunks_of(row):
            yield _chunk_frame(timed, clock, number)
            number += 1
        return
    if row.type == "assistant/chunk":  # one that cannot be read: it is shown as the event that it is
        wait = clock.move(row.time)
        clock.chunk()
        yield Frame(row.time, row.seq, None, None, row, number=number, recorded_ms=wait, offset_ms=clock.offset)
        return
    stream = embedded(row)
    if stream:
        clock.enter()
    for timed in stream:
        yield _chunk_frame(timed, clock, number)
        number += 1
    yield event_frame(row, clock, number)


def event_frame(event: AnyEvent, clock: PlayClock, number: int, *, synthetic: bool = False) -> Frame:
    """The frame of an event that is no chunk."""
    wait = clock.move(event.time)
    clock.event(event.type)
    return Frame(event.time, event.seq, None, None, event, synthetic, number=number, recorded_ms=wait,
                 offset_ms=clock.offset)  # fmt: skip


def _chunk_frame(timed: TimedChunk, clock: PlayClock, number: int) -> Frame:
    wait = clock.move(timed.time, inside=timed.k is not None)
    gap = clock.chunk()
    return Frame(timed.time, timed.seq, timed.k, timed.chunk, None, number=number, recorded_ms=wait,
                 offset_ms=clock.offset, gap_ms=gap)  # fmt: skip
