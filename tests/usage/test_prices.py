"""What tokens cost, and when that is known."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from turnlog.views.buckets import Buckets
from turnlog.views.prices import NO_MODEL, NOTHING, Cost, PricesInvalid, PriceTable

TABLE = """
[[price]]
provider = "deepseek"
model = ["flash", "old-flash"]
input = 0.15
cache_read = "0.003"
output = 0.6
from = 2026-09-10T04:00:00Z
checked = 2026-11-15

[[price.at]]
hours = ["01:00-04:00", "22:30-00:30"]
days = ["mon", "tue"]
except = [2026-09-29]
input = 0.3
cache_read = 0.006
output = 1.2

[[price]]
provider = "deepseek"
model = "flash"
input = 1
output = 2
from = 2026-08-01
until = 2026-09-10T04:00:00Z

[[price]]
provider = "acme"
model = "long"
input = 1
cache_read = 0.5
cache_write = 2
cache_write_kept = "5 minutes"
output = 10

[[price.above]]
tokens = 1000
input = 2
output = 15
"""


def table(tmp_path: Path, text: str = TABLE) -> PriceTable:
    file = tmp_path / "prices.toml"
    file.write_text(text, encoding="utf-8")
    return PriceTable.read(file)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def micro(prices: PriceTable, when: str, tokens: Buckets, provider: str = "deepseek", model: str = "flash") -> Cost:
    return prices.cost(tokens, provider=provider, model=model, ms=ms(when))


MILLION = Buckets(input=1_000_000)


@pytest.mark.parametrize(
    ("when", "dollars"),
    [
        ("2026-09-09T12:00", "1"),  # the row before
        ("2026-09-10T03:59:59", "1"),
        ("2026-09-10T04:00", "0.15"),
        ("2026-09-14T00:59", "0.15"),  # a Monday, not yet
        ("2026-09-14T01:00", "0.3"),
        ("2026-09-14T03:59:59", "0.3"),
        ("2026-09-14T04:00", "0.15"),
        ("2026-09-16T02:00", "0.15"),  # a Wednesday
        ("2026-09-15T22:29", "0.15"),
        ("2026-09-15T23:00", "0.3"),  # Tuesday night
        ("2026-09-16T00:29", "0.3"),  # which ends on Wednesday
        ("2026-09-16T00:30", "0.15"),
        ("2026-09-14T00:10", "0.15"),  # the night of a Sunday
        ("2026-09-29T02:00", "0.15"),  # a Tuesday that is like none
    ],
)
def test_the_price_of_the_time_is_taken(tmp_path: Path, when: str, dollars: str) -> None:
    cost = micro(table(tmp_path), when, MILLION)
    assert (cost.micro_usd, cost.exact) == (int(Fraction(dollars) * 1_000_000), True)


def test_a_long_prompt_has_its_price_for_all_tokens_of_the_request(tmp_path: Path) -> None:
    prices = table(tmp_path)
    at_most = micro(prices, "2026-01-01", Buckets(600, 400, 0, 10), "acme", "long")
    longer = micro(prices, "2026-01-01", Buckets(601, 400, 0, 10), "acme", "long")
    assert at_most.micro_usd == 600 + 200 + 100
    assert longer.micro_usd == 2 * 601 + 2 * 400 + 150
    assert longer.why == ("cache reads of acme/long have no price of their own, that of input is taken",)


@pytest.mark.parametrize(
    ("when", "model", "why"),
    [
        ("2026-11-15T23:59", "flash", None),
        ("2026-11-16T00:00", "flash", "the price of deepseek/flash was last checked on 2026-11-15"),
        ("2026-07-31T23:59", "flash", "the table has no price of deepseek/flash for that time"),
        ("2026-10-01", "flash-20260930", "deepseek/flash-20260930 is priced as flash"),
        ("2026-10-01", "flash-2026-09-30", "deepseek/flash-2026-09-30 is priced as flash"),
        ("2026-10-01", "FLASH", None),
    ],
)
def test_an_estimate_says_why_it_is_one(tmp_path: Path, when: str, model: str, why: str | None) -> None:
    cost = micro(table(tmp_path), when, MILLION, model=model)
    assert cost.micro_usd
    assert cost.exact == (why is None)
    assert why is None or cost.why[0].startswith(why)


@pytest.mark.parametrize("model", ["flash-mini", "fla", "flash-2", "other", "20260101-flash"])
def test_another_model_is_no_model_with_a_price(tmp_path: Path, model: str) -> None:
    cost = micro(table(tmp_path), "2026-10-01", MILLION, model=model)
    assert (cost.micro_usd, cost.exact, cost.unpriced) == (None, False, 1)
    assert cost.why == (f"no price for deepseek/{model}",)


def test_a_request_whose_model_is_not_known_has_no_cost(tmp_path: Path) -> None:
    cost = micro(table(tmp_path), "2026-10-01", MILLION, model="")
    assert (cost.micro_usd, cost.unpriced, cost.why) == (None, 1, (NO_MODEL,))


def test_cache_writes_whose_time_is_not_told_are_an_estimate(tmp_path: Path) -> None:
    cost = micro(table(tmp_path), "2026-10-01", Buckets(cache_write=10), "acme", "long")
    assert (cost.micro_usd, cost.why) == (20, ("cache writes of acme/long are priced as kept for 5 minutes",))


def test_a_part_without_price_makes_the_least_that_it_cost() -> None:
    both = Cost(2_500_000, priced=1) + Cost(unpriced=1, why=("no price for a/b",))
    assert (both.micro_usd, both.exact, both.unpriced, both.why) == (3, False, 1, ("no price for a/b",))
    assert (NOTHING.micro_usd, NOTHING.exact) == (0, True)


def test_reasoning_is_paid_as_output_and_only_once(tmp_path: Path) -> None:
    cost = micro(table(tmp_path), "2026-10-01", Buckets(output=1_000_000, reasoning=900_000))
    assert cost.micro_usd == 600_000


def test_costs_are_exact_fractions_of_dollars(prove: Prove) -> None:
    def check(rates: list[int], tokens: list[int]) -> None:
        told = [f"{rate // 10**6}.{rate % 10**6:06d}" for rate in rates]
        from turnlog.views.prices import Price, Rates

        row = Price(("p",), ("m",), Rates(*rates))
        cost = PriceTable.of([row]).cost(Buckets(*tokens), provider="p", model="m", ms=0)
        dollars = sum(Fraction(rate) * count / 10**6 for rate, count in zip(told, tokens, strict=True))
        assert Fraction(cost.pico_usd, 10**12) == dollars
        assert cost.micro_usd is not None
        assert abs(cost.micro_usd - dollars * 10**6) <= Fraction(1, 2)

    prices = st.lists(st.integers(0, 10**8), min_size=4, max_size=4)
    prove("costs equal fractions", check, prices, st.lists(st.integers(0, 10**7), min_size=4, max_size=4))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x", "no TOML file"),
        ("price = 3", "write [[price]] with two brackets"),
        ("[prices]", "'prices' is nothing that a table of prices has"),
        ("[[price]]\nmodel='m'\ninput=1\noutput=1", "price 1: provider: expected a name"),
        ("[[price]]\nprovider='p'\nmodel='m'\noutput=1", "price 1 (p/m): input is missing"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=-1\noutput=1", "input: expected US dollars per million tokens"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=nan\noutput=1", "input: expected US dollars"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=true\noutput=1", "input: expected US dollars"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=0.0000001\noutput=1", "more than six decimals"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=1\noutput=1\nprize=2", "'prize' is no member"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=1\noutput=1\nfrom='x'", "from: expected a date"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=1\noutput=1\nfrom=2026-01-02\nuntil=2026-01-02", "not later"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=1\noutput=1\n[[price.at]]\nhours=['1-2']\ninput=1\noutput=1",
         "at 1: hours: expected a list like"),
        ("[[price]]\nprovider='p'\nmodel='m'\ninput=1\noutput=1\n[[price.above]]\ninput=1\noutput=1",
         "above 1: tokens: expected"),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(PricesInvalid) as refused:
        table(tmp_path, text)
    assert told in str(refused.value)
    assert str(tmp_path / "prices.toml") in str(refused.value)


def test_later_tables_replace_what_earlier_ones_say_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def row(input: int, model: str = "deepseek-flash") -> str:
        return f"[[price]]\nprovider = 'deepseek'\nmodel = '{model}'\ninput = {input}\noutput = 1\n"

    def price(prices: PriceTable, model: str = "deepseek-flash") -> int | None:
        return prices.cost(MILLION, provider="deepseek", model=model, ms=ms("2026-10-11")).micro_usd

    assert price(PriceTable.load()) == 150_000
    (tmp_path / "config" / "turnlog").mkdir(parents=True)
    (tmp_path / "config" / "turnlog" / "prices.toml").write_text(row(7) + row(8, "mine"))
    assert (price(PriceTable.load()), price(PriceTable.load(), "mine")) == (7_000_000, 8_000_000)
    assert price(PriceTable.load(), "deepseek-v4-pro") == 660_000
    settings = "[approval]\npolicy = 'ask'\n" + row(9).replace("[[price]]", "[[prices.price]]")
    (tmp_path / "turnlog.toml").write_text(settings)
    assert price(PriceTable.load(workspace=tmp_path)) == 9_000_000
    given = tmp_path / "given.toml"
    given.write_text(row(10))
    assert price(PriceTable.load(given, workspace=tmp_path)) == 10_000_000


def test_every_row_that_comes_with_turnlog_has_a_date_and_a_source() -> None:
    rows = {price for found in PriceTable.builtin().rows.values() for price in found}
    assert len(rows) >= 20
    for price in rows:
        assert price.since is not None
        assert price.checked is not None
        assert price.source.startswith("https://")
        assert 0 < (price.rates.cache_read or 0) <= price.rates.input < price.rates.output


def test_rows_of_a_model_do_not_overlap_in_time() -> None:
    for found in PriceTable.builtin().rows.values():
        for one, other in pairwise(found):
            assert one.until is not None
            assert other.since is not None
            assert one.until <= other.since
