"""Opening a log at its tail: the header and the last events, without reading what lies between.

Plain logs are read backwards in whole lines. Of a compressed log the last frames are read: a place that looks like
the beginning of a frame only counts when the frames from there on lead exactly to the end, verify their checksums
and hold whole records; where none does, the log is read from the front.
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
from turnlog.log.event import AnyEvent, event_class
from turnlog.log.rows import PackedRun, Rows

from .discover import first_line
from .errors import LogCorrupt
from .finding import Finding, Place
from .formats import FORMATS
from .frames import MAGIC, Decompressor, Frame, walk_frames
from .header import HeaderRefused, read_header
from .lines import Fault, LineReader, Unknown
from .load import load, locate
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

    An unfinished record at the end is left out, as everywhere. Raises :class:`LogCorrupt` when the tail itself is
    damaged; the part before it is not looked at (``load`` and ``verify`` do that).
    """
    file_path = locate(Path(path))
    with file_path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            header, _odd = read_header(parse(first_line(file)))
        except (HeaderRefused, ValueError):
            return _whole(file_path, count, vocabulary)
        reader = _TailReader(file_path, header, vocabulary)
        window = _WINDOW
        while window < size:
            lines = _last_lines(file, size, window)
            if lines is not None:
                rows = reader.rows(lines)
                if rows.length - rows.base >= count:
                    return Tail(header, Events(rows, rows.length - count, rows.length), False)
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
        walk = walk_frames(data, at)
        if walk.frames and walk.stop in ("end", "torn"):
            text = _verified(data, walk.frames)
            if text is not None:
                return split_lines(text)
        at = data.find(MAGIC, at + 1)
    return None


def _verified(data: bytes, frames: list[Frame]) -> bytes | None:
    decompressor = Decompressor()
    try:
        text = b"".join(decompressor.whole(data, frame) for frame in frames if not frame.skippable)
    except ValueError:
        return None
    whole = text.startswith(b"{") and text.endswith(b"}\n") and all(frame.checksum for frame in frames)
    return text if whole else None


class _TailReader:
    """Reads lines whose first seq is not known beforehand."""

    def __init__(self, path: Path, header: SessionHeader, vocabulary: Vocabulary) -> None:
        format = FORMATS[header.version]
        codec = format.codec(format.kinds(vocabulary), header.id)
        self._path = path
        self._kind = event_class(codec, replace=format.replace)
        self._lines = LineReader(format, self._kind)

    def rows(self, lines: list[bytes]) -> Rows:
        """The events of whole lines, checked to follow on each other."""
        rows: Rows | None = None
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            found = self._lines.read(line.removesuffix(b"\n"))
            if isinstance(found, Fault):
                if number == len(lines) - 1 and not line.endswith(b"\n"):
                    break
                raise self._corrupt(found.text)
            event: AnyEvent | PackedRun = found.event if isinstance(found, Unknown) else found
            seq = event.seq0 if isinstance(event, PackedRun) else event.seq
            if rows is None:
                rows = Rows(self._kind, seq)
            if seq != rows.length:
                raise self._corrupt(f"expected seq {rows.length}, got {seq} ({event.type}).")
            if isinstance(event, PackedRun):
                rows.add_run(event, len(event.unpack().members()))
            else:
                rows.add(event)
        return rows if rows is not None else Rows(self._kind)

    def _corrupt(self, text: str) -> LogCorrupt:
        return LogCorrupt(
            Finding(
                code="tail",
                severity="refused",
                text=f"the end of the log is damaged: {text}",
                place=Place(path=str(self._path)),
                remedy="turnlog verify shows all of it.",
            )
        )
