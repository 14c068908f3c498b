"""Windows, filters page by page, and records of events (dsh-v0 §8.2-8.4)."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log import reference
from tests.log.strategies import tapes
from tests.views.logs import SAMPLE, event, session, step, step_end, turn, user
from tests.views.naive import as_stored, random_log
from turnlog import Session
from turnlog.events import SessionTitle, UserMessage
from turnlog.store import StoredSession, load
from turnlog.views import (
    AddressUnknown,
    Between,
    CursorInvalid,
    CursorStale,
    EventFilter,
    FilterInvalid,
    LimitInvalid,
    QueryError,
    WindowInvalid,
    documents,
    event_records,
    page,
    select,
    surface_events,
    window,
)


@pytest.fixture
def sample() -> StoredSession:
    return load(SAMPLE)


@pytest.mark.parametrize(
    ("address", "before", "after", "seqs"),
    [
        ("@5", 0, 0, [5]),
        ("@5", 2, 1, [3, 4, 5, 6]),
        ("@0", 3, 1, [0, 1]),
        ("@9", 1, 50, [8, 9]),
        ("t1.s1", 1, 0, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("call:call_1", 0, 1, [4, 5, 6, 7, 8]),
    ],
)
def test_a_window_is_the_place_and_its_neighbours_as_far_as_the_log_reaches(
    sample: StoredSession, address: str, before: int, after: int, seqs: list[int]
) -> None:
    found = window(sample, address, before=before, after=after)
    assert [one.seq for one in found.events] == [seq for seq in seqs if found.first <= seq <= found.last]
    assert (found.first, found.last) == (max(found.target.first - before, 0), min(found.target.last + after, 9))
    if address.startswith("@"):
        assert [one.seq for one in found.events] == seqs


@pytest.mark.parametrize("wrong", [-1, 51, 1.0, True, "3", None])
def test_a_window_takes_counts_up_to_fifty(sample: StoredSession, wrong: Any) -> None:
    for side in ("before", "after"):
        with pytest.raises(WindowInvalid, match=f"{side} is .* from 0 to 50") as raised:
            window(sample, "@5", **{side: wrong})
        assert raised.value.code == "SESSION_QUERY_INVALID_WINDOW"
    with pytest.raises(AddressUnknown, match="no event @10; there are @0 to @9"):
        window(sample, "@10")


def test_a_log_that_begins_later_has_no_neighbours_before_its_beginning() -> None:
    tail = load(SAMPLE)
    assert [one.seq for one in window(tail, "@9", before=50).events] == list(range(10))
    holed = [turn(), user(), step(), step_end()]
    log = session(*holed)
    assert [one.seq for one in window(log, "@1", before=1, after=1).events] == [0, 1, 2]


# -- conditions -------------------------------------------------------------------------------------------------


def test_conditions_all_have_to_hold_and_values_of_one_are_alternatives(sample: StoredSession) -> None:
    def seqs(**conditions: Any) -> list[int]:
        return [one.seq for one in select(sample, EventFilter(sample, **conditions))]

    assert seqs() == list(range(10))
    assert seqs(types=["tool/*", "turn/end"]) == [6, 7, 9]
    assert seqs(seqs=[Between(0, 1), Between(9)]) == [0, 1, 9]
    assert seqs(seqs=[Between(last=2), Between(4, 4)], types=["assistant/*"]) == [4]
    assert seqs(times=[Between(sample.event(8).time, sample.event(9).time)]) == [8, 9]
    assert seqs(text=["i'll  SEARCH", "typo"]) == [2, 5]
    assert seqs(text="typo", surfaces=["log-only"]) == []


@pytest.mark.parametrize("name", ["types", "seqs", "times", "tools", "text", "surfaces"])
def test_a_condition_without_values_is_fulfilled_by_nothing(sample: StoredSession, name: str) -> None:
    conditions: Any = {name: []}
    assert list(select(sample, EventFilter(sample, **conditions))) == []


def test_conditions_are_copied(sample: StoredSession) -> None:
    types = ["turn/start"]
    keeps = EventFilter(sample, types=types)
    types.append("turn/end")
    assert [one.seq for one in select(sample, keeps)] == [0]


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"types": "tool/call"}, "types is 'tool/call'; it has to be a list"),
        ({"types": [1]}, "types holds 1, which is no text"),
        ({"tools": 3}, "tools is 3"),
        ({"seqs": [(1, 2)]}, r"seqs holds \(1, 2\)"),
        ({"surfaces": ["visible"]}, "current, shadowed, log-only, not 'visible'"),
        ({"text": " \n"}, "nothing to look for"),
        ({"text": ["typo", ""]}, "nothing to look for"),
    ],
)
def test_what_is_no_condition_is_refused_by_name(sample: StoredSession, conditions: dict[str, Any], said: str) -> None:
    with pytest.raises(FilterInvalid, match=said) as raised:
        EventFilter(sample, **conditions)
    assert raised.value.code == "SESSION_QUERY_INVALID_FILTER"


@pytest.mark.parametrize("ends", [(2, 1), (float("nan"), None), (None, float("inf")), (True, 3), ("1", 3)])
def test_a_range_has_finite_ends_in_order(ends: tuple[Any, Any]) -> None:
    with pytest.raises(FilterInvalid):
        Between(*ends)


# -- records ----------------------------------------------------------------------------------------------------


def test_records_tell_every_event_and_documents_those_that_say_something(sample: StoredSession) -> None:
    told = list(event_records(sample))
    assert [(one.seq, one.type, one.time) for one in told] == [(e.seq, e.type, e.time) for e in sample.events]
    assert [one.seq for one in told if one.surface == "current"] == [2, 5, 7]
    assert all(one.text is None for one in told)
    said = {one.seq: one.text for one in documents(sample)}
    assert list(said) == [2, 5, 6, 7]
    assert said[6] == 'bash\n{"command":"grep runoob README.md"}'


def test_the_surface_says_up_to_where_the_log_was_read() -> None:
    assert surface_events(Session()).captured_through is None
    log = load(SAMPLE)
    found = surface_events(log)
    assert (found.captured_through, [one.seq for one in found.events]) == (9, [2, 5, 7])


# -- pages ------------------------------------------------------------------------------------------------------


def test_pages_go_on_where_the_last_one_ended_also_when_the_log_has_grown() -> None:
    log = Session("s")
    for number in range(5):
        log.append(SessionTitle(value={"title": str(number)}))
    keeps = EventFilter(log, types=["session/title"])
    first = page(log, keeps, limit=2)
    assert [one.seq for one in first.events] == [0, 1]
    log.append(SessionTitle(value={"title": "5"}))
    second = page(log, keeps, limit=3, cursor=first.cursor)
    third = page(log, keeps, limit=3, cursor=second.cursor)
    assert [one.seq for one in second.events] == [2, 3, 4]
    assert ([one.seq for one in third.events], third.cursor) == ([5], None)


def test_a_cursor_is_stale_where_its_answer_depends_on_what_was_logged_since() -> None:
    log = Session("s")
    for number in range(3):
        log.append(UserMessage.of(str(number)))
    cursor = page(log, EventFilter(log, surfaces=["current"]), limit=1).cursor
    log.append(UserMessage.of("more"))
    with pytest.raises(CursorStale, match="has grown") as raised:
        page(log, EventFilter(log, surfaces=["current"]), cursor=cursor)
    assert raised.value.code == "SESSION_QUERY_STALE_CURSOR"


def test_a_cursor_is_stale_when_the_log_is_another_one_with_the_same_id() -> None:
    def titled(*titles: str) -> StoredSession:
        return session(*(event("session/title", {"title": one}) for one in titles))

    log = titled("a", "b", "c")
    cursor = page(log, EventFilter(log), limit=2).cursor
    for changed, why in ((titled("a", "B", "c"), "is not what it was"), (titled("a"), "has 1 events and had 3")):
        with pytest.raises(CursorStale, match=why):
            page(changed, EventFilter(changed), cursor=cursor)


def test_a_cursor_belongs_to_its_session_and_its_conditions(sample: StoredSession) -> None:
    cursor = page(sample, EventFilter(sample, types=["assistant/*"]), limit=1).cursor
    assert cursor is not None
    other = session(turn(), user())
    with pytest.raises(CursorInvalid, match="of session sample, and this is s"):
        page(other, EventFilter(other, types=["assistant/*"]), cursor=cursor)
    with pytest.raises(CursorInvalid, match="other conditions"):
        page(sample, EventFilter(sample), cursor=cursor)
    inside = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    for wrong in ("", "nonsense", "é", cursor[:-4], urlsafe_b64encode(json.dumps([*inside, 1]).encode()).decode()):
        with pytest.raises(CursorInvalid, match="is no cursor"):
            page(sample, EventFilter(sample, types=["assistant/*"]), cursor=wrong)
    forged = urlsafe_b64encode(json.dumps([inside[0], inside[1], 10**9, *inside[3:]]).encode()).decode()
    with pytest.raises(QueryError):
        page(sample, EventFilter(sample, types=["assistant/*"]), cursor=forged)


@pytest.mark.parametrize("wrong", [0, -1, 1001, 2.0, True, "3"])
def test_a_page_has_one_to_a_thousand_events(sample: StoredSession, wrong: Any) -> None:
    with pytest.raises(LimitInvalid, match="from 1 to 1000") as raised:
        page(sample, EventFilter(sample), limit=wrong)
    assert raised.value.code == "SESSION_QUERY_INVALID_LIMIT"


# -- whatever the log -------------------------------------------------------------------------------------------

TYPES = ["turn/*", "assistant/chunk", "assistant/*", "tool/result", "user/message"]


@pytest.mark.proof
def test_windows_filters_and_pages_are_what_they_are_defined_to_be(prove: Prove) -> None:
    kinds = st.none() | st.lists(st.sampled_from(TYPES), max_size=2)
    places = st.none() | st.lists(st.sampled_from(["current", "shadowed", "log-only"]), max_size=2)
    span = st.none() | st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda ends: tuple(sorted(ends)))

    def check(tape: bytes, types: Any, surfaces: Any, ends: Any, limit: int, around: tuple[int, int, int]) -> None:
        live = random_log(tape)
        for log in (live, as_stored(live)):
            lines = reference.read(one.line() for one in log.events)
            shadowed = reference.replaced_by(lines)
            visible = set(reference.nodes(lines))
            place = {
                line["seq"]: "current" if line["seq"] in visible else "shadowed" if line["seq"] in shadowed
                else "log-only" for line in lines
            }  # fmt: skip
            wanted = [
                line["seq"]
                for line in lines
                if (types is None or any(is_of(line["type"], one) for one in types))
                and (surfaces is None or place[line["seq"]] in surfaces)
                and (ends is None or ends[0] <= line["seq"] <= ends[1])
            ]
            seqs = None if ends is None else [Between(*ends)]
            keeps = EventFilter(log, types=types, surfaces=surfaces, seqs=seqs)
            assert [one.seq for one in select(log, keeps)] == wanted
            assert {one.seq: one.surface for one in event_records(log)} == place
            assert [one.seq for one in surface_events(log).events] == reference.nodes(lines)
            check_pages(log, keeps, wanted, limit)
            if lines:
                seq, before, after = around[0] % len(lines), *around[1:]
                near = [line["seq"] for line in lines if seq - before <= line["seq"] <= seq + after]
                assert [one.seq for one in window(log, f"@{seq}", before=before, after=after).events] == near

    around = st.tuples(st.integers(0, 999), st.integers(0, 50), st.integers(0, 50))
    prove("filters and windows equal their naive definition", check, tapes, kinds, places, span, st.integers(1, 7),
          around)  # fmt: skip


def check_pages(session: Session, keeps: EventFilter, wanted: list[int], limit: int) -> None:
    told: list[int] = []
    cursor = None
    while True:
        found = page(session, keeps, limit=limit, cursor=cursor)
        told += [one.seq for one in found.events]
        cursor = found.cursor
        if cursor is None:
            break
        assert len(found.events) == limit
    assert told == wanted


def is_of(type: str, pattern: str) -> bool:
    return type.startswith(pattern[:-1]) if pattern.endswith("*") else type == pattern
