"""Names on disk: directories, session files and their generations (dsh-v0 §7.1, dsh-formats §2)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

_FILE: Final = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(\.zstd)?")
_UNIT: Final = re.compile(r"~([0-9A-F]{4})")
_PROJECT_LENGTH: Final = 251


class LogFile(NamedTuple):
    """One session file by its name."""

    path: Path
    version: int
    """Format number in the name; 0 without one."""
    compressed: bool
    """What the name says; the bytes decide."""


def encode_session(session_id: str) -> str:
    """The directory name of a session id: injective, never a way out of its parent. Raises ``ValueError`` if empty."""
    if not session_id:
        raise ValueError("a session id may not be empty")
    if session_id in (".", ".."):
        return "".join(_escape(character) for character in session_id)
    return "".join(c if _plain(c) else _escape(c) for c in session_id)


def decode_session(name: str) -> str:
    """The session id of a directory name; halves of broken pairs stay what they are."""
    if "~" not in name:
        return name
    units = _UNIT.sub(lambda found: chr(int(found[1], 16)), name)
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@lru_cache(maxsize=256)
def encode_project(cwd: str | None) -> str:
    """The project directory of a working directory; lossy, so that several may share one."""
    if cwd is None:
        return "_no-cwd"
    slug = re.sub(r"[/\\:]+", "-", cwd)
    slug = "".join(c if _plain(c) else _escape(c) for c in slug).lstrip("-") or "root"
    return f"--{slug[:_PROJECT_LENGTH]}--"


def parse_file(path: Path) -> LogFile | None:
    """What a file's name says, or None when it is no session file."""
    found = _FILE.fullmatch(path.name)
    return LogFile(path, int(found[1] or 0), found[2] is not None) if found else None


def log_files(directory: Path) -> list[LogFile]:
    """The session files of one session directory, newest generation last."""
    try:
        names = sorted(name for name in os.listdir(directory) if _FILE.fullmatch(name))
    except OSError:
        return []
    found = [parse_file(directory / name) for name in names]
    return sorted((one for one in found if one is not None), key=lambda one: one.version)


def session_directories(root: Path) -> Iterator[Path]:
    """Every directory under *root* that may hold a session: ``<root>/<project>/<session>/``."""
    for project in _directories(root):
        yield from _directories(project)


def places(root: Path, session_id: str) -> list[Path]:
    """Where a session of this id may be: a directory of its name in each project that is there."""
    name = encode_session(session_id)
    return [project / name for project in _directories(root)]


def _directories(parent: Path) -> list[Path]:
    """The directories in *parent* by name. A root may hold many thousands, so none is looked at one by one."""
    try:
        with os.scandir(parent) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
    return [parent / name for name in names]


def _plain(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "._-")


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"~{units[at] << 8 | units[at + 1]:04X}" for at in range(0, len(units), 2))
