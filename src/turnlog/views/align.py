"""Aligning two sequences: what both have, in order, and what only one of them has.

What both begin and end with is cut off first; what is rare on both sides then anchors the rest (patience), so that two
long sequences that differ here and there cost little more than reading them. What lies between two anchors is aligned
by the longest common subsequence while it is short.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

Pair: TypeAlias = tuple[int | None, int | None]
"""Places left and right; None where only one side has something."""

_SHORT: Final = 250_000
"""Most pairs that are worth looking at one by one."""


def align(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Pair]:
    """Pairs in order. Equal elements stand side by side; between them what only the left has comes first."""
    pairs: list[Pair] = []
    at, other = 0, 0
    for one, two in (*_matches(left, right, 0, len(left), 0, len(right)), (len(left), len(right))):
        pairs += [(place, None) for place in range(at, one)]
        pairs += [(None, place) for place in range(other, two)]
        pairs.append((one, two))
        at, other = one + 1, two + 1
    return pairs[:-1]


def gaps(pairs: Sequence[Pair]) -> Iterator[tuple[list[int], list[int]] | tuple[int, int]]:
    """The same, with what stands between two matches together: (places only left, places only right)."""
    lefts: list[int] = []
    rights: list[int] = []
    for one, other in pairs:
        if one is not None and other is not None:
            if lefts or rights:
                yield lefts, rights
                lefts, rights = [], []
            yield one, other
        elif one is not None:
            lefts.append(one)
        elif other is not None:
            rights.append(other)
    if lefts or rights:
        yield lefts, rights


def _matches(
    left: Sequence[Hashable], right: Sequence[Hashable], low: int, high: int, other: int, end: int
) -> Iterator[tuple[int, int]]:
    while low < high and other < end and left[low] == right[other]:
        yield low, other
        low, other = low + 1, other + 1
    tail = 0
    while low < high - tail and other < end - tail and left[high - tail - 1] == right[end - tail - 1]:
        tail += 1
    yield from _between(left, right, low, high - tail, other, end - tail)
    yield from zip(range(high - tail, high), range(end - tail, end), strict=True)


def _between(
    left: Sequence[Hashable], right: Sequence[Hashable], low: int, high: int, other: int, end: int
) -> Iterator[tuple[int, int]]:
    """What matches where both ends differ."""
    if low == high or other == end:
        return
    anchors = _anchors(left, right, low, high, other, end)
    if anchors:
        for one, two in (*anchors, (high, end)):
            yield from _matches(left, right, low, one, other, two)
            if one < high:
                yield one, two
            low, other = one + 1, two + 1
    elif (high - low) * (end - other) <= _SHORT:
        matcher = SequenceMatcher(None, left[low:high], right[other:end], autojunk=False)
        for block in matcher.get_matching_blocks():
            for offset in range(block.size):
                yield low + block.a + offset, other + block.b + offset


def _anchors(
    left: Sequence[Hashable], right: Sequence[Hashable], low: int, high: int, other: int, end: int
) -> list[tuple[int, int]]:
    """What is there once on both sides, as far as it is in the same order: the longest such row."""
    mine, theirs = Counter(left[low:high]), Counter(right[other:end])
    where = {right[place]: place for place in range(other, end) if theirs[right[place]] == 1}
    both = [
        (place, where[left[place]]) for place in range(low, high) if mine[left[place]] == 1 and left[place] in where
    ]
    ends: list[int] = []  # of the best row of each length, the place on the right where it ends
    best: list[int] = []  # and which pair that is
    before: list[int | None] = []
    for index, (_place, there) in enumerate(both):
        rank = bisect_left(ends, there)
        before.append(best[rank - 1] if rank else None)
        ends[rank : rank + 1], best[rank : rank + 1] = [there], [index]
    row: list[tuple[int, int]] = []
    at = best[-1] if best else None
    while at is not None:
        row.append(both[at])
        at = before[at]
    return row[::-1]
