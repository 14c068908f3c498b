"""What the model was shown, as a hash that anybody can check against the log.

``chain₀ = SHA256("")``, ``chainᵢ = SHA256(chainᵢ₋₁ ‖ SHA256(canonical mᵢ))`` over the messages of a request in order;
canonical is RFC 8785 (`turnlog.events.canonical`). The header is hashed by itself. A proof costs what is new: digests
are kept per surface event, the chain goes on where it ended unless a replace changed what lies before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from turnlog.events import Header, RequestHeader
from turnlog.events.canonical import canonical
from turnlog.events.lossless import dump

from .event import AnyEvent, is_event
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

    def attest(self, proof: RequestProof) -> None:
        """Keep *proof*; returns at once, written with the next barrier."""
        ...


def _digest(event: AnyEvent) -> bytes | None:
    return None if event.message is None else sha256(canonical(event.message_json)).digest()


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


def recomputed(session: Session, proof: RequestProof) -> RequestProof | None:
    """The same proof, made again from the log alone; None when the log has no header there (or is shorter)."""
    if proof.seq > len(session):
        return None
    header = session.request_header(proof.seq)
    if header is None:
        return None
    digests = session.project(DIGESTS, at=proof.seq)
    chain = chained(EMPTY, digests)
    return RequestProof(
        proof.seq, proof.turn, proof.step, proof.attempt, len(digests), header_hash(header), chain.hex()
    )
