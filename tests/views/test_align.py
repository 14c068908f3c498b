"""Aligning: every element once, in order, equal ones side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnlog.views.align import align, gaps

words = st.lists(st.sampled_from("abcdefghij"), max_size=25)


@given(words, words)
def test_every_element_is_there_once_and_in_order(left: list[str], right: list[str]) -> None:
    pairs = align(left, right)
    assert [one for one, _other in pairs if one is not None] == list(range(len(left)))
    assert [other for _one, other in pairs if other is not None] == list(range(len(right)))
    assert all(left[one] == right[other] for one, other in pairs if one is not None and other is not None)


@given(words)
def test_what_is_the_same_is_aligned_throughout(some: list[str]) -> None:
    assert align(some, some) == [(place, place) for place in range(len(some))]


@given(st.lists(st.integers(), unique=True, max_size=30), st.data())
def test_what_was_put_in_or_taken_out_is_found(some: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(some)))
    with_more = [*some[:place], "new", *some[place:]]
    assert [pair for pair in align(some, with_more) if None in pair] == [(None, place)]
    assert [pair for pair in align(with_more, some) if None in pair] == [(place, None)]


def test_gaps_tell_what_stands_between_two_matches() -> None:
    assert list(gaps(align("axb", "ayzb"))) == [(0, 0), ([1], [1, 2]), (2, 3)]


def test_long_sequences_with_nothing_in_common_are_not_looked_at_pair_by_pair() -> None:
    left, right = ["x"] * 20_000, ["y"] * 20_000
    assert sum(None in pair for pair in align(left, right)) == 40_000
