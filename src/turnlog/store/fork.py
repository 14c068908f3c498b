"""`fork`: a stored session that goes on from a place in another one.

```
<root>/<project>/<new session>/session.jsonl   header │ prefix, byte for byte │ session/end-seed │ closers
```

The prefix of a plain log is copied by the file system, which on some shares the bytes instead of copying them. Only a
packed row that the cut goes through is written anew. The parent is read, never changed; its writer may live.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnlog.events import Vocabulary
from turnlog.log import Session, SessionHeader
from turnlog.log.session import epoch_ms

from .attest import ATTEST_NAME, Note, Record, RunningHash, ShownRequest, read_attestation
from .encode import lines_of
from .errors import RewriteRefused
from .files import FileStore
from .fs import TEMPORARY, OsFs, make_directories
from .header import header_line
from .load import StoredSession, load, locate
from .lock import SessionLock
from .names import encode_project, encode_session, log_files, places
from .read import read_log
from .rewrite import attest, file_of, root_of, text_of, writing
from .source import Source

_ODD: Final = frozenset({"crlf", "bom", "blank-line"})
"""Findings of logs whose bytes no writer of ours would make; their events are written anew."""


@dataclass(frozen=True)
class Forked:
    """What a fork made."""

    path: Path
    """The new log."""
    header: SessionHeader
    at: int
    """How many events it inherits."""
    events: int
    """How many it has."""
    copied: int
    """Bytes of the parent's log that were taken over as they are."""


def fork(
    source: str | Path,
    at: int | None = None,
    *,
    id: str | None = None,
    root: Path | None = None,
    vocabulary: Vocabulary = Vocabulary.core,
    clock: Callable[[], int] = epoch_ms,
) -> Forked:
    """A new stored session that inherits the first *at* events of a stored one (all, if None).

    It lies under the root of its parent unless *root* names another; *id* is fresh unless given. Raises
    :class:`LogRefused` for a log that strict reading refuses, :class:`ForkError` for one that is not format 0 or has
    no such place, and :class:`RewriteRefused` when the id is taken or there is no root. Then nothing was written.
    """
    path = locate(Path(source))
    parent = load(path, vocabulary=vocabulary)
    child = parent.fork(at, id=id)
    where = root if root is not None else root_of(path)
    if where is None:
        raise RewriteRefused(f"{path} lies in no root of sessions; say where its fork goes")
    with writing(path):
        return _Fork(parent, path, child, len(parent) if at is None else at).write(where, clock())


class _Fork:
    def __init__(self, parent: StoredSession, path: Path, child: Session, at: int) -> None:
        self._parent = parent
        self._path = path
        self._child = child
        self._at = at

    def write(self, root: Path, now: int) -> Forked:
        """Write the log, then what is attested about it."""
        store = FileStore(root)
        header = self._child.header
        directory = root / encode_project(header.cwd) / encode_session(header.id)
        path = directory / ("session.jsonl.zstd" if store.compressed else "session.jsonl")
        if any(map(log_files, places(root, header.id))):
            raise RewriteRefused(f"session {header.id!r} is in {root} already; give the fork another id")
        fs = OsFs()
        make_directories(fs, directory)
        for above in (directory.parent, root):
            fs.sync_directory(above)
        lock = SessionLock(directory, header.id)
        try:
            copied = self._write_log(fs, path)
            self._attest(fs, directory, now)
        finally:
            lock.release()
        return Forked(path, header, self._at, len(self._child), copied)

    def _write_log(self, fs: OsFs, path: Path) -> int:
        """A whole new file under another name, checked and durable; then its own name, which overwrites nothing."""
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(6)}{TEMPORARY}")
        try:
            copied = self._write_file(temporary, compressed=path.suffix == ".zstd")
            self._check(temporary)
            try:
                fs.link(temporary, path)
            except FileExistsError:
                raise RewriteRefused(f"{path} was made by another process in the meantime") from None
            fs.sync_directory(path.parent)
        finally:
            with contextlib.suppress(OSError):
                fs.remove(temporary)
        return copied

    def _write_file(self, path: Path, *, compressed: bool) -> int:
        events = self._child.events
        header = header_line(self._child.header)
        whole = 0 if compressed or not self._plain() else self._whole()
        with open(path, "xb+", opener=_private) as file:
            if compressed:
                file.write(file_of(text_of(header, list(events)), compressed=True))
            else:
                file.write(header + b"\n")
                file.flush()
            copied = self._copy(file.fileno(), whole) if whole else 0
            if not compressed:
                file.seek(0, os.SEEK_END)
                file.writelines(line + b"\n" for line in lines_of(list(events[whole:])))
            file.flush()
            os.fsync(file.fileno())
        return copied

    def _plain(self) -> bool:
        """Whether the parent's bytes are what a writer of ours would have written."""
        with self._path.open("rb") as file:
            plain = file.read(1) == b"{"
        return plain and not any(one.code in _ODD for one in self._parent.findings)

    def _whole(self) -> int:
        """How many events lie in rows of which the cut leaves all."""
        rows = self._parent.rows
        return self._at if self._at >= rows.length else rows.row_start(rows.row_index(self._at))

    def _copy(self, target: int, events: int) -> int:
        """The rows of the first *events* events, byte for byte."""
        rows = self._parent.rows
        number = len(rows.rows) if events >= rows.length else rows.row_index(events)
        with self._path.open("rb") as file:
            start, stop = _span(file.fileno(), number)
            size = stop - start
            done = _copy_range(file.fileno(), target, start, size)
            file.seek(start + done)
            os.lseek(target, 0, os.SEEK_END)
            while done < size:
                piece = file.read(min(size - done, 1 << 20))
                if not piece:
                    raise OSError(f"{self._path} became shorter while it was copied")
                done += os.write(target, piece)
                file.seek(start + done)
            if os.pread(target, 1, os.fstat(target).st_size - 1) != b"\n":  # the parent ends without one
                os.write(target, b"\n")
        return size

    def _check(self, path: Path) -> None:
        """What was made has to open, and to say what its parent says."""
        made = read_log(Source(path), vocabulary=self._parent.vocabulary)
        places = {self._at - 1, made.rows.length - 1} - {-1}
        same = made.rows.length == len(self._child) and all(
            made.rows.at(seq).line() == self._child.event(seq).line() for seq in places
        )
        if not same:
            raise RewriteRefused(f"{self._path} changed while it was copied; try again")

    def _attest(self, fs: OsFs, directory: Path, now: int) -> None:
        """Where it comes from, a seal, and the proofs of the requests that it inherits: they are about the prefix."""
        hashed = RunningHash(self._child.header)
        hashed.extend(self._child.events)
        note = Note(len(self._child), f"forked from session {self._parent.id} at {self._at} events", now)
        records: Sequence[Record] = [*self._proofs(), note, hashed.seal(now)]
        with contextlib.suppress(OSError):  # it proves, it does not keep
            attest(fs, directory, *records)

    def _proofs(self) -> list[ShownRequest]:
        try:
            records, _unreadable = read_attestation(self._path.with_name(ATTEST_NAME).read_bytes())
        except OSError:
            return []
        return [one for one in records if isinstance(one, ShownRequest) and one.seq <= self._at]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _span(descriptor: int, rows: int) -> tuple[int, int]:
    """Where the first rows of a plain log begin and end."""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as text:
        start = stop = text.find(b"\n") + 1
        for _row in range(rows):
            stop = text.find(b"\n", stop) + 1 or len(text)
    return start, stop


def _copy_range(source: int, target: int, start: int, size: int) -> int:
    """Have the kernel copy what it can; gives how many bytes that were. File systems that share bytes do it here."""
    copy = getattr(os, "copy_file_range", None)
    end = os.fstat(target).st_size
    done = 0
    while copy is not None and done < size:
        try:
            more = copy(source, target, size - done, start + done, end + done)
        except OSError:
            break
        if not more:
            break
        done += more
    return done
