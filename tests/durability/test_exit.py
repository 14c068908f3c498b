"""Programs that end without closing their store: what they appended is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from turnlog.store import list_sessions, load, verify

PROGRAM = """
import asyncio, os, sys
import turnlog
from tests.log.sessions import user
from turnlog.store import WriteFailed, behind
for name in ("WRITE_WITHIN", "SYNC_WITHIN", "SEAL_WITHIN", "RETRY_WITHIN"):
    setattr(behind, name, 10**6)  # nothing happens by itself before the end
async def main():
    store = turnlog.open_store(sys.argv[1], compressed=sys.argv[2] == "zstd")
    sessions = [await store.create(id=f"s{number}") for number in range(5)]
    for session in sessions:
        for number in range(9):
            session.append(user(str(number), f"m{number}"))
            if session is sessions[0]:
                await session.durable()
    return store, sessions
"""


def run(root: Path, encoding: str, then: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM + then, str(root), encoding]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("encoding", ["plain", "zstd"])
@pytest.mark.parametrize("then", ["asyncio.run(main())", "kept = asyncio.run(main())", "asyncio.run(main()); 1 / 0"])
def test_a_program_that_ends_without_closing_has_written_everything(tmp_path: Path, encoding: str, then: str) -> None:
    done = run(tmp_path, encoding, then)
    assert done.returncode == ("1 / 0" in then), done.stderr
    entries = list_sessions([tmp_path])
    assert len(entries) == 5
    for entry in entries:
        session = load(entry.path)
        assert len(session) == 9
        assert session.liveness == "gone"
        assert verify(entry.path).proof.state == "proven"


def test_a_disk_that_takes_nothing_does_not_keep_a_program_from_ending(tmp_path: Path) -> None:
    then = (
        "kept = asyncio.run(main())\n"
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
    )
    done = run(tmp_path, "plain", then)
    assert (done.returncode, done.stderr) == (0, "")
    assert [len(load(entry.path)) for entry in list_sessions([tmp_path])] == [9]


def test_a_forked_child_that_ends_writes_nothing_of_its_parents(tmp_path: Path) -> None:
    then = (
        "store, sessions = asyncio.run(main())\n"
        "if child := os.fork():\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    print(len(os.listdir(sys.argv[1] + '/_no-cwd')), flush=True)\n"
    )
    done = run(tmp_path, "plain", then)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    assert len(list_sessions([tmp_path])) == 5
