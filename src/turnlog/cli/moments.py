"""Moments as people type and read them, in one time zone. JSON has no part in this: its times are always UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

from .problems import WrongUsage
from .text import EPOCH, rfc3339

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_AGE: Final = re.compile(r"(\d{1,9})(s|m|min|h|d|w)", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Period(NamedTuple):
    """From one moment to another, epoch ms, both included; None is open."""

    since: int | None
    until: int | None

    def has(self, ms: int) -> bool:
        """Whether a moment lies in it."""
        return (self.since is None or ms >= self.since) and (self.until is None or ms <= self.until)


class Clock:
    """Reads and shows moments in a time zone: the one of this machine (``TZ``) unless *name* says another."""

    def __init__(self, name: str | None = None) -> None:
        self.chosen = name is not None
        """Whether somebody asked for this zone."""
        self._zone = None if name is None else _zone(name)

    def show(self, ms: int) -> str:
        """Epoch ms as RFC 3339 with the offset of the zone; the number when no calendar has it."""
        try:
            when = (EPOCH + timedelta(milliseconds=ms)).astimezone(self._zone)
        except (OverflowError, ValueError, OSError):  # what a zone has no time for is shown in UTC
            return rfc3339(ms) or f"{ms} ms"
        text = when.isoformat(timespec="milliseconds")
        return f"{text[:-6]}Z" if text.endswith("+00:00") else text

    def day(self, ms: int) -> str:
        """The day of a moment (epoch ms) in the zone, ``2026-01-31``; nothing when no calendar has it."""
        try:
            return (EPOCH + timedelta(milliseconds=ms)).astimezone(self._zone).date().isoformat()
        except (OverflowError, ValueError, OSError):
            return ""

    def period(self, since: str | None, until: str | None) -> Period:
        """What ``--since`` and ``--until`` mean: dates, RFC 3339 times or ages. Raises :class:`WrongUsage`."""
        first = None if since is None else self._moment("--since", since, 0)
        last = None if until is None else self._moment("--until", until, 1)
        if first is not None and last is not None and first > last:
            raise WrongUsage(f"--since {since} is later than --until {until}")
        return Period(first, last)

    def _moment(self, option: str, text: str, days: int) -> int:
        """Epoch ms; a date is its first moment, or with *days* 1 its last one."""
        if age := _AGE.fullmatch(text):
            return time.time_ns() // 1_000_000 - int(age[1]) * _SECONDS[age[2]] * 1000
        try:
            if _DATE.fullmatch(text):
                day = date.fromisoformat(text) + timedelta(days=days)
                return self._ms(datetime(day.year, day.month, day.day)) - days
            if _TIME.fullmatch(text):
                return self._ms(datetime.fromisoformat(text.upper()))
        except (OverflowError, ValueError, OSError):
            pass
        raise WrongUsage(
            f"{option} takes a date (2026-01-31), a time (2026-01-31T09:30:00Z) or an age (45s, 30m, 2h, 3d, 1w), "
            f"not {text!r}"
        )

    def _ms(self, when: datetime) -> int:
        if when.tzinfo is None:  # without an offset it is a time of the zone
            when = when.astimezone() if self._zone is None else when.replace(tzinfo=self._zone)
        return (when - EPOCH) // timedelta(milliseconds=1)


def _zone(name: str) -> tzinfo | None:
    """A time zone; None is the one of this machine."""
    if name.lower() in ("local", "utc", "z"):
        return None if name.lower() == "local" else UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; no name at all; a directory of zones
        raise WrongUsage(f"--timezone takes local, UTC or a name like Europe/Berlin, not {name!r}") from None
