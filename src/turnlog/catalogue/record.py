"""`Record`: all that the index keeps of one session directory, with a checksum over it.

A record whose checksum is wrong is no record: the session is read again.
"""

from __future__ import annotations

import marshal
import zlib
from typing import Any, Final, NamedTuple

from .tally import Totals

RACY_NS: Final = 2_000_000_000
"""A file that changed within two seconds before it was looked at may change again without its times showing it, because
file systems tell times in ticks. Such a file is compared with what was indexed when it is next met."""


class Identity(NamedTuple):
    """What the file system says of a file; while it says the same, the file is the same."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Mark(NamedTuple):
    """A place in a log after a whole turn, from which on it can be read without what lies before."""

    offset: int
    """Byte of the file: the beginning of a line, or of a frame."""
    seq: int
    """Of the next event."""
    digest: bytes
    """SHA-256 of the file's bytes before it."""
    totals: Totals
    """What the log comes to up to there."""


class Record(NamedTuple):
    """What is known of one session directory, and how the file system looked when it was read."""

    directory_ns: int
    """When an entry of the directory was last added, renamed or removed."""
    directory_inode: int
    checked_ns: int
    """When it was looked at, epoch ns."""
    file: str = ""
    """Name of the log file of the newest generation; nothing where no file has a name of one."""
    identity: Identity = Identity(0, 0, 0, 0, 0)
    skipped: str = ""
    """Why the directory is no session although a file in it looks like a log."""
    skipped_ms: int = 0
    locked: bool = False
    """Whether it has a lock file."""
    id: str = ""
    version: int = 0
    headed: bool = False
    """Whether its header can be read."""
    cwd: str | None = None
    created_ms: int = 0
    parent: str | None = None
    problem: str = ""
    trouble: str = ""
    sound: bool = False
    """Whether strict reading accepts the log, and nothing in it is odd: then its lines are its events."""
    compressed: bool = False
    seed: int = 0
    """How many leading events were inherited."""
    run: int = 0
    """A number of its own for each time that the log is read from the front: while it is the same, what was read
    before is still what the log begins with."""
    totals: Totals = Totals()

    def pack(self) -> bytes:
        """As bytes, with a checksum before them."""
        return _sealed((*self[:_IDENTITY], tuple(self.identity), *self[_IDENTITY + 1 : -1], self.totals.packed()))


class Rest(NamedTuple):
    """What is only needed to read on, kept apart: ten thousand records are read for a list."""

    run: int = 0
    """The :attr:`Record.run` it belongs to."""
    header: bytes = b""
    """The header as JSON; nothing where it cannot be read."""
    digest: bytes = b""
    """SHA-256 of the file."""
    mark: Mark | None = None
    """Where reading on begins; None where the log has to be read from the front."""

    def pack(self) -> bytes:
        """As bytes, with a checksum before them."""
        mark = None if self.mark is None else (*self.mark[:3], self.mark.totals.packed())
        return _sealed((*self[:-1], mark))


_IDENTITY: Final = Record._fields.index("identity")


def unpack(data: object) -> Record | None:
    """The record in *data*, or None where it is damaged."""
    values = _opened(data)
    try:
        values[_IDENTITY] = Identity._make(values[_IDENTITY])
        values[-1] = Totals.unpacked(values[-1])
        return Record._make(values)
    except (TypeError, IndexError):  # damaged, or what another build packed
        return None


def unpack_rest(data: object) -> Rest | None:
    """The rest in *data*, or None where it is damaged."""
    values = _opened(data)
    try:
        *known, mark = values
        return Rest(*known, None if mark is None else Mark(*mark[:3], Totals.unpacked(mark[3])))  # type: ignore[call-arg]
    except (TypeError, ValueError, IndexError):
        return None


def _sealed(values: tuple[Any, ...]) -> bytes:
    data = marshal.dumps(values)
    return zlib.crc32(data).to_bytes(4, "big") + data


def _opened(data: object) -> list[Any]:
    """The values in *data*; none where the checksum is wrong."""
    if not isinstance(data, bytes):
        return []
    values = data[4:]
    return list(marshal.loads(values)) if zlib.crc32(values) == int.from_bytes(data[:4], "big") else []
