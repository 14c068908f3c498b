"""One live writer per session: a lock held for the writer's life, with its owner inside.

The kernel lets go of the lock when its holder dies, so a dead owner never blocks. A holder that was stopped, lost the
lock file and came back finds another file under the name, and never writes again. A forked child is no holder: it gives
back its copies of the locks at once, or they would outlive their owner in it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from turnlog.events.lenient import parse
from turnlog.events.lossless import dump

from .errors import ConcurrentWriter, LockUnsupported, SessionLocked, WriteFailed
from .liveness import LOCK_NAME

try:
    import fcntl
except ImportError:  # Windows reads, it does not write
    fcntl = None  # type: ignore[assignment]

_descriptors: set[int] = set()
"""The locks this process holds, for the children that it forks: the only state that no object owns."""
_registered: list[int] = []


class SessionLock:
    """The writer's lock on one session directory."""

    def __init__(self, directory: Path, session_id: str) -> None:
        """Take the lock, at once or not at all.

        Raises :class:`SessionLocked` naming the owner, :class:`LockUnsupported` where locks do not work, or
        :class:`WriteFailed` where no lock file can be made.
        """
        if fcntl is None:
            raise LockUnsupported(f"{directory}: this platform has no file locks; turnlog only reads here")
        self._path = directory / LOCK_NAME
        self._pid = os.getpid()
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WriteFailed(f"{self._path} cannot be made: {error.strerror or error}; nothing was written") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise SessionLocked(
                f"session {session_id} is being written by {_owner(self._path)}; wait for it to end, "
                "or read without resuming"
            ) from None
        except OSError as error:
            os.close(self._descriptor)
            raise LockUnsupported(
                f"{directory}: its file system does not lock files ({error.strerror}), so two writers "
                "could mix; keep sessions on a local disk"
            ) from None
        _close_in_children(self._descriptor)
        mine = os.fstat(self._descriptor)
        self._identity = mine.st_dev, mine.st_ino
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same, its owner is not named
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, dump(_me()) + b"\n")
        if not self.held():
            self.release()
            raise SessionLocked(f"session {session_id}: its lock file was replaced while it was taken; try again")

    def held(self) -> bool:
        """Whether the file under the name is still the one that is locked.

        Raises ``OSError`` when that cannot be seen now, and :class:`ConcurrentWriter` in a child that was forked.
        """
        if os.getpid() != self._pid:
            raise ConcurrentWriter(
                f"{self._path.parent}: process {os.getpid()} was forked from {self._pid}, which writes this session; "
                "only one of them may. Open the session anew when that one is done."
            )
        if self._descriptor < 0:
            return False
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (there.st_dev, there.st_ino) == self._identity

    def release(self) -> None:
        """Let go. The file stays, so that a waiting writer never locks a name that is gone."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0 or os.getpid() != self._pid:
            return
        _descriptors.discard(descriptor)
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _close_in_children(descriptor: int) -> None:
    if not _registered:
        _registered.append(os.getpid())
        os.register_at_fork(after_in_child=_forget)
    _descriptors.add(descriptor)


def _forget() -> None:
    """In a new child: what is locked stays locked by its parent alone."""
    while _descriptors:
        with contextlib.suppress(OSError):
            os.close(_descriptors.pop())


def _me() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.time_ns() // 1_000_000,
        "program": Path(sys.argv[0] or "python").name,
    }


def _owner(path: Path) -> str:
    """Who holds the lock, in words."""
    try:
        found = parse(path.read_bytes() or b"{}")
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found["since"] / 1000))
        return f"{found['program']} (pid {found['pid']} on {found['host']}, since {since})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
