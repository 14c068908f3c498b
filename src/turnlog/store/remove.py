"""Removing a session: the files that we and dsh keep in its directory, and nothing else.

Links are never followed: a link among the files is removed, not what it leads to. Forks of the session hold their own
copy of what they inherited, so they stay whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .attest import ATTEST_NAME
from .convert import MAP_NAME
from .discover import SessionEntry, list_sessions
from .errors import RewriteRefused, SessionNotFound
from .foreign.dialect import detect
from .fs import OsFs
from .liveness import LOCK_NAME, Liveness, liveness
from .names import log_files
from .rewrite import held, root_of

_KNOWN: Final = re.compile(
    rf"(?:session(?:\.v[1-9][0-9]*)?\.jsonl(?:\.zstd)?|{re.escape(ATTEST_NAME)}|{re.escape(MAP_NAME)})"
    r"(?:\.(?:repaired|branch|damaged|removed)-[0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?)?"
    r"(?:\.[0-9a-f]{12}(?:\.new)?(?:\.[0-9a-f]{12})?\.tmp)?"
)


@dataclass(frozen=True)
class Removal:
    """What removing a session means."""

    id: str
    directory: Path
    files: tuple[str, ...]
    """What is removed, in this order."""
    others: tuple[str, ...]
    """What is left because it is not ours; then the directory stays."""
    size: int
    """Bytes of the files."""
    forks: tuple[SessionEntry, ...]
    """Sessions that were forked from it, or work for it; they keep what they inherited."""
    liveness: Liveness


def plan_removal(path: str | Path) -> Removal:
    """What :func:`remove` would do. Raises :class:`SessionNotFound`, or :class:`RewriteRefused` for what is no
    directory of a session in a root."""
    given = Path(path)
    directory = given if given.is_dir() else given.parent
    logs = log_files(directory)
    if given.is_file() and not logs and (dialect := detect(_beginning(given))) is not None:
        raise RewriteRefused(
            f"{given} is a session file of another program ({dialect.name}), which is only ever read: remove it "
            "yourself (turnlog convert makes a format-0 session of it first)"
        )
    if not given.exists() or not logs:
        raise SessionNotFound(f"{given}: no session here; turnlog ls lists the sessions there are")
    if directory.is_symlink():
        raise RewriteRefused(f"{directory} is a link; name the directory that it leads to")
    root = root_of(given if given.is_file() else logs[-1].path)
    if root is None:
        raise RewriteRefused(f"{given} does not lie in a root of sessions; remove the file yourself")
    listed = list_sessions([root])
    place = root / directory.absolute().parent.name / directory.absolute().name
    own = next((one for one in listed if one.path.parent == place), None)
    session_id = own.id if own is not None else directory.name
    names = sorted(entry.name for entry in os.scandir(directory))
    files = list(_in_order(directory, names))
    return Removal(
        id=session_id,
        directory=directory,
        files=tuple(files),
        others=tuple(name for name in names if name not in files),
        size=sum((directory / name).lstat().st_size for name in files),
        forks=tuple(one for one in listed if one.header is not None and one.header.parent_session == session_id),
        liveness=liveness(logs[-1].path),
    )


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1 << 20)


def remove(path: str | Path, *, force: bool = False) -> Removal:
    """Remove a session; gives what was removed. Raises :class:`SessionLocked` while its writer lives (or, unless
    *force*, when nobody can tell)."""
    plan = plan_removal(path)
    log = log_files(plan.directory)[-1].path
    with held(log, plan.id, placed=True, force=force):
        names = sorted(entry.name for entry in os.scandir(plan.directory))
        _unlink(plan.directory, _in_order(plan.directory, names))
    with suppress(OSError):  # others' files are left in it
        plan.directory.rmdir()
    OsFs().sync_directory(plan.directory.parent)
    return plan


def _in_order(directory: Path, names: list[str]) -> Iterator[str]:
    """Our files: the older generations, the newest log, what is beside them, and the lock at last."""
    logs = [one.path.name for one in log_files(directory)]
    yield from logs
    yield from (name for name in names if name not in logs and _KNOWN.fullmatch(name))
    yield from (name for name in names if name == LOCK_NAME)


def _unlink(directory: Path, names: Iterator[str]) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in names:
            os.unlink(name, dir_fd=descriptor)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
