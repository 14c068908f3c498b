"""Killing the harness at any moment of a command leaves none of the command's processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KILLS = 60 if os.environ.get("TURNLOG_PROOF") == "full" else 4
PROGRAM = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.tools.builtin.test_bash import rig

async def main():
    one = rig(Path(sys.argv[2]))
    print("ready", flush=True)
    while True:
        many = [one.run("bash", command="trap '' TERM; (sleep 30; echo) & (sleep 30; echo) & sleep 0.05") for _ in "ab"]
        await asyncio.gather(*many)

asyncio.run(main())
"""


def marked(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"KILL_TEST={mark}".encode() in environment and state not in "ZX":
                found.append(int(entry.name))
    return found


@pytest.mark.proof
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_killing_the_harness_at_random_moments_leaves_no_process(tmp_path: Path) -> None:
    moments = random.Random(5)
    for round_ in range(KILLS):
        mark = f"{os.getpid()}-{round_}"
        harness = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(ROOT), str(tmp_path)],
            env={**os.environ, "KILL_TEST": mark},
            stdout=subprocess.PIPE,
        )
        assert harness.stdout is not None
        with harness, harness.stdout:
            assert harness.stdout.readline() == b"ready\n"
            time.sleep(moments.uniform(0, 0.4))
            harness.send_signal(signal.SIGKILL)
            harness.wait()
        deadline = time.monotonic() + 10
        while left := marked(mark):
            assert time.monotonic() < deadline, f"killed in round {round_}, still there: {left}"
            time.sleep(0.02)
