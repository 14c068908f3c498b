"""``turnlog events``"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import chain, islice
from typing import Final, NamedTuple

from turnlog.events import Vocabulary
from turnlog.log import AnyEvent
from turnlog.log.rows import PackedRun
from turnlog.store import StoredSession
from turnlog.store.formats import FORMATS
from turnlog.views import AddressUnknown, WindowInvalid, resolve
from turnlog.views.address import EventAddress
from turnlog.views.filters import SURFACE_CLASSES, EventFilter
from turnlog.views.resolve import turn_of
from turnlog.views.rows import events_of, slots
from turnlog.views.windows import WIDEST, window_edges

from ..json_views import header_line_of, wire_line
from ..opening import Which, open_session
from ..places import address_of, turn_number
from ..problems import WrongUsage
from ..screen import Screen, Styled

DEFAULT_WIDTH: Final = 5
"""Events that ``--around`` shows on either side unless told otherwise."""


@dataclass(frozen=True)
class Filter:
    """Which events are wanted, as somebody typed it."""

    types: tuple[str, ...]
    turn: str | None
    since: str | None
    until: str | None
    start: str | None
    stop: str | None
    limit: int | None
    tools: tuple[str, ...] = ()
    text: str | None = None
    errors: bool = False
    surfaces: tuple[str, ...] = ()
    around: str | None = None
    width: int | None = None

    def rest(self, session: StoredSession) -> EventFilter | None:
        """What is wanted besides type, place and time, or None for everything. Raises :class:`WrongUsage`."""
        if not (self.tools or self.text is not None or self.errors or self.surfaces):
            return None
        surfaces = [one.strip() for text in self.surfaces for one in text.split(",")]
        if wrong := next((one for one in surfaces if one not in SURFACE_CLASSES), None):
            raise WrongUsage(f"--surface takes {', '.join(SURFACE_CLASSES)}, not {wrong!r}")
        tools = [one.strip() for text in self.tools for one in text.split(",")] or None
        chosen = [one for one in SURFACE_CLASSES if one in surfaces] or None
        try:
            return EventFilter(session, tools=tools, text=self.text, errors=self.errors, surfaces=chosen)
        except ValueError as error:
            raise WrongUsage(f"--text: {error}") from None

    def patterns(self) -> list[str]:
        """The wanted types; commas and further options mean *or*. Raises :class:`WrongUsage` for an empty one."""
        patterns = [pattern.strip() for one in self.types for pattern in one.split(",")]
        if not all(patterns):
            raise WrongUsage("--type takes event types like tool/call or tool/*, several with commas; one is empty")
        return patterns


class Found(NamedTuple):
    """A wanted event, and where it is."""

    event: AnyEvent
    branch: int | None = None
    """Which of the branches beside the log, from 1; None for the log itself."""


def events(screen: Screen, which: Which, wanted: Filter, *, header: bool, as_json: bool) -> None:
    """Print stored events; what other writers wrote and cannot follow the log comes after it."""
    if header and not as_json:
        raise WrongUsage("--header goes with --json: it makes a log of the lines")
    if wanted.width is not None and wanted.around is None:
        raise WrongUsage("--window goes with --around: it says how many events before and after that place")
    patterns = wanted.patterns()
    turn = None if wanted.turn is None else turn_number(wanted.turn)
    period = screen.clock.period(wanted.since, wanted.until)
    session = open_session(screen, which, with_branches=True)
    _check_types(session, patterns)
    found = (one for one in _Search(session, wanted, patterns, turn).all() if period.has(one.event.time))
    if header:
        _print_header(screen, session)
    shown = found if wanted.limit is None else islice(found, wanted.limit)
    count = _print_json(screen, shown) if as_json else _print(screen, session, shown)
    if wanted.limit is not None and (more := next(found, None)) is not None:
        on = "" if more.branch is not None else f", or go on with --from @{more.event.seq}"
        screen.hint(f"there are more than {wanted.limit}; raise --limit{on}")
    elif not count and wanted.limit != 0:
        screen.nothing("no event matches" if len(session.events) else "the log holds no events")


def _check_types(session: StoredSession, patterns: Sequence[str]) -> None:
    """Refuse a type that neither this build nor the log knows; say what may have been meant."""
    known = {type for format in FORMATS.values() for type in format.kinds(Vocabulary.core)}
    strange = [pattern for pattern in patterns if not _any_is(known, pattern)]
    if not strange:
        return
    known |= {row.type for row in session.rows.rows if not isinstance(row, PackedRun)}
    known |= {event.type for branch in session.branches for event in branch.events}
    for pattern in strange:
        if not _any_is(known, pattern):
            near = get_close_matches(pattern, sorted(known), 3)
            meant = f"did you mean {' or '.join(near)}?" if near else "types look like tool/call, or tool/* for several"
            raise WrongUsage(f"there is no event type {pattern!r}; {meant}")


def _any_is(types: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(type, pattern) for type in types)


class _Search:
    def __init__(self, session: StoredSession, wanted: Filter, patterns: Sequence[str], turn: int | None) -> None:
        self._session = session
        self._patterns = patterns
        self._turn = turn
        self._rest = wanted.rest(session)
        self._first = 0 if wanted.start is None else _edge(session, wanted.start)[0]
        self._last = None if wanted.stop is None else _edge(session, wanted.stop)[1]
        if wanted.around is not None:
            first, last = _around(session, wanted.around, DEFAULT_WIDTH if wanted.width is None else wanted.width)
            self._first = max(self._first, first)
            self._last = last if self._last is None else min(self._last, last)

    def all(self) -> Iterator[Found]:
        return chain(self._in_log(), self._in_branches())

    def _wants(self, type: str) -> bool:
        return not self._patterns or any(fnmatchcase(type, pattern) for pattern in self._patterns)

    def _in_log(self) -> Iterator[Found]:
        first, stop = self._first, len(self._session)
        if self._last is not None:
            stop = min(stop, self._last + 1)
        if self._turn is not None:
            try:
                span = turn_of(self._session, self._turn)
            except AddressUnknown:
                if next(self._in_branches(), None) is None:
                    raise
                return
            first, stop = max(first, span.first), min(stop, span.stop)
        with_chunks = self._wants("assistant/chunk") and not (self._rest is not None and self._rest.skips_deltas)
        for slot in slots(self._session, first, stop):
            if with_chunks if isinstance(slot.row, PackedRun) else self._wants(slot.row.type):
                inside = (event for event in events_of(self._session, slot) if first <= event.seq < stop)
                yield from (Found(event) for event in inside if self._rest is None or self._rest(event))

    def _in_branches(self) -> Iterator[Found]:
        for number, branch in enumerate(self._session.branches, 1):
            for event in branch.events if self._turn is None else _of_turn(branch.events, self._turn):
                inside = event.seq >= self._first and (self._last is None or event.seq <= self._last)
                rest = self._rest is None or self._rest(event, beside=True)
                if inside and rest and self._wants(event.type):
                    yield Found(event, number)


def _of_turn(events: Iterable[AnyEvent], turn: int) -> Iterator[AnyEvent]:
    """The events that say they are of a turn, and those between them."""
    current: int | None = None
    for event in events:
        current = getattr(event.data, "turn", current)
        if current == turn:
            yield event
        if event.type == "turn/end":
            current = None


def _edge(session: StoredSession, text: str) -> tuple[int, int]:
    """First and last seq of an address; a seq need not exist to be the edge of a range."""
    address = address_of(text)
    if isinstance(address, EventAddress):
        return address.seq, address.seq
    target = resolve(session, address)
    return target.first, target.last


def _around(session: StoredSession, text: str, width: int) -> tuple[int, int]:
    """First and last seq of the window around an address, which has to be in the log."""
    try:
        first, last, _target = window_edges(session, address_of(text), before=width, after=width)
    except WindowInvalid:
        raise WrongUsage(f"--window takes a whole number of events from 0 to {WIDEST}, not {width}") from None
    return first, last


def _print_header(screen: Screen, session: StoredSession) -> None:
    line = header_line_of(session)
    if line is None:
        raise WrongUsage(f"session {session.id} has no header line; leave out --header")
    screen.json_lines((line,))


def _print_json(screen: Screen, found: Iterator[Found]) -> int:
    count = 0
    while batch := list(islice(found, 1000)):
        screen.json_lines(map(_line, batch))
        count += len(batch)
    return count


def _line(one: Found) -> bytes:
    line = wire_line(one.event)
    return line if one.branch is None else b'%b,"branch":%d}' % (line[:-1], one.branch)


def _print(screen: Screen, session: StoredSession, found: Iterator[Found]) -> int:
    count = 0
    branch = None
    for count, one in enumerate(found, 1):  # noqa: B007 - the count is what is wanted
        if one.branch is not None and one.branch != branch:
            branch = one.branch
            beside = session.branches[branch - 1]
            events = f"{len(beside.events)} events that cannot follow the log, at {beside.place}"
            screen.line(Styled(f"branch {branch}: {events}", "yellow"))
        _print_event(screen, one.event)
    return count


def _print_event(screen: Screen, event: AnyEvent) -> None:
    """``@12  2026-01-01T00:00:00.000Z  tool/call  {"turn":1,…}``"""
    text = event.raw.decode(errors="backslashreplace")
    screen.row(
        Styled(f"@{event.seq}", "cyan"), f"  {screen.clock.show(event.time)}  ", Styled(event.type, "bold"), f"  {text}"
    )
