"""Sessions that the loop wrote pass dsh's own code: loader, grammar, session package, migrations.

Run by ``make interop``: needs Node.js and the npm registry.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import turnlog
from tests.interop.test_dsh_files import ENCODINGS, migrates, passes, verdicts
from tests.rerun.scenarios import SCENARIOS, plain
from turnlog import Session

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]


@ENCODINGS
def test_dsh_loads_and_migrates_what_the_loop_wrote(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sessions: list[Session] = []

    async def work() -> None:
        async with turnlog.open_store(tmp_path, compressed=encoding == "zstd") as store:
            for scenario in SCENARIOS:
                session = await store.create(cwd=tmp_path, id=scenario.__name__)
                await scenario(session)
                await session.durable()
                sessions.append(session)

    asyncio.run(work())
    found = verdicts(dsh, tmp_path, encoding)
    for session in sessions:
        passes(found[session.id], session)
        migrates(found[session.id], session)


@ENCODINGS
def test_dsh_loads_and_migrates_what_the_loop_resumed(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sessions: list[Session] = []

    async def work() -> None:
        async with turnlog.open_store(tmp_path, compressed=encoding == "zstd") as store:
            for scenario in SCENARIOS:
                await scenario(await store.create(cwd=tmp_path, id=scenario.__name__))
        async with turnlog.open_store(tmp_path) as store:
            for scenario in SCENARIOS:
                session = await store.resume(scenario.__name__)
                await plain(session)
                await session.durable()
                sessions.append(session)

    asyncio.run(work())
    found = verdicts(dsh, tmp_path, encoding)
    for session in sessions:
        passes(found[session.id], session)
        migrates(found[session.id], session)
