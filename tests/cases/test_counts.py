"""Reported faults of counting: usage that is in the log twice, days, and events that an export loses."""

from __future__ import annotations

import json
from datetime import datetime
from zoneinfo import ZoneInfo

from tests.cases.inputs import case
from tests.store.reading import opened
from turnlog.events import AssistantChunk, AssistantMessage, TokenUsage, UsageChunk
from turnlog.store import load, verify
from turnlog.views import attempts


def test_bc_002_a_request_has_one_figure_though_the_log_says_it_twice() -> None:
    session = opened(case(2))
    twice = [event.data.chunk for event in session.select(AssistantChunk) if isinstance(event.data.chunk, UsageChunk)]
    assert len(twice) == len([event for event in session.select(AssistantMessage) if event.data.usage]) == 2
    figures = [one.usage for one in attempts(session) if one.usage is not None]
    assert len(figures) == 2
    assert [sum(getattr(usage, name) or 0 for usage in figures) for name in TokenUsage.__struct_fields__[:5]] == [
        130,
        61,
        1900,
        0,
        24,
    ]
    assert TokenUsage.__struct_fields__[:5] == (
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    )


def test_bc_052_usage_points_lie_on_the_days_of_their_zone() -> None:
    session = opened(case(52))
    points = [
        (event.time, event.data.chunk.usage.input_tokens)
        for event in session.select(AssistantChunk)
        if isinstance(event.data.chunk, UsageChunk)
    ]
    assert len(points) == 7

    def per_day(zone: str) -> dict[str, int]:
        days: dict[str, int] = {}
        for time, tokens in points:
            day = datetime.fromtimestamp(time / 1000, ZoneInfo(zone)).date().isoformat()
            days[day] = days.get(day, 0) + tokens
        return days

    assert per_day("America/Los_Angeles") == {"2025-11-01": 100, "2025-11-02": 2100, "2025-11-03": 600}
    assert per_day("UTC") == {"2025-11-02": 1000, "2025-11-03": 1800}
    assert {300, 400} <= {tokens for _time, tokens in points}  # 01:30 happens twice


def test_bc_076_as_many_events_come_out_as_went_in() -> None:
    path = case(76)
    stored = path.read_bytes().removesuffix(b"\n").split(b"\n")
    session = opened(path)
    assert len(session) == len(stored) - 1 == 34
    assert verify(path).events == 34
    shown = [event for event in session.events if event.message is not None]
    left_out = [event for event in session.events if event.message is None]
    assert len(shown) + len(left_out) == 34
    assert [event.type for event in left_out if event.ignorable] == ["crew/note"]
    (note,) = verify(path).findings
    assert (note.code, note.seq) == ("unknown-ignorable", 21)


def test_bc_076_lines_given_back_derive_the_same_history_and_usage() -> None:
    path = case(76)
    session = load(path)
    first = path.read_bytes().split(b"\n")[0]
    again = load(b"".join(line + b"\n" for line in (first, *(event.line() for event in session.events))))
    assert again.events == session.events
    assert list(again.derive_messages()) == list(session.derive_messages())
    figures = [one.usage for one in attempts(again) if one.usage is not None]
    assert (sum(usage.input_tokens for usage in figures), sum(usage.output_tokens for usage in figures)) == (11, 3)
    assert [json.loads(event.line()) for event in session.events] == [
        json.loads(line) for line in path.read_bytes().split(b"\n")[1:-1]
    ]
