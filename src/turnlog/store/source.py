"""`Source`: the bytes of a log as blocks of whole lines, whatever their container.

The bytes decide, not the name: a file that begins with a zstd frame is a zstd log. Blocks are
small, so that a log is never held as one string. What the container has to say (torn tails, foreign bytes, frames that
do not verify) becomes findings; nothing is cut in silence.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from turnlog.events.lenient import parse

from .errors import LogCorrupt
from .finding import Finding, Place, Severity
from .frames import MAGIC, SKIPPABLE, Decompressor, Frame, Walk, later_frame, walk_frames, without_hollow_end

BLOCK: Final = 512 << 10
"""Bytes of text per block: small enough to stay in the processor's cache while it is split and decoded."""

SLAB: Final = 8 << 20
"""Bytes of a plain file read and kept at once. Reading the blocks one by one would have the operating system hand out
(and take back) memory for each of them, which costs as much as reading them."""


class Block(NamedTuple):
    """Some whole lines of the log's text; only the last line of the log may lack its newline."""

    text: bytes
    line: int
    """Number of its first line, from 1."""
    offset: int
    """Byte of the text where it begins."""
    frames: tuple[tuple[int, int, int], ...] = ()
    """For compressed logs: (text offset, frame number, file offset) of each frame that begins in it."""
    newlines: int = 0
    """How many lines end in it."""
    framed: bool = False
    """Whether each of its lines begins with ``{`` and ends with ``}``."""
    utf8: bool = False
    """Whether its text is known to be UTF-8; else nobody has looked."""
    slab: memoryview | None = None
    """The same text where it was read, which can be kept; then ``text`` is a copy to let go."""

    @property
    def stored(self) -> bytes | memoryview:
        """The text to keep pieces of."""
        return self.text if self.slab is None else self.slab

    def after(self, cut: int) -> Block:
        """What follows on its first *cut* bytes."""
        text, passed = self.text[cut:], self.text.count(b"\n", 0, cut)
        slab = None if self.slab is None else self.slab[cut:]
        framed = (self.framed and self.text[cut - 1 : cut] == b"\n") or framing(text)[1]
        line, offset, newlines = self.line + passed, self.offset + cut, self.newlines - passed
        return self._replace(text=text, line=line, offset=offset, newlines=newlines, framed=framed, slab=slab)

    def numbered(self) -> Iterator[tuple[int, int, bytes]]:
        """Number, text offset and bytes of each line, without its newline. Lines end at 0x0A only, never at what
        Unicode calls a line end."""
        offset = self.offset
        lines = self.text.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, self.line):
            yield number, offset, line
            offset += len(line) + 1

    def place(self, path: str | None, line: int, offset: int) -> Place:
        """Where in the file one of its lines lies; for compressed logs the frame and its byte."""
        if not self.frames:
            return Place(path=path, line=line, offset=offset)
        _start, number, file_offset = max((one for one in self.frames if one[0] <= offset), default=self.frames[0])
        return Place(path=path, line=line, frame=number, offset=file_offset)


class Torn(NamedTuple):
    """A tail that the writer did not finish."""

    offset: int
    """Byte of the file where the unfinished part begins; a resume cuts here."""
    size: int
    """Bytes from there to the end of the file."""
    reason: str
    recovered: int = 0
    """Whole records that were won from it and are part of the log as read."""


class Source:
    """One log file (or its bytes), read once, front to back."""

    def __init__(self, data: Path | bytes, *, name: str | None = None, forensic: bool = False) -> None:
        self.path: Final = data if isinstance(data, Path) else None
        self.name: Final = name if name is not None else str(data) if isinstance(data, Path) else None
        self._data: Final = data
        self._forensic = forensic
        self.findings: list[Finding] = []
        self.torn: Torn | None = None
        self.size = 0
        self.compressed = False
        self.unproven: int | None = None
        """Text offset from which on the text comes out of a torn frame, or None."""

    def blocks(self) -> Iterator[Block]:
        """The text, block by block; only once."""
        if isinstance(self._data, bytes):
            self.size = len(self._data)
            self.compressed = self._data[:4] == MAGIC or self._data[1:4] == SKIPPABLE
            yield from self._frames(self._data) if self.compressed else self._slices(io.BytesIO(self._data))
            return
        with self._data.open("rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            start = file.read(4)
            file.seek(0)
            self.compressed = start == MAGIC or start[1:] == SKIPPABLE
            yield from self._frames(file.read()) if self.compressed else self._slices(file)

    def lines(self) -> Iterator[bytes]:
        """Its lines without their newlines; an unfinished last one is left out. Raises :class:`LogCorrupt` at a frame
        that does not verify."""
        for block in self.blocks():
            self._refuse_damage()
            lines = [line for _number, _offset, line in block.numbered()]
            if not block.text.endswith(b"\n") and not _is_json(lines[-1]):
                lines.pop()
            yield from lines
        self._refuse_damage()

    def _refuse_damage(self) -> None:
        for finding in self.findings:
            if finding.severity == "refused":
                raise LogCorrupt(finding)

    def _slices(self, file: BinaryIO) -> Iterator[Block]:
        line, offset = 1, 0
        for slab, end in self._slabs(file):
            view, start = memoryview(slab), 0
            while start < end:
                stop = slab.rfind(b"\n", start, start + BLOCK) + 1 or slab.find(b"\n", start) + 1 or end
                text = slab[start:stop]
                newlines, framed = framing(text)
                yield Block(text, line, offset + start, (), newlines, framed, slab=view[start:stop])
                line += newlines
                start = stop
            offset += end

    def _slabs(self, file: BinaryIO) -> Iterator[tuple[bytes, int]]:
        """The text in large pieces, and where the last whole line of each ends; only the last may end elsewhere."""
        rest = self.size
        while True:
            wanted = min(SLAB, rest + 1 if rest else BLOCK)
            slab = file.read(wanted)
            if len(slab) < wanted:
                yield slab, len(slab)
                return
            end = slab.rfind(b"\n") + 1
            if not end:
                slab += file.readline()
                end = len(slab)
            else:
                file.seek(end - len(slab), os.SEEK_CUR)
            yield slab, end
            rest = max(rest - end, 0)

    # -- zstd ---------------------------------------------------------------------------------------------------

    def _frames(self, data: bytes) -> Iterator[Block]:
        walk = without_hollow_end(data, walk_frames(data))
        view = memoryview(data)
        parts: list[bytes] = []
        starts: list[tuple[int, int, int]] = []
        pending, line, offset, length, utf8 = 0, 1, 0, 0, True
        for number, content, start in self._contents(data, view, walk, 1):
            starts.append((length, number, start))
            parts.append(content)
            utf8 = utf8 and (content.isascii() or is_utf8(content))
            pending += len(content)
            length += len(content)
            if pending < BLOCK:
                continue
            text = b"".join(parts)
            cut = text.rfind(b"\n") + 1
            rest = [text[cut:]] if cut < len(text) else []
            whole = text[:cut]
            newlines, framed = framing(whole)
            if cut:
                yield Block(whole, line, offset, tuple(starts), newlines, framed, utf8)
            line += newlines
            parts, pending = rest, len(text) - cut
            offset, starts, utf8 = length - pending, starts[-1:], not rest
        if pending:
            text = b"".join(parts)
            yield Block(text, line, offset, tuple(starts), *framing(text), utf8)

    def _contents(self, data: bytes, view: memoryview, walk: Walk, first: int) -> Iterator[tuple[int, bytes, int]]:
        """Frame number, content and file offset of each frame that verifies."""
        decompressor = Decompressor()
        text_length = 0
        for number, frame in enumerate(walk.frames, first):
            self._note_frame(number, frame)
            if frame.skippable:
                continue
            try:
                content = decompressor.whole(view, frame)
            except ValueError as error:
                self._find(
                    "frame-damaged",
                    "refused",
                    f"frame {number} does not verify: {error}.",
                    number,
                    frame.start,
                    "The bytes of this frame changed after they were written.",
                )
                later = later_frame(data, frame.start) if self._forensic else None
                if later is not None and later < frame.end:  # what it says of its own length is damaged, too
                    yield from self._contents(data, view, walk_frames(data, later), number + 1)
                    return
                continue
            self._note_content(number, frame, content)
            text_length += len(content)
            yield number, content, frame.start
        if walk.stop == "end":
            return
        number = first + len(walk.frames)
        yield from self._after(data, view, walk, decompressor, text_length, number)

    def _note_frame(self, number: int, frame: Frame) -> None:
        if frame.odd is not None:
            self._find(
                "frame-odd",
                "fault",
                f"frame {number}: {frame.odd}; dsh refuses such a frame.",
                number,
                frame.start,
                "turnlog compress rewrites the log into plain frames.",
            )
        elif not frame.checksum:
            self._find(
                "frame-unchecked",
                "note",
                f"frame {number} has no checksum, so damage inside it would not show.",
                number,
                frame.start,
            )

    def _note_content(self, number: int, frame: Frame, content: bytes) -> None:
        fault = None
        if number == 1 and (content.count(b"\n") != 1 or not content.endswith(b"\n")):
            fault = "frame 1 must hold the header line and nothing else"
        elif number > 1 and not content.endswith(b"\n"):
            fault = f"frame {number} ends inside a record"
        if fault is not None:
            self._find(
                "frame-layout",
                "fault",
                f"{fault}; dsh refuses the log.",
                number,
                frame.start,
                "turnlog compress rewrites it into proper frames in a new file.",
            )

    def _after(
        self, data: bytes, view: memoryview, walk: Walk, decompressor: Decompressor, text_length: int, number: int
    ) -> Iterator[tuple[int, bytes, int]]:
        """What follows the last whole frame: a torn frame, foreign bytes, or damage."""
        size = len(data) - walk.end
        later = later_frame(data, walk.end)
        if later is not None:
            self._find(
                "frame-damaged",
                "refused",
                f"frame {number} is damaged: its blocks do not lead to the frame at byte {later}, which is whole.",
                number,
                walk.end,
                "Nothing after it is read without --forensic.",
            )
            if self._forensic:
                yield from self._contents(data, view, walk_frames(data, later), number + 1)
            return
        if walk.stop == "damaged":
            self._find(
                "frame-damaged",
                "refused",
                f"frame {number} holds a block of a type that does not exist.",
                number,
                walk.end,
                "The bytes of this frame changed after they were written.",
            )
            return
        if walk.stop == "foreign":
            kind = "NUL bytes" if not any(view[walk.end :]) else "bytes that are no frame"
            self.torn = Torn(walk.end, size, f"{size} {kind} after the last frame")
            return
        self.torn = Torn(walk.end, size, f"the last {size} bytes are a frame that was not finished")
        hole = data.find(HOLE, walk.end)
        won = decompressor.partial(view[walk.end : hole if hole >= 0 else len(data)])
        won = won[: won.rfind(b"\n") + 1]
        if won:
            self.unproven = text_length
            yield number, won, walk.end

    def _find(
        self, code: str, severity: Severity, text: str, frame: int, offset: int, remedy: str | None = None
    ) -> None:
        place = Place(path=self.name, frame=frame, offset=offset)
        self.findings.append(Finding(code=code, severity=severity, text=text, place=place, remedy=remedy))


def split_lines(text: bytes) -> list[bytes]:
    """The lines of *text*, each with its newline."""
    return io.BytesIO(text).readlines()


def _is_json(line: bytes) -> bool:
    try:
        parse(line)
    except ValueError:
        return False
    return True


HOLE: Final = bytes(16)
"""Where a file system has a size and no data it reads NUL; compressed text has no such run of them."""

_ends: Final = itemgetter(0, -2)
_FRAME: Final = (ord("{"), ord("}"))


def framing(text: bytes) -> tuple[int, bool]:
    """How many lines end in *text*, and whether each of its lines begins with ``{`` and ends with ``}``.

    Cutting a block into lines, each let go at once, is faster than counting its newlines.
    """
    try:
        ends = list(map(_ends, io.BytesIO(text)))
    except IndexError:  # a line of one byte
        return text.count(b"\n"), False
    newlines = len(ends) if text.endswith(b"\n") else len(ends) - 1
    return newlines, ends.count(_FRAME) == len(ends)


_PIECE: Final = 32 << 10
"""Bytes of text checked for UTF-8 at once."""


def is_utf8(text: bytes) -> bool:
    """Whether whole lines are UTF-8. Most of a log is ASCII, which is known at memory speed; so the text is looked at
    in pieces, and only pieces that are not ASCII are decoded."""
    start, size = 0, len(text)
    try:
        if size <= _PIECE:
            text.decode()
            return True
        while start < size:
            stop = text.rfind(b"\n", start, start + _PIECE) + 1 or text.find(b"\n", start) + 1 or size
            piece = text[start:stop]
            if not piece.isascii():
                piece.decode()
            start = stop
    except UnicodeDecodeError:
        return False
    return True
