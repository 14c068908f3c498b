"""Where one session's log goes on in another: forks, and sessions that are resumed.

Both inherit a prefix that was checked when it was made and is not checked again, so that whatever strict reading opens
can be gone on with, old faults included. What a cut or a gone writer left open is closed by closers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from turnlog.events import EndSeed
from turnlog.events.codec import encode

from .closers import Closer
from .errors import ForkError
from .event import AnyEvent, Replace
from .grammar import Grammar
from .header import FORMAT
from .rows import PackedRun
from .surface import Plan

if TYPE_CHECKING:
    from .session import Session

_CHUNK: Final = "assistant/chunk"


def check_whole(session: Session, verb: str) -> None:
    """Raise :class:`ForkError` for a log that nothing can go on from."""
    where = f"session {session.id} cannot be {verb}"
    if session.header.version != FORMAT:
        stored = getattr(session, "format", f"format {session.header.version}")  # a store knows it by name
        raise ForkError(
            f"{where}: it is stored in {stored}, and only format {FORMAT} is written. "
            "turnlog convert makes a format-0 session of it"
        )
    if session._rows.base:
        raise ForkError(f"{where}: only its tail was read; load the whole log")
    if session._damage is not None:
        raise ForkError(f"{where}: its log is not whole ({session._damage}). turnlog repair keeps what is readable")


def inherit(child: Session, parent: Session, length: int) -> None:
    """Take over the first *length* events of another log."""
    known = parent._rows.kind._codec.kinds
    grammar = Grammar()
    for row in parent._rows.rows:
        if child._rows.length >= length:
            break
        if isinstance(row, PackedRun):
            _inherit_run(child, row, length)
            continue
        if row.type not in known and not row.ignorable:
            raise ForkError(
                f"session {parent.id} cannot be gone on with: its event {row.type!r} @{row.seq} must be known to "
                "readers, and this vocabulary does not have it; pass one that does"
            )
        child._rows.add(row)
        _inherit_place(child, grammar, row)
    child._grammar = grammar


def _inherit_run(child: Session, run: PackedRun, length: int) -> None:
    count = len(run.unpack().members())
    if child._rows.length + count <= length:
        child._rows.add_run(run, count)
        return
    for event in run.events(child._kind)[: length - child._rows.length]:
        child._rows.add(event)


def _inherit_place(child: Session, grammar: Grammar, event: AnyEvent) -> None:
    replaces = isinstance(event.surface_op, Replace)
    if event.type != _CHUNK:
        grammar.advance(event.data, replaces=replaces)
    if isinstance(event.surface_op, Replace):
        child._surface.apply(child._surface.plan_replace(event.seq, event.surface_op)[0])
    elif event.surface_op is not UNSET:
        child._surface.append(event.seq)


def settle(session: Session, *, marker_first: bool) -> None:
    """Append closers for what is open and, unless it stands there already, ``session/end-seed``."""
    rows = session._rows
    last = rows.at(rows.length - 1) if rows.length else None
    marked = last is not None and last.type == EndSeed.event_type
    if marker_first and not marked:
        _mark(session)
    for closer in session.owed():
        assert last is not None
        append_closer(session, closer, last.time)
    if not marker_first and last is not None and not marked:
        _mark(session)


def append_closer(session: Session, closer: Closer, time: int) -> None:
    """Commit a closer. It says what the log says, old faults included, so no rule of new events applies to it."""
    payload = closer.payload
    plan = Plan(session._rows.length) if payload.surface else None
    sources = UNSET if closer.sources is None else closer.sources
    session._commit(encode(payload), payload, plan, "append" if payload.surface else UNSET, sources, time=time)


def _mark(session: Session) -> None:
    marker = EndSeed()
    session._commit(encode(marker), marker, None, UNSET, UNSET)
