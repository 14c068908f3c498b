"""`FileStore` and `LogFile` on real files: what they make, what they refuse, and what they say."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.log.sessions import talk
from turnlog.log import Session, SessionHeader
from turnlog.store import files
from turnlog.store.attest import ATTEST_NAME, Note, RunningHash, attest_line, read_attestation
from turnlog.store.encode import lines_of
from turnlog.store.errors import (
    AppendConflict,
    ConcurrentWriter,
    EncodingRefused,
    LogCorrupt,
    LogUnsupported,
    SessionLocked,
    WriteFailed,
)
from turnlog.store.files import FileStore
from turnlog.store.finding import Finding, Place
from turnlog.store.fs import OsFs, OsHandle
from turnlog.store.header import header_line
from turnlog.store.liveness import LOCK_NAME
from turnlog.store.load import load
from turnlog.store.logfile import frame_of
from turnlog.store.proven import prove
from turnlog.store.remove import plan_removal

LINES = lines_of(talk(*"abcdefgh").events)
BOTH = pytest.mark.parametrize("compressed", [False, True], ids=["plain", "zstd"])


def begun(root: Path, *, compressed: bool | None = None, lines: int = 2, fs: OsFs | None = None) -> FileStore:
    """A store that writes session ``s``, which has some lines."""
    store = FileStore(root, compressed=compressed, fs=fs)
    store.create(talk().header)
    store.append("s", 0, LINES[:lines])
    return store


def log_of(root: Path) -> Path:
    (found,) = root.glob("*/s/session.jsonl*")
    return found


def resumed(root: Path) -> FileStore:
    store = FileStore(root)
    store.append("s", None, ())
    return store


def texts(root: Path) -> int:
    """How many events strict reading finds."""
    return len(load(log_of(root)))


# -- what is made -----------------------------------------------------------------------------------------------


def test_nothing_is_on_disk_before_the_first_append(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "root")
    store.create(talk().header)
    assert list(tmp_path.iterdir()) == []
    assert list(store.read("s")) == [header_line(talk().header)]


def test_a_session_that_is_taken_before_its_first_line_is_locked_and_has_no_log(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.create(talk().header)
    assert store.append("s", 0, ()) == 0
    assert [one.name for one in tmp_path.rglob("session*")] == [LOCK_NAME]
    assert list(store.read("s")) == [header_line(talk().header)]


@BOTH
def test_directories_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path, compressed: bool) -> None:
    before = os.umask(0)
    try:
        store = begun(tmp_path / "a" / "root", compressed=compressed)
        store.sync("s")
        store.attest("s", b"{}\n")
    finally:
        os.umask(before)
    made = {one.relative_to(tmp_path).name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.rglob("*")}
    log = "session.jsonl.zstd" if compressed else "session.jsonl"
    directories = {"a": 0o700, "root": 0o700, "_no-cwd": 0o700, "s": 0o700}
    assert made == {**directories, log: 0o600, LOCK_NAME: 0o600, ATTEST_NAME: 0o600}


@BOTH
def test_the_file_holds_the_header_and_each_batch(tmp_path: Path, compressed: bool) -> None:
    begun(tmp_path, compressed=compressed).append("s", 2, LINES[2:5])
    header = header_line(talk().header)
    parts = [b"".join(line + b"\n" for line in lines) for lines in ([header], LINES[:2], LINES[2:5])]
    assert log_of(tmp_path).read_bytes() == b"".join(map(frame_of, parts) if compressed else parts)


@BOTH
def test_a_root_keeps_its_encoding(tmp_path: Path, compressed: bool) -> None:
    begun(tmp_path, compressed=compressed).close()
    store = FileStore(tmp_path)
    store.create(Session("other").header)
    store.append("other", 0, LINES[:1])
    assert {one.suffix for one in tmp_path.rglob("session.jsonl*")} == {".zstd" if compressed else ".jsonl"}


def test_a_root_of_later_dsh_formats_keeps_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "p" / "x").mkdir(parents=True)
    (tmp_path / "p" / "x" / "session.v3.jsonl.zstd").write_bytes(frame_of(b"{}\n"))
    assert FileStore(tmp_path).compressed


@BOTH
def test_an_id_is_created_once(tmp_path: Path, compressed: bool) -> None:
    store = begun(tmp_path, compressed=compressed)
    for again in (store, FileStore(tmp_path), FileStore(tmp_path, compressed=not compressed)):
        with pytest.raises(AppendConflict, match="exists already"):
            again.create(talk().header)


def test_an_append_at_another_end_changes_nothing(tmp_path: Path) -> None:
    store = begun(tmp_path)
    before = log_of(tmp_path).read_bytes()
    with pytest.raises(AppendConflict, match="has 2 lines, the writer expected 1"):
        store.append("s", 1, LINES[2:3])
    assert log_of(tmp_path).read_bytes() == before
    assert store.append("s", 2, LINES[2:3]) == 3


# -- who may write ----------------------------------------------------------------------------------------------


def grow(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"x")


def shrink(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 1)


def replace(log: Path) -> None:
    copy = log.with_name("copy")
    copy.write_bytes(log.read_bytes())
    copy.rename(log)


def replace_lock(log: Path) -> None:
    lock = log.with_name(LOCK_NAME)
    lock.unlink()
    lock.touch()


@BOTH
@pytest.mark.parametrize(
    ("change", "opened"),
    [(replace, True), *itertools.product([grow, shrink, Path.unlink, replace_lock], [False, True])],
)
def test_a_writer_whose_file_is_no_longer_its_own_never_writes_again(
    tmp_path: Path, compressed: bool, change: Callable[[Path], None], opened: bool
) -> None:
    store = begun(tmp_path, compressed=compressed)
    if opened:
        store.append("s", 2, LINES[2:3])
    log = log_of(tmp_path)
    change(log)
    before = log.read_bytes() if log.exists() else None
    for attempt in (store.append, store.append, lambda id, _expected, _lines: store.sync(id)):
        with pytest.raises(ConcurrentWriter, match="never writes again"):
            attempt("s", None, LINES[3:4])
    assert (log.read_bytes() if log.exists() else None) == before


def test_a_fenced_writer_does_not_make_a_log(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.create(talk().header)
    store.append("s", 0, ())
    (lock,) = tmp_path.rglob(LOCK_NAME)
    lock.unlink()
    with pytest.raises(ConcurrentWriter, match="lock was taken over"):
        store.append("s", 0, LINES[:1])
    assert not list(tmp_path.rglob("session.jsonl*"))


def test_a_second_process_is_told_who_writes(tmp_path: Path) -> None:
    program = """
        import sys
        from pathlib import Path
        from turnlog.store.files import FileStore
        from tests.log.sessions import talk
        store = FileStore(Path(sys.argv[1]))
        store.create(talk().header)
        store.append("s", 0, [b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}'])
        print("ready", flush=True)
        sys.stdin.read()
    """
    with child(program, str(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        before = log_of(tmp_path).read_bytes()
        with pytest.raises(SessionLocked, match=rf"being written by .*\(pid {process.pid} on .*, since 20"):
            resumed(tmp_path)
        assert log_of(tmp_path).read_bytes() == before
        process.kill()
        process.wait()
        assert resumed(tmp_path).append("s", 1, [LINES[1]]) == 2


def test_a_dsh_session_without_a_lock_is_written_only_when_forced(tmp_path: Path) -> None:
    begun(tmp_path).close()
    log_of(tmp_path).with_name(LOCK_NAME).unlink()
    with pytest.raises(SessionLocked, match="dsh may be writing it"):
        resumed(tmp_path)
    store = FileStore(tmp_path, adopt=True)
    assert store.append("s", None, ()) == 2
    assert store.append("s", 2, LINES[2:3]) == 3


# -- what the disk refuses --------------------------------------------------------------------------------------


@BOTH
def test_a_full_disk_refuses_a_batch_whole_and_takes_it_when_there_is_room(small_disk: Path, compressed: bool) -> None:
    store = begun(small_disk / "root", compressed=compressed)
    filler = fill(small_disk)
    random = os.urandom(20_000).hex()
    line = b'{"type":"user/message","seq":2,"time":1,"data":{"content":[{"type":"text","text":"%s"}],' % random.encode()
    line += b'"source":{"kind":"user"},"role":"user","id":"m"},"surfaceOp":"append"}'
    for _ in range(2):
        with pytest.raises(WriteFailed, match="No space left on device; the file ends with its last whole record"):
            store.append("s", 2, [line])
        assert texts(small_disk / "root") == 2
    store.sync("s")
    store.attest("s", b"{}\n" * 4000)  # a proof that does not fit is left out
    filler.unlink()
    assert store.append("s", 2, [line]) == 3
    store.sync("s")
    assert texts(small_disk / "root") == 3


def test_a_first_append_on_a_full_disk_leaves_nothing_and_can_be_repeated(small_disk: Path) -> None:
    store = FileStore(small_disk / "root")
    store.create(talk().header)
    store.append("s", 0, ())
    filler = fill(small_disk)
    with pytest.raises(WriteFailed, match="the session stays in memory"):
        store.append("s", 0, LINES[:2])
    assert [one.name for one in (small_disk / "root").rglob("session*")] == [LOCK_NAME]
    filler.unlink()
    assert store.append("s", 0, LINES[:2]) == 2
    assert texts(small_disk / "root") == 2


@BOTH
def test_a_file_size_limit_refuses_a_batch_whole(tmp_path: Path, compressed: bool) -> None:
    program = """
        import resource, sys
        from pathlib import Path
        from tests.crash.test_logfile import LINES, begun, log_of, texts
        from turnlog.store.errors import WriteFailed
        root, compressed = Path(sys.argv[1]), sys.argv[2] == "True"
        store = begun(root, compressed=compressed)
        size = log_of(root).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, resource.RLIM_INFINITY))
        try:
            store.append("s", 2, LINES[2:6])
        except WriteFailed as error:
            print(error)
        assert log_of(root).stat().st_size == size and texts(root) == 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        store.append("s", 2, LINES[2:6])
        store.sync("s")
        assert texts(root) == 6
    """
    with child(program, str(tmp_path), str(compressed)) as process:
        told, _ = process.communicate()
    assert process.returncode == 0
    assert b"File too large; the file ends with its last whole record" in told


class Failing(OsFs):
    """Fails the next call of one method."""

    def __init__(self) -> None:
        self.next: str | None = None

    def _fail(self, name: str) -> None:
        if self.next == name:
            self.next = None
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def open(self, path: Path) -> OsHandle:
        self._fail("open")
        return super().open(path)

    def sync_directory(self, path: Path) -> None:
        self._fail("sync_directory")
        super().sync_directory(path)

    def read(self, path: Path) -> bytes:
        self._fail("read")
        return super().read(path)


def test_a_process_out_of_file_handles_goes_on_when_it_has_some(tmp_path: Path) -> None:
    fs = Failing()
    store = begun(tmp_path, fs=fs)
    fs.next = "open"
    with pytest.raises(WriteFailed, match="Too many open files"):
        store.append("s", 2, LINES[2:3])
    assert store.append("s", 2, LINES[2:3]) == 3


def test_a_session_that_cannot_be_read_is_not_taken_and_its_lock_is_free(tmp_path: Path) -> None:
    begun(tmp_path).close()
    fs = Failing()
    for call in ("read", "sync_directory", "open"):
        store = FileStore(tmp_path, fs=fs)
        fs.next = call
        with pytest.raises(WriteFailed):
            store.append("s", None, ())
        assert store.append("s", None, ()) == 2
        store.close()


# -- what a dead writer left ------------------------------------------------------------------------------------


def test_temporary_files_of_dead_writers_are_removed_by_the_next_one(tmp_path: Path) -> None:
    begun(tmp_path).close()
    left = log_of(tmp_path).with_name("session.jsonl.0123456789ab.tmp")
    os.link(log_of(tmp_path), left)
    resumed(tmp_path).close()
    assert not left.exists()
    assert texts(tmp_path) == 2


@pytest.mark.parametrize(
    ("newline", "tail"),
    [(True, b'{"type":"turn/st'), *itertools.product([True, False], [b"", b"\0", b"\0" * 5000])],
)
def test_what_follows_a_mended_tail_is_a_line_of_its_own(tmp_path: Path, newline: bool, tail: bytes) -> None:
    """A record whose newline a power cut turned into NUL was followed by the next record on the same line."""
    begun(tmp_path).close()
    log = log_of(tmp_path)
    log.write_bytes((log.read_bytes() if newline else log.read_bytes()[:-1]) + tail)
    store = resumed(tmp_path)
    store.append("s", 2, LINES[2:3])
    store.close()
    assert texts(tmp_path) == 3
    assert load(log).findings == ()


def test_whole_records_of_a_frame_that_ends_inside_one_are_never_cut(tmp_path: Path) -> None:
    """They were cut with the unfinished one, and the next append left a gap."""
    begun(tmp_path, compressed=True).close()
    log = log_of(tmp_path)
    log.write_bytes(log.read_bytes() + frame_of(LINES[2] + b"\n" + LINES[3][:20]))
    before = log.read_bytes()
    with pytest.raises(LogUnsupported, match="ends inside a record"):
        resumed(tmp_path)
    assert log.read_bytes() == before
    assert texts(tmp_path) == 3


def test_a_cut_tail_is_noted_at_once(tmp_path: Path) -> None:
    begun(tmp_path).close()
    grow(log_of(tmp_path))
    resumed(tmp_path).close()
    records, unreadable = read_attestation(log_of(tmp_path).with_name(ATTEST_NAME).read_bytes())
    assert unreadable == 0
    assert [(type(one), one.seq) for one in records] == [(Note, 2)]


@BOTH
def test_a_root_never_gets_a_second_encoding(tmp_path: Path, compressed: bool) -> None:
    """Difference 16: one plain log makes dsh refuse a whole compressed root."""
    begun(tmp_path, compressed=compressed).close()
    before = sorted(tmp_path.rglob("*"))
    other = FileStore(tmp_path, compressed=not compressed)
    for _ in range(2):
        with pytest.raises(EncodingRefused, match=r"repack the root: turnlog (de)?compress --root"):
            other.create(SessionHeader(version=0, id="other", created_at=1))
    assert sorted(tmp_path.rglob("*")) == before
    assert other.append("s", None, ()) == 2  # what is there is written on as it is
    other.close()
    for asked in (None, compressed):
        store = FileStore(tmp_path, compressed=asked)
        store.create(SessionHeader(version=0, id=f"asked {asked}", created_at=1))
        store.append(f"asked {asked}", 0, LINES[:1])
        store.close()
    assert {path.suffix for path in tmp_path.glob("*/*/session.jsonl*")} == {".zstd" if compressed else ".jsonl"}


def test_what_was_attested_about_a_removed_session_says_nothing_about_a_new_one(tmp_path: Path) -> None:
    store = begun(tmp_path)
    sealed = RunningHash(talk().header)
    sealed.extend_lines(list(LINES[:2]))
    store.sync("s")
    store.attest("s", attest_line(sealed.seal(1)))
    store.close()
    old = log_of(tmp_path).with_name(ATTEST_NAME).read_bytes()
    log_of(tmp_path).unlink()
    store = FileStore(tmp_path)
    store.create(SessionHeader(version=0, id="s", created_at=5))
    store.append("s", 0, LINES[:1])
    store.close()
    assert prove(load(log_of(tmp_path)), log_of(tmp_path)).state == "none"
    (aside,) = tmp_path.rglob(f"{ATTEST_NAME}.removed-*")  # nothing is thrown away, and turnlog rm knows it
    assert aside.read_bytes() == old
    assert plan_removal(log_of(tmp_path)).others == ()


def test_a_session_is_found_by_its_id_without_looking_at_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path).close()
    monkeypatch.setattr(files, "list_sessions", lambda roots: pytest.fail("every session is looked at"))
    store = FileStore(tmp_path)
    assert store.append("s", None, ()) == 2
    store.close()


def test_a_session_in_another_place_than_its_id_says_is_found_all_the_same(tmp_path: Path) -> None:
    begun(tmp_path).close()
    directory = log_of(tmp_path).parent
    directory.rename(directory.with_name("elsewhere"))
    store = FileStore(tmp_path)
    assert store.append("s", None, ()) == 2
    store.close()


@pytest.mark.parametrize(("name", "remedy"), [("session.jsonl", "repair"), ("session.v3.jsonl", "convert --forensic")])
def test_damage_names_the_command_that_helps(name: str, remedy: str) -> None:
    finding = Finding(code="x", severity="refused", kind="corrupt", place=Place(path=f"/r/p/s/{name}"), text="Odd.")
    assert f"turnlog {remedy} makes" in str(LogCorrupt(finding))


def test_a_lock_that_cannot_be_looked_at_is_a_failed_write_and_not_a_lost_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = begun(tmp_path)
    stat_of = os.stat

    def failing(path: Any, *args: Any, **others: Any) -> os.stat_result:
        if str(path).endswith(LOCK_NAME):
            raise OSError(errno.EIO, "Input/output error")
        return stat_of(path, *args, **others)

    monkeypatch.setattr(os, "stat", failing)
    with pytest.raises(WriteFailed, match="Input/output error"):
        store.append("s", 2, LINES[2:3])
    monkeypatch.setattr(os, "stat", stat_of)
    assert store.append("s", 2, LINES[2:3]) == 3
    store.close()


def test_a_torn_seal_takes_no_later_one_with_it(tmp_path: Path) -> None:
    begun(tmp_path).close()
    log_of(tmp_path).with_name(ATTEST_NAME).write_bytes(b'{"type":"seal","se')
    store = resumed(tmp_path)
    sealed = RunningHash(talk().header)
    sealed.extend_lines(list(LINES[:2]))
    store.sync("s")
    store.attest("s", attest_line(sealed.seal(1)))
    store.close()
    proof = prove(load(log_of(tmp_path)), log_of(tmp_path))
    assert (proof.state, proof.seq, proof.unreadable) == ("proven", 2, 1)


# -- for the tests ----------------------------------------------------------------------------------------------


def child(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def fill(disk: Path) -> Path:
    """A file that takes all the room there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("only root can mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
