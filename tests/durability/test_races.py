"""Two writers of one session: exactly one wins, the others are told why not, and histories never mix."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
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
    SessionLocked,
    load,
    open_store,
    verify,
)
from turnlog.store.attest import ATTEST_NAME
from turnlog.store.fs import OsFs, OsHandle
from turnlog.store.liveness import LOCK_NAME

BOTH = pytest.mark.parametrize("compressed", [False, True])


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


def test_a_session_that_is_taken_and_not_kept_yet_is_not_resumed_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_store(tmp_path) as store:
            session = await store.create(id="s")
            session.append(user())
            await store.release(session)
            first = asyncio.create_task(store.resume("s"))
            await asyncio.sleep(0)  # it asks a thread to take the session
            while store._taking["s"].busy:
                time.sleep(0.001)  # the loop stands still: what was taken cannot be kept
            with pytest.raises(SessionLocked, match="being resumed by this very store"):
                await store.resume("s")
            assert len(await first) == 2

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


@BOTH
@pytest.mark.parametrize("heir_writes", [False, True])
def test_what_a_stopped_writer_still_writes_goes_nowhere(tmp_path: Path, compressed: bool, heir_writes: bool) -> None:
    """It was stopped after its last look and before its write, lost its lock to an heir, and came back."""
    fs = _TakenOver()
    first, heir = FileStore(tmp_path, compressed=compressed, fs=fs), FileStore(tmp_path, adopt=True)
    first.create(SessionHeader(version=0, id="s", created_at=1))
    lines = [event.line() for event in _talk("a", "b", "c", "d").events]
    first.append("s", 0, lines[:1])
    log = next(tmp_path.glob("*/*/session.jsonl*"))
    own = lines[1].replace(b'"b"', b'"B"')

    def take_over() -> None:
        log.with_name(LOCK_NAME).unlink()
        assert heir.append("s", None, ()) == 1
        if heir_writes:
            heir.append("s", 1, [own])

    fs.before_write = take_over
    first.append("s", 1, [lines[1]])
    for _ in range(2):
        with pytest.raises(ConcurrentWriter, match="taken over"):
            first.sync("s")
        with pytest.raises(ConcurrentWriter, match="taken over"):
            first.append("s", 2, [lines[2]])
    heir.append("s", 2 if heir_writes else 1, lines[2:3] if heir_writes else lines[1:2])
    heir.sync("s")
    heir.close()
    stored = [event.line() for event in load(log).events]
    assert stored == ([lines[0], own, lines[2]] if heir_writes else lines[:2])


def test_a_real_process_stopped_before_its_write_is_fenced(tmp_path: Path) -> None:
    """The same between processes: the first one stops itself there, for good as far as it knows."""
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from turnlog.log import SessionHeader\n"
        "from turnlog.store import ConcurrentWriter, FileStore\n"
        "from turnlog.store.fs import OsHandle\n"
        "store = FileStore(Path(sys.argv[1]))\n"
        "store.create(SessionHeader(version=0, id='s', created_at=1))\n"
        "lines = [line.encode() for line in sys.argv[2:]]\n"
        "store.append('s', 0, lines[:1])\n"
        "write = OsHandle.write\n"
        "def stopping(self, data):\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    return write(self, data)\n"
        "OsHandle.write = stopping\n"
        "store.append('s', 1, lines[1:])\n"
        "try:\n"
        "    store.sync('s')\n"
        "except ConcurrentWriter as error:\n"
        "    sys.exit(7)\n"
    )
    lines = [event.line() for event in _talk("a", "b", "c").events]
    command = [sys.executable, "-c", program, str(tmp_path), lines[0].decode(), lines[1].decode()]
    with subprocess.Popen(command) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        log = next(tmp_path.glob("*/*/session.jsonl"))
        log.with_name(LOCK_NAME).unlink()
        heir = FileStore(tmp_path, adopt=True)
        assert heir.append("s", None, ()) == 1
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 7
    heir.append("s", 1, [lines[1], lines[2]])
    heir.close()
    assert [event.line() for event in load(log).events] == lines


def test_a_forked_child_is_no_writer_and_keeps_no_lock(tmp_path: Path) -> None:
    """Its writes are refused by name, closing ends, and its parent's death frees the session though it lives."""
    program = (
        "import asyncio, os, select, sys\n"
        "from pathlib import Path\n"
        "from tests.log.sessions import user\n"
        "import turnlog\n"
        "from turnlog.log import SessionHeader\n"
        "from turnlog.store import ConcurrentWriter, FileStore\n"
        "root = Path(sys.argv[1])\n"
        "async def main():\n"
        "    store = turnlog.open_store(root)\n"
        "    session = await store.create(id='s'); session.append(user('a')); await session.durable()\n"
        "    files = FileStore(root)\n"
        "    files.create(SessionHeader(version=0, id='t', created_at=1))\n"
        "    files.append('t', 0, [session.events[0].line()])\n"
        "    return store, session, files\n"
        "store, session, files = asyncio.run(main())\n"
        "async def child():\n"
        "    session.append(user('b', 'm1'))\n"
        "    for wait in (session.durable, store.close, session.durable):\n"
        "        try:\n"
        "            await wait(); return 3\n"
        "        except ConcurrentWriter as error:\n"
        "            assert 'forked' in str(error), error\n"
        "    try:\n"
        "        files.append('t', 1, [session.events[1].line()]); return 4\n"
        "    except ConcurrentWriter as error:\n"
        "        assert 'forked' in str(error), error\n"
        "    files.close()\n"
        "    return 0\n"
        "if os.fork() == 0:\n"
        "    code = asyncio.run(child())\n"
        "    print(code, flush=True)\n"
        "    ends = select.poll(); ends.register(0, 0); ends.poll()  # for its end: what is in it is the parent's\n"
        "    os._exit(0)\n"
        "while os.read(0, 1) != b'k': pass\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        for id in ("s", "t"):
            with pytest.raises(SessionLocked, match=f"pid {process.pid} "):
                FileStore(tmp_path).append(id, None, ())
        process.stdin.write(b"k")
        process.stdin.flush()
        assert process.wait() == -9
        for id in ("s", "t"):  # the child lives
            heir = FileStore(tmp_path)
            assert heir.append(id, None, ()) == 1
            heir.close()


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

        def logs() -> dict[Path, bytes]:
            found = (tmp_path / name).rglob("*.jsonl")
            return {path: path.read_bytes() for path in found if path.name != ATTEST_NAME}

        before = logs()
        for number in range(3):
            session.append(user("more", f"n{number}"))
            with pytest.raises(ConcurrentWriter):
                await session.durable()
        assert isinstance(store.failure(session), ConcurrentWriter)
        assert len(session) == 4  # and is readable
        with pytest.raises(ConcurrentWriter):
            await store.close()
        assert logs() == before

    for name, change in changes.items():
        asyncio.run(main(name, change))
