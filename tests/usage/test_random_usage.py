"""Random sessions: what is counted is what was billed, however the log says it."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

import turnlog
from tests.conftest import Prove
from tests.usage.billing import Figure, Request, Script, total, turns
from tests.views.naive import as_stored, random_log
from turnlog.events import TokenUsage
from turnlog.store import load
from turnlog.store.encode import lines_of
from turnlog.store.header import header_line
from turnlog.views.buckets import Buckets
from turnlog.views.prices import PriceTable
from turnlog.views.usage import Charge, Usage, tally, usage

sessions = st.lists(turns, min_size=1, max_size=3)
ZONES = ("UTC", "America/Los_Angeles", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe")
CHANGES = [
    datetime(2025, 3, 9, 10, tzinfo=UTC),  # Los Angeles loses an hour
    datetime(2025, 11, 2, 9, tzinfo=UTC),  # and has it twice
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin
    datetime(2011, 12, 30, 10, tzinfo=UTC),  # Apia has no such day
    datetime(2026, 4, 4, 15, tzinfo=UTC),  # Lord Howe moves by half an hour
]


def script(session: list[list[list[Request]]]) -> Script:
    made = Script()
    for turn in session:
        made.turn(turn)
    return made


def test_what_is_counted_is_what_was_billed(prove: Prove) -> None:
    """Retried, failed, cancelled and interrupted attempts, figures in any record, first and final and late ones."""

    def check(session: list[list[list[Request]]]) -> None:
        made = script(session)
        found = usage(turnlog.load(made.log()))
        assert tuple(found.total.tokens) == total([figure for _, figure in made.billed])
        assert found.total.requests == len(made.billed)
        assert found.total.unreported == sum(figure is None for _, figure in made.billed)
        assert [one.seq for one in found.charges if one.tokens is not None] == [
            seq for seq, figure in made.billed if figure is not None
        ]
        assert found.inherited == 0

    prove("usage equals what was billed", check, sessions)


def test_a_fork_and_its_parent_bill_every_request_once(prove: Prove) -> None:
    def check(session: list[list[list[Request]]], more: list[list[Request]], cut: int) -> None:
        parent = script(session)
        seed = cut % (parent.seq + 1)
        kept = Script(parent.events[:seed], turns=parent.turns)  # whatever it cut through, the fork goes on after it
        kept.turn(more)
        old = usage(turnlog.load(parent.log("old")))
        new = usage(load(kept.log("new", seed=seed, parent="old"), forensic=True))
        both = [figure for _, figure in parent.billed] + [figure for _, figure in kept.billed]
        assert tuple((old + new).total.tokens) == total(both)
        assert all(one.seq >= seed for one in new.charges if one.tokens is not None)

    prove("a fork bills what is its own", check, sessions, turns, st.integers(0, 10_000))


def test_packing_changes_no_figure(prove: Prove) -> None:
    runs = 0

    def check(session: list[list[list[Request]]]) -> None:
        nonlocal runs
        plain = turnlog.load(script(session).log())
        head = header_line(plain.header)
        packed = load(b"".join(line + b"\n" for line in (head, *lines_of(plain.events))))
        runs += len(plain.rows.rows) - len(packed.rows.rows)
        assert usage(packed) == usage(plain)

    prove("packed equals plain", check, sessions)
    assert runs > 0


def test_any_log_counts_the_same_packed_and_plain(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        session = random_log(tape)
        assert usage(as_stored(session)) == usage(as_stored(session, packed=False))

    prove("usage of any log packed equals plain", check, st.binary(min_size=40, max_size=150))


@st.composite
def charges(draw: st.DrawFn) -> Usage:
    """Charges around the days on which clocks change."""
    made = []
    for seq in range(draw(st.integers(0, 12))):
        at = int(draw(st.sampled_from(CHANGES)).timestamp() * 1000) + draw(st.integers(-100, 100)) * 1_000_000
        model = draw(st.sampled_from(("deepseek-flash", "deepseek-v4-pro", "unheard-of")))
        told: Figure = {"input_tokens": draw(st.integers(-5, 9000)), "output_tokens": draw(st.integers(0, 9000))}
        tokens = draw(st.sampled_from((None, TokenUsage(**told, cache_read_tokens=draw(st.integers(0, 99))))))
        buckets, flawed = (None, False) if tokens is None else Buckets.of(tokens)
        tools = draw(st.sampled_from(((), ("bash",), ("bash", "read"))))
        turn = draw(st.integers(1, 3))
        made.append(Charge(seq, at, "attempt", "deepseek", model, buckets, flawed, turn, tools=tools))
    return Usage(tuple(made))


def test_days_models_turns_and_tools_each_add_up_to_the_total_in_every_zone(prove: Prove) -> None:
    def check(found: Usage, zone: str) -> None:
        whole = found.total
        naive_input = sum(one.tokens.input for one in found.charges if one.tokens is not None)
        assert whole.tokens.input == naive_input
        for parts in (found.by_day(ZoneInfo(zone)), found.by_day(), found.by_model(), found.by_turn(), found.by_tool()):
            assert sum(one.requests for one in parts.values()) == len(found.charges)
            assert sum(one.unreported for one in parts.values()) == whole.unreported
            assert sum(one.tokens.input for one in parts.values()) == whole.tokens.input
            assert sum(one.tokens.total for one in parts.values()) == whole.tokens.total
            assert sum(one.cost.pico_usd for one in parts.values()) == whole.cost.pico_usd
            assert sum(one.cost.unpriced for one in parts.values()) == whole.cost.unpriced
            assert {why for one in parts.values() for why in one.cost.why} == set(whole.cost.why)

    prove("parts add up", check, charges(), st.sampled_from(ZONES))


def test_adding_tallies_is_counting_all_at_once(prove: Prove) -> None:
    def check(one: Usage, other: Usage) -> None:
        added = tally(one.charges) + tally(other.charges)
        whole = tally(one.charges + other.charges)
        assert added == whole

    prove("tallies add", check, charges(), charges())


def test_a_day_is_the_one_on_the_wall(prove: Prove) -> None:
    """By arithmetic on the offset of the zone, not by the calendar that is tested."""

    def check(found: Usage, zone: str) -> None:
        days = found.by_day(ZoneInfo(zone))
        for day, counted in days.items():
            mine = [one for one in found.charges if _wall(one.time, zone) == day]
            assert counted.requests == len(mine)

    prove("days of the wall clock", check, charges(), st.sampled_from(ZONES))


def _wall(ms: int, zone: str) -> str:
    offset = ZoneInfo(zone).utcoffset(datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)))
    assert offset is not None
    days = (ms + int(offset.total_seconds() * 1000)) // 86_400_000
    return datetime.fromordinal(datetime(1970, 1, 1).toordinal() + days).strftime("%Y-%m-%d")


def test_prices_do_not_depend_on_the_order_of_requests() -> None:
    table = PriceTable.builtin()
    made = [Charge(0, 1_780_000_000_000 + place, "attempt", "deepseek", "deepseek-flash", None) for place in range(3)]
    assert tally(made, table).cost == tally(reversed(made), table).cost
