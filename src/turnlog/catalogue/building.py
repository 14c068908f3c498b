"""Building the full text: in this process, or in one of its own that goes on when the command is over."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from .database import closing_descriptor
from .fulltext import Builder, FullText, FullTextLost, text_path
from .index import Catalogue, Listed

_ROUNDS: Final = 3
"""How often sessions that changed while they were read are tried again."""


class Built(NamedTuple):
    """What a build came to."""

    sessions: int
    """Sessions that were put in, or carried on."""
    left: int
    """Sessions that could not be: they are written right now, or cannot be read."""
    busy: bool = False
    """Somebody else builds; nothing was done."""


def build(
    roots: Sequence[Path],
    *,
    say: Callable[[str], None] = lambda _text: None,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
    indexing: Callable[[int, int], None] = lambda _done, _of: None,
) -> Built:
    """Put every session under *roots* into the full text; what is there already costs nothing.

    It may be ended at any moment: what was written stays, the rest is for the next time. *indexing* and *progress* are
    told how far the index and the full text are: sessions, and bytes of log. Raises ``sqlite3.Error`` when it cannot be
    written.
    """
    done = left = 0
    for root in roots:
        with alone(text_path(root)) as free:
            if not free:
                return Built(done, left, busy=True)
            ready, missed = _build(root, say, progress, indexing)
        done, left = done + ready, left + missed
    return Built(done, left)


def _build(
    root: Path, say: Callable[[str], None], progress: Callable[[int, int], None], indexing: Callable[[int, int], None]
) -> tuple[int, int]:
    done = 0
    todo: list[Listed] = []
    for _round in range(_ROUNDS):
        with Catalogue([root], say=say, progress=indexing) as catalogue:
            sessions = catalogue.sessions()
        text = _open(root, say)
        try:
            builder = Builder(text)
            there = {one.key for one in sessions}
            gone = [key for key in text.covered if key not in there]
            builder.forget(gone)
            todo = [one for one in sessions if _is_open(text, one)]
            total = sum(one.record.identity.size for one in todo)
            read = 0
            left: list[Listed] = []
            for session in todo:
                progress(read, total)
                try:
                    ready = builder.add(session)
                except OSError:
                    ready = False
                if not ready:
                    left.append(session)
                read += session.record.identity.size
            builder.flush()
            progress(total, total)
            done += len(todo) - len(left)
            todo = left
        finally:
            text.close()
        if not todo:
            break
    return done, len(todo)


def _is_open(text: FullText, session: Listed) -> bool:
    known = text.covers(session)
    return bool(session.record.run) and (known is None or known.offset < session.record.identity.size)


def _open(root: Path, say: Callable[[str], None]) -> FullText:
    try:
        text = FullText(root, say, make=True)
    except FullTextLost as error:
        if not error.damaged:
            raise sqlite3.OperationalError(str(error)) from None
        for suffix in ("", "-wal", "-shm"):
            Path(f"{text_path(root)}{suffix}").unlink(missing_ok=True)
        text = FullText(root, say, make=True)
    if not text.kept:
        text.close()
        raise sqlite3.OperationalError(f"{text_path(root)} cannot be written")
    return text


def start_builder(roots: Sequence[Path]) -> bool:
    """Start a process that builds the full text and outlives this one. False where one is at work already, or none can
    be started."""
    for root in roots:
        with alone(text_path(root)) as free:
            if not free:
                return False
    words = [part for root in roots for part in ("--root", os.path.abspath(root))]
    command = [sys.executable, "-m", "turnlog", "index", "build", "--quiet", *words]
    try:  # through a shell that is over at once, so that whoever started it has no child to wait for
        started = subprocess.run(
            ["/bin/sh", "-c", '"$0" "$@" &', *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, check=False,
        )  # fmt: skip
    except OSError:
        return False
    return started.returncode == 0


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Whether nobody else builds *path*; then nobody does until the block is left. The lock goes with its process."""
    try:
        import fcntl
    except ImportError:
        yield True
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(f"{path}.building", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True  # it cannot be written either, which is found next
        return
    with closing_descriptor(descriptor):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
