"""Opening at the tail gives what opening the whole gives at its end, and looks at little more."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.store.logs import Log, frame, joined, raw_frame, skippable
from tests.store.reading import plains
from turnlog.store import LogCorrupt, LogRefused, SessionNotFound, frames, load, open_tail, tail
from turnlog.store.source import Source


def long_log(words: int = 3000, *, seed: int = 3) -> Log:
    """A log of a few hundred KB, mostly streamed text."""
    source = random.Random(seed)
    log = Log("sess-long")
    turn = 0
    while len(log.events) < words:
        turn += 1
        text = [f"{source.randrange(10**6)} \u4f60 " for _ in range(source.randrange(20, 200))]
        log.turn(turn)
        log.step(turn)
        log.user(f"Question {turn}")
        cited = log.text_chunks(text, turn=turn)
        log.answer("".join(text), turn=turn, sources=cited)
        log.end_step(turn)
        log.end_turn(turn)
    log.turn(turn + 1)
    log.user("Still open")
    return log


LOG = long_log()
LINES = {packed: LOG.lines(packed=packed) for packed in (False, True)}


def odd_frames(lines: list[bytes], seed: int) -> bytes:
    """Frames that end anywhere, of every kind, with skippable ones between."""
    source, text = random.Random(seed), joined(lines)
    data, at = b"", 0
    while at < len(text):
        piece = text[at : at + source.choice((1, 30, 500, 5000, 40_000))]
        at += len(piece)
        data += frame(piece, size=source.random() < 0.8)
        if source.random() < 0.05:
            data += skippable()
    return data


def containers(lines: list[bytes]) -> dict[str, bytes]:
    batches = [lines[:1], *(lines[at : at + 20] for at in range(1, len(lines), 20))]
    return {
        "plain": joined(lines),
        "zstd": b"".join(frame(joined(batch)) for batch in batches),
        "line per frame": b"".join(frame(line + b"\n") for line in lines),
        "odd frames": odd_frames(lines, 1),
        "one frame": frame(joined(lines)),
        "unchecked": b"".join(frame(joined(batch), checksum=False) for batch in batches),
        "stored": b"".join(raw_frame(joined(batch)) for batch in batches),
    }


FILES = {(packed, name): data for packed, lines in LINES.items() for name, data in containers(lines).items()}


def compared(path: Path, count: int) -> None:
    try:
        whole = load(path)
    except LogRefused:
        return
    got = open_tail(path, count)
    wanted = whole.events[max(len(whole) - count, 0) :]
    assert got.events == wanted
    assert [event.seq for event in got.events] == [event.seq for event in wanted]
    assert got.complete == (len(wanted) == len(whole))
    assert got.header.id == whole.id


@pytest.mark.parametrize(("packed", "name"), FILES)
def test_a_tail_of_any_length_is_the_end_of_the_log(tmp_path: Path, packed: bool, name: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(FILES[packed, name])
    assert len(joined(LINES[packed])) > 100_000
    length = len(LOG.events)
    for count in (0, 1, 2, 3, 50, 100, 1000, length - 1, length, length + 1, 10**6, -1):
        compared(path, max(count, 0))
    assert plains(open_tail(path, 7).events) == LOG.events[-7:]
    assert len(open_tail(path, -5).events) == 0


@pytest.mark.proof
def test_a_tail_of_a_torn_or_oddly_framed_log_is_the_end_of_what_load_reads(
    prove: Prove, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("torn") / "log.jsonl"

    def check(which: tuple[bool, str], cut: int, count: int, seed: int) -> None:
        data = odd_frames(LINES[which[0]], seed) if which[1] == "odd frames" else FILES[which]
        path.write_bytes(data[: len(data) - cut])
        compared(path, count)

    cuts = st.one_of(st.integers(0, 40), st.integers(0, 3000), st.integers(0, 60_000))
    prove(
        "tails equal the end of the whole",
        check,
        st.sampled_from(sorted(FILES)),
        cuts,
        st.one_of(st.integers(1, 40), st.integers(1, 1500)),
        st.integers(0, 30),
    )


@pytest.mark.parametrize("after", [b"\0" * 5000, b'{"type":"turn/st', b"\n\n", b"\r\n", b"yyy"])
def test_what_load_says_of_an_end_holds_for_the_tail(tmp_path: Path, after: bytes) -> None:
    path = tmp_path / "log.jsonl"
    for packed in (False, True):
        for name in ("plain", "zstd"):
            path.write_bytes(FILES[packed, name] + after)
            for count in (1, 100):
                compared(path, count)
                assert len(open_tail(path, count).events) == count


def test_a_whole_last_record_without_newline_is_part_of_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(joined(LINES[False])[:-1])
    assert plains(open_tail(path, 2).events) == LOG.events[-2:]


@pytest.mark.parametrize("damage", [
    (b'"type":"user/message","seq":', b'"type":"user/message","seq":1'),
    (b'"turn/start"', b'"turn/start'),
    (b'"time":', b'"time":"x",'),
])  # fmt: skip
def test_a_damaged_tail_is_refused_as_load_refuses_it(tmp_path: Path, damage: tuple[bytes, bytes]) -> None:
    path = tmp_path / "log.jsonl"
    for packed in (False, True):
        text = joined(LINES[packed])
        at = text.rindex(damage[0])
        path.write_bytes(text[:at] + damage[1] + text[at + len(damage[0]) :])
        with pytest.raises(LogCorrupt) as whole:
            load(path)
        with pytest.raises(LogCorrupt) as end:
            open_tail(path, 20)
        assert end.value.finding == whole.value.finding


def test_a_complete_last_record_that_breaks_the_schema_is_not_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(joined(LINES[False]) + b'{"type":"turn/end","seq":%d,"time":"x","data":{}}' % len(LOG.events))
    with pytest.raises(LogCorrupt, match="time is 'x'"):
        open_tail(path, 20)


def test_a_damaged_frame_near_the_end_is_not_taken_for_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.zstd"
    data = FILES[False, "line per frame"]
    walk = frames.walk_frames(data).frames
    for number, change in ((-3, 5), (-2, 7), (-1, -1), (-4, 6)):
        damaged = bytearray(data)
        place = walk[number].start + change if change > 0 else walk[number].end + change
        damaged[place] ^= 0x41
        path.write_bytes(damaged)
        with pytest.raises(LogCorrupt):
            open_tail(path, 5)


def test_damage_before_the_tail_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    text = bytearray(joined(LINES[False]))
    text[len(text) // 3] = 0
    path.write_bytes(text)
    with pytest.raises(LogCorrupt):
        load(path)
    assert plains(open_tail(path, 10).events) == LOG.events[-10:]


def test_a_tail_reads_little_of_a_long_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes decompressed and lines decoded do not grow with the log."""
    decompressed: list[int] = []
    whole = frames.Decompressor.whole

    def counted(self: frames.Decompressor, data: Any, one: frames.Frame) -> bytes:
        content = whole(self, data, one)
        decompressed.append(len(content))
        return content

    def never(*_arguments: Any) -> Any:
        raise AssertionError("the log was read from the front")

    monkeypatch.setattr(frames.Decompressor, "whole", counted)
    monkeypatch.setattr(Source, "blocks", never)
    seen: list[int] = []
    for words in (12_000, 24_000):
        log = long_log(words)
        for name in ("plain", "zstd"):
            path = tmp_path / f"{words}-{name}"
            path.write_bytes(log.text() if name == "plain" else log.zstd(batch=20))
            assert path.stat().st_size > 4 * tail._WINDOW
            decompressed.clear()
            got = open_tail(path, 100)
            assert [event.seq for event in got.events] == list(range(len(log.events) - 100, len(log.events)))
            assert not got.complete
            seen.append(sum(decompressed))
    assert seen[0] == seen[2] == 0
    assert 0 < seen[1] < 2_000_000
    assert seen[3] < seen[1] * 1.5


def test_short_logs_samples_and_bytes_that_are_no_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(LINES[False][0] + b"\n")
    assert (len(open_tail(path).events), open_tail(path).complete) == (0, True)
    path.write_bytes(joined(LINES[False][1:40]))
    compared(path, 5)
    for data in (b"", b"garbage", b'{"type":"session","version":9}\n' + b"x" * 100_000):
        path.write_bytes(data)
        with pytest.raises(LogRefused):
            open_tail(path)
    with pytest.raises(SessionNotFound):
        open_tail(tmp_path / "missing")


def test_a_directory_is_opened_at_the_tail_of_its_newest_generation(tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_bytes(joined(LINES[False]))
    later = Log("sess-long", version=3)
    later.user("newer")
    (tmp_path / "session.v3.jsonl").write_bytes(later.text())
    got = open_tail(tmp_path)
    assert (got.header.version, len(got.events)) == (3, 1)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_later_formats_have_tails_too(tmp_path: Path, version: int) -> None:
    log = Log(version=version)
    for number in range(3000):
        log.user(f"message {number}")
    path = tmp_path / "log.jsonl"
    path.write_bytes(log.text())
    assert path.stat().st_size > 2 * tail._WINDOW
    for count in (1, 10, 2999, 3000, 5000):
        compared(path, count)
    last = open_tail(path, 1).events[0].message
    assert last is not None
    assert last.text == "message 2999"


def test_unknown_and_ignorable_events_are_part_of_a_tail(tmp_path: Path) -> None:
    log = long_log(1500)
    log.add("crew/note", {"a": 1}, ignorable=True)
    log.add("crew/required", {"a": 1})
    path = tmp_path / "log.jsonl"
    path.write_bytes(log.text())
    assert plains(open_tail(path, 3).events) == log.events[-3:]
    compared(path, 10)
