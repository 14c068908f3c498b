"""``turnlog ls``"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnlog.store.discover import SessionEntry, Skipped, list_sessions, list_skipped

from ..json_views import document
from ..opening import search_in
from ..screen import Screen, Styled
from ..text import ago, rfc3339, size

_UNKNOWN = "-"


def ls(
    screen: Screen, roots: Sequence[Path], *, since: str | None, until: str | None, limit: int | None, as_json: bool
) -> None:
    """List the sessions under *roots*, or in the usual places; of those that began in a time the newest."""
    period = screen.clock.period(since, until)
    places = search_in(roots)
    every = list_sessions(places)
    found = [entry for entry in every if period.has(entry.created_ms)]
    skipped = [one for one in list_skipped(places) if period.has(one.modified_ms)]
    entries = found[:limit]
    if as_json:
        skips = [{"path": str(one.path), "reason": one.reason} for one in skipped]
        screen.json(document(sessions=[_view(entry) for entry in entries], skipped=skips))
    else:
        _table(screen, entries)
        _skips(screen, skipped)
    _warn(screen, entries, skipped)
    if len(entries) < len(found):
        screen.hint(f"{len(entries)} of {len(found)} sessions are shown; raise --limit for more")
    elif every and not found:
        screen.nothing(f"no session began in that time; there are {len(every)} of other times")
    elif not every:
        where = ", ".join(map(str, places)) or "~/.turnlog/sessions or ~/.dsh/sessions"
        screen.nothing(f"no sessions under {where}; --root DIR looks elsewhere")


def _warn(screen: Screen, entries: list[SessionEntry], skipped: list[Skipped]) -> None:
    """Say that something is wrong, without which nobody would look at the end of long rows."""
    bad = sum(entry.problem is not None for entry in entries)
    if bad:
        have = "has a problem" if bad == 1 else "have problems"
        screen.partly(f"{bad} of {len(entries)} sessions {have}; turnlog verify says more about each")
    if skipped:
        screen.partly(f"{len(skipped)} {'log is' if len(skipped) == 1 else 'logs are'} skipped, for the reasons listed")


def _view(entry: SessionEntry) -> dict[str, Any]:
    header = entry.header
    return {
        "id": entry.id,
        "path": str(entry.path),
        "version": None if header is None else header.version,
        "size": entry.size,
        "createdAt": None if header is None else rfc3339(header.created_at),
        "modifiedAt": rfc3339(entry.modified_ms),
        "trouble": entry.trouble,
        "problem": entry.problem,
        "header": header,
    }


def _table(screen: Screen, entries: list[SessionEntry]) -> None:
    """Aligned columns; what is wrong with a session stands at the end of its row."""
    if not entries:
        return
    rows = [_row(screen, entry) for entry in entries]
    titles = ("SESSION", "CREATED", "FORMAT", "SIZE", "DIRECTORY")
    widths = [max(len(row[column]) for row in [titles, *rows]) for column in range(len(titles))]
    last = "  PROBLEM" if any(entry.problem is not None for entry in entries) else ""
    screen.line(Styled((_aligned(titles, widths) + last).rstrip(), "bold"))
    for entry, row in zip(entries, rows, strict=True):
        if entry.problem is None:
            screen.line(_aligned(row, widths).rstrip())
        else:
            said = f"{entry.trouble}: {entry.problem} ({entry.path})"
            screen.line(_aligned(row, widths), "  ", Styled(said, "red" if entry.trouble == "damaged" else "yellow"))


def _skips(screen: Screen, skipped: list[Skipped]) -> None:
    for one in skipped:
        screen.line(Styled(f"skipped: {one.path}: {one.reason}", "yellow"))


def _row(screen: Screen, entry: SessionEntry) -> tuple[str, ...]:
    """Somebody at a terminal sees ages, unless they asked for a time zone. What only a header says needs one."""
    header = entry.header
    if header is None:
        return entry.id, _UNKNOWN, _UNKNOWN, size(entry.size), ""
    aged = screen.terminal and not screen.clock.chosen
    when = ago(time.time_ns() // 1_000_000 - header.created_at) if aged else screen.clock.show(header.created_at)
    return entry.id, when, str(header.version), size(entry.size), header.cwd or ""


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
