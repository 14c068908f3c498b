"""What a log says whose lines are not simply its events: damaged, of an odd shape, or the documents' sample.

It is read by the forensic reader, which decides what is part of it.
"""

from __future__ import annotations

from turnlog.events.lenient import parse
from turnlog.store import LogRefused, StoredSession, load
from turnlog.views.filters import event_text

from .said import Spoken, of_event


def spoken_of(path: str) -> list[Spoken]:
    """Everything that a log says, in order; nothing where it cannot be read at all. Raises ``OSError``."""
    session = _load(path)
    if session is None:
        return []
    found: list[Spoken] = []
    for event in session.events:
        if event.type in ("assistant/chunk", "step/start", "step/end", "turn/start"):
            continue
        surface = hasattr(event.surface_op, "op") or event.surface_op == "append"
        try:
            data = parse(event.raw)
        except ValueError:
            continue
        said = of_event(event.seq, event.time, event.type, data, surface)
        if session.format == "sample":  # its shapes are its own; only its reader knows what they say
            text = event_text(event)
            said = None if not text else (said or Spoken(event.seq, event.time, event.type, "", None, None, None, ()))
            said = None if said is None else said._replace(text=text)
        if said is not None:
            found.append(said)
    return found


def _load(path: str) -> StoredSession | None:
    for forensic in (False, True):
        try:
            return load(path, forensic=forensic)
        except LogRefused:
            continue
    return None
