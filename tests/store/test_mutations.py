"""Whatever happens to a file: never an exception but :class:`LogRefused`, never other events than were written, and a
finding wherever the text stopped being the log."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
import zstandard

from tests.conftest import FULL
from tests.store import naive
from tests.store.logs import Log, contents
from tests.store.mutations import TELLING, damaged, open_ended, plain_20k
from tests.store.reading import flats, plains
from turnlog.store import Finding, LogRefused, load, verify
from turnlog.store.frames import walk_frames

pytestmark = pytest.mark.proof

ZSTD = open_ended()
WHOLE = load(ZSTD)
TEXTS = {"unpacked": plain_20k(packed=False), "packed": plain_20k(packed=True)}
RANDOM_MUTATIONS = 1_000_000 if FULL else 1_200
SHARDS = 8

Record = Callable[[str, object], None]


def said(findings: Iterable[Finding]) -> set[tuple[str, int | None, int | None]]:
    return {(finding.code, finding.seq, finding.place.line) for finding in findings}


PRISTINE = said(verify(ZSTD).findings)


def some(places: range, count: int, seed: int) -> Iterable[int]:
    """All of *places* in full proof, else *count* of them."""
    return places if FULL else sorted(random.Random(seed).sample(places, count))


# -- compressed -------------------------------------------------------------------------------------------------


def test_the_log_to_damage_is_what_a_writer_makes() -> None:
    frames = walk_frames(ZSTD).frames
    assert 18_000 < len(ZSTD) < 23_000
    assert len(frames) > 30
    assert all(one.checksum and one.content_size is not None and ZSTD[one.start + 4] & 0x20 for one in frames)
    assert {code for code, _seq, _line in PRISTINE} == {"open-turn"}
    assert WHOLE.closers


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_a_compressed_log_is_noticed(bit: int, record_property: Record) -> None:
    """The exception: zstd reads a few bits of a block's tables either way. Such a flip is harmless, which is proven by
    decompressing every frame with zstd itself: the same text, its checksum verified."""
    tried = harmless = 0
    for at in some(range(len(ZSTD)), 40, bit):
        data = bytearray(ZSTD)
        data[at] ^= 1 << bit
        tried += 1
        harmless += not noticed(bytes(data))
    assert harmless < max(tried // 50, 3)
    record_property("proof", f"bit {bit} flipped in {len(ZSTD):,} bytes of zstd: {tried:,} ({harmless} without effect)")


def noticed(data: bytes) -> bool:
    """Whether damage is noticed; where it is not, the text must be the same. Events never differ from the original."""
    try:
        session = load(data)
    except LogRefused:
        session = None
    else:
        assert session.events == WHOLE.events[: len(session)]
    if said(verify(data).findings) - PRISTINE:
        return True
    assert session is not None
    assert len(session) == len(WHOLE)
    assert checked_contents(data) == contents(ZSTD)
    return False


def checked_contents(data: bytes) -> bytes:
    """The text of frames that all have a checksum, by zstd's own one-shot decoder."""
    frames = walk_frames(data).frames
    assert all(one.checksum for one in frames)
    assert frames[-1].end == len(data)
    decompressor = zstandard.ZstdDecompressor()
    return b"".join(decompressor.decompress(data[one.start : one.end], max_output_size=1 << 20) for one in frames)


def test_every_cut_of_a_compressed_log_is_noticed(record_property: Record) -> None:
    """The exception: a cut exactly between two frames leaves a log that its writer might have left (seals tell)."""
    ends = {one.end: one for one in walk_frames(ZSTD).frames}
    tried = between = 0
    for size in sorted({*some(range(len(ZSTD)), 250, 1), *ends} - {len(ZSTD)}):
        tried += 1
        cut = ZSTD[:size]
        report = verify(cut)
        if size in ends:
            between += 1
            assert report.session is not None
            assert report.session.events == WHOLE.events[: report.events]
            assert report.verdict == "ok"
            continue
        assert report.verdict in ("torn", "refused")
        assert (report.verdict == "refused") == (report.session is None)
        if report.session is not None:
            assert load(cut).events == WHOLE.events[: report.events]
            assert report.session.torn is not None
            assert report.session.torn.offset == max((end for end in ends if end <= size), default=0)
    record_property("proof", f"cuts of {len(ZSTD):,} bytes of zstd: {tried:,} ({between} between frames)")


def test_random_damage_to_a_compressed_log_never_changes_what_is_read(record_property: Record) -> None:
    count = 20_000 if FULL else 150
    source = random.Random(11)
    for _ in range(count):
        data = damaged(ZSTD, source)
        try:
            session = load(data)
        except LogRefused:
            assert verify(data).verdict == "refused"
            continue
        if session.format == "format 0" and session.header == WHOLE.header:
            assert session.events == WHOLE.events[: len(session)]
        assert verify(data).verdict != "refused"
    record_property("proof", f"random damage to zstd: {count:,}")


# -- plain ------------------------------------------------------------------------------------------------------


def judge(text: bytes, *, closely: bool = True) -> None:
    """Turnlog and the naive reader say the same about a text: valid (and which events), torn, or no log."""
    judged = naive.read(text)
    report = verify(text)
    if judged.why == naive.NO_HEADER and report.format == "sample":
        assert report.verdict == "refused" or "no-header" in {finding.code for finding in report.findings}
        return
    if judged.status == "invalid":
        assert report.verdict == "refused", judged.why
        if closely:
            with pytest.raises(LogRefused):
                load(text)
        return
    if report.verdict == "refused":  # the naive reader knows formats 0 and 1 only
        raise AssertionError(report.findings)
    assert (report.verdict == "torn") == (judged.status == "torn")
    assert report.events == len(judged.events)
    if closely:
        assert plains(load(text).events) == flats(judged.events)


def test_the_plain_logs_to_damage_are_valid_and_of_20_kb() -> None:
    for text in TEXTS.values():
        assert 18_000 < len(text) < 22_000
        assert naive.read(text).status == "valid"
        judge(text)
    assert naive.read(TEXTS["packed"]).events != naive.read(TEXTS["unpacked"]).events


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("how", ["flipped", "deleted", "inserted", "cut"])
def test_a_byte_changed_anywhere_in_a_plain_log_is_judged_as_a_naive_reader_does(
    name: str, how: str, record_property: Record
) -> None:
    text, source = TEXTS[name], random.Random(how)
    places = some(range(len(text)), 150, len(how))
    tried = 0
    for at in places:
        data = bytearray(text)
        if how == "flipped":
            data[at] ^= 1 << source.randrange(8)
        elif how == "deleted":
            del data[at]
        elif how == "inserted":
            data[at:at] = bytes([source.choice(TELLING)])
        else:
            del data[at:]
        judge(bytes(data))
        tried += 1
    record_property("proof", f"one byte {how} in {len(text):,} bytes of {name} plain log: {tried:,}")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_damage_to_a_plain_log_is_judged_as_a_naive_reader_does(shard: int, record_property: Record) -> None:
    count, source = RANDOM_MUTATIONS // SHARDS, random.Random(1000 + shard)
    text = TEXTS["packed" if shard % 2 else "unpacked"]
    for number in range(count):
        judge(damaged(text, source), closely=not FULL or number % 8 == 0)
    record_property("proof", f"random damage to a plain log, part {shard + 1} of {SHARDS}: {count:,}")


@pytest.mark.parametrize("sixty", ["6E1", "60.0", "600e-1"])
def test_a_cited_seq_is_a_number_however_it_is_written(sixty: str) -> None:
    log = Log()
    for number in range(61):
        log.user(f"message {number}")
    log.user("both", sourceEventSeqs=[3, 60])
    log.user("a run", sourceEventSeqs=[[3, 60]])
    text = log.text().replace(b"60]", sixty.encode() + b"]")
    assert text != log.text()
    assert naive.read(text).status == "valid"
    assert verify(text).verdict == "ok"
    assert [event.sources for event in load(text).events[-2:]] == [(3, 60), tuple(range(3, 61))]


def test_a_log_that_lost_its_header_and_its_messages_is_not_the_documents_sample() -> None:
    _header, first, turn, *_ = TEXTS["packed"].splitlines(keepends=True)
    text = first + turn + b'{"type":"user/message","seq":2,"ti'
    assert b"permission/preset" in first
    assert naive.read(text).why == naive.NO_HEADER
    judge(text)
