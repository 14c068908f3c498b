"""Text for terminals: nothing that a log says can move the cursor, set a title or hide."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_HIDDEN: Final = (
    "\x00-\x1f\x7f-\x9f"  # control characters, escape among them
    "\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff"  # halves of broken pairs
    "\U000e0000-\U000e0fff"  # tags and selectors that show nothing
)
_CONTROLS: Final = re.compile(f"[{_HIDDEN}]")
_CONTROLS_IN_LINES: Final = re.compile(f"[{_HIDDEN}]".replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_IN_JSON: Final = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def visible(text: str, *, lines: bool = False) -> str:
    """*text* with whatever a terminal would obey or not show written out (``\\x1b``); with *lines*, newlines and tabs
    stay."""
    return (_CONTROLS_IN_LINES if lines else _CONTROLS).sub(_escape, text)


def visible_json(text: str) -> str:
    """JSON whose strings hold nothing that a terminal would obey; still the same JSON."""
    return _IN_JSON.sub(_escape_units, text)


def clip(text: str, width: int | None) -> str:
    """*text*, cut to *width* columns with an ellipsis; None never cuts."""
    if width is None or len(text) <= width // 2:
        return text
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def rfc3339(ms: int) -> str | None:
    """Epoch ms as RFC 3339 in UTC; None for times no calendar has."""
    try:
        when = EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(ms: float) -> str:
    """A duration for people."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days"


def ago(ms: int) -> str:
    """How long ago, roughly."""
    seconds = max(ms, 0) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit} ago"
    return "just now" if seconds < 10 else f"{seconds} s ago"


def size(count: int) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def _escape_units(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
