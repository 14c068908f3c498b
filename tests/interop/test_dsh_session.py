"""dsh's own session package restores what we log, and derives the same from it.

Run by ``make interop``: needs Node.js and the npm registry. The logs are random: replaces, rewritten results, forks
with closers, plugin events, known dsh events, empty answers.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer_dsh
from benchmarks.logs import write_log
from tests.log.strategies import Writer
from turnlog import Session, load
from turnlog.events.lossless import plain
from turnlog.store.header import header_line

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]

LOGS = 60


def written(session: Session, path: Path) -> Path:
    lines = [header_line(session.header), *(event.line() for event in session.events)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def agrees(dsh: Path, path: Path, session: Session) -> None:
    theirs: dict[str, Any] = peer_dsh.run_peer(dsh, "check.mjs", str(path))
    assert theirs["id"] == session.id
    assert theirs["nodes"] == list(session.surface)
    assert theirs["replaceGeneration"] == session.generation
    assert theirs["messages"] == [json.loads(event.message_json) for event in session.message_events(as_stored=True)]
    marked = session.events[-1].type == "session/end-seed" if len(session) else False
    assert theirs["events"] == len(session) + (not marked)
    header = session.request_header()
    assert theirs.get("header") == (None if header is None else json.loads(json.dumps(plain(header))))


@pytest.mark.parametrize("seed", range(LOGS))
def test_dsh_derives_from_a_random_log_what_we_derive(dsh: Path, tmp_path: Path, seed: int) -> None:
    tape = random.Random(seed).randbytes(400)
    session = Writer(tape, forks=seed % 2 == 1).write()
    path = written(session, tmp_path / "session.jsonl")
    agrees(dsh, path, session)
    agrees(dsh, path, load(path))


@pytest.mark.parametrize("seed", range(0, LOGS, 6))
def test_dsh_restores_a_fork_at_any_event(dsh: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    parent = Writer(chance.randbytes(300)).write()
    child = parent.fork(at=chance.randrange(len(parent) + 1), id="child")
    agrees(dsh, written(child, tmp_path / "child.jsonl"), child)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("frame", [None, 20])
def test_we_derive_from_a_long_log_what_dsh_derives(dsh: Path, tmp_path: Path, packed: bool, frame: int | None) -> None:
    path = tmp_path / ("session.jsonl" if frame is None else "session.jsonl.zstd")
    write_log(path, steps=200, packed=packed, zstd_frame=frame)
    agrees(dsh, path, load(path))


def test_dsh_and_we_agree_on_its_own_logs(dsh: Path) -> None:
    logs = sorted((Path(__file__).parents[1] / "data" / "corpus" / "v0").glob("*/*/session.jsonl.zstd"))
    assert logs
    for path in logs:
        agrees(dsh, path, load(path))
