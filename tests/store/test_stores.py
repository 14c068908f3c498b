"""The stores keep their contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.contract import HEADER, LINES, OTHER, ReadableContract, StoreContract
from tests.store.logs import Log, compact, frame, joined
from tests.store.reading import codes
from turnlog.store import (
    FileStore,
    LogCorrupt,
    MemoryStore,
    ReadableStore,
    SessionAmbiguous,
    SessionNotFound,
    Store,
    load,
    open_stored,
)
from turnlog.store.header import header_line
from turnlog.store.names import encode_project, encode_session


class TestMemoryStore(StoreContract):
    """The reference."""

    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


def kept(root: Path, *, compressed: bool) -> FileStore:
    for header, lines in ((HEADER, LINES), (OTHER, [])):
        home = root / encode_project(header.cwd) / encode_session(header.id)
        home.mkdir(parents=True)
        first = header_line(header) + b"\n"
        batches = [joined(lines[at : at + 3]) for at in range(0, len(lines), 3)]
        data = b"".join(map(frame, [first, *batches])) if compressed else first + joined(lines)
        (home / ("session.jsonl.zstd" if compressed else "session.jsonl")).write_bytes(data)
    return FileStore(root)


class TestPlainFiles(ReadableContract):
    """The reading half over plain files."""

    @pytest.fixture
    def filled(self, tmp_path: Path) -> ReadableStore:
        return kept(tmp_path, compressed=False)


class TestCompressedFiles(ReadableContract):
    """The reading half over zstd files."""

    @pytest.fixture
    def filled(self, tmp_path: Path) -> ReadableStore:
        return kept(tmp_path, compressed=True)


def one(root: Path, data: bytes, name: str = "session.jsonl") -> FileStore:
    home = root / "--home-dev-demo--" / "sess-1"
    home.mkdir(parents=True)
    (home / name).write_bytes(data)
    return FileStore(root)


def test_an_unfinished_last_line_is_no_line_of_the_store(tmp_path: Path) -> None:
    text = joined([header_line(HEADER), *LINES])
    store = one(tmp_path, text[:-5])
    assert list(store.read("sess-1"))[1:] == LINES[:-1]
    session = open_stored(store, "sess-1")
    assert session.events == load(text).events[: len(session)]


def test_a_whole_last_line_without_newline_is_a_line_of_the_store(tmp_path: Path) -> None:
    store = one(tmp_path, joined([header_line(HEADER), *LINES])[:-1])
    assert list(store.read("sess-1"))[1:] == LINES


def test_a_torn_frame_gives_its_whole_lines(tmp_path: Path) -> None:
    data = frame(header_line(HEADER) + b"\n") + frame(joined(LINES))[:-4]
    store = one(tmp_path, data, "session.jsonl.zstd")
    assert list(store.read("sess-1"))[1:] == LINES


def test_a_damaged_frame_is_never_passed_over(tmp_path: Path) -> None:
    damaged = bytearray(frame(joined(LINES[:2])))
    damaged[-1] ^= 1
    store = one(tmp_path, frame(header_line(HEADER) + b"\n") + damaged + frame(joined(LINES[2:])), "session.jsonl.zstd")
    with pytest.raises(LogCorrupt, match="frame 2 does not verify"):
        list(store.read("sess-1"))


def test_a_session_that_is_there_twice_is_ambiguous(tmp_path: Path) -> None:
    store = one(tmp_path, joined([header_line(HEADER), *LINES]))
    other = tmp_path / "--elsewhere--" / "sess-1"
    other.mkdir(parents=True)
    (other / "session.jsonl").write_bytes(header_line(HEADER) + b"\n")
    with pytest.raises(SessionAmbiguous, match="name the file you mean"):
        list(store.read("sess-1"))


def test_damaged_sessions_have_no_header_in_a_store(tmp_path: Path) -> None:
    store = kept(tmp_path, compressed=False)
    bad = tmp_path / "--home-dev-demo--" / "sess-bad"
    bad.mkdir()
    (bad / "session.jsonl").write_bytes(b"garbage\n")
    assert sorted(header.id for header in store.headers()) == sorted([HEADER.id, OTHER.id])


def test_an_empty_or_missing_root_holds_nothing(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "missing"):
        assert list(FileStore(root).headers()) == []
        with pytest.raises(SessionNotFound, match="turnlog ls"):
            list(FileStore(root).read("sess-1"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_format_is_read_through_a_store(tmp_path: Path, version: int) -> None:
    log = Log("sess-1", version=version)
    log.turn()
    log.user("Hi")
    store = one(tmp_path, log.text(), f"session.v{version}.jsonl")
    session = open_stored(store, "sess-1")
    assert (session.format, session.event(1).message.text) == (f"format {version}", "Hi")  # type: ignore[union-attr]


def test_a_stored_session_is_refused_like_a_loaded_one(tmp_path: Path) -> None:
    log = Log("sess-1")
    log.turn()
    log.events[0]["seq"] = 3
    store = one(tmp_path, log.text())
    with pytest.raises(LogCorrupt, match=r"^session sess-1, line 2"):
        open_stored(store, "sess-1")
    assert codes(open_stored(store, "sess-1", forensic=True).findings) == ["seq-gap"]


def test_a_header_line_reads_back_as_the_header() -> None:
    for header in (HEADER, OTHER):
        assert load(header_line(header) + b"\n").header == header
    full = Log("x", parentSession="p", seedLength=0, origin="subagent", delegationDepth=3, agentPreset="code").header
    order = ("type", "version", "id", "createdAt", "cwd", "parentSession", "seedLength", "origin", "delegationDepth")
    written = {name: full[name] for name in (*order, "agentPreset")}  # dsh's order of members
    assert header_line(load(compact(full) + b"\n").header) == compact(written)
