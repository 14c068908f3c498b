"""BC-059 on real files: kills, limits and roots that cannot be made; what is private."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durability.keeping import (
    log_under,
    say,
)
from turnlog.events import UserMessage
from turnlog.log import Durable
from turnlog.store import (
    WriteFailed,
    load,
    open_store,
)


def test_the_prompt_survives_a_kill_before_the_first_answer(tmp_path: Path) -> None:
    """BC-059: the user's text is durable before the request leaves; then the turn is closed as interrupted."""
    program = (
        "import asyncio, os, sys, turnlog\n"
        "from tests.log.sessions import user\n"
        "from turnlog.events import StepStart, TurnStart\n"
        "async def main():\n"
        "    store = turnlog.open_store(sys.argv[1])\n"
        "    session = await store.create(id='s')\n"
        "    session.append(TurnStart(turn=1)); session.append(user('an hour of work'))\n"
        "    session.append(StepStart(turn=1, step=1))\n"
        "    await session.durable()\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=Path.cwd(), check=False).returncode == -9

    async def main() -> None:
        async with open_store(tmp_path) as store:
            session = await store.resume("s")
            assert [event.type for event in session.events] == [
                "turn/start", "user/message", "step/start", "step/end", "turn/end", "session/end-seed",
            ]  # fmt: skip
            assert next(session.select(UserMessage)).data.content[0].text == "an hour of work"  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_real_disk_limit_refuses_a_batch_whole_and_the_retry_writes_it_once(tmp_path: Path) -> None:
    """BC-059: the file is cut back to its old length, the session stays readable and says why, and goes on later."""
    program = (
        "import asyncio, resource, sys, turnlog\n"
        "from pathlib import Path\n"
        "from tests.log.sessions import user\n"
        "from turnlog.store import WriteFailed\n"
        "def limit(size): resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))\n"
        "async def main():\n"
        "    async with turnlog.open_store(sys.argv[1], compressed=sys.argv[2] == 'zstd') as store:\n"
        "        session = await store.create(id='s')\n"
        "        session.append(user('kept', 'm0')); await session.durable()\n"
        "        log = next(Path(sys.argv[1]).glob('*/*/session.jsonl*'))\n"
        "        before = log.read_bytes(); limit(len(before) + 300)\n"
        "        import random; text = random.Random(1).randbytes(3000).hex()\n"
        "        session.append(user(text, 'm1')); session.append(user('more', 'm2'))\n"
        "        for _ in range(3):\n"
        "            try:\n"
        "                await session.durable(); print('durable?!')\n"
        "            except WriteFailed as error:\n"
        "                assert 'File too large' in str(error), error\n"
        "            assert log.read_bytes() == before\n"
        "            assert store.failure(session) and len(session.events) == 3\n"
        "        limit(resource.RLIM_INFINITY)\n"
        "        session.append(user('at last', 'm3')); await session.durable()\n"
        "        assert store.failure(session) is None\n"
        "        assert turnlog.load(log).events == session.events\n"
        "        assert turnlog.verify(log).verdict == 'ok'\n"
        "asyncio.run(main())\n"
    )
    for encoding in ("plain", "zstd"):
        command = [sys.executable, "-c", program, str(tmp_path / encoding), encoding]
        done = subprocess.run(command, cwd=Path.cwd(), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_first_append_that_no_disk_takes_leaves_nothing_behind(tmp_path: Path) -> None:
    """BC-059: the root cannot be made; there is no session, and the writer is told before anything is asked."""
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the root should be")

    async def main() -> None:
        store = open_store(blocked / "root")
        session = await store.create(id="s")
        say(session, "a")
        with pytest.raises(WriteFailed, match=r"cannot be made.*stays in memory"):
            await session.durable()
        blocked.unlink()
        blocked.mkdir()
        assert await session.durable() == Durable(1)
        await store.close()
        assert load(log_under(blocked / "root")).events == session.events

    asyncio.run(main())


def test_files_are_private_and_no_handle_is_left_open(tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")

    def count() -> int:
        return len([one for one in handles.iterdir() if str(tmp_path) in _target(one)]) if handles.exists() else 0

    async def main() -> None:
        async with open_store(tmp_path / "root") as store:
            sessions = [await store.create(id=f"s{number}") for number in range(10)]
            for session in sessions:
                say(session, "a")
                await session.durable()
                await store.release(session)
            assert count() == 0
        assert count() == 0
        for path in (tmp_path / "root", *(tmp_path / "root").rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path

    asyncio.run(main())


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
