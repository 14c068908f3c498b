"""``repair``: what can be kept of a damaged log is kept in a new file, and everything else is named."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cases.inputs import CASES, case
from tests.rewrite.sessions import CWD, NOW, STAMP, clock, edited, files, lines, messages, reported, write, writer
from tests.store.logs import compact, frame, joined
from turnlog.store import (
    LogCorrupt,
    LogRefused,
    LogUnsupported,
    Lost,
    Moved,
    RewriteRefused,
    SessionLocked,
    list_sessions,
    load,
    repair,
    verify,
)
from turnlog.store.frames import walk_frames
from turnlog.store.liveness import liveness
from turnlog.store.names import parse_file

NEEDED = [
    (4, "end-seed-collision.jsonl", 33),
    (5, "forked-log.jsonl", 11),
    (10, "complete-but-wrong.jsonl", 11),
    (11, "nul-line-mid.jsonl", 31),
    (11, "nul-pad-after-record.jsonl", 31),
    (11, "nul-replaces-record.jsonl", 30),
    (22, "nan.jsonl", 19),
    (23, "time-over-2p53.jsonl", 1),
    (34, "sources-miss-a-node.jsonl", 28),
    (46, "header-frame-without-newline.jsonl.zstd", 11),
    (46, "header-split-over-frames.jsonl.zstd", 11),
    (46, "line-split-over-frames.jsonl.zstd", 11),
    (46, "plain-text-named-zstd.jsonl.zstd", 11),
    (46, "whole-log-in-one-frame.jsonl.zstd", 11),
    (46, "zstd-named-plain.jsonl", 11),
    (47, "skippable-frame.jsonl.zstd", 18),
    (49, "bad-block-middle.jsonl.zstd", 22),
    (49, "bad-checksum-middle.jsonl.zstd", 22),
    (49, "frame-missing-middle.jsonl.zstd", 22),
    (50, "blank-lines.jsonl", 11),
    (50, "bom.jsonl", 11),
    (50, "crlf.jsonl", 11),
    (50, "invalid-utf8.jsonl", 11),
    (50, "latin1.jsonl", 11),
]
NOT_NEEDED = [
    (4, "before-second-writer.jsonl"),
    (5, "live-open-turn.jsonl"),
    (10, "no-final-newline.jsonl"),
    (13, "unknown-required.jsonl"),
    (47, "checksum-equals-magic.jsonl.zstd"),
]
TORN = [
    (11, "nul-tail.jsonl"),
    (49, "garbage-after-last.jsonl.zstd"),
    (49, "nul-after-last.jsonl.zstd"),
    (49, "only-checksum-missing.jsonl.zstd"),
    (49, "torn-in-magic.jsonl.zstd"),
    (49, "torn-last-frame.jsonl.zstd"),
]
HOPELESS = [
    (11, "all-nul.jsonl"),
    (49, "torn-header-frame.jsonl.zstd"),
    (50, "cr-only.jsonl"),
    (50, "utf16.jsonl"),
]


@pytest.mark.parametrize(("number", "name", "events"), NEEDED, ids=lambda value: str(value))
def test_what_was_repaired_opens_strict_and_the_damaged_log_is_untouched(
    tmp_path: Path, number: int, name: str, events: int
) -> None:
    path = reported(tmp_path, number, name)
    done = repair(path, clock=clock)
    assert done.needed
    assert done.repaired == tmp_path / f"{name}.repaired-{STAMP}"
    assert path.read_bytes() == case(number, name).read_bytes()
    session = load(done.repaired)
    assert len(session) == done.events == events
    assert [one.seq for one in session.events] == list(range(events))
    assert session.torn is None
    assert session.findings == ()
    again = repair(done.repaired)
    assert not again.needed or {one.code for one in again.findings} == {"container"}  # its name ends in no .zstd


@pytest.mark.parametrize(("number", "name"), NOT_NEEDED, ids=str)
def test_a_sound_log_is_left_alone(tmp_path: Path, number: int, name: str) -> None:
    path = reported(tmp_path, number, name)
    done = repair(path, apply=True)
    assert (done.needed, done.repaired, done.reason) == (False, None, "strict readers open it; it needs no repair")
    assert files(tmp_path) == [name]


@pytest.mark.parametrize(("number", "name"), TORN, ids=str)
def test_a_torn_tail_needs_no_repair_and_says_so(tmp_path: Path, number: int, name: str) -> None:
    path = reported(tmp_path, number, name)
    done = repair(path, apply=True)
    assert not done.needed
    assert "a resume cuts it off" in done.reason
    assert files(tmp_path) == [name]


@pytest.mark.parametrize(("number", "name"), HOPELESS, ids=str)
def test_a_log_without_a_readable_header_is_refused_with_the_reason(tmp_path: Path, number: int, name: str) -> None:
    path = reported(tmp_path, number, name)
    with pytest.raises(LogCorrupt, match=r"header|LF|UTF-16"):
        repair(path)
    assert files(tmp_path) == [name]


def test_the_turn_of_a_second_writer_follows_the_marker_it_did_not_see(tmp_path: Path) -> None:
    """BC-004"""
    done = repair(reported(tmp_path, 4, "end-seed-collision.jsonl"))
    assert done.moved == (Moved(20, 12, 21),)
    assert str(done.moved[0]) == "@20 to @31 are @21 to @32 now"
    assert (done.lost, done.branches) == ((), ())
    assert done.repaired is not None
    session = load(done.repaired)
    before = load(case(4, "before-second-writer.jsonl"))
    assert lines(session)[:21] == lines(before)
    assert [message["id"] for message in messages(session)] == ["m-0001", "m-0002", "m-0003", "m-0004", "m-0051",
                                                                "m-0052"]  # fmt: skip
    assert session.event(30).sources == (25, 26, 27, 28, 29)
    assert verify(done.repaired).ok


def test_the_real_result_wins_over_the_made_up_one_and_both_are_kept(tmp_path: Path) -> None:
    """BC-005"""
    done = repair(reported(tmp_path, 5, "forked-log.jsonl"))
    assert done.repaired is not None
    assert [message["id"] for message in messages(load(done.repaired))] == ["m-0001", "m-0002", "m-0061", "m-0062"]
    (branch,) = done.branches
    assert branch.name.startswith("forked-log.jsonl.branch-")
    assert [message["id"] for message in messages(load(branch))] == ["m-0001", "m-0002", "m-0031"]
    assert any("made up" in text for text in done.said)
    assert (done.moved, done.lost) == ((), ())
    assert verify(branch).ok


def test_two_real_histories_are_kept_in_two_files(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    first = [{"turn": 1, "text": "one"}, {"turn": 2, "text": "two"}]
    second = [{"turn": 2, "text": "other"}]
    path.write_bytes(log_of([*turns(first), *turns(second, seq=3)]))
    done = repair(path)
    assert done.repaired is not None
    assert [message["content"][0]["text"] for message in messages(load(done.repaired))] == ["one", "two"]
    (branch,) = done.branches
    assert [message["content"][0]["text"] for message in messages(load(branch))] == ["one", "other"]
    assert any("another history" in text for text in done.said)


def test_events_that_were_written_twice_are_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    all_turns = list(turns([{"turn": 1, "text": "one"}, {"turn": 2, "text": "two"}]))
    path.write_bytes(log_of([*all_turns, *all_turns[3:]]))
    done = repair(path)
    assert (done.events, done.moved, done.lost, done.branches) == (6, (), (), ())
    assert any("written twice" in text for text in done.said)


def test_frames_that_changed_places_are_put_in_order(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl.zstd"
    written = turns([{"turn": number, "text": str(number)} for number in (1, 2, 3)])
    parts = [joined(map(compact, part)) for part in ([HEADER], written[0:3], written[6:9], written[3:6])]
    path.write_bytes(b"".join(map(frame, parts)))
    done = repair(path)
    assert done.repaired is not None
    assert (done.events, done.moved, done.lost) == (9, (), ())
    assert [message["content"][0]["text"] for message in messages(load(done.repaired))] == ["1", "2", "3"]
    assert any("out of place" in text for text in done.said)


def test_lost_events_are_named_and_what_follows_them_is_renumbered_aloud(tmp_path: Path) -> None:
    """BC-011"""
    done = repair(reported(tmp_path, 11, "nul-replaces-record.jsonl"))
    assert done.lost == (Lost("event @8: not in the file, or not readable", 8, 8),)
    assert done.moved == (Moved(9, 22, 8),)
    assert done.repaired is not None
    session, old = load(done.repaired), load(case(11, "nul-tail.jsonl"))
    assert [one.raw for one in session.events] == [one.raw for one in old.events if one.seq != 8]
    assert session.event(9).sources == (8,)  # the result still cites its call


def test_a_complete_wrong_record_is_reported_and_stays_in_the_damaged_log(tmp_path: Path) -> None:
    """BC-010"""
    done = repair(reported(tmp_path, 10, "complete-but-wrong.jsonl"))
    (lost,) = done.lost
    assert "line 13: time is 'yesterday'" in lost.text
    assert '"seq":11' in lost.text


def test_bytes_that_are_no_text_are_replaced_only_with_a_word_about_it(tmp_path: Path) -> None:
    """BC-050"""
    done = repair(reported(tmp_path, 50, "latin1.jsonl"))
    assert any("became U+FFFD" in text for text in done.said)
    assert done.repaired is not None
    assert "\ufffd" in messages(load(done.repaired))[0]["content"][0]["text"]


@pytest.mark.parametrize("name", ["whole-log-in-one-frame", "line-split-over-frames"])
def test_the_container_is_written_as_dsh_wants_it(tmp_path: Path, name: str) -> None:
    """BC-046"""
    done = repair(reported(tmp_path, 46, f"{name}.jsonl.zstd"))
    assert done.repaired is not None
    data = done.repaired.read_bytes()
    walk = walk_frames(data)
    assert (walk.stop, len(walk.frames)) == ("end", 2)
    assert all(frame.checksum for frame in walk.frames)
    assert done.said == ("the container was rewritten: the header in a frame of its own, then frames of whole records",)


def test_a_replace_whose_target_was_lost_is_shown_at_the_end_and_said(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    events = list(turns([{"turn": 1, "text": "one"}, {"turn": 2, "text": "two"}]))
    op = {"op": "replace", "start": 1, "end": 4}
    summary = message(6, "sum", surfaceOp=op, sourceEventSeqs=[1, 4])
    alone = message(7, "one again", surfaceOp={"op": "replace", "start": 1, "end": 1}, sourceEventSeqs=[1])
    title = {"type": "session/title", "seq": 8, "time": 1, "data": {"title": "t", "messageSeqs": [1, 4]}}
    path.write_bytes(log_of([event for event in [*events, summary, title] if event["seq"] != 1]))
    done = repair(path)
    assert done.repaired is not None
    session = load(done.repaired)
    assert [one["content"][0]["text"] for one in messages(session)] == ["sum"]  # what is left of its span
    assert json.loads(session.event(6).raw)["messageSeqs"] == [3]
    path.write_bytes(log_of([event for event in [*events, alone] if event["seq"] != 1]))
    done = repair(path)
    assert done.repaired is not None
    assert [one["content"][0]["text"] for one in messages(load(done.repaired))] == ["two", "one again"]
    assert any("nothing of what it took the place of is here" in text for text in done.said)


def test_a_forks_boundary_moves_with_its_events(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    events = [*turns([{"turn": 1, "text": "one"}]), {"type": "session/end-seed", "seq": 3, "time": 1, "data": {}}]
    data = log_of([event for event in events if event["seq"] != 0], seedLength=3, parentSession="parent")
    path.write_bytes(data)
    done = repair(path)
    assert done.repaired is not None
    assert load(done.repaired).header.seed_length == 2


# -- apply ------------------------------------------------------------------------------------------------------


def test_apply_swaps_the_names_keeps_the_damaged_log_and_its_seals(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one", turns=3)
    events = len(load(path))
    sound = path.read_bytes()
    edited(path, b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
    damaged = path.read_bytes()
    done = repair(path, apply=True, clock=clock)
    assert (done.repaired, done.damaged) == (path, path.with_name(f"session.jsonl.damaged-{STAMP}"))
    assert done.damaged is not None
    assert done.damaged.read_bytes() == damaged
    assert files(path.parent) == [
        "attest.jsonl",
        f"attest.jsonl.damaged-{STAMP}",
        "session.jsonl",
        f"session.jsonl.damaged-{STAMP}",
        "session.lock",
    ]
    session = load(path)
    assert len(session) == events - 1
    assert sound != path.read_bytes()
    proof = verify(path).proof
    assert (proof.state, proof.seq) == ("proven", events - 1)
    (note,) = proof.notes
    assert (note.text, note.time) == (f"repaired; the damaged log is kept as {done.damaged.name}", NOW)
    assert [entry.problem for entry in list_sessions([tmp_path])] == [None]


def test_seals_of_what_was_not_changed_stay(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one", turns=3)
    data = path.read_bytes()
    path.write_bytes(data + data.splitlines(keepends=True)[-1])  # the last record is there twice
    seals = (path.parent / "attest.jsonl").read_bytes()
    repair(path, apply=True)
    assert path.read_bytes() == data
    assert (path.parent / "attest.jsonl").read_bytes().startswith(seals)
    assert verify(path).proof.state == "proven"


def test_a_live_owner_is_never_repaired(tmp_path: Path) -> None:
    """BC-005"""
    (path,) = write(tmp_path, "one")
    with writer(path):
        edited(path, b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
        before = files(path.parent)
        for apply in (False, True):
            with pytest.raises(SessionLocked):
                repair(path, apply=apply)
        assert files(path.parent) == before
    assert liveness(path) == "gone"
    assert repair(path).needed


def test_a_session_of_dsh_is_only_swapped_when_somebody_says_that_dsh_has_ended(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    (path.parent / "session.lock").unlink()
    edited(path, b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
    with pytest.raises(SessionLocked, match="--force"):
        repair(path, apply=True)
    assert repair(path).repaired is not None  # a new file beside it harms nobody
    assert liveness(path) == "unknown"
    assert repair(path, apply=True, force=True).repaired == path


def test_what_is_written_beside_a_log_is_no_log_to_anybody(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "one")
    edited(path, b'"type":"step/end"', b'"type":"\0\0\0\0\0\0\0\0"')
    for _again in range(2):
        repair(path, clock=clock)
    beside = [one for one in path.parent.iterdir() if ".repaired-" in one.name]
    assert sorted(one.name for one in beside) == [
        f"session.jsonl.repaired-{STAMP}",
        f"session.jsonl.repaired-{STAMP}-2",
    ]
    assert all(parse_file(one) is None for one in beside)
    assert [entry.path for entry in list_sessions([tmp_path])] == [path]


def test_a_wrong_file_name_is_not_mended_by_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "session.v3.jsonl"
    path.write_bytes(log_of(turns([{"turn": 1, "text": "one"}])))
    with pytest.raises(RewriteRefused, match="Rename the file"):
        repair(path)


def test_other_formats_are_converted_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "session.v2.jsonl"
    head = {"type": "session", "version": 2, "id": "x", "createdAt": 1, "delegationDepth": 0, "isSeeded": False}
    events = [event for event in turns([{"turn": 1, "text": "a"}]) if event["seq"] != 1]
    path.write_bytes(joined(map(compact, [head, *events])))
    with pytest.raises(LogUnsupported, match="turnlog convert --forensic"):
        repair(path)


def test_every_reported_log_is_repaired_or_left_alone_and_never_changed(tmp_path: Path) -> None:
    paths = [path for path in sorted(CASES.rglob("*")) if path.is_file() and path.suffix in (".jsonl", ".zstd")]
    for number, path in enumerate(paths):
        copy = tmp_path / str(number) / path.name
        copy.parent.mkdir()
        copy.write_bytes(path.read_bytes())
        try:
            done = repair(copy)
        except (LogRefused, RewriteRefused):
            done = None
        assert copy.read_bytes() == path.read_bytes()
        if done is not None and done.repaired is not None:
            assert len(load(done.repaired)) == done.events


# -- logs by hand -----------------------------------------------------------------------------------------------

Event = dict[str, Any]
HEADER: Event = {"type": "session", "version": 0, "id": "hand", "createdAt": 1, "cwd": CWD, "delegationDepth": 0}


def log_of(events: Iterable[Event], **members: object) -> bytes:
    return joined(map(compact, [{**HEADER, **members}, *events]))


def turns(said: list[Event], seq: int = 0) -> list[Event]:
    """A turn of three events for each text."""
    events: list[Event] = []
    for one in said:
        first = seq + len(events)
        events += [
            {"type": "turn/start", "seq": first, "time": first, "data": {"turn": one["turn"]}},
            message(first + 1, str(one["text"])),
            {"type": "turn/end", "seq": first + 2, "time": first, "data": {"turn": one["turn"],
                                                                           "reason": {"kind": "completed"}}},
        ]  # fmt: skip
    return events


def message(seq: int, text: str, **more: object) -> Event:
    data = {"content": [{"type": "text", "text": text}], "source": {"kind": "user"}, "role": "user", "id": f"m{seq}"}
    return {"type": "user/message", "seq": seq, "time": seq, "data": data, "surfaceOp": "append", **more}
