"""Walking a log row by row, so that packed runs of chunks stay packed until somebody wants their words.

Views ask most rows for their type only. One row is one event, or one packed run of many chunk events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun, Row


class SeqRange(NamedTuple):
    """Events with consecutive seqs."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """How many."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"@{self.first}" if self.first == self.last else f"@{self.first}-@{self.last}"


class Slot(NamedTuple):
    """One row and its place in the log."""

    seq: int
    """Of its first event."""
    size: int
    """How many events it holds: 1, unless it is a packed run."""
    row: Row


def slots(session: Session, first: int = 0, stop: int | None = None) -> Iterator[Slot]:
    """The rows that hold the events from *first* up to *stop*, in order. A run is given whole, even at the edges."""
    rows = session.rows
    listed = rows.rows
    if not listed:
        return
    end = rows.length if stop is None else min(stop, rows.length)
    last = len(listed) - 1
    gaps = has_gaps(session)
    for index in range(max(rows.row_index(max(first, rows.base)), 0), last + 1):
        if rows.row_start(index) >= end:
            return
        yield slot_at(session, index, gaps)


def slot_at(session: Session, index: int, gaps: bool) -> Slot:
    """The row with a number, from 0; *gaps* is what :func:`has_gaps` says."""
    rows = session.rows
    row, seq = rows.rows[index], rows.row_start(index)
    if not isinstance(row, PackedRun):
        return Slot(seq, 1, row)
    if gaps:
        return Slot(seq, len(row.unpack().members()), row)
    return Slot(seq, (rows.length if index + 1 == len(rows.rows) else rows.row_start(index + 1)) - seq, row)


def has_gaps(session: Session) -> bool:
    """Whether events are missing from the log, so that a row's seqs need not reach to the next row."""
    return any(finding.code == "seq-gap" for finding in getattr(session, "findings", ()))


def seq_ranges(session: Session) -> list[SeqRange]:
    """The seqs that the log has, in order: one range, unless it is damaged."""
    return _merged((slot.seq, slot.size) for slot in slots(session))


def ranges_of(events: Iterable[AnyEvent]) -> list[SeqRange]:
    """The seqs of some events, in order."""
    return _merged((event.seq, 1) for event in events)


def _merged(runs: Iterable[tuple[int, int]]) -> list[SeqRange]:
    found: list[SeqRange] = []
    for first, size in runs:
        if found and found[-1].last == first - 1:
            found[-1] = SeqRange(found[-1].first, first + size - 1)
        else:
            found.append(SeqRange(first, first + size - 1))
    return found


def holes(ranges: Sequence[SeqRange], base: int = 0) -> list[SeqRange]:
    """The seqs from *base* on that lie before and between *ranges*."""
    ends = [base - 1, *(one.last for one in ranges)]
    return [SeqRange(end + 1, one.first - 1) for end, one in zip(ends, ranges, strict=False) if one.first > end + 1]


def end_before(session: Session, seq: int) -> int:
    """One past the last event before *seq*: *seq* itself, unless events are missing there."""
    if not has_gaps(session):
        return seq
    rows = session.rows
    index = rows.row_index(seq - 1)
    row = rows.rows[index]
    size = len(row.unpack().members()) if isinstance(row, PackedRun) else 1
    return min(rows.row_start(index) + size, seq)


def events_of(session: Session, slot: Slot) -> list[AnyEvent]:
    """The events of a row."""
    return slot.row.events(session.rows.kind) if isinstance(slot.row, PackedRun) else [slot.row]


def time_of(row: Row) -> int:
    """When the first event of a row was logged, epoch ms."""
    return row.time0 if isinstance(row, PackedRun) else row.time


def last_time(row: Row) -> int:
    """When the last event of a row was logged, epoch ms."""
    return row.time0 + sum(row.unpack().dt) if isinstance(row, PackedRun) else row.time


def type_at(session: Session, seq: int) -> str:
    """The type of the event at *seq*, without unpacking anything."""
    rows = session.rows
    row = rows.rows[rows.row_index(seq)]
    return "assistant/chunk" if isinstance(row, PackedRun) else row.type


def has(session: Session, seq: int) -> bool:
    """Whether the log has an event at *seq* (damaged logs have gaps)."""
    rows = session.rows
    if not rows.base <= seq < rows.length or not rows.rows:
        return False
    index = rows.row_index(seq)
    row, first = rows.rows[index], rows.row_start(index)
    if isinstance(row, PackedRun):
        return not has_gaps(session) or seq < first + len(row.unpack().members())
    return seq == first


def is_live(session: Session) -> bool:
    """Whether somebody may still write to it: a session in memory, or a file whose writer lives."""
    return bool(getattr(session, "liveness", "live") == "live")


def closed(session: Session, *, as_stored: bool = False) -> tuple[AnyEvent, ...]:
    """The synthetic closers that views show after the log; none when they are to show it *as_stored*."""
    return () if as_stored else session.closers
