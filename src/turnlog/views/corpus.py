"""Sessions beside each other: which there are, which are wanted, and which came of which (dsh-v0 §8.1-8.3).

Nothing is read here: sessions are told by their headers, whoever has them. A session that is live and stored is one
record, and its live header counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from turnlog.log import SessionHeader

from .bounds import Between
from .query_errors import FilterInvalid, LineageInvalid, SessionUnknown, SourceConflict

Availability: TypeAlias = Literal["live", "persisted"]
AVAILABILITIES: Final[tuple[Availability, ...]] = ("live", "persisted")


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session."""

    header: SessionHeader
    live: bool
    """Whether a program has it open for writing."""
    persisted: bool
    """Whether it is stored; both may hold."""

    @property
    def id(self) -> str:
        """Its id."""
        return self.header.id


def session_records(
    live: Iterable[SessionHeader] = (), persisted: Iterable[SessionHeader] = ()
) -> tuple[SessionRecord, ...]:
    """Every session once, the newest first, then by id.

    Raises :class:`SourceConflict` when two headers of one id differ in any field.
    """
    known: dict[str, SessionRecord] = {}
    for headers, is_live in ((live, True), (persisted, False)):
        for header in headers:
            before = known.get(header.id)
            if before is not None:
                _check_same(before.header, header)
            was_live, was_stored = (False, False) if before is None else (before.live, before.persisted)
            kept = header if before is None else before.header
            known[header.id] = SessionRecord(kept, was_live or is_live, was_stored or not is_live)
    return tuple(sorted(known.values(), key=lambda one: (-one.header.created_at, one.id)))


def _check_same(one: SessionHeader, other: SessionHeader) -> None:
    for name in one.__struct_fields__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine != theirs:
            raise SourceConflict(
                f"session {one.id} has two headers that differ: {name} is {mine!r} and {theirs!r}; "
                "they are two sessions with one id, ask each by its file"
            )


def filter_sessions(
    records: Iterable[SessionRecord],
    *,
    ids: Collection[str] | None = None,
    cwds: Collection[str | None] | None = None,
    created: Sequence[Between] | None = None,
    parents: Collection[str | None] | None = None,
    availability: Collection[Availability] | None = None,
) -> tuple[SessionRecord, ...]:
    """The records that fulfil all conditions, in their order; the values of one condition are *or*.

    *cwds*: None stands for a session without one. *created*: epoch ms. *parents*: None stands for a session without a
    parent. An empty condition is fulfilled by nothing. Raises :class:`FilterInvalid`.
    """
    for name, values in (("ids", ids), ("cwds", cwds), ("parents", parents), ("availability", availability)):
        if isinstance(values, str):
            raise FilterInvalid(f"{name} is the text {values!r}; give a list of values")
    for value in availability or ():
        if value not in AVAILABILITIES:
            raise FilterInvalid(f"availability is one of {', '.join(AVAILABILITIES)}, not {value!r}")
    return tuple(
        one
        for one in records
        if (ids is None or one.id in ids)
        and (cwds is None or one.header.cwd in cwds)
        and (created is None or any(one.header.created_at in span for span in created))
        and (parents is None or one.header.parent_session in parents)
        and (availability is None or (one.live and "live" in availability)
             or (one.persisted and "persisted" in availability))
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Branch:
    """A session and what was forked from it."""

    record: SessionRecord
    children: tuple[Branch, ...]
    """By creation, then by id."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """What :func:`lineage` gives."""

    target: SessionRecord
    ancestors: tuple[SessionRecord, ...]
    """Its parent, that one's parent, …"""
    descendants: tuple[Branch, ...]
    """Its forks and theirs, by creation, then by id."""
    unresolved_parent: str | None
    """The id of a parent that is not there; None when the lineage is complete."""

    @property
    def is_complete(self) -> bool:
        """Whether every ancestor is there."""
        return self.unresolved_parent is None

    @property
    def root(self) -> SessionRecord | None:
        """The session that all of it began with; None when that is not there."""
        return (self.ancestors[-1] if self.ancestors else self.target) if self.is_complete else None


def lineage(session_id: str, records: Iterable[SessionRecord]) -> Lineage:
    """Where a session comes from, and what came of it.

    Raises :class:`SessionUnknown`, and :class:`LineageInvalid` when its ancestors go in a circle. Nothing recurses: a
    chain of forks may be as long as it likes.
    """
    known = {one.id: one for one in records}
    target = known.get(session_id)
    if target is None:
        raise SessionUnknown(f"no session {session_id!r} is among the {len(known)} that were given")
    ancestors: list[SessionRecord] = []
    seen = {target.id}
    parent = target.header.parent_session
    while parent is not None and parent in known:
        if parent in seen:  # a session has one parent, so every circle near the target goes through its ancestors
            circle = " ← ".join([target.id, *(one.id for one in ancestors), parent])
            raise LineageInvalid(f"sessions are each other's ancestors: {circle}; one of their headers is wrong")
        seen.add(parent)
        ancestors.append(known[parent])
        parent = known[parent].header.parent_session
    return Lineage(target, tuple(ancestors), _children(target, known.values()), parent)


def _children(target: SessionRecord, records: Collection[SessionRecord]) -> tuple[Branch, ...]:
    by_parent: dict[str, list[SessionRecord]] = {}
    for one in sorted(records, key=lambda one: (one.header.created_at, one.id)):
        if one.header.parent_session is not None:
            by_parent.setdefault(one.header.parent_session, []).append(one)
    order = [target]
    for one in order:  # grows while it is walked: parents before their children
        order += by_parent.get(one.id, ())
    made: dict[str, tuple[Branch, ...]] = {}
    for one in reversed(order):
        made[one.id] = tuple(Branch(child, made[child.id]) for child in by_parent.get(one.id, ()))
    return made[target.id]
