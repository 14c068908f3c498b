"""`Timeline`: the frames of a session by number, found without playing what lies before them.

Every so many rows, or frames, a *mark* says how many frames come before and where the clock stood. To find a frame is a
binary search among the marks and a walk over the rows behind one, so it costs O(log n); only an event that holds a
stream is decoded whole, for its chunks are in one piece of JSON. The marks are made when a timeline is first asked for,
in one pass over the rows, and carried on as the log grows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from turnlog.log import Session
from turnlog.log.rows import PackedRun

from .play_frames import Frame, PlayClock, frames_of
from .rows import SeqRange

STRIDE: Final = 32
"""Rows from one mark to the next: enough that marks are few, few enough that a walk is short."""
SPREAD: Final = 1024
"""Frames from one mark to the next, unless a single row has more: a walk decodes them to know their times."""
_TALLY: Final = 1 << 16
"""Gaps counted at once, which is faster than one by one."""
SHARE: Final = 0.99
"""A gap that is longer than this share of all gaps is out of the ordinary."""


class _Mark(NamedTuple):
    place: int
    """Rows before."""
    number: int
    """Frames before."""
    clock: PlayClock


class Timeline:
    """The frames that a session's log holds; closers are none of them. :func:`timeline_of` gives it."""

    def __init__(self, session: Session) -> None:
        self._log = session.rows
        self._marks: list[_Mark] = []
        self._numbers: list[int] = []  # of the marks, for searching
        self._places: list[int] = []
        self._clock = PlayClock()
        self._rows = 0
        self._gaps: Counter[int] = Counter()
        self._usual: tuple[int, int] = (0, 0)  # how many gaps there were, and what 99 % of them do not exceed
        self.frames = 0
        """How many there are."""

    def __len__(self) -> int:
        return self.frames

    def catch_up(self) -> None:
        """Take in what the log has more than when it was last asked."""
        listed, clock, gaps = self._log.rows, self._clock, self._gaps
        if self._rows == len(listed):
            return
        fresh: list[int] = []
        frames, last = self.frames, self._marks[-1] if self._marks else _Mark(-STRIDE, 0, clock)
        for place in range(self._rows, len(listed)):
            if place - last.place >= STRIDE or frames - last.number >= SPREAD:
                last = _Mark(place, frames, clock.copy())
                self._marks.append(last)
                self._numbers.append(frames)
                self._places.append(place)
            count, found = clock.over(listed[place])
            frames += count
            fresh += found
            if len(fresh) > _TALLY:
                gaps.update(fresh)
                fresh.clear()
        gaps.update(fresh)
        self._rows, self.frames = len(listed), frames

    def walk(self, number: int) -> Iterator[Frame]:
        """The frames from *number* on, up to what has been taken in when they run out."""
        if not 0 <= number < self.frames:
            return
        place, first, clock = self._row_of(number)
        while place < self._rows:
            row = self._log.rows[place]
            for frame in frames_of(row, clock, first):
                if frame.number >= number:
                    yield frame
                first = frame.number + 1
            place += 1

    def clock_at_end(self) -> PlayClock:
        """The clock behind the last frame."""
        return self._clock.copy()

    def range_of(self, seq: int) -> SeqRange:
        """The numbers of the first and the last frame of the event at *seq*, or of the first event after it where the
        log has lost it; behind the last frame where there is none."""
        rows = self._log
        place = max(rows.row_index(max(seq, rows.base)), 0) if rows.rows else self._rows
        if place >= self._rows:
            return SeqRange(self.frames, self.frames)
        first, clock = self._to_row(place)
        row, start = rows.rows[place], rows.row_start(place)
        count = clock.over(row)[0]
        if seq > start and (not isinstance(row, PackedRun) or seq - start >= count):
            return self.range_of(rows.row_start(place + 1)) if place + 1 < self._rows else SeqRange(
                self.frames, self.frames)  # fmt: skip
        if isinstance(row, PackedRun):
            number = first + max(seq - start, 0)
            return SeqRange(number, number)
        return SeqRange(first, first + count - 1)

    def usual_gap(self) -> int:
        """What 99 % of the gaps between the chunks of one request do not exceed, ms; 0 where there are none."""
        total = self._gaps.total()
        if total != self._usual[0]:
            self._usual = total, _at_share(self._gaps, total)
        return self._usual[1]

    def _row_of(self, number: int) -> tuple[int, int, PlayClock]:
        """The row that holds a frame, the number of its first frame, and the clock before it."""
        place, first, clock = self._marks[bisect_right(self._numbers, number) - 1]
        clock = clock.copy()
        while True:
            before = clock.copy()
            count = clock.over(self._log.rows[place])[0]
            if first + count > number:
                return place, first, before
            place, first = place + 1, first + count

    def _to_row(self, place: int) -> tuple[int, PlayClock]:
        """The number of the first frame of a row, and the clock before it."""
        begin, first, clock = self._marks[bisect_right(self._places, place) - 1]
        clock = clock.copy()
        for row in self._log.rows[begin:place]:
            first += clock.over(row)[0]
        return first, clock


def _at_share(gaps: Counter[int], total: int) -> int:
    """The smallest gap that at least the share of all gaps does not exceed."""
    seen = 0
    for gap in sorted(gaps):
        seen += gaps[gap]
        if seen >= SHARE * total:
            return gap
    return 0


_timelines: Final[WeakKeyDictionary[Session, Timeline]] = WeakKeyDictionary()
"""A cache and no state, as the indexes of :mod:`turnlog.views.index`: it goes when its session does."""


def timeline_of(session: Session) -> Timeline:
    """The timeline of *session*, up to date."""
    found = _timelines.get(session)
    if found is None:
        found = _timelines[session] = Timeline(session)
    found.catch_up()
    return found
