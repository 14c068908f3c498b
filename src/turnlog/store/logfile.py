"""`LogFile`: one session's file while it is being written.

A log file only grows by whole batches. A batch that the disk refuses is cut off again, and the cut is durable before
anything else is written; a sync that fails is never repeated on the same pages (the kernel may have dropped them): the
file is opened anew, cut back to what is durable and written again. Before each batch and each sync the lock must still
be ours, the name must still lead to this file, and the file must end where this writer left it.

A writer may be stopped between that look and its write, lose its lock to another one, and come back. So it also holds
the file itself while it has it open: whoever takes over finds it held, and moves the log to a new file first
(:func:`own`). What the old writer still writes goes to a file that has no name any more, and its next look says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import zstandard

from .errors import ConcurrentWriter, WriteFailed
from .fs import TEMPORARY, Fs, Handle, write_all, write_new

LEVEL: Final = 3
"""zstd's default level, which dsh uses."""


def frame_of(data: bytes) -> bytes:
    """One checksummed zstd frame."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True).compress(data)


def own(fs: Fs, path: Path, suffix: str) -> Handle:
    """The log at *path*, open and ours alone; for whoever has the session's lock. Errors are ``OSError``.

    A writer that lost the lock and does not know it yet may still hold the file. Then the log moves to a new one of the
    same content; a crash leaves the old one or the new one under the name.
    """
    handle = fs.open(path)
    if handle.hold():
        return handle
    handle.close()
    fresh = path.with_name(f"{path.name}.{suffix}.new{TEMPORARY}")
    handle = fs.create(fresh)
    try:
        write_all(handle, fs.read(path))
        handle.sync()
        if not handle.hold():
            raise OSError(f"{fresh.name} is held by somebody else")
        fs.rename(fresh, path)
    except BaseException:
        handle.close()
        with contextlib.suppress(OSError):
            fs.remove(fresh)
        raise
    return handle


class LogFile:
    """A log that this process writes. Not thread-safe: one thread writes."""

    def __init__(
        self,
        fs: Fs,
        path: Path,
        header: bytes,
        *,
        compressed: bool,
        held: Callable[[], bool],
        suffix: str,
        lines: int = 0,
        size: int | None = None,
        handle: Handle | None = None,
    ) -> None:
        """*header* is the header line with its newline. *size* and *lines* are those of an existing file, *handle* is
        the file as :func:`own` gives it; without, nothing is on disk before the first append. *held* tells whether the
        lock is still ours."""
        self.path: Final = path
        self._fs = fs
        self._header = header
        self._compressed = compressed
        self._held = held
        self._suffix = suffix
        self.lines = lines
        """Log lines that were written."""
        self.size = size or 0
        self._durable = self.size
        self._unsynced: list[bytes] = []
        self._handle = handle
        self._exists = size is not None
        self._tried: bytes | None = None
        self._tainted = False
        self._refused: int | None = None
        self._finished: str | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a file; a new log has none before its first append."""
        return self._exists

    def append(self, lines: Sequence[bytes]) -> None:
        """Write whole *lines* (without newlines) as one batch: all of them or none.

        Raises :class:`ConcurrentWriter` (and forever after), or :class:`WriteFailed`; then the file is as before.
        """
        data = b"".join([line + b"\n" for line in lines])
        self._check_finished()
        if not self._exists:
            self._begin(data)
        else:
            self._restore()
            self._grow(frame_of(data) if self._compressed else data)
        self.lines += len(lines)

    def sync(self) -> None:
        """Make everything written durable. Raises :class:`ConcurrentWriter` (and forever after), or
        :class:`WriteFailed`; then a later append or sync starts with what this one could not do."""
        self._check_finished()
        if not self._exists:
            return
        self._restore()
        handle = self._checked()
        if self._unsynced:
            self._flush(handle)

    def mend(self, cut_at: int, lines: Sequence[bytes], *, newline: bool) -> None:
        """Before the first append to a log whose writer is gone: cut off what it did not finish, write the *newline*
        that the last record lacks and whole *lines* that were won from what was cut; then all of it is durable, also
        what that writer had written and not synced.

        Raises :class:`WriteFailed`; the file then still ends where it ended or where it was cut, or in an unfinished
        record.
        """
        handle = self._checked()
        data = b"".join([b"\n" if newline else b"", *[line + b"\n" for line in lines]])
        if self._compressed and data:
            data = frame_of(data)
        try:
            if cut_at < self.size:
                handle.truncate(cut_at)
                handle.sync()  # what is written now never mixes with what was cut
            if data:
                write_all(handle, data)
            handle.sync()
        except OSError as error:
            raise WriteFailed(f"{self.path} cannot be made durable: {error.strerror or error}") from error
        self.size = self._durable = min(cut_at, self.size) + len(data)
        self.lines += len(lines)

    def ours(self) -> bool:
        """Whether this writer may write, as far as it knows and the lock says."""
        try:
            return self._finished is None and self._held()
        except (OSError, ConcurrentWriter):
            return False

    def close(self) -> None:
        """Give the handle back."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _begin(self, data: bytes) -> None:
        self._check_lock()
        content = self._header + data
        if self._compressed:
            content = frame_of(self._header) + frame_of(data)
        try:
            self._remove_failed()
            self._tried = content
            write_new(self._fs, self.path, content, self._suffix, named_in=self.path.parent.parent)
        except FileExistsError:
            raise self._finish(f"{self.path} was made by another writer in the meantime") from None
        except OSError as error:
            raise WriteFailed(
                f"{self.path} cannot be made: {error.strerror or error}; the session stays in memory"
            ) from error
        self._exists, self._tried = True, None
        self.size = self._durable = len(content)

    def _remove_failed(self) -> None:
        """Remove what an earlier try left under the name, if it could not even take that back."""
        if self._tried is not None:
            with contextlib.suppress(FileNotFoundError):
                if self._fs.read(self.path) == self._tried:
                    self._fs.remove(self.path)

    def _grow(self, data: bytes) -> None:
        handle = self._checked()
        try:
            write_all(handle, data)
        except OSError as error:
            self._refused = len(data)
            with contextlib.suppress(OSError):
                handle.truncate(self.size)  # for readers, at once
                self._refused = 0
            raise WriteFailed(
                f"{self.path}: {error.strerror or error}; the file ends with its last whole record, the "
                f"refused batch stays in memory"
            ) from error
        self.size += len(data)
        self._unsynced.append(data)

    # -- what failures left to do -------------------------------------------------------------------------------

    def _restore(self) -> None:
        """Bring the file to where it should be after a failure; nothing else is written before."""
        if self._tainted:
            self._rewrite()
        elif self._refused is not None:
            self._cut()

    def _cut(self) -> None:
        """Cut off what a refused batch left, durably: a power cut must not mix it with a later batch."""
        handle = self._checked()
        try:
            handle.truncate(self.size)
        except OSError as error:
            raise self._failed(error) from error
        self._flush(handle)
        self._refused = None

    def _flush(self, handle: Handle) -> None:
        try:
            handle.sync()
        except OSError:
            self._tainted = True  # these pages are never synced again
            self._rewrite()
        self._durable = self.size
        self._unsynced.clear()

    def _rewrite(self) -> None:
        """Open anew, cut back to what is durable, write the rest again and sync it."""
        self._checked(self._durable)
        self.close()
        handle = self._opened()
        try:
            handle.truncate(self._durable)
            for data in self._unsynced:
                write_all(handle, data)
            handle.sync()
        except OSError as error:
            self.close()
            raise self._failed(error) from error
        self._tainted = False
        self._refused = None
        self._durable = self.size
        self._unsynced.clear()

    # -- whose file it is ---------------------------------------------------------------------------------------

    def _checked(self, least: int | None = None) -> Handle:
        """The open file, if it is still ours and ends where we left it; after a failed rewrite, at *least* where what
        is durable ends."""
        handle = self._opened()  # before looking: whoever takes over then finds the file held
        self._check_lock()
        try:
            found = handle.size_under(self.path)
        except OSError as error:
            raise self._failed(error) from error
        if found is None:
            raise self._finish(f"{self.path} was removed or replaced")
        if not (self.size if least is None else least) <= found <= self.size + (self._refused or 0):
            raise self._finish(
                f"{self.path} has {found} bytes, this writer left it with {self.size}: somebody else wrote"
            )
        return handle

    def _check_lock(self) -> None:
        try:
            held = self._held()
        except OSError as error:
            raise self._failed(error) from error
        if not held:
            raise self._finish(f"{self.path}: the lock was taken over by another writer")

    def _opened(self) -> Handle:
        if self._handle is None:
            try:
                handle = self._fs.open(self.path)
            except FileNotFoundError:
                raise self._finish(f"{self.path} is gone") from None
            except OSError as error:
                raise self._failed(error) from error
            self._handle = handle
            if not self._holds(handle):
                raise self._finish(f"{self.path} is held by another writer")
        return self._handle

    def _holds(self, handle: Handle) -> bool:
        try:
            return handle.hold()
        except OSError as error:
            self.close()
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> WriteFailed:
        return WriteFailed(f"{self.path}: {error.strerror or error}; what is not durable yet stays in memory")

    def _finish(self, reason: str) -> ConcurrentWriter:
        self._finished = f"{reason}. This writer never writes again; open the session anew."
        self.close()
        return ConcurrentWriter(self._finished)

    def _check_finished(self) -> None:
        if self._finished is not None:
            raise ConcurrentWriter(self._finished)
