"""Forks writers and kills them, one after the other; runs in a process without threads."""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import shutil
import signal
import time
import traceback
from pathlib import Path

from tests.durability.audit import Promises, goes_on, survived
from tests.durability.load import pipe_to, write_for_ever


def main(directory: str, kills: str) -> None:
    """Kill so many writers; prints how many events they had written."""
    events = 0
    for seed in range(int(kills)):
        root = Path(directory) / str(seed)
        promises = _killed(root, seed)
        paths = survived(root, promises)
        if seed % 8 == 0:
            goes_on(root, paths)
        events += promises.events
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps({"kills": int(kills), "events": events}))


def _killed(root: Path, seed: int) -> Promises:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            asyncio.run(write_for_ever(root, seed, pipe_to(theirs), compressed=seed % 3 == 2))
        except BaseException:
            traceback.print_exc()  # it never ends by itself
        finally:
            os._exit(1)
    os.close(theirs)
    promises = Promises()
    if seed % 5:  # the others may be killed before anything is there
        promises.feed(os.read(ours, 1 << 16))
    until = time.monotonic() + random.Random(seed).random() * 0.06
    while (left := until - time.monotonic()) > 0:
        if select.select([ours], [], [], left)[0]:
            promises.feed(os.read(ours, 1 << 16))
    os.kill(child, signal.SIGKILL)
    while data := os.read(ours, 1 << 16):
        promises.feed(data)
    os.close(ours)
    _pid, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the writer of seed {seed} ended by itself"
    return promises
