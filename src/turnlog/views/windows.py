"""Events around a place, and filtered events page by page (dsh-v0 §8.2-8.4)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final

import msgspec

from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun

from .address import Address
from .filters import EventFilter, SurfaceClass, event_text, surface_class
from .query_errors import CursorInvalid, CursorStale, LimitInvalid, WindowInvalid
from .resolve import Target, resolve
from .rows import events_of, has, slots

WIDEST: Final = 50
"""Neighbours on either side; dsh's own limit, so that what is asked here can be asked there."""
LARGEST: Final = 1000
"""Events of a page."""
PAGE: Final = 100
"""Events of a page unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Window:
    """What :func:`window` gives."""

    target: Target
    events: tuple[AnyEvent, ...]
    """The place and its neighbours, in order."""
    first: int
    """Seq from which on it reaches; the log's first where the log begins later than asked."""
    last: int
    """Seq up to which it reaches, included."""


def window(session: Session, address: Address | str, *, before: int = 0, after: int = 0) -> Window:
    """The events of a place with *before* seqs ahead of it and *after* behind it, as far as the log reaches.

    Raises :class:`~turnlog.views.address.AddressError`, and :class:`WindowInvalid` for numbers that are no counts from
    0 to ``WIDEST``.
    """
    first, last, target = window_edges(session, address, before=before, after=after)
    inside = (event for slot in slots(session, first, last + 1) for event in events_of(session, slot))
    return Window(target, tuple(event for event in inside if first <= event.seq <= last), first, last)


def window_edges(session: Session, address: Address | str, *, before: int, after: int) -> tuple[int, int, Target]:
    """First and last seq of a window, and the place it is around. Raises like :func:`window`."""
    for name, number in (("before", before), ("after", after)):
        if type(number) is not int or not 0 <= number <= WIDEST:
            raise WindowInvalid(f"{name} is {number!r}; it has to be a whole number of events from 0 to {WIDEST}")
    target = resolve(session, address)
    return max(target.first - before, session.rows.base), min(target.last + after, len(session) - 1), target


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event without its content."""

    seq: int
    type: str
    time: int
    """Epoch ms."""
    surface: SurfaceClass
    text: str | None = None
    """What it says, where that was asked for."""


def event_records(session: Session) -> Iterator[EventRecord]:
    """Every event of a session, without content, in order."""
    for event in select(session):
        yield EventRecord(event.seq, event.type, event.time, surface_class(session, event))


def documents(session: Session, wanted: EventFilter | None = None) -> Iterator[EventRecord]:
    """The wanted events that say something, with what they say."""
    for event in select(session, wanted):
        if text := event_text(event):
            yield EventRecord(event.seq, event.type, event.time, surface_class(session, event), text)


@dataclass(frozen=True, slots=True)
class SurfaceEvents:
    """What :func:`surface_events` gives."""

    captured_through: int | None
    """The last seq that counted; None for an empty log."""
    events: tuple[AnyEvent, ...]
    """The events that are visible, in the order of the surface."""


def surface_events(session: Session) -> SurfaceEvents:
    """What is visible now, and up to where the log was read for it."""
    through = len(session) - 1 if len(session.events) else None
    return SurfaceEvents(through, tuple(session.rows.gather(tuple(session.surface))))


def select(session: Session, wanted: EventFilter | None = None, first: int = 0) -> Iterator[AnyEvent]:
    """The wanted events from *first* on, in order; packed chunks that cannot be wanted stay packed."""
    low, stop = first, len(session)
    if wanted is not None:
        low, stop = max(low, wanted.first or 0), stop if wanted.last is None else min(stop, wanted.last + 1)
    for slot in slots(session, low, stop):
        if isinstance(slot.row, PackedRun) and wanted is not None and wanted.skips_deltas:
            continue
        for event in events_of(session, slot):
            if low <= event.seq < stop and (wanted is None or wanted(event)):
                yield event


# -- pages ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """What :func:`page` gives."""

    events: tuple[AnyEvent, ...]
    cursor: str | None
    """What gives the next page; None when there is nothing more now."""


class _Place(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What a cursor holds."""

    session: str
    question: str
    seq: int
    """Where the next page begins."""
    length: int
    """Of the log when the page was made."""
    before: str
    """Digest of the last event that was given."""


def page(session: Session, wanted: EventFilter, *, limit: int = PAGE, cursor: str | None = None) -> Page:
    """The next *limit* wanted events, from the beginning or from where *cursor* says.

    A log only grows, so a cursor stays good: what was logged since comes on later pages. Where an answer depends on
    later events (the surface, everything about a call), it does not.

    Raises :class:`LimitInvalid`, :class:`CursorInvalid` for a cursor of another session or other conditions, and
    :class:`CursorStale` when the log was changed, or grew and the conditions depend on that.
    """
    if type(limit) is not int or not 1 <= limit <= LARGEST:
        raise LimitInvalid(f"limit is {limit!r}; it has to be a whole number of events from 1 to {LARGEST}")
    first = 0 if cursor is None else _read(session, wanted, cursor)
    found = list(islice(select(session, wanted, first), limit + 1))
    if len(found) <= limit:
        return Page(tuple(found), None)
    last = found[limit - 1]
    place = _Place(session.id, wanted.fingerprint, last.seq + 1, len(session), _digest(last))
    text = urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")
    return Page(tuple(found[:limit]), text)


def _read(session: Session, wanted: EventFilter, cursor: str) -> int:
    try:
        place = msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=_Place)
    except (ValueError, msgspec.MsgspecError) as error:
        raise CursorInvalid(f"{cursor!r:.80} is no cursor; take the one a page gave, or leave it out") from error
    if place.session != session.id:
        raise CursorInvalid(f"the cursor is of session {place.session}, and this is {session.id}; begin without one")
    if place.question != wanted.fingerprint:
        raise CursorInvalid("the cursor is of other conditions; repeat those of its page, or begin without one")
    where = f"session {session.id}"
    if len(session) < place.length or not has(session, place.seq - 1):
        raise CursorStale(f"{where} has {len(session)} events and had {place.length}; begin without a cursor")
    if _digest(session.event(place.seq - 1)) != place.before:
        raise CursorStale(f"{where}: @{place.seq - 1} is not what it was; begin without a cursor")
    if wanted.depends_on_later and len(session) != place.length:
        raise CursorStale(f"{where} has grown, and what is on the surface or about a call with it; begin without one")
    return place.seq


def _digest(event: AnyEvent) -> str:
    return sha256(event.line()).hexdigest()[:16]
