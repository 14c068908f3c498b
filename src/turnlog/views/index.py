"""`Index`: what a session's log says about itself, gathered once and carried on as the log grows.

One pass over the rows, packed runs left packed: who cites whom, where steps begin, where requests left, which events
take part in calls. Every question of :mod:`turnlog.views.trace` is then answered by looking up.

A *request point* is the seq of the first thing a model answered with: the model was sent the messages that the surface
showed when the log held the events before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import UNSET

from turnlog.log import AnyEvent, Replace, Session
from turnlog.log.rows import RUN_TYPES, PackedRun

if TYPE_CHECKING:
    from .naming import Naming

_STREAM: Final = RUN_TYPES | {"assistant/chunk"}
_PARTS: Final = frozenset({"assistant/message", "tool/call", "tool/result"})
_RETRIES: Final = frozenset({"llm/retry", "llm/retry-started"})
_TURNS: Final = frozenset({"turn/start", "turn/end"})
_SILENT: Final = frozenset({"user/message", "request/context", "system/message",
                            "agent/inbox/spliced", "session/title"})  # fmt: skip
"""Types that never name a call from outside its step."""


class Run(NamedTuple):
    """Consecutive seqs that one event cites."""

    first: int
    last: int
    by: int


class Index:
    """The index of one session; :func:`index_of` gives it, up to date."""

    def __init__(self) -> None:
        self.turn_edges: Final[list[int]] = []
        """Seqs of every ``turn/start`` and ``turn/end``."""
        self.step_edges: Final[list[int]] = []
        """Seqs of every ``step/start`` and ``step/end``."""
        self.steps: Final[list[int]] = []
        """Seqs of every ``step/start``."""
        self.points: Final[list[int]] = []
        """Request points."""
        self.headers: Final[list[int]] = []
        """Seqs of every ``request/header``."""
        self.surface: Final[list[int]] = []
        """Seqs of every event that is or was on the surface."""
        self.parts: Final[list[int]] = []
        """Seqs of messages, calls and results, which make up calls."""
        self.others: Final[list[int]] = []
        """Seqs of events that may be about a call though they are no part of it."""
        self.naming: Naming | None = None
        """Kept here for :func:`turnlog.views.naming.naming_of`."""
        self._single: dict[int, list[int]] = {}
        self._runs: list[Run] = []
        self._reach: list[int] | None = None  # the furthest end of the runs up to each
        self._escaped: set[int] = set()
        self._escapes_of = 0  # how many of the parts were looked at
        self._rows = 0
        self._waiting = True

    def catch_up(self, session: Session) -> None:
        """Take in what the log has more than when it was last asked."""
        rows = session.rows
        listed = rows.rows
        for place in range(self._rows, len(listed)):
            row = listed[place]
            type = row.type
            if type in _STREAM:
                if self._waiting:
                    self.points.append(rows.row_start(place))
                    self._waiting = False
            elif not isinstance(row, PackedRun):
                self._read(row, type)
        self._rows = len(listed)

    def _read(self, event: AnyEvent, type: str) -> None:
        seq = event.seq
        if type in _PARTS:
            self.parts.append(seq)
        elif type == "step/start":
            self.steps.append(seq)
            self.step_edges.append(seq)
            self._waiting = True
        elif type == "step/end":
            self.step_edges.append(seq)
        elif type in _TURNS:
            self.turn_edges.append(seq)
        elif type in _RETRIES:
            self._waiting = True
        elif type == "request/header":
            self.headers.append(seq)
        elif type not in _SILENT and type != "assistant/attempt":
            self.others.append(seq)
        if type in ("assistant/message", "assistant/attempt") and not isinstance(event.surface_op, Replace):
            if self._waiting:
                self.points.append(seq)
            self._waiting = True
        if event.surface_op is not UNSET:
            self.surface.append(seq)
        sources = event.sources
        if sources is not None:
            self._cites(seq, sources)

    def _cites(self, seq: int, sources: tuple[int, ...]) -> None:
        for first, last in runs_of(sources):
            if first == last:
                self._single.setdefault(first, []).append(seq)
            else:
                insort(self._runs, Run(first, last, seq))
                self._reach = None

    def escaped(self, session: Session) -> AbstractSet[int]:
        """Those of :attr:`parts` whose stored text has an escaped character, so that an id may be hidden in it.

        Looking for one costs more than looking for an id, so it is done once and when first asked for.
        """
        new = session.rows.gather(self.parts[self._escapes_of :])
        self._escapes_of = len(self.parts)
        self._escaped.update(one.seq for one in new if b"\\u" in one.raw)
        return self._escaped

    # -- asking -------------------------------------------------------------------------------------------------

    def cited_by(self, seq: int) -> list[int]:
        """The events that cite *seq*, in order."""
        found = list(self._single.get(seq, ()))
        if self._reach is None:
            self._reach = _reach(self._runs)
        at = bisect_right(self._runs, (seq, _FAR, _FAR)) - 1
        while at >= 0 and self._reach[at] >= seq:
            if self._runs[at].last >= seq:
                found.append(self._runs[at].by)
            at -= 1
        return sorted(found)

    def point_of(self, seq: int) -> int | None:
        """The request that what stands at *seq* was answered with, by its point."""
        at = bisect_right(self.points, seq) - 1
        return None if at < 0 else self.points[at]

    def points_between(self, after: int, until: int | None) -> tuple[int, int]:
        """Which request points lie after *after* and not after *until*, as a half-open range of their places."""
        return bisect_right(self.points, after), len(self.points) if until is None else bisect_right(self.points, until)

    def step_start(self, seq: int) -> int | None:
        """The ``step/start`` at or before *seq*."""
        at = bisect_right(self.steps, seq) - 1
        return None if at < 0 else self.steps[at]

    def parts_between(self, first: int, stop: int) -> Sequence[int]:
        """Messages, calls and results from *first* up to *stop*."""
        return self.parts[bisect_left(self.parts, first) : bisect_left(self.parts, stop)]

    def parts_of_step(self, seq: int) -> Sequence[int]:
        """Messages, calls and results between the step start before *seq* and the next one."""
        at = bisect_right(self.steps, seq)
        first = self.steps[at - 1] if at else 0
        low = bisect_left(self.parts, first)
        return self.parts[low : bisect_left(self.parts, self.steps[at])] if at < len(self.steps) else self.parts[low:]

    def header_before(self, seq: int) -> int | None:
        """The last ``request/header`` before *seq*."""
        at = bisect_left(self.headers, seq) - 1
        return None if at < 0 else self.headers[at]


_FAR: Final = 1 << 60


def _reach(runs: Sequence[Run]) -> list[int]:
    found: list[int] = []
    furthest = -1
    for run in runs:
        furthest = max(furthest, run.last)
        found.append(furthest)
    return found


def runs_of(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The runs of consecutive numbers in *seqs*, first and last of each; their order does not matter."""
    if not seqs:
        return
    first, last = seqs[0], seqs[-1]
    if last - first == len(seqs) - 1 and seqs == tuple(range(first, last + 1)):  # nearly every answer
        yield first, last
        return
    listed = sorted(set(seqs))
    first = last = listed[0]
    for seq in listed[1:]:
        if seq != last + 1:
            yield first, last
            first = seq
        last = seq
    yield first, last


_indexes: Final[WeakKeyDictionary[Session, Index]] = WeakKeyDictionary()
"""A cache and no state: an index says nothing that its session does not say. It lies here because a session knows no
views, and goes when its session does."""


def index_of(session: Session) -> Index:
    """The index of *session*, up to date: made when first asked for, then carried on at the cost of what is new."""
    found = _indexes.get(session)
    if found is None:
        found = _indexes[session] = Index()
    found.catch_up(session)
    return found
