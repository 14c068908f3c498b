"""Planted bugs: what the storage code would be like if somebody had got it wrong.

Each is a patch of the real code, in force while its context lasts. ``only`` names the calls whose faults show it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from turnlog.store import files, logfile
from turnlog.store.errors import WriteFailed
from turnlog.store.files import FileStore
from turnlog.store.fs import Fs, Handle, write_all
from turnlog.store.logfile import LogFile

from .driver import Storage
from .simfs import SimHandle

MUTANTS: list[Mutant] = []


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str
    plant: Callable[[], contextlib.AbstractContextManager[Storage]]
    only: tuple[str, ...]


def mutant(*only: str) -> Callable[[Callable[[], Iterator[Storage]]], Callable[[], Any]]:
    def register(plant: Callable[[], Iterator[Storage]]) -> Callable[[], Any]:
        context = contextmanager(plant)
        MUTANTS.append(Mutant(plant.__name__, context, only))
        return context

    return register


@mutant()
def no_fsync() -> Iterator[Storage]:
    with patch.object(LogFile, "_flush", _believe):
        yield Storage()


def _believe(self: LogFile, handle: Handle) -> None:
    self._durable = self.size
    self._unsynced.clear()


@mutant()
def fsync_before_write() -> Iterator[Storage]:
    grow = LogFile._grow

    def early(self: LogFile, data: bytes) -> None:
        self._checked().sync()
        grow(self, data)

    with patch.object(LogFile, "_grow", early), patch.object(LogFile, "_flush", _believe):
        yield Storage()


def _write_new(
    *, name_synced: bool = True, above_synced: bool = True, data_synced: bool = True, name_taken_back: bool = True
) -> Any:
    def write_new(fs: Fs, path: Path, data: bytes, suffix: str, *, named_in: Path) -> None:
        temporary = path.with_name(f"{path.name}.{suffix}.tmp")
        handle = fs.create(temporary)
        try:
            write_all(handle, data)
            if data_synced:
                handle.sync()
            fs.link(temporary, path)
            if not data_synced:
                handle.sync()
            try:
                if name_synced:
                    fs.sync_directory(path.parent)
                if above_synced:
                    fs.sync_directory(named_in)
            except OSError:
                if name_taken_back:
                    fs.remove(path)
                raise
        finally:
            with contextlib.suppress(OSError):
                fs.remove(temporary)

    return patch.object(logfile, "write_new", write_new)


@mutant()
def no_directory_fsync() -> Iterator[Storage]:
    with _write_new(name_synced=False):
        yield Storage()


@mutant()
def no_fsync_of_the_directory_above() -> Iterator[Storage]:
    with _write_new(above_synced=False):
        yield Storage()


@mutant()
def link_before_fsync() -> Iterator[Storage]:
    with _write_new(data_synced=False):
        yield Storage()


@mutant("sync_directory")
def name_left_after_a_failed_directory_fsync() -> Iterator[Storage]:
    with _write_new(name_taken_back=False), patch.object(LogFile, "_remove_failed", lambda self: None):
        yield Storage()


@mutant("sync")
def fsync_repeated_on_the_same_pages() -> Iterator[Storage]:
    def flush(self: LogFile, handle: Handle) -> None:
        try:
            handle.sync()
        except OSError:
            try:
                handle.sync()
            except OSError as error:
                raise WriteFailed("again") from error
        _believe(self, handle)

    with patch.object(LogFile, "_flush", flush):
        yield Storage()


@mutant("write")
def short_write_ignored() -> Iterator[Storage]:
    with patch.object(logfile, "write_all", lambda handle, data: handle.write(data)):
        yield Storage()


@mutant("write")
def no_cut_after_a_failed_write() -> Iterator[Storage]:
    def grow(self: LogFile, data: bytes) -> None:
        handle = self._checked()
        try:
            write_all(handle, data)
        except OSError as error:
            self.size = handle.size_under(self.path) or 0
            raise WriteFailed("failed") from error
        self.size += len(data)
        self._unsynced.append(data)

    with patch.object(LogFile, "_grow", grow):
        yield Storage()


@mutant("write")
def cut_after_a_failed_write_not_durable() -> Iterator[Storage]:
    grow = LogFile._grow

    def careless(self: LogFile, data: bytes) -> None:
        try:
            grow(self, data)
        finally:
            self._refused = None if self._refused == 0 else self._refused

    with patch.object(LogFile, "_grow", careless):
        yield Storage()


def _mend(change: Callable[[int, int, bool], tuple[int, bool]]) -> Any:
    mend = LogFile.mend

    def changed(self: LogFile, cut_at: int, lines: Any, *, newline: bool) -> None:
        cut_at, newline = change(cut_at, self.size, newline)
        mend(self, cut_at, lines, newline=newline)

    return patch.object(LogFile, "mend", changed)


@mutant()
def torn_tail_not_cut() -> Iterator[Storage]:
    with _mend(lambda _cut, size, newline: (size, newline)):
        yield Storage()


@mutant()
def torn_tail_cut_a_byte_early() -> Iterator[Storage]:
    with _mend(lambda cut, size, newline: (cut - (cut < size), newline)):
        yield Storage()


@mutant()
def torn_tail_cut_a_byte_late() -> Iterator[Storage]:
    with _mend(lambda cut, size, newline: (min(cut + 1, size), newline)):
        yield Storage()


@mutant()
def missing_newline_not_written() -> Iterator[Storage]:
    with _mend(lambda cut, size, newline: (cut, False)):
        yield Storage()


@mutant()
def what_is_taken_over_is_not_synced() -> Iterator[Storage]:
    mend = LogFile.mend

    def lazy(self: LogFile, cut_at: int, lines: Any, *, newline: bool) -> None:
        if cut_at < self.size or newline or lines:
            mend(self, cut_at, lines, newline=newline)

    with patch.object(LogFile, "mend", lazy):
        yield Storage()


@mutant()
def names_of_what_is_taken_over_are_not_synced() -> Iterator[Storage]:
    with patch.object(FileStore, "_keep_names", lambda self, path: None):
        yield Storage()


@mutant("sync_directory")
def directories_synced_only_when_made() -> Iterator[Storage]:
    def make(self: FileStore, directory: Path) -> None:
        for path in (directory.parent.parent, directory.parent):
            if self._fs.make_directory(path):
                self._fs.sync_directory(path.parent)
        self._fs.make_directory(directory)

    with patch.object(FileStore, "_make_directories", make):
        yield Storage()


@mutant()
def temporary_files_not_swept() -> Iterator[Storage]:
    with patch.object(FileStore, "_sweep", lambda self, directory: None):
        yield Storage()


@mutant("sync")
def rewrite_without_truncate() -> Iterator[Storage]:
    def rewrite(self: LogFile) -> None:
        self.close()
        handle = self._opened()
        try:
            for data in self._unsynced:
                write_all(handle, data)
            handle.sync()
        except OSError as error:
            raise WriteFailed("failed") from error
        self._tainted, self._refused, self.size = False, None, handle.size_under(self.path) or 0
        _believe(self, handle)

    with patch.object(LogFile, "_rewrite", rewrite):
        yield Storage()


@mutant("sync")
def rewrite_forgets_what_was_not_synced() -> Iterator[Storage]:
    rewrite = LogFile._rewrite

    def forgetful(self: LogFile) -> None:
        self._unsynced.clear()
        rewrite(self)

    with patch.object(LogFile, "_rewrite", forgetful):
        yield Storage()


@mutant("open")
def an_open_that_fails_ends_the_writer() -> Iterator[Storage]:
    opened = LogFile._opened

    def hasty(self: LogFile) -> Handle:
        try:
            return opened(self)
        except WriteFailed:
            raise self._finish("gone") from None

    with patch.object(LogFile, "_opened", hasty):
        yield Storage()


@mutant()
def lock_dropped_early() -> Iterator[Storage]:
    class Careless(FileStore):
        def append(self, session_id: str, expected: int | None, lines: Any) -> int:
            count = super().append(session_id, expected, lines)
            lock = self._writing[session_id].lock
            assert lock is not None
            lock.release()
            return count

    yield Storage(Careless)


@mutant()
def lock_not_looked_at_again() -> Iterator[Storage]:
    begin = LogFile.__init__

    def trusting(self: LogFile, *args: Any, held: Any, **others: Any) -> None:
        begin(self, *args, held=lambda: True, **others)

    with patch.object(LogFile, "__init__", trusting):
        yield Storage()


@mutant()
def file_of_a_lost_session_taken_over_as_it_is() -> Iterator[Storage]:
    with patch.object(files, "own", lambda fs, path, suffix: fs.open(path)):
        yield Storage()


@mutant()
def file_not_held() -> Iterator[Storage]:
    with patch.object(SimHandle, "hold", lambda self: True):
        yield Storage()


@mutant()
def moved_log_not_synced() -> Iterator[Storage]:
    def own(fs: Fs, path: Path, suffix: str) -> Handle:
        handle = fs.open(path)
        if handle.hold():
            return handle
        fresh = path.with_name(f"{path.name}.{suffix}.own.tmp")
        handle = fs.create(fresh)
        write_all(handle, fs.read(path))
        handle.hold()
        fs.rename(fresh, path)
        return handle

    with patch.object(files, "own", own):
        yield Storage()


@mutant()
def stale_cursor() -> Iterator[Storage]:
    def checked(self: LogFile, least: int | None = None) -> Handle:
        handle = self._opened()
        self._check_lock()
        if handle.size_under(self.path) is None:
            raise self._finish("replaced")
        return handle

    with patch.object(LogFile, "_checked", checked):
        yield Storage()


@mutant()
def replaced_file_not_noticed() -> Iterator[Storage]:
    def checked(self: LogFile, least: int | None = None) -> Handle:
        handle = self._opened()
        self._check_lock()
        assert isinstance(handle, SimHandle)
        if not (least or self.size) <= handle.size() <= self.size + (self._refused or 0):
            raise self._finish("somebody else wrote")
        return handle

    with patch.object(LogFile, "_checked", checked):
        yield Storage()


@mutant()
def seal_before_sync() -> Iterator[Storage]:
    yield Storage(seals_early=True)


@mutant("write")
def seal_of_what_was_refused() -> Iterator[Storage]:
    yield Storage(seals_pending=True)


@mutant()
def seal_after_a_torn_one_lost() -> Iterator[Storage]:
    with patch.object(FileStore, "_is_ragged", lambda self, path: False):
        yield Storage()


COUNT: Final = len(MUTANTS)
