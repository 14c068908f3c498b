"""``turnlog ls``"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnlog.store.discover import SessionEntry, default_roots, list_sessions

from ..json_views import document
from ..screen import Screen, Styled
from ..text import ago, rfc3339, size


def ls(
    screen: Screen, roots: Sequence[Path], *, since: str | None, until: str | None, limit: int | None, as_json: bool
) -> None:
    """List the sessions under *roots*, or in the usual places; of those that began in a time the newest."""
    period = screen.clock.period(since, until)
    places = list(roots) or default_roots()
    every = list_sessions(places)
    found = [entry for entry in every if period.has(entry.created_ms)]
    entries = found[:limit]
    if as_json:
        screen.json(document(sessions=[_view(entry) for entry in entries]))
    else:
        _table(screen, entries)
    damaged = sum(entry.problem is not None for entry in entries)
    if damaged:
        screen.partly(f"{damaged} of {len(entries)} sessions are damaged; turnlog verify says more about each")
    if len(entries) < len(found):
        screen.hint(f"{len(entries)} of {len(found)} sessions are shown; raise --limit for more")
    elif every and not found:
        screen.nothing(f"no session began in that time; there are {len(every)} of other times")
    elif not every:
        where = ", ".join(map(str, places)) or "~/.turnlog/sessions or ~/.dsh/sessions"
        screen.nothing(f"no sessions under {where}; --root DIR looks elsewhere")


def _view(entry: SessionEntry) -> dict[str, Any]:
    header = entry.header
    return {
        "id": entry.id,
        "path": str(entry.path),
        "version": entry.version,
        "size": entry.size,
        "createdAt": None if header is None else rfc3339(header.created_at),
        "modifiedAt": rfc3339(entry.modified_ms),
        "problem": entry.problem,
        "header": header,
    }


def _table(screen: Screen, entries: list[SessionEntry]) -> None:
    """Aligned columns; the reason of a damaged session stands at the end of its row."""
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
            screen.line(_aligned(row, widths), "  ", Styled(f"damaged: {entry.problem} ({entry.path})", "red"))


def _row(screen: Screen, entry: SessionEntry) -> tuple[str, ...]:
    """Somebody at a terminal sees ages, unless they asked for a time zone."""
    cwd = "" if entry.header is None else entry.header.cwd or ""
    aged = screen.terminal and not screen.clock.chosen
    when = ago(time.time_ns() // 1_000_000 - entry.created_ms) if aged else screen.clock.show(entry.created_ms)
    return entry.id, when, str(entry.version), size(entry.size), cwd


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
