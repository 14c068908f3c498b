"""The fast path: a block of lines decoded and checked in bulk. It only ever says yes.

UTF-8, as many records as lines, seqs that count up and the surface rules of the envelope are checked with a few passes
over whole lists; payloads stay bytes. Any doubt gives None, and the block goes through the slow path, which says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from turnlog.log.event import AnyEvent, read_sources
from turnlog.log.rows import RUN_TYPES, PackedRun, Row

from .classes import LineClasses
from .packed import count_members
from .source import Block, is_utf8

_PAGE: Final = 1000
"""Seqs per page of text; a power of ten, so that all pages but the first differ in nothing but what they begin with."""

_OPEN: Final = ord("[")
_COMMA: Final = ord(",")
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

    def __init__(self, classes: LineClasses) -> None:
        self._classes = classes
        self._surface = classes.format.surface
        self._marked = self._surface | RUN_TYPES
        self._decode = classes.events.decode_lines

    def take(self, block: Block, length: int) -> Taken | None:
        """The rows of a block that follows on a log of *length* events, or None when anything is doubtful."""
        text, stored = block.text, block.stored
        if not text.endswith(b"}\n") or not (block.utf8 or is_utf8(text)):
            return None
        try:
            try:
                events = self._decode(stored)
            except msgspec.ValidationError:  # most likely the first packed row
                decoder = self._classes.lines
                return None if decoder is None else self._take_packed(block, decoder.decode_lines(stored), length)
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
        types, begin = self._marked, length
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
        members = 0  # of the rows so far
        for rows, run in enumerate([line for line in marked if line.type in RUN_TYPES]):
            seq0 = run._seq0
            count = _row_count(run)
            index = seq0 - begin - members + rows if count else -1
            if count is None or not 0 <= index < len(lines) or lines[index] is not run:
                return None
            lines[index] = PackedRun(run.type, seq0, run._time0, run._raw)
            starts[index] = seq0
            expected += range(length, seq0 + 1)
            length = seq0 + count
            members += count
        rest = range(length, length + len(lines) - len(expected))
        expected += rest
        return Taken(lines, starts, rest.stop, surfacing) if starts == expected else None


def _surfaces(line: Any, types: frozenset[str]) -> bool:
    envelope = line._seq0 is UNSET and line._time0 is UNSET and line.time is not UNSET
    return envelope and line.surface_op is not UNSET and line.type in types


def _row_count(run: Any) -> int | None:
    """How many events a packed row holds, or None when it needs a closer look."""
    if run.seq is not UNSET or run.time is not UNSET or run._seq0 is UNSET or run._time0 is UNSET:
        return None
    if run.surface_op is not UNSET or run._sources is not UNSET or run._ignorable is not UNSET:
        return None
    return count_members(run.type, run._seq0, run._time0, run._raw)


def _one_per_line(block: Block, records: int) -> bool:
    """Whether every line is one record and nothing else.

    There are as many records as lines, and each line begins with ``{`` and ends with ``}``. So no record goes on over
    a newline, for nowhere inside of JSON does ``{`` follow on ``}``; and no line lacks its record, for none is blank.
    """
    return block.framed and block.newlines == records


def plain_sources(events: list[AnyEvent]) -> list[bool]:
    """Whether the sources of each event are beyond doubt: unknown, or seqs that are not none, each once, each earlier.

    Most lists are the run of seqs before the event: an attempt's chunks, or the call of a result. Such a run is known
    by its text, which is a piece of the text of all seqs in order.
    """
    found = []
    page, width, begin, counted = -1, 0, 0, b""
    for event in events:
        stored = event._sources
        if stored is UNSET:
            found.append(True)
            continue
        seq, text = event.seq, bytes(stored) if isinstance(stored, Raw) else b""
        if seq // _PAGE != page:
            page = seq // _PAGE
            before, own = _seqs(page - 1) if page else b"", _seqs(page)
            width, begin, counted = len(own) // _PAGE, len(before), before + own
        stop = begin + seq % _PAGE * width if page else _offset(seq)
        start = stop - len(text) + 1
        run = start > 0 and counted[start:stop] == text[1:-1] + b"," and counted[start - 1] == _COMMA
        found.append((run and text[0] == _OPEN) or _is_plain(seq, text))
    return found


def _is_plain(seq: int, text: bytes) -> bool:
    if text[:1] != b"[" or text.find(b"[", 1) > 0:  # no list; or a range, which may claim more than memory holds
        return False
    sources = read_sources(Raw(text)) or ()
    return bool(sources) and min(sources) >= 0 and max(sources) < seq and len(set(sources)) == len(sources)


@lru_cache(maxsize=128)
def _seqs(page: int) -> bytes:
    """The text of the seqs of a page, each with a comma after it. Every log counts from 0, so all share the pages."""
    if not page:
        return _encode(list(range(_PAGE)))[1:-1] + b","
    first = b"," + _encode(list(range(_PAGE, 2 * _PAGE)))[1:-1]
    return first.replace(b",1", b",%d" % page)[1:] + b","


def _offset(seq: int) -> int:
    """How many bytes the text of all seqs before *seq* takes, with a comma after each."""
    digits = len(str(seq))
    shorter: int = (10**digits - 10) // 9
    return seq * (digits + 1) - shorter
