"""Images that foreign files hold as base64: by reference in the message, their bytes in an event of their own."""

from __future__ import annotations

import binascii
import hashlib
import struct
from base64 import b64decode
from typing import Final

from turnlog.events.blocks import ImageAttachment, ImageBlock

_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
_NO_SIZE: Final = frozenset({*range(0xD0, 0xDA), 0x01, 0xFF})
"""JPEG markers without a length."""
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that begin a frame, which has the size."""


def image_block(media_type: str, data: str) -> ImageBlock | None:
    """The block that points at an image; None when *data* is no base64 or of no type that a block may have."""
    if media_type not in _TYPES:
        return None
    try:
        held = b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    width, height = size_of(held)
    id = f"sha256:{hashlib.sha256(held).hexdigest()}"
    return ImageBlock(ImageAttachment(id, media_type, len(held), width, height))


def data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 text of a ``data:`` URL; None for any other."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return head.removeprefix("data:").split(";")[0], data


def size_of(data: bytes) -> tuple[int, int]:
    """Width and height in pixels as the file's beginning says them; zeros where it does not."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            return struct.unpack(">II", data[16:24])
        if data[:4] == b"GIF8":
            return struct.unpack("<HH", data[6:10])
        if data[:2] == b"\xff\xd8":
            return _jpeg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
    except (struct.error, IndexError):
        pass
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _NO_SIZE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0
