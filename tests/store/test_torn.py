"""A log cut at any byte: what is left is a prefix of what was written, and ``torn`` says where it ends."""

from __future__ import annotations

import pytest

from tests.conftest import FULL
from tests.store import naive
from tests.store.logs import Log, contents, joined, rich
from tests.store.reading import codes, flats, opened, plains, refusal
from turnlog.store import LogRefused, load, verify
from turnlog.store.frames import walk_frames

RICH = rich()
EVENTS = flats(RICH.events)


def small() -> Log:
    """A log of a bit more than 2 KB, with an ignorable event, sources and text that is not ASCII."""
    log = Log("s", cwd=None)
    log.turn()
    log.step()
    log.user("\u4f60\u597d \U0001f600")
    cited = log.text_chunks(["Hel", "lo", " \u00e9"])
    log.answer("Hello \u00e9", sources=cited)
    log.add("crew/note", {"text": "\ud83d"}, ignorable=True)
    log.end_step()
    log.end_turn()
    log.user("Go on", sourceEventSeqs=[[0, 2], 5])
    return log


SMALL = RICH if FULL else small()
WHOLE = load(SMALL.text())


def first_frame(data: bytes) -> int:
    """Length of the header's frame."""
    return walk_frames(data).frames[0].end


@pytest.mark.parametrize("packed", [False, True])
def test_a_plain_log_cut_at_every_byte_gives_a_prefix_and_says_where_it_is_torn(packed: bool) -> None:
    text = SMALL.text(packed=packed)
    header = len(SMALL.lines()[0])
    ends = [at + 1 for at, byte in enumerate(text) if byte == 10]
    lengths = {header: 0, **{end: len(naive.read(text[:end]).events) for end in ends}}
    for size in range(len(text)):
        cut = text[:size]
        if size < header:
            with pytest.raises(LogRefused):
                load(cut)
            continue
        session = load(cut)
        assert session.events == WHOLE.events[: len(session)]
        whole = cut.rfind(b"\n") + 1
        record = cut[whole:]
        if not record:
            assert session.torn is None
            assert codes(session.findings, "fault", "refused") == []
        elif naive.read(cut).status == "valid":  # all but the newline is there
            assert session.torn is None
            assert "no-final-newline" in codes(session.findings)
            assert len(session) == lengths[size + 1]
        else:
            assert session.torn is not None
            assert (session.torn.offset, session.torn.size) == (whole, len(record))
            assert "torn-tail" in codes(session.findings)
            assert len(session) == lengths[whole]


@pytest.mark.parametrize("batch", [1, 5])
def test_a_compressed_log_cut_at_every_byte_gives_a_prefix_and_says_where_it_is_torn(batch: int) -> None:
    data = SMALL.zstd(batch=batch)
    header = first_frame(data)
    whole = dict(zip(ends_of(data), lengths_of(data), strict=True))
    for size in range(len(data)):
        cut = data[:size]
        if size < header:
            # the header line itself may be won from its torn frame
            try:
                assert len(load(cut)) == 0
            except LogRefused:
                pass
            continue
        session = load(cut)
        assert session.events == WHOLE.events[: len(session)]
        last = max(end for end in whole if end <= size)
        if last == size:
            assert session.torn is None
            assert len(session) == whole[size]
        else:
            assert session.torn is not None
            assert (session.torn.offset, session.torn.size) == (last, size - last)
            assert len(session) == whole[last] + session.torn.recovered


def ends_of(data: bytes) -> list[int]:
    return [one.end for one in walk_frames(data).frames]


def lengths_of(data: bytes) -> list[int]:
    """How many events the log has at the end of each frame."""
    return [len(naive.read(contents(data[:end])).events) for end in ends_of(data)]


def test_only_the_checksum_missing_costs_nothing() -> None:
    data = RICH.zstd(batch=10)
    session = load(data[:-2])
    assert plains(session.events) == EVENTS
    assert session.torn is not None
    assert session.torn.recovered == 1
    assert verify(data[:-2]).verdict == "torn"
    assert "whole record" in " ".join(one.text for one in session.findings)


def test_a_torn_frame_that_ends_inside_a_record_gives_whole_records_only() -> None:
    log = Log()
    for number in range(200):
        log.user(f"{number} " + "".join(chr(0x4E00 + (number * 7919 + k * 104729) % 20000) for k in range(400)))
    data = log.zstd(batch=200)
    session = load(data[:-200])
    assert 0 < len(session) < 200
    assert plains(session.events) == log.events[: len(session)]
    assert session.torn is not None
    assert session.torn.recovered == len(session)


def test_nul_bytes_after_a_torn_record_are_part_of_the_tear() -> None:
    text = RICH.text()
    cut = text[: text.rindex(b'"text":')] + b"\0" * 100
    session = opened(cut)
    assert session.torn is not None
    assert session.torn.offset == text.rindex(b"\n", 0, len(text) - 1) + 1
    assert plains(session.events) == EVENTS[:-1]


def test_nul_bytes_after_a_whole_record_without_newline_leave_the_record() -> None:
    text = RICH.text().removesuffix(b"\n")
    session = opened(text + b"\0" * 4096)
    assert plains(session.events) == EVENTS
    assert session.torn is not None
    assert (session.torn.offset, session.torn.size) == (len(text), 4096)


def test_a_last_frame_that_ends_in_nul_bytes_is_a_tear_wherever_they_begin() -> None:
    """The file has its new size, and the last blocks of the disk were never written."""
    data = SMALL.zstd(batch=5)
    ends = ends_of(data)
    before = ends[-2]
    for at in range(before + 1, len(data) - 3):
        for more in (0, 1, 4096):
            session = load(data[:at] + bytes(len(data) - at + more))
            assert session.torn is not None
            assert session.torn.offset == before
            assert session.events == WHOLE.events[: len(session)]
            assert len(session) >= lengths_of(data)[-2]


@pytest.mark.parametrize("size", [16, 50, 200])
def test_a_hole_in_a_torn_frame_ends_the_log_before_it_or_is_damage_of_the_frame(size: int) -> None:
    data = SMALL.zstd(batch=100)
    start = walk_frames(data).frames[-1].start
    torn = 0
    for end in (len(data) - 1, len(data) - 4, len(data) - 30):
        for hole in range(start + 5, end - size, 1 if FULL else 7):
            damaged = data[:hole] + bytes(size) + data[hole + size : end]
            if verify(damaged).verdict == "refused":  # the hole is where the frame says how it goes on
                assert refusal(damaged).code == "frame-damaged"
                continue
            torn += 1
            session = load(damaged)
            assert session.torn is not None
            assert session.torn.offset == start
            assert session.events == WHOLE.events[: len(session)]
    assert torn


def test_a_frame_of_nul_bytes_before_a_whole_one_is_damage() -> None:
    data = SMALL.zstd(batch=5)
    first, second, third = ends_of(data)[:3]
    assert refusal(data[: second - 8] + bytes(8) + data[second:third]).code == "frame-damaged"
    assert load(data[:first] + data[first : second - 8] + bytes(8)).torn is not None


def test_a_whole_record_with_damaged_text_at_the_end_is_damage_and_not_a_tear() -> None:
    log = Log()
    log.user("caf\u00e9")
    text = log.text().removesuffix(b"\n")
    finding = refusal(text.replace(b"\xc3\xa9", b"\xc3\xe9"))
    assert finding.code == "not-utf8"
    assert opened(text[: text.index(b"\xc3") + 1]).torn is not None


def test_damage_before_the_end_is_never_taken_for_a_tear() -> None:
    lines = RICH.lines()
    for number in range(1, len(lines)):
        cut = joined([*lines[:number], lines[number][:-3], *lines[number + 1 :]])
        finding = refusal(cut)
        assert (finding.code, finding.place.line) == ("not-json", number + 1)


def test_a_torn_log_and_what_was_written_after_it_never_mix() -> None:
    """A writer that appends to a torn file glues its record to the fragment."""
    lines = RICH.lines()
    glued = joined([*lines[:9], lines[9][:30] + lines[9], *lines[10:]])
    assert refusal(glued).code == "not-json"
