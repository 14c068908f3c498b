"""What the tools of a session have seen of files: an edit goes only into a file that is still as it was read."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when a tool read or wrote it."""

    mtime_ns: int
    size: int
    sha256: str


class Files:
    """Path → how it was last seen; one per session."""

    def __init__(self) -> None:
        self._seen: dict[Path, Seen] = {}

    def record(self, path: Path, seen: Seen) -> None:
        """Take *seen* as the state of the resolved *path*."""
        self._seen[path] = seen

    def forget(self, path: Path) -> None:
        """Take it as never read."""
        self._seen.pop(path, None)

    def seen(self, path: Path) -> Seen | None:
        """How the resolved *path* was last seen, or None."""
        return self._seen.get(path)

    def fault(self, path: Path) -> str | None:
        """Why the resolved *path* may not be changed now, or None. Contents are compared, because a clock that ticks
        every few milliseconds does not show every change."""
        known = self._seen.get(path)
        if known is None:
            return "has not been read in this session; read it first"
        try:
            same = os.stat(path).st_size == known.size and snapshot(path).sha256 == known.sha256
        except FileNotFoundError:
            return "was deleted since it was read"
        return None if same else "changed since it was read; read it again"


def snapshot(path: Path, content: bytes | None = None) -> Seen:
    """The state of a file now; *content* saves reading it again."""
    status = os.stat(path)
    digest = hashlib.sha256(content) if content is not None else _digest(path)
    return Seen(status.st_mtime_ns, status.st_size, digest.hexdigest())


def _digest(path: Path) -> hashlib._Hash:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest
