"""`FileStore`: sessions as files under a root directory, where dsh finds them too.

```
<root>/<project>/<session>/session.jsonl[.zstd]   the log, format 0
                           session.lock           who writes it
                           attest.jsonl           what is attested about it
```

A new root holds plain logs; a root that has sessions keeps their encoding, because one plain file makes dsh refuse a
whole zstd root. Nothing is on disk before a session's first append.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from turnlog.log import SessionHeader
from turnlog.log.session import epoch_ms

from .attest import ATTEST_NAME, Note, attest_line
from .discover import list_sessions, placed_sessions
from .encode import lines_of
from .errors import (
    AppendConflict,
    EncodingRefused,
    LogUnsupported,
    SessionAmbiguous,
    SessionLocked,
    SessionNotFound,
    WriteFailed,
)
from .finding import Finding, Place
from .fs import TEMPORARY, Fs, Handle, OsFs, write_all
from .header import header_line
from .liveness import LOCK_NAME
from .lock import SessionLock
from .logfile import LogFile, own
from .names import encode_project, encode_session, log_files, places, session_directories
from .read import ReadLog, read_log
from .rewrite import link_beside
from .source import Source


class _Writing:
    """A session this process writes."""

    def __init__(self, log: LogFile, lock: SessionLock | None, directory: Path) -> None:
        self.log = log
        self.lock = lock
        self.directory = directory
        self.attest: Handle | None = None
        self.ragged = False
        """Whether the side file may end inside a line."""


class FileStore:
    """The sessions under a root directory. Reads every format, writes format 0. One thread at a time for each."""

    def __init__(
        self,
        root: Path,
        *,
        compressed: bool | None = None,
        adopt: bool = False,
        fs: Fs | None = None,
        lock: Callable[[Path, str], SessionLock] = SessionLock,
    ) -> None:
        """*compressed*: None keeps what the root has (plain when it is new). *adopt*: also write sessions without a
        lock file, as dsh leaves them, whose writer may still live. *fs* and *lock* are for simulations."""
        self.root: Final = root
        self._fs = fs if fs is not None else OsFs()
        self._lock = lock
        self._compressed = compressed
        self._mixes: bool | None = None
        """Whether a new session would mix encodings; None before anybody looked."""
        self._adopt = adopt
        self._above: tuple[Path, ...] | None = None
        """The root and the directories above it that this store has to make, outermost first."""
        self._kept: set[Path] = set()
        """Directories whose names are known to be durable."""
        self._created: dict[str, SessionHeader] = {}
        self._writing: dict[str, _Writing] = {}

    # -- reading ------------------------------------------------------------------------------------------------

    def headers(self) -> Iterator[SessionHeader]:
        """See :meth:`ReadableStore.headers`; damaged sessions are left out (``list_sessions`` names them)."""
        return (entry.header for entry in list_sessions([self.root]) if entry.header is not None)

    def read(self, session_id: str) -> Iterator[bytes]:
        """See :meth:`ReadableStore.read`; decompressed, as stored, whole records only."""
        writing = self._writing.get(session_id)
        if session_id in self._created and (writing is None or not writing.log.exists):
            return iter((header_line(self._created[session_id]),))
        return Source(self._path(session_id)).lines()

    def _path(self, session_id: str) -> Path:
        if session_id in self._writing:
            return self._writing[session_id].log.path
        found = placed_sessions(self.root, session_id) or [
            entry for entry in list_sessions([self.root]) if entry.id == session_id
        ]
        if not found:
            raise SessionNotFound(
                f"no session {session_id!r} under {self.root}; turnlog ls lists the sessions there are"
            )
        if len(found) > 1:
            raise SessionAmbiguous(
                f"session {session_id!r} exists twice under {self.root}: "
                f"{' and '.join(str(entry.path) for entry in found)}; name the file you mean"
            )
        return found[0].path

    # -- writing ------------------------------------------------------------------------------------------------

    @property
    def compressed(self) -> bool:
        """Whether batches are zstd frames: as asked for, else as the root has it."""
        if self._compressed is None:
            self._compressed = bool(self._encoding())
        return self._compressed

    def create(self, header: SessionHeader) -> None:
        """See :meth:`Store.create`. Nothing is on disk before the first append.

        Raises :class:`EncodingRefused` where it would be the first of its kind among others.
        """
        if header.id in self._created or any(map(log_files, places(self.root, header.id))):
            raise AppendConflict(f"session {header.id!r} exists already; choose another id, or resume it")
        self._refuse_mixing()
        self._created[header.id] = header

    def _refuse_mixing(self) -> None:
        if self._mixes is None:
            found = self._encoding()
            self._mixes = found is not None and found != self.compressed
        if self._mixes:
            has, asked = ("plain", "compressed") if self.compressed else ("compressed", "plain")
            remedy = f"turnlog {'compress' if self.compressed else 'decompress'} --root {self.root}"
            raise EncodingRefused(
                f"{self.root} holds {has} sessions, and dsh refuses a root that has both; open the store without "
                f"asking for {asked}, or repack the root: {remedy}"
            )

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        """See :meth:`Store.append`. The first append of a session takes its lock, also when *lines* is empty."""
        writing = self._writing.get(session_id)
        if writing is None:
            writing = self._begin(session_id) if session_id in self._created else self._take(session_id)
            self._writing[session_id] = writing
        if expected is not None and writing.log.lines != expected:
            raise AppendConflict(
                f"session {session_id!r} has {writing.log.lines} lines, the writer expected {expected}: somebody else "
                "wrote; read it again"
            )
        if lines:
            writing.log.append(lines)
        return writing.log.lines

    def sync(self, session_id: str) -> None:
        """See :meth:`Store.sync`."""
        writing = self._known(session_id)
        if writing is not None:
            writing.log.sync()

    def attest(self, session_id: str, lines: bytes) -> None:
        """See :meth:`AttestingStore.attest`. What the disk does not take is left out; a writer that lost its session
        adds nothing."""
        writing = self._known(session_id)
        if writing is not None and writing.log.ours():
            self._attest(writing, lines)

    def _known(self, session_id: str) -> _Writing | None:
        """A session that is written, or None for one that is only stored. Raises :class:`SessionNotFound`."""
        writing = self._writing.get(session_id)
        if writing is None and session_id not in self._created:
            self._path(session_id)
        return writing

    def release(self, session_id: str) -> None:
        """End writing a session: give back its file and its lock."""
        writing = self._writing.pop(session_id, None)
        self._created.pop(session_id, None)
        if writing is not None:
            writing.log.close()
            if writing.attest is not None:
                writing.attest.close()
            if writing.lock is not None:
                writing.lock.release()

    def close(self) -> None:
        """Release every session."""
        for session_id in list(self._writing):
            self.release(session_id)

    def _attest(self, writing: _Writing, data: bytes) -> None:
        """Add whole lines to the side file; what does not fit is left out, and never a part of a later line."""
        try:
            if writing.attest is None:
                writing.attest = self._open_attest(writing.directory / ATTEST_NAME)
            write_all(writing.attest, b"\n" + data if writing.ragged else data)
            writing.ragged = False
        except OSError:
            writing.ragged = True

    def _open_attest(self, path: Path) -> Handle:
        try:
            return self._fs.open(path)
        except FileNotFoundError:
            return self._fs.create(path)

    def _directory(self, header: SessionHeader) -> Path:
        return self.root / encode_project(header.cwd) / encode_session(header.id)

    def _name(self) -> str:
        return "session.jsonl.zstd" if self.compressed else "session.jsonl"

    def _begin(self, session_id: str) -> _Writing:
        header = self._created[session_id]
        directory = self._directory(header)
        try:
            self._make_directories(directory)
        except OSError as error:
            self._above = None  # what is there may have changed
            self._kept.clear()
            raise WriteFailed(
                f"{directory} cannot be made: {error.strerror or error}; the session stays in memory"
            ) from error
        lock = self._lock(directory, session_id)
        if ATTEST_NAME in (names := self._sweep(directory)) and self._name() not in names:
            self._set_aside(directory / ATTEST_NAME)
        log = LogFile(
            self._fs,
            directory / self._name(),
            header_line(header) + b"\n",
            compressed=self.compressed,
            held=lock.held,
            suffix=secrets.token_hex(6),
        )
        return _Writing(log, lock, directory)

    def _make_directories(self, directory: Path) -> None:
        """The session's directory and those above it, whoever made them and whenever: these durable in their parents.
        Its own name is made durable with the log's, for little more than one of them."""
        project, root = directory.parent, directory.parent.parent
        above = self._above
        if above is None:
            missing = [root]
            while not missing[-1].parent.exists():
                missing.append(missing[-1].parent)
            self._above = above = tuple(reversed(missing))
        for path in (*above, project):
            if path not in self._kept:
                made = self._fs.make_directory(path)
                self._keep_name(path, ours=made or path == project)
                self._kept.add(path)
        self._fs.make_directory(directory)

    def _keep_name(self, path: Path, *, ours: bool) -> None:
        """Make the name of a directory durable, if its parent lets us; *ours*: it has to."""
        try:
            self._fs.sync_directory(path.parent)
        except PermissionError:
            if ours:
                raise

    def _sweep(self, directory: Path) -> list[str]:
        """Remove what a writer that died while it made the log has left; gives the names that were there. Under the
        lock there is no other writer."""
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = self._fs.names(directory)
            for name in names:
                if name.startswith("session.") and name.endswith(TEMPORARY):
                    self._fs.remove(directory / name)
        return names

    def _set_aside(self, path: Path) -> None:
        """What is attested about a session that was removed says nothing about a new one of the same id."""
        with contextlib.suppress(OSError):
            link_beside(self._fs, path, "removed", epoch_ms())
            self._fs.remove(path)

    def _take(self, session_id: str) -> _Writing:
        """Begin to write a stored session: lock it, read it, cut a torn tail."""
        path = self._path(session_id)
        if not self._adopt and not path.with_name(LOCK_NAME).exists():
            raise SessionLocked(
                f"session {session_id} has no lock file, so dsh may be writing it; end dsh, then open the store with "
                "adopt=True"
            )
        return self._take_at(session_id, path)

    def _take_at(self, session_id: str, path: Path) -> _Writing:
        """The same for a log file that is known already. What was taken is durable, even if its writer died before it
        synced."""
        with contextlib.ExitStack() as undo:
            lock = self._lock(path.parent, session_id)
            undo.callback(lock.release)
            self._sweep(path.parent)
            handle, data = self._owned(path)
            undo.callback(handle.close)
            log = read_log(Source(data, name=str(path)))
            self._check_writable(session_id, path, log)
            self._keep_names(path)
            writing = self._mended(path, log, data, lock, handle)
            undo.pop_all()
        return writing

    def _owned(self, path: Path) -> tuple[Handle, bytes]:
        """The log as no other writer changes it any more, and what it holds."""
        try:
            handle = own(self._fs, path, secrets.token_hex(6))
        except OSError as error:
            raise WriteFailed(f"{path} cannot be opened: {error.strerror or error}; nothing was changed") from error
        try:
            return handle, self._fs.read(path)
        except OSError as error:
            handle.close()
            raise WriteFailed(f"{path} cannot be read: {error.strerror or error}; nothing was changed") from error

    def _check_writable(self, session_id: str, path: Path, log: ReadLog) -> None:
        if log.format.version != 0:
            raise LogUnsupported(
                Finding(
                    code="format",
                    severity="refused",
                    kind="unsupported",
                    place=Place(path=str(path)),
                    text=f"session {session_id} is stored in {log.format.name}; only format 0 is written.",
                    remedy="turnlog convert makes a format-0 session of it.",
                )
            )
        odd = [
            one
            for one in log.findings
            if one.code in ("crlf", "bom", "unknown-type", "retired-type") or _ends_inside(log, one)
        ]
        if odd:
            raise LogUnsupported(
                msgspec.structs.replace(
                    odd[0],
                    text=f"{odd[0].text} Writing on would make a log that other readers stumble over.",
                    remedy="turnlog convert makes a clean session of it.",
                )
            )

    def _keep_names(self, path: Path) -> None:
        """Make the names that lead to a log durable, up to the root; its writer may have died before it did."""
        inside = self.root in path.parents
        try:
            self._fs.sync_directory(path.parent)
            for above in path.parents:
                if above not in self._kept:
                    self._keep_name(above, ours=False)
                if above != path.parent:  # one per session would add up
                    self._kept.add(above)
                if above == self.root or not inside:
                    break
        except OSError as error:
            raise WriteFailed(f"{path} cannot be made durable: {error.strerror or error}") from error

    def _mended(self, path: Path, log: ReadLog, data: bytes, lock: SessionLock, handle: Handle) -> _Writing:
        """The file of a stored log, whole, durable and ready to be written on."""
        won = log.rows.length - (log.torn.recovered if log.torn is not None else 0)
        rows = log.rows.row_index(won) if won < log.rows.length else len(log.rows.rows)
        file = LogFile(
            self._fs,
            path,
            header_line(log.header) + b"\n",
            compressed=log.compressed,
            held=lock.held,
            suffix=secrets.token_hex(6),
            lines=rows,
            size=log.size,
            handle=handle,
        )
        end = log.size if log.torn is None else log.torn.offset
        unended = data[end - 1 : end] != b"\n" if not log.compressed else _has(log, "no-final-newline")
        file.mend(end, lines_of(list(log.rows.iterate(won, log.rows.length))), newline=unended)
        writing = _Writing(file, lock, path.parent)
        writing.ragged = self._is_ragged(path.with_name(ATTEST_NAME))
        if log.torn is not None:
            told = f"cut {log.torn.size} bytes: {log.torn.reason}"
            self._attest(writing, attest_line(Note(log.rows.length, told, epoch_ms())))
        return writing

    def _is_ragged(self, path: Path) -> bool:
        try:
            data = self._fs.read(path)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # an empty line more does no harm
        return data[-1:] not in (b"", b"\n")

    def _encoding(self) -> bool | None:
        """Whether the sessions that are there are compressed; None when there is none."""
        for directory in session_directories(self.root):
            for file in log_files(directory):
                return file.compressed
        return None


def _ends_inside(log: ReadLog, finding: Finding) -> bool:
    """Whether it says that the last frame is whole and ends inside a record: there is no place to cut but before all
    the whole records of that frame."""
    return finding.code == "frame-layout" and log.torn is not None and finding.place.offset == log.torn.offset


def _has(log: ReadLog, code: str) -> bool:
    return any(one.code == code for one in log.findings)
