"""`Rows`: the events of a session, in seq order, with runs of chunks kept packed until looked into.

A stored log holds most of its events in packed rows: one row for many deltas of one block (dsh-v0 §7.3). A row is
validated when it is loaded and unpacked when one of its members is asked for. `Events` is the public face: an
immutable sequence of the first *n* events that shares the rows and never grows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any, Final, Literal, TypeAlias, overload

import msgspec
from msgspec import UNSET, Raw, Struct, field

from turnlog.events import AssistantChunk, ReasoningDelta, StreamChunk, TextDelta, ToolCallDelta
from turnlog.events.lossless import dump

from .event import AnyEvent, EventClass, SessionEvent

RUN_TYPES: Final = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})


class RunData(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a packed row holds: ``dt[k]`` is the gap in ms between members k and k+1."""

    turn: int
    step: int
    index: int
    dt: tuple[int, ...]
    texts: tuple[str, ...] | None = None
    id: str | None = None
    name: str | None = None
    args: tuple[str, ...] | None = None

    def members(self) -> tuple[str, ...]:
        """The deltas."""
        return self.args if self.texts is None else self.texts  # type: ignore[return-value]


decode_run: Final = msgspec.json.Decoder(RunData).decode


class PackedRun(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One packed row: ``count`` chunk events from ``seq0`` on, still as stored."""

    type: Literal["text-chunks", "reasoning-chunks", "tool-call-chunks"]
    seq0: int
    time0: int
    raw: Raw = field(name="data")

    def unpack(self) -> RunData:
        """Its data, decoded (lone surrogates included)."""
        try:
            return decode_run(self.raw)
        except (msgspec.MsgspecError, UnicodeError):
            from turnlog.events.lenient import convert, parse

            return convert(RunData, parse(bytes(self.raw)))  # type: ignore[no-any-return]

    def events(self, kind: EventClass) -> list[AnyEvent]:
        """Its chunk events, as instances of *kind*, typed at once. If the row holds a number that no chunk may have,
        each event says so when its data is looked at, as it would if it had been stored by itself."""
        data = self.unpack()
        typed = min(data.turn, data.step, data.index) >= 0
        make = delta_maker(self.type, data.index, data.id or "", data.name)
        times = accumulate(data.dt, initial=self.time0)
        made = []
        for offset, (time, text) in enumerate(zip(times, data.members(), strict=True)):
            payload = AssistantChunk(turn=data.turn, step=data.step, chunk=make(text))
            known = payload if typed else UNSET
            made.append(kind("assistant/chunk", self.seq0 + offset, time, Raw(dump(payload)), _data=known))
        return made


Row: TypeAlias = AnyEvent | PackedRun


def delta_maker(type: str, index: int, call_id: str, name: str | None) -> Callable[[str], StreamChunk]:
    """What makes the chunks of a packed run, or of a stream record of the same type, from their texts."""
    if type == "text-chunks":
        return lambda text: TextDelta(index, text)
    if type == "reasoning-chunks":
        return lambda text: ReasoningDelta(index, text)
    return lambda text: ToolCallDelta(index, call_id, text, name)


class Rows:
    """The growing list behind every view of a session's events."""

    __slots__ = ("_cached", "_cached_row", "_starts", "base", "kind", "length", "rows")

    def __init__(self, kind: type[AnyEvent], base: int = 0) -> None:
        self.kind: Final = kind
        """The event class of the session's vocabulary and format."""
        self.base: Final = base
        """Seq of the first row: 0, unless only the tail of a log was read."""
        self.rows: list[Row] = []
        self.length = base
        """Number of events: one more than the last seq."""
        self._starts: list[int] | None = None
        self._cached_row = -1
        self._cached: list[AnyEvent] = []

    def add(self, event: AnyEvent) -> None:
        """Append one event; the caller has checked its seq."""
        if self._starts is not None:
            self._starts.append(self.length)
        self.rows.append(event)
        self.length += 1

    def skip_to(self, seq: int) -> None:
        """Leave out the seqs up to *seq*: only for damaged logs, whose lost events nobody can give back."""
        if self._starts is None:
            self._starts = list(range(self.base, self.length))
        self.length = seq

    def extend(self, events: Sequence[Row]) -> None:
        """Append events whose seqs follow on."""
        if self._starts is not None:
            self._starts.extend(range(self.length, self.length + len(events)))
        self.rows.extend(events)
        self.length += len(events)

    def add_run(self, run: PackedRun, count: int) -> None:
        """Append a packed row of *count* events."""
        if self._starts is None:
            self._starts = list(range(self.base, self.length))
        self._starts.append(self.length)
        self.rows.append(run)
        self.length += count

    def extend_packed(self, rows: Sequence[Row], starts: list[int], length: int) -> None:
        """Append rows of which some are packed, with the first seq of each."""
        if self._starts is None:
            self._starts = list(range(self.base, self.length))
        self._starts.extend(starts)
        self.rows.extend(rows)
        self.length = length

    def row_index(self, seq: int) -> int:
        """The index of the row that holds *seq*."""
        return seq - self.base if self._starts is None else bisect_right(self._starts, seq) - 1

    def row_start(self, index: int) -> int:
        """The first seq of a row."""
        return index + self.base if self._starts is None else self._starts[index]

    def at(self, seq: int) -> AnyEvent:
        """The event at *seq*. Raises ``IndexError`` when the log does not have it."""
        index = self.row_index(seq)
        if index < 0:
            raise IndexError(f"no event @{seq}")
        row = self.rows[index]
        offset = seq - self.row_start(index)
        if isinstance(row, SessionEvent):
            if offset:
                raise IndexError(f"event @{seq} is missing from the damaged log")
            return row
        members = self._unpacked(index, row)
        if offset >= len(members):
            raise IndexError(f"event @{seq} is missing from the damaged log")
        return members[offset]

    def gather(self, seqs: Sequence[int]) -> list[AnyEvent]:
        """The events at *seqs*, which must exist and not be packed (surface events never are)."""
        starts, base = self._starts, self.base
        indexes: Iterable[int] = seqs
        if starts is not None:
            indexes = map(bisect_left, repeat(starts), seqs)  # an event's row starts with it
        elif base:
            indexes = [seq - base for seq in seqs]
        return list(map(self.rows.__getitem__, indexes))  # type: ignore[arg-type]

    def iterate(self, start: int, stop: int) -> Iterator[AnyEvent]:
        """The events from *start* up to *stop*, unpacking as it goes."""
        if start >= stop or not self.rows:
            return
        for index in range(max(self.row_index(start), 0), len(self.rows)):
            row = self.rows[index]
            first = self.row_start(index)
            if first >= stop:
                return
            if isinstance(row, SessionEvent):
                if first >= start:
                    yield row
                continue
            yield from self._unpacked(index, row)[max(start - first, 0) : stop - first]

    def _unpacked(self, index: int, run: PackedRun) -> list[AnyEvent]:
        if self._cached_row != index:
            self._cached, self._cached_row = run.events(self.kind), index
        return self._cached


class Events(Sequence[AnyEvent]):
    """An immutable view of a session's events; shares storage with the session and never grows."""

    __slots__ = ("_rows", "_start", "_stop")

    def __init__(self, rows: Rows, start: int, stop: int) -> None:
        self._rows = rows
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> AnyEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AnyEvent]: ...
    def __getitem__(self, index: int | slice) -> AnyEvent | Sequence[AnyEvent]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return Events(self._rows, self._start + start, self._start + max(start, stop))
            return tuple(self[position] for position in range(start, stop, step))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"no event at index {index} of {len(self)}")
        return self._rows.at(self._start + index)

    def __iter__(self) -> Iterator[AnyEvent]:
        return self._rows.iterate(self._start, self._stop)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(map(same_event, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} events>"


def same_event(left: Any, right: Any) -> bool:
    """Whether two events say the same at the same place: envelope and stored data, whatever was decoded."""
    if not isinstance(left, SessionEvent) or not isinstance(right, SessionEvent):
        return False
    return (left.type, left.seq, left.time, left.surface_op, left.sources, left.ignorable, left.raw) == (
        right.type, right.seq, right.time, right.surface_op, right.sources, right.ignorable, right.raw
    )  # fmt: skip
