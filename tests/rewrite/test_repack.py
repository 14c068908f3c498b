"""``compress`` and ``decompress``: another file that says the same, whose seals stay valid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cases.inputs import case
from tests.rewrite.sessions import clock, edited, files, laid_out, lines, messages, reported, where, write, writer
from tests.store.logs import CORPUS, Log, contents
from turnlog.store import (
    FileStore,
    LogCorrupt,
    RewriteRefused,
    SessionLocked,
    list_sessions,
    load,
    repack,
    repack_root,
    verify,
)
from turnlog.store.frames import walk_frames
from turnlog.store.liveness import liveness


def test_the_log_says_the_same_and_its_seals_stay_valid(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one", turns=5)
    before, seals = load(path), (path.parent / "attest.jsonl").read_bytes()
    assert verify(path).proof.state == "proven"
    for compressed, name in ((True, "session.jsonl.zstd"), (False, "session.jsonl")):
        (done,) = repack(where(tmp_path, "one"), compressed=compressed)
        assert done.path == path.with_name(name)
        assert files(path.parent) == ["attest.jsonl", name, "session.lock"]
        after = load(done.path)
        assert (lines(after), messages(after)) == (lines(before), messages(before))
        report = verify(done.path)
        assert (report.ok, report.proof.state, report.proof.seq) == (True, "proven", len(before))
        assert (done.before, done.after) == (done.before, done.path.stat().st_size)
        assert (path.parent / "attest.jsonl").read_bytes() == seals


def test_a_repacked_session_is_resumed_and_goes_on_in_its_new_encoding(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    repack(path, compressed=True)
    store = FileStore(tmp_path)
    assert store.compressed
    store.append("one", None, ())
    store.close()
    assert liveness(where(tmp_path, "one")) == "gone"


def test_rows_are_packed_and_frames_are_full(tmp_path: Path) -> None:
    """A writer stores what a barrier has; a repacked log has few frames and long rows."""
    store = FileStore(tmp_path, compressed=True)
    (plain,) = write(tmp_path / "other", "one", turns=30)
    session = load(plain)
    store.create(session.header)
    for number, line in enumerate(lines(session)):
        store.append("one", number, [line])
    store.sync("one")
    store.close()
    path = where(tmp_path, "one")
    assert len(walk_frames(path.read_bytes()).frames) == len(session) + 1
    (done,) = repack(path, compressed=True)
    walk = walk_frames(path.read_bytes())
    assert (walk.stop, len(walk.frames)) == ("end", 2)
    assert done.after < done.before / 10
    assert contents(path.read_bytes()).count(b"text-chunks") == 30
    assert lines(load(path)) == lines(session)


def test_packing_again_changes_nothing(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one", compressed=True)
    repack(path, compressed=True)
    inode = path.stat().st_ino
    (done,) = repack(path, compressed=True)
    assert (path.stat().st_ino, done.before) == (inode, done.after)


def test_one_session_is_refused_where_its_root_would_mix_encodings(tmp_path: Path) -> None:
    paths = write(tmp_path, "one", "two")
    with pytest.raises(RewriteRefused, match=r"1 more that are plain.*--root"):
        repack(paths[0], compressed=True)
    assert all(path.exists() for path in paths)
    shutil.rmtree(paths[1].parent)
    repack(paths[0], compressed=True)  # the only session of its root is the whole root


def test_a_whole_root_is_repacked_session_by_session(tmp_path: Path) -> None:
    paths = write(tmp_path, *(f"s{number}" for number in range(5)))
    before = {path.parent.name: lines(load(path)) for path in paths}
    done = repack_root(tmp_path, compressed=True)
    assert [one.path.name for one in done] == ["session.jsonl.zstd"] * 5
    assert {entry.id: lines(load(entry.path)) for entry in list_sessions([tmp_path])} == before
    assert FileStore(tmp_path).compressed
    assert all(verify(one.path).proof.state == "proven" for one in done)


def test_a_root_is_looked_through_before_anything_is_changed(tmp_path: Path) -> None:
    paths = write(tmp_path, "damaged", "fine", "torn")
    edited(paths[0], b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
    paths[2].write_bytes(paths[2].read_bytes()[:-5])
    before = {path: path.read_bytes() for path in paths}
    with pytest.raises(RewriteRefused, match=r"nothing under .* was changed") as refused:
        repack_root(tmp_path, compressed=True)
    assert "NUL bytes" in str(refused.value)
    assert "--cut-torn" in str(refused.value)
    assert {path: path.read_bytes() for path in paths} == before


def test_a_torn_tail_is_only_left_out_when_somebody_says_so_and_is_noted(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    path.write_bytes(path.read_bytes() + b'{"type":"turn/st')
    with pytest.raises(RewriteRefused, match="resume the session"):
        repack(path, compressed=True)
    (done,) = repack(path, compressed=True, cut_torn=True, clock=clock)
    assert (done.cut or "").startswith("16 bytes")
    report = verify(done.path)
    assert (report.verdict, report.proof.state) == ("ok", "proven")
    assert [note.text for note in report.proof.notes] == [f"repacked without the last {done.cut}"]


def test_a_damaged_log_is_not_repacked(tmp_path: Path) -> None:
    with pytest.raises(LogCorrupt):
        repack(reported(tmp_path, 4, "end-seed-collision.jsonl"), compressed=True)
    assert files(tmp_path) == ["end-seed-collision.jsonl"]


def test_a_live_session_and_one_that_dsh_may_write_are_left_alone(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    with writer(path):
        with pytest.raises(SessionLocked):
            repack(path, compressed=True, force=True)
        with pytest.raises(RewriteRefused, match="is being written"):
            repack_root(tmp_path, compressed=True, force=True)
    (path.parent / "session.lock").unlink()
    with pytest.raises(SessionLocked, match="--force"):
        repack(path, compressed=True)
    with pytest.raises(RewriteRefused, match="--force"):
        repack_root(tmp_path, compressed=True)
    repack_root(tmp_path, compressed=True, force=True)


@pytest.mark.parametrize("version", ["v0", "v3", "v4"])
def test_a_root_of_dsh_in_any_format_is_unpacked_and_packed_again(tmp_path: Path, version: str) -> None:
    root = tmp_path / "root"
    shutil.copytree(CORPUS / version, root, ignore=shutil.ignore_patterns("expected"))
    before = {entry.id: lines(load(entry.path)) for entry in list_sessions([root])}
    for compressed in (False, True):
        done = repack_root(root, compressed=compressed, force=True)
        assert len(done) == len(before)
        assert {entry.id: lines(load(entry.path)) for entry in list_sessions([root])} == before
        assert all(verify(one.path).ok for one in done)


def test_every_generation_of_a_session_is_repacked(tmp_path: Path) -> None:
    path = laid_out(tmp_path, case(7))
    newer = Log(load(path).id, version=3, cwd=load(path).header.cwd)
    newer.turn()
    path.with_name("session.v3.jsonl").write_bytes(newer.text())
    done = repack(path, compressed=True, force=True)
    assert [one.path.name for one in done] == ["session.jsonl.zstd", "session.v3.jsonl.zstd"]
    assert files(path.parent) == ["session.jsonl.zstd", "session.lock", "session.v3.jsonl.zstd"]


def test_the_name_of_another_file_is_never_taken(tmp_path: Path) -> None:
    path = reported(tmp_path, 7)
    other = path.with_name("session.jsonl.zstd")
    other.write_bytes(b"mine")
    with pytest.raises(RewriteRefused, match="two files of one generation"):
        repack(path, compressed=True)
    assert other.read_bytes() == b"mine"


def test_a_loose_file_is_repacked_where_it_lies(tmp_path: Path) -> None:
    """BC-047: a skippable frame, which dsh refuses."""
    path = reported(tmp_path, 47, "skippable-frame.jsonl.zstd")
    before = lines(load(path))
    (done,) = repack(path, compressed=True)
    assert (files(tmp_path), lines(load(done.path))) == ([path.name], before)
    assert verify(path).ok
    (done,) = repack(path, compressed=False)
    assert files(tmp_path) == ["skippable-frame.jsonl"]


def test_the_sample_has_no_header_and_is_not_repacked(tmp_path: Path) -> None:
    path = Path(shutil.copy(CORPUS / "sample" / "session.jsonl", tmp_path))
    with pytest.raises(RewriteRefused, match="turnlog convert"):
        repack(path, compressed=True)
