"""``turnlog events``"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice

from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun
from turnlog.views import resolve
from turnlog.views.address import EventAddress
from turnlog.views.resolve import turn_of
from turnlog.views.rows import events_of, slots

from ..opening import Which, open_session
from ..places import address_of
from ..screen import Screen, Styled


@dataclass(frozen=True)
class Filter:
    """Which events are wanted."""

    types: tuple[str, ...]
    turn: int | None
    since: str | None
    until: str | None
    start: str | None
    stop: str | None
    limit: int | None

    def wants(self, type: str) -> bool:
        """Whether events of *type* are wanted; commas and further options mean *or*."""
        patterns = [pattern for one in self.types for pattern in one.split(",") if pattern]
        return not patterns or any(fnmatchcase(type, pattern) for pattern in patterns)


def events(screen: Screen, which: Which, wanted: Filter, *, as_json: bool) -> None:
    """Print stored events."""
    period = screen.clock.period(wanted.since, wanted.until)
    session = open_session(screen, which)
    found = (event for event in _found(session, wanted) if period.has(event.time))
    shown = found if wanted.limit is None else islice(found, wanted.limit)
    count = _print_json(screen, shown) if as_json else _print(screen, shown)
    if wanted.limit is not None and next(found, None) is not None:
        screen.hint(f"there are more than {wanted.limit}; raise --limit, or go on with --from")
    elif not count and wanted.limit != 0:
        screen.nothing("no event matches" if len(session.events) else "the log holds no events")


def _found(session: Session, wanted: Filter) -> Iterator[AnyEvent]:
    first, stop = 0, len(session)
    if wanted.turn is not None:
        span = turn_of(session, wanted.turn)
        first, stop = span.first, span.stop
    if wanted.start is not None:
        first = max(first, _edge(session, wanted.start)[0])
    if wanted.stop is not None:
        stop = min(stop, _edge(session, wanted.stop)[1] + 1)
    with_chunks = wanted.wants("assistant/chunk")
    for slot in slots(session, first, stop):
        if with_chunks if isinstance(slot.row, PackedRun) else wanted.wants(slot.row.type):
            yield from (event for event in events_of(session, slot) if first <= event.seq < stop)


def _edge(session: Session, text: str) -> tuple[int, int]:
    """First and last seq of an address; a seq need not exist to be the edge of a range."""
    address = address_of(text)
    if isinstance(address, EventAddress):
        return address.seq, address.seq
    target = resolve(session, address)
    return target.first, target.last


def _print_json(screen: Screen, found: Iterator[AnyEvent]) -> int:
    count = 0
    while batch := list(islice(found, 1000)):
        screen.json_lines(event.line() for event in batch)
        count += len(batch)
    return count


def _print(screen: Screen, found: Iterator[AnyEvent]) -> int:
    count = 0
    for count, event in enumerate(found, 1):  # noqa: B007 - the count is what is wanted
        print_event(screen, event)
    return count


def print_event(screen: Screen, event: AnyEvent) -> None:
    """``@12  2026-01-01T00:00:00.000Z  tool/call  {"turn":1,…}``"""
    text = event.raw.decode(errors="backslashreplace")
    screen.row(
        Styled(f"@{event.seq}", "cyan"), f"  {screen.clock.show(event.time)}  ", Styled(event.type, "bold"), f"  {text}"
    )
