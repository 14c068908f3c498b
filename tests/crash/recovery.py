"""What the storage code makes of what a crash has left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch
from zlib import crc32

from turnlog.events import Vocabulary
from turnlog.log import SessionHeader
from turnlog.store import files, proven
from turnlog.store.attest import RunningHash, Seal, attest_line, read_attestation
from turnlog.store.errors import LogCorrupt, SessionLocked
from turnlog.store.files import FileStore
from turnlog.store.load import stored_session
from turnlog.store.read import ReadLog, read_log
from turnlog.store.source import Source

from .losses import ATTEST, Image, losses
from .simfs import Directory, File, SimFs

ID: Final = "s"
HEADER: Final = SessionHeader(version=0, id=ID, created_at=1000, cwd="/w")
ROOT: Final = Path("/sessions")
PLACE: Final = ("sessions", "--w--", ID)
DIRECTORY: Final = Path("/", *PLACE)

HOLES: Final = frozenset({"nul-bytes", "not-utf8", "frame-damaged"})
"""How a log is refused that has a hole (never after a loss that leaves none)."""


class Violation(AssertionError):
    """A promise that did not hold."""


def name_of(compressed: bool) -> str:
    return "session.jsonl.zstd" if compressed else "session.jsonl"


def path_of(compressed: bool) -> Path:
    return DIRECTORY / name_of(compressed)


class Locks:
    """The locks of one machine. The kernel frees those of a killed process; an operator may remove a lock file."""

    def __init__(self) -> None:
        self._holders: dict[Path, SimLock] = {}

    def __call__(self, directory: Path, session_id: str) -> Any:
        if directory in self._holders:
            raise SessionLocked(f"session {session_id} is being written by a simulated process")
        taken = self._holders[directory] = SimLock(self, directory)
        return taken

    def forget(self) -> None:
        """Its holders are gone, or their lock files were removed."""
        self._holders.clear()

    def holder(self, directory: Path) -> SimLock | None:
        return self._holders.get(directory)

    def release(self, lock: SimLock) -> None:
        if self._holders.get(lock.directory) is lock:
            del self._holders[lock.directory]


class SimLock:
    def __init__(self, locks: Locks, directory: Path) -> None:
        self._locks = locks
        self.directory = directory

    def held(self) -> bool:
        return self._locks.holder(self.directory) is self

    def release(self) -> None:
        self._locks.release(self)


@dataclass(frozen=True)
class Recovered:
    """What came out of an image."""

    lines: list[bytes]
    """The own line of every event."""
    refused: str | None = None
    """Why strict reading refuses it; *lines* are then what forensic reading shows up to there."""
    missing: bool = False
    """There is no log: the session was never durable."""
    nested: list[tuple[int, Image]] = field(default_factory=list)
    """What crashes during the recovery may leave."""


def world(image: Image, compressed: bool) -> SimFs:
    """A machine that has just started, with *image* on its disk."""
    fs = SimFs()
    directory = Directory()
    content = {name_of(compressed): image.log, ATTEST: image.attest}
    if image.temporary:
        content[f"{name_of(compressed)}.0123456789ab.tmp"] = b"half"
    for name, data in content.items():
        if data is not None:
            directory.names[name] = File(data)
    directory.disk = dict(directory.names)
    for name in reversed(PLACE):
        above = Directory()
        above.names[name] = above.disk[name] = directory
        directory = above
    fs.top = directory
    return fs


def reboot(fs: SimFs, image: Image, compressed: bool) -> None:
    """Let the machine behind *fs* start with *image*; its faults go on."""
    fs.top = world(image, compressed).top
    fs.sync_failed = fs.dead = False


def own_lines(log: ReadLog) -> list[bytes]:
    return [event.line() for event in log.rows.iterate(0, log.rows.length)]


def take(store: FileStore, compressed: bool) -> None:
    """What ``append(id, None, ())`` does for a log that is there."""
    store._writing[ID] = store._take_at(ID, path_of(compressed))


def recover(image: Image, compressed: bool, kind: type[FileStore]) -> Recovered:
    """Take the session over as after a start, write on it, and look at everything it promises.

    Raises :class:`Violation`.
    """
    fs, locks = world(image, compressed), Locks()
    if image.log is None:
        _write_on(kind, fs, locks, [], compressed, begin=True)
        return Recovered([], missing=True)
    nested: list[tuple[int, Image]] = []
    random = Random(crc32(image.log))

    def crash() -> None:
        nested.extend((loss.kind, loss.image) for loss in losses(fs, PLACE, name_of(compressed), random))

    store = kind(ROOT, compressed=compressed, fs=fs, lock=locks)
    fs.before = crash
    try:
        take(store, compressed)
    except LogCorrupt as error:
        if fs.file(path_of(compressed)).cache != image.log:
            raise Violation("a log that was refused was changed") from error
        return Recovered(_up_to_fault(image.log, error), refused=error.finding.code)
    crash()
    fs.before = None
    store.close()
    once = fs.file(path_of(compressed))
    if once.pending or name_of(compressed) not in fs.directory(DIRECTORY).disk:
        raise Violation("what was taken over is not durable")
    found = own_lines(read_log(Source(once.cache)))
    before = once.cache
    _write_on(kind, fs, locks, found, compressed, begin=False)
    if not once.cache.startswith(before):
        raise Violation("a second recovery changed the log again")
    return Recovered(found, nested=list(dict.fromkeys(nested)))


def _up_to_fault(data: bytes, error: LogCorrupt) -> list[bytes]:
    """The events before the first gap, as forensic reading shows them; none when there is no header."""
    try:
        log = read_log(Source(data, forensic=True), forensic=True)
    except LogCorrupt:
        return []
    events = enumerate(log.rows.rows and stored_session(log, Vocabulary.core, None, "gone").events)
    return [event.line() for _seq, event in takewhile(lambda one: one[0] == one[1].seq, events)]


def _write_on(
    kind: type[FileStore], fs: SimFs, locks: Locks, before: list[bytes], compressed: bool, *, begin: bool
) -> None:
    """A further event is written, durable, read back and sealed."""
    store = kind(ROOT, compressed=compressed, fs=fs, lock=locks)
    if begin:
        store.create(HEADER)
    else:
        take(store, compressed)
    line = b'{"type":"session/end-seed","seq":%d,"time":1,"data":{}}' % len(before)
    store.append(ID, None, [line])
    sealed = RunningHash(HEADER)
    sealed.extend_lines([*before, line])
    store.sync(ID)
    store.attest(ID, attest_line(sealed.seal(1)))
    store.close()
    directory = fs.directory(DIRECTORY)
    if fs.file(path_of(compressed)).pending or name_of(compressed) not in directory.disk:
        raise Violation("what was synced is not durable")
    if any(name.endswith(".tmp") for name in directory.names):
        raise Violation("a temporary file is left")
    data = fs.file(path_of(compressed)).disk
    log = read_log(Source(data))
    if log.torn is not None or own_lines(log) != [*before, line]:
        raise Violation(f"an event that was written after the recovery is not there: {own_lines(log)[len(before) :]}")
    check_seals(log, fs.read(DIRECTORY / ATTEST), "proven")


def check_seals(log: ReadLog, side: bytes, *states: str) -> None:
    """What the seals beside a log say has to be one of *states*."""
    records, unreadable = read_attestation(side)
    seals = sorted((one for one in records if isinstance(one, Seal)), key=lambda seal: seal.seq)
    if not seals:
        return
    session = stored_session(log, Vocabulary.core, None, "gone")
    proof = proven._compare(session, seals, unreadable, ())
    if proof.state not in states:
        raise Violation(f"the seals say: {proof}")


@contextmanager
def stopped_clock() -> Iterator[None]:
    """Stop the clock of the store."""
    with patch.object(files, "epoch_ms", lambda: 1_000):
        yield
