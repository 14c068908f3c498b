"""The full text: which blocks of which logs contain which groups of three characters.

A *block* is some consecutive events of one session that say something. The index has no text, only which groups occur
in which block; whatever a search finds is read from the log itself, so that it never shows what is not there. Two line
ends after each block make its last characters begin a group as well: then one or two characters are found by the groups
that begin with them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from .database import TEXT_TABLES, in_memory, is_damage, open_database, transaction
from .fold import fold
from .lines import LinesLost, pieces
from .places import index_path
from .said import Spoken, spoken
from .walk import identity_of

if TYPE_CHECKING:
    from .index import Listed
    from .query import Query

_BLOCK: Final = 16 << 10
"""Characters of a block: small enough to be read again for a hit, large enough to share groups."""
_BATCH: Final = 2 << 20
"""Characters written in one transaction."""
_BATCH_S: Final = 1.0
_END: Final = "\n\n"
_TOGETHER: Final = 64
"""Events of a block where only the whole log can be read."""
_FEW: Final = 900
"""Blocks that one statement asks for by number."""


class Block(NamedTuple):
    """Where some text is."""

    first: int
    """Seq of its first event."""
    last: int
    offset: int
    """Byte of the file where it begins; -1 where only the whole log can be read."""
    length: int


class Covered(NamedTuple):
    """How much of a session the full text holds."""

    run: int
    offset: int
    """Byte of the file up to which."""
    seq: int
    """Seq of the first event that may be missing."""


def text_path(root: Path) -> Path:
    """The file of the full text of *root*."""
    return index_path(root).with_suffix(".text.sqlite3")


class FullText:
    """The full text of one root, for reading."""

    def __init__(self, root: Path, say: Callable[[str], None], *, make: bool = False) -> None:
        """Opens it; *make* creates the file where there is none."""
        path = text_path(root)
        self.path = path
        self._say = say
        if make or path.exists():
            self.connection, self.kept = open_database(path, root, TEXT_TABLES, say)
        else:
            self.connection, self.kept = in_memory(TEXT_TABLES), False
        self.covered = self._covered()

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def covers(self, session: Listed) -> Covered | None:
        """How much of a session it holds, as the log is now; None for nothing."""
        found = self.covered.get(session.key)
        if found is None or found.run != session.record.run or not session.record.run:
            return None
        return found if found.offset <= session.record.identity.size else None

    def candidates(self, query: Query) -> set[int] | None:
        """Numbers of the blocks that may hold what *query* looks for; None for all of them."""
        try:
            found: set[int] | None = None
            grams = query.grams()
            if grams:
                expression = " AND ".join('"' + gram.replace('"', '""') + '"' for gram in grams)
                rows = self.connection.execute("SELECT rowid FROM grams WHERE grams MATCH ?", (expression,))
                found = {row[0] for row in rows}
            for short in query.shorts():
                if (len(short) < 2 and short.isascii()) or found == set():
                    continue
                begun = self._beginning(short)
                found = begun if found is None else found & begun
        except sqlite3.Error as error:
            self._give_up(error)
            return set()
        return found

    def _beginning(self, short: str) -> set[int]:
        self.connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.terms USING fts5vocab('main', 'grams', 'instance')"
        )
        rows = self.connection.execute(
            "SELECT DISTINCT doc FROM temp.terms WHERE term >= ? AND term < ?", (short, short + "\U0010ffff")
        )
        return {row[0] for row in rows}

    def blocks(self, numbers: set[int] | None) -> Callable[[str], list[Block]]:
        """What gives the blocks of a session by its key: those of *numbers*, in order."""
        if numbers is not None and len(numbers) <= 4 * _FEW:
            few = self._few(sorted(numbers))
            return lambda key: few.get(key, [])
        return lambda key: self._of(key, numbers)

    def _few(self, numbers: Sequence[int]) -> dict[str, list[Block]]:
        found: dict[str, list[Block]] = {}
        for at in range(0, len(numbers), _FEW):
            part = numbers[at : at + _FEW]
            marks = ", ".join("?" * len(part))
            select = f"key, first, last, offset, length FROM blocks WHERE number IN ({marks})"
            for key, *rest in self._rows(select, part):
                found.setdefault(os.fsdecode(key), []).append(Block(*rest))
        for blocks in found.values():
            blocks.sort()
        return found

    def _of(self, key: str, numbers: set[int] | None) -> list[Block]:
        rows = self._rows("number, first, last, offset, length FROM blocks WHERE key = ? ORDER BY first",
                          (os.fsencode(key),))  # fmt: skip
        return [Block(*rest) for number, *rest in rows if numbers is None or number in numbers]

    def _rows(self, select: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self.connection.execute(f"SELECT {select}", values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _covered(self) -> dict[str, Covered]:
        try:
            rows = self.connection.execute("SELECT key, run, offset, seq FROM covered").fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return {}
        return {os.fsdecode(key): Covered(*rest) for key, *rest in rows}

    def _give_up(self, error: sqlite3.Error) -> NoReturn:
        """The full text turned out to be unusable while it was read: nothing of it counts."""
        raise FullTextLost(f"the full text {self.path} cannot be read ({error})", is_damage(error))


class FullTextLost(Exception):
    """The full text cannot be used; everything has to be read."""

    def __init__(self, text: str, damaged: bool) -> None:
        super().__init__(text)
        self.damaged = damaged


# -- building -------------------------------------------------------------------------------------------------------


class Builder:
    """Puts sessions into the full text of one root."""

    def __init__(self, text: FullText) -> None:
        self._text = text
        self._connection = text.connection
        self._pending: list[tuple[Listed, Covered, list[tuple[Block, str]], bool]] = []
        self._characters = 0
        self._wrote = time.monotonic()

    def add(self, session: Listed) -> bool:
        """Put in what is new of a session. False where its file changed since it was listed: it is for the next time.
        Raises ``sqlite3.Error``, and ``OSError`` for a file that cannot be read."""
        known = self._text.covers(session)
        if known is not None and known.offset >= session.record.identity.size:
            return True
        begun = known or Covered(session.record.run, 0, 0)
        if identity_of(session.path) != session.record.identity:
            return False
        found = _blocks(session, begun)
        offset = found[-1][2] if found else begun.offset
        seq = max((block.last + 1 for block, _text, _end in found), default=begun.seq)
        if identity_of(session.path) != session.record.identity:
            return False
        blocks = [(block, text) for block, text, _end in found if text]
        self._pending.append((session, Covered(session.record.run, offset, seq), blocks, known is None))
        self._characters += sum(len(text) for _block, text in blocks)
        if self._characters > _BATCH or time.monotonic() - self._wrote > _BATCH_S:
            self.flush()
        return True

    def flush(self) -> None:
        """Write what was added. Raises ``sqlite3.Error``."""
        with transaction(self._connection):
            for session, covered, blocks, anew in self._pending:
                self._store(session, covered, blocks, anew)
        for session, covered, _blocks_of, _anew in self._pending:
            self._text.covered[session.key] = covered
        self._pending, self._characters, self._wrote = [], 0, time.monotonic()

    def _store(self, session: Listed, covered: Covered, blocks: Sequence[tuple[Block, str]], anew: bool) -> None:
        key = os.fsencode(session.key)
        there = self._connection.execute("SELECT run, offset FROM covered WHERE key = ?", (key,)).fetchone()
        before = self._text.covered.get(session.key)
        if not anew and (there is None or before is None or tuple(there) != before[:2]):
            return  # another builder was faster
        if anew:
            if there is not None and there[0] == covered.run and there[1] >= covered.offset:
                return
            self._connection.execute("DELETE FROM blocks WHERE key = ?", (key,))
        for block, text in blocks:
            number = self._connection.execute(
                "INSERT INTO blocks(key, first, last, offset, length) VALUES(?, ?, ?, ?, ?)", (key, *block)
            ).lastrowid
            self._connection.execute("INSERT INTO grams(rowid, text) VALUES(?, ?)", (number, text))
        self._connection.execute("INSERT OR REPLACE INTO covered VALUES(?, ?, ?, ?)", (key, *covered))

    def forget(self, keys: Sequence[str]) -> None:
        """Take out sessions that are gone; and everything, where most of what is there is of none any more."""
        with transaction(self._connection):
            for key in keys:
                coded = os.fsencode(key)
                self._connection.execute("DELETE FROM blocks WHERE key = ?", (coded,))
                self._connection.execute("DELETE FROM covered WHERE key = ?", (coded,))
            most, left = self._connection.execute("SELECT max(number), count(*) FROM blocks").fetchone()
            if (most or 0) > 2 * left + 1000:
                self._connection.execute("DELETE FROM blocks")
                self._connection.execute("DELETE FROM covered")
                self._connection.execute("INSERT INTO grams(grams) VALUES('delete-all')")
                self._connection.execute("DELETE FROM sqlite_sequence WHERE name = 'blocks'")
                self._text.covered.clear()
        for key in keys:
            self._text.covered.pop(key, None)


def _blocks(session: Listed, begun: Covered) -> list[tuple[Block, str, int]]:
    """What a session says from a place on, block by block: where, the folded text, and how far the file was read."""
    if session.record.sound:
        try:
            return list(_line_blocks(session, begun))
        except LinesLost:
            pass
    return list(_whole_blocks(session, begun))


def _whole_blocks(session: Listed, begun: Covered) -> Iterator[tuple[Block, str, int]]:
    from .whole import spoken_of

    said = [one for one in spoken_of(session.path) if one.seq >= begun.seq]
    size = session.record.identity.size
    for at in range(0, len(said), _TOGETHER):
        part = said[at : at + _TOGETHER]
        yield Block(part[0].seq, part[-1].seq, -1, 0), _folded([one.text for one in part]), size
    yield Block(0, -1, -1, 0), "", size


def _line_blocks(session: Listed, begun: Covered) -> Iterator[tuple[Block, str, int]]:
    texts: list[str] = []
    first = last = -1
    start = end = begun.offset
    size = 0
    for offset, stop, said in _spoken_pieces(session, begun.offset):
        if said is None:
            end = stop
            continue
        if first < 0:
            first, start = said.seq, offset
        last = said.seq
        texts.append(said.text)
        size += len(said.text)
        ended = stop
        if size >= _BLOCK:
            yield Block(first, last, start, ended - start), _folded(texts), ended
            texts, first, size = [], -1, 0
        end = max(end, stop)
    if texts:
        yield Block(first, last, start, end - start), _folded(texts), end
    yield Block(0, -1, 0, 0), "", end


def _spoken_pieces(session: Listed, start: int) -> Iterator[tuple[int, int, Spoken | None]]:
    """What is said from a byte of the file on, with where its line (or frame) begins and ends; at each end of a piece
    None and that end."""
    record = session.record
    for piece in pieces(session.path, record.compressed, start, record.identity.size - start):
        offset = piece.offset
        for line in piece.text.split(b"\n"):
            stop = piece.end if record.compressed else offset + len(line) + 1
            said = spoken(line) if line else None
            if said is not None:
                yield (piece.offset if record.compressed else offset), stop, said
            offset += len(line) + 1
        yield piece.offset, piece.end, None


def _folded(texts: Sequence[str]) -> str:
    return fold("\n".join(texts)) + _END
