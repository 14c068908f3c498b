"""Sessions beside each other: one record each, filters, and which was forked from which (dsh-v0 §8.1-8.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from turnlog.log import SessionHeader
from turnlog.views import (
    Between,
    Branch,
    FilterInvalid,
    LineageInvalid,
    SessionRecord,
    SessionUnknown,
    SourceConflict,
    filter_sessions,
    lineage,
    session_records,
)


def header(id: str, created: int = 1, parent: str | None = None, cwd: str | None = None) -> SessionHeader:
    return SessionHeader(version=0, id=id, created_at=created, parent_session=parent, cwd=cwd)


def ids(records: tuple[SessionRecord, ...]) -> list[str]:
    return [one.id for one in records]


def test_a_session_that_is_live_and_stored_is_one_record_the_newest_first() -> None:
    found = session_records([header("b", 5), header("c", 9)], [header("b", 5), header("a", 5)])
    assert [(one.id, one.live, one.persisted) for one in found] == [
        ("c", True, False), ("a", False, True), ("b", True, True),
    ]  # fmt: skip


def test_two_headers_of_one_id_that_differ_are_a_conflict_that_names_the_field() -> None:
    with pytest.raises(SourceConflict, match="cwd is '/a' and '/b'") as raised:
        session_records([header("x", cwd="/a")], [header("x", cwd="/b")])
    assert raised.value.code == "SESSION_QUERY_SOURCE_CONFLICT"


def test_sessions_are_filtered_by_id_place_time_parent_and_availability() -> None:
    records = session_records(
        [header("live", 30, cwd="/a")],
        [header("old", 10), header("fork", 20, "old", "/b"), header("live", 30, cwd="/a")],
    )

    def wanted(**conditions: Any) -> list[str]:
        return ids(filter_sessions(records, **conditions))

    assert wanted() == ["live", "fork", "old"]
    assert wanted(ids=["old", "live"]) == ["live", "old"]
    assert wanted(cwds=[None]) == ["old"]
    assert wanted(cwds=[None, "/b"]) == ["fork", "old"]
    assert wanted(created=[Between(20, 30)]) == ["live", "fork"]
    assert wanted(created=[Between(last=10), Between(30)]) == ["live", "old"]
    assert wanted(parents=[None]) == ["live", "old"]
    assert wanted(parents=["old"], cwds=["/b"]) == ["fork"]
    assert wanted(availability=["live"]) == ["live"]
    assert wanted(availability=["persisted"]) == ["live", "fork", "old"]
    for name in ("ids", "cwds", "created", "parents", "availability"):
        assert wanted(**{name: []}) == []
    with pytest.raises(FilterInvalid, match="live, persisted, not 'gone'"):
        wanted(availability=["gone"])
    with pytest.raises(FilterInvalid, match="give a list"):
        wanted(ids="old")


def test_lineage_is_the_way_up_and_the_tree_below() -> None:
    headers = [header("root", 1), header("mid", 2, "root"), header("target", 3, "mid"), header("z", 4, "target"),
               header("y", 4, "target"), header("x", 9, "y"), header("aunt", 2, "root")]  # fmt: skip
    found = lineage("target", session_records(persisted=headers))
    assert ids(found.ancestors) == ["mid", "root"]
    assert found.root is not None
    assert (found.root.id, found.is_complete, found.unresolved_parent) == ("root", True, None)
    assert [shape(one) for one in found.descendants] == [("y", [("x", [])]), ("z", [])]
    assert lineage("root", session_records(persisted=headers)).root == found.root


def shape(branch: Branch) -> tuple[str, list[Any]]:
    return branch.record.id, [shape(child) for child in branch.children]


def test_a_parent_that_is_gone_leaves_the_lineage_incomplete() -> None:
    found = lineage("b", session_records(persisted=[header("b", 2, "a"), header("a", 1, "gone")]))
    assert (ids(found.ancestors), found.unresolved_parent, found.root) == (["a"], "gone", None)


def test_sessions_that_are_each_others_ancestors_are_refused_where_it_is_reached() -> None:
    records = session_records(persisted=[header("a", 1, "b"), header("b", 1, "a"), header("c", 1, "a"), header("d")])
    for start in "abc":
        with pytest.raises(LineageInvalid, match=r"each other's ancestors: .*(a ← b|b ← a)") as raised:
            lineage(start, records)
        assert raised.value.code == "SESSION_QUERY_INVALID_LINEAGE"
    assert lineage("d", records).descendants == ()
    with pytest.raises(LineageInvalid, match="s ← s"):
        lineage("s", session_records(persisted=[header("s", 1, "s")]))


def test_an_unknown_session_has_no_lineage() -> None:
    with pytest.raises(SessionUnknown, match="no session 'x' is among the 0") as raised:
        lineage("x", ())
    assert raised.value.code == "SESSION_QUERY_SESSION_NOT_FOUND"


def test_a_chain_of_forks_may_be_as_long_as_it_likes() -> None:
    headers = [header("s0"), *(header(f"s{n}", 1, f"s{n - 1}") for n in range(1, 20_000))]
    records = session_records(persisted=headers)
    assert len(lineage("s19999", records).ancestors) == 19_999
    depth, level = 0, lineage("s0", records).descendants
    while level:
        depth, level = depth + 1, level[0].children
    assert depth == 19_999


@pytest.mark.proof
def test_lineage_equals_following_every_parent(prove: Prove) -> None:
    def check(parents: list[int | None]) -> None:
        known = {f"s{n}": None if one is None else f"s{one}" for n, one in enumerate(parents)}
        records = session_records(persisted=[header(id, 1, parent) for id, parent in known.items()])
        for id in known:
            way: list[str] = []
            above = known[id]
            while above in known and above not in way and above != id:
                way.append(above)
                above = known[above]
            if above is not None and (above in way or above == id):
                with pytest.raises(LineageInvalid):
                    lineage(id, records)
                continue
            found = lineage(id, records)
            assert (ids(found.ancestors), found.unresolved_parent) == (way, above)
            below = {one for one in known if id in climb(one, known)}
            assert flat(found.descendants) == below

    prove("lineage equals its naive definition", check, st.lists(st.none() | st.integers(0, 9), max_size=8))


def climb(id: str, known: dict[str, str | None]) -> set[str]:
    seen: set[str] = set()
    above = known[id]
    while above in known and above not in seen:
        seen.add(above)
        above = known[above]
    return seen


def flat(branches: tuple[Branch, ...]) -> set[str]:
    return {one.record.id for one in branches}.union(*(flat(one.children) for one in branches))
