"""Power cuts: the disk as it is at some moment under load, mounted anew.

An ext4 file system lives in a file. Copying that file while a writer runs gives what a disk holds when the power goes;
mounting the copy replays its journal, as after a power cut. Whatever was durable before the copy began must be there.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.durability import processes
from tests.durability.audit import Promises, goes_on, survived

SIZE = 48 << 20
PER_WRITER = 10
"""Images of one writer; then the next one starts on an empty disk."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty ext4 file system in a file."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts file systems, so no power cut is played here")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed, so no power cut is played here")
    image = tmp_path_factory.mktemp("disk") / "empty.ext4"
    with image.open("wb") as file:
        file.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
    try:
        with mounted(image, image.with_name("try")):
            pass
    except subprocess.CalledProcessError as error:
        pytest.skip(f"loop devices do not work here, so no power cut is played: {error.stderr.decode().strip()}")
    return image


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The file system of an image, while the block runs."""
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, capture_output=True)
        place.rmdir()


@pytest.mark.proof
def test_what_is_durable_survives_a_power_cut(
    tmp_path: Path, disk: Path, record_property: Callable[[str, object], None]
) -> None:
    images = 60 if FULL else 3
    events = 0
    for seed, first in enumerate(range(0, images, PER_WRITER)):
        events += _writer(tmp_path / f"writer{seed}", disk, seed, min(PER_WRITER, images - first))
    record_property("proof", f"power cuts, images of a live ext4 disk: {images}, {events:,} durable events, 0 lost")


def _writer(place: Path, disk: Path, seed: int, images: int) -> int:
    place.mkdir()
    image, dice, promises, events = place / "live.ext4", random.Random(seed), Promises(), 0
    shutil.copyfile(disk, image)
    encoding = ("plain", "zstd")[seed % 2]
    with (
        mounted(image, place / "live") as live,
        processes.started(processes.command("load", live / "root", seed, encoding)) as process,
    ):
        processes.hear_first(process, promises)
        for number in range(images):
            processes.hear(process, promises, dice.random() * 0.3)
            assert process.poll() is None, f"the writer of seed {seed} ended by itself"
            cut = place / f"cut{number}.ext4"
            shutil.copyfile(image, cut)
            try:
                events += _after(cut, place / "after", promises)
            except BaseException as error:
                error.add_note(f"writer {seed}, image {number}: {cut}")
                raise
            cut.unlink()
        process.kill()
        process.wait()
    image.unlink()
    return events


def _after(cut: Path, place: Path, promises: Promises) -> int:
    with mounted(cut, place) as disk:
        paths = survived(disk / "root", promises, written=False)
        goes_on(disk / "root", paths)
    return sum(promises.durable.values())
