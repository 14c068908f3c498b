"""What the loop writes, dsh's own code opens, nests and migrates.

Run by ``make interop``, like tests/interop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

import turnlog
from benchmarks import peer_dsh
from tests.agent.soak import agent_on, turn
from turnlog.log import Session

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]

SESSIONS = 30


async def written(root: Path) -> list[Session]:
    """Sessions in which anything happened: refusals, retries, cancels, steering, real commands."""
    sessions = []
    async with turnlog.open_store(root) as store:
        for seed in range(SESSIONS):
            random = Random(seed)
            session = await store.create(cwd="/work")
            async with agent_on(session, random, root.parent, "echo ran" if seed % 5 == 0 else None) as agent:
                for _ in range(6):
                    await turn(agent, random)
            sessions.append(session)
    return sessions


def messages(session: Session) -> list[Any]:
    return [json.loads(event.message_json) for event in session.message_events(as_stored=True)]


def test_dsh_opens_nests_and_migrates_what_the_loop_writes(tmp_path: Path) -> None:
    peer = peer_dsh.ensure_peer()
    if peer is None:
        pytest.skip("no Node.js, or its registry cannot be reached")
    logging.disable(logging.ERROR)
    try:
        sessions = asyncio.run(written(tmp_path / "store"))
    finally:
        logging.disable(logging.NOTSET)
    verdicts = {one["id"]: one for one in peer_dsh.run_peer(peer, "judge.mjs", tmp_path / "store", "none")}

    assert set(verdicts) == {session.id for session in sessions}
    for session in sessions:
        theirs = verdicts[session.id]
        types = [event.type for event in session.events]
        assert theirs["inspected"]["value"] == types
        assert "error" not in theirs["nested"], theirs["nested"]
        assert theirs["restored"]["value"]["nodes"] == list(session.surface)
        assert theirs["restored"]["value"]["messages"] == messages(session)
        assert "error" not in theirs["migrated"], theirs["migrated"]
    seen = {event.type for session in sessions for event in session.events}
    assert {"hook/invoked", "hook/result", "llm/retry", "llm/retry-started", "tool/result"} <= seen
