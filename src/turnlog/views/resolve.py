"""Finding the place that an address names in a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.log import AnyEvent, Session

from .address import (
    Address,
    AddressAmbiguous,
    AddressUnknown,
    AttemptAddress,
    CallAddress,
    EventAddress,
    MessageAddress,
    StepAddress,
    TurnAddress,
    listed,
    parse_address,
)
from .attempt import Attempt
from .attempts import attempts
from .calls import one_call
from .index import index_of
from .provenance import replacements, there_are
from .rows import has
from .spans import Span, step_spans, turn_spans
from .streams import embedded


@dataclass(frozen=True)
class Target:
    """A place in a session."""

    address: Address
    first: int
    """Seq of its first event."""
    last: int
    """Seq of its last event."""
    main: int
    """The event that stands for it: the message of an attempt, the result of a call, the start of a turn."""
    k: int | None = None
    """The chunk inside that event, when the address names one."""


def resolve(session: Session, address: Address | str) -> Target:
    """The place that *address* names. Raises :class:`AddressUnknown` or :class:`AddressAmbiguous` with candidates."""
    named = parse_address(address) if isinstance(address, str) else address
    match named:
        case TurnAddress(turn=turn):
            return _span_target(named, turn_of(session, turn))
        case StepAddress(turn=turn, step=step):
            return _span_target(named, step_of(session, turn, step))
        case AttemptAddress():
            return _attempt_target(session, named)
        case CallAddress():
            found = one_call(session, named)
            seqs = [one.seq for one in (found.asked, found.started) if one is not None]
            return Target(named, min([*seqs, found.seq]), max([*seqs, *found.seqs, found.seq]), found.seq)
        case MessageAddress(id=id):
            seq = _message(session, id)
            return Target(named, seq, seq, seq)
        case EventAddress(seq=seq, chunk=k):
            _check_event(session, seq, k)
            return Target(named, seq, seq, seq, k)


def turn_of(session: Session, turn: int, spans: Sequence[Span] | None = None) -> Span:
    """The turn with a number (among *spans*, where they are known already).

    Raises :class:`AddressUnknown` or :class:`AddressAmbiguous`.
    """
    return _one(session, turn_spans(session) if spans is None else spans, turn, f"t{turn}", "turns")


def step_of(session: Session, turn: int, step: int) -> Span:
    """A step of a turn. Raises like :func:`turn_of`."""
    spans = [span for span in step_spans(session, turn_of(session, turn)) if span.turn == turn]
    return _one(session, spans, step, f"t{turn}.s{step}", f"steps of t{turn}")


def _one(session: Session, spans: Sequence[Span], number: int, name: str, kind: str) -> Span:
    found = [span for span in spans if (span.turn if span.step is None else span.step) == number]
    if len(found) == 1:
        return found[0]
    if found:
        places = listed([f"@{span.first} to @{span.stop - 1}" for span in found])
        raise AddressAmbiguous(f"session {session.id} has {len(found)} times {name}: {places}; name the events instead")
    there = f"the {kind} are {listed([span.address for span in spans])}" if spans else f"there are no {kind}"
    raise AddressUnknown(f"session {session.id} has no {name}; {there}")


def _span_target(address: Address, span: Span) -> Target:
    return Target(address, span.first, span.stop - 1, span.first)


def _attempt_target(session: Session, address: AttemptAddress) -> Target:
    found = attempt_of(session, address)
    seqs = found.seqs
    logged = None if found.synthetic or found.event is None else found.event.seq
    return Target(address, min(seqs), max(seqs), max(seqs) if logged is None else logged)


def attempt_of(session: Session, address: AttemptAddress) -> Attempt:
    """The attempt that *address* names. Raises :class:`AddressUnknown`."""
    span = step_of(session, address.turn, address.step)
    there = list(attempts(session, span))
    for attempt in there:
        if attempt.number == address.attempt and attempt.seqs:
            return attempt
    listing = f"its attempts are {listed([one.address for one in there])}" if there else "the step has no attempts"
    raise AddressUnknown(f"session {session.id} has no {address}; {listing}")


def _message(session: Session, id: str) -> int:
    likely = _naming(_surface_events(session), id)
    found = [event.seq for event in likely if event.message is not None and event.message.id == id]
    if not found:
        ids = {event.seq: event.message.id for event in _surface_events(session) if event.message is not None}
        found = [seq for seq, known in ids.items() if known == id]  # an id that is not stored, but made when reading
    if not found:
        there = f"the messages are {listed([f'msg:{known}' for known in ids.values()])}" if ids else "it has none"
        raise AddressUnknown(f"session {session.id} has no msg:{id}; {there}")
    visible = found[-1]
    if set(found[:-1]) - _replaced_by_chain(session, found, visible):
        raise AddressAmbiguous(f"msg:{id} is the id of {len(found)} messages: {listed([f'@{seq}' for seq in found])}; "
                               "name the event instead")  # fmt: skip
    return visible


def _naming(events: list[AnyEvent], id: str) -> list[AnyEvent]:
    """Those of *events* whose stored text can hold a message id."""
    if not id.replace("-", "").replace("_", "").isalnum() or not id.isascii():
        return events  # it may be escaped in the text
    needle = id.encode()
    return [event for event in events if needle in (raw := event.raw) or b"\\u" in raw]


def _replaced_by_chain(session: Session, seqs: list[int], visible: int) -> set[int]:
    """Which of *seqs* gave up their place to *visible*, at once or one after the other: they are one message."""
    return {seq for seq in seqs if visible in replacements(session, seq)}


def _surface_events(session: Session) -> list[AnyEvent]:
    return session.rows.gather(index_of(session).surface)


def _check_event(session: Session, seq: int, k: int | None) -> None:
    if not has(session, seq):
        more = " (closers are not part of the log)" if seq in [event.seq for event in session.closers] else ""
        raise AddressUnknown(f"session {session.id} has no event @{seq}; {there_are(session)}{more}")
    if k is None:
        return
    number = len(embedded(session.event(seq)))
    if not number:
        raise AddressUnknown(f"@{seq} ({session.event(seq).type}) holds no stream, so there is no @{seq}/{k}; in "
                             "formats 0 and 1 chunks are events of their own")  # fmt: skip
    if k >= number:
        raise AddressUnknown(f"the stream in @{seq} has {number} chunks, @{seq}/0 to @{seq}/{number - 1}")
