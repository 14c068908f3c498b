"""What requests used: reported failures, formats, and records that are no attempt."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.usage.billing import Request, Script
from tests.views import logs
from tests.views.logs import LONG, TOOLS, case, event, real, session
from turnlog.events import TokenUsage
from turnlog.store import load
from turnlog.store.convert import convert
from turnlog.views.buckets import Buckets, whole_percent
from turnlog.views.usage import UNREPORTED, usage


def test_a_figure_that_is_in_two_records_counts_once_and_reasoning_is_inside_output() -> None:
    """BC-002: chunk and message were both summed; reasoning was added to the output that holds it."""
    found = usage(case("BC-002/session.jsonl")).total
    assert found.tokens == Buckets(input=130, cache_read=1900, cache_write=0, output=61, reasoning=24)
    assert (found.requests, found.tokens.prompt, found.tokens.total) == (2, 130 + 1900, 130 + 1900 + 61)


def test_what_was_spent_stays_spent_after_a_compaction() -> None:
    """BC-037: the total does not change through the replacement, with or without the bookkeeping event."""
    for name in ("after-compaction", "old-log-without-price"):
        found = usage(case(f"BC-037/{name}.jsonl")).total
        assert (found.tokens.input, found.tokens.output, found.requests) == (4200, 10, 1)


@pytest.mark.parametrize(
    ("zone", "days"),
    [
        ("America/Los_Angeles", {"2025-11-01": 100, "2025-11-02": 2100, "2025-11-03": 600}),
        ("UTC", {"2025-11-02": 1000, "2025-11-03": 1800}),
    ],
)
def test_a_day_goes_from_local_midnight_to_local_midnight(zone: str, days: dict[str, int]) -> None:
    """BC-052: days were 24 hours of UTC; the 25-hour day has 01:30 twice, and both count."""
    found = usage(case("BC-052/session.jsonl")).by_day(ZoneInfo(zone))
    assert {day: one.tokens.input for day, one in found.items()} == days


def test_figures_below_zero_are_flagged_and_take_nothing_from_others() -> None:
    """BC-053 g: a negative figure was subtracted from the day's total."""
    wrong = {"inputTokens": -12, "outputTokens": 5, "reasoningTokens": 9}
    found = usage(session(logs.turn(), logs.step(), logs.message(usage=wrong), logs.message(usage=logs.USAGE))).total
    assert found.tokens == Buckets(input=10, output=10, reasoning=5)
    assert (found.requests, found.flawed, found.cost.exact) == (2, 1, False)


def test_unknown_usage_is_neither_zero_tokens_nor_no_cost() -> None:
    """BC-053 c: an answer without usage had the cost 0."""
    found = usage(session(logs.turn(), logs.step(), logs.message())).total
    assert (found.requests, found.unreported, found.tokens) == (1, 1, Buckets())
    assert found.cost.micro_usd is None
    assert found.cost.why == (UNREPORTED,)


def test_an_answer_without_usage_among_others_is_counted_as_one() -> None:
    """BC-076: the same usage (input 11, output 3) whatever a log was exported to."""
    found = usage(case("BC-076/session.jsonl")).total
    assert (found.tokens.input, found.tokens.output) == (11, 3)
    assert (found.requests, found.unreported) == (3, 1)


def test_a_retried_attempt_is_billed_and_a_refused_one_is_not() -> None:
    made = Script()
    figure = {"inputTokens": 7, "outputTokens": 2}
    made.turn([[Request("failed", "chunk", figure), Request("refused", "nothing", {}),
                Request("answered", "both", {"inputTokens": 9, "outputTokens": 1})]])  # fmt: skip
    found = usage(load(made.log()))
    assert [(one.address, one.outcome, one.tokens) for one in found.charges] == [
        ("t1.s1.a1", "failed", Buckets(input=7, output=2)),
        ("t1.s1.a3", "completed", Buckets(input=9, output=1)),
    ]


def test_a_failed_attempt_is_billed_to_the_model_that_was_asked() -> None:
    made = Script()
    made.turn([[Request("failed", "chunk", {"inputTokens": 7, "outputTokens": 2}), Request("answered", "nothing", {})]])
    assert [one.route for one in usage(load(made.log())).charges] == ["p/m", "p/m"]


def test_the_model_that_wrote_a_summary_is_billed() -> None:
    summary = {"compactionId": "c", "summary": [], "shadowedRange": {"start": 0, "end": 0}, "shadowedSeqs": [0],
               "shadowedTokenCount": 1, "provider": "p", "model": "small"}  # fmt: skip
    bracket = event("compaction/start", {"compactionId": "c", "turn": None})
    told = event("compaction/summary", {**summary, "usage": logs.USAGE, "llmStreamCall": True, "rawOutput": "x"})
    silent = event("compaction/summary", {**summary, "llmStreamCall": True, "rawOutput": "x"})
    written = event("compaction/summary", summary)
    found = {}
    for name, one in (("told", told), ("silent", silent), ("written", written)):
        found[name] = usage(load(logs.log(logs.user(), bracket, one), forensic=True)).charges
    assert [(one.address, one.route, one.kind, one.tokens) for one in found["told"]] == [
        ("@2", "p/small", "compaction", Buckets(input=10, output=5))
    ]
    assert [one.tokens for one in found["silent"]] == [None]
    assert found["written"] == ()


def test_requests_are_told_by_the_tools_that_their_answers_called() -> None:
    found = usage(case("BC-002/session.jsonl")).by_tool()
    assert {tool: one.tokens.output for tool, one in found.items()} == {"bash": 50, "": 11}


@pytest.mark.parametrize("names", [TOOLS, LONG], ids=["tools", "long"])
def test_every_format_of_a_log_tells_the_same_usage(names: dict[int, str]) -> None:
    found = {version: usage(real(version, name)).total for version, name in names.items()}
    assert found[0].requests > 0
    assert found[0].tokens[:4] == found[3].tokens[:4] == found[4].tokens[:4]  # dsh 0.2 did not report reasoning
    assert found[0].requests == found[3].requests == found[4].requests


@pytest.mark.parametrize("version", [3, 4])
def test_a_converted_session_tells_the_same_usage(version: int, tmp_path: Path) -> None:
    old = real(version, TOOLS[version])
    assert old.path is not None
    made = convert(old.path, tmp_path)
    new, before = usage(load(made.path)), usage(old)
    assert new.total == before.total
    assert {turn: one.tokens for turn, one in new.by_turn().items()} == {
        turn: one.tokens for turn, one in before.by_turn().items()
    }
    assert [one.time for one in new.charges] == [one.time for one in before.charges]


def test_a_request_that_still_runs_is_left_out() -> None:
    from tests.log.sessions import chunk, in_step
    from turnlog.events import BlockStart, TextDelta

    live = in_step()
    live.append(chunk(BlockStart(0, "text")))
    live.append(chunk(TextDelta(0, "so far")))
    assert usage(live).charges == ()


@pytest.mark.parametrize(
    ("part", "whole", "percent"),
    [(0, 0, None), (0, 10, 0), (10, 10, 100), (9_999_999, 10_000_000, 99), (1, 10_000_000, 1), (1, 2, 50), (2, 3, 67)],
)
def test_only_all_is_100_percent_and_only_none_is_0(part: int, whole: int, percent: int | None) -> None:
    assert whole_percent(part, whole) == percent


def test_buckets_take_a_usage_as_it_is_reported() -> None:
    told = TokenUsage(input_tokens=1, output_tokens=9, cache_read_tokens=2, cache_write_tokens=3, reasoning_tokens=4)
    assert Buckets.of(told) == (Buckets(1, 2, 3, 9, 4), False)
    assert Buckets(1, 2, 3, 9, 4).total == 15
