"""Forensic reading and ``verify``: nothing stops at the first fault, nothing is cut in silence, nothing raises."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.store.logs import DATA, Log, frame, joined, rich
from tests.store.reading import codes, plains, refusal
from turnlog.store import LogRefused, SessionNotFound, load, verify


def numbered(*seqs: int) -> bytes:
    """A log whose events have these seqs, in this order."""
    log = Log()
    for seq in seqs:
        log.add("feedback/record", {"text": f"event {seq}"})
        log.events[-1]["seq"] = seq
    return log.text()


def seqs_of(text: bytes) -> tuple[list[int], list[list[int]]]:
    session = load(text, forensic=True)
    return [event.seq for event in session.events], [[event.seq for event in one.events] for one in session.branches]


def test_events_that_come_late_are_shown_as_a_branch_and_nothing_is_lost() -> None:
    assert seqs_of(numbered(0, 1, 3, 4, 2, 5)) == ([0, 1, 3, 4], [[2, 5]])
    findings = verify(numbered(0, 1, 3, 4, 2, 5)).findings
    assert codes(findings, "refused") == ["seq-gap", "seq-duplicate"]
    assert "seq 2 is out of order: expected 5, got 2" in findings[1].text


def test_every_writer_that_begins_again_is_a_branch_of_its_own() -> None:
    assert seqs_of(numbered(0, 1, 2, 1, 2, 3, 1, 2, 2)) == ([0, 1, 2], [[1, 2, 3], [1, 2], [2]])
    assert codes(verify(numbered(0, 1, 2, 1, 2, 3, 1, 2, 2)).findings, "refused") == ["seq-duplicate"] * 3


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_of_events_is_read_without_loss(order: tuple[int, ...]) -> None:
    main, branches = seqs_of(numbered(*order))
    assert sorted([*main, *itertools.chain(*branches)]) == [0, 1, 2, 3]
    assert main == sorted(main)
    report = verify(numbered(*order))
    assert (report.verdict == "ok") == (order == (0, 1, 2, 3))


def test_a_log_with_lost_events_counts_what_it_has_and_says_what_it_lost() -> None:
    session = load(numbered(0, 1, 5, 6), forensic=True)
    assert len(list(session.events)) == 4
    assert len(session) == 7  # the end of the log, as its writer counted
    assert session.event(5).seq == 5
    for lost in (2, 3, 4):
        with pytest.raises(IndexError, match="missing"):
            session.event(lost)
    assert verify(numbered(0, 1, 5, 6)).events == 4
    (finding,) = session.findings
    assert "@2 to @4" in finding.text


def test_events_lost_before_the_first() -> None:
    session = load(numbered(7, 8), forensic=True)
    assert [event.seq for event in session.events] == [7, 8]
    assert [event.seq for event in session.events[7:]] == [7, 8]
    assert refusal(numbered(7, 8)).seq == 7


def test_findings_are_in_file_order() -> None:
    log = rich()
    lines = log.lines()
    frames = [frame(line + b"\n") for line in lines]
    frames[5] = frames[5][:-1] + bytes([frames[5][-1] ^ 1])
    frames[9] = frame(lines[9][:-1] + b"\n")
    frames[12] = frames[12][:-1] + bytes([frames[12][-1] ^ 1])
    findings = [one for one in verify(b"".join(frames)).findings if one.severity == "refused"]
    assert [one.code for one in findings if one.code != "seq-gap"] == ["frame-damaged", "frame-damaged", "not-json"]
    container = [one.place.frame or 0 for one in findings if one.code == "frame-damaged"]
    records = [one.place.frame or 0 for one in findings if one.code != "frame-damaged"]
    assert (container, records) == (sorted(container), sorted(records))


def test_what_a_strict_load_refuses_verify_says_in_the_same_words() -> None:
    """``refusal`` compares both; here for every damaged input of the cases."""
    refused = 0
    for path in sorted((DATA / "cases").rglob("*.jsonl*")):
        try:
            load(path)
        except LogRefused:
            refused += 1
            refusal(path)
    assert refused == 24


def test_the_verdict_is_the_worst_finding() -> None:
    log = Log()
    log.turn()
    assert verify(log.text()).verdict == "ok"  # an open turn is a note
    assert verify(log.text()).ok
    torn = log.text() + b'{"type":'
    assert (verify(torn).verdict, verify(torn).ok) == ("torn", False)
    log.turn(5)
    assert verify(log.text()).verdict == "faults"
    assert verify(log.text() + b'{"type":').verdict == "torn"
    assert verify(log.text() + b"x\n").verdict == "refused"
    assert verify(log.text() + b'x\n{"type":').verdict == "refused"
    report = verify(b"")
    assert (report.verdict, report.session, report.id, report.format, report.events) == ("refused", None, None, None, 0)


def test_a_report_says_which_session_it_is_about(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(Log("sess-x", version=2).text())
    report = verify(path)
    assert (report.path, report.id, report.format, report.events) == (path, "sess-x", "format 2", 0)
    assert codes(report.findings) == ["empty"]
    assert verify(path.read_bytes(), name="standard input").findings[0].place.path == "standard input"
    with pytest.raises(SessionNotFound):
        verify(tmp_path / "missing")


def test_grammar_and_shape_faults_do_not_refuse_a_log() -> None:
    log = Log()
    log.end_turn(3)
    log.call("", name="")
    log.result("nobody", "asked")
    log.answer(
        {"type": "tool-call", "id": "a", "name": "n", "arguments": ""},
        {"type": "tool-call", "id": "a", "name": "", "arguments": ""},
    )
    log.add("turn/end", {"turn": "one"})
    session = load(log.text())
    assert plains(session.events) == log.events
    findings = verify(log.text()).findings
    assert set(codes(findings)) == {"grammar", "shape", "undecodable", "history"}
    assert {one.severity for one in findings} == {"fault"}
    assert all(one.seq is not None for one in findings)


def test_a_whole_session_of_undecodable_events_is_shown() -> None:
    log = Log()
    for type in ("turn/start", "user/message", "assistant/message", "tool/result", "assistant/chunk", "tool/call"):
        surface = {"surfaceOp": "append"} if type in ("user/message", "assistant/message", "tool/result") else {}
        log.add(type, {"unexpected": type}, **surface)
    session = load(log.text())
    assert plains(session.events) == log.events
    assert len(session.derive_messages()) == 3
    assert codes(verify(log.text()).findings, "fault").count("undecodable") == 6


def test_text_after_a_torn_record_of_a_compressed_log_is_named() -> None:
    """A frame that ends inside a record which nothing continues."""
    log = rich()
    first, *rest = log.lines()
    data = frame(first + b"\n") + frame(joined(rest) + b'{"type":"turn/st')
    session = load(data)
    assert plains(session.events) == plains(load(log.text()).events)
    assert session.torn is not None
    assert "ends with 16 bytes of a record" in session.torn.reason
    assert verify(data).verdict == "torn"
