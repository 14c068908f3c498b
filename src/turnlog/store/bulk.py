"""The fast path: a block of lines decoded and checked in bulk. It only ever says yes.

UTF-8, one event or packed row per line, seqs that count up, and the surface rules of the envelope are checked with a
few passes over whole lists; payloads stay bytes. Any doubt gives None, and the block goes through the slow path,
which says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from turnlog.log.event import AnyEvent, event_decoder
from turnlog.log.rows import PackedRun, Row

from .formats import Format
from .packed import ROW_PREFIXES, decode_rows
from .source import Block


class Taken(NamedTuple):
    """A block beyond doubt."""

    rows: Sequence[Row]
    starts: list[int] | None
    """First seq of each row, or None when every row is one event."""
    length: int
    """Length of the log with these rows."""
    surfacing: list[AnyEvent]
    """The events among them that join the surface; their place is not checked yet."""


class Bulk:
    """Takes blocks of one log."""

    def __init__(self, format: Format, kind: type[AnyEvent]) -> None:
        self._packed = format.packed
        self._surface = format.surface
        self._decode = event_decoder(kind).decode

    def take(self, block: Block, length: int) -> Taken | None:
        """The rows of a block that follows on a log of *length* events, or None when anything is doubtful."""
        lines = block.lines
        if lines[0].endswith(b"\r\n") or not lines[-1].endswith(b"\n") or not (block.utf8 or _are_utf8(lines)):
            return None
        try:
            events = list(map(self._decode, lines))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return self._take_packed(lines, length) if self._packed else None  # most likely the first packed row
        if [event.seq for event in events] != list(range(length, length + len(events))):
            return None
        surfacing = self._surfacing(events)
        return None if surfacing is None else Taken(events, None, length + len(events), surfacing)

    def _take_packed(self, lines: list[bytes], length: int) -> Taken | None:
        packed = [index for index, line in enumerate(lines) if line.startswith(ROW_PREFIXES)]
        plain: list[bytes] = []
        after = 0
        for index in packed:
            plain += lines[after:index]
            after = index + 1
        plain += lines[after:]
        try:
            runs = decode_rows([lines[index] for index in packed])
            events = list(map(self._decode, plain))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        surfacing = self._surfacing(events)
        if runs is None or surfacing is None:
            return None
        return _merge(packed, runs, events, length, surfacing)

    def _surfacing(self, events: list[AnyEvent]) -> list[AnyEvent] | None:
        """The surface events among *events*, or None when an envelope breaks a surface rule."""
        types = self._surface
        marked = [
            event for event in events
            if event.type in types or event.surface_op is not UNSET or event._sources is not UNSET
        ]  # fmt: skip
        sound = all(event.surface_op is not UNSET and event.type in types for event in marked)
        return marked if sound else None


def _merge(
    packed: list[int],
    runs: list[tuple[PackedRun, int]],
    events: list[AnyEvent],
    length: int,
    surfacing: list[AnyEvent],
) -> Taken | None:
    """Rows in file order, or None where a seq does not follow.

    *packed* are the line numbers of the runs; between two of them the seqs of the events must count up.
    """
    rows: list[Row] = []
    starts: list[int] = []
    seqs: list[int] = []
    taken = 0
    for line, (run, count) in zip(packed, runs, strict=True):
        between = line - len(rows)
        rows += events[taken : taken + between]
        following = range(length, length + between)
        starts += following
        seqs += following
        length += between
        if run.seq0 != length:
            return None
        rows.append(run)
        starts.append(length)
        length += count
        taken += between
    rest = range(length, length + len(events) - taken)
    if [event.seq for event in events] != [*seqs, *rest]:
        return None
    return Taken([*rows, *events[taken:]], [*starts, *rest], rest.stop, surfacing)


def plain_sources(seq: int, sources: Any) -> bool:
    """Whether a source list is beyond doubt: non-empty, only seqs, unique, earlier. Most lists are one run."""
    try:
        if not sources or not 0 <= sources[0] <= sources[-1] < seq:
            return False
        if sources == tuple(range(sources[0], sources[-1] + 1)):
            return True
        return min(sources) >= 0 and max(sources) < seq and len(set(sources)) == len(sources)
    except TypeError:  # ranges
        return False


def _are_utf8(lines: list[bytes]) -> bool:
    """Whether whole lines are UTF-8. Most are ASCII, which is known at memory speed; only others are decoded."""
    try:
        for line in [line for line in lines if not line.isascii()]:
            line.decode()
    except UnicodeDecodeError:
        return False
    return True
