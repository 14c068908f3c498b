"""`SimFs`: a file system in memory that loses power, tears writes and fails on purpose.

A file has what is on disk and what the page cache adds: the writes and truncates since its last sync, in order. A
directory has the names that are on disk and the names that were made or removed since it was last synced. A power cut
keeps any subset of either, in any order the disk liked (:mod:`losses` says which are tried). A killed process loses
nothing: the cache is the kernel's.

A sync that fails does what Linux does: the pages are marked clean, so a second sync succeeds without them. Some of them
reached the disk, some did not; whoever reads the file later reads what the disk has (the pages were evicted).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, TypeAlias


class Write(NamedTuple):
    """A write that was not synced; *data* None is a truncate to *at*."""

    at: int
    data: bytes | None


def apply(content: bytes, one: Write) -> bytes:
    """A file's bytes after one more operation; what a write skips reads as NUL."""
    at, data = one
    if data is None:
        return content[:at] if at <= len(content) else content + bytes(at - len(content))
    if at == len(content):
        return content + data
    if at > len(content):
        content += bytes(at - len(content))
    return content[:at] + data + content[at + len(data) :]


class File:
    """The content of a file, whatever its names are."""

    __slots__ = ("cache", "disk", "holder", "pending", "scarred")

    def __init__(self, content: bytes = b"") -> None:
        self.disk = content
        """What survives power loss."""
        self.cache = content
        """What every process sees."""
        self.pending: list[Write] = []
        self.holder: SimHandle | None = None
        """Who keeps others from holding it."""
        self.scarred = False
        """Whether a sync failed and what it lost was not written again."""

    def do(self, one: Write) -> None:
        self.cache = apply(self.cache, one)
        self.pending.append(one)

    def sync(self) -> None:
        for one in self.pending:
            self.disk = apply(self.disk, one)
        self.pending.clear()
        self.scarred = self.scarred and self.disk != self.cache

    def lose(self, reached: list[float]) -> None:
        """A sync that fails: of each write only a part *reached* the disk, and no page is dirty any more. Sizes are
        the journal's and are not lost."""
        for (at, data), part in zip(self.pending, reached, strict=True):
            if data is None or part:
                self.disk = apply(self.disk, Write(at, data and data[: int(len(data) * part) or 1]))
        self.pending.clear()
        self.scarred = self.disk != self.cache

    def read(self) -> bytes:
        if self.scarred:
            self.cache = self.disk
            for one in self.pending:
                self.cache = apply(self.cache, one)
        return self.cache


class Name(NamedTuple):
    """A name that was made or (None) removed, and not synced."""

    name: str
    what: File | Directory | None


class Directory:
    """The names in a directory."""

    __slots__ = ("disk", "names", "pending")

    def __init__(self) -> None:
        self.disk: dict[str, File | Directory] = {}
        self.names: dict[str, File | Directory] = {}
        self.pending: list[Name] = []

    def do(self, one: Name) -> None:
        put(self.names, one)
        self.pending.append(one)

    def sync(self) -> None:
        self.disk = dict(self.names)
        self.pending.clear()


def put(names: dict[str, File | Directory], one: Name) -> None:
    """Make or remove a name."""
    if one.what is None:
        names.pop(one.name, None)
    else:
        names[one.name] = one.what


class Fault(NamedTuple):
    """What goes wrong, and for how many calls from the *at*-th on (only calls that can fail like this count)."""

    at: int
    kind: str
    calls: int = 1


KINDS: Final = {
    "write": ("eio", "enospc", "short", "short-enospc"),
    "sync": ("eio",),
    "truncate": ("eio",),
    "create": ("eio", "enospc"),
    "open": ("eio",),
    "link": ("eio",),
    "rename": ("eio",),
    "remove": ("eio",),
    "make_directory": ("enospc",),
    "sync_directory": ("eio",),
}
"""How each call can fail. ``short``: a part is written and no error given; ``short-enospc``: a part, then the error."""


class Killed(BaseException):
    """The process that runs the storage code is gone."""


Observer: TypeAlias = Callable[[], None]
Tearing: TypeAlias = Callable[[File, bytes], None]


class SimFs:
    """Implements :class:`turnlog.store.fs.Fs`."""

    def __init__(self, faults: tuple[Fault, ...] = (), seed: int = 0) -> None:
        self.top = Directory()
        self.calls: list[str] = []
        """Every call so far that could have failed."""
        self.faults = faults
        self.sync_failed = False
        """Whether a sync of a file failed."""
        self.before: Observer | None = None
        """Called before every change: the machine may crash here."""
        self.tearing: Tearing | None = None
        """Called before every write, with what is about to be written: the process may be killed half way."""
        self.dead = False
        """Whether the process was killed: nothing it still tries has an effect."""
        self._random = Random(seed)

    # -- faults -------------------------------------------------------------------------------------------------

    def _call(self, call: str) -> str | None:
        """Count a call; gives how it has to fail."""
        if self.dead:
            raise Killed
        if self.before is not None:
            self.before()
        number = len(self.calls)
        self.calls.append(call)
        for fault in self.faults:
            if fault.at <= number < fault.at + fault.calls:
                kinds = KINDS[call]
                return fault.kind if fault.kind in kinds else kinds[0]
        return None

    def _may_fail(self, call: str) -> None:
        kind = self._call(call)
        if kind is not None:
            raise failure(kind)

    def fails(self, calls_from: int) -> bool:
        """Whether a fault can still strike at or after a call."""
        return any(calls_from < fault.at + fault.calls for fault in self.faults)

    # -- names --------------------------------------------------------------------------------------------------

    def let_go(self) -> None:
        """No process is left: nobody holds a file any more."""
        above = [self.top]
        while above:
            for found in above.pop().names.values():
                if isinstance(found, Directory):
                    above.append(found)
                else:
                    found.holder = None

    def directory(self, path: Path) -> Directory:
        found: File | Directory | None = self.top
        for name in path.parts[1:]:
            found = found.names.get(name) if isinstance(found, Directory) else None
        if not isinstance(found, Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return found

    def file(self, path: Path) -> File:
        found = self.directory(path.parent).names.get(path.name)
        if not isinstance(found, File):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return found

    # -- Fs -----------------------------------------------------------------------------------------------------

    def create(self, path: Path) -> SimHandle:
        self._may_fail("create")
        parent = self.directory(path.parent)
        if path.name in parent.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        made = File()
        parent.do(Name(path.name, made))
        return SimHandle(self, made)

    def open(self, path: Path) -> SimHandle:
        found = self.file(path)
        self._may_fail("open")
        return SimHandle(self, found)

    def read(self, path: Path) -> bytes:
        return self.file(path).read()

    def link(self, source: Path, target: Path) -> None:
        self._may_fail("link")
        found, parent = self.file(source), self.directory(target.parent)
        if target.name in parent.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        parent.do(Name(target.name, found))

    def rename(self, source: Path, target: Path) -> None:
        self._may_fail("rename")
        found, parent = self.file(source), self.directory(source.parent)
        assert source.parent == target.parent
        parent.do(Name(target.name, found))
        parent.do(Name(source.name, None))

    def remove(self, path: Path) -> None:
        self.file(path)
        self._may_fail("remove")
        self.directory(path.parent).do(Name(path.name, None))

    def names(self, path: Path) -> list[str]:
        return list(self.directory(path).names)

    def make_directory(self, path: Path) -> bool:
        parent = self.directory(path.parent)
        if path.name in parent.names:
            return False
        self._may_fail("make_directory")
        parent.do(Name(path.name, Directory()))
        return True

    def sync_directory(self, path: Path) -> None:
        found = self.directory(path)
        self._may_fail("sync_directory")
        found.sync()


class SimHandle:
    """Implements :class:`turnlog.store.fs.Handle`."""

    __slots__ = ("_fs", "file", "open")

    def __init__(self, fs: SimFs, file: File) -> None:
        self._fs = fs
        self.file = file
        self.open = True

    def write(self, data: bytes) -> int:
        self._check_open()
        kind = self._fs._call("write")
        if self._fs.tearing is not None:
            self._fs.tearing(self.file, data)
        if kind in ("eio", "enospc"):
            raise failure(kind)
        if kind is not None:
            part = self._fs._random.randrange(len(data))
            if part:
                self.file.do(Write(len(self.file.cache), data[:part]))
            if kind == "short-enospc" or not part:
                raise failure("enospc")
            return part
        self.file.do(Write(len(self.file.cache), data))
        return len(data)

    def sync(self) -> None:
        self._check_open()
        kind = self._fs._call("sync")
        if kind is not None:
            self._fs.sync_failed = True
            self.file.lose([self._fs._random.choice((0.0, 1.0, self._fs._random.random())) for _ in self.file.pending])
            raise failure(kind)
        self.file.sync()

    def truncate(self, size: int) -> None:
        self._check_open()
        kind = self._fs._call("truncate")
        if kind is not None:
            raise failure(kind)
        if size != len(self.file.cache):
            self.file.do(Write(size, None))

    def size(self) -> int:
        self._check_open()
        return len(self.file.cache)

    def size_under(self, path: Path) -> int | None:
        self._check_open()
        try:
            return len(self.file.cache) if self._fs.file(path) is self.file else None
        except FileNotFoundError:
            return None

    def hold(self) -> bool:
        self._check_open()
        holder = self.file.holder
        if holder is not None and holder is not self and holder.open:
            return False
        self.file.holder = self
        return True

    def close(self) -> None:
        self.open = False

    def _check_open(self) -> None:
        if not self.open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def failure(kind: str) -> OSError:
    code = errno.ENOSPC if "enospc" in kind else errno.EIO
    return OSError(code, os.strerror(code))
