"""The surface: which events the model sees now, and saw after any number of events.

Append events are *leaves*. A replace shadows a span of nodes and stands for their leaves, so the history of the
surface is a forest over the leaves: ``parent[node]`` is the replacement that shadowed it, ``span[node]`` the leaves it
stands for. Appending costs O(1); the surface at any length is found by walking the leaves and climbing to the node
that stood there then, at a cost proportional to the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .errors import SurfaceError
from .event import Replace

if TYPE_CHECKING:
    from .event import AnyEvent


class Splice(NamedTuple):
    """One replace, as the projections need it."""

    leaves: int
    """How many leaves there were."""
    first: int
    last: int
    """Inclusive range of node positions it took the place of."""
    seq: int


class Plan(NamedTuple):
    """A checked operation that has not been applied."""

    seq: int
    span: tuple[int, int] | None = None
    first: int = 0
    last: int = 0


class Surface:
    """Ordered nodes (event seqs) with their replacement history."""

    def __init__(self) -> None:
        self._leaves: list[int] = []
        self._nodes: list[int] = self._leaves  # the same list until the first replace
        self._span: dict[int, tuple[int, int]] = {}
        self._parent: dict[int, int] = {}
        self.splices: Final[list[Splice]] = []
        """Every replace so far; its length is dsh's ``replaceGeneration``."""

    @property
    def nodes(self) -> Sequence[int]:
        """Seqs of the events on the surface, in order. Internal list: do not change or keep it."""
        return self._nodes

    @property
    def leaves(self) -> Sequence[int]:
        """Seqs of all append events, in order. Internal list: do not change or keep it."""
        return self._leaves

    @property
    def generation(self) -> int:
        """How many replaces there were."""
        return len(self.splices)

    def append(self, seq: int) -> None:
        """A checked append event joins at the end."""
        if self._nodes is not self._leaves:
            self._nodes.append(seq)
        self._leaves.append(seq)

    def extend(self, seqs: Sequence[int]) -> None:
        """Checked append events join at the end, in order."""
        if self._nodes is not self._leaves:
            self._nodes.extend(seqs)
        self._leaves.extend(seqs)

    def plan_replace(self, seq: int, op: Replace) -> tuple[Plan, list[int]]:
        """Check a replace range; gives the plan and the nodes it would shadow. Changes nothing."""
        first = self._position(op.start)
        if first is None:
            raise SurfaceError(
                "replace-start", f"replace start @{op.start} is not on the surface; {self._hint(op.start)}"
            )
        last = self._position(op.end)
        if last is None:
            raise SurfaceError("replace-end", f"replace end @{op.end} is not on the surface; {self._hint(op.end)}")
        if first > last:
            raise SurfaceError(
                "replace-order", f"replace start @{op.start} comes after its end @{op.end} on the surface; swap them"
            )
        span = (self._leaf_span(op.start)[0], self._leaf_span(op.end)[1])
        return Plan(seq, span, first, last), self._nodes[first : last + 1]

    def apply(self, plan: Plan) -> None:
        """Carry out a plan."""
        if plan.span is None:
            self.append(plan.seq)
            return
        if self._nodes is self._leaves:
            self._nodes = self._leaves.copy()
        for shadowed in self._nodes[plan.first : plan.last + 1]:
            self._parent[shadowed] = plan.seq
        self._span[plan.seq] = plan.span
        self._nodes[plan.first : plan.last + 1] = [plan.seq]
        self.splices.append(Splice(len(self._leaves), plan.first, plan.last, plan.seq))

    def at(self, length: int) -> list[int]:
        """The nodes when the log held its first *length* events, at a cost proportional to their number."""
        found = []
        leaf, stop = 0, bisect_left(self._leaves, length)
        parent, span, leaves = self._parent, self._span, self._leaves
        if not parent:
            return leaves[:stop]
        while leaf < stop:
            node = leaves[leaf]
            while (above := parent.get(node)) is not None and above < length:
                node = above
            found.append(node)
            leaf = span[node][1] if node in span else leaf + 1
        return found

    def replaced_by(self, seq: int) -> int | None:
        """The event that shadowed *seq*, or None."""
        return self._parent.get(seq)

    def __contains__(self, seq: int) -> bool:
        return self._position(seq) is not None

    def _position(self, seq: int) -> int | None:
        low = self._leaf_span(seq)[0]
        if low < 0:
            return None
        if self._nodes is self._leaves:
            return low
        position = bisect_left(self._nodes, low, key=self._first_leaf)
        found = position < len(self._nodes) and self._nodes[position] == seq
        return position if found else None

    def _leaf_span(self, seq: int) -> tuple[int, int]:
        known = self._span.get(seq)
        if known is not None:
            return known
        leaf = bisect_left(self._leaves, seq)
        exists = leaf < len(self._leaves) and self._leaves[leaf] == seq
        return (leaf, leaf + 1) if exists else (-1, -1)

    def _first_leaf(self, seq: int) -> int:
        return self._leaf_span(seq)[0]

    def _hint(self, seq: int) -> str:
        by = self.replaced_by(seq)
        return f"it was replaced by @{by}" if by is not None else "only surface events that are still visible qualify"


kind_of: Final = type
"""The builtin, where a parameter is called ``type``."""


def check_sources(seq: int, type: str, sources: Sequence[int]) -> None:
    """The rules of a source list (dsh-v0 §2.5): non-empty unless an assistant message's, unique, earlier."""
    if not sources:
        if type != "assistant/message":
            raise SurfaceError(
                "sources-empty",
                f"{type} @{seq}: an empty source list means a known empty stream, which "
                "only an assistant message can have; leave it out when the sources are unknown",
            )
        return
    if set(map(kind_of, sources)) != {int} or min(sources) < 0:
        wrong = next(one for one in sources if kind_of(one) is not int or one < 0)
        raise SurfaceError("sources-type", f"{type} @{seq}: source {wrong!r} is no seq; cite events by seq")
    if len(set(sources)) != len(sources):
        twice = sorted({one for one in sources if sources.count(one) > 1})[:5]
        raise SurfaceError(
            "sources-duplicate", f"{type} @{seq} cites {_list(twice)} more than once; cite each event once"
        )
    if max(sources) >= seq:
        later = [one for one in sources if one >= seq][:5]
        raise SurfaceError(
            "sources-later",
            f"{type} @{seq} cites {_list(later)}, which is not earlier; cite only events that were logged before",
        )


def check_shadowed(seq: int, shadowed: Sequence[int], sources: Sequence[int] | None) -> None:
    """A replace must cite every node that it shadows."""
    missing = sorted(set(shadowed).difference(sources or ()))
    if missing:
        raise SurfaceError(
            "sources-shadowed",
            f"@{seq} replaces {_list(missing[:5])} without citing "
            f"{'it' if len(missing) == 1 else 'them'}; add the replaced seqs to the sources",
        )


def check_rewrite(seq: int, shadowed: Sequence[int], old: AnyEvent, new: bytes) -> None:
    """A tool result with the data *new* may replace one tool result *old* and change nothing but its content.

    The shape is no part of that: a result stored in an older shape may be rewritten in today's.
    """
    if len(shadowed) != 1 or old.type != "tool/result":
        raise SurfaceError(
            "tool-result-rewrite",
            f"tool/result @{seq} replaces {_list(list(shadowed)[:5])}; a tool "
            "result may only replace one other tool result",
        )
    try:
        same = _same_json(_blanked(old._rewritten()), _blanked(old._rewritten(new)))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SurfaceError(
            "tool-result-rewrite", f"@{seq} or @{shadowed[0]} does not have the shape of a tool result"
        ) from None
    if not same:
        raise SurfaceError(
            "tool-result-rewrite",
            f"tool/result @{seq} changes more than the content of @{shadowed[0]}; "
            "turn, step, ids, isError, error and meta must stay",
        )


def _blanked(data: Any) -> Any:
    """A tool result's data with the content of its block removed (the message's own content in format 4)."""
    message = dict(data["message"])
    content = message.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict) and "content" in content[0]:
        message["content"] = [{**content[0], "content": None}, *content[1:]]
    elif message.get("role") == "tool":
        message["content"] = None
    return {**data, "message": message}


def _same_json(left: Any, right: Any) -> bool:
    """Structural equality of JSON: to Python true is 1, to JSON it is not."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same_json(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same_json, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _list(seqs: Sequence[int]) -> str:
    return ", ".join(f"@{seq}" for seq in seqs)
