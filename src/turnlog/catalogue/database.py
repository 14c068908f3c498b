"""The SQLite file of an index: opened, checked, made again when it cannot be trusted, done without when it must be.

=========================================  ==================================================================
it is not there, or empty                  made
another schema, build, machine or root     emptied, in one transaction
not a database, or damaged                 deleted and made
somebody else's database                   left alone; the index is kept in memory
a directory or disk that takes no file     the index is kept in memory
=========================================  ==================================================================

An index in memory gives the same answers and is gone with the process. All but the first is said to whoever asks.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

APPLICATION: Final = 0x74756C67
"""What SQLite's ``application_id`` says of our files (``tulg``)."""
SCHEMA: Final = 2
"""Goes up whenever tables or what is put in them change."""
WAIT_S: Final = 5.0
"""How long a command waits for another one that writes; then it does without the index."""

TABLES: Final = """
CREATE TABLE origin(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions(number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, record BLOB NOT NULL);
CREATE TABLE rests(number INTEGER PRIMARY KEY, rest BLOB NOT NULL);
CREATE TABLE turns(session INTEGER, first INTEGER, turn INTEGER, last INTEGER, began INTEGER, ended INTEGER, end TEXT,
                   PRIMARY KEY(session, first)) WITHOUT ROWID;
CREATE TABLE calls(session INTEGER, seq INTEGER, place INTEGER, turn INTEGER, step INTEGER, id TEXT, name TEXT,
                   result INTEGER, PRIMARY KEY(session, seq, place)) WITHOUT ROWID;
CREATE INDEX calls_by_id ON calls(id);
CREATE TABLE sources(session INTEGER, by INTEGER, first INTEGER, last INTEGER,
                     PRIMARY KEY(session, by, first)) WITHOUT ROWID;
CREATE TABLE usage(session INTEGER, seq INTEGER, kind TEXT, turn INTEGER, step INTEGER, attempt INTEGER, time INTEGER,
                   provider TEXT, model TEXT, flawed INTEGER, input INTEGER, cache_read INTEGER, cache_write INTEGER,
                   output INTEGER, reasoning INTEGER);
CREATE INDEX usage_by_session ON usage(session, seq);
CREATE TABLE notes(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
TEXT_TABLES: Final = """
CREATE TABLE origin(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE covered(key BLOB PRIMARY KEY, run INTEGER, offset INTEGER, seq INTEGER) WITHOUT ROWID;
CREATE TABLE blocks(number INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB, first INTEGER, last INTEGER,
                    offset INTEGER, length INTEGER);
CREATE INDEX blocks_by_key ON blocks(key, first);
CREATE VIRTUAL TABLE grams USING fts5(text, tokenize='trigram case_sensitive 1', content='', detail='none',
                                      columnsize=0);
"""


class IndexUnusable(Exception):
    """The index cannot be used; the message says why."""


def open_database(path: Path, root: Path, tables: str, say: Callable[[str], None]) -> tuple[sqlite3.Connection, bool]:
    """The index of *root* at *path*, and whether it is kept; what is unusual goes to *say*. Never fails for what is at
    *path*: then the index is in memory."""
    try:
        return _kept(path, root, tables, say), True
    except (OSError, sqlite3.Error, IndexUnusable) as error:
        say(f"the index {path} cannot be used ({_reason(error)}); the logs are read without it")
        return in_memory(tables), False


def in_memory(tables: str) -> sqlite3.Connection:
    """An empty index that is gone with the process."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(tables)
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. Raises ``sqlite3.Error``, after which nothing of it is there."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has SQLite roll back by itself
            connection.execute("ROLLBACK")
        raise


def is_damage(error: sqlite3.Error) -> bool:
    """Whether *error* says that the file is no sound database, and not that it is busy or the disk is full."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def discard(path: Path) -> None:
    """Delete the index at *path*; logs lose nothing by it. Raises ``OSError``."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _kept(path: Path, root: Path, tables: str, say: Callable[[str], None]) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = origin_of(root)
    try:
        return _checked(path, wanted, tables, say)
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        say(f"the index {path} is damaged ({error}); it is made again from the logs")
    with _alone(path):
        try:
            return _checked(path, wanted, tables, say)  # somebody else made it again meanwhile
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
        discard(path)
        return _checked(path, wanted, tables, say)


def _checked(path: Path, wanted: dict[str, str], tables: str, say: Callable[[str], None]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=NORMAL")  # with WAL: a power cut may lose the last records, never more
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        schema = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise IndexUnusable("it is a database of another program; move it away")
            _fill(connection, wanted, tables)
        elif schema != SCHEMA:
            say(f"the index {path} was made by another version of turnlog; it is made again from the logs")
            _fill(connection, wanted, tables)
        else:
            there = dict(connection.execute("SELECT name, value FROM origin"))
            if there != wanted:
                differing = ", ".join(sorted(name for name in wanted if there.get(name) != wanted[name]))
                say(f"the index {path} was made elsewhere (another {differing}); it is made again from the logs")
                _fill(connection, wanted, tables)
        connection.execute("PRAGMA cache_size=-16384")
        return connection
    except BaseException:
        connection.close()
        raise


def _fill(connection: sqlite3.Connection, wanted: dict[str, str], tables: str) -> None:
    """Empty tables, whatever was there. Whoever comes second finds them made and leaves them as they are."""
    connection.execute("PRAGMA journal_mode=WAL")
    with transaction(connection):
        try:
            made = dict(connection.execute("SELECT name, value FROM origin")) == wanted
        except sqlite3.OperationalError:
            made = False
        if made and connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
            return
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY sql NOT LIKE 'CREATE VIRTUAL%'"  # a virtual table takes its own tables with it
        ).fetchall()
        for (name,) in names:
            quoted = str(name).replace('"', '""')
            connection.execute(f'DROP TABLE IF EXISTS "{quoted}"')
        for statement in filter(str.strip, tables.split(";")):
            connection.execute(statement)
        connection.executemany("INSERT INTO origin VALUES(?, ?)", wanted.items())
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={SCHEMA}")


def origin_of(root: Path) -> dict[str, str]:
    """What an index belongs to; one that says otherwise was copied from elsewhere."""
    try:
        status = os.stat(root)
        place = f"{status.st_dev}:{status.st_ino}"
    except OSError:
        place = "nowhere"
    python = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]} {sys.byteorder}"
    return {"machine": _machine(), "root": os.fsencode(os.path.realpath(root)).hex(), "directory": place,
            "python": python}  # fmt: skip


def _machine() -> str:
    for place in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(place, encoding="ascii", errors="replace") as file:
                told = file.read().strip()
        except OSError:
            continue
        if told:
            return told
    from socket import gethostname

    return gethostname()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time deletes a damaged index."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with closing_descriptor(os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    """Close it afterwards."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def quick_check(path: Path) -> str | None:
    """What is wrong with the database file at *path*, or None. Reads all of it."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=WAIT_S)) as connection:
            told = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return None if told == "ok" else told


def _reason(error: BaseException) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
