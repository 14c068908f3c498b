"""What a log holds and what it does not: an honest list, so that nobody takes a log for more than it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Final, NamedTuple

from turnlog.events import Interrupted, UndecodablePayload, Vocabulary
from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun
from turnlog.store import StoredSession
from turnlog.store.formats import FORMATS
from turnlog.store.proven import NOTHING, Proof, prove

from .attempts import attempts
from .foreign import losses, origins_of
from .index import index_of
from .rows import holes, is_live, seq_ranges, slots
from .structure import NOT_REPAIRED, structure
from .timing import clock_steps

_MARK: Final = re.compile(rb"\[redacted:([a-z0-9-]+)\]")
_STREAM_IN_MESSAGE_FROM: Final = 2
"""The first format that keeps an answer's stream inside it, so that it is only written when the answer is over."""


class Remark(NamedTuple):
    """One thing that a log holds, or does not."""

    code: str
    """Stable: ``no-environment``, ``torn-tail``, …"""
    text: str
    number: int | None = None
    """How many."""
    seq: int | None = None
    """Where, or where first."""


@dataclass(frozen=True)
class Captured:
    """What :func:`captured` gives."""

    holds: tuple[Remark, ...]
    lacks: tuple[Remark, ...]
    proof: Proof
    """What the attestation beside the log proves."""

    def __getitem__(self, code: str) -> Remark:
        """The remark with a code. Raises ``KeyError``."""
        for remark in (*self.holds, *self.lacks):
            if remark.code == code:
                return remark
        raise KeyError(code)

    def __contains__(self, code: object) -> bool:
        return any(remark.code == code for remark in (*self.holds, *self.lacks))


def captured(session: Session, proof: Proof | None = None) -> Captured:
    """What the log of *session* holds and lacks. Reads all of it, and the attestation beside it unless *proof* is
    given."""
    path = session.path if isinstance(session, StoredSession) else None
    known = proof if proof is not None else NOTHING if path is None else prove(session, path)
    return Captured(tuple(_holds(session)), tuple(_lacks(session, known)), known)


# -- holds --------------------------------------------------------------------------------------------------------


def _holds(session: Session) -> Iterator[Remark]:
    there = seq_ranges(session)
    origins = origins_of(session)
    made = "as they were logged" if origins is None else f"made of the lines of a file of {origins.dialect.name}"
    yield Remark("events", f"events, {made}", sum(one.size for one in there))
    tried = list(attempts(session, as_stored=True))
    streamed = sum(one.first_token_ms is not None for one in tried)
    if streamed:
        yield Remark("tokens", "attempts with every token and its time", streamed)
    headers = index_of(session).headers
    if headers:
        sent = "as sent" if origins is None else "as far as the file says"
        yield Remark(
            "requests", f"request headers: model, settings, system prompt and tools {sent}", len(headers), headers[0]
        )
    if session.generation:
        first = next(seq for seq in _replaced(session))
        yield Remark(
            "replaced", "replaces of messages; what was replaced is still in the log", session.generation, first
        )


def _replaced(session: Session) -> Iterator[int]:
    for slot in slots(session):
        if session.replaced_by(slot.seq) is not None:
            yield slot.seq


# -- lacks --------------------------------------------------------------------------------------------------------


def _lacks(session: Session, proof: Proof) -> Iterator[Remark]:
    cwd = f"; it only names the directory {session.header.cwd}" if session.header.cwd else ""
    yield Remark("no-environment", f"no snapshot of files, processes, network or environment variables{cwd}")
    origins = origins_of(session)
    if origins is not None:
        yield from starmap(Remark, losses(origins))
    yield from _beginning(session)
    yield from _middle(session)
    yield from _end(session)
    yield from _contents(session)
    yield from _proof(session, proof)


def _beginning(session: Session) -> Iterator[Remark]:
    header = session.header
    base = session.rows.base
    if base:
        yield Remark("tail-only", f"the events before @{base} were not read", base)
    if header.seed_length:
        parent = f" of session {header.parent_session}" if header.parent_session else " of another session"
        yield Remark(
            "inherited-prefix",
            f"inherited events: they happened in the life{parent}, and were paid there",
            header.seed_length,
            0,
        )


def _middle(session: Session) -> Iterator[Remark]:
    missing = holes(seq_ranges(session), session.rows.base)
    if missing:
        told = ", ".join(map(str, missing[:10])) + (" and more" if len(missing) > 10 else "")
        yield Remark(
            "missing-events", f"events are missing: {told}", sum(one.size for one in missing), missing[0].first
        )
    branches = getattr(session, "branches", ())
    if branches:
        number = sum(len(branch.events) for branch in branches)
        yield Remark("branches", "events of another writer that cannot follow the log", number)
    steps = list(clock_steps(session))
    if steps:
        most = max(one.back_ms for one in steps)
        yield Remark(
            "clock-steps",
            f"times at which the clock was set back, by up to {most} ms: durations across them are guesses",
            len(steps),
            steps[0].seq,
        )


def _end(session: Session) -> Iterator[Remark]:
    torn = getattr(session, "torn", None)
    if torn is not None:
        yield Remark(
            "torn-tail",
            f"the writer was cut off: {torn.size} bytes from byte {torn.offset} on are no whole record ({torn.reason})",
            torn.size,
        )
    turns = structure(session, as_stored=True).turns
    open_turns = [one for one in turns if one.state != "ended"]
    if open_turns and is_live(session):
        yield Remark(
            "running", f"{open_turns[-1].address} is running: its writer is alive", 1, open_turns[-1].span.first
        )
    elif open_turns:
        told = ", ".join(one.address for one in open_turns[:10])
        yield Remark(
            "open-turns",
            f"turns that never ended, {NOT_REPAIRED}: {told}; their ends are lower bounds",
            len(open_turns),
            open_turns[0].span.first,
        )
    if session.closers:
        yield Remark(
            "synthetic-closers",
            "closing events that views show and the log does not hold",
            len(session.closers),
            len(session),
        )
    repaired = [one for one in turns if isinstance(one.reason, Interrupted)]
    if repaired:
        yield Remark(
            "repaired",
            "turns that were closed after their writer had died, results of calls included",
            len(repaired),
            repaired[0].span.first,
        )
    yield from _lost_chunks(session)


def _lost_chunks(session: Session) -> Iterator[Remark]:
    if session.header.version < _STREAM_IN_MESSAGE_FROM:
        return
    lost = [
        step
        for turn in structure(session, as_stored=True).turns
        if turn.state == "interrupted" or isinstance(turn.reason, Interrupted)
        for step in turn.steps[-1:]
        if not step.attempts
    ]
    if lost:
        told = ", ".join(step.address for step in lost[:10])
        yield Remark(
            "lost-chunks",
            "steps without an answer: this format writes a stream when its answer is over, so what "
            f"was shown in {told} before the crash is lost",
            len(lost),
            lost[0].span.first,
        )


def _contents(session: Session) -> Iterator[Remark]:
    redacted: Counter[str] = Counter()
    first = None
    known = {type for format in FORMATS.values() for type in format.kinds(Vocabulary.core)}
    foreign: dict[str, list[int]] = {}
    unreadable: list[int] = []
    unstated: list[int] = []
    for slot in slots(session):
        row = slot.row
        marks = _MARK.findall(bytes(row.raw))
        if marks:
            redacted.update(mark.decode() for mark in marks)
            first = slot.seq if first is None else first
        if isinstance(row, PackedRun):
            continue
        if row.type not in known:
            foreign.setdefault(row.type, []).append(row.seq)
        elif row.type != "assistant/chunk" and isinstance(row.data, UndecodablePayload):
            unreadable.append(row.seq)
        if row.type == "assistant/message" and _says_no_stream(session, row):
            unstated.append(row.seq)
    if redacted:
        kinds = ", ".join(f"{name} ×{number}" for name, number in sorted(redacted.items()))
        yield Remark("redactions", f"secrets were taken out: {kinds}", redacted.total(), first)
    if foreign:
        kinds = ", ".join(f"{type} ×{len(seqs)}" for type, seqs in sorted(foreign.items()))
        yield Remark(
            "plugin-events",
            f"events that only {'their plugin' if origins_of(session) is None else 'their program'} understands, "
            f"kept as they are: {kinds}",
            sum(map(len, foreign.values())),
            min(map(min, foreign.values())),
        )
    if unreadable:
        yield Remark(
            "unreadable-events", "events that do not have the shape of their type", len(unreadable), unreadable[0]
        )
    if unstated:
        yield Remark(
            "unknown-sources",
            "answers that do not say which chunks they rest on; a trace infers them",
            len(unstated),
            unstated[0],
        )


def _says_no_stream(session: Session, event: AnyEvent) -> bool:
    may = session.header.version < _STREAM_IN_MESSAGE_FROM and origins_of(session) is None
    return may and event.sources is None


def _proof(session: Session, proof: Proof) -> Iterator[Remark]:
    match proof.state:
        case "none":
            yield Remark("unsealed", "nothing beside the log attests it: whether it was changed cannot be told")
        case "unsealed":
            yield Remark("unsealed", str(proof), len(session) - proof.seq, proof.seq)
        case "altered":
            yield Remark("altered", str(proof), seq=proof.at)
        case "shorter":
            yield Remark("shorter", str(proof), proof.missing)
        case "proven":
            pass
    if proof.unproven:
        yield Remark(
            "unproven-requests",
            "requests whose proof does not fit the log as it is",
            len(proof.unproven),
            proof.unproven[0].seq,
        )
    asked = sum(1 for one in attempts(session, as_stored=True))
    unproven = asked - proof.requests - len(proof.unproven)
    if unproven > 0:
        yield Remark("unattested-requests", "requests of which nothing attests what the model was shown", unproven)
    if proof.unreadable:
        yield Remark("unreadable-attestation", "lines of the attestation that are no records", proof.unreadable)
