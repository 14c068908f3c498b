"""Projections: views derived from the log, kept up to date at the cost of what is new.

A :class:`Projector` turns one event into one item, or into nothing. Over the *surface* it gives what is visible now
(the model's messages); over the *log* it gives what happened (a transcript, a timeline). The result is an immutable
:class:`View` that shares storage with the projection: handing one out costs O(1), and it never changes or grows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, overload

from turnlog.events import Message

from .event import AnyEvent, SessionEvent, with_messages
from .rows import Rows
from .surface import Surface

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Projector(Generic[T]):
    """How one event becomes one item of a view.

    ``project`` must be pure: the same event always gives an equal item, None means that the event shows nothing. A
    session keeps the items of every projector it was asked for, so make a projector once, not once per call.
    """

    name: str
    project: Callable[[AnyEvent], T | None]
    over: Literal["surface", "log"] = "surface"
    """``surface`` follows replaces and shows what is visible; ``log`` shows everything in order."""
    skips_chunks: bool = True
    """Over the log: leave out stream chunks, so that packed rows stay packed."""
    shows: Callable[[list[AnyEvent]], Sequence[AnyEvent | None]] | None = None
    """Over the surface: tells without projecting for which events ``project`` gives an item, by None in the place of
    all others. Items are then projected when they are first looked at, and a view costs next to nothing to make."""


class View(Sequence[T_co]):
    """An immutable sequence of projected items; shares storage and never grows."""

    __slots__ = ("_items", "_length", "_resolve")

    def __init__(
        self, items: Sequence[T_co | SessionEvent[Any]], length: int, resolve: Callable[[AnyEvent], T_co] | None = None
    ) -> None:
        """The first *length* of *items*; with *resolve*, events among them stand for their items."""
        self._items = items
        self._length = length
        self._resolve = resolve

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        if isinstance(index, slice):
            return tuple(self._at(position) for position in range(*index.indices(self._length)))
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"no item {index} in a view of {self._length}")
        return self._at(index)

    def _at(self, index: int) -> T_co:
        item = self._items[index]
        if self._resolve is not None and isinstance(item, SessionEvent):
            return self._resolve(item)
        return item  # type: ignore[return-value]

    def __iter__(self) -> Iterator[T_co]:
        return map(self._at, range(self._length))

    def shares_storage(self, other: View[Any]) -> bool:
        """Whether both are of one storage, so that the shorter is the beginning of the longer; told without looking at
        an item. Equal views need not share."""
        return self._items is other._items

    def __eq__(self, other: object) -> bool:
        if isinstance(other, View) and other._items is self._items:
            return self._length == other._length
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<View of {self._length} items>"


Messages = View[Message]
"""The model's messages."""


def _message(event: AnyEvent) -> Message | None:
    return event.message


MESSAGES: Final[Projector[Message]] = Projector("messages", _message, shows=with_messages)


class SurfaceProjection(Generic[T]):
    """Keeps one projector's items along the surface.

    With a projector that ``shows``, a slot holds the event until somebody looks at its item.
    """

    def __init__(self, projector: Projector[T], rows: Rows, surface: Surface) -> None:
        self._project = projector.project
        self._shows = projector.shows
        self._rows = rows
        self._surface = surface
        self._known: dict[int, T | None] = {}
        self._slots: list[T | AnyEvent | None] = []  # one per node, None where the node shows nothing
        self._items: list[T | AnyEvent] = []
        self._leaves = 0
        self._splices = 0

    def view(self, at: int | None = None) -> View[T]:
        """The items now, or when the log held *at* events."""
        if at is not None and at < self._rows.length:
            return self._view([slot for slot in self._filled(self._surface.at(at)) if slot is not None])
        self._catch_up()
        return self._view(self._items)

    def _view(self, items: list[T | AnyEvent]) -> View[T]:
        return View(items, len(items), None if self._shows is None else self._resolve)

    def _filled(self, seqs: Sequence[int]) -> Sequence[T | AnyEvent | None]:
        return self._shown(self._rows.gather(seqs))

    def _shown(self, events: list[AnyEvent]) -> Sequence[T | AnyEvent | None]:
        return list(map(self._item, events)) if self._shows is None else self._shows(events)

    def _item(self, event: AnyEvent) -> T | None:
        known = self._known
        if event.seq not in known:
            known[event.seq] = self._project(event)
        return known[event.seq]

    def _resolve(self, event: AnyEvent) -> T:
        item = self._item(event)
        assert item is not None, f"{event!r} shows something, but its projector gives nothing"
        return item

    def _catch_up(self) -> None:
        splices = self._surface.splices[self._splices :]
        if splices:
            self._slots = self._slots.copy()
            for splice in splices:
                self._slots += self._filled(self._surface.leaves[self._leaves : splice.leaves])
                self._leaves = splice.leaves
                self._slots[splice.first : splice.last + 1] = self._filled([splice.seq])
            self._items = [slot for slot in self._slots if slot is not None]  # a new list: older views keep theirs
            self._splices += len(splices)
        self._extend(len(self._surface.leaves))

    def _extend(self, leaves: int) -> None:
        events = self._rows.gather(self._surface.leaves[self._leaves : leaves])
        new = self._shown(events)
        self._slots.extend(new)
        self._items.extend(events if new is events else [slot for slot in new if slot is not None])
        self._leaves = leaves


class LogProjection(Generic[T]):
    """Keeps one projector's items along the log."""

    def __init__(self, projector: Projector[T], rows: Rows) -> None:
        self._projector = projector
        self._rows = rows
        self._items: list[T] = []
        self._seqs: list[int] = []
        self._next_row = 0

    def view(self, at: int | None = None) -> View[T]:
        """The items of the first *at* events, or of all."""
        self._catch_up()
        return View(self._items, len(self._items) if at is None else bisect_left(self._seqs, at))

    def _catch_up(self) -> None:
        rows, project = self._rows, self._projector.project
        items: list[T] = []
        seqs: list[int] = []
        for event in _fresh(rows, self._next_row, self._projector.skips_chunks):
            item = project(event)
            if item is not None:
                items.append(item)
                seqs.append(event.seq)
        self._items += items  # only now: a projector that raises leaves nothing half done
        self._seqs += seqs
        self._next_row = len(rows.rows)


def _fresh(rows: Rows, first: int, skips_chunks: bool) -> Iterator[AnyEvent]:
    if first >= len(rows.rows):
        return
    if not skips_chunks:
        yield from rows.iterate(rows.row_start(first), rows.length)
        return
    for row in rows.rows[first:]:
        if row.type != "assistant/chunk" and hasattr(row, "seq"):
            yield row  # type: ignore[misc]


AnyProjection = SurfaceProjection[Any] | LogProjection[Any]
