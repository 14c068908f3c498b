"""`LogFile`: one session's file while it is being written.

A log file only grows by whole batches. A batch that the disk refuses is cut off again; a sync that fails is never
repeated on the same pages (the kernel may have dropped them): the file is opened anew, cut back to what is durable and
written again. Before each batch the file must end where this writer left it, and the lock must still be ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import zstandard

from .errors import ConcurrentWriter, WriteFailed
from .fs import Fs, Handle, write_all, write_new

LEVEL: Final = 3
"""zstd's default level, which dsh uses."""


def frame_of(data: bytes) -> bytes:
    """One checksummed zstd frame."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True).compress(data)


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
    ) -> None:
        """*header* is the header line with its newline. *size* and *lines* are those of an existing file; without,
        nothing is on disk before the first append. *held* tells whether the lock is still ours."""
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
        self._handle: Handle | None = None
        self._exists = size is not None
        self._tainted = False
        self._finished: str | None = None

    def append(self, lines: Sequence[bytes]) -> None:
        """Write whole *lines* (without newlines) as one batch: all of them or none.

        Raises :class:`ConcurrentWriter` (and forever after), or :class:`WriteFailed`; then the file is as before.
        """
        data = b"".join([line + b"\n" for line in lines])
        self._check_finished()
        if not self._exists:
            self._begin(data)
        else:
            if self._tainted:
                self._rewrite()
            self._grow(frame_of(data) if self._compressed else data)
        self.lines += len(lines)

    def sync(self) -> None:
        """Make everything written durable. Raises :class:`WriteFailed`; then a later sync starts with a rewrite."""
        self._check_finished()
        if self._tainted:
            self._rewrite()
        if not self._unsynced or self._handle is None:
            return
        try:
            self._handle.sync()
        except OSError:
            self._tainted = True  # these pages are never synced again
            self._rewrite()
        self._durable = self.size
        self._unsynced.clear()

    def mend(self, cut_at: int, lines: Sequence[bytes], *, newline: bool) -> None:
        """Before the first append to a log whose writer died: cut off what it did not finish, write whole *lines* that
        were won from it again, or the *newline* that the last record lacks; durably.

        Raises :class:`WriteFailed`; the file then still ends where it ended or where it was cut.
        """
        handle = self._checked()
        data = b"".join([line + b"\n" for line in lines])
        if self._compressed and data:
            data = frame_of(data)
        try:
            if cut_at < self.size:
                handle.truncate(cut_at)
                self.size = cut_at
            write_all(handle, b"\n" if newline else data)
            handle.sync()
        except OSError as error:
            raise WriteFailed(f"{self.path} cannot be mended: {error.strerror or error}") from error
        self.size = self._durable = handle.size()
        self.lines += len(lines)

    def close(self) -> None:
        """Give the handle back."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _begin(self, data: bytes) -> None:
        content = self._header + data
        if self._compressed:
            content = frame_of(self._header) + frame_of(data)
        try:
            write_new(self._fs, self.path, content, self._suffix)
        except FileExistsError:
            raise self._finish(f"{self.path} was made by another writer in the meantime") from None
        except OSError as error:
            raise WriteFailed(
                f"{self.path} cannot be made: {error.strerror or error}; the session stays in memory"
            ) from error
        self._exists = True
        self.size = self._durable = len(content)

    def _grow(self, data: bytes) -> None:
        handle = self._checked()
        try:
            write_all(handle, data)
        except OSError as error:
            self._cut(handle)
            raise WriteFailed(
                f"{self.path}: {error.strerror or error}; the file ends with its last whole record, the "
                f"refused batch stays in memory"
            ) from error
        self.size += len(data)
        self._unsynced.append(data)

    def _checked(self) -> Handle:
        """The open file, if it is still ours and ends where we left it."""
        if not self._held():
            raise self._finish(f"{self.path}: the lock was taken over by another writer")
        if self._handle is None:
            self._handle = self._open()
        found = self._handle.size()
        if found != self.size:
            raise self._finish(
                f"{self.path} has {found} bytes, this writer left it with {self.size}: somebody else wrote"
            )
        return self._handle

    def _open(self) -> Handle:
        try:
            return self._fs.open(self.path)
        except OSError as error:
            raise self._finish(f"{self.path} is gone: {error.strerror or error}") from error

    def _cut(self, handle: Handle) -> None:
        try:
            handle.truncate(self.size)
        except OSError:
            self._tainted = True  # a piece of the batch may be left; the next write cuts it first

    def _rewrite(self) -> None:
        """Open anew, cut back to what is durable, write the rest again and sync it."""
        if not self._held():
            raise self._finish(f"{self.path}: the lock was taken over by another writer")
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        handle = self._open()
        try:
            if handle.size() < self._durable:
                raise self._finish(f"{self.path} is shorter than what was durable; somebody else cut it")
            handle.truncate(self._durable)
            for data in self._unsynced:
                write_all(handle, data)
            handle.sync()
        except OSError as error:
            handle.close()
            raise WriteFailed(
                f"{self.path}: {error.strerror or error}; what is not durable yet stays in memory"
            ) from error
        self._handle = handle
        self._tainted = False
        self.size = handle.size()
        self._durable = self.size
        self._unsynced.clear()

    def _finish(self, reason: str) -> ConcurrentWriter:
        self._finished = f"{reason}. This writer never writes again; open the session anew."
        with contextlib.suppress(OSError):
            self.close()
        return ConcurrentWriter(self._finished)

    def _check_finished(self) -> None:
        if self._finished is not None:
            raise ConcurrentWriter(self._finished)
