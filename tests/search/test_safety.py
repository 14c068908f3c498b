"""Whatever happens to an index: it is made again or done without, and what is answered stays right."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.search import stores
from tests.search.stores import Dice
from turnlog.catalogue import Catalogue, Query, Search, index
from turnlog.catalogue.building import build, start_builder
from turnlog.catalogue.fulltext import FullText, text_path
from turnlog.catalogue.places import LOCK, default_roots, index_path, is_live, price_stamp
from turnlog.store import discover
from turnlog.store.liveness import liveness


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of a dozen sessions, with an index directory of its own."""
    monkeypatch.setenv("TURNLOG_INDEX", str(tmp_path / "index"))
    for number in range(12):
        dice = Dice(bytes(range(number, 200)))
        lines = stores.log_lines(stores.script(dice, 3), f"s{number:02}", escaped=False)
        stores.place(tmp_path / "sessions", f"s{number:02}").write_bytes(b"".join(lines))
    return tmp_path / "sessions"


def listed(root: Path) -> tuple[list[tuple[str, int, str]], list[str]]:
    """What a list shows, and what is said about the index."""
    told: list[str] = []
    with Catalogue([root], say=told.append) as catalogue:
        return [(one.record.id, one.totals.turns, one.totals.shown_title) for one in catalogue.sessions()], told


def found(root: Path, text: str = "alpha") -> tuple[list[tuple[str, int]], list[str]]:
    told: list[str] = []
    with Catalogue([root], say=told.append) as catalogue:
        hits = Search(catalogue, Query(text), say=told.append).hits()
        return [(hit.session.record.id, hit.said.seq) for hit in hits], told


@pytest.fixture
def right(root: Path) -> Iterator[list[tuple[str, int, str]]]:
    """What must be shown, before and after."""
    shown, told = listed(root)
    assert len(shown) == 12
    assert told == []
    yield shown
    assert listed(root) == (shown, [])


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "holes"])
def test_a_damaged_index_is_made_again_and_said(root: Path, right: list[tuple[str, int, str]], damage: str) -> None:
    path = index_path(root)
    data = path.read_bytes()
    if damage == "garbage":
        path.write_bytes(b"no database at all" * 1000)
    elif damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(data[:4096] + os.urandom(len(data) - 4096))
    shown, told = listed(root)
    assert shown == right
    assert damage == "empty" or any(str(path) in one or str(root) in one for one in told)


def test_single_bytes_that_changed_in_the_index_never_change_what_is_shown(
    root: Path, right: list[tuple[str, int, str]]
) -> None:
    path = index_path(root)
    data = path.read_bytes()
    for at in range(100, len(data), len(data) // 60):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
        assert listed(root)[0] == right, at
        path.with_name(path.name + "-wal").unlink(missing_ok=True)
        path.with_name(path.name + "-shm").unlink(missing_ok=True)


def test_an_index_of_another_version_or_machine_is_made_again(root: Path, right: list[tuple[str, int, str]]) -> None:
    for statement, said in (
        ("PRAGMA user_version = 99", "another version"),
        ("UPDATE origin SET value = 'another' WHERE name = 'machine'", "made elsewhere (another machine)"),
        ("UPDATE origin SET value = 'another' WHERE name = 'directory'", "made elsewhere (another directory)"),
    ):
        with sqlite3.connect(index_path(root), isolation_level=None) as connection:
            connection.execute("UPDATE sessions SET record = x'00'")
            connection.execute(statement)
        connection.close()
        shown, told = listed(root)
        assert shown == right
        assert [said in one for one in told] == [True]


def test_the_database_of_another_program_is_left_alone(root: Path) -> None:
    path = index_path(root)
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE treasure(gold)")
    connection.close()
    before = path.read_bytes()
    shown, told = listed(root)
    assert len(shown) == 12
    assert "database of another program" in told[0]
    assert path.read_bytes() == before


def test_without_a_place_for_the_index_the_logs_are_read_and_that_is_said(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TURNLOG_INDEX", str(tmp_path / "file" / "index"))
    shown, told = listed(root)
    assert len(shown) == 12
    assert "the logs are read without it" in told[0]
    hits, _told = found(root)
    assert hits == stores.found_by(root, "alpha")


def test_a_full_disk_is_said_and_the_answer_is_still_right(root: Path) -> None:
    right, _told = listed(root)
    path = stores.place(root, "late")
    path.write_bytes(b"".join(stores.log_lines(stores.script(Dice(b"abc"), 2), "late", escaped=False)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_store", _full(index._store))
        shown, told = listed(root)
    assert len(shown) == len(right) + 1
    assert "cannot be written (database or disk is full)" in told[0]


def _full(store: object) -> object:
    calls = iter([True])

    def fails_first(*arguments: object) -> object:
        if next(calls, False):
            raise sqlite3.OperationalError("database or disk is full")
        return store(*arguments)  # type: ignore[operator]

    return fails_first


def test_an_index_that_another_command_holds_for_long_is_done_without(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, _told = listed(root)
    monkeypatch.setattr("turnlog.catalogue.database.WAIT_S", 0.01)
    path = stores.place(root, "late")
    path.write_bytes(b"".join(stores.log_lines(stores.script(Dice(b"abc"), 2), "late", escaped=False)))
    holder = sqlite3.connect(index_path(root), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    shown, told = listed(root)
    holder.close()
    assert len(shown) == len(right) + 1
    assert "locked" in told[0]


def test_a_damaged_full_text_is_said_and_everything_is_read(root: Path) -> None:
    build([root])
    expected = stores.found_by(root, "alpha")
    assert found(root) == (expected, [])
    path = text_path(root)
    data = path.read_bytes()
    path.write_bytes(data[:4096] + os.urandom(len(data) - 4096))
    hits, told = found(root)
    assert hits == expected
    assert told
    build([root])
    assert found(root) == (expected, [])


def test_hits_come_from_the_log_and_never_from_what_the_full_text_claims(root: Path) -> None:
    build([root])
    with sqlite3.connect(text_path(root), isolation_level=None) as connection:
        for (number,) in connection.execute("SELECT number FROM blocks").fetchall():
            connection.execute("INSERT INTO grams(rowid, text) VALUES(?, 'unheard of')", (number,))
    connection.close()
    assert found(root, "unheard of") == ([], [])


def test_an_index_that_is_deleted_while_it_is_asked_is_done_without(root: Path) -> None:
    with Catalogue([root]) as catalogue:
        one = catalogue.sessions()[0]
        right = catalogue.calls(one), catalogue.turns(one), catalogue.cited(one), catalogue.header(one)
        with sqlite3.connect(index_path(root), isolation_level=None) as connection:
            connection.execute("DELETE FROM sessions")
        connection.close()
        assert (catalogue.calls(one), catalogue.turns(one), catalogue.cited(one), catalogue.header(one)) == right
        assert json.loads(right[3] or b"")["id"] == one.record.id


# -- processes --------------------------------------------------------------------------------------------------------

WORK = """
import sys
from pathlib import Path
from turnlog.catalogue import Catalogue
from turnlog.catalogue.building import build
root = Path(sys.argv[1])
say = lambda text: None if "locked" in text else print(text)  # on a slow machine somebody may wait for too long
for _ in range(int(sys.argv[2])):
    with Catalogue([root], say=say) as catalogue:
        print(len(catalogue.sessions()))
    build([root], say=say)
"""


def worker(root: Path, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORK, str(root), str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd())


def test_commands_that_index_at_the_same_time_all_answer_and_leave_a_right_index(root: Path) -> None:
    workers = [worker(root, 3) for _ in range(3)]
    for number in range(12, 20):
        lines = stores.log_lines(stores.script(Dice(bytes([number] * 9)), 2), f"s{number:02}", escaped=False)
        stores.place(root, f"s{number:02}").write_bytes(b"".join(lines))
    for one in workers:
        out, err = one.communicate()
        assert (one.returncode, err) == (0, "")
        assert all(line.isdigit() for line in out.splitlines()), out
    expected = stores.found_by(root, "alpha")
    assert found(root) == (expected, [])
    build([root])
    assert found(root) == (expected, [])
    shown, told = listed(root)
    assert (len(shown), told) == (20, [])


def test_a_builder_that_is_killed_at_any_moment_leaves_a_right_index(root: Path) -> None:
    expected = stores.found_by(root, "alpha")
    shown, _told = listed(root)
    for delay in (0.3, 0.35, 0.4, 0.5):
        for path in (index_path(root), text_path(root)):
            path.unlink(missing_ok=True)
        one = worker(root, 50)
        time.sleep(delay)
        one.send_signal(signal.SIGKILL)
        one.communicate()
        assert listed(root) == (shown, [])
        assert found(root) == (expected, [])
    build([root])
    assert found(root) == (expected, [])


def test_a_builder_goes_on_when_the_command_that_started_it_is_over(root: Path) -> None:
    assert start_builder([root])
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with Catalogue([root]) as catalogue:
            text = FullText(root, lambda _text: None)
            done = [text.covers(one) is not None for one in catalogue.sessions()]
            text.close()
        if all(done):
            break
        time.sleep(0.05)
    assert all(done)


# -- what is known of a file -----------------------------------------------------------------------------------------


def test_files_that_did_not_change_are_not_looked_into(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnlog.catalogue.walk.RACY_NS", 0)
    listed(root)
    time.sleep(0.05)
    listed(root)
    with Catalogue([root]) as catalogue:
        assert catalogue.roots[0].walked.stale == []
    stores.place(root, "s03").touch()
    with Catalogue([root]) as catalogue:
        assert catalogue.roots[0].walked.stale == ["--w-p--/s03"]


def test_the_light_answers_are_those_of_the_store(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "none"))
    assert default_roots() == discover.default_roots() == [root]
    directory = root / "--w-p--" / "s01"
    assert not is_live(str(directory))
    (directory / LOCK).touch()
    assert (is_live(str(directory)), liveness(directory / "session.jsonl")) == (False, "gone")
    with (directory / LOCK).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert (is_live(str(directory)), liveness(directory / "session.jsonl")) == (True, "live")
    with Catalogue([root]) as catalogue:
        assert [one.record.id for one in catalogue.sessions() if one.record.locked] == ["s01"]


def test_costs_follow_the_prices(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    before = price_stamp()
    with Catalogue([root]) as catalogue:
        known = {one.record.id: one.totals.pico_usd for one in catalogue.sessions()}
    prices = tmp_path / "config" / "turnlog" / "prices.toml"
    prices.parent.mkdir(parents=True)
    prices.write_text(
        '[[price]]\nprovider = "p"\nmodel = "m"\ninput = 1\noutput = 2\nchecked = 2030-01-01\nsource = "here"\n'
    )
    assert price_stamp() != before
    with Catalogue([root]) as catalogue:
        for one in catalogue.sessions():
            session = stores.opened(Path(one.path))
            assert session is not None
            assert stores.totals(session)["cost"][0] == one.totals.pico_usd
        assert {one.record.id: one.totals.pico_usd for one in catalogue.sessions()} != known
