"""Times: what ``--since`` and ``--until`` take, and which time zone tables show."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from zoneinfo import available_timezones

import pytest

from tests.cli.running import Ran, on_terminal
from tests.views.logs import SAMPLE, event, log, root
from turnlog.cli.moments import Clock
from turnlog.cli.problems import WrongUsage

HOUR = 3_600_000
named_zones = pytest.mark.skipif(not available_timezones(), reason="this machine knows no time zones")


def seqs(shown: Ran) -> list[int]:
    return [line["seq"] for line in shown.json_lines]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--since", "2025-08-12"], range(10)),
        (["--until", "2025-08-12"], range(10)),
        (["--since", "2025-08-12T12:00:00.070Z"], [7, 8, 9]),
        (["--until", "2025-08-12T12:00:00.02Z"], [0, 1, 2]),
        (["--since", "2025-08-12T14:00:00.050+02:00", "--until", "2025-08-12 12:00:00.060"], [5, 6]),
        (["--since", "2025-08-12t12:00:00.080z"], [8, 9]),
        (["--until", "2025-08-12T12:00"], [0]),
        (["--since", "2025-08-12T12:00:00.05Z", "--type", "tool/*", "--limit", "1"], [6]),
    ],
)
def test_events_of_a_time_are_found_by_date_or_rfc_3339(
    run: Callable[..., Ran], options: list[str], expected: list[int]
) -> None:
    assert seqs(run("events", SAMPLE, "--json", *options)) == list(expected)
    assert len(run("events", SAMPLE, *options).out.splitlines()) == len(expected)


def test_an_age_counts_back_from_now(run: Callable[..., Ran], tmp_path: Path) -> None:
    now = time.time_ns() // 1_000_000
    path = tmp_path / "log.jsonl"
    path.write_bytes(log(*(event("acme/tick", time=now - hours * HOUR) for hours in (300, 30, 5, 1)), version=0))
    for age, expected in {"2h": [3], "100m": [3], "360min": [2, 3], "36000s": [2, 3], "2d": [1, 2, 3],
                          "2w": [0, 1, 2, 3]}.items():  # fmt: skip
        assert seqs(run("events", path, "--json", "--since", age)) == expected, age
    assert seqs(run("events", path, "--json", "--since", "2d", "--until", "2h")) == [1, 2]


def test_no_event_of_that_time_is_nothing_found(run: Callable[..., Ran]) -> None:
    assert run("events", SAMPLE, "--until", "2025-08-11") == Ran(1, "", "turnlog: no event matches\n")


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "12", "2 h", "2x", "h", "-2h", "2025-13-01", "2025-02-30", "20250812", "2025-W33-2", "٢h",
     "2025-08-12T25:00Z", "2025-08-12T12:00:00+99:00", "2025-08-12T12:00:00Zjunk", "9" * 5000 + "h", "a\0b"],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("option", ["--since", "--until"])
def test_what_is_no_time_is_wrong_usage_and_names_what_is(run: Callable[..., Ran], option: str, text: str) -> None:
    for command in (["events", SAMPLE], ["ls", "--root", root(0)]):
        shown = run(*command, option, text)
        assert (shown.code, shown.out) == (2, "")
        assert f"{option} takes a date (2026-01-31), a time" in shown.err
        assert shown.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31", "9999-12-31T23:59:59Z", "999999999w"])
@pytest.mark.parametrize("zone", ["JST-9", "EST+5"])
def test_the_ends_of_the_calendar_never_end_in_a_fault(
    run: Callable[..., Ran], live_in: Callable[[str], None], zone: str, text: str, option: str
) -> None:
    live_in(zone)
    assert run("events", SAMPLE, option, text).code in (0, 1, 2)
    assert run("events", SAMPLE, option, text, "--timezone", "UTC").code in (0, 1, 2)


def test_a_time_that_ends_before_it_begins_is_wrong_usage(run: Callable[..., Ran]) -> None:
    shown = run("events", SAMPLE, "--since", "1h", "--until", "2h")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == "turnlog: --since 1h is later than --until 2h\n"


def test_dates_and_times_without_an_offset_are_of_the_time_zone_at_hand(
    run: Callable[..., Ran], live_in: Callable[[str], None]
) -> None:
    live_in("JST-9")  # noon in UTC is 21:00 there
    assert seqs(run("events", SAMPLE, "--json", "--since", "2025-08-12T21:00:00.080")) == [8, 9]
    assert seqs(run("events", SAMPLE, "--json", "--since", "2025-08-12T12:00:00.080Z")) == [8, 9]
    assert seqs(run("events", SAMPLE, "--json", "--since", "2025-08-12T12:00:00.080", "--timezone", "UTC")) == [8, 9]
    live_in("XXX-13")  # there it is the next day already
    assert run("events", SAMPLE, "--until", "2025-08-12").code == 1
    assert len(seqs(run("events", SAMPLE, "--json", "--since", "2025-08-13", "--until", "2025-08-13"))) == 10


@named_zones
def test_a_day_is_as_long_as_it_is_there() -> None:
    period = Clock("Europe/Berlin").period("2026-03-29", "2026-03-29")
    assert period.since is not None
    assert period.until is not None
    assert period.until - period.since == 23 * HOUR - 1
    assert period.has(period.since)
    assert period.has(period.until)
    assert not period.has(period.since - 1)
    assert not period.has(period.until + 1)


# -- time zones -----------------------------------------------------------------------------------------------------


def test_tables_show_local_time_with_its_offset_and_json_shows_utc(
    run: Callable[..., Ran], live_in: Callable[[str], None]
) -> None:
    in_utc = run("turn", SAMPLE, "1", "--json")
    live_in("JST-9")
    for command in (["events", SAMPLE], ["turn", SAMPLE, "1"], ["call", SAMPLE, "call_1"]):
        assert "2025-08-12T21:00:00.060+09:00" in run(*command).out
        assert "Z" not in run(*command).out
    assert "2026-12-01T03:55:21.969+09:00" in run("ls", "--root", root(0)).out
    assert run("turn", SAMPLE, "1", "--json") == in_utc
    assert "+09:00" not in run("ls", "--root", root(0), "--json").out


@named_zones
@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "2025-08-12T12:00:00.060Z"),
        ("utc", "2025-08-12T12:00:00.060Z"),
        ("local", "2025-08-12T21:00:00.060+09:00"),
        ("Europe/Berlin", "2025-08-12T14:00:00.060+02:00"),
        ("America/New_York", "2025-08-12T08:00:00.060-04:00"),
        ("Asia/Kolkata", "2025-08-12T17:30:00.060+05:30"),
    ],
)
def test_another_time_zone_is_asked_for_anywhere_on_the_line(
    run: Callable[..., Ran], live_in: Callable[[str], None], zone: str, expected: str
) -> None:
    live_in("JST-9")
    assert f"@6  {expected}  " in run("events", SAMPLE, "--timezone", zone).out
    assert run(f"--timezone={zone}", "events", SAMPLE) == run("events", SAMPLE, "--timezone", zone)
    assert run("events", SAMPLE, "--timezone", zone, "--json") == run("events", SAMPLE, "--json")


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "..", "../../etc/passwd", "/etc/passwd", "Europe", "a\0b", "x" * 5000]
)
def test_a_time_zone_that_is_none_is_wrong_usage(run: Callable[..., Ran], zone: str) -> None:
    shown = run("events", SAMPLE, "--timezone", zone)
    assert (shown.code, shown.out) == (2, "")
    assert "--timezone takes local, UTC or a name like Europe/Berlin" in shown.err
    assert shown.err.count("\n") == 1


def test_a_time_zone_option_without_its_zone_is_wrong_usage(run: Callable[..., Ran]) -> None:
    assert run("events", SAMPLE, "--timezone").code == 2


@pytest.mark.parametrize("zone", ["JST-9", "EST+5"])
@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (253_402_300_799_999, "9999-12-31T"),
        (-62_135_596_800_000, "0001-01-01T"),
        (253_402_300_800_000, "253402300800000 ms"),
        (-(2**53) + 1, "-9007199254740991 ms"),
    ],
)
def test_every_time_that_a_log_can_hold_is_shown(
    live_in: Callable[[str], None], zone: str, ms: int, shown: str
) -> None:
    live_in(zone)
    for clock in (Clock(), Clock("UTC"), Clock("local")):
        text = clock.show(ms)
        assert text.startswith(shown) or text[:4] in ("9999", "0001")


def test_somebody_at_a_terminal_sees_ages_unless_they_ask_for_a_time_zone() -> None:
    environment = {"PAGER": "cat", "TERM": "xterm", "NO_COLOR": "1"}
    out, _code = on_terminal(["ls", "--root", str(root(0))], environment)
    assert b"2026-11-30T" not in out
    assert b" ago  " in out or b"just now  " in out
    out, _code = on_terminal(["ls", "--root", str(root(0)), "--timezone", "UTC"], environment)
    assert b"  2026-11-30T18:55:21.969Z  " in out


def test_a_clock_refuses_what_it_cannot_read() -> None:
    with pytest.raises(WrongUsage, match="--until takes"):
        Clock("UTC").period("2026-01-01", "soon")
