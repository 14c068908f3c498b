"""`Between`: an inclusive range of seqs or of times, as a condition."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from .query_errors import FilterInvalid


@dataclass(frozen=True, slots=True)
class Between:
    """From *first* to *last*, both included; None leaves that end open. Seqs, or times in epoch ms."""

    first: float | None = None
    last: float | None = None

    def __post_init__(self) -> None:
        for name, edge in (("first", self.first), ("last", self.last)):
            if edge is not None and (isinstance(edge, bool) or not isinstance(edge, int | float) or not isfinite(edge)):
                raise FilterInvalid(f"{name} of a range is {edge!r}; it has to be a finite number, or None for no end")
        if self.first is not None and self.last is not None and self.first > self.last:
            raise FilterInvalid(f"a range from {self.first} to {self.last} holds nothing; swap its ends")

    def __contains__(self, value: float) -> bool:
        return (self.first is None or value >= self.first) and (self.last is None or value <= self.last)
