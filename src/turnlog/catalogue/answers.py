"""What the index answers without opening a log: turns, calls by id, who cites what."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple


class IndexedTurn(NamedTuple):
    """One turn of a session."""

    turn: int
    first: int
    """Seq of its ``turn/start``."""
    last: int | None
    """Seq of its ``turn/end``; None where it has none."""
    began_ms: int
    ended_ms: int | None
    end: str
    """How it ended; ``open`` if it did not."""


class IndexedCall(NamedTuple):
    """One tool call of a session."""

    id: str
    name: str
    """The tool's name."""
    turn: int
    step: int
    seq: int
    """Of its ``tool/call``; of what asked for it, where it never began."""
    result: int | None
    """Seq of its ``tool/result``."""

    @property
    def address(self) -> str:
        """``t3.s2.call:ID``"""
        return f"t{self.turn}.s{self.step}.call:{self.id}"


class CitedRun(NamedTuple):
    """Consecutive seqs that one event cites."""

    first: int
    last: int
    by: int


def turns(connection: sqlite3.Connection, number: int) -> list[IndexedTurn]:
    """The turns of a session, in order."""
    rows = connection.execute(
        "SELECT turn, first, last, began, ended, end FROM turns WHERE session = ? ORDER BY first", (number,)
    )
    return [IndexedTurn(*row) for row in rows]


def calls(connection: sqlite3.Connection, number: int, id: str | None = None) -> list[IndexedCall]:
    """The calls of a session, in order; only those with *id*, if one is given."""
    rows = connection.execute(
        "SELECT id, name, turn, step, seq, result FROM calls WHERE session = ? AND (? IS NULL OR id = ?) "
        "ORDER BY seq, place",
        (number, id, id),
    )
    return [IndexedCall(*row) for row in rows]


def cited(connection: sqlite3.Connection, number: int, seq: int | None = None) -> list[CitedRun]:
    """What events of a session cite, in order; only what holds *seq*, if one is given."""
    rows = connection.execute(
        "SELECT first, last, by FROM sources WHERE session = ? AND (? IS NULL OR ? BETWEEN first AND last) "
        "ORDER BY by, first",
        (number, seq, seq),
    )
    return [CitedRun(*row) for row in rows]
