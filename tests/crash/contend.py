"""Two writers of one session, others who change its file, and two batches at one place: what must never mix."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Final

from turnlog.log import Session
from turnlog.store.encode import lines_of
from turnlog.store.errors import ConcurrentWriter, SessionLocked, WriteFailed
from turnlog.store.files import FileStore
from turnlog.store.read import read_log
from turnlog.store.source import Source

from .driver import Storage, script
from .recovery import DIRECTORY, HEADER, ID, ROOT, Locks, Violation, name_of, own_lines, path_of, take
from .simfs import Fault, File, Name, SimFs, SimHandle, apply


class Contest:
    """A live writer, and what happens to it."""

    def __init__(self, seed: int, storage: Storage) -> None:
        self.random = Random(seed)
        self.compressed = seed % 2 == 1
        self.storage = storage
        self.fs, self.locks = SimFs(), Locks()
        self.first = self.store()
        self.first.create(HEADER)
        self.session = Session(header=HEADER, clock=itertools.count(1000).__next__)
        self.script = script(self.session, self.random)
        self.count = 0
        self.kept = 0
        for _ in range(self.random.randrange(1, 4)):
            self.count = self.write(self.first, self.count)
            if self.random.random() < 0.4:
                self.first.sync(ID)

    def store(self) -> FileStore:
        return self.storage.store(ROOT, compressed=self.compressed, fs=self.fs, lock=self.locks)

    @property
    def file(self) -> File:
        return self.fs.file(path_of(self.compressed))

    def write(self, store: FileStore, count: int) -> int:
        """Append what a live session says next."""
        for payload, sources in itertools.islice(self.script, self.random.randrange(1, 5)):
            self.session.append(payload, sources=sources)  # type: ignore[call-overload]
        batch = self.session.events[self.kept :]
        count = store.append(ID, count, lines_of(batch))
        self.kept = len(self.session)
        return count

    def expect_finished(self) -> None:
        """The first writer is told that it is finished, and changes nothing, however often it tries."""
        before = self.file.cache if self.exists() else None
        for attempt in range(3):
            try:
                if attempt == 1:
                    self.first.sync(ID)
                else:
                    self.first.append(ID, None, [_line(9999, 1)])
            except ConcurrentWriter:
                pass
            else:
                raise Violation("a writer that lost its session goes on")
            if before != (self.file.cache if self.exists() else None):
                raise Violation("a writer that lost its session wrote")

    def exists(self) -> bool:
        return name_of(self.compressed) in self.fs.directory(DIRECTORY).names


def locked(contest: Contest) -> None:
    """A second process comes while the first lives."""
    second = contest.store()
    try:
        take(second, contest.compressed)
    except SessionLocked:
        return
    raise Violation("two writers have the session")


def fenced(contest: Contest) -> None:
    """The first was stopped, its lock file was removed, a second took over, the first comes back."""
    contest.locks.forget()
    second = contest.store()
    take(second, contest.compressed)
    count = second.append(ID, None, ())
    if contest.random.random() < 0.5:
        count = contest.write(second, count)
    contest.expect_finished()
    try:
        contest.write(second, count)
        second.sync(ID)
    except ConcurrentWriter as error:
        raise Violation("the rightful writer is told that it is not") from error
    second.close()
    if own_lines(read_log(Source(contest.file.disk))) != [event.line() for event in contest.session.events]:
        raise Violation("the log is not what the two writers wrote")


def outlived(contest: Contest) -> None:
    """The same, and the second is gone again when the first comes back, without a file open and nothing written."""
    contest.locks.forget()
    contest.first._writing[ID].log.close()
    second = contest.store()
    take(second, contest.compressed)
    second.close()
    contest.expect_finished()


def stopped(contest: Contest) -> None:
    """The first was stopped after its last look and before its write; a second took over, perhaps wrote, and goes on.
    What the first writes goes nowhere, and nobody is told that it is durable."""
    second, count = contest.store(), 0
    contest.first.sync(ID)
    before = [event.line() for event in contest.session.events]
    own = [_line(len(before) + at, 1) for at in range(2)]

    def take_over(_file: File, _data: bytes) -> None:
        nonlocal count
        contest.fs.tearing = None
        contest.locks.forget()
        take(second, contest.compressed)
        count = second.append(ID, None, ())
        if contest.random.random() < 0.5:
            count = contest.write(second, count)

    contest.fs.tearing = take_over
    contest.first.append(ID, None, own)
    contest.expect_finished()
    try:
        contest.write(second, count)
        second.sync(ID)
    except ConcurrentWriter as error:
        raise Violation("the rightful writer is told that it is not") from error
    second.close()
    if own_lines(read_log(Source(contest.file.disk))) != [event.line() for event in contest.session.events]:
        raise Violation("what the stopped writer wrote is in the log")


def grew(contest: Contest) -> None:
    """Somebody who knows no lock writes to the file."""
    SimHandle(contest.fs, contest.file).write(b"{}\n")
    contest.expect_finished()


def shrank(contest: Contest) -> None:
    """Somebody cuts the file."""
    SimHandle(contest.fs, contest.file).truncate(contest.random.randrange(len(contest.file.cache)))
    contest.expect_finished()


def replaced(contest: Contest) -> None:
    """Another file has the name now, perhaps of the same size."""
    content = contest.file.cache
    directory = contest.fs.directory(DIRECTORY)
    contest.first.append(ID, None, [_line(9998, 1)])
    directory.do(Name(name_of(contest.compressed), File(content)))
    contest.expect_finished()


def removed(contest: Contest) -> None:
    """The name is gone."""
    contest.fs.directory(DIRECTORY).do(Name(name_of(contest.compressed), None))
    contest.expect_finished()


def refused(contest: Contest) -> None:
    """A batch is refused half way, another one follows: they never mix, whatever a power cut keeps of them."""
    contest.first.sync(ID)
    before = [event.line() for event in contest.session.events]
    first, other = ([_line(len(before) + at, time) for at in range(count)] for time, count in ((1, 9), (2, 1)))
    contest.fs.faults = (Fault(len(contest.fs.calls), "short-enospc"),)
    try:
        contest.first.append(ID, None, first)
    except WriteFailed:
        contest.first.append(ID, None, other)
    file = contest.file
    for kept in itertools.product((True, False), repeat=len(file.pending)):
        content = file.disk
        for one, keep in zip(file.pending, kept, strict=True):
            content = apply(content, one) if keep else content
        found = own_lines(read_log(Source(content)))
        if found not in (before, [*before, *other], [*before, *first][: len(found)]):
            raise Violation(f"a refused batch and a later one are mixed: {found[len(before) :]}")


def _line(seq: int, time: int) -> bytes:
    return b'{"type":"session/end-seed","seq":%d,"time":%d,"data":{}}' % (seq, time)


CONTESTS: Final[tuple[Callable[[Contest], None], ...]] = (
    locked,
    fenced,
    outlived,
    stopped,
    grew,
    shrank,
    replaced,
    removed,
    refused,
)


def contend(seed: int, storage: Storage) -> None:
    """Every contest once. Raises :class:`Violation`, naming the seed."""
    for what in CONTESTS:
        try:
            what(Contest(seed, storage))
        except Exception as error:
            raise Violation(f"{error!r}\n{what.__name__}, seed {seed}") from error
