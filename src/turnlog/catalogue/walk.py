"""Looking over a root: which session directories there are, and which of them changed since they were indexed.

A directory whose own time and whose log file are as they were costs two ``stat`` calls; nothing is opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .places import is_log_name
from .record import RACY_NS, Identity, Record


@dataclass
class Walked:
    """What lies under a root."""

    keys: list[str] = field(default_factory=list)
    """``<project>/<directory>`` of every directory that may hold a session, in order."""
    stale: list[str] = field(default_factory=list)
    """Those of them whose record is missing or no longer right."""
    flat: list[tuple[str, int]] = field(default_factory=list)
    """Logs that lie beside the session directories, with when they were last changed (epoch ms)."""


def walk(root: Path, known: Mapping[str, Record]) -> Walked:
    """Look over *root*. A missing root holds nothing."""
    found = Walked()
    top = str(root)
    now = time.time_ns()
    projects, files = _entries(top)
    found.flat += [(os.path.join(top, name), _modified(os.path.join(top, name))) for name in files]
    for project in projects:
        place = os.path.join(top, project)
        names, files = _entries(place)
        found.flat += [(os.path.join(place, name), _modified(os.path.join(place, name))) for name in files]
        for name in names:
            key = f"{project}/{name}"
            found.keys.append(key)
            record = known.get(key)
            if record is None or not _is_as_it_was(f"{place}/{name}", record, now):
                found.stale.append(key)
    return found


def _is_as_it_was(path: str, record: Record, now: int, stat: Callable[[str], os.stat_result] = os.stat) -> bool:
    checked = record.checked_ns
    settled = checked - RACY_NS
    try:
        status = stat(path)
        newest = status.st_mtime_ns
        if newest != record.directory_ns or status.st_ino != record.directory_inode or newest > settled:
            return False
        if record.file:
            file = stat(f"{path}/{record.file}")
            modified, changed = file.st_mtime_ns, file.st_ctime_ns
            seen = (file.st_dev, file.st_ino, file.st_size, modified, changed)
            if seen != record.identity or modified > settled or changed > settled:
                return False
    except OSError:
        return False
    # What cannot be opened today may be open to us tomorrow without any time changing.
    return checked <= now and record.trouble != "unreadable"


def identity_of(path: str) -> Identity:
    """What the file system says of a file. Raises ``OSError``."""
    status = os.stat(path)
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _entries(path: str) -> tuple[list[str], list[str]]:
    """Directories in *path*, and files in it that look like logs, by name."""
    directories: list[str] = []
    files: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    if entry.is_dir():
                        directories.append(entry.name)
                    elif is_log_name(entry.name) and entry.is_file():
                        files.append(entry.name)
                except OSError:
                    continue
    except OSError:
        return [], []
    return sorted(directories), sorted(files)


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except OSError:
        return 0
