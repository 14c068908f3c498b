"""A rewrite that is cut off anywhere leaves one whole log under the session, the old one or the new one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases.inputs import case
from tests.rewrite.sessions import edited, lines, where, write
from turnlog.store import LogCorrupt, WriteFailed, convert, list_sessions, load, repack, repair, verify
from turnlog.store.fs import Fs, OsFs


class PowerCut(Exception):
    """Nothing after it happens, not even cleaning up."""


class CuttingFs:
    """The real file system until its *n*-th call, which never happens, and none after it."""

    def __init__(self, calls: int, error: Callable[[], Exception]) -> None:
        self._fs: Fs = OsFs()
        self.left = calls
        self._error = error

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._fs, name)

        def counted(*arguments: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise self._error()
            return call(*arguments)

        return counted


def full() -> Exception:
    return OSError(28, "No space left on device")


def every_cut(tmp_path: Path, prepare: Callable[[Path], Path], act: Callable[[Path, Any], object],
              check: Callable[[Path], None]) -> int:  # fmt: skip
    """Cut *act* off before each of its calls, with a power cut and with a full disk; gives how many there are."""
    for number in range(200):
        ended = False
        for error, raised in ((PowerCut, PowerCut), (full, WriteFailed)):
            root = tmp_path / f"{number}-{error.__name__}"
            path = prepare(root)
            fs = CuttingFs(number, error)
            try:
                act(path, fs)
                ended = True
            except raised:
                pass
            check(root)
        if ended:
            return number
    raise AssertionError("it never ends")


def test_compressing_leaves_one_whole_log_wherever_it_is_cut_off(tmp_path: Path) -> None:
    (model,) = write(tmp_path / "model", "one", turns=2)
    said = lines(load(model))

    def prepare(root: Path) -> Path:
        shutil.copytree(tmp_path / "model", root)
        return where(root, "one")

    def check(root: Path) -> None:
        (entry,) = list_sessions([root])
        assert entry.problem is None
        assert lines(load(entry.path)) == said
        assert verify(entry.path).proof.state == "proven"
        repack(entry.path, compressed=True)  # doing it again finishes it
        assert where(root, "one").name == "session.jsonl.zstd"
        assert lines(load(where(root, "one"))) == said

    cuts = every_cut(tmp_path, prepare, lambda path, fs: repack(path, compressed=True, fs=fs), check)
    assert cuts >= 6


def test_applying_a_repair_leaves_the_damaged_or_the_repaired_log_wherever_it_is_cut_off(tmp_path: Path) -> None:
    (model,) = write(tmp_path / "model", "one", turns=2)
    edited(model, b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
    damaged = model.read_bytes()
    events = len(load(model, forensic=True)) - 1

    def prepare(root: Path) -> Path:
        shutil.copytree(tmp_path / "model", root)
        return where(root, "one")

    def check(root: Path) -> None:
        path = where(root, "one")
        kept = [one for one in path.parent.iterdir() if one.read_bytes() == damaged]
        assert kept  # under its own name, or as session.jsonl.damaged-…
        try:
            assert len(load(path)) == events
        except LogCorrupt:
            assert path in kept
            repair(path, apply=True)
            assert len(load(path)) == events

    cuts = every_cut(tmp_path, prepare, lambda path, fs: repair(path, apply=True, fs=fs), check)
    assert cuts >= 10


def test_a_conversion_that_was_cut_off_made_no_session_or_a_whole_one(tmp_path: Path) -> None:
    source = case(7)
    events = len(load(source))

    def prepare(root: Path) -> Path:
        root.mkdir()
        return root

    def check(root: Path) -> None:
        for entry in list_sessions([root]):
            assert entry.problem is None
            assert len(load(entry.path)) == events
            assert (entry.path.parent / "convert-map.json").exists()

    cuts = every_cut(tmp_path, prepare, lambda root, fs: convert(source, root, id="made", fs=fs), check)
    assert cuts >= 8


def test_a_full_disk_is_said_and_the_log_is_as_it_was(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    before = path.read_bytes()
    with pytest.raises(WriteFailed, match=r"No space left on device; .* was not changed"):
        repack(path, compressed=True, fs=CuttingFs(0, full))  # type: ignore[arg-type]
    assert path.read_bytes() == before
