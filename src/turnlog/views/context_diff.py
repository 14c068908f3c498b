"""Two requests side by side: what stayed, what came, what went, what took whose place; and where the cache broke.

Within one session messages are the same when they come from the same event. Between sessions they are the same when
they say the same, whatever their ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from msgspec import UNSET

from turnlog.events import Header, Message
from turnlog.events.lenient import parse
from turnlog.events.lossless import dump, plain
from turnlog.log import AnyEvent, Projector, Replace, Session

from .align import align, gaps
from .context import Context
from .rows import slots
from .wire import Part, prefix

Mark: TypeAlias = Literal["=", "+", "-", "~"]


@dataclass(frozen=True)
class Shown:
    """One message of a request."""

    seq: int
    """Of the event that it comes from."""
    data: bytes
    """The message as JSON."""

    @property
    def size(self) -> int:
        """Bytes as JSON."""
        return len(self.data)

    @cached_property
    def json(self) -> Any:
        """The message as plain values."""
        return parse(self.data)

    @property
    def role(self) -> str:
        """``user``, ``assistant``, …"""
        return str(self.json.get("role", "")) if isinstance(self.json, dict) else ""


@dataclass(frozen=True)
class Row:
    """One line of a comparison.

    ``=`` both have it. ``+`` only the right one. ``-`` only the left one. ``~`` *right* stands where *left* was: it
    took the place of these, or says something else.
    """

    mark: Mark
    left: tuple[Shown, ...]
    right: tuple[Shown, ...]

    @property
    def left_size(self) -> int:
        """Bytes on the left."""
        return sum(one.size for one in self.left)

    @property
    def right_size(self) -> int:
        """Bytes on the right."""
        return sum(one.size for one in self.right)


@dataclass(frozen=True)
class Break:
    """Where the right prompt stops being the left one going on: nothing from here on comes from a prefix cache."""

    offset: int
    """The first byte that differs, counted over tools, system prompt and messages as they are sent."""
    kept: int
    """Bytes of the left prompt before that."""
    lost: int
    """Bytes of the left prompt from there on, to be paid for again where the right one still has them."""
    part: str
    """What differs: ``model``, ``tools``, ``system`` or ``messages``."""
    event: AnyEvent | None
    """The event that broke it: a request header, a replace; None where only the way of sending differs."""
    why: str


@dataclass(frozen=True)
class HeaderChange:
    """A member of the request header that is not the same."""

    path: str
    left: Any
    right: Any


@dataclass(frozen=True)
class ContextDiff:
    """What :func:`diff_contexts` gives."""

    left: Context
    right: Context
    rows: tuple[Row, ...]
    header: tuple[HeaderChange, ...]
    broken: Break | None
    """Where the prefix cache broke; None where the right prompt goes on where the left one ends."""

    @property
    def same(self) -> bool:
        """Whether both requests say the same."""
        return not self.header and all(row.mark == "=" for row in self.rows)


def diff_contexts(left: Context, right: Context) -> ContextDiff:
    """The right request against the left one."""
    mine, theirs = shown(left.events), shown(right.events)
    one_session = left.session is right.session
    rows = same_session_rows(left.session, mine, theirs) if one_session else message_rows(mine, theirs)
    header = tuple(header_changes(left.header, right.header))
    return ContextDiff(left, right, tuple(rows), header, _break(left, right) if one_session else None)


def diff_projection(context: Context, projector: Projector[Any] | Callable[[AnyEvent], Any]) -> tuple[Row, ...]:
    """The messages of a request against what another projection makes of the same history.

    The projector gives a message, or anything that JSON can say, for an event; None for nothing. With ``over="log"``
    it sees every event of the history and not only those on the surface.
    """
    project = projector.project if isinstance(projector, Projector) else projector
    over = projector.over if isinstance(projector, Projector) else "surface"
    mine = {one.seq: one for one in shown(context.events)}
    theirs: dict[int, Shown] = {}
    for event in _history(context, over):
        item = project(event)
        if item is not None:
            theirs[event.seq] = Shown(event.seq, _item(event, item))
    return tuple(_projected(mine.get(seq), theirs.get(seq)) for seq in _order(context, mine, theirs))


def shown(events: Sequence[AnyEvent]) -> list[Shown]:
    """The messages of events."""
    return [Shown(event.seq, event.message_json) for event in events]


def same_session_rows(session: Session, left: Sequence[Shown], right: Sequence[Shown]) -> list[Row]:
    """Messages by the events they come from."""
    rows: list[Row] = []
    for one, other in gaps(align([each.seq for each in left], [each.seq for each in right])):
        if isinstance(one, int) and isinstance(other, int):
            rows.append(Row("=", (left[one],), (right[other],)))
        elif isinstance(one, list) and isinstance(other, list):
            rows += _changed(session, [left[place] for place in one], [right[place] for place in other])
    return rows


def message_rows(left: Sequence[Shown], right: Sequence[Shown]) -> list[Row]:
    """Messages by what they say; others stand side by side while their roles agree."""
    rows: list[Row] = []
    for one, other in gaps(align(_said(left), _said(right))):
        if isinstance(one, int) and isinstance(other, int):
            rows.append(Row("=", (left[one],), (right[other],)))
        elif isinstance(one, list) and isinstance(other, list):
            rows += _side_by_side([left[place] for place in one], [right[place] for place in other])
    return rows


def header_changes(left: Header | None, right: Header | None) -> list[HeaderChange]:
    """What differs between two request headers; tools by name."""
    mine, theirs = _flat(left), _flat(right)
    paths = [*mine, *(path for path in theirs if path not in mine)]
    return [
        HeaderChange(path, mine.get(path), theirs.get(path)) for path in paths if mine.get(path) != theirs.get(path)
    ]


# -- rows ---------------------------------------------------------------------------------------------------------


def _changed(session: Session, left: list[Shown], right: list[Shown]) -> list[Row]:
    """Between two messages that both have: what took whose place."""
    owners: dict[int, list[Shown]] = {one.seq: [] for one in right}
    gone: list[Shown] = []
    for one in left:
        above = session.replaced_by(one.seq)
        while above is not None and above not in owners:
            above = session.replaced_by(above)
        (gone if above is None else owners[above]).append(one)
    rows = [Row("-", (one,), ()) for one in gone]
    return rows + [Row("~" if owners[one.seq] else "+", tuple(owners[one.seq]), (one,)) for one in right]


def _side_by_side(left: list[Shown], right: list[Shown]) -> list[Row]:
    rows: list[Row] = []
    shared = 0
    while shared < min(len(left), len(right)) and left[shared].role == right[shared].role:
        rows.append(Row("~", (left[shared],), (right[shared],)))
        shared += 1
    return rows + [Row("-", (one,), ()) for one in left[shared:]] + [Row("+", (), (one,)) for one in right[shared:]]


def _said(messages: Sequence[Shown]) -> list[bytes]:
    """Messages with their call ids numbered and their own ids left out."""
    ids: dict[str, str] = {}
    return [json.dumps(_anonymous(one.json, ids, top=True), sort_keys=True).encode() for one in messages]


def _anonymous(value: Any, ids: dict[str, str], *, top: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: ids.setdefault(member, f"#{len(ids)}")
            if isinstance(member, str) and (key == "id" or key.lower().endswith("callid"))
            else _anonymous(member, ids)
            for key, member in value.items()
            if not (top and key == "id") and key != "replayState"
        }
    return [_anonymous(member, ids) for member in value] if isinstance(value, list) else value


def _flat(header: Header | None) -> dict[str, Any]:
    if header is None:
        return {}
    said: dict[str, Any] = plain(header)
    tools = said.pop("tools", None) or []
    config = said.pop("config")
    said.pop("adapterDefaults", None)
    return {
        **{f"config.{name}": value for name, value in config.items()},
        **said,
        **{f"tools.{tool['name']}": tool for tool in tools},
        "tools": [tool["name"] for tool in tools],
    }


# -- another projection -------------------------------------------------------------------------------------------


def _history(context: Context, over: str) -> list[AnyEvent]:
    session = context.session
    if over == "surface":
        return session.rows.gather(session.surface_at(context.at))
    return [
        event for slot in slots(session, 0, context.at) for event in session.events[slot.seq : slot.seq + slot.size]
    ]


def _item(event: AnyEvent, item: object) -> bytes:
    return event.message_json if isinstance(item, Message) and item == event.message else dump(item)


def _order(context: Context, mine: Mapping[int, Shown], theirs: Mapping[int, Shown]) -> list[int]:
    """The events that either shows: as they stand on the surface; in the order of the log where some do not."""
    places = {seq: place for place, seq in enumerate(context.session.surface_at(context.at))}
    shown = {*mine, *theirs}
    return sorted(shown) if not shown <= places.keys() else sorted(shown, key=places.__getitem__)


def _projected(mine: Shown | None, theirs: Shown | None) -> Row:
    if mine is None or theirs is None:
        return Row("+" if mine is None else "-", () if mine is None else (mine,), () if theirs is None else (theirs,))
    return Row("=" if mine.json == theirs.json else "~", (mine,), (theirs,))


# -- the prefix cache ---------------------------------------------------------------------------------------------


def _break(left: Context, right: Context) -> Break | None:
    mine, theirs = prefix(left), prefix(right)
    kept = 0
    for place, part in enumerate(mine):
        other = theirs[place] if place < len(theirs) else None
        if other != part:
            same = 0 if other is None else _common(part.data, other.data) if other.name == part.name else 0
            lost = sum(len(one.data) for one in mine[place:] if one.name != "model") - same
            name = part.name if other is None else _earlier(part, other)
            return Break(kept + same, kept + same, lost, name, *_culprit(left, right, name))
        kept += 0 if part.name == "model" else len(part.data)
    return None


def _earlier(one: Part, other: Part) -> str:
    """Which of two parts comes first in a prompt."""
    return min(one.name, other.name, key=("model", "tools", "system", "messages").index)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common at their beginnings."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _culprit(left: Context, right: Context, part: str) -> tuple[AnyEvent | None, str]:
    """The event that made the difference, and what it did."""
    if part != "messages":
        event = None if right.header_seq is None else right.session.event(right.header_seq)
        return event, f"the request header changed its {part}"
    for one, other in zip(left.events, right.events, strict=False):
        if one.seq != other.seq:
            return _replaced(left, right, other)
    if len(right.events) < len(left.events):
        return _replaced(left, right, left.events[len(right.events)])
    return None, "the same messages are sent in another way: a fix-up had to change them while their calls were open"


def _replaced(left: Context, right: Context, event: AnyEvent) -> tuple[AnyEvent | None, str]:
    """The replace between both requests that stands at, or took away, a message."""
    session = right.session
    if isinstance(event.surface_op, Replace) and event.seq >= min(left.at, right.at):
        start, end = event.surface_op.start, event.surface_op.end
        return event, f"{event.type} took the place of @{start}" + (f" to @{end}" if end != start else "")
    taken = session.replaced_by(event.seq)
    if taken is not None:
        by = session.event(taken)
        assert by.surface_op is not UNSET
        return by, f"{by.type} took the place of @{event.seq}"
    return event, f"{event.type} is in only one of them"
