"""`Progress`: how far something is, on a terminal's standard error, once it takes longer than a moment."""

from __future__ import annotations

import sys
import time
from typing import Final

from .screen import Screen

_PATIENCE_S: Final = 0.5
"""What is done sooner is not announced."""
_EVERY_S: Final = 0.1


class Progress:
    """Called with how many of how many are done; the line is wiped when all are. Pipes and files never see it."""

    def __init__(self, screen: Screen, what: str) -> None:
        self._what = what
        self._began = self._shown_at = time.monotonic()
        self._shown = False
        self._seen = screen.terminal and sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, done: int, of: int) -> None:
        """Say so."""
        if not self._seen:
            return
        now = time.monotonic()
        if done >= of:
            if self._shown:
                self._write("\r\x1b[K")
            self._shown = False
        elif now - self._began > _PATIENCE_S and now - self._shown_at > _EVERY_S:
            filled = 20 * done // of
            self._write(f"\r\x1b[Kturnlog: {self._what} [{'#' * filled}{'.' * (20 - filled)}] {done} of {of}")
            self._shown, self._shown_at = True, now

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            pass  # nobody looks
