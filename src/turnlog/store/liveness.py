"""Whether somebody is writing a session right now, without disturbing them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal, TypeAlias

LOCK_NAME: Final = "session.lock"

Liveness: TypeAlias = Literal["live", "gone", "unknown"]
"""``unknown``: no lock file, as format-0 dsh leaves none; readers treat the writer as gone, writers may not."""


def liveness(log: Path) -> Liveness:
    """Ask the lock beside *log*. A shared lock is tried and given back at once; nothing is written."""
    try:
        import fcntl
    except ImportError:
        return "unknown"
    try:
        descriptor = os.open(log.parent / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "unknown"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "live"
    except OSError:
        return "unknown"
    else:
        return "gone"
    finally:
        os.close(descriptor)
