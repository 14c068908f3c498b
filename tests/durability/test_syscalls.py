"""Errors and kills at each system call of a fixed piece of work, injected by strace.

Whatever fails: what was durable is there, the log loads and resumes, and the writer says what happened.
"""

from __future__ import annotations

import random
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.conftest import FULL
from tests.durability import processes
from tests.durability.audit import Promises, goes_on, survived

CALLS: Final = "write,fsync,fdatasync,ftruncate,link,linkat,mkdir,unlink,flock"
FAULTS: Final = {
    "write": ("error=EIO", "error=ENOSPC", "retval=0", "signal=KILL"),
    "fsync": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "fdatasync": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "ftruncate": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "link": ("error=EIO", "error=ENOSPC", "error=EMLINK", "signal=KILL"),
    "linkat": ("error=EIO", "error=ENOSPC", "signal=KILL"),
    "mkdir": ("error=ENOSPC", "error=EIO", "signal=KILL"),
    "unlink": ("error=EIO", "signal=KILL"),
    "flock": ("error=EINTR", "signal=KILL"),
}
LEAST: Final = 300
"""Points that the whole proof has to fail at."""
SAYS: Final = re.compile(rb"(?m)^(\d+) +(\w+)\(")


class Point(NamedTuple):
    """Where something fails: the *index*-th such call of a thread."""

    encoding: str
    call: str
    index: int
    fault: str

    @property
    def rule(self) -> str:
        """For strace."""
        return f"inject={self.call}:{self.fault}:when={self.index}"


@pytest.fixture(scope="module")
def strace(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs another one with an eye on its system calls."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed, so no system call can be made to fail (apt-get install strace)")
    command = [found, "-f", "-qq", "-e", f"trace={CALLS}"]
    tried = subprocess.run([*command, "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"strace does not work here: {tried.stderr.strip()}")
    return command


@pytest.mark.proof
def test_no_failing_system_call_loses_what_was_durable(
    tmp_path: Path, strace: list[str], record_property: Callable[[str, object], None]
) -> None:
    points = [point for encoding in ("plain", "zstd") for point in _points(tmp_path, strace, encoding)]
    assert len(points) >= LEAST, f"the work makes too few calls: {len(points)} points"
    if not FULL:
        points = random.Random(len(points)).sample(points, 15)
    ends: Counter[str] = Counter()
    for number, point in enumerate(points):
        try:
            ends[_try(tmp_path / str(number), strace, point)] += 1
        except BaseException as error:
            error.add_note(f"{point} in {tmp_path / str(number)}")
            raise
    assert ends["not reached"] <= len(points) // 10
    assert not FULL or len(points) - ends["not reached"] >= LEAST
    told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    record_property("proof", f"system calls made to fail: {len(points)} ({told}), 0 durable events lost")


def _points(tmp_path: Path, strace: list[str], encoding: str) -> list[Point]:
    """Every fault at every call that the work makes when nothing fails."""
    trace = tmp_path / f"{encoding}.trace"
    _promises, status, errors = _run([*strace, "-o", str(trace)], tmp_path / encoding, encoding)
    assert status == 0, errors
    counts = Counter(SAYS.findall(trace.read_bytes()))
    most: Counter[str] = Counter()
    for (_thread, name), count in counts.items():
        most[name.decode()] = max(most[name.decode()], count)
    assert {"write", "ftruncate", "mkdir", "unlink", "flock"} <= set(most)
    assert {"fsync", "fdatasync"} & set(most)
    assert {"link", "linkat"} & set(most)
    return [
        Point(encoding, call, index, fault)
        for call, count in sorted(most.items())
        for index in range(1, count + 1)
        for fault in FAULTS[call]
    ]


def _try(root: Path, strace: list[str], point: Point) -> str:
    trace = root.with_suffix(".trace")
    promises, status, errors = _run([*strace, "-o", str(trace), "-e", point.rule], root, point.encoding)
    assert status in (0, 3, -9, 137), f"exit {status}: {errors}"
    paths = survived(root, promises)
    goes_on(root, paths)
    text = trace.read_bytes()
    if b"(INJECTED)" not in text and b"killed by SIGKILL" not in text:
        return "not reached"  # batches differ from run to run
    return {0: "went on", 3: "stopped"}.get(status, "killed")


def _run(strace: list[str], root: Path, encoding: str) -> tuple[Promises, int, str]:
    ours, theirs = socket.socketpair()
    promises = Promises()
    with ours:
        with theirs:
            command = [*strace, *processes.command("workload", root, encoding, theirs.fileno())]
            running = processes.started(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
            process = running.__enter__()
        try:
            ours.settimeout(processes.PATIENCE)
            while data := ours.recv(1 << 16):
                promises.feed(data)
            _output, errors = process.communicate(timeout=processes.PATIENCE)
        finally:
            running.__exit__(None, None, None)
    return promises, process.returncode, errors.decode()
