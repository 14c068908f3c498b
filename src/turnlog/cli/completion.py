"""What the shell completes: session ids and event types. Cheap, harmless and silent whatever is on the disk."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import typer

_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
"""Ids that mean the same to every shell; others can be typed or pasted."""


def session_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Ids that begin so, by the names of directories: no log is opened. Paths are left to the shell."""
    if context.params.get("latest") or context.params.get("words") or not _PLAIN.fullmatch(f"{incomplete}a"):
        return []
    try:
        return _ids(context.params.get("root") or (), incomplete)
    except Exception:  # nobody asked a question, so nobody gets an error
        return []


def event_types(incomplete: str) -> list[str]:
    """Event types that begin so; after a comma, one more of them."""
    from turnlog.events import Vocabulary

    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{type}" for type in sorted(Vocabulary.core) if type.startswith(begun)]


def granularities(incomplete: str) -> list[str]:
    """What ``replay --granularity`` takes."""
    return _beginning(("token", "block", "step", "turn"), incomplete)


def moments(incomplete: str) -> list[str]:
    """What ``tail --until`` takes."""
    return _beginning(("turn-end", "idle", "error"), incomplete)


def kinds(incomplete: str) -> list[str]:
    """What ``tail --only`` takes; after a comma, one more of them."""
    before, comma, begun = incomplete.rpartition(",")
    words = ("text", "thinking", "tools", "writes", "prompts", "errors", "turns", "other")
    return [f"{before}{comma}{word}" for word in _beginning(words, begun)]


def _beginning(words: Iterable[str], begun: str) -> list[str]:
    return [word for word in words if word.startswith(begun)]


def _ids(roots: Iterable[object], begun: str) -> list[str]:
    from turnlog.store.discover import default_roots
    from turnlog.store.names import session_directories

    places = [Path(str(root)).expanduser() for root in roots] or default_roots()
    names = {directory.name for place in places for directory in session_directories(place)}
    return sorted(name for name in names if name.startswith(begun) and _PLAIN.fullmatch(name))
