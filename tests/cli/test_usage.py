"""``usage``: rows add up to the total, and what is not known is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.usage.billing import Request, Script
from tests.views.logs import CASES, TOOLS, root
from turnlog.cli.money import cost_text, dollars
from turnlog.store.convert import convert
from turnlog.store.names import encode_project, encode_session
from turnlog.views.prices import NOTHING, Cost

DAYS = CASES / "BC-052" / "session.jsonl"
TWICE = CASES / "BC-002" / "session.jsonl"


@pytest.fixture(autouse=True)
def no_prices_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def place(at: Path, id: str, text: bytes) -> None:
    """Put a session where its id says."""
    directory = at / encode_project(None) / encode_session(id)
    directory.mkdir(parents=True)
    (directory / "session.jsonl").write_bytes(text)


def test_tokens_stand_in_columns_and_the_total_below(run: Callable[..., Ran]) -> None:
    """BC-002."""
    shown = run("usage", TWICE)
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines()] == [
        ["TURN", "REQUESTS", "INPUT", "CACHE", "READ", "OUTPUT", "REASONING", "CACHED", "COST"],
        ["t1", "2", "130", "1,900", "61", "24", "94", "%", "-"],
        ["TOTAL", "2", "130", "1,900", "61", "24", "94", "%", "-"],
    ]
    assert shown.err == "turnlog: no price for example/demo-1\n"


def test_days_periods_and_rows_go_by_one_time_zone(run: Callable[..., Ran]) -> None:
    """BC-052: filters and rows used different zones."""
    zone = ("--timezone", "America/Los_Angeles")
    rows = run("usage", DAYS, "--by", "day", "--json", *zone).json["rows"]
    assert {row["day"]: row["tokens"]["input"] for row in rows} == {
        "2025-11-01": 100, "2025-11-02": 2100, "2025-11-03": 600,
    }  # fmt: skip
    one = run("usage", DAYS, "--since", "2025-11-02", "--until", "2025-11-02", "--by", "day", "--json", *zone).json
    assert [(row["day"], row["tokens"]["input"]) for row in one["rows"]] == [("2025-11-02", 2100)]
    assert one["total"]["tokens"]["input"] == 2100
    in_utc = run("usage", DAYS, "--by", "day", "--json").json["rows"]
    assert {row["day"]: row["tokens"]["input"] for row in in_utc} == {"2025-11-02": 1000, "2025-11-03": 1800}


def test_a_table_of_prices_can_be_given(run: Callable[..., Ran], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[price]]\nprovider = "example"\nmodel = "demo-1"\ninput = 1\ncache_read = 0.1\noutput = 10\n')
    total = run("usage", TWICE, "--prices", file, "--json").json["total"]
    assert total["cost"] == {"microUsd": 130 + 190 + 610, "exact": True, "unpricedRequests": 0, "why": []}
    shown = run("usage", TWICE, "--prices", file)
    assert shown.out.splitlines()[-1].endswith("$0.000930")
    assert shown.err == ""


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [(None, 2, "no such file"), ("x = 1", 3, "'x' is nothing that a table"), ("[", 3, "no TOML file")],
)
def test_a_bad_table_of_prices_is_told_by_name(
    run: Callable[..., Ran], tmp_path: Path, text: str | None, code: int, told: str
) -> None:
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_text(text)
    shown = run("usage", TWICE, "--prices", file)
    assert (shown.code, shown.out) == (code, "")
    assert "mine.toml" in shown.err
    assert told in shown.err


def test_a_limit_cuts_rows_and_not_the_total(run: Callable[..., Ran]) -> None:
    whole = run("usage", DAYS, "--json").json
    cut = run("usage", DAYS, "--limit", "2", "--json")
    assert len(cut.json["rows"]) == 2
    assert cut.json["total"] == whole["total"]
    assert "2 of 7 rows are shown, the total is of all" in cut.err


@pytest.mark.parametrize("by", ["session", "day", "model", "project", "tool", "turn"])
def test_rows_of_every_kind_add_up_to_the_total(run: Callable[..., Ran], by: str) -> None:
    told = run("usage", "--root", root(0), "--by", by, "--json").json
    assert told["total"]["requests"] > 10
    for name in ("requests", "unreportedRequests"):
        assert sum(row[name] for row in told["rows"]) == told["total"][name]
    for name in ("input", "cacheRead", "cacheWrite", "output", "reasoning", "total"):
        assert sum(row["tokens"][name] for row in told["rows"]) == told["total"]["tokens"][name]


def test_a_session_and_what_was_converted_from_it_count_once(run: Callable[..., Ran], tmp_path: Path) -> None:
    home = tmp_path / "sessions"
    shutil.copytree(root(3), home)
    before = run("usage", "--root", home, "--json").json
    convert(home / "--home-dev-project--" / TOOLS[3], home)
    after = run("usage", "--root", home, "--json")
    assert after.json["total"] == before["total"]
    assert after.json["sessions"] == before["sessions"] + 1
    assert f"was made of {TOOLS[3]}; what both hold is counted once" in after.err


def test_a_fork_and_its_parent_count_what_is_their_own(run: Callable[..., Ran], tmp_path: Path) -> None:
    figure = {"inputTokens": 100, "outputTokens": 1}
    made = Script()
    made.turn([[Request("answered", "both", figure)]])
    seed = made.seq
    place(tmp_path, "old", made.log("old"))
    made.turn([[Request("answered", "both", figure)]])
    place(tmp_path, "new", made.log("new", seed=seed, parent="old"))
    told = run("usage", "--root", tmp_path, "--json").json
    assert {row["session"]: row["tokens"]["input"] for row in told["rows"]} == {"old": 100, "new": 100}
    assert (told["total"]["tokens"]["input"], told["inheritedRequests"]) == (200, 1)


def test_the_same_session_named_twice_counts_once(run: Callable[..., Ran]) -> None:
    shown = run("usage", TWICE, TWICE, "--json")
    assert shown.json["total"]["requests"] == 2
    assert "is there more than once; it is counted once" in shown.err


def test_logs_that_cannot_be_read_are_told_and_hide_no_others(run: Callable[..., Ran]) -> None:
    """BC-032."""
    shown = run("usage", "--root", CASES / "BC-032" / "root", "--json")
    assert shown.code == 4
    assert shown.json["sessions"] == 2
    assert len(shown.json["skipped"]) == 4
    assert all(one["reason"] for one in shown.json["skipped"])


def test_nothing_to_count_is_said(run: Callable[..., Ran], tmp_path: Path) -> None:
    assert run("usage", DAYS, "--until", "2000-01-01").code == 1
    assert "there are 7 others" in run("usage", DAYS, "--model", "gpt").err
    assert run("usage", "--root", tmp_path).code == 1
    json_of_none = run("usage", DAYS, "--until", "2000-01-01", "--json")
    assert json.loads(json_of_none.out)["total"]["cost"]["microUsd"] == 0


@pytest.mark.parametrize(
    ("micro", "text"),
    [(0, "$0"), (1, "$0.000001"), (9_999, "$0.009999"), (10_000, "$0.0100"), (12_345, "$0.0123"), (12_355, "$0.0124"),
     (999_999, "$1.0000"), (1_000_000, "$1.00"), (1_005_000, "$1.01"), (1_234_567_890, "$1,234.57")],
)  # fmt: skip
def test_money_has_the_decimals_that_it_needs(micro: int, text: str) -> None:
    assert dollars(micro) == text


def test_a_cost_says_how_sure_it_is() -> None:
    assert cost_text(NOTHING) == "$0"
    assert cost_text(Cost(1_000_000_000_000, priced=1)) == "$1.00"
    assert cost_text(Cost(1_000_000_000_000, priced=1, why=("it is old",))) == "~$1.00"
    assert cost_text(Cost(1_000_000_000_000, priced=1, unpriced=1, why=("no price",))) == "≥$1.00"
    assert cost_text(Cost(1, priced=1)) == "<$0.000001"
    assert cost_text(Cost(unpriced=2)) == "-"
