"""Provenance: what an event rests on, and what rests on it.

Only surface events cite sources. ``None`` means that the log does not say, ``()`` that it says: none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turnlog.log import AnyEvent, Replace, Session

from .address import AddressUnknown
from .index import index_of
from .rows import has, has_gaps, seq_ranges, type_at
from .streams import TimedChunk, chunks_of, embedded, embedded_runs


class Cited(NamedTuple):
    """Events with consecutive seqs and one type."""

    first: int
    last: int
    type: str
    depth: int
    """1 for what the event cites itself, 2 for what these cite, …"""


@dataclass(frozen=True)
class Provenance:
    """What :func:`provenance` gives."""

    event: AnyEvent
    sources: tuple[int, ...] | None
    """What it cites: None where the log does not say (log-only events never do), ``()`` where it says: nothing."""
    back: tuple[Cited, ...]
    """Everything it rests on, its sources' sources included, in log order within each depth."""
    cited_by: tuple[int, ...]
    """The events that cite it."""
    replaces: tuple[int, ...]
    """The surface events whose place it took."""
    replaced_by: tuple[int, ...]
    """The event that took its place, then the one that took that one's, …; empty while it is visible."""
    stream: int = 0
    """How many chunks the event holds: it rests on these, and formats 2 and later have no sources to say so."""
    chunk: TimedChunk | None = None
    """The chunk that the address names, whether it is an event of its own or one of those inside the event."""


def provenance(session: Session, seq: int, k: int | None = None) -> Provenance:
    """The provenance of the event at *seq*, asked about its chunk *k* or as a whole. Raises :class:`AddressUnknown`."""
    if not has(session, seq):
        raise AddressUnknown(f"session {session.id} has no event @{seq}; {there_are(session)}")
    event = session.event(seq)
    return Provenance(
        event=event,
        sources=event.sources,
        back=tuple(_back(session, event)),
        cited_by=tuple(citations(session, (seq,)).get(seq, ())),
        replaces=_replaced(session, event),
        replaced_by=tuple(replacements(session, seq)),
        stream=sum(run.number for run in embedded_runs(event)),
        chunk=next(chunks_of(event), None) if k is None else embedded(event)[k],
    )


def citations(session: Session, seqs: Collection[int]) -> dict[int, list[int]]:
    """For each of *seqs* that is cited: the events that cite it, in order."""
    index = index_of(session)
    return {seq: by for seq in dict.fromkeys(seqs) if (by := index.cited_by(seq))}


def replacements(session: Session, seq: int) -> Iterator[int]:
    """The event that took *seq*'s place on the surface, then the one that took that one's, …"""
    following = session.replaced_by(seq)
    while following is not None:
        yield following
        following = session.replaced_by(following)


def there_are(session: Session) -> str:
    """Which events a session has, for an error message."""
    events = session.events
    if not len(events):
        return "the log holds no events"
    if not has_gaps(session):
        return f"there are @{len(session) - len(events)} to @{len(session) - 1}"
    return f"there are {', '.join(f'@{one.first} to @{one.last}' for one in seq_ranges(session))}"


def _replaced(session: Session, event: AnyEvent) -> tuple[int, ...]:
    if not isinstance(event.surface_op, Replace):
        return ()
    return tuple(seq for seq in event.sources or () if session.replaced_by(seq) == event.seq)


def _back(session: Session, event: AnyEvent) -> Iterator[Cited]:
    """Level by level, each event once."""
    seen = {event.seq}
    gaps = has_gaps(session)
    level: Sequence[int] = event.sources or ()
    depth = 1
    while level:
        fresh = sorted({seq for seq in level if seq not in seen and (not gaps or has(session, seq))})
        seen.update(fresh)
        typed = [(seq, type_at(session, seq)) for seq in fresh]
        deeper: list[int] = []
        for seq, type in typed:
            if type != "assistant/chunk":
                deeper.extend(session.event(seq).sources or ())
        yield from _ranges(typed, depth)
        level, depth = deeper, depth + 1


def _ranges(typed: Sequence[tuple[int, str]], depth: int) -> Iterator[Cited]:
    current: Cited | None = None
    for seq, type in typed:
        if current is not None and current.type == type and current.last == seq - 1:
            current = current._replace(last=seq)
            continue
        if current is not None:
            yield current
        current = Cited(seq, seq, type, depth)
    if current is not None:
        yield current
