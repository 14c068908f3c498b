"""Rewriting a stored session: a whole new file first, then one rename.

Nothing here changes a log in place. A new file is written under a name that neither dsh nor our discovery takes for a
log, made durable, and renamed over the old one, so that at every moment the log's name stands for one whole log.
A session that somebody writes is never rewritten: its lock is held meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from turnlog.log import AnyEvent, SessionHeader

from .attest import ATTEST_NAME, Record, attest_line
from .encode import lines_of
from .errors import SessionLocked, WriteFailed
from .fs import TEMPORARY, Fs, write_all, write_new
from .liveness import LOCK_NAME
from .lock import SessionLock
from .logfile import frame_of
from .names import encode_project, encode_session, log_files, parse_file

FRAME_TEXT: Final = 256 << 10
"""Bytes of text per frame of a rewritten log: enough to compress well, little enough to read a part."""


def in_place(log: Path, header: SessionHeader) -> bool:
    """Whether *log* lies where dsh and we look for this session: ``<root>/<project>/<session>/session.jsonl``."""
    session, project = log.parent.name, log.parent.parent.name
    named = parse_file(log) is not None
    return named and session == encode_session(header.id) and project == encode_project(header.cwd)


def root_of(log: Path) -> Path | None:
    """The root directory that a log lies in, by the names of the directories; None for a log that lies elsewhere."""
    project = (log if len(log.parents) > 3 else log.absolute()).parent.parent
    named = project.name == "_no-cwd" or (project.name.startswith("--") and project.name.endswith("--"))
    return project.parent if named and parse_file(log) is not None else None


@contextmanager
def writing(log: Path) -> Iterator[None]:
    """Say what it means that the disk refused: :class:`WriteFailed`, and the log is as it was."""
    try:
        yield
    except OSError as error:
        raise WriteFailed(f"{error.filename or log}: {error.strerror or error}; {log} was not changed") from error


@contextmanager
def held(log: Path, session_id: str, *, placed: bool, force: bool) -> Iterator[None]:
    """Keep writers off while a session is rewritten. A file that lies outside of any root has no writer.

    Raises :class:`SessionLocked`: its writer lives, or, unless *force*, nobody can tell because dsh locks nothing.
    """
    if not log.with_name(LOCK_NAME).exists():
        if not placed:
            yield
            return
        if not force:
            raise SessionLocked(
                f"session {session_id} has no lock file, so dsh may be writing it; end dsh, then use --force"
            )
    lock = SessionLock(log.parent, session_id)
    try:
        yield
    finally:
        lock.release()


def text_of(header: bytes, events: Sequence[AnyEvent]) -> list[bytes]:
    """The lines of a log made anew, each with its newline: *header* line, then the events with their runs packed."""
    return [line + b"\n" for line in (header, *lines_of(events))]


def file_of(lines: Sequence[bytes], *, compressed: bool) -> bytes:
    """The file that holds *lines*: as they are, or the header in a frame of its own and then frames of many lines."""
    if not compressed:
        return b"".join(lines)
    return frame_of(lines[0]) + b"".join(frame_of(part) for part in _parts(lines[1:]))


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size >= FRAME_TEXT:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


def temporary(file: Path, suffix: str) -> Path:
    """The name of a whole new file until it takes the place of *file*; whoever takes the session over sweeps it."""
    return file.with_name(f"{file.name}.{suffix}.new{TEMPORARY}")


def replace(fs: Fs, new: Path, name: Path) -> None:
    """Give *new*, which is durable, the name of the file that it replaces; durably."""
    fs.rename(new, name)
    fs.sync_directory(name.parent)


def attest(fs: Fs, directory: Path, *records: Record) -> None:
    """Add to what is attested about the session in *directory*."""
    path = directory / ATTEST_NAME
    data = b"".join(map(attest_line, records))
    try:
        handle = fs.open(path)
    except FileNotFoundError:
        handle = fs.create(path)
    else:
        if fs.read(path)[-1:] not in (b"", b"\n"):
            data = b"\n" + data  # a torn line is none, and never a part of this one
    try:
        write_all(handle, data)
        handle.sync()
    finally:
        handle.close()
    fs.sync_directory(directory)


def write_beside(fs: Fs, log: Path, what: str, data: bytes, now: int, suffix: str) -> Path:
    """A new durable file ``<log>.<what>-<time>`` beside a log; it never takes the place of another."""
    for path in _free_names(log, what, now):
        try:
            write_new(fs, path, data, suffix)
        except FileExistsError:
            continue
        return path
    raise AssertionError("names never run out")


def link_beside(fs: Fs, file: Path, what: str, now: int) -> Path:
    """A second name ``<file>.<what>-<time>`` for a file that is about to lose its own."""
    for path in _free_names(file, what, now):
        try:
            fs.link(file, path)
        except FileExistsError:
            continue
        fs.sync_directory(path.parent)
        return path
    raise AssertionError("names never run out")


def _free_names(log: Path, what: str, now: int) -> Iterator[Path]:
    """``session.jsonl.repaired-20261130T213000Z``, and ``-2``, ``-3`` … after it: no name of a log, to dsh or to us."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now / 1000))
    number = 1
    while True:
        yield log.with_name(f"{log.name}.{what}-{stamp}" + (f"-{number}" if number > 1 else ""))
        number += 1


def is_compressed_name(log: Path) -> bool:
    """Whether a file of this name should hold zstd frames."""
    return log.suffix == ".zstd"


def encodings(directory: Path) -> set[bool]:
    """Which encodings the logs of a session directory have, by their names as dsh goes by them."""
    return {one.compressed for one in log_files(directory)}
