"""Opening a log at its tail: the header and the last events, without reading what lies between.

Plain logs are read backwards in whole lines. Of a compressed log the last frames are read: a place that looks like
the beginning of a frame only counts when the frames from there on lead to the end and verify their checksums. Where
anything is not as it should be, the log is read from the front, which says what it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

from turnlog.events import Vocabulary
from turnlog.events.lenient import parse
from turnlog.log import Events, SessionHeader
from turnlog.log.event import AnyEvent
from turnlog.log.rows import PackedRun, Rows

from .classes import line_classes
from .discover import first_line
from .formats import FORMATS
from .frames import MAGIC, Decompressor, frame_at, later_frame
from .header import HeaderRefused, read_header
from .lines import Fault, LineReader, Unknown
from .load import load, locate
from .read import is_torn
from .source import split_lines

_WINDOW: Final = 64 << 10
"""Bytes read from the end at first; doubled until they hold enough."""


@dataclass(frozen=True)
class Tail:
    """The end of a log."""

    header: SessionHeader
    events: Events
    """The last events, in order; their seqs are those of the log."""
    complete: bool
    """Whether they are the whole log."""


def open_tail(path: str | Path, count: int = 100, *, vocabulary: Vocabulary = Vocabulary.core) -> Tail:
    """The last *count* events of a stored log, at a cost that does not depend on its length.

    An unfinished record at the end is left out, as everywhere. Raises what ``load`` raises when the tail itself is
    damaged; the part before it is not looked at (``load`` and ``verify`` do that).
    """
    file_path, count = locate(Path(path)), max(count, 0)
    with file_path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            header, _odd = read_header(parse(first_line(file)))
        except (HeaderRefused, ValueError):
            return _whole(file_path, count, vocabulary)
        reader = _TailReader(header, vocabulary)
        window = _WINDOW
        while window < size:
            lines = _last_lines(file, size, window)
            rows = reader.rows(lines) if lines is not None else None
            if lines is not None and rows is None:
                break
            if rows is not None and rows.rows and rows.length - rows.base >= count:
                start = rows.length - count
                return Tail(header, Events(rows, start, rows.length), start == 0)
            window *= 2
    return _whole(file_path, count, vocabulary)


def _whole(path: Path, count: int, vocabulary: Vocabulary) -> Tail:
    session = load(path, vocabulary=vocabulary)
    events = session.events[max(len(session) - count, 0) :]
    assert isinstance(events, Events)
    return Tail(session.header, events, len(session) <= count)


def _last_lines(file: BufferedReader, size: int, window: int) -> list[bytes] | None:
    """Whole lines from the last *window* bytes, or None when none is found there."""
    file.seek(0)
    compressed = file.read(4) == MAGIC
    file.seek(size - window)
    data = file.read(window)
    if compressed:
        return _last_frames(data)
    cut = data.find(b"\n") + 1
    return split_lines(data[cut:]) if cut else None


def _last_frames(data: bytes) -> list[bytes] | None:
    at = data.find(MAGIC)
    while at >= 0:
        text, stop = _proven(data, at)
        if text is not None:
            return split_lines(text)
        at = data.find(MAGIC, stop + 1)  # frames before the one that stops it lead to it as well
    return None


def _proven(data: bytes, at: int) -> tuple[bytes | None, int]:
    """The text of the frames from *at* to the end and of what can be won from a torn one; None when a frame does not
    prove itself. And where the frames end."""
    decompressor = Decompressor()
    parts: list[bytes] = []
    position = at
    stop = "end"
    while position < len(data):
        frame = frame_at(data, position)
        if isinstance(frame, str):
            stop = frame
            break
        if not frame.skippable:
            if not frame.checksum:
                return None, position
            try:
                parts.append(decompressor.whole(data, frame))
            except ValueError:
                return None, position
        position = frame.end
    if not parts or stop == "damaged" or later_frame(data, position) is not None:
        return None, position
    if stop == "torn":
        won = decompressor.partial(data[position:])
        parts.append(won[: won.rfind(b"\n") + 1])
    return b"".join(parts), position


class _TailReader:
    """Reads lines whose first seq is not known beforehand."""

    def __init__(self, header: SessionHeader, vocabulary: Vocabulary) -> None:
        classes = line_classes(FORMATS[header.version], vocabulary, header.id)
        self._kind = classes.kind
        self._lines = LineReader(classes)

    def rows(self, lines: list[bytes]) -> Rows | None:
        """The events of lines that follow on each other, or None when any needs a closer look.

        The first line may be the end of a record that begins before them.
        """
        rows = Rows(self._kind)
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            found = self._lines.read(line.removesuffix(b"\n"))
            if isinstance(found, Fault):
                if number == 0:
                    continue
                if number == len(lines) - 1 and is_torn(found, line):
                    break
                return None
            event: AnyEvent | PackedRun = found.event if isinstance(found, Unknown) else found
            seq = event.seq0 if isinstance(event, PackedRun) else event.seq
            if not rows.rows:
                rows = Rows(self._kind, seq)
            if seq != rows.length:
                return None
            if isinstance(event, PackedRun):
                rows.add_run(event, len(event.unpack().members()))
            else:
                rows.add(event)
        return rows
