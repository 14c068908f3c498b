"""``rm``: a session's own files go, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cases.inputs import case
from tests.rewrite.sessions import CWD, clock, edited, files, laid_out, write, writer
from turnlog import open_store
from turnlog.store import RewriteRefused, SessionLocked, SessionNotFound, load, plan_removal, remove, repair


def test_the_directory_of_the_session_goes_and_its_neighbours_stay(tmp_path: Path) -> None:
    paths = write(tmp_path, "one", "two")
    done = remove(paths[0])
    assert (done.id, done.files) == ("one", ("session.jsonl", "attest.jsonl", "session.lock"))
    assert not paths[0].parent.exists()
    assert load(paths[1]).id == "two"


def test_what_repairs_and_crashes_left_goes_too(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    edited(path, b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
    repair(path, clock=clock)
    repair(path, apply=True, clock=clock)
    for name in ("session.jsonl.0123456789ab.tmp", "attest.jsonl.0123456789ab.new.tmp", "convert-map.json"):
        (path.parent / name).write_bytes(b"")
    assert plan_removal(path).others == ()
    remove(path)
    assert not path.parent.exists()


def test_files_of_others_stay_and_are_named(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    (path.parent / "notes.txt").write_text("mine")
    (path.parent / "session.jsonl.mine").write_text("mine")
    (path.parent / "deep").mkdir()
    done = remove(path.parent)
    assert done.others == ("deep", "notes.txt", "session.jsonl.mine")
    assert files(path.parent) == ["deep", "notes.txt", "session.jsonl.mine"]


def test_links_are_removed_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (path,) = write(root, "one")
    target = tmp_path / "elsewhere.jsonl"
    path.rename(target)
    path.symlink_to(target)
    (path.parent / "attest.jsonl").unlink()
    (path.parent / "attest.jsonl").symlink_to(tmp_path)
    remove(path)
    assert not path.parent.exists()
    assert target.exists()


def test_a_link_to_a_session_directory_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (path,) = write(root, "one")
    link = path.parent.with_name("two")
    link.symlink_to(path.parent)
    with pytest.raises(RewriteRefused, match="is a link"):
        remove(link)
    assert path.exists()


def test_a_live_session_is_refused(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    with writer(path):
        assert plan_removal(path).liveness == "live"
        with pytest.raises(SessionLocked):
            remove(path, force=True)
    assert path.exists()


def test_a_session_that_dsh_may_write_needs_force(tmp_path: Path) -> None:
    path = laid_out(tmp_path, case(7))
    with pytest.raises(SessionLocked, match="--force"):
        remove(path)
    remove(path, force=True)
    assert not path.parent.exists()


def test_forks_are_named_and_keep_what_they_inherited(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "parent")

    async def fork() -> None:
        async with open_store(tmp_path) as store:
            child = load(path).fork(at=5, id="child")
            store.keep(child)
            await child.durable()

    asyncio.run(fork())
    done = remove(path)
    (child,) = done.forks
    assert child.id == "child"
    assert [event.type for event in load(child.path).events][:3] == ["turn/start", "step/start", "user/message"]


def test_a_damaged_session_is_removed_by_its_directory(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    path.write_bytes(b"\0" * 100)
    assert remove(path.parent).id == "one"


def test_what_is_no_session_of_a_root_is_left_alone(tmp_path: Path) -> None:
    loose = tmp_path / "session.jsonl"
    loose.write_bytes(case(7).read_bytes())
    with pytest.raises(RewriteRefused, match="does not lie in a root"):
        remove(loose)
    directory = tmp_path / f"--{CWD.strip('/').replace('/', '-')}--" / "empty"
    directory.mkdir(parents=True)
    with pytest.raises(SessionNotFound):
        remove(directory)
    with pytest.raises(SessionNotFound):
        remove(tmp_path / "nothing")
    (tmp_path / "--p--").mkdir()
    stray = tmp_path / "--p--" / "session.jsonl.txt"
    stray.write_bytes(b"")
    with pytest.raises(SessionNotFound):
        remove(stray)
    assert loose.exists()
