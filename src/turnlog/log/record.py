"""`Record`: what a log can be asked, whoever writes it and wherever it is kept. Nothing here changes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from msgspec import UNSET

from turnlog.events import Header, ModelSource, Payload, RequestHeader, Vocabulary
from turnlog.events.codec import encode

from .closers import Closer
from .closers import closers as closers_of
from .event import AnyEvent, SessionEvent, event_class, is_event, with_messages
from .header import SessionHeader
from .projection import MESSAGES, AnyProjection, LogProjection, Messages, Projector, SurfaceProjection, View
from .rows import RUN_TYPES, Events, PackedRun, Rows
from .surface import Surface

T = TypeVar("T")
P = TypeVar("P", bound=Payload)

_TURNS: Final = frozenset({"turn/start", "turn/end"})
_HEADERS: Final = frozenset({"request/header"})
_CHUNK: Final = "assistant/chunk"


class Record:
    """The reading half of a :class:`~turnlog.log.Session`: its events, its surface and what is derived of them."""

    def __init__(self, header: SessionHeader, vocabulary: Vocabulary, rows: Rows, surface: Surface) -> None:
        self.header: Final = header
        self.vocabulary: Final = vocabulary
        self._kind = rows.kind
        self._rows = rows
        self._surface = surface
        self._projections: dict[Projector[Any], AnyProjection] = {}
        self._read_only: str | None = None
        self._closed_view: Messages | None = None
        self._closes = False
        self._closers: tuple[AnyEvent, ...] | None = None

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session id."""
        return self.header.id

    def __len__(self) -> int:
        """How many events the log holds."""
        return self._rows.length

    def __repr__(self) -> str:
        return f"<Session {self.id}: {len(self)} events>"

    @property
    def read_only(self) -> str | None:
        """Why it cannot be appended to, or None."""
        return self._read_only

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def events(self) -> Events:
        """All events so far, as an immutable view that never grows."""
        return Events(self._rows, self._rows.base, self._rows.length)

    @property
    def rows(self) -> Rows:
        """The rows behind the events, packed runs as they are stored, for views that leave them packed. Read only."""
        return self._rows

    def event(self, seq: int) -> AnyEvent:
        """The event at *seq*. Raises ``IndexError`` naming the range there is."""
        if not self._rows.base <= seq < self._rows.length:
            raise IndexError(f"session {self.id}: no event @{seq}; there are @{self._rows.base} to @{len(self) - 1}")
        return self._rows.at(seq)

    def select(self, kind: type[P]) -> Iterator[SessionEvent[P]]:
        """The events that say a *kind*, in order; ``event.data`` is a *kind*."""
        if not (isinstance(kind, type) and issubclass(kind, Payload)):
            raise TypeError(f"select takes a payload class, for example ToolCall, not {kind!r}")
        name = kind.event_type
        if not name:  # a base class: whatever it covers
            yield from (event for event in self.events if is_event(event, kind))
            return
        stored_as = {type for type, one in self._kind._codec.kinds.items() if one is kind}
        if name == _CHUNK:
            stored_as |= RUN_TYPES
        for row in [row for row in self._rows.rows if row.type in stored_as]:
            for event in row.events(self._kind) if isinstance(row, PackedRun) else (row,):
                if is_event(event, kind):
                    yield event

    @property
    def surface(self) -> tuple[int, ...]:
        """Seqs of the events the model sees now, in order."""
        return tuple(self._surface.nodes)

    def surface_at(self, length: int) -> tuple[int, ...]:
        """The same when the log held its first *length* events. Raises ``IndexError`` when it never did."""
        self._check_at(length)
        return tuple(self._surface.at(length))

    @property
    def generation(self) -> int:
        """How many replaces there were."""
        return self._surface.generation

    def replaced_by(self, seq: int) -> int | None:
        """The event that took *seq*'s place on the surface, or None."""
        return self._surface.replaced_by(seq)

    def derive_messages(self, at: int | None = None, *, as_stored: bool = False) -> Messages:
        """What the model sees now, or saw when the log held its first *at* events.

        An immutable sequence that shares storage; O(1) after an append. Raises ``IndexError`` for an *at* that the log
        never had. For a stored log whose writer is gone the
        messages of its :attr:`closers` are included, unless *as_stored*.
        """
        view = self.project(MESSAGES, at)
        if at is not None or as_stored:
            return view
        closing = [message for message in (event.message for event in self.closers) if message is not None]
        if not closing:
            return view
        if self._closed_view is None:  # a stored log does not grow
            self._closed_view = View([*view, *closing], len(view) + len(closing))
        return self._closed_view

    def message_events(self, at: int | None = None, *, as_stored: bool = False) -> list[AnyEvent]:
        """The events behind :meth:`derive_messages`, one per message."""
        self._check_at(at)
        nodes = self._surface.nodes if at is None else self._surface.at(at)
        found = [event for event in with_messages(self._rows.gather(nodes)) if event is not None]
        if at is None and not as_stored:
            found += [event for event in self.closers if event.message is not None]
        return found

    def project(self, projector: Projector[T], at: int | None = None) -> View[T]:
        """Any projector's items now, or when the log held its first *at* events; kept up to date incrementally."""
        self._check_at(at)
        projection = self._projections.get(projector)
        if projection is None:
            over_surface = projector.over == "surface"
            projection = self._projections[projector] = (
                SurfaceProjection(projector, self._rows, self._surface) if over_surface
                else LogProjection(projector, self._rows)
            )  # fmt: skip
        return projection.view(at)

    def request_header(self, at: int | None = None) -> Header | None:
        """The last request header (of the first *at* events), or None when no request was logged."""
        self._check_at(at)
        event = self._last_of(_HEADERS, self._rows.length if at is None else at)
        return event.data.header if event is not None and isinstance(event.data, RequestHeader) else None

    def _check_at(self, at: int | None) -> None:
        if at is not None and (type(at) is not int or not 0 <= at <= self._rows.length):
            raise IndexError(f"session {self.id}: at={at!r} is no number of events; the log holds {self._rows.length}")

    def _last_of(self, types: frozenset[str], before: int) -> AnyEvent | None:
        rows = self._rows
        last = len(rows.rows) if before >= rows.length else rows.row_index(before)
        for index in range(last - 1, -1, -1):
            row = rows.rows[index]
            if row.type in types:
                return row  # type: ignore[return-value]
        return None

    # -- closers -------------------------------------------------------------------------------------------------

    @property
    def closers(self) -> tuple[AnyEvent, ...]:
        """Synthetic events that close what a gone writer left open; not part of the log, and empty for live ones."""
        if not self._closes:
            return ()
        if self._closers is None:
            owed = self.owed()
            self._closers = tuple(self._as_events(owed)) if owed else ()
        return self._closers

    def owed(self) -> list[Closer]:
        """What the log owes if its writer is gone: deterministic, and nothing once it is appended."""
        length = self._rows.length
        start = self._last_of(_TURNS, length)
        if start is None or start.type == "turn/end":
            return []
        return closers_of(Events(self._rows, start.seq, length), length, self._route)

    def _route(self) -> ModelSource | None:
        header = self.request_header()
        return None if header is None else ModelSource(header.config.provider, header.config.model)

    def _as_events(self, owed: Sequence[Closer]) -> Iterator[AnyEvent]:
        kind = event_class(self.vocabulary.codec)  # closers have format 0's shape, whatever the log has
        time = self._rows.at(self._rows.length - 1).time
        for seq, closer in enumerate(owed, self._rows.length):
            payload = closer.payload
            sources = UNSET if closer.sources is None else closer.sources
            if payload.surface:
                yield kind(payload.event_type, seq, time, encode(payload), "append", sources, UNSET, payload)
            else:
                yield kind(payload.event_type, seq, time, encode(payload), UNSET, sources, UNSET, payload)
