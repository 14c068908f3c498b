"""What we attest about a log, beside it: `attest.jsonl`.

A *seal* says: the first *seq* events are so many bytes and have this hash. The hash runs over the *logical log* (the
header line, then one line per event as format 0 writes it), so packing rows or compressing changes nothing. A seal is
written after what it attests is durable. A *proof* says what a model was shown, a *note* what a writer did.

Deleting the file loses proofs, never history; a torn or lying one proves nothing and stops nobody from reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from turnlog.events.lossless import dump
from turnlog.log import AnyEvent, SessionHeader
from turnlog.log.proof import RequestProof

from .header import header_line

ATTEST_NAME: Final = "attest.jsonl"


class Seal(Struct, frozen=True, tag="seal", tag_field="type"):
    """The first *seq* events of the log are *bytes* long and have this hash."""

    seq: int
    bytes: int
    sha256: str
    time: int
    """When it was sealed, epoch ms."""


class Note(Struct, frozen=True, tag="note", tag_field="type"):
    """Something a writer did that the log itself does not say: a cut tail, a repair."""

    seq: int
    """How many events the log had then."""
    text: str
    time: int


class ShownRequest(Struct, frozen=True, tag="proof", tag_field="type"):
    """What a model was shown when the log had *seq* events (:class:`turnlog.log.RequestProof`)."""

    seq: int
    turn: int
    step: int
    attempt: int
    messages: int
    header: str
    chain: str
    time: int
    """When the request left, epoch ms."""

    @property
    def proof(self) -> RequestProof:
        """The proof as it was made."""
        return RequestProof(self.seq, self.turn, self.step, self.attempt, self.messages, self.header, self.chain)


Record: TypeAlias = Seal | Note | ShownRequest

_decode: Final = msgspec.json.Decoder(Record).decode


class RunningHash:
    """The hash of a logical log, extended event by event."""

    def __init__(self, header: SessionHeader) -> None:
        first = header_line(header) + b"\n"
        self._hash = hashlib.sha256(first)
        self.bytes = len(first)
        self.length = 0

    def extend(self, events: Iterable[AnyEvent]) -> None:
        """Take in the next events."""
        self.extend_lines([event.line() for event in events])

    def extend_lines(self, lines: list[bytes]) -> None:
        """The same by their own lines, without newlines."""
        if lines:
            text = b"\n".join([*lines, b""])
            self._hash.update(text)
            self.bytes += len(text)
            self.length += len(lines)

    def seal(self, time: int) -> Seal:
        """The seal of what was taken in so far."""
        return Seal(self.length, self.bytes, self._hash.hexdigest(), time)

    def copy(self) -> RunningHash:
        """An independent continuation."""
        other = RunningHash.__new__(RunningHash)
        other._hash, other.bytes, other.length = self._hash.copy(), self.bytes, self.length
        return other


def attest_line(record: Record) -> bytes:
    """A record as stored."""
    return dump(record) + b"\n"


def read_attestation(data: bytes) -> tuple[list[Record], int]:
    """The records of a side file, and how many lines are none (torn, foreign or damaged)."""
    records: list[Record] = []
    unreadable = 0
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            records.append(_decode(line))
        except (msgspec.MsgspecError, UnicodeError):
            unreadable += 1
    return records, unreadable
