"""Renumbering: a log made anew from the events of another, with every reference following its event.

An event refers to others by seq: in ``sourceEventSeqs``, in a replace, and inside the data of a few types. When an
event is dropped or moved, all later seqs change, and each reference either follows or is taken out and said so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Raw

from turnlog.events import Vocabulary
from turnlog.events.lenient import parse
from turnlog.events.lossless import MAX_SAFE
from turnlog.log import AnyEvent, Replace, SurfaceError
from turnlog.log.event import SURFACE_TYPES, event_class
from turnlog.log.surface import Surface, check_rewrite

from .formats.v4 import joined, members

Reference: TypeAlias = Literal["seq", "seqs", "range", "up to"]

_SHADOWED: Final[Mapping[str, Reference]] = {"shadowedRange": "range", "shadowedSeqs": "seqs"}
REFERENCES: Final[Mapping[str, Mapping[str, Reference]]] = {
    "command/done": {"sourceEventSeq": "seq"},
    "compact/prune": _SHADOWED,
    "compact/summary": _SHADOWED,
    "compaction/prune": _SHADOWED,
    "compaction/summary": _SHADOWED,
    "session/title": {"messageSeqs": "seqs"},
    "session/title-llm-request": {"messageSeqs": "seqs"},
    "session-log-deepseek/delivery-accepted": {"throughSeq": "up to"},
}
"""Members of an event's data that are seqs of the same log (dsh-formats §8)."""


class Draft(NamedTuple):
    """An event on its way into another log; its references are still those of the old one."""

    old: int | None
    """Its seq in the old log; None for an event that the old log does not have."""
    type: str
    time: int
    raw: bytes
    op: Replace | Literal["append"] | None = None
    sources: tuple[int, ...] | None = None
    cites: int | None = None
    """Instead of *sources*: it cites so many drafts right before it."""
    ignorable: bool = False

    @classmethod
    def of(cls, event: AnyEvent, **changed: Any) -> Draft:
        """An event as it is, or with some of it *changed*."""
        op = None if event.surface_op is UNSET else event.surface_op
        as_is = cls(event.seq, event.type, event.time, event.raw, op, event.sources, None, event.ignorable)
        return as_is._replace(**changed)


class Remark(NamedTuple):
    """What could not be carried over as it was."""

    code: str
    text: str
    seq: int | None
    """In the old log."""


class Rebuild:
    """A format-0 log that is being made anew, event by event in order."""

    def __init__(self, session_id: str) -> None:
        self._id = session_id
        self._kind = event_class(Vocabulary.core.codec)
        self._surface = Surface()
        self.events: list[AnyEvent] = []
        self.numbers: dict[int, int] = {}
        """Old seq → new seq of what was added so far. A later event with the same old seq takes it over."""
        self.remarks: list[Remark] = []

    def add(self, draft: Draft) -> AnyEvent | None:
        """Take in an event; None when it has no place in the new log, which a remark then says."""
        seq = len(self.events)
        raw = self._referring(draft)
        placed = self._place(draft, seq, raw)
        if placed is None:
            return None
        op, sources = placed
        ignorable: Any = True if draft.ignorable else UNSET
        event = self._kind(draft.type, seq, self._time(draft), Raw(raw), op, sources, ignorable)
        self.events.append(event)
        if draft.old is not None:
            self.numbers[draft.old] = seq
        return event

    def length_at(self, old: int) -> int:
        """How many events there are before what was at *old*."""
        following = self._from(old)
        return len(self.events) if following is None else following

    def _remark(self, code: str, draft: Draft, text: str) -> None:
        self.remarks.append(Remark(code, text, draft.old))

    def _time(self, draft: Draft) -> int:
        if abs(draft.time) <= MAX_SAFE:
            return draft.time
        time = self.events[-1].time if self.events else 0
        self._remark("time", draft, f"its time {draft.time} is beyond what other readers hold; it has {time} now")
        return time

    # -- references inside data ---------------------------------------------------------------------------------

    def _referring(self, draft: Draft) -> bytes:
        """The data with its references renumbered; the same bytes where none changes."""
        table = REFERENCES.get(draft.type)
        if table is None:
            return draft.raw
        try:
            data: dict[str, Any] = dict(members(draft.raw))
        except (ValueError, TypeError):
            return draft.raw
        if "throughSeq" in data and _value(data.get("sessionId")) != self._id:
            return draft.raw  # it speaks of the log of another session
        changed = False
        for name in table.keys() & data.keys():
            old = _value(data[name])
            new = self._reference(table[name], old)
            if new == old:
                continue
            changed = True
            if new is None:
                del data[name]
            else:
                data[name] = new
            if new is None or (isinstance(new, list) and len(new) < len(old)):
                self._remark("reference", draft, f"its {name} named events that are not here; they were taken out")
        return joined(data) if changed else draft.raw

    def _reference(self, kind: Reference, old: Any) -> Any:
        match kind, old:
            case "seq", int():
                return self.numbers.get(old)
            case "seqs", list():
                return [self.numbers[one] for one in old if type(one) is int and one in self.numbers]
            case "range", {"start": int(start), "end": int(end)}:
                first, last = self._from(start), self._to(end)
                return {**old, "start": first, "end": last} if None not in (first, last) else None
            case "up to", int():
                return self._to(old)
            case _:
                return old

    def _from(self, old: int) -> int | None:
        known = sorted(self.numbers)
        at = bisect_left(known, old)
        return self.numbers[known[at]] if at < len(known) else None

    def _to(self, old: int) -> int | None:
        known = sorted(self.numbers)
        at = bisect_right(known, old)
        return self.numbers[known[at - 1]] if at else None

    # -- the surface --------------------------------------------------------------------------------------------

    def _place(self, draft: Draft, seq: int, raw: bytes) -> tuple[Any, Any] | None:
        """Surface operation and sources in the new log, or None for an event that has no place there."""
        if draft.type not in SURFACE_TYPES:
            if draft.op is not None or draft.sources is not None:
                self._remark("surface", draft, "it is log-only: its surfaceOp or sourceEventSeqs were taken off")
            return UNSET, UNSET
        cited = self._cited(draft, seq)
        if draft.op is None:
            self._remark("surface", draft, "it had no readable surfaceOp; it is appended")
        if not isinstance(draft.op, Replace):
            self._surface.append(seq)
            return "append", UNSET if cited is None else cited
        return self._replace(draft, draft.op, seq, raw, cited)

    def _cited(self, draft: Draft, seq: int) -> tuple[int, ...] | None:
        if draft.cites is not None:
            return tuple(range(seq - draft.cites, seq))
        if draft.sources is None:
            return None
        found = (self.numbers.get(old) for old in draft.sources)
        cited = tuple(dict.fromkeys(new for new in found if new is not None))
        unique = len(set(draft.sources))
        if len(cited) < unique:
            self._remark("sources", draft, f"{unique - len(cited)} of the {unique} events it cited are not here")
        empty = draft.type == "assistant/message" and not draft.sources
        return cited if cited or empty else None

    def _replace(
        self, draft: Draft, op: Replace, seq: int, raw: bytes, cited: tuple[int, ...] | None
    ) -> tuple[Any, Any] | None:
        span = self._span(op, cited or ())
        if span is None:
            self._remark("replace", draft, "nothing of what it took the place of is here; it is appended")
            self._surface.append(seq)
            return "append", UNSET if cited is None else cited
        start, end = span
        new = Replace("replace", start, end)
        plan, shadowed = self._surface.plan_replace(seq, new)
        if draft.type == "tool/result":
            old = self.events[shadowed[0]]
            try:
                check_rewrite(seq, shadowed, old, raw)
            except SurfaceError as error:
                self._remark("left-out", draft, f"{draft.type} was left out: {error}")
                return None
        missing = tuple(node for node in shadowed if node not in (cited or ()))
        if missing:
            self._remark("sources", draft, f"it replaced {len(missing)} events that it did not cite; it cites them now")
        self._surface.apply(plan)
        return new, (*(cited or ()), *missing)

    def _span(self, op: Replace, cited: Sequence[int]) -> tuple[int, int] | None:
        """What a replace spans now: the same events, or those that are left of what it cites."""
        start, end = self.numbers.get(op.start), self.numbers.get(op.end)
        if start is not None and end is not None:
            try:
                self._surface.plan_replace(len(self.events), Replace("replace", start, end))
            except SurfaceError:
                pass
            else:
                return start, end
        nodes = self._surface.nodes
        known = set(cited)
        left = [position for position, node in enumerate(nodes) if node in known]
        if not left or left[-1] - left[0] >= len(left):
            return None
        return nodes[left[0]], nodes[left[-1]]


def _value(stored: Any) -> Any:
    """The value of a member."""
    try:
        return parse(bytes(stored)) if isinstance(stored, Raw) else stored
    except ValueError:
        return None


def runs(numbers: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """A map of seqs as runs: (old, new, how many)."""
    found: list[tuple[int, int, int]] = []
    for old, new in sorted(numbers.items()):
        if found:
            first, at, count = found[-1]
            if (old, new) == (first + count, at + count):
                found[-1] = (first, at, count + 1)
                continue
        found.append((old, new, 1))
    return found
