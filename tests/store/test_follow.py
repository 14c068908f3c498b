"""Following a log while it is written: every event once and in order, whatever happens to the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.store.logs import Log, frame, joined
from turnlog.log import AnyEvent
from turnlog.store import Follower, LogCorrupt, SessionNotFound, load
from turnlog.store.liveness import LOCK_NAME
from turnlog.views import Playback


@contextmanager
def writer(directory: Path) -> Iterator[Callable[[], None]]:
    """Somebody writes the logs of a directory, until what this gives is called."""
    import fcntl

    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    closed = False

    def end() -> None:
        nonlocal closed
        if not closed:
            closed = True
            os.close(descriptor)

    try:
        yield end
    finally:
        end()


def words(number: int = 30, *, id: str = "sess-1", version: int = 0) -> Log:
    """A log with a turn of streamed text."""
    log = Log(id, version=version)
    log.turn()
    log.step()
    log.user("Question")
    cited = log.text_chunks([f"w{at} " for at in range(number)])
    log.answer("".join(f"w{at} " for at in range(number)), sources=cited)
    log.end_step()
    log.end_turn()
    return log


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def seqs(events: Sequence[AnyEvent]) -> list[int]:
    return [event.seq for event in events]


def rest(follower: Follower) -> list[int]:
    """Poll until there is nothing new."""
    found: list[int] = []
    while fresh := follower.poll():
        found += seqs(fresh)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


# -- growing --------------------------------------------------------------------------------------------------------


def test_however_a_log_grows_each_event_is_given_once_and_in_order(prove: Prove) -> None:
    """BC-064, and plain, packed and zstd logs cut at any byte."""

    def check(kind: str, cuts: list[int], polls: list[bool]) -> None:
        log = words(20)
        lines = log.lines(packed=kind != "plain")
        data = joined(lines)
        if kind == "zstd":
            data = frame(lines[0] + b"\n") + b"".join(frame(joined([one])) for one in lines[1:])
        begin = len(frame(lines[0] + b"\n")) if kind == "zstd" else len(lines[0]) + 1
        places = sorted({begin, *(begin + cut % (len(data) - begin) for cut in cuts)})
        with TemporaryDirectory() as name:
            path = Path(name) / "session.jsonl"
            path.write_bytes(data[:begin])
            with writer(path.parent) as end:
                follower = Follower(path)
                found: list[AnyEvent] = []
                for at, (start, stop) in enumerate(zip(places, [*places[1:], len(data)], strict=True)):
                    append(path, data[start:stop])
                    if polls[at % len(polls)]:
                        found += follower.poll()
                        assert not follower.ended
                end()
                while not follower.ended:
                    found += follower.poll()
            assert [event.raw for event in found] == [event.raw for event in load(path).events]
            assert seqs(found) == list(range(len(log.events)))
            assert list(follower.session.surface) == list(load(path).surface)
            assert not follower.notices

    kinds = st.sampled_from(["plain", "packed", "zstd"])
    cuts = st.lists(st.integers(0, 100_000), max_size=12)
    prove("a follower gives each event once", check, kinds, cuts, st.lists(st.booleans(), min_size=1, max_size=5))


def test_what_is_new_is_there_in_the_session_too(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:4]))
    with writer(path.parent):
        follower = Follower(path)
        assert seqs(follower.poll()) == [0, 1, 2]
        assert len(follower.session.derive_messages()) == 1
        append(path, joined(lines[4:]))
        assert follower.poll()
        assert len(follower.session.derive_messages()) == 2
        assert len(follower.session) == len(lines) - 1
        assert follower.poll() == ()


def test_following_goes_on_from_a_seq(path: Path) -> None:
    lines = words().lines(packed=True)
    path.write_bytes(joined(lines[:5]))
    with writer(path.parent):
        follower = Follower(path)
        follower.skip_to(7)
        append(path, joined(lines[5:]))
        assert rest(follower) == list(range(7, len(load(path))))
        assert follower.next_seq == len(load(path))


def test_a_seq_that_is_still_to_come_is_waited_for(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:5]))
    with writer(path.parent) as end:
        early, never = Follower(path), Follower(path)
        early.skip_to(10)
        never.skip_to(1000)
        append(path, joined(lines[5:9]))
        assert rest(early) == rest(never) == []
        append(path, joined(lines[9:]))
        assert rest(early) == list(range(10, len(lines) - 1))
        end()
        assert rest(never) == []
        assert (never.ended, never.notices) == (True, [])


@pytest.mark.parametrize("version", [0, 3, 4])
def test_two_followers_take_nothing_from_each_other(tmp_path: Path, version: int) -> None:
    path = tmp_path / f"session{f'.v{version}' if version else ''}.jsonl"
    lines = words(version=version).lines(packed=False)
    path.write_bytes(joined(lines[:3]))
    with writer(path.parent):
        first, second = Follower(path), Follower(path)
        assert seqs(first.poll()) == [0, 1]
        append(path, joined(lines[3:]))
        assert rest(first) == list(range(2, len(lines) - 1))
        assert rest(second) == list(range(len(lines) - 1))


# -- the end --------------------------------------------------------------------------------------------------------


def test_it_ends_with_the_writer_and_gives_what_that_left(path: Path) -> None:
    """A whole last record without a newline belongs to the log; half of one is a torn tail."""
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:10]) + lines[10])
    with writer(path.parent) as end:
        follower = Follower(path)
        assert seqs(follower.poll()) == list(range(9))
        assert not follower.ended
        end()
        assert seqs(follower.poll()) == [9]
        assert follower.ended
        assert follower.session.torn is None
        assert follower.session.closers
    path.write_bytes(joined(lines[:10]) + lines[10][:20])
    torn = Follower(path)
    assert (rest(torn), torn.ended) == (list(range(9)), True)
    assert torn.session.torn is not None


def test_a_log_that_nobody_is_known_to_write_is_kept_in_sight_when_asked(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:4]))
    assert Follower(path).ended
    follower = Follower(path, keep=True)
    assert seqs(follower.poll()) == [0, 1, 2]
    append(path, joined(lines[4:6]))
    assert seqs(follower.poll()) == [3, 4]
    assert not follower.ended
    follower.settle()
    assert follower.ended


def test_events_can_be_awaited(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:4]))

    async def main(end: Callable[[], None]) -> list[int]:
        found = []
        async for event in Follower(path).events(interval=0.001):
            found.append(event.seq)
            if event.seq == 2:
                append(path, joined(lines[4:]))
            if event.seq == len(lines) - 2:
                end()
        return found

    with writer(path.parent) as end:
        assert anyio.run(main, end) == list(range(len(lines) - 1))


def test_a_session_that_is_being_written_can_be_played(path: Path) -> None:
    """All of it, also what came between the last look and the end of the writer."""
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:4]))

    async def main(end: Callable[[], None]) -> list[tuple[int, int]]:
        follower = Follower(path)
        played = Playback(follower.session, speed=0)
        found = []
        async for shown in played.play(more=follower.growth(interval=0.001)):
            found.append((shown.seq, played.state.length))
            if shown.seq == 2:
                append(path, joined(lines[4:20]))
            if shown.seq == 18:
                append(path, joined(lines[20:]))
                end()
        assert follower.ended
        return found

    with writer(path.parent) as end:
        assert anyio.run(main, end) == [(seq, seq + 1) for seq in range(len(lines) - 1)]


# -- files that are swapped -----------------------------------------------------------------------------------------


def replaced(path: Path, data: bytes) -> None:
    """Put another file in its place, as rotation and repair do."""
    other = path.with_suffix(".new")
    other.write_bytes(data)
    os.replace(other, path)


def in_place(path: Path, data: bytes) -> None:
    """Write it over."""
    path.write_bytes(data)


@pytest.mark.parametrize("how", [replaced, in_place])
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_is_written_anew_goes_on_by_seq(path: Path, how: Callable[..., None], packed: bool) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:20]))
    with writer(path.parent):
        follower = Follower(path)
        assert rest(follower) == list(range(19))
        how(path, joined(words().lines(packed=packed)))
        assert rest(follower) == list(range(19, len(lines) - 1))
        assert not follower.notices


def test_a_log_that_is_copied_over_itself_is_not_given_twice(path: Path) -> None:
    """It is shorter for a moment, then as it was, then longer."""
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:20]))
    with writer(path.parent):
        follower = Follower(path)
        assert rest(follower) == list(range(19))
        for stop in (0, 5, 12, 20):
            path.write_bytes(joined(lines[:stop]))
            assert rest(follower) == []
        append(path, joined(lines[20:]))
        assert rest(follower) == list(range(19, len(lines) - 1))
        assert not follower.notices


def test_a_log_that_becomes_another_is_said_and_shown_from_there(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines))
    with writer(path.parent):
        follower = Follower(path)
        rest(follower)
        other = words()
        other.events[5]["data"]["chunk"]["text"] = "changed"
        replaced(path, joined(other.lines(packed=False)))
        assert rest(follower) == list(range(5, len(other.events)))
        assert ["@5 on is another" in notice for notice in follower.notices] == [True]


def test_a_log_that_is_cut_and_written_on_differently_is_said(path: Path) -> None:
    """As when a resume cuts a tail that was shown already."""
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines))
    with writer(path.parent):
        follower = Follower(path)
        rest(follower)
        path.write_bytes(joined(lines[:10]))
        assert rest(follower) == []
        other = words()
        other.events[12]["data"]["chunk"]["text"] = "changed"
        append(path, joined(other.lines(packed=False)[10:]))
        assert rest(follower) == list(range(12, len(other.events)))
        assert ["@12 on is another" in notice for notice in follower.notices] == [True]


def test_a_log_that_stays_shorter_is_said_at_the_end(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines))
    with writer(path.parent) as end:
        follower = Follower(path)
        rest(follower)
        replaced(path, joined(lines[:10]))
        assert rest(follower) == []
        end()
        assert rest(follower) == []
        assert ["@9 to @" in notice for notice in follower.notices] == [True]


def test_another_session_in_the_same_place_is_said(path: Path) -> None:
    path.write_bytes(joined(words().lines(packed=False)))
    with writer(path.parent):
        follower = Follower(path)
        rest(follower)
        replaced(path, joined(words(id="sess-2").lines(packed=False)))
        assert rest(follower) == []
        assert "sess-2" in follower.notices[0]


def test_a_file_that_is_away_for_a_moment_is_waited_for(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:10]))
    with writer(path.parent) as end:
        follower = Follower(path)
        rest(follower)
        os.rename(path, path.with_suffix(".1"))
        assert rest(follower) == []
        path.write_bytes(joined(lines))
        assert rest(follower) == list(range(9, len(lines) - 1))
        end()
        path.unlink()
        with pytest.raises(SessionNotFound, match="followed to"):
            [follower.poll() for _ in range(100)]


def test_the_newest_generation_of_a_directory_is_followed(path: Path) -> None:
    path.write_bytes(joined(words().lines(packed=False)))
    with writer(path.parent):
        follower = Follower(path.parent)
        rest(follower)
        later = Log(version=3)
        later.user("newer")
        (path.parent / "session.v3.jsonl").write_bytes(later.text())
        assert rest(follower) == []
        assert "format 3" in follower.notices[0]
        later.user("and more")
        (path.parent / "session.v3.jsonl").write_bytes(later.text())
        assert rest(follower) == [1]


def test_a_log_that_is_packed_under_another_name_goes_on_by_seq(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:20]))
    follower = Follower(path.parent, keep=True)
    assert rest(follower) == list(range(19))
    packed = path.with_name("session.jsonl.zstd")
    packed.write_bytes(b"".join(frame(line + b"\n") for line in words().lines(packed=True)))
    assert rest(follower) == []  # two files of one generation: nobody knows which
    path.unlink()
    assert rest(follower) == list(range(19, len(lines) - 1))
    assert follower.path == packed
    assert not follower.notices


# -- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "checksum", "hole"])
def test_damage_is_never_stepped_over_and_repair_goes_on(path: Path, kind: str) -> None:
    """BC-049: a follower must not move its place past a record that cannot be read."""
    lines = words().lines(packed=False)

    def stored(some: list[bytes]) -> bytes:
        return joined(some) if kind == "plain" else b"".join(frame(one + b"\n") for one in some)

    path.write_bytes(stored(lines[:10]))
    with writer(path.parent):
        follower = Follower(path)
        assert rest(follower) == list(range(9))
        good = stored(lines[10:11])
        broken = {
            "plain": good.replace(b"assistant", b"assist\0\0t"),
            "checksum": good[:-1] + bytes([good[-1] ^ 1]),
            "hole": good[:-20],  # the frames after it show that it is not just unfinished
        }[kind]
        append(path, broken + stored(lines[11:]))
        for _ in range(3):
            with pytest.raises(LogCorrupt):
                rest(follower)
        assert follower.next_seq == 9
        replaced(path, stored(lines))
        assert rest(follower) == list(range(9, len(lines) - 1))


def test_what_comes_before_damage_is_given_first(path: Path) -> None:
    lines = words().lines(packed=False)
    path.write_bytes(joined(lines[:5]))
    with writer(path.parent):
        follower = Follower(path)
        rest(follower)
        append(path, joined([*lines[5:8], lines[9]]))
        assert seqs(follower.poll()) == [4, 5, 6]
        with pytest.raises(LogCorrupt, match="@7 is missing"):
            follower.poll()


def test_following_writes_nothing(path: Path) -> None:
    path.write_bytes(joined(words().lines(packed=True)))
    with writer(path.parent):
        before: Any = {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()}
        rest(Follower(path))
        assert {one.name: one.stat().st_mtime_ns for one in path.parent.iterdir()} == before
