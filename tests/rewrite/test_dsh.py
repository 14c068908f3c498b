"""dsh's own loader opens what we convert, repair and repack, and derives the same from it. Run by ``make interop``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer_dsh
from tests.cases.inputs import case
from tests.rewrite.sessions import laid_out, write
from tests.store.logs import CORPUS
from turnlog import load
from turnlog.store import list_sessions, repack_root, repair

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]


@pytest.fixture(scope="module")
def dsh() -> Path:
    peer = peer_dsh.ensure_peer()
    if peer is None:
        pytest.skip("no Node.js, or its registry cannot be reached")
    return peer


def opens(dsh: Path, root: Path, *, compressed: bool = False) -> None:
    """dsh lists and opens every session under *root*, and derives our messages."""
    found: list[dict[str, Any]] = peer_dsh.run_peer(dsh, "inspect.mjs", root, "zstd" if compressed else "none")
    entries = list_sessions([root])
    assert {one["id"] for one in found} == {entry.id for entry in entries}
    assert [one for one in found if "error" in one] == []
    for entry in entries:
        session = load(entry.path)
        theirs: dict[str, Any] = peer_dsh.run_peer(dsh, "check.mjs", entry.path)
        assert theirs["nodes"] == list(session.surface)
        mine = [json.loads(event.message_json) for event in session.message_events(as_stored=True)]
        assert theirs["messages"] == mine


@pytest.mark.parametrize("for_dsh", [False, True], ids=["all", "for-dsh"])
@pytest.mark.parametrize("version", ["sample", "v0", "v3", "v4"])
def test_dsh_opens_what_was_converted(dsh: Path, tmp_path: Path, version: str, for_dsh: bool) -> None:
    from turnlog.store import convert

    paths = sorted((CORPUS / version).rglob("session*.jsonl*"))
    for number, path in enumerate(paths):
        convert(path, tmp_path, id=f"made-{number}", for_dsh=for_dsh)
    opens(dsh, tmp_path)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (4, "end-seed-collision.jsonl"),
        (5, "forked-log.jsonl"),
        (11, "nul-replaces-record.jsonl"),
        (46, "whole-log-in-one-frame.jsonl.zstd"),
        (47, "skippable-frame.jsonl.zstd"),
        (49, "bad-checksum-middle.jsonl.zstd"),
        (50, "bom.jsonl"),
        (50, "latin1.jsonl"),
    ],
)
def test_dsh_opens_what_was_repaired_beside_what_was_damaged(dsh: Path, tmp_path: Path, number: int, name: str) -> None:
    path = laid_out(tmp_path, case(number, name))
    repair(path)  # leaves a second file in the directory
    repair(path, apply=True, force=True)
    assert len(list(path.parent.iterdir())) >= 4
    opens(dsh, tmp_path, compressed=path.suffix == ".zstd")


def test_dsh_opens_a_repacked_root(dsh: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CORPUS / "v0", root, ignore=shutil.ignore_patterns("expected"))
    for compressed in (False, True):
        repack_root(root, compressed=compressed, force=True)
        opens(dsh, root, compressed=compressed)
    write(tmp_path / "ours", "one", "two", turns=3)
    repack_root(tmp_path / "ours", compressed=True)
    opens(dsh, tmp_path / "ours", compressed=True)
