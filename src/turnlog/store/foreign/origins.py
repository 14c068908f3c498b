"""Where each event of a foreign session comes from: line, the program's own id, and what was inferred."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from .dialect import Dialect


class Remark(NamedTuple):
    """One thing about the mapping that a reader of the events should know."""

    code: str
    """Stable: ``inferred-boundaries``, ``sidechains``, …"""
    text: str
    number: int
    """How many."""
    seq: int
    """Where first."""
    lost: bool = True
    """Whether something of the file cannot be told from the typed events alone."""


@dataclass
class Origins:
    """The way back from events to the file."""

    dialect: Dialect
    _lines: array[int] = field(default_factory=lambda: array("q"))
    _more: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _ids: dict[int, str] = field(default_factory=dict)
    _inferred: dict[int, int] = field(default_factory=dict)
    _remarks: dict[str, tuple[str, int, int, bool]] = field(default_factory=dict)

    # -- asking -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._lines)

    def lines(self, seq: int) -> tuple[int, ...]:
        """The lines (from 1) that event *seq* was made of; of an inferred one, the line that led to it. Raises
        ``IndexError`` for a seq that the session does not have."""
        if seq < 0:
            raise IndexError(f"no event @{seq}")
        return self._more.get(seq) or (self._lines[seq],)

    def id(self, seq: int) -> str | None:
        """The id that the program gave the record: ``uuid``, item id or the like."""
        return self._ids.get(seq)

    def is_inferred(self, seq: int) -> bool:
        """Whether no record says this: a boundary, or a call's start that only its block in the answer tells."""
        return seq in self._inferred

    @property
    def inferred(self) -> int:
        """How many events no record says."""
        return len(self._inferred)

    @property
    def first_inferred(self) -> int | None:
        """The seq of the first of them, or None."""
        return next(iter(self._inferred), None)

    @property
    def last_line(self) -> int:
        """The last line that an event came from; 0 without events."""
        return max(self._lines, default=0)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the mapping inferred, left aside or could not tell, by code."""
        return tuple(Remark(code, *rest) for code, rest in sorted(self._remarks.items()))

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Which events are of which lines: (first seq, line, how many events)."""
        start = 0
        for line, run in groupby(self._lines):
            count = sum(1 for _ in run)
            yield start, line, count
            start += count

    # -- noting, while a file is read ----------------------------------------------------------------------------

    def add(self, lines: tuple[int, ...], id: str | None, *, inferred: bool) -> None:
        """Note where the next event comes from."""
        seq = len(self._lines)
        self._lines.append(lines[0])
        if len(lines) > 1:
            self._more[seq] = lines
        if id is not None:
            self._ids[seq] = id
        if inferred:
            self._inferred[seq] = lines[0]

    def remark(self, code: str, text: str, seq: int, *, number: int = 1, lost: bool = True) -> None:
        """Count one more of what *code* names; the first text and seq stay."""
        known = self._remarks.get(code)
        if known is None:
            self._remarks[code] = (text, number, seq, lost)
        else:
            self._remarks[code] = (known[0], known[1] + number, known[2], known[3])
