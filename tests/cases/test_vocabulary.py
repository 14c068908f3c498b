"""Reported faults of vocabulary: what a plugin wrote, and what a careless writer wrote, can still be read."""

from __future__ import annotations

import pytest

from tests.cases.inputs import case
from tests.store.reading import codes, opened
from turnlog.events import ToolCallBlock, UnknownPayload
from turnlog.store import verify
from turnlog.views import calls


@pytest.mark.parametrize("name", ["unknown-required.jsonl", "unknown-ignorable-false.jsonl"])
def test_bc_013_an_unknown_required_event_does_not_close_the_log_to_readers(name: str) -> None:
    """differences.md 5 wins over the case: opening to read works, the event is opaque; ``verify`` says unsupported."""
    path = case(13, name)
    session = opened(path)
    assert len(session) == 23
    event = session.event(11)
    assert event.type == "crew/member-added"
    assert isinstance(event.data, UnknownPayload)
    assert not event.ignorable
    assert len(session.derive_messages()) == 4
    (finding,) = session.findings
    assert (finding.code, finding.severity, finding.kind, finding.seq) == ("unknown-type", "fault", "unsupported", 11)
    for said in (str(path), "'crew/member-added'", "@11", "a newer build or a plugin wrote it"):
        assert said in str(finding)
    assert codes(verify(path).findings) == ["unknown-type"]


def test_bc_013_an_unknown_ignorable_event_keeps_its_seq_and_shows_nothing_to_the_model() -> None:
    path = case(13, "unknown-ignorable.jsonl")
    session = opened(path)
    assert len(session) == 23
    assert len(session.derive_messages()) == 4
    event = session.event(11)
    assert event.ignorable
    assert event.line() == path.read_bytes().split(b"\n")[12]
    (note,) = verify(path).findings
    assert (note.code, note.severity) == ("unknown-ignorable", "note")
    assert verify(path).ok


def test_bc_014_calls_without_ids_open_and_are_listed_by_verify() -> None:
    path = case(14)
    session = opened(path)
    assert len(session) == 10
    assert len(session.derive_messages()) == 4
    blocks = [block for block in session.derive_messages()[1].content if isinstance(block, ToolCallBlock)]
    assert [block.id for block in blocks] == ["", ""]
    findings = verify(path).findings
    listed = [(one.seq, one.text.rpartition("$.")[2]) for one in findings if one.code == "shape"]
    ids = [(seq, text) for seq, text in listed if "name" not in text]
    assert [seq for seq, _text in ids] == [3, 3, 4, 5, 6, 7]  # twice at the message, two calls, two results
    assert all("without id" in text or "may not be empty" in text for _seq, text in ids)


def test_bc_014_calls_without_ids_pair_with_their_results_by_order() -> None:
    session = opened(case(14))
    assert [one.seqs for one in calls(session)] == [(4, 5), (6, 7)]
