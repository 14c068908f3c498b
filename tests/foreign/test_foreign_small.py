"""Times and images of foreign files."""

from __future__ import annotations

import struct
import time
import zlib
from base64 import b64encode
from typing import Any

import pytest

from turnlog.store.foreign.images import data_url, image_block, size_of
from turnlog.store.foreign.moments import epoch_ms


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("2026-03-01T10:00:00.123Z", 1772359200123),
        ("2026-03-01T10:00:00.123456Z", 1772359200123),
        ("2026-03-01T11:00:00+01:00", 1772359200000),
        ("2026-03-01T10:00:00", 1772359200000),
        ("1970-01-01T00:00:00Z", 0),
        (1772359200, 1772359200000),
        (1772359200.5, 1772359200500),
        (1772359200123, 1772359200123),
        ("yesterday", None),
        ("1969-12-31T23:59:59Z", None),
        (-1, None),
        (True, None),
        (10**30, None),
        (float("nan"), None),
        (float("inf"), None),
        (None, None),
    ],
)
def test_times_are_epoch_milliseconds_and_what_is_none_has_none(
    monkeypatch: pytest.MonkeyPatch, value: Any, ms: int | None
) -> None:
    with monkeypatch.context() as moved:
        moved.setenv("TZ", "JST-9")
        time.tzset()
        assert epoch_ms(value) == ms
    time.tzset()


def png(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">II", width, height) + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


JPEG = b"\xff\xd8\xff\xe0\0\4ab\xff\xc0\0\x11\x08" + struct.pack(">HH", 7, 9) + b"\3"
WEBP = b"RIFF\0\0\0\0WEBP"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(640, 480), (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 5, 6) + b"\0", (5, 6)),
        (JPEG, (9, 7)),
        (WEBP + b"VP8X" + bytes(8) + (99).to_bytes(3, "little") + (49).to_bytes(3, "little"), (100, 50)),
        (WEBP + b"VP8L" + bytes(4) + b"\x2f" + (15 | 19 << 14).to_bytes(4, "little"), (16, 20)),
        (WEBP + b"VP8 " + bytes(10) + struct.pack("<HH", 30, 40), (30, 40)),
        (png(1, 1)[:20], (0, 0)),
        (JPEG[:12], (0, 0)),
        (b"\xff\xd8" + b"\xff" * 50, (0, 0)),
        (b"", (0, 0)),
    ],
)
def test_sizes_are_those_of_the_file_and_zero_where_it_does_not_say(data: bytes, size: tuple[int, int]) -> None:
    assert size_of(data) == size


def test_an_image_is_a_reference_by_its_hash() -> None:
    block = image_block("image/png", b64encode(png(2, 3)).decode())
    assert block is not None
    assert block.attachment.bytes == 33
    assert block.attachment.attachment_id.startswith("sha256:")
    assert image_block("image/png", "no base64!") is None
    assert image_block("image/tiff", "") is None


def test_only_base64_urls_hold_data() -> None:
    assert data_url("data:image/png;base64,QUJD") == ("image/png", "QUJD")
    assert data_url("data:text/plain,hello") is None
    assert data_url("https://example.org/a.png") is None
