"""What the store gives back, as plain values to compare with what was written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.store.logs import Event
from turnlog.events import Message
from turnlog.events.lossless import dump
from turnlog.log import AnyEvent, Replace
from turnlog.store import Finding, LogCorrupt, LogRefused, LogUnsupported, StoredSession, load, verify


def plain(event: AnyEvent) -> Event:
    """An event as a writer would have written it, ranges of sources written out."""
    value: Event = {"type": event.type, "seq": event.seq, "time": event.time, "data": json.loads(event.raw)}
    if event.sources is not None:
        value["sourceEventSeqs"] = list(event.sources)
    if isinstance(event.surface_op, Replace):
        value["surfaceOp"] = {"op": "replace", "start": event.surface_op.start, "end": event.surface_op.end}
    elif isinstance(event.surface_op, str):
        value["surfaceOp"] = event.surface_op
    if event.ignorable:
        value["ignorable"] = True
    return value


def plains(events: Iterable[AnyEvent]) -> list[Event]:
    return [plain(event) for event in events]


def flat(event: Event) -> Event:
    """A written event in the shape of :func:`plain`."""
    if "sourceEventSeqs" not in event:
        return event
    pairs = [one if isinstance(one, list) else [one, one] for one in event["sourceEventSeqs"]]
    return {**event, "sourceEventSeqs": [seq for start, end in pairs for seq in range(int(start), int(end) + 1)]}


def flats(events: Iterable[Event]) -> list[Event]:
    return [flat(event) for event in events]


def shown(messages: Sequence[Message]) -> list[Any]:
    """Messages as plain JSON."""
    return [json.loads(dump(message)) for message in messages]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def codes(findings: Iterable[Finding], *severities: str) -> list[str]:
    """The codes of findings, of the given severities or of all."""
    return [finding.code for finding in findings if not severities or finding.severity in severities]


def refusal(source: str | Path | bytes) -> Finding:
    """Why a strict load refuses *source*; ``verify`` must say the same, and more where there is more."""
    with pytest.raises(LogRefused) as caught:
        load(source)
    finding = caught.value.finding
    assert finding.severity == "refused"
    assert isinstance(caught.value, LogUnsupported if finding.kind == "unsupported" else LogCorrupt)
    assert str(caught.value).startswith(str(finding))
    report = verify(source)
    assert report.verdict == "refused"
    assert (finding.code, finding.place) in [(one.code, one.place) for one in report.findings]
    return finding


def opened(source: str | Path | bytes, **kept: Any) -> StoredSession:
    """A strict load, which ``verify`` must agree with: the same events and nothing refused."""
    session = load(source, **kept)
    report = verify(source, **kept)
    assert "refused" not in {finding.severity for finding in report.findings}
    assert report.session is not None
    assert report.session.events == session.events
    assert report.events == len(session) == len(list(session.events))
    assert [event.seq for event in session.events] == list(range(len(session)))
    return session
