"""``turnlog turn``"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.log import Session
from turnlog.log.rows import PackedRun
from turnlog.views import queries
from turnlog.views.outline import Chunks, chunks_in
from turnlog.views.queries import TurnEvents
from turnlog.views.rows import slots

from .. import describe
from ..json_views import document, turn_view
from ..moments import Clock
from ..opening import Which, open_session
from ..places import turn_number
from ..screen import Screen, Styled
from ..text import duration


def turn(screen: Screen, which: Which, number: str, *, as_stored: bool, as_json: bool) -> None:
    """Print every event of a turn."""
    wanted = turn_number(number)
    session = open_session(screen, which)
    found = queries.turn(session, wanted, as_stored=as_stored)
    if as_json:
        screen.json(document(**turn_view(found)))
        return
    for slot in _lines(screen.clock, session, found):
        screen.row(*slot)
    for event in found.closers:
        screen.row(Styled(f"{'closer':10}", "yellow"), f"{describe.anything(event)}{describe.SYNTHETIC}")
    if found.state != "ended":
        took = duration(max(found.ended - found.started, 0))
        screen.hint(f"{found.span.address} is {found.state} {took} after its start")


def _lines(clock: Clock, session: Session, found: TurnEvents) -> Iterator[tuple[str | Styled, ...]]:
    """One line per event; chunks of one kind that follow each other share one, with the time of the first."""
    run: Chunks | None = None
    for slot in slots(session, found.span.first, found.span.stop):
        for chunks in chunks_in(slot):
            if run is not None and run.goes_on_with(chunks):
                run = run.with_more(chunks)
                continue
            if run is not None:
                yield _chunks_line(clock, run)
            run = chunks
        if isinstance(slot.row, PackedRun) or slot.row.type == "assistant/chunk":
            continue
        if run is not None:
            yield _chunks_line(clock, run)
            run = None
        yield _line(clock, f"@{slot.seq}", slot.row.time, describe.anything(slot.row))
    if run is not None:
        yield _chunks_line(clock, run)


def _chunks_line(clock: Clock, run: Chunks) -> tuple[str | Styled, ...]:
    return _line(clock, run.address, run.time, describe.chunks(run.kind, run.number))


def _line(clock: Clock, address: str, time: int, text: str) -> tuple[str | Styled, ...]:
    return Styled(f"{address:10}", "cyan"), f"{clock.show(time)}  ", text
