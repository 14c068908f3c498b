"""Times of foreign files as epoch milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

_SECONDS_END: Final = 10**11
"""A number below this counts seconds (to the year 5138), above it milliseconds (from 1973 on)."""
_LATEST: Final = 253_402_300_799_999
"""The end of the year 9999; nothing later is a time that a program took from its clock."""


def epoch_ms(value: Any) -> int | None:
    """An RFC 3339 text or a number of (milli)seconds as epoch milliseconds; None for anything else. A text without a
    zone is taken as UTC, as all these programs write it."""
    if isinstance(value, str):
        return _of_text(value)
    if type(value) in (int, float) and 0 <= value <= _LATEST:
        return int(value * 1000) if value < _SECONDS_END else int(value)
    return None


def _of_text(text: str) -> int | None:
    if not 10 <= len(text) <= 40:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    ms = since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000
    return ms if 0 <= ms <= _LATEST else None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
