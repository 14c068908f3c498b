"""Reported faults of files: two writers, torn and foreign bytes, frames. What is damaged is said, never skipped."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard

from tests.cases.inputs import case
from tests.store.logs import contents, unpack
from tests.store.reading import codes, opened, plains, refusal, shown
from turnlog.events import Interrupted, TurnEnd
from turnlog.store import FileStore, LogCorrupt, list_sessions, load, open_tail, verify


def types(path: Path) -> list[str]:
    return [event.type for event in load(path, forensic=True).events]


# -- BC-004, BC-005: two writers --------------------------------------------------------------------------------


def test_bc_004_a_collision_is_refused_naming_both_events_and_what_follows() -> None:
    assert len(opened(case(4, "before-second-writer.jsonl"))) == 21
    path = case(4, "end-seed-collision.jsonl")
    finding = refusal(path)
    assert (finding.code, finding.kind, finding.seq, finding.place.line) == ("seq-duplicate", "corrupt", 20, 23)
    for said in (
        str(path),
        "duplicate seq 20; expected 21, got 20",
        "session/end-seed at time 1760000000210",
        "agent/inbox/spliced at time 1760000005220",
        "the end of turn 2",
    ):
        assert said in str(finding)


def test_bc_004_the_turn_after_the_collision_is_not_dropped() -> None:
    path = case(4, "end-seed-collision.jsonl")
    session = load(path, forensic=True)
    assert len(session) == 21
    (branch,) = session.branches
    assert branch.place.line == 23
    assert [event.seq for event in branch.events] == list(range(20, 32))
    (end,) = [event for event in branch.events if event.type == "turn/end"]
    assert isinstance(end.data, TurnEnd)
    assert end.data.turn == 2


def test_bc_005_both_branches_of_a_forked_log_are_shown_and_neither_wins() -> None:
    path = case(5, "forked-log.jsonl")
    finding = refusal(path)
    assert (finding.code, finding.kind, finding.seq) == ("seq-duplicate", "corrupt", 5)
    assert "expected 8, got 5" in str(finding)
    report = verify(path)
    assert report.session is not None
    synthetic = report.session.events[5:]
    assert [event.type for event in synthetic] == ["tool/result", "step/end", "turn/end"]
    end = synthetic[-1].data
    assert isinstance(end, TurnEnd)
    assert end.reason == Interrupted()
    (real,) = report.session.branches
    assert [event.seq for event in real.events] == [5, 6, 7, 8, 9, 10]
    assert real.events[0].type == "tool/result"
    assert real.events[0].raw != synthetic[0].raw


def test_bc_005_looking_at_an_open_turn_changes_nothing_and_its_closers_are_only_in_memory() -> None:
    path = case(5, "live-open-turn.jsonl")
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))
    session = opened(path)
    assert codes(verify(path).findings) == ["open-turn"]
    assert [event.type for event in session.closers] == ["tool/result", "step/end", "turn/end"]
    assert len(session) == len(session.events) == 5
    assert len(session.derive_messages()) == len(session.derive_messages(as_stored=True)) + 1
    list_sessions([path.parent.parent])
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())) == before


# -- BC-008, BC-043, BC-046, BC-047, BC-049: frames -------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["session.jsonl.zstd", "no-content-size.jsonl.zstd", "raw-blocks-no-checksum.jsonl.zstd"]
)
def test_bc_008_all_frames_are_read_with_or_without_sizes_and_checksums(name: str) -> None:
    path, whole = case(8, name), case(8, "session.jsonl")
    session = opened(path)
    assert len(session) == 32
    assert session.events == opened(whole).events
    assert contents(path.read_bytes()) == whole.read_bytes()
    notes = codes(session.findings)
    assert notes == (["frame-unchecked"] * 4 if "no-checksum" in name else [])


def test_bc_008_a_list_reads_the_first_frame_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "--home-dev-demo--" / "sess-frames"
    home.mkdir(parents=True)
    data = case(8, "session.jsonl.zstd").read_bytes()
    log = home / "session.jsonl.zstd"
    log.write_bytes(data[:200] + b"\xff" * (len(data) - 200))  # whoever read on would find damage
    (entry,) = list_sessions([tmp_path])
    assert entry.header is not None
    with pytest.raises(LogCorrupt):
        load(log)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("whole-log-in-one-frame.jsonl.zstd", (1, "frame 1 must hold the header line and nothing else")),
        ("header-split-over-frames.jsonl.zstd", (1, "frame 1 must hold the header line and nothing else")),
        ("header-frame-without-newline.jsonl.zstd", (1, "frame 1 must hold the header line and nothing else")),
        ("line-split-over-frames.jsonl.zstd", (2, "frame 2 ends inside a record")),
        ("plain-text-named-zstd.jsonl.zstd", None),
        ("zstd-named-plain.jsonl", None),
    ],
)
def test_bc_046_odd_containers_are_read_and_their_fault_is_named(name: str, place: tuple[int, str] | None) -> None:
    path = case(46, name)
    session = opened(path)
    assert len(session) == 11
    assert len(session.derive_messages()) == 2
    report = verify(path)
    (finding,) = report.findings
    if place is None:
        assert (finding.code, finding.severity) == ("file-encoding", "fault")
        assert "dsh goes by the name" in finding.text
        return
    assert (finding.code, finding.severity, finding.place.frame) == ("frame-layout", "fault", place[0])
    assert place[1] in finding.text
    assert "turnlog compress" in str(finding)


def test_bc_046_no_odd_container_hides_from_the_list(tmp_path: Path) -> None:
    for name in sorted(path.name for path in case(46, "zstd-named-plain.jsonl").parent.iterdir()):
        home = tmp_path / "--home-dev-demo--" / f"odd-{name.partition('.')[0]}"
        home.mkdir(parents=True)
        target = home / ("session.jsonl.zstd" if name.endswith("zstd") else "session.jsonl")
        target.write_bytes(case(46, name).read_bytes())
    entries = list_sessions([tmp_path])
    assert len(entries) == 6
    assert all(entry.header is not None for entry in entries)


def test_bc_047_a_checksum_that_looks_like_a_frame_does_not_cut_the_log() -> None:
    path = case(47, "checksum-equals-magic.jsonl.zstd")
    assert path.read_bytes().count(b"\x28\xb5\x2f\xfd") == 5  # four frames and one checksum
    session = opened(path)
    assert len(session) == 18
    assert verify(path).findings == ()


def test_bc_047_a_skippable_frame_is_passed_over_and_named() -> None:
    path = case(47, "skippable-frame.jsonl.zstd")
    assert len(opened(path)) == 18
    (finding,) = verify(path).findings
    assert (finding.code, finding.severity, finding.place.frame) == ("frame-odd", "fault", 2)
    assert "skippable" in finding.text
    assert "dsh refuses" in finding.text


@pytest.mark.parametrize(
    ("name", "events", "torn"),
    [
        ("torn-last-frame.jsonl.zstd", 22, (1030, 231, 0)),
        ("torn-in-magic.jsonl.zstd", 22, (1030, 3, 0)),
        ("only-checksum-missing.jsonl.zstd", 33, (1030, 459, 11)),
        ("garbage-after-last.jsonl.zstd", 33, (1493, 4, 0)),
        ("nul-after-last.jsonl.zstd", 33, (1493, 64, 0)),
    ],
)
def test_bc_049_a_torn_end_is_reported_and_costs_nothing_that_is_whole(
    name: str, events: int, torn: tuple[int, int, int]
) -> None:
    path = case(49, name)
    session = opened(path)
    assert len(session) == events
    assert session.torn is not None
    assert (session.torn.offset, session.torn.size, session.torn.recovered) == torn
    assert session.torn.offset + session.torn.size == path.stat().st_size
    (finding,) = [one for one in session.findings if one.code == "torn-tail"]
    assert finding.place.offset == torn[0]
    assert verify(path).verdict == "torn"
    if torn[2]:
        assert "11 whole records were won" in finding.text


@pytest.mark.parametrize("name", ["bad-checksum-middle.jsonl.zstd", "bad-block-middle.jsonl.zstd"])
def test_bc_049_a_damaged_frame_is_refused_at_its_offset_and_not_stepped_over(name: str) -> None:
    path = case(49, name)
    finding = refusal(path)
    assert (finding.code, finding.kind) == ("frame-damaged", "corrupt")
    assert (finding.place.frame, finding.place.offset) == (3, 563)
    findings = verify(path).findings
    assert codes(findings, "refused") == ["frame-damaged", "seq-gap"]
    with pytest.raises(LogCorrupt):
        open_tail(path, 3)


def test_bc_049_a_missing_frame_shows_as_missing_events() -> None:
    finding = refusal(case(49, "frame-missing-middle.jsonl.zstd"))
    assert (finding.code, finding.place.frame) == ("seq-gap", 3)
    assert "@11 to @21" in finding.text
    assert "expected seq 11, got 22" in finding.text


def test_bc_049_a_torn_header_frame_is_no_header_and_stays_in_the_list(tmp_path: Path) -> None:
    path = case(49, "torn-header-frame.jsonl.zstd")
    finding = refusal(path)
    assert (finding.code, finding.kind) == ("no-header", "corrupt")
    home = tmp_path / "--home-dev-demo--" / "sess-torn"
    home.mkdir(parents=True)
    (home / "session.jsonl.zstd").write_bytes(path.read_bytes())
    (entry,) = list_sessions([tmp_path])
    assert (entry.id, entry.header) == ("sess-torn", None)
    assert entry.problem == "its first frame was never finished, so there is no header"


def test_bc_043_every_frame_is_decompressed_once_and_no_list_decodes_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """100,000 small frames took 3 GB and were scanned again at each start. Here: work in frames, counted."""
    lines = [
        b'{"type":"session","version":0,"id":"sess-frames","createdAt":1,"cwd":"/home/dev/demo","delegationDepth":0}\n',
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\n',
        b'{"type":"step/start","seq":1,"time":1,"data":{"turn":1,"step":1}}\n',
    ]
    count = 3000
    lines += [
        b'{"type":"assistant/chunk","seq":%d,"time":1,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,'
        b'"text":"w%d "}}}\n' % (seq, seq)
        for seq in range(2, count)
    ]
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    home = tmp_path / "--home-dev-demo--" / "sess-frames"
    home.mkdir(parents=True)
    path = home / "session.jsonl.zstd"
    path.write_bytes(b"".join(map(compressor.compress, lines)))

    from turnlog.store import frames

    walked: list[int] = []
    decompressed: list[int] = []
    frame_at, whole = frames.frame_at, frames.Decompressor.whole

    def counted_walk(data: bytes | memoryview, start: int) -> frames.Frame | str:
        walked.append(start)
        return frame_at(data, start)

    def counted(self: frames.Decompressor, data: bytes | memoryview, frame: frames.Frame) -> bytes:
        decompressed.append(frame.start)
        return whole(self, data, frame)

    monkeypatch.setattr(frames, "frame_at", counted_walk)
    monkeypatch.setattr(frames.Decompressor, "whole", counted)
    assert list_sessions([tmp_path])[0].id == "sess-frames"
    assert (walked, decompressed) == ([], [])
    session = load(path)
    assert len(session) == count
    assert len(walked) == len(decompressed) == count + 1
    assert len(set(decompressed)) == count + 1
    # a view of all events is no copy of them
    assert session.events[10:].__sizeof__() < 200
    walked.clear()
    decompressed.clear()
    tail = open_tail(path, 10)
    assert [event.seq for event in tail.events] == list(range(count - 10, count))
    assert len(decompressed) < count / 2


# -- BC-010: the last record ------------------------------------------------------------------------------------


def test_bc_010_a_complete_last_record_without_newline_is_kept_by_every_reader(tmp_path: Path) -> None:
    """Of the two ways that are right, this: the record counts, and the missing newline is noted."""
    path = case(10, "no-final-newline.jsonl")
    session = opened(path)
    assert len(session) == 11
    assert session.torn is None
    assert codes(session.findings) == ["no-final-newline"]
    assert verify(path).events == 11
    assert [event.seq for event in open_tail(path, 100).events] == list(range(11))
    home = tmp_path / "--home-dev-demo--" / session.id
    home.mkdir(parents=True)
    (home / "session.jsonl").write_bytes(path.read_bytes())
    assert len(list(FileStore(tmp_path).read(session.id))) == 12


def test_bc_010_a_complete_record_that_breaks_the_schema_is_reported_and_not_taken_for_torn() -> None:
    path = case(10, "complete-but-wrong.jsonl")
    finding = refusal(path)
    assert (finding.code, finding.place.line) == ("envelope", 13)
    assert "time is 'yesterday'" in finding.text
    session = load(path, forensic=True)
    assert (len(session), session.torn) == (11, None)
    with pytest.raises(LogCorrupt):
        open_tail(path, 3)


# -- BC-011: NUL bytes ------------------------------------------------------------------------------------------


def test_bc_011_nul_bytes_at_the_end_are_a_torn_tail() -> None:
    session = opened(case(11, "nul-tail.jsonl"))
    assert len(session) == 31
    assert session.torn is not None
    assert (session.torn.offset, session.torn.size) == (4856, 4096)
    assert session.torn.reason == "the last 4096 bytes are NUL"
    assert codes(session.findings) == ["torn-tail"]


@pytest.mark.parametrize(("name", "size"), [("nul-line-mid.jsonl", 300), ("nul-pad-after-record.jsonl", 512)])
def test_bc_011_nul_bytes_in_the_middle_are_refused_by_offset_and_length_and_cost_no_event(
    name: str, size: int
) -> None:
    """Of the two ways that are right, this: a strict reader refuses, a forensic one has all 31 events."""
    path = case(11, name)
    finding = refusal(path)
    assert (finding.code, finding.place.line, finding.place.offset) == ("nul-bytes", 10, 1328)
    assert f"{size} NUL bytes" in finding.text
    assert "No event is missing around them" in finding.text
    assert len(list(load(path, forensic=True).events)) == 31


def test_bc_011_nul_bytes_in_place_of_a_record_name_the_missing_seq() -> None:
    path = case(11, "nul-replaces-record.jsonl")
    finding = refusal(path)
    assert finding.kind == "corrupt"
    assert "Seq 8 is missing: expected 8, got 9" in finding.text
    session = load(path, forensic=True)
    assert [event.seq for event in session.events] == [*range(8), *range(9, 31)]
    assert codes(session.findings, "refused") == ["nul-bytes", "seq-gap"]


def test_bc_011_a_file_of_nul_bytes_has_no_header_and_stays_in_the_list(tmp_path: Path) -> None:
    path = case(11, "all-nul.jsonl")
    finding = refusal(path)
    assert (finding.code, finding.kind) == ("no-header", "corrupt")
    assert "1024 NUL bytes" in finding.text
    for name, source in (("sess-nul", path), ("sess-good", case(10, "no-final-newline.jsonl"))):
        home = tmp_path / "--home-dev-demo--" / name
        home.mkdir(parents=True)
        (home / "session.jsonl").write_bytes(source.read_bytes())
    listed = {entry.path.parent.name: entry.header is not None for entry in list_sessions([tmp_path])}
    assert listed == {"sess-nul": False, "sess-good": True}


# -- BC-044: many sources ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2_000, 20_000])
def test_bc_044_a_message_that_cites_many_chunks_is_looked_at_once(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """One message citing 300,000 chunks: no argument-count or recursion failure, no scan of the list per source. What
    is counted is how often the list is written out and how often events are unpacked."""
    from turnlog.log import event
    from turnlog.log import rows as rows_module

    per_row = 1000
    rows = [
        b'{"type":"text-chunks","seq0":%d,"time0":1,"data":{"turn":1,"step":1,"index":0,"dt":[%s],"texts":[%s]}}\n'
        % (first, b",".join([b"1"] * (per_row - 1)), b",".join([b'"a"'] * per_row))
        for first in range(3, 3 + count, per_row)
    ]
    cited = [*range(3, 3 + count)]
    cited[0], cited[-1] = cited[-1], cited[0]  # no plain run, so that every source is looked at
    end = 3 + count
    text = b"".join([
        b'{"type":"session","version":0,"id":"sess-cite","createdAt":1,"delegationDepth":0}\n',
        b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\n',
        b'{"type":"step/start","seq":1,"time":1,"data":{"turn":1,"step":1}}\n',
        b'{"type":"user/message","seq":2,"time":1,"data":{"content":[],"source":{"kind":"user"},"role":"user","id":"m"},'
        b'"surfaceOp":"append"}\n',
        *rows,
        b'{"type":"assistant/message","seq":%d,"time":1,"data":{"turn":1,"step":1,"message":{"role":"assistant",'
        b'"content":[{"type":"text","text":"a"}],"source":{"kind":"model","provider":"p","model":"m"},"id":"n"}},'
        b'"sourceEventSeqs":[%s],"surfaceOp":"append"}\n' % (end, b",".join(b"%d" % seq for seq in cited)),
        b'{"type":"step/end","seq":%d,"time":1,"data":{"turn":1,"step":1}}\n' % (end + 1),
        b'{"type":"turn/end","seq":%d,"time":1,"data":{"turn":1,"reason":{"kind":"completed"}}}\n' % (end + 2),
    ])  # fmt: skip
    expanded: list[int] = []
    unpacked: list[int] = []
    expand, unpack_run = event.expand_ranges, rows_module.PackedRun.unpack

    def counted_expand(stored: Iterable[int | tuple[int, int]]) -> tuple[int, ...]:
        seqs = expand(stored)
        expanded.append(len(seqs))
        return seqs

    def counted_unpack(self: rows_module.PackedRun) -> rows_module.RunData:
        unpacked.append(self.seq0)
        return unpack_run(self)

    monkeypatch.setattr(event, "expand_ranges", counted_expand)
    monkeypatch.setattr(rows_module.PackedRun, "unpack", counted_unpack)
    session = load(text)
    assert len(session) == count + 6
    assert expanded in ([], [count])
    assert unpacked == []  # rows stay packed until somebody looks
    expanded.clear()
    assert session.event(end).sources == tuple(cited)
    first = session.derive_messages()
    assert [message.text for message in first] == ["", "a"]
    assert list(session.derive_messages()) == list(first)
    assert expanded == [count]
    assert unpacked == []
    assert sum(1 for _event in session.events) == count + 6
    assert unpacked == list(range(3, end, per_row))
    assert verify(text).ok


def test_a_text_and_its_packed_rows_expand_to_the_same_events() -> None:
    """The helper that judges packed rows in these tests agrees with the events of a case."""
    import json

    path = case(8, "session.jsonl")
    lines = path.read_bytes().split(b"\n")[1:-1]
    assert plains(load(path).events) == [event for line in lines for event in unpack(json.loads(line))]
    assert shown(load(path).derive_messages())[0]["role"] == "user"
