"""What the model was shown, as a hash that anybody can check against the log.

``chain₀ = SHA256("")``, ``chainᵢ = SHA256(chainᵢ₋₁ ‖ SHA256(canonical mᵢ))`` over the messages of a request in order;
canonical is RFC 8785 (`turnlog.events.canonical`). The header is hashed by itself. A proof costs what is new: digests
are kept per surface event, the chain goes on where it ended unless a replace changed what lies before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from msgspec import UNSET

from turnlog.events import (
    Block,
    Header,
    Message,
    ModelSource,
    ReasoningBlock,
    RequestHeader,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSource,
    UserSource,
)
from turnlog.events.canonical import canonical
from turnlog.events.lossless import dump

from .event import AnyEvent, Replace, is_event
from .projection import Projector

if TYPE_CHECKING:
    from .session import Session

EMPTY: Final = sha256(b"").digest()
"""The chain over no messages."""


@dataclass(frozen=True, slots=True)
class RequestProof:
    """One attempt's request, hashed: that the first ``seq`` events of the log project to exactly what was sent."""

    seq: int
    """How many events the log had."""
    turn: int
    step: int
    attempt: int
    messages: int
    """How many messages the chain runs over."""
    header: str
    """SHA-256 of the canonical request header, hex."""
    chain: str
    """The end of the chain, hex."""


class ProofKeeper(Protocol):
    """What a store attaches to a session so that proofs are kept beside the log."""

    def keep_proof(self, proof: RequestProof) -> None:
        """Keep *proof*; returns at once, it is written with the next seal."""
        ...

    def keep_note(self, text: str) -> None:
        """Keep a remark about what the log does not say, likewise."""
        ...


_PLAIN: Final = frozenset({TextBlock, ReasoningBlock, ToolCallBlock})

_sorted: Final = msgspec.json.Encoder(order="sorted").encode


def _digest(event: AnyEvent) -> bytes | None:
    message = event.message
    return None if message is None else sha256(_canonical(event, message)).digest()


def _canonical(event: AnyEvent, message: Message) -> bytes:
    """The canonical JSON of an event's message. Of most it is the typed message with its members sorted: where nothing
    but text is in it, and the stored data is just what its types say (so that no unknown member is left out)."""
    if _is_plain(message) and dump(event.data) == event.raw:
        try:
            return _sorted(message)
        except UnicodeEncodeError:  # a lone surrogate of a foreign log
            pass
    return canonical(event.message_json)


def _is_plain(message: Message) -> bool:
    source = type(message.source)
    if source is ModelSource:
        known = message.source.replay_state is None  # type: ignore[union-attr]  # narrowed by type
    else:
        known = source is UserSource or source is ToolSource
    return known and all(type(block) in _PLAIN or _is_plain_result(block) for block in message.content)


def _is_plain_result(block: Block) -> bool:
    return type(block) is ToolResultBlock and all(type(inner) in _PLAIN for inner in block.content)


DIGESTS: Final[Projector[bytes]] = Projector("message digests", _digest)
"""The digest of each message, along the surface."""


def _header(event: AnyEvent) -> Header | None:
    return event.data.header if event.type == "request/header" and is_event(event, RequestHeader) else None


HEADERS: Final[Projector[Header]] = Projector("request headers", _header, over="log")
"""Every request header, in order; the last one is what the next request carries unless it changes."""


class ProofChain:
    """The chain over one session's messages, carried on from request to request."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._generation = -1
        self._length = 0
        self._chain = EMPTY
        self._header: Header | None = None
        self._header_hash = ""

    def prove(self, turn: int, step: int, attempt: int, header: Header) -> RequestProof:
        """The proof of a request with *header* and the messages the log shows now."""
        session = self._session
        digests = session.project(DIGESTS)
        if session.generation != self._generation or len(digests) < self._length:
            self._generation, self._length, self._chain = session.generation, 0, EMPTY
        self._chain = chained(self._chain, digests[self._length :])
        self._length = len(digests)
        if header is not self._header:
            self._header, self._header_hash = header, header_hash(header)
        return RequestProof(len(session), turn, step, attempt, self._length, self._header_hash, self._chain.hex())


def chained(chain: bytes, digests: Iterable[bytes]) -> bytes:
    """*chain* carried on over more message digests."""
    for digest in digests:
        chain = sha256(chain + digest).digest()
    return chain


def header_hash(header: Header) -> str:
    """SHA-256 of the canonical header, hex."""
    return sha256(canonical(dump(header))).hexdigest()


class Recomputed:
    """Proofs made again from a log alone, for requests in the order of their seqs.

    Costs what is new from one request to the next; only after a replace the chain begins anew.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        changes = session.project(_CHANGES)
        self._appended = [seq for seq, replaces in changes if not replaces]
        self._replaced = [seq for seq, replaces in changes if replaces]
        self._headers = [(seq, header) for seq, header in session.project(_HEADERS_AT)]
        self._hashes: dict[int, str] = {}
        self._seq = 0
        self._count = 0
        self._chain = EMPTY

    def proof(self, told: RequestProof) -> RequestProof | None:
        """The proof of the request that *told* tells of; None when the log is too short, or has no header there."""
        header = self._header(told.seq)
        if header is None or told.seq > len(self._session):
            return None
        self._advance(told.seq)
        return RequestProof(told.seq, told.turn, told.step, told.attempt, self._count, header, self._chain.hex())

    def _header(self, seq: int) -> str | None:
        place = bisect_left(self._headers, seq, key=lambda entry: entry[0]) - 1
        if place < 0:
            return None
        if place not in self._hashes:
            self._hashes[place] = header_hash(self._headers[place][1])
        return self._hashes[place]

    def _advance(self, seq: int) -> None:
        again = seq < self._seq or bisect_left(self._replaced, seq) > bisect_left(self._replaced, self._seq)
        if again:
            digests: Sequence[bytes] = self._session.project(DIGESTS, at=seq)
            self._count, self._chain = len(digests), chained(EMPTY, digests)
        else:
            new = self._appended[bisect_left(self._appended, self._seq) : bisect_left(self._appended, seq)]
            digests = [digest for one in new if (digest := _digest(self._session.event(one))) is not None]
            self._count, self._chain = self._count + len(digests), chained(self._chain, digests)
        self._seq = seq


def _change(event: AnyEvent) -> tuple[int, bool] | None:
    return None if event.surface_op is UNSET else (event.seq, isinstance(event.surface_op, Replace))


def _header_at(event: AnyEvent) -> tuple[int, Header] | None:
    header = _header(event)
    return None if header is None else (event.seq, header)


_CHANGES: Final[Projector[tuple[int, bool]]] = Projector("surface changes", _change, over="log")
_HEADERS_AT: Final[Projector[tuple[int, Header]]] = Projector("request headers by seq", _header_at, over="log")
