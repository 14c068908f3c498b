"""What to know about a session of another program: how its events were made of the file's lines, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnlog.log import Session
from turnlog.store import StoredSession
from turnlog.store.foreign import Origins
from turnlog.store.foreign.losses import LOSSES


def origins_of(session: Session) -> Origins | None:
    """The way back to the file, of a session that another program wrote; None for a log."""
    return session.origins if isinstance(session, StoredSession) else None


def losses(origins: Origins) -> Iterator[tuple[str, str, int | None, int | None]]:
    """Code, text, number and first seq of everything that was lost or inferred."""
    for code, text in LOSSES[origins.dialect.kind]:
        yield code, text, None, None
    first = origins.first_inferred
    if first is not None:
        text = (
            "events that no line states: boundaries, request headers and starts of calls, told by what is around them"
        )
        yield "inferred-events", text, origins.inferred, first
    for one in origins.remarks:
        yield one.code, one.text, one.number, one.seq


def origin_view(session: Session, seq: int) -> Mapping[str, Any] | None:
    """Where an event comes from, for ``--json``: lines of the file, the program's id, and whether it was inferred.
    None for events of a log, and for the synthetic ones at the end."""
    origins = origins_of(session)
    if origins is None or not 0 <= seq < len(origins):
        return None
    return {"lines": list(origins.lines(seq)), "id": origins.id(seq), "inferred": origins.is_inferred(seq)}


def origin_text(session: Session, seq: int) -> str | None:
    """The same for people: ``line 12 of session.jsonl (u-7)``."""
    origin = origin_view(session, seq)
    if origin is None:
        return None
    lines = origin["lines"]
    told = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    path = getattr(session, "path", None)
    where = told if path is None else f"{told} of {path}"
    id = "" if origin["id"] is None else f" ({origin['id']})"
    return f"{where}{id}{', inferred' if origin['inferred'] else ''}"
