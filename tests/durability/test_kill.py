"""`kill -9` under load: what was written is there, the log loads, and resuming closes it and goes on."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.durability import processes
from tests.durability.audit import Promises, goes_on, survived

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("encoding", ["plain", "zstd"])
def test_nothing_written_is_lost_by_kill_9(
    tmp_path: Path, encoding: str, record_property: Callable[[str, object], None]
) -> None:
    kills = 250 if FULL else 7 if encoding == "zstd" else 8
    events = 0
    for number in range(kills):
        root = tmp_path / str(number)
        seed = number if encoding == "plain" else 1000 + number
        events += _kill(root, seed, encoding)
    record_property("proof", f"kill -9 under load, {encoding}: {kills} kills, {events:,} written events, 0 lost")


def _kill(root: Path, seed: int, encoding: str) -> int:
    promises = Promises()
    with processes.started(processes.command("load", root, seed, encoding)) as process:
        processes.hear_first(process, promises)
        processes.hear(process, promises, random.Random(seed).random() * 0.25)
        assert process.poll() is None, f"the writer of seed {seed} ended by itself"
        process.kill()
        processes.hear_rest(process, promises)
    paths = survived(root, promises)
    goes_on(root, paths)
    return promises.events


def test_nothing_written_is_lost_by_kill_9_of_forked_writers(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kills = 3000 if FULL else 60
    told = processes.run("forked", tmp_path, kills)
    record_property(
        "proof", f"kill -9 of forked writers: {told['kills']} kills, {told['events']:,} written events, 0 lost"
    )
    assert told["kills"] == kills
