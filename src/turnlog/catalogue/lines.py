"""The lines of a sound log with their places in the file, from any place on, without importing what reads logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

_SLAB: Final = 4 << 20
_PIECE: Final = 256 << 10


class LinesLost(Exception):
    """A frame does not decompress alone; the log has to be read by the reader of all logs."""


class Piece(NamedTuple):
    """Some whole lines, and where they are."""

    text: bytes
    offset: int
    """Byte of the file where they begin: for a compressed log, where their frame begins."""
    end: int
    """Byte of the file after them, or after their frame."""


def pieces(path: str, compressed: bool, start: int = 0, length: int | None = None) -> Iterator[Piece]:
    """The whole lines from *start* on (a beginning of a line, or of a frame), up to *length* bytes of the file further
    if it is given. An unfinished end is left out. Raises ``OSError``, and :class:`LinesLost` for a frame that cannot be
    read alone."""
    with open(path, "rb") as file:
        file.seek(start)
        yield from _frames(file, start, length) if compressed else _slabs(file, start, length)


def _slabs(file: BinaryIO, start: int, length: int | None) -> Iterator[Piece]:
    rest = b""
    left = length
    while left is None or left > 0:
        read = file.read(_SLAB if left is None else min(_SLAB, left))
        if not read:
            break
        left = None if left is None else left - len(read)
        cut = read.rfind(b"\n") + 1
        if not cut:
            rest += read
            continue
        text = rest + read[:cut]
        yield Piece(text, start, start + len(text))
        start += len(text)
        rest = read[cut:]


def _frames(file: BinaryIO, start: int, length: int | None) -> Iterator[Piece]:
    import zstandard

    data = b""
    rest = b""
    stop = None if length is None else start + length
    while stop is None or start < stop:
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        parts: list[bytes] = []
        fed = 0
        while not decompressor.eof:
            data = data or file.read(_PIECE)
            if not data:
                return
            try:
                parts.append(decompressor.decompress(data))
            except zstandard.ZstdError as error:
                raise LinesLost(str(error)) from None
            fed += len(data)
            data = b""
        data = decompressor.unused_data
        end = start + fed - len(data)
        text = rest + b"".join(parts)
        cut = text.rfind(b"\n") + 1
        rest = text[cut:]
        yield Piece(text[:cut], start, end)
        start = end
