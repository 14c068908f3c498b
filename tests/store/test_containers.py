"""The zstd container: however the text is cut into frames, the log is the same; frames out of place are noticed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.store.logs import Log, contents, frame, joined, raw_frame, rich, skippable
from tests.store.reading import codes, opened, plains, refusal
from turnlog.store import list_sessions, load, open_tail, verify
from turnlog.store.frames import MAGIC, later_frame, walk_frames

RICH = rich()
TEXT = RICH.text(packed=True)
WHOLE = load(TEXT)


def frames_of(log: Log, batch: int = 6) -> list[bytes]:
    lines = log.lines(packed=True)
    return [frame(joined(lines[:1])), *(frame(joined(lines[at : at + batch])) for at in range(1, len(lines), batch))]


# -- any split --------------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_any_split_of_a_text_into_frames_reads_like_the_plain_text(prove: Prove) -> None:
    cuts = st.lists(st.integers(0, len(TEXT)), max_size=12).map(sorted)
    kinds = st.lists(st.sampled_from(["checked", "unchecked", "no size", "stored", "bare"]), min_size=13, max_size=13)
    skips = st.lists(st.sampled_from([b"", b"", b"", skippable(), skippable(b"", 15)]), min_size=14, max_size=14)

    def check(at: list[int], made: list[str], between: list[bytes], level: int) -> None:
        pieces = [TEXT[start:stop] for start, stop in itertools.pairwise([0, *at, len(TEXT)])]
        frames = []
        for piece, kind in zip(pieces, made, strict=False):
            if kind == "stored":
                frames.append(raw_frame(piece))
            else:
                checksum, size = kind in ("checked", "no size"), kind in ("checked", "unchecked")
                frames.append(frame(piece, checksum=checksum, size=size, level=level))
        data = b"".join(itertools.chain.from_iterable(zip(between, frames, strict=False)))
        assert contents(b"".join(frames)) == TEXT
        session = load(data)
        assert session.events == WHOLE.events
        assert (session.surface, session.torn) == (WHOLE.surface, None)
        assert list(session.derive_messages()) == list(WHOLE.derive_messages())
        report = verify(data)
        assert "refused" not in {finding.severity for finding in report.findings}
        if at and any(TEXT[place - 1 : place] != b"\n" for place in at if 0 < place < len(TEXT)):
            assert "frame-layout" in codes(report.findings)
        if any(between[: len(frames)]):
            assert "frame-odd" in codes(report.findings)
        if set(made[: len(frames)]) - {"checked", "no size"}:
            assert "frame-unchecked" in codes(report.findings)

    prove("random frames read like the plain text", check, cuts, kinds, skips, st.sampled_from([1, 3, 19]))


def test_frames_as_a_writer_makes_them_give_no_finding_and_are_placed_by_frame_and_line() -> None:
    frames = frames_of(RICH)
    session = opened(b"".join(frames))
    assert session.events == WHOLE.events
    assert codes(verify(b"".join(frames)).findings) == codes(verify(TEXT).findings)
    (note,) = [one for one in session.findings if one.code == "unknown-ignorable"]
    line = next(n for n, one in enumerate(RICH.lines(packed=True), 1) if b"crew/note" in one)
    number = 2 + (line - 2) // 6
    assert (note.place.line, note.place.frame) == (line, number)
    assert note.place.offset == sum(map(len, frames[: number - 1]))


def test_frames_of_many_blocks_and_large_contents_are_read() -> None:
    log = Log()
    log.turn()
    log.step()
    for number in range(6):
        log.user(f"{number} " + "long text " * 40_000)
    data = log.zstd(batch=3)
    assert len(log.text()) > 2_000_000
    assert max(one.blocks for one in walk_frames(data).frames) > 3
    assert opened(data).events == load(log.text()).events


def test_an_empty_frame_changes_nothing() -> None:
    first, *rest = frames_of(RICH)
    for data in (
        frame(b"") + first + b"".join(rest),
        first + frame(b"") + b"".join(rest),
        b"".join([first, *rest, frame(b"")]),
    ):
        assert opened(data).events == WHOLE.events


def test_a_session_in_odd_frames_is_listed_like_any_other(tmp_path: Path) -> None:
    header, rest = TEXT.split(b"\n", 1)
    datas = {
        "whole": frame(TEXT),
        "split-header": frame(header[:30]) + frame(header[30:] + b"\n") + frame(rest),
        "bare-header": frame(header) + frame(rest),
        "skippable": skippable() + frame(header + b"\n") + frame(rest),
        "skippable-alone": skippable(b"x" * 10_000) * 3 + frame(header + b"\n", checksum=False) + frame(rest),
        "empty": frame(b"") + frame(header + b"\n") + frame(rest),
    }
    for name, data in datas.items():
        home = tmp_path / "--home-dev-demo--" / name
        home.mkdir(parents=True)
        (home / "session.jsonl.zstd").write_bytes(data)
        assert load(home).events == WHOLE.events
    entries = list_sessions([tmp_path])
    assert [(entry.id, entry.header is not None) for entry in entries] == [("sess-rich", True)] * len(datas)


def test_frames_that_begin_with_a_skippable_one_are_frames() -> None:
    assert opened(skippable() + frame(TEXT)).events == WHOLE.events
    assert refusal(skippable()).code == "no-header"


# -- walking ----------------------------------------------------------------------------------------------------


def test_a_walk_finds_the_frames_that_were_made() -> None:
    pieces = [
        frame(b"a" * 10),
        frame(b"", checksum=False),
        frame(b"b" * 300, size=False),
        skippable(b"zz"),
        frame(b"c" * 70_000, level=1),
        raw_frame(b"d" * 2500),
        frame(bytes(range(256)) * 1200),
    ]
    walk = walk_frames(b"".join(pieces))
    assert (walk.stop, walk.end) == ("end", sum(map(len, pieces)))
    assert [one.end - one.start for one in walk.frames] == list(map(len, pieces))
    assert [one.skippable for one in walk.frames] == [False, False, False, True, False, False, False]
    assert [one.checksum for one in walk.frames] == [True, False, True, False, True, False, True]
    assert [one.content_size for one in walk.frames] == [10, 0, None, 0, 70_000, 2500, 307_200]
    assert walk.frames[5].blocks == 3


@pytest.mark.parametrize(("data", "stop"), [
    (b"", "end"),
    (b"\x28", "torn"),
    (b"\x28\xb5\x2f", "torn"),
    (MAGIC, "torn"),
    (b"\x28\xb5\x2f\xfe", "foreign"),
    (b"{", "foreign"),
    (b"\x50", "foreign"),
    (b"\x5f\x2a\x4d\x18\x04\x00\x00\x00abc", "torn"),
    (b"\x5f\x2a\x4d\x18\x04\x00", "torn"),
    (b"\x60\x2a\x4d\x18\x00\x00\x00\x00", "foreign"),
    (MAGIC + b"\x20\x01\x0f\x00\x00x", "damaged"),
])  # fmt: skip
def test_a_walk_says_why_it_stops(data: bytes, stop: str) -> None:
    whole = frame(b"before")
    for first in (b"", whole):
        walk = walk_frames(first + data)
        assert (walk.stop, walk.end, len(walk.frames)) == (stop, len(first), 1 if first else 0)


def test_a_later_frame_is_found_by_what_it_holds_and_not_by_its_magic() -> None:
    torn = frame(b'{"a":1}\n' * 50)[:20]
    assert later_frame(torn, 0) is None
    assert later_frame(torn + MAGIC + b"\x00" * 30, 0) is None
    assert later_frame(torn + frame(b"checked"), 0) == len(torn)
    assert later_frame(torn + frame(b'{"unchecked":1}\n', checksum=False), 0) == len(torn)
    assert later_frame(torn + frame(b"unchecked", checksum=False), 0) is None
    assert later_frame(torn + skippable(), 0) is None


# -- out of place -----------------------------------------------------------------------------------------------


@pytest.mark.proof
def test_frames_swapped_repeated_or_removed_are_noticed(prove: Prove) -> None:
    frames = frames_of(RICH, 4)
    number = st.integers(0, len(frames) - 1)

    def check(how: str, first: int, second: int) -> None:
        changed = list(frames)
        if how == "swap":
            changed[first], changed[second] = changed[second], changed[first]
        elif how == "repeat":
            changed.insert(second, changed[first])
        elif how == "remove":
            del changed[first]
        elif how == "move":
            changed.insert(second, changed.pop(first))
        if changed == frames:
            return
        cut = frames[: len(changed)] == changed  # only the end is gone, which no unsealed log can know
        report = verify(b"".join(changed))
        assert report.verdict == ("ok" if cut else "refused")
        if cut:
            assert load(b"".join(changed)).events == WHOLE.events[: report.events]

    prove(
        "frames out of place are noticed", check, st.sampled_from(["swap", "repeat", "remove", "move"]), number, number
    )


def test_a_repeated_frame_is_a_duplicate_and_a_removed_one_a_gap() -> None:
    frames = frames_of(RICH)
    repeated = refusal(b"".join([*frames[:3], frames[2], *frames[3:]]))
    assert (repeated.code, repeated.place.frame) == ("seq-duplicate", 4)
    removed = refusal(b"".join([*frames[:2], *frames[3:]]))
    assert (removed.code, removed.place.frame) == ("seq-gap", 3)
    swapped = refusal(b"".join([*frames[:2], frames[3], frames[2], *frames[4:]]))
    assert swapped.code == "seq-gap"


def test_foreign_bytes_between_frames_are_damage_and_not_an_end() -> None:
    frames = frames_of(RICH)
    size = len(frames[0]) + len(frames[1])
    for foreign in (b"\0" * 64, b"yyy\n", b"\x28\xb5\x2f", frames[3][:10]):
        finding = refusal(b"".join([*frames[:2], foreign, *frames[2:]]))
        assert finding.code == "frame-damaged"
        assert (finding.place.frame, finding.place.offset) == (3, size)
        events = load(b"".join([*frames[:2], foreign, *frames[2:]]), forensic=True).events
        assert list(plains(events)) == list(plains(WHOLE.events))


def test_unchecked_frames_after_a_gap_in_the_file_are_not_cut_off_in_silence() -> None:
    """Without checksums only their text shows that they are frames."""
    lines = RICH.lines()
    frames = [frame(joined([line]), checksum=False) for line in lines]
    damaged = bytearray(frames[5])
    damaged[5] ^= 0x40  # the size in its header, or of its block
    for data in ([*frames[:5], b"\0" * 9, *frames[5:]], [*frames[:5], frames[5][:-3], *frames[6:]]):
        assert verify(b"".join(data)).verdict == "refused"
    assert verify(b"".join([*frames[:5], bytes(damaged), *frames[6:]])).verdict == "refused"


@pytest.mark.parametrize("spoil", ["checksum", "content", "size", "type", "reserved", "dictionary"])
def test_a_damaged_frame_in_the_middle_is_refused_where_it_begins(spoil: str) -> None:
    frames = frames_of(RICH)
    damaged = bytearray(frames[3])
    if spoil == "checksum":
        damaged[-1] ^= 1
    elif spoil == "content":
        damaged[len(damaged) // 2] ^= 1
    elif spoil == "size":
        damaged[5] ^= 1
    elif spoil == "type":
        damaged[7] |= 6
    elif spoil == "reserved":
        damaged[4] |= 8
    else:
        damaged[4] |= 1
    data = b"".join([*frames[:3], bytes(damaged), *frames[4:]])
    finding = refusal(data)
    assert finding.code == "frame-damaged"
    assert (finding.place.frame, finding.place.offset) == (4, sum(map(len, frames[:3])))
    session = load(data, forensic=True)
    kept = joined(RICH.lines(packed=True)[:13])
    assert session.events[: len(load(kept))] == load(kept).events
    assert session.events[-1].seq == len(RICH.events) - 1


def test_a_frame_cannot_make_the_reader_take_more_memory_than_its_blocks_hold() -> None:
    claims = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"x" * 70_000))
    assert claims[4] >> 6 == 2
    claims[5:9] = (1 << 31).to_bytes(4, "little")
    first = frames_of(RICH)[0]
    finding = refusal(first + bytes(claims) + frame(b"x"))
    assert finding.code == "frame-damaged"
    assert "more than its blocks can hold" in finding.text


def test_a_tail_is_opened_through_frames_of_every_kind(tmp_path: Path) -> None:
    wanted = plains(WHOLE.events)[-5:]
    for name, data in {
        "plain": TEXT,
        "frames": b"".join(frames_of(RICH)),
        "unchecked": b"".join(frame(joined([line]), checksum=False) for line in RICH.lines()),
        "one": frame(TEXT),
    }.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(data)
        assert plains(open_tail(path, 5).events) == wanted


def test_reading_a_file_and_reading_its_bytes_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log"
    odd: list[Any] = [TEXT, b"".join(frames_of(RICH)), frame(TEXT)[:-9], TEXT[:-9], b"\0" * 9]
    for data in odd:
        path.write_bytes(data)
        by_path, by_bytes = verify(path), verify(data)
        assert [(one.code, one.place.line, one.place.offset) for one in by_path.findings] == [
            (one.code, one.place.line, one.place.offset) for one in by_bytes.findings
        ]
        assert by_path.events == by_bytes.events


def test_a_compressed_log_that_lost_its_header_is_refused_and_readable_all_the_same(tmp_path: Path) -> None:
    """It is no sample of the documents, which nobody compressed; the file's name says which format it was."""
    frames = frames_of(RICH)
    for data in (frames[1:], [bytes([*frames[0][:-1], frames[0][-1] ^ 1]), *frames[1:]]):
        home = tmp_path / f"--home-dev-demo--{len(data)}--" / "sess-rich"
        home.mkdir(parents=True)
        (home / "session.jsonl.zstd").write_bytes(b"".join(data))
        assert refusal(home).code in ("no-header", "frame-damaged")
        session = load(home, forensic=True)
        assert (session.format, session.id) == ("format 0", "sess-rich")
        assert plains(session.events) == plains(WHOLE.events)
        assert "no-header" in codes(session.findings, "refused")
