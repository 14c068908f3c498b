"""How far a log is proven by its attestation: the seals beside it, recomputed over what is stored now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias

from turnlog.log import Session
from turnlog.log.proof import Recomputed

from .attest import ATTEST_NAME, Note, RunningHash, Seal, ShownRequest, read_attestation

State: TypeAlias = Literal["proven", "unsealed", "altered", "shorter", "none"]


@dataclass(frozen=True)
class Proof:
    """What the seals say about a log as it is stored now.

    ``proven``: the last seal covers the whole log. ``unsealed``: it covers the first *seq* events, later ones were not
    sealed (their writer was at work, or was killed). ``altered``: the log differs from what was sealed, at or before
    event *at*. ``shorter``: *missing* events that were durable are gone. ``none``: nothing is attested.
    """

    state: State
    seq: int
    """The first *seq* events are proven."""
    at: int | None = None
    missing: int = 0
    unreadable: int = 0
    """Lines of the side file that are no records."""
    notes: tuple[Note, ...] = ()
    requests: int = 0
    """Requests whose proof was made again from the log, and is the same."""
    unproven: tuple[ShownRequest, ...] = ()
    """Requests whose proof the log does not give: what the model was shown is not what the log says."""

    def __str__(self) -> str:
        match self.state:
            case "none":
                return "nothing is attested about this log"
            case "proven":
                return f"proven: all {self.seq} events are as they were sealed"
            case "unsealed":
                return f"the first {self.seq} events are proven; what follows was never sealed"
            case "altered":
                return f"altered at or before @{self.at}; the first {self.seq} events are proven"
            case "shorter":
                return f"{self.missing} durable events are missing at the end; the first {self.seq} events are proven"


NOTHING: Final = Proof("none", 0)
"""What is proven where nothing is attested."""


def prove(session: Session, log: Path) -> Proof:
    """Check a stored session against the side file beside its log. A missing, torn or lying side file proves less,
    and never raises."""
    try:
        data = (log.parent / ATTEST_NAME).read_bytes()
    except OSError:
        return NOTHING
    records, unreadable = read_attestation(data)
    seals = sorted((one for one in records if isinstance(one, Seal)), key=lambda seal: seal.seq)
    notes = tuple(one for one in records if isinstance(one, Note))
    proof = Proof("none", 0, unreadable=unreadable, notes=notes)
    if seals:
        proof = _compare(session, seals, unreadable, notes)
    return _with_requests(session, proof, [one for one in records if isinstance(one, ShownRequest)])


def _with_requests(session: Session, proof: Proof, shown: Sequence[ShownRequest]) -> Proof:
    """Make every request's proof again from the log, and compare."""
    again = Recomputed(session)
    unproven = []
    for one in sorted(shown, key=lambda one: one.seq):
        try:
            same = again.proof(one.proof) == one.proof
        except ValueError:  # a message that is no JSON, in a log that was read forensically
            same = False
        if not same:
            unproven.append(one)
    return replace(proof, requests=len(shown) - len(unproven), unproven=tuple(unproven))


def _compare(session: Session, seals: Sequence[Seal], unreadable: int, notes: tuple[Note, ...]) -> Proof:
    running = RunningHash(session.header)
    events = iter(session.events)
    proven = 0
    for seal in seals:
        running.extend(islice(events, seal.seq - running.length))
        if running.length < seal.seq:
            return Proof("shorter", proven, missing=seals[-1].seq - running.length, unreadable=unreadable, notes=notes)
        now = running.seal(seal.time)
        if (now.bytes, now.sha256) != (seal.bytes, seal.sha256):
            return Proof("altered", proven, at=max(seal.seq - 1, 0), unreadable=unreadable, notes=notes)
        proven = seal.seq
    whole = proven == len(session)
    return Proof("proven" if whole else "unsealed", proven, unreadable=unreadable, notes=notes)
