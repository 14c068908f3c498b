"""The zstd container: independent checksummed frames, one per durable batch (dsh-v0 §7.4).

Frames are found by walking their block sizes, never by searching for the magic number, which may occur inside one.
A walk ends at the end of the file, at a frame that the file does not hold whole, or at bytes that are no frame.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import zstandard

MAGIC: Final = b"\x28\xb5\x2f\xfd"
SKIPPABLE: Final = b"\x2a\x4d\x18"
"""The magic number of a skippable frame, after its first byte (0x50 to 0x5f)."""
MAX_BLOCK: Final = 128 * 1024
"""Most bytes one block can decompress to (RFC 8878 §3.1.1.2)."""

_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)


class Frame(NamedTuple):
    """Where one frame lies in the file, and what its header says."""

    start: int
    end: int
    blocks: int
    """Number of data blocks; 0 for a skippable frame."""
    content_size: int | None
    checksum: bool
    odd: str | None = None
    """What a stricter reader would refuse about its header, or None."""

    @property
    def skippable(self) -> bool:
        """Whether it holds no data."""
        return self.blocks == 0


class Walk(NamedTuple):
    """The frames of a file and what stopped the walk."""

    frames: list[Frame]
    end: int
    """First byte that no whole frame covers."""
    stop: str
    """``end`` of the file, ``torn`` (the file ends inside a frame), ``foreign`` (no frame) or ``damaged``."""


def walk_frames(data: bytes | memoryview, start: int = 0) -> Walk:
    """Walk the frames of *data* from byte *start*."""
    frames: list[Frame] = []
    position, size = start, len(data)
    while position < size:
        found = frame_at(data, position)
        if isinstance(found, str):
            return Walk(frames, position, found)
        frames.append(found)
        position = found.end
    return Walk(frames, position, "end")


def frame_at(data: bytes | memoryview, start: int) -> Frame | str:
    """The frame that begins at *start*, or why there is none: ``torn``, ``foreign``, ``damaged``."""
    size = len(data)
    magic = bytes(data[start : start + 4])
    if magic != MAGIC:
        return _skippable(data, start, magic)
    if start + 5 > size:
        return "torn"
    descriptor = data[start + 4]
    single, checksum = descriptor & 0x20, bool(descriptor & 0x04)
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if single else 0)
    at = start + 5 + (0 if single else 1) + _DICTIONARY_BYTES[descriptor & 0x03]
    content_size: int | None = None
    if size_bytes:
        if at + size_bytes > size:
            return "torn"
        content_size = int.from_bytes(data[at : at + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    at += size_bytes
    blocks = 0
    while True:
        if at + 3 > size:
            return "torn"
        header = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        kind = header >> 1 & 3
        if kind == 3:
            return "damaged"
        at += 3 + (1 if kind == 1 else header >> 3)
        blocks += 1
        if header & 1:
            break
    at += 4 if checksum else 0
    if at > size:
        return "torn"
    odd = (
        "reserved header bits are set" if descriptor & 0x18 else "it names a dictionary" if descriptor & 0x03 else None
    )
    return Frame(start, at, blocks, content_size, checksum, odd)


def _skippable(data: bytes | memoryview, start: int, magic: bytes) -> Frame | str:
    if len(magic) < 4 and MAGIC.startswith(magic):
        return "torn"
    if len(magic) < 4 or magic[1:] != SKIPPABLE or magic[0] & 0xF0 != 0x50:
        return "foreign"
    if start + 8 > len(data):
        return "torn"
    end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
    return "torn" if end > len(data) else Frame(start, end, 0, 0, False, "it is a skippable frame")


_CHECKSUM: Final = 4
"""Bytes of a frame's checksum."""


class Decompressor:
    """Decompresses single frames, checksums verified; reuses one context."""

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor()

    def whole(self, data: bytes | memoryview, frame: Frame) -> bytes:
        """The content of a whole frame. Raises ``ValueError`` with zstd's reason when it does not verify."""
        limit = frame.blocks * MAX_BLOCK
        if frame.content_size is not None and frame.content_size > limit:
            raise ValueError(f"it claims {frame.content_size} bytes, more than its blocks can hold")
        piece = data[frame.start : frame.end]
        try:
            if frame.content_size:
                return self._context.decompress(piece)
            stream = self._context.decompressobj()
            content = stream.decompress(piece)
        except (zstandard.ZstdError, MemoryError) as error:
            raise ValueError(str(error).rpartition("error: ")[2]) from None
        if not stream.eof:
            raise ValueError("its last block is missing")
        return content

    def partial(self, data: bytes | memoryview) -> bytes:
        """What can be won from a torn frame: whole blocks only, without a checksum to prove them."""
        stream = self._context.decompressobj()
        content = b""
        for start in range(0, len(data), 256):
            try:
                content += stream.decompress(data[start : start + 256])
            except zstandard.ZstdError:
                break
        return content


def without_hollow_end(data: bytes | memoryview, walk: Walk) -> Walk:
    """The walk without a last frame that is NUL from somewhere before its end to the end of the file, and does not
    verify: its size reached the disk and its bytes did not, which is a tear as much as a frame that is cut off."""
    if not walk.frames or any(data[walk.frames[-1].end - _CHECKSUM :]):
        return walk
    last = walk.frames[-1]
    try:
        Decompressor().whole(data, last)
    except ValueError:
        return Walk(walk.frames[:-1], last.start, "torn")
    return walk


def later_frame(data: bytes | memoryview, start: int) -> int | None:
    """The first place after *start* where a whole frame verifies, or None.

    Tells damage from a torn tail: nothing follows a torn tail. A magic number alone proves nothing, so the frame must
    decompress: with its checksum, or into what looks like records.
    """
    body = bytes(data)
    decompressor = Decompressor()
    at = body.find(MAGIC, start + 1)
    while at >= 0:
        frame = frame_at(body, at)
        if isinstance(frame, Frame) and not frame.skippable:
            try:
                content = decompressor.whole(body, frame)
            except ValueError:
                content = b""
            if content and (frame.checksum or content.lstrip().startswith(b"{")):
                return at
        at = body.find(MAGIC, at + 1)
    return None
