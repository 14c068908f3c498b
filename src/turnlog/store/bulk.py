"""The fast path: a block of lines decoded and checked in bulk. It only ever says yes.

UTF-8, as many records as lines, seqs that count up and the surface rules of the envelope are checked with a few passes
over whole lists; payloads stay bytes. Any doubt gives None, and the block goes through the slow path, which says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from turnlog.log.event import AnyEvent, event_decoder, line_class, read_sources
from turnlog.log.rows import RUN_TYPES, PackedRun, Row

from .formats import Format
from .packed import count_members
from .source import Block, is_utf8

_BETWEEN: Final = b'}\n{"type":"'
"""The end of a record and the beginning of the next."""

_PAGE: Final = 4096
"""Seqs per page of ``PlainSources``."""

_encode: Final = msgspec.json.Encoder().encode


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
        self._surface = format.surface
        self._marked = format.surface | RUN_TYPES
        self._decode = event_decoder(kind).decode_lines
        self._decode_any = event_decoder(line_class(kind, RUN_TYPES)).decode_lines if format.packed else None

    def take(self, block: Block, length: int) -> Taken | None:
        """The rows of a block that follows on a log of *length* events, or None when anything is doubtful."""
        text = block.text
        if not text.endswith(b"}\n") or not (block.utf8 or is_utf8(text)):
            return None
        try:
            try:
                events = self._decode(text)
            except msgspec.ValidationError:  # most likely the first packed row
                return None if self._decode_any is None else self._take_packed(block, self._decode_any(text), length)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        if not _one_per_line(block, len(events)):
            return None
        if [event.seq for event in events] != list(range(length, length + len(events))):
            return None
        types = self._surface
        marked = [
            event for event in events
            if event.type in types or event.surface_op is not UNSET or event._sources is not UNSET
        ]  # fmt: skip
        if not all(event.surface_op is not UNSET and event.type in types for event in marked):
            return None
        return Taken(events, None, length + len(events), marked)

    def _take_packed(self, block: Block, lines: list[Any], length: int) -> Taken | None:
        """The same for a block with packed rows; *lines* are events and rows alike, and become the rows kept."""
        types = self._marked
        marked = [
            line for line in lines
            if line.type in types or line.surface_op is not UNSET or line._sources is not UNSET
            or line._seq0 is not UNSET or line._time0 is not UNSET or line.time is UNSET
        ]  # fmt: skip
        surfacing = [line for line in marked if line.type not in RUN_TYPES]
        if not all(_surfaces(line, self._surface) for line in surfacing) or not _one_per_line(block, len(lines)):
            return None
        starts = [line.seq for line in lines]
        expected: list[int] = []
        for index in [index for index, seq in enumerate(starts) if seq is UNSET]:
            between = range(length, length + index - len(expected))
            expected += between
            length = between.stop
            run = lines[index]
            count = _row_count(run, length)
            if count is None:
                return None
            lines[index] = PackedRun(run.type, run._seq0, run._time0, run._raw)
            starts[index] = run._seq0
            expected.append(length)
            length += count
        rest = range(length, length + len(lines) - len(expected))
        expected += rest
        return Taken(lines, starts, rest.stop, surfacing) if starts == expected else None


def _surfaces(line: Any, types: frozenset[str]) -> bool:
    envelope = line._seq0 is UNSET and line._time0 is UNSET and line.time is not UNSET
    return envelope and line.surface_op is not UNSET and line.type in types


def _row_count(run: Any, length: int) -> int | None:
    """How many events a packed row at *length* holds, or None when it needs a closer look."""
    bare = run.surface_op is UNSET and run._sources is UNSET and run._ignorable is UNSET and run.time is UNSET
    if not bare or run._seq0 != length or run._time0 is UNSET or run.type not in RUN_TYPES:
        return None
    return count_members(run.type, run._seq0, run._time0, run._raw)


def _one_per_line(block: Block, records: int) -> bool:
    """Whether every line is one record that begins as writers begin them: there are as many records as lines, and no
    newline but where one record ends and the next begins, which is no place inside of a record."""
    return block.newlines == records == block.text.count(_BETWEEN) + 1


class PlainSources:
    """Tells source lists that are beyond doubt: non-empty, only seqs, unique, earlier.

    Most lists are the run of an attempt's chunks, one seq after the other. Such a run is known by its text: it is a
    piece of the text of all seqs in order, which is kept in pages.
    """

    def __init__(self) -> None:
        self._pages: dict[int, tuple[int, bytes]] = {}

    def __call__(self, seq: int, stored: Any) -> bool:
        """Whether *stored*, the sources of the event at *seq*, needs no closer look."""
        if not isinstance(stored, Raw):
            return False
        text = bytes(stored)
        if text[:1] != b"[":  # no list at all
            return False
        comma = text.find(b",")
        try:
            first = int(text[1:comma])
        except ValueError:
            return False
        if comma < 0:
            return 0 <= first < seq
        if first >= 0 and self._is_run(text, first, seq):
            return True
        if text.find(b"[", 1) > 0:  # a range, which may claim more seqs than memory holds
            return False
        sources = read_sources(stored) or ()
        return bool(sources) and min(sources) >= 0 and max(sources) < seq and len(set(sources)) == len(sources)

    def _is_run(self, text: bytes, first: int, seq: int) -> bool:
        width, page = self._pages.get(first // _PAGE) or self._make(first // _PAGE)
        if not width or first + (len(text) - 1) // width > seq:
            return False
        start = first % _PAGE * width
        return page[start : start + len(text) - 2] == text[1:-1]

    def _make(self, number: int) -> tuple[int, bytes]:
        """The text of a page of seqs and how many bytes each takes; 0 where they are not of one width."""
        first, last = number * _PAGE, number * _PAGE + _PAGE - 1
        width = len(str(first)) + 1
        same = len(str(last)) + 1 == width
        self._pages[number] = (width, _encode(list(range(first, last + 1)))[1:-1]) if same else (0, b"")
        return self._pages[number]
