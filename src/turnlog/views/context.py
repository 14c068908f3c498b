"""What the model was sent: the request of one attempt, made again from the log as it was then.

```
        events @0 … @at-1                    @at …
log  ───────────────────────────────┬─ first chunk of the attempt ─→
                                    │
      the last request/header ──────┤   system, tools, config
      the surface at that length ───┘   messages
```

The log says everything that a request carried, so nothing is asked of anybody else. A store keeps a hash of each
request beside the log before it leaves; :attr:`Context.confirmation` says whether what was made again here has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, TypeAlias

from turnlog.events import Header, RequestHeader, StepEnd, StepStart
from turnlog.log import AnyEvent, Messages, Session, SessionEvent, is_event
from turnlog.log.projection import View
from turnlog.log.proof import DIGESTS, EMPTY, RequestProof, chained, header_hash
from turnlog.store.attest import ATTEST_NAME, ShownRequest, read_attestation

from .address import Address, AddressInvalid, AttemptAddress, StepAddress, parse_address
from .attempt import Attempt
from .attempts import attempts
from .resolve import attempt_of, step_of
from .rows import has_gaps, is_live
from .spans import Span

Confirmation: TypeAlias = Literal["confirmed", "contradicted", "unattested"]
"""``confirmed``: a hash kept when the request left is that of the request made again. ``contradicted``: it is another
one, so the log is not what it was or the proof lies. ``unattested``: no hash of this request was kept."""

_BORDERS: Final = frozenset({"turn/start", "turn/end", "step/start", "step/end"})


@dataclass(frozen=True, eq=False)
class Context:
    """The request of one attempt."""

    session: Session
    turn: int
    step: int
    attempt: int
    at: int
    """How many events the log held when the request left."""
    header: Header | None
    """System prompt (formats 0 to 2), tools and config; None where no request header was logged."""
    header_seq: int | None
    """The ``request/header`` that says so."""
    answer: Attempt | None
    """What came back; None while nothing has, or where nothing did."""
    told: ShownRequest | None
    """The hash that was kept when it left."""

    @property
    def address(self) -> str:
        """``t3.s2.a1``"""
        return f"t{self.turn}.s{self.step}.a{self.attempt}"

    @cached_property
    def messages(self) -> Messages:
        """What the model saw."""
        return self.session.derive_messages(at=self.at)

    @cached_property
    def events(self) -> Sequence[AnyEvent]:
        """The events behind the messages, one for each."""
        return tuple(self.session.message_events(self.at))

    @cached_property
    def confirmation(self) -> Confirmation:
        """Whether a hash kept beside the log confirms it. Costs hashing the messages once per session."""
        if self.told is None:
            return "unattested"
        try:
            return "confirmed" if self.proof() == self.told.proof else "contradicted"
        except ValueError:  # a message that is no JSON, in a log that was read forensically
            return "contradicted"

    def proof(self) -> RequestProof:
        """The hash of the request, made from the log."""
        digests: View[bytes] = self.session.project(DIGESTS, at=self.at)
        header = "" if self.header is None else header_hash(self.header)
        chain = chained(EMPTY, digests).hex()
        return RequestProof(self.at, self.turn, self.step, self.attempt, len(digests), header, chain)

    @property
    def size(self) -> int:
        """Bytes of all messages as JSON."""
        return sum(len(event.message_json) for event in self.events)


def context(session: Session, address: Address | str) -> Context:
    """The request of an attempt (``t3.s2.a1``), or of the last attempt of a step (``t3.s2``).

    Raises :class:`AddressInvalid` for another kind of address, :class:`AddressUnknown` for a step or attempt that the
    session does not have.
    """
    named = parse_address(address) if isinstance(address, str) else address
    if not isinstance(named, StepAddress | AttemptAddress):
        raise AddressInvalid(f"{named} is no request; requests are made by attempts: give a step (t3.s2) or t3.s2.a1")
    span = _step(session, named.turn, named.step)
    there = [one for one in attempts(session, span) if one.seqs]
    answer: Attempt | None
    if isinstance(named, AttemptAddress):
        answer = next((one for one in there if one.number == named.attempt), None) or attempt_of(session, named)
    else:
        answer = there[-1] if there else None
    number = 1 if answer is None else answer.number
    at = _left(session, span, answer)
    told = _told(session, span, number, at)
    if told is not None and span.first <= told.seq <= at:
        at = told.seq
    event = _header_event(session, at)
    header = None if event is None or not is_event(event, RequestHeader) else event.data.header
    seq = None if event is None or header is None else event.seq
    return Context(session, span.turn, span.step or 0, number, at, header, seq, answer, told)


def _step(session: Session, turn: int, step: int) -> Span:
    """The step, found without an index of the session; anything odd is left to :func:`step_of`."""
    rows = session.rows.rows
    found = [place for place, row in enumerate(rows) if row.type == "step/start" and _starts(row, turn, step)]
    if len(found) != 1 or has_gaps(session):
        return step_of(session, turn, step)
    first = session.rows.row_start(found[0])
    for place in range(found[0] + 1, len(rows)):
        row = rows[place]
        if row.type in _BORDERS:
            seq = session.rows.row_start(place)
            data = row.data if isinstance(row, SessionEvent) else None
            mine = isinstance(data, StepEnd) and (data.turn, data.step) == (turn, step)
            return Span(turn, step, first, seq + mine, ended=mine)
    return Span(turn, step, first, len(session), ended=False)


def _starts(row: object, turn: int, step: int) -> bool:
    data = row.data if isinstance(row, SessionEvent) else None
    return isinstance(data, StepStart) and (data.turn, data.step) == (turn, step)


def _left(session: Session, span: Span, answer: Attempt | None) -> int:
    """How many events the log held when the request left: those before the first thing that came back."""
    if answer is not None:
        return answer.seqs[0]
    return len(session) if is_live(session) and not span.ended else span.stop - span.ended


def _told(session: Session, span: Span, attempt: int, at: int) -> ShownRequest | None:
    """The hash of the attempt's request that was kept beside the log."""
    path: Path | None = getattr(session, "path", None)
    if path is None:
        return None
    try:
        records, _unreadable = read_attestation(path.with_name(ATTEST_NAME).read_bytes())
    except OSError:
        return None
    mine = [one for one in records if isinstance(one, ShownRequest)
            and (one.turn, one.step, one.attempt) == (span.turn, span.step, attempt)]  # fmt: skip
    return next((one for one in reversed(mine) if span.first <= one.seq <= at), mine[-1] if mine else None)


def _header_event(session: Session, at: int) -> AnyEvent | None:
    return session._last_of(frozenset({"request/header"}), min(at, len(session)))
