"""`Store`: where sessions are kept. Five primitives; everything else is built on them.

A store keeps *log lines*: the header line of each session and one line per event or packed run, as format 0 writes
them (without the newline). It knows nothing of what the lines say except their order: line *k* of a session is only
ever followed by what was appended when *k + 1* lines were there. That one rule, ``append`` at an expected end, is
what keeps two writers from mixing their histories.

`MemoryStore` is the reference: the simplest thing that keeps the contract, and the test double. Any store, a user's
too, can run the contract tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from turnlog.events import Vocabulary
from turnlog.log import SessionHeader

from .errors import AppendConflict, SessionNotFound
from .header import header_line
from .load import StoredSession, load


class ReadableStore(Protocol):
    """The reading half: what a session on read-only media can offer."""

    def headers(self) -> Iterator[SessionHeader]:
        """The headers of all readable sessions, in no particular order."""
        ...

    def read(self, session_id: str) -> Iterator[bytes]:
        """The header line and the log lines of one session, in order, without newlines.

        Raises :class:`SessionNotFound`. What was read never changes; lines appended meanwhile may or may not follow.
        """
        ...


class Store(ReadableStore, Protocol):
    """Where sessions are kept.

    Calls about one session never overlap. Those about different sessions may, and come from different threads.
    """

    def create(self, header: SessionHeader) -> None:
        """Begin a session with no lines. Raises :class:`AppendConflict` when its id is taken."""
        ...

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        """Add *lines* to a session that has exactly *expected* log lines: all of them or none; gives how many it has.

        *expected* None, with no lines, takes the session over to write it: a lock, if there is one, is held from then
        on. Raises :class:`AppendConflict` (saying how many there are) or :class:`SessionNotFound`; then nothing
        changed.
        """
        ...

    def sync(self, session_id: str) -> None:
        """Return when everything appended to the session survives power loss, as far as the store can promise that."""
        ...


@runtime_checkable
class AttestingStore(Protocol):
    """What a store may offer besides: to keep what is attested about a log. One that does not has no seals."""

    def attest(self, session_id: str, lines: bytes) -> None:
        """Keep whole *lines* of what is attested about the log beside it, after those that are there.

        They prove, they do not keep: nobody waits for them, and losing them loses no history.
        """
        ...


class MemoryStore:
    """Keeps sessions in this process; they end with it."""

    def __init__(self) -> None:
        self._headers: dict[str, SessionHeader] = {}
        self._lines: dict[str, list[bytes]] = {}
        self._attested: dict[str, bytes] = {}

    def headers(self) -> Iterator[SessionHeader]:
        """See :meth:`ReadableStore.headers`."""
        return iter(tuple(self._headers.values()))

    def read(self, session_id: str) -> Iterator[bytes]:
        """See :meth:`ReadableStore.read`."""
        lines = self._of(session_id)
        return iter((header_line(self._headers[session_id]), *lines))

    def create(self, header: SessionHeader) -> None:
        """See :meth:`Store.create`."""
        if header.id in self._headers:
            raise AppendConflict(f"session {header.id!r} exists already; choose another id, or append to it")
        self._headers[header.id] = header
        self._lines[header.id] = []

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        """See :meth:`Store.append`."""
        kept = self._of(session_id)
        if expected is not None and len(kept) != expected:
            raise AppendConflict(
                f"session {session_id!r} has {len(kept)} lines, the writer expected {expected}: somebody else wrote; "
                "read it again"
            )
        kept += [bytes(memoryview(line)) for line in lines]  # all copied before any is kept
        return len(kept)

    def sync(self, session_id: str) -> None:
        """See :meth:`Store.sync`; memory survives nothing, so there is nothing to wait for."""
        self._of(session_id)

    def attest(self, session_id: str, lines: bytes) -> None:
        """See :meth:`AttestingStore.attest`."""
        self._of(session_id)
        self._attested[session_id] = self._attested.get(session_id, b"") + lines

    def _of(self, session_id: str) -> list[bytes]:
        try:
            return self._lines[session_id]
        except KeyError:
            raise SessionNotFound(f"no session {session_id!r} in this store") from None


def open_stored(
    store: ReadableStore, session_id: str, *, forensic: bool = False, vocabulary: Vocabulary = Vocabulary.core
) -> StoredSession:
    """A session of any store, read-only. Raises what ``load`` raises."""
    text = b"".join(line + b"\n" for line in store.read(session_id))
    return load(text, forensic=forensic, vocabulary=vocabulary, name=f"session {session_id}")
