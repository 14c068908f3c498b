"""Whether what clients of a log saw can be explained by one order of their operations.

For a log that is only appended to at an expected end this needs no search: the lines that were accepted say in which
order the appends took place. What is left to check is that nothing is lost or doubled, that an operation that ended
before another began comes before it, and that nobody was refused without a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal


@dataclass(frozen=True)
class Operation:
    """What a client did, from *began* to *ended* (one clock for all)."""

    client: int
    kind: Literal["append", "read", "take", "release"]
    began: int
    ended: int
    expected: int = 0
    """append: the end it was for."""
    lines: tuple[str, ...] = ()
    """append: what it added; read: what there was."""
    accepted: bool = True
    """append, take: whether the store did it."""


@dataclass
class _Chain:
    """The appends that were accepted, in the only order that they can have."""

    appends: list[Operation] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def at_least(self, moment: int) -> int:
        """How many lines there must be at *moment*."""
        return max((one.expected + len(one.lines) for one in self.appends if one.ended < moment), default=0)

    def at_most(self, moment: int) -> int:
        """How many lines there can be."""
        return max((one.expected + len(one.lines) for one in self.appends if one.began < moment), default=0)


def explained(history: Sequence[Operation]) -> str | None:
    """None if there is an order that explains the history; else why there is none."""
    chain = _Chain()
    for one in sorted(_accepted(history, "append"), key=lambda one: one.expected):
        if one.expected != len(chain.lines):
            return f"{one} was accepted at the end {one.expected}, which the log of {len(chain.lines)} lines never had"
        chain.appends.append(one)
        chain.lines += one.lines
    return (
        _order(chain)
        or next(filter(None, (_read(chain, one) for one in _accepted(history, "read"))), None)
        or _reads_in_order(history)
        or next(filter(None, (_refusal(chain, one) for one in history)), None)
        or _holders(history)
    )


def _accepted(history: Sequence[Operation], kind: str) -> list[Operation]:
    return [one for one in history if one.kind == kind and one.accepted and (kind != "append" or one.lines)]


def _order(chain: _Chain) -> str | None:
    latest = 0
    for one in chain.appends:
        if one.ended < latest:
            return f"{one} ended before an append began that it builds on"
        latest = max(latest, one.began)
    return None


def _read(chain: _Chain, read: Operation) -> str | None:
    length = len(read.lines)
    if list(read.lines) != chain.lines[:length]:
        return f"{read} is no prefix of what was accepted"
    if length < chain.at_least(read.began):
        return f"{read} misses lines that were accepted before it began"
    if length > chain.at_most(read.ended):
        return f"{read} has lines of appends that began after it ended"
    return None


def _reads_in_order(history: Sequence[Operation]) -> str | None:
    reads = sorted(_accepted(history, "read"), key=lambda one: one.ended)
    for later in reads:
        before = max((len(one.lines) for one in reads if one.ended < later.began), default=0)
        if len(later.lines) < before:
            return f"{later} saw less than a read that ended before it began"
    return None


def _refusal(chain: _Chain, one: Operation) -> str | None:
    if one.kind != "append" or one.accepted:
        return None
    if chain.at_least(one.began) == one.expected == chain.at_most(one.ended):
        return f"{one} was refused at the end that the log had all the time"
    return None


def _holders(history: Sequence[Operation]) -> str | None:
    """From a take that was accepted to the release, nobody else is let in."""
    spans: list[tuple[int, int, int]] = []
    for client in {one.client for one in history}:
        own = sorted((one for one in history if one.client == client), key=lambda one: one.began)
        taken: Operation | None = None
        for one in own:
            if one.kind == "take" and one.accepted:
                taken = one
            elif one.kind == "release" and taken is not None:
                spans.append((taken.ended, one.began, client))
                taken = None
    for first, second in pairwise(sorted(spans)):
        if second[0] < first[1]:
            return f"clients {first[2]} and {second[2]} both held the session at {second[0]}"
    return None
