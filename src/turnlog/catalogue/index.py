"""`Catalogue`: the sessions under some roots, from an index that is brought up to date when it is opened."""

from __future__ import annotations

import gc
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from . import answers
from .database import TABLES, in_memory, open_database, transaction
from .places import index_path, is_live, price_stamp
from .record import Record, Rest, unpack, unpack_rest
from .tally import Totals
from .walk import Walked, walk

if TYPE_CHECKING:
    from turnlog.views.prices import PriceTable

    from .facts import Facts

Answer = TypeVar("Answer")

_BATCH_S: Final = 1.0
"""Seconds of reading whose results are written in one transaction; a killed builder loses no more than these."""
_BATCH: Final = 500
"""Sessions likewise."""


class Listed(NamedTuple):
    """One session directory and what is known of it."""

    root: Path
    key: str
    """``<project>/<directory>``"""
    record: Record
    problem: str
    """Why it cannot be read as it should be; nothing where it can."""
    trouble: str
    """Of which kind the problem is."""

    @property
    def directory(self) -> str:
        """The session directory."""
        return f"{self.root}/{self.key}"

    @property
    def path(self) -> str:
        """The log file of its newest generation."""
        return f"{self.root}/{self.key}/{self.record.file}"

    @property
    def totals(self) -> Totals:
        """What its log comes to."""
        return self.record.totals

    @property
    def live(self) -> bool:
        """Whether somebody writes to it right now; asked anew each time."""
        return self.record.locked and is_live(self.directory)


class Skip(NamedTuple):
    """What looks like a log and is no session."""

    path: str
    reason: str
    modified_ms: int


@dataclass
class Root:
    """One root, its index and what it holds."""

    path: Path
    connection: sqlite3.Connection
    kept: bool
    """Whether the index outlives the process."""
    records: dict[str, Record] = field(default_factory=dict)
    walked: Walked = field(default_factory=Walked)
    spill: sqlite3.Connection | None = None
    """Holds what could not be written to the index."""
    spilled: set[str] = field(default_factory=set)

    def tables(self, key: str) -> tuple[sqlite3.Connection, int]:
        """Where the tables of a session are, and its number there. Raises ``KeyError``."""
        there = self.spill if self.spill is not None and key in self.spilled else self.connection
        row = there.execute("SELECT number FROM sessions WHERE key = ?", (os.fsencode(key),)).fetchone()
        if row is None:
            raise KeyError(key)
        return there, row[0]


class Catalogue:
    """The sessions under *roots* as they are now.

    Opening it looks at every directory and reads what is new; the logs themselves are never changed. *say* is told what
    is unusual about the index, in a sentence; *progress* is told, while logs are read, how many of how many are.
    Use it as a context manager, or close it. It belongs to one thread.
    """

    def __init__(
        self,
        roots: Iterable[Path],
        *,
        say: Callable[[str], None] = lambda _text: None,
        progress: Callable[[int, int], None] = lambda _done, _of: None,
        keep: bool = True,
    ) -> None:
        """*keep* False reads every log and leaves no index behind. Never raises for what is on the disk."""
        self._say = say
        self.roots: Final[list[Root]] = []
        for path in roots:
            if keep:
                connection, kept = open_database(index_path(path), path, TABLES, say)
            else:
                connection, kept = in_memory(TABLES), False
            self.roots.append(Root(path, connection, kept))
        collecting = gc.isenabled()
        gc.disable()  # nothing here is garbage, and looking for it costs as much as the work
        try:
            for root in self.roots:
                self._refresh(root, progress)
        finally:
            if collecting:
                gc.enable()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index files."""
        for root in self.roots:
            root.connection.close()
            if root.spill is not None:
                root.spill.close()

    # -- asking -----------------------------------------------------------------------------------------------------

    def sessions(self) -> list[Listed]:
        """Every session, newest first, damaged ones included."""
        found = [
            Listed(root.path, key, record, record.problem, record.trouble)
            for root in self.roots
            for key in root.walked.keys
            if (record := root.records[key]).file
        ]
        places = _repeated(found)
        if places:
            found = [_marked(one, places) for one in found]
        found.sort(key=lambda one: (-one.record.created_ms, one.record.id))
        return _by_path(found)

    def skipped(self) -> list[Skip]:
        """What looks like a log and is in no place, or of no name, where sessions are read."""
        found: list[Skip] = []
        for root in self.roots:
            where = "<project>/<session>/session.jsonl"
            reason = f"a log in no directory of its own; sessions are in {where}"
            listed = [(path, Skip(path, reason, modified)) for path, modified in root.walked.flat]
            for key in root.walked.keys:
                record = root.records[key]
                if record.skipped:
                    path = f"{root.path}/{key}"
                    listed.append((path, Skip(path, record.skipped, record.skipped_ms)))
            found += [skip for _path, skip in sorted(listed, key=lambda one: _order(root.path, one[0]))]
        return found

    def header(self, session: Listed) -> bytes | None:
        """The session's header as JSON; None where it cannot be read."""
        return self._answer(session, _header) or None

    def turns(self, session: Listed) -> list[answers.IndexedTurn]:
        """The turns of a session, in order."""
        return self._answer(session, answers.turns)

    def calls(self, session: Listed, id: str | None = None) -> list[answers.IndexedCall]:
        """The calls of a session, in order; only those with *id*, if one is given."""
        return self._answer(session, lambda there, number: answers.calls(there, number, id))

    def calls_named(self, id: str) -> list[tuple[Listed, answers.IndexedCall]]:
        """The calls with an id, of all sessions, newest session first."""
        return [(one, call) for one in self.sessions() for call in self.calls(one, id)]

    def cited(self, session: Listed, seq: int | None = None) -> list[answers.CitedRun]:
        """What events of a session cite; only what holds *seq*, if one is given."""
        return self._answer(session, lambda there, number: answers.cited(there, number, seq))

    def _answer(self, session: Listed, ask: Callable[[sqlite3.Connection, int], Answer]) -> Answer:
        """Ask the tables; where they are gone meanwhile (deleted, made again, damaged), the log."""
        root = next(one for one in self.roots if one.path == session.root)
        try:
            return ask(*root.tables(session.key))
        except (sqlite3.Error, KeyError):
            pass
        from .costs import price_table
        from .facts import read_facts

        if root.spill is None:
            root.spill = in_memory(TABLES)
        _store(root.spill, session.key, read_facts(root.path / session.key, price_table(self._say)))
        root.spilled.add(session.key)
        return ask(*root.tables(session.key))

    # -- bringing it up to date -------------------------------------------------------------------------------------

    def _refresh(self, root: Root, progress: Callable[[int, int], None]) -> None:
        self._reprice(root)
        known = self._known(root)
        root.walked = walk(root.path, known)
        there = set(root.walked.keys)
        gone = [key for key in known if key not in there]
        root.records = known
        if root.walked.stale:
            self._read(root, progress)
        if gone:
            self._write(root, lambda connection: _forget(connection, gone))
            for key in gone:
                del root.records[key]

    def _reprice(self, root: Root) -> None:
        """Costs are by today's prices."""
        stamp = price_stamp()
        try:
            row = root.connection.execute("SELECT value FROM notes WHERE name = 'prices'").fetchone()
        except sqlite3.Error as error:
            self._lost(root, error)
            return
        if row is not None and row[0] == stamp:
            return

        def write(connection: sqlite3.Connection) -> None:
            if row is not None:
                from .costs import price_table, reprice

                reprice(connection, price_table(self._say))
            connection.execute("INSERT OR REPLACE INTO notes VALUES('prices', ?)", (stamp,))

        if not self._write(root, write) and row is not None:  # costs of other prices are worth nothing
            root.connection.close()
            root.connection, root.kept, root.spill = in_memory(TABLES), False, None

    def _known(self, root: Root) -> dict[str, Record]:
        known: dict[str, Record] = {}
        try:
            for key, data in root.connection.execute("SELECT key, record FROM sessions"):
                record = unpack(data)
                if record is not None and isinstance(key, bytes):
                    known[os.fsdecode(key)] = record
        except sqlite3.Error as error:
            self._lost(root, error)
            return {}
        return known

    def _read(self, root: Root, progress: Callable[[int, int], None]) -> None:
        from .costs import price_table
        from .facts import read_facts

        prices = price_table(self._say)
        batch: dict[str, Facts] = {}
        total = len(root.walked.stale)
        wrote = time.monotonic()
        for done, key in enumerate(root.walked.stale):
            progress(done, total)
            batch[key] = facts = read_facts(root.path / key, prices, self._pair(root, key))
            root.records[key] = facts.record
            if len(batch) >= _BATCH or time.monotonic() - wrote > _BATCH_S:
                self._save(root, batch, prices)
                batch, wrote = {}, time.monotonic()
        self._save(root, batch, prices)
        progress(total, total)

    def _pair(self, root: Root, key: str) -> tuple[Record, Rest] | None:
        """What is known of a session, as the index has it this moment."""
        try:
            row = root.connection.execute(
                "SELECT record, rest FROM sessions JOIN rests USING(number) WHERE key = ?", (os.fsencode(key),)
            ).fetchone()
        except sqlite3.Error:
            return None
        record, rest = (None, None) if row is None else (unpack(row[0]), unpack_rest(row[1]))
        return None if record is None or rest is None or record.run != rest.run else (record, rest)

    def _save(self, root: Root, batch: Mapping[str, Facts], prices: PriceTable) -> None:
        from .facts import read_facts

        again: list[str] = []

        def write(connection: sqlite3.Connection) -> None:
            again[:] = [key for key, facts in batch.items() if not _store(connection, key, facts)]

        written = self._write(root, write)
        if not written:
            again = [key for key, facts in batch.items() if facts.since or facts.only_checked]
        anew = {key: read_facts(root.path / key, prices) for key in again}
        root.records.update((key, facts.record) for key, facts in anew.items())
        if written:
            if anew:
                self._write(root, lambda connection: [_store(connection, key, facts) for key, facts in anew.items()])
            return
        if root.spill is None:
            root.spill = in_memory(TABLES)
        for key, facts in {**batch, **anew}.items():
            _store(root.spill, key, facts)
            root.spilled.add(key)

    def _write(self, root: Root, write: Callable[[sqlite3.Connection], object]) -> bool:
        """Write in one transaction; where that cannot be done, say so once and do without."""
        if root.spill is not None:
            return False
        try:
            with transaction(root.connection):
                write(root.connection)
        except sqlite3.Error as error:
            self._say(f"the index of {root.path} cannot be written ({error}); the logs are read without it")
            root.spill = in_memory(TABLES)
            return False
        return True

    def _lost(self, root: Root, error: sqlite3.Error) -> None:
        """The index turned out to be damaged while it was read."""
        from .database import discard, is_damage

        self._say(f"the index of {root.path} cannot be read ({error}); the logs are read without it")
        root.connection.close()
        if root.kept and is_damage(error):
            try:
                discard(index_path(root.path))
            except OSError:
                pass  # the next command says so
        root.connection, root.kept = in_memory(TABLES), False


def _header(connection: sqlite3.Connection, number: int) -> bytes:
    row = connection.execute("SELECT rest FROM rests WHERE number = ?", (number,)).fetchone()
    rest = None if row is None else unpack_rest(row[0])
    if rest is None:
        raise KeyError(number)
    return rest.header


def _store(connection: sqlite3.Connection, key: str, facts: Facts) -> bool:
    """Write what was read of one session. False when the index does not hold what it goes on from: somebody else made
    the index, or this session in it, anew."""
    coded = os.fsencode(key)
    row = connection.execute("SELECT number, record FROM sessions WHERE key = ?", (coded,)).fetchone()
    if facts.since or facts.only_checked:
        there = None if row is None else unpack(row[1])
        if there is None or there.run != facts.record.run or there.totals.events < facts.since:
            return False
    data = facts.record.pack()
    if row is None:
        number = connection.execute("INSERT INTO sessions(key, record) VALUES(?, ?)", (coded, data)).lastrowid
    else:
        number = row[0]
        connection.execute("UPDATE sessions SET record = ? WHERE number = ?", (data, number))
    connection.execute("INSERT OR REPLACE INTO rests VALUES(?, ?)", (number, facts.rest.pack()))
    if facts.only_checked:
        return True
    for table, column, rows in (
        ("turns", "first", facts.turns),
        ("calls", "seq", facts.calls),
        ("sources", "by", facts.sources),
        ("usage", "seq", facts.usage),
    ):
        connection.execute(f"DELETE FROM {table} WHERE session = ? AND {column} >= ?", (number, facts.since))
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            values = ((number, *one) for one in rows)
            connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES(?, {marks})", values)
    return True


def _forget(connection: sqlite3.Connection, keys: Sequence[str]) -> None:
    for key in keys:
        coded = os.fsencode(key)
        row = connection.execute("SELECT number FROM sessions WHERE key = ?", (coded,)).fetchone()
        if row is None:
            continue
        for table in ("turns", "calls", "sources", "usage"):
            connection.execute(f"DELETE FROM {table} WHERE session = ?", row)
        connection.execute("DELETE FROM rests WHERE number = ?", row)
        connection.execute("DELETE FROM sessions WHERE number = ?", row)


def _by_path(found: list[Listed]) -> list[Listed]:
    """Sessions that began at one moment and have one id, by path; there hardly ever are any."""
    keys = [(one.record.created_ms, one.record.id) for one in found]
    if len(set(keys)) == len(keys):
        return found
    return sorted(found, key=lambda one: (-one.record.created_ms, one.record.id, one.path))


def _repeated(found: Sequence[Listed]) -> dict[str, list[Listed]]:
    """The sessions whose id several headers say."""
    if len({one.record.id for one in found}) == len(found):
        return {}
    by_id: dict[str, list[Listed]] = {}
    for one in found:
        by_id.setdefault(one.record.id, []).append(one)
    return {id: same for id, same in by_id.items() if sum(one.record.headed for one in same) > 1}


def _marked(one: Listed, places: Mapping[str, Sequence[Listed]]) -> Listed:
    others = [other.path for other in places.get(one.record.id, ()) if other.path != one.path]
    if one.problem or not others:
        return one
    return one._replace(problem=f"the same id is also at {others[0]}", trouble="duplicate")


def _order(root: Path, path: str) -> tuple[bool, list[str]]:
    """As a walk meets them: what lies in the root itself first, then project by project."""
    parts = path[len(str(root)) + 1 :].split("/")
    return len(parts) > 1, parts
