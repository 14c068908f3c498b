"""What the writing half needs of a file system, as two small protocols, and the real one.

Everything that changes a disk goes through here, so that the same storage code runs on a simulated file system that
loses power, tears writes and fails on purpose.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final, Protocol

try:
    import fcntl
except ImportError:  # Windows reads, it does not write
    fcntl = None  # type: ignore[assignment]


class Handle(Protocol):
    """A file open for appending. Errors are ``OSError``."""

    def write(self, data: bytes) -> int:
        """Append *data* or a part of it; gives how many bytes."""
        ...

    def sync(self) -> None:
        """Return when everything written survives power loss."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file back to *size* bytes."""
        ...

    def size_under(self, path: Path) -> int | None:
        """Bytes of the file as it is now, whoever wrote them; None when *path* names another file by now, or none."""
        ...

    def hold(self) -> bool:
        """Keep every other handle from holding the file until this one is closed; false when another one holds it."""
        ...

    def close(self) -> None:
        """Give the handle back; nothing is written by it."""
        ...


class Fs(Protocol):
    """Files and directories by name. Errors are ``OSError``."""

    def create(self, path: Path) -> Handle:
        """A new file (mode 0600) open for appending. Raises ``FileExistsError``."""
        ...

    def open(self, path: Path) -> Handle:
        """An existing file open for appending."""
        ...

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        ...

    def link(self, source: Path, target: Path) -> None:
        """A second name for a file. Raises ``FileExistsError``, never overwrites."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name in one step; a file that had the name loses it."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a name."""
        ...

    def names(self, path: Path) -> list[str]:
        """The names in a directory."""
        ...

    def make_directory(self, path: Path) -> bool:
        """Make a directory (mode 0700); gives false when it was there. Its parent must exist."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory survive power loss."""
        ...


class OsHandle:
    """A real file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        mine = os.fstat(descriptor)
        self._identity = mine.st_dev, mine.st_ino

    def write(self, data: bytes) -> int:
        """See :meth:`Handle.write`."""
        return os.write(self._descriptor, data)

    def sync(self) -> None:
        """See :meth:`Handle.sync`."""
        _sync_data(self._descriptor)

    def truncate(self, size: int) -> None:
        """See :meth:`Handle.truncate`."""
        os.ftruncate(self._descriptor, size)

    def size_under(self, path: Path) -> int | None:
        """See :meth:`Handle.size_under`. One look gives both: an inode is never used anew while it is open."""
        try:
            there = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return there.st_size if (there.st_dev, there.st_ino) == self._identity else None

    def hold(self) -> bool:
        """See :meth:`Handle.hold`."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """See :meth:`Handle.close`."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def _sync_data(descriptor: int) -> None:
    """Data and size, not times; where the system has no such call, everything, and the drive's own cache too."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


class OsFs:
    """The real file system."""

    def create(self, path: Path) -> OsHandle:
        """See :meth:`Fs.create`."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return OsHandle(os.open(path, flags, 0o600))

    def open(self, path: Path) -> OsHandle:
        """See :meth:`Fs.open`."""
        return OsHandle(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))

    def read(self, path: Path) -> bytes:
        """See :meth:`Fs.read`."""
        return path.read_bytes()

    def link(self, source: Path, target: Path) -> None:
        """See :meth:`Fs.link`."""
        os.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        """See :meth:`Fs.rename`."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """See :meth:`Fs.remove`."""
        path.unlink()

    def names(self, path: Path) -> list[str]:
        """See :meth:`Fs.names`."""
        return os.listdir(path)

    def make_directory(self, path: Path) -> bool:
        """See :meth:`Fs.make_directory`."""
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    def sync_directory(self, path: Path) -> None:
        """See :meth:`Fs.sync_directory`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_directories(fs: Fs, directory: Path) -> None:
    """A directory and those above it that are missing, each durable in its parent."""
    missing = [directory]
    while not missing[-1].exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing[:-1]):
        if fs.make_directory(path):
            fs.sync_directory(path.parent)


def write_all(handle: Handle, data: bytes) -> None:
    """Append all of *data*; a short write goes on where it stopped, and one of nothing is an error."""
    while data:
        done = handle.write(data)
        if done == len(data):
            return
        if done <= 0:
            raise OSError("the file system took none of a write; is it full?")
        data = data[done:]


TEMPORARY: Final = ".tmp"
"""How the name of a file ends that is not whole yet."""


def write_new(fs: Fs, path: Path, data: bytes, suffix: str, *, named_in: Path | None = None) -> None:
    """A whole new file that is either there with all of *data*, durably, or not there at all.

    Written and synced under another name (*suffix* makes it unique), then linked, which never overwrites. *named_in*:
    the directory whose names, that of the file's directory among them, become durable with it. Raises
    ``FileExistsError`` only when *path* is taken. A crash may leave the other name.
    """
    temporary = path.with_name(f"{path.name}.{suffix}{TEMPORARY}")
    try:
        handle = fs.create(temporary)
    except FileExistsError:  # left by an earlier try of ours
        fs.remove(temporary)
        handle = fs.create(temporary)
    try:
        try:
            write_all(handle, data)
            handle.sync()
        finally:
            handle.close()
        fs.link(temporary, path)
        try:
            fs.sync_directory(path.parent)
            if named_in is not None:  # right after: a journal has written both names at once
                fs.sync_directory(named_in)
        except OSError:
            fs.remove(path)  # a name that may vanish is none; the next try begins anew
            raise
    finally:
        with contextlib.suppress(OSError):
            fs.remove(temporary)
