"""Server-sent events, cut out of bytes.

Works on bytes, not on text: a line ends at LF, CR or CRLF and nowhere else, so U+2028, a character cut between two
reads and bytes that are no UTF-8 pass through whole. Reads may end anywhere, inside a line end or the byte order mark
too. An event that the stream does not close with a blank line is not an event.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .errors import ModelError

MAX_EVENT: Final = 64 * 1024 * 1024
"""Largest event in bytes: far above any answer, and a bound for what a broken server can make us hold."""

_BOM: Final = b"\xef\xbb\xbf"
_COLON: Final = ord(":")


class EventTooLong(ModelError):
    """One event is larger than the limit."""


class ServerEvent(NamedTuple):
    """One event of the stream."""

    data: bytes
    """Its data lines, joined by LF; may be empty."""
    event: str = ""
    """Its name, where it has one."""


class EventSplitter:
    """Feed it what the network gives; it gives back the events that became whole."""

    __slots__ = ("_after_cr", "_data", "_event", "_first", "_held", "_limit", "_size", "comments")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._held: list[bytes] = []  # the line that is not over yet
        self._data: list[bytes] = []  # of the event that is not over yet
        self._event = ""
        self._size = 0
        self._first = True
        self._after_cr = False
        self.comments = 0
        """Comments so far: signs of life that are no events."""

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that *data* completes. Raises :class:`EventTooLong` above the limit."""
        if self._after_cr or b"\r" in data:
            data = self._plain(data)
        elif data.find(b"\n") == len(data) - 2 and data.startswith(b"data: ") and self._between(data):
            return [ServerEvent(data[6:-2])]  # one read, one event: what a model that thinks between tokens sends
        self._size += len(data)
        if b"\n" not in data:
            self._held.append(data)
            self._check()
            return []
        lines = data.split(b"\n")
        if self._held:
            self._held.append(lines[0])
            lines[0] = b"".join(self._held)
        last = lines.pop()
        self._held = [last] if last else []
        found: list[ServerEvent] = []
        self._read(lines, found)
        self._check()
        return found

    def _between(self, data: bytes) -> bool:
        """Whether no event is half read, and *data* is whole by itself and small enough."""
        if self._held or self._data or self._event or len(data) > self._limit or not data.endswith(b"\n"):
            return False
        self._first = False
        return True

    def _plain(self, data: bytes) -> bytes:
        """The same with LF for every line end; the LF of a CRLF may come in the next read."""
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read(self, lines: list[bytes], found: list[ServerEvent]) -> None:
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(_BOM)
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line:
                if self._data:
                    found.append(self._whole())
                self._event = ""
            elif line[0] == _COLON:
                self.comments += 1
            else:
                self._field(line)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"event":
            self._event = value.removeprefix(b" ").decode(errors="replace")
        elif name == b"data":
            self._data.append(b"")

    def _whole(self) -> ServerEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        if len(data) > self._limit:
            raise self._too_long()
        return ServerEvent(data, self._event)

    def _check(self) -> None:
        if self._size > self._limit:
            self._size = sum(map(len, self._held)) + sum(map(len, self._data))  # what is over does not count
            if self._size > self._limit:
                raise self._too_long()

    def _too_long(self) -> EventTooLong:
        return EventTooLong(f"an event of the stream is larger than {self._limit:,} bytes")
