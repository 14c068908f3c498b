"""``show`` and ``diff`` tell costs by the same prices as ``usage``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.usage.billing import Request, Script
from tests.views.logs import CASES, SAMPLE
from turnlog.views.prices import NO_MODEL

TWICE = CASES / "BC-002" / "session.jsonl"
ROW = 'provider = ["example", "p"]\nmodel = ["demo-1", "m"]\ninput = 1\ncache_read = 0.1\noutput = 10\n'


@pytest.fixture(autouse=True)
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own prices."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config" / "turnlog" / "prices.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f"[[price]]\n{ROW}")
    return file


def test_show_and_diff_go_by_the_users_own_prices(run: Callable[..., Ran]) -> None:
    micro = 130 + 190 + 610
    told = run("usage", TWICE, "--json").json["total"]
    assert told["cost"]["microUsd"] == micro
    assert run("show", TWICE, "--json").json["usage"] == told
    costs = run("diff", TWICE, TWICE, "--json").json["costs"]
    assert costs == {"left": told["cost"], "right": told["cost"]}
    assert [line.split() for line in run("diff", TWICE, TWICE).out.splitlines()][-1] == [
        "cost", "$0.000930", "$0.000930"
    ]  # fmt: skip


def test_the_settings_of_the_directory_go_before_them(run: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "turnlog.toml").write_text(f"[[prices.price]]\n{ROW.replace('= 10', '= 1')}")
    assert run("show", TWICE, "--json").json["usage"]["cost"]["microUsd"] == 130 + 190 + 61


@pytest.mark.parametrize("command", [("show", TWICE), ("diff", TWICE, TWICE)], ids=["show", "diff"])
def test_a_bad_file_of_prices_hides_nothing_but_costs(
    run: Callable[..., Ran], prices: Path, command: tuple[object, ...]
) -> None:
    prices.write_text("[")
    shown = run(*command, "--json")
    assert shown.code == 0
    assert "prices.toml: no TOML file" in shown.err
    assert "costs are by the prices that come with turnlog" in shown.err


def test_a_fork_is_compared_with_what_it_inherited_and_billed_without(run: Callable[..., Ran], tmp_path: Path) -> None:
    figure = {"inputTokens": 100, "outputTokens": 1}
    made = Script()
    made.turn([[Request("answered", "both", figure)]])
    seed = made.seq
    made.turn([[Request("answered", "both", figure)]])
    (tmp_path / "old.jsonl").write_bytes(made.log("old"))
    (tmp_path / "new.jsonl").write_bytes(made.log("new", seed=seed, parent="old"))
    compared = run("diff", "old.jsonl", "new.jsonl", "--json").json
    assert compared["totals"]["left"] == compared["totals"]["right"]
    assert compared["costs"]["left"] == compared["costs"]["right"]
    assert compared["costs"]["right"]["microUsd"] == 220
    assert run("usage", "new.jsonl", "--json").json["total"]["cost"]["microUsd"] == 110


def test_a_log_that_names_no_model_has_no_cost_and_says_why(run: Callable[..., Ran]) -> None:
    told = run("usage", SAMPLE, "--json")
    assert told.json["total"]["cost"] == {"microUsd": None, "exact": False, "unpricedRequests": 1, "why": [NO_MODEL]}
    assert told.err == f"turnlog: {NO_MODEL}\n"
