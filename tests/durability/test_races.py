"""Two writers of one session: exactly one wins, the others are told why not, and histories never mix."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FULL
from tests.durability import processes
from tests.log.sessions import chunk, user
from turnlog.events import StepStart, TextDelta, TurnStart
from turnlog.log import Session, SessionHeader
from turnlog.store import (
    AppendConflict,
    ConcurrentWriter,
    FileStore,
    LiveStore,
    LogCorrupt,
    SessionLocked,
    load,
    open_store,
    verify,
)
from turnlog.store.fs import OsFs, OsHandle
from turnlog.store.liveness import LOCK_NAME


@pytest.mark.proof
def test_one_of_several_processes_wins(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    count = 200 if FULL else 12
    told = processes.run("contend", tmp_path, count)
    assert sum(told["kinds"].values()) == count
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(told["kinds"].items()))
    lost = ", ".join(f"{number} {kind}" for kind, number in sorted(told["outcomes"].items()) if kind != "won")
    record_property("proof", f"races for one session: {count} ({kinds}), one winner each, {lost}")
    assert told["outcomes"]["SessionLocked"] > 0
    assert told["outcomes"]["ConcurrentWriter"] > 0


@pytest.mark.parametrize("compressed", [False, True])
def test_a_session_is_written_once_in_a_process_too(tmp_path: Path, compressed: bool) -> None:
    async def main() -> None:
        async with open_store(tmp_path, compressed=compressed) as store, open_store(tmp_path) as other:
            session = await store.create(id="s")
            session.append(user())
            await session.durable()
            with pytest.raises(SessionLocked, match="this very store"):
                await store.resume("s")
            with pytest.raises(SessionLocked, match=f"pid {os.getpid()} "):
                await other.resume("s")
            with pytest.raises(AppendConflict, match="exists already"):
                await store.create(id="s")
            with pytest.raises(AppendConflict, match="exists already"):
                await other.create(id="s")
            await store.release(session)
            found = await asyncio.gather(*(other.resume("s") for _ in range(3)), return_exceptions=True)
            assert [len(one) for one in found if isinstance(one, Session)] == [2]
            assert sum(isinstance(one, SessionLocked) for one in found) == 2

    asyncio.run(main())


def test_clocks_decide_nothing(tmp_path: Path) -> None:
    """BC-067: the writer's clock runs five minutes ahead of the next one's, and stands still while it writes."""
    ahead = 1_760_000_000_000

    async def main() -> None:
        async with open_store(tmp_path) as store:
            session = Session("s", clock=lambda: ahead + 300_000)
            store.keep(session)
            session.append(TurnStart(turn=1))
            session.append(StepStart(turn=1, step=1))
            for number in range(300):  # all in one millisecond
                session.append(chunk(TextDelta(0, f"{number} ")))
                if number % 60 == 0:
                    await session.durable()
        log = next(tmp_path.glob("*/*/session.jsonl"))
        os.utime(log, (1, 1))  # nor does the file's time
        async with LiveStore(FileStore(tmp_path)) as store:
            resumed = await store.resume("s")
            assert resumed.events[: len(session)] == session.events
            resumed._clock = lambda: ahead
            resumed.append(user())
            await resumed.durable()
            os.utime(log, (1, 1))
            resumed.append(user("again", "m2"))
            await resumed.durable()
        report = verify(log)
        assert report.verdict == "ok", report.findings
        assert report.proof.state == "proven"
        assert load(log).events == resumed.events

    asyncio.run(main())


def test_a_lock_file_that_nobody_holds_is_no_obstacle(tmp_path: Path) -> None:
    """BC-067: its owner is dead, its pid is ours by now, it is from another host, or it is no JSON at all."""

    async def main() -> None:
        async with open_store(tmp_path) as store:
            session = await store.create(id="s")
            session.append(user())
        lock = next(tmp_path.glob("*/*")) / LOCK_NAME
        for owner in (f'{{"pid":{os.getpid()},"host":"elsewhere","since":1,"program":"x"}}', "", "{", "\0" * 10, "[]"):
            lock.write_text(owner)
            async with open_store(tmp_path) as store:
                await store.resume("s")
                with pytest.raises(SessionLocked, match=f"pid {os.getpid()} "):
                    await LiveStore(FileStore(tmp_path)).resume("s")

    asyncio.run(main())


def test_a_lock_that_was_let_go_is_not_held(tmp_path: Path) -> None:
    from turnlog.store.lock import SessionLock

    lock = SessionLock(tmp_path, "s")
    assert lock.held()
    lock.release()
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_WRONLY)  # gets the same number
    assert not lock.held()
    lock.release()  # twice is fine, and closes nothing of anybody else's
    os.fstat(other)
    os.close(other)


class _TakenOver(OsFs):
    """A file system on which another writer takes the session over just before a write, after all checks."""

    def __init__(self) -> None:
        self.before_write: Callable[[], None] | None = None

    def open(self, path: Path) -> OsHandle:
        fs = self

        class Handle(OsHandle):
            def write(self, data: bytes) -> int:
                before, fs.before_write = fs.before_write, None
                if before is not None:
                    before()
                return super().write(data)

        return Handle(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))


@pytest.mark.parametrize("heir_writes", [False, True])
def test_a_takeover_in_the_middle_of_a_write_is_noticed(tmp_path: Path, heir_writes: bool) -> None:
    """No lock file can close the gap between a writer's last look and its write: who stops a writer there, removes
    its lock and revives it gets both batches. The heir finds out at its next write, and so does every reader."""
    fs = _TakenOver()
    first, heir = FileStore(tmp_path, fs=fs), FileStore(tmp_path, adopt=True)
    first.create(SessionHeader(version=0, id="s", created_at=1))
    lines = [event.line() for event in _talk("a", "b", "c", "d").events]
    first.append("s", 0, lines[:1])
    log = next(tmp_path.glob("*/*/session.jsonl"))

    def take_over() -> None:
        log.with_name(LOCK_NAME).unlink()
        assert heir.append("s", None, ()) == 1
        if heir_writes:
            heir.append("s", 1, [lines[1].replace(b'"b"', b'"B"')])

    fs.before_write = take_over
    first.append("s", 1, [lines[1]])
    with pytest.raises(ConcurrentWriter, match="somebody else wrote"):
        heir.append("s", 2 if heir_writes else 1, [lines[2]])
    with pytest.raises(ConcurrentWriter, match="taken over"):
        first.append("s", 2, [lines[2]])
    if heir_writes:
        with pytest.raises(LogCorrupt):
            load(log)
    else:
        assert len(load(log)) == 2


def _talk(*texts: str) -> Session:
    session = Session("s", clock=lambda: 1)
    for number, text in enumerate(texts):
        session.append(user(text, f"m{number}"))
    return session


def _replace(log: Path) -> None:
    other = log.with_name("other")
    other.write_bytes(log.read_bytes())
    other.replace(log)


def test_a_session_whose_file_was_moved_or_cut_or_grown_is_never_written_again(tmp_path: Path) -> None:
    changes: dict[str, Callable[[Path], Any]] = {
        "lock": lambda log: log.with_name(LOCK_NAME).unlink(),
        "cut": lambda log: os.truncate(log, log.stat().st_size - 1),
        "grown": lambda log: log.write_bytes(log.read_bytes() + b"\n"),
        "renamed": lambda log: log.rename(log.with_name("elsewhere.jsonl")),
        "replaced": _replace,
        "moved": lambda log: log.parent.rename(log.parent.with_name("moved")),
    }

    async def main(name: str, change: Callable[[Path], Any]) -> None:
        store = open_store(tmp_path / name)
        session = await store.create(id="s")
        session.append(user())
        await session.durable()
        log = next((tmp_path / name).glob("*/*/session.jsonl"))
        change(log)
        before = {path: path.read_bytes() for path in (tmp_path / name).rglob("*.jsonl")}
        for number in range(3):
            session.append(user("more", f"n{number}"))
            with pytest.raises(ConcurrentWriter):
                await session.durable()
        assert isinstance(store.failure(session), ConcurrentWriter)
        assert len(session) == 4  # and is readable
        with pytest.raises(ConcurrentWriter):
            await store.close()
        assert {path: path.read_bytes() for path in (tmp_path / name).rglob("*.jsonl")} == before

    for name, change in changes.items():
        asyncio.run(main(name, change))
