"""``turnlog ls``"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnlog.store.discover import SessionEntry, default_roots, list_sessions

from ..json_views import document
from ..screen import Screen, Styled
from ..text import ago, clock, rfc3339, size


def ls(screen: Screen, roots: Sequence[Path], *, as_json: bool) -> None:
    """List the sessions under *roots*, or in the usual places."""
    places = list(roots) or default_roots()
    entries = list_sessions(places)
    if as_json:
        screen.json(document(sessions=[_view(entry) for entry in entries]))
    else:
        _table(screen, entries)
    damaged = sum(entry.problem is not None for entry in entries)
    if damaged:
        screen.partly(f"{damaged} of {len(entries)} sessions are damaged; turnlog verify says more about each")
    elif not entries:
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
    now = time.time_ns() // 1_000_000
    rows = [_row(entry, now if screen.terminal else None) for entry in entries]
    titles = ("SESSION", "CREATED", "FORMAT", "SIZE", "DIRECTORY")
    widths = [max(len(row[column]) for row in [titles, *rows]) for column in range(len(titles))]
    screen.line(Styled(_aligned(titles, widths).rstrip(), "bold"))
    for entry, row in zip(entries, rows, strict=True):
        if entry.problem is None:
            screen.line(_aligned(row, widths).rstrip())
        else:
            screen.line(_aligned(row, widths), "  ", Styled(f"damaged: {entry.problem} ({entry.path})", "red"))


def _row(entry: SessionEntry, now: int | None) -> tuple[str, ...]:
    cwd = "" if entry.header is None else entry.header.cwd or ""
    when = clock(entry.created_ms) if now is None else ago(now - entry.created_ms)
    return entry.id, when, str(entry.version), size(entry.size), cwd


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
