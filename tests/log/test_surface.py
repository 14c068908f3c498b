"""The surface: what joins it, what takes whose place, and every way to be refused (dsh-v0 §2.4-2.5)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.log.sessions import answer, asks, call, in_step, lines, result, standing, stored, talk, user
from turnlog.events import AssistantMessage, PlanMode, TextBlock, TurnStart, UserMessage
from turnlog.log import Replace, Session, SurfaceError


def texts(session: Session, at: int | None = None) -> list[str]:
    return [message.text for message in session.derive_messages(at)]


def said(session: Session) -> str:
    return " ".join(texts(session))


def replace(session: Session, start: int, end: int, text: str = "new", sources: list[int] | None = None) -> int:
    cited = sources if sources is not None else list(range(start, end + 1))
    return session.append(user(text, text), replaces=(start, end), sources=cited).seq


def refused(session: Session, payload: Any, **place: Any) -> SurfaceError:
    before = standing(session)
    with pytest.raises(SurfaceError) as caught:
        session.append(payload, **place)
    assert standing(session) == before
    return caught.value


# -- joining and replacing ---------------------------------------------------------------------------------------------


def test_surface_events_join_in_order_and_log_only_ones_do_not() -> None:
    session = in_step()
    session.append(user("a"))
    session.append(PlanMode(value=1))
    session.append(answer(TextBlock("b")))
    assert session.surface == (3, 5)
    assert session.generation == 0


def test_one_node_is_replaced_where_it_stands() -> None:
    session = talk("a", "b", "c")
    event = session.append(user("B"), replaces=(1, 1), sources=[1])
    assert event.surface_op == Replace("replace", 1, 1)
    assert session.surface == (0, 3, 2)
    assert said(session) == "a B c"
    assert session.generation == 1


def test_a_range_is_replaced_ends_included_and_its_neighbours_keep_their_order() -> None:
    session = talk("a", "b", "c", "d", "e")
    replace(session, 1, 3, "X")
    assert session.surface == (0, 5, 4)
    assert said(session) == "a X e"


def test_everything_may_be_replaced_and_the_log_goes_on() -> None:
    session = talk("a", "b")
    replace(session, 0, 1, "X")
    session.append(user("c"))
    assert said(session) == "X c"
    assert session.surface == (2, 3)


def test_a_replacement_may_be_replaced_again() -> None:
    session = talk("a", "b", "c", "d")
    first = replace(session, 0, 1, "X")
    second = session.append(user("Y"), replaces=(first, 2), sources=[first, 2]).seq
    assert session.surface == (second, 3)
    assert said(session) == "Y d"
    assert session.generation == 2
    assert [session.replaced_by(seq) for seq in range(6)] == [4, 4, 5, None, 5, None]


def test_the_surface_of_any_length_is_what_stood_there_then() -> None:
    session = talk("a", "b", "c")
    replace(session, 0, 1, "X")
    session.append(user("d"))
    session.append(user("Y"), replaces=(3, 2), sources=[3, 2])
    assert [session.surface_at(length) for length in range(7)] == [
        (),
        (0,),
        (0, 1),
        (0, 1, 2),
        (3, 2),
        (3, 2, 4),
        (5, 4),
    ]
    assert [" ".join(texts(session, length)) for length in range(7)] == [
        "",
        "a",
        "a b",
        "a b c",
        "X c",
        "X c d",
        "Y d",
    ]


def test_a_replacement_by_an_answer_without_content_hides_the_range() -> None:
    session = in_step()
    session.append(user("a"))
    session.append(user("b"))
    session.append(answer(), replaces=(3, 4), sources=[3, 4])
    assert session.surface == (5,)
    assert list(session.derive_messages()) == []


def test_an_answer_without_content_stays_in_the_log_and_out_of_the_messages() -> None:
    session = in_step()
    session.append(user("a"))
    event = session.append(answer(), sources=[])
    assert event.message is None
    assert session.surface == (3, 4)
    assert said(session) == "a"
    assert [one.seq for one in session.message_events()] == [3]


def test_a_user_message_without_content_is_shown() -> None:
    session = talk()
    session.append(UserMessage(content=(), source=user().source, id="m"))
    assert len(session.derive_messages()) == 1


def test_an_interrupted_answer_is_shown_like_any_other() -> None:
    session = in_step()
    session.append(answer(TextBlock("half"), interrupted=True))
    assert said(session) == "half"


def test_what_each_surface_event_shows_is_its_own_message() -> None:
    session = in_step()
    spoken = session.append(user("a"))
    asked = session.append(asks("c1"))
    session.append(call("c1"))
    answered = session.append(result("c1", "b"))
    messages = session.derive_messages()
    assert [message.role for message in messages] == ["user", "assistant", "user"]
    assert messages[0] == spoken.data.message
    assert isinstance(asked.data, AssistantMessage)
    assert messages[1] is asked.data.message
    assert messages[2] is answered.data.message
    assert [event.message for event in (spoken, asked, answered)] == list(messages)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [{"sources": [0]}, {"sources": []}, {"replaces": (0, 0)}])
@pytest.mark.parametrize("payload", [PlanMode(value=1), TurnStart(turn=1)])
def test_a_log_only_event_neither_cites_nor_replaces(payload: Any, place: dict[str, Any]) -> None:
    error = refused(talk("a"), payload, **place)
    assert error.kind == "surface-eligible"
    assert "put the seqs into its payload" in str(error)


def test_a_range_that_starts_off_the_surface_is_refused() -> None:
    error = refused(talk("a", "b"), user(), replaces=(7, 1), sources=[0, 1])
    assert error.kind == "replace-start"
    assert "replace start @7 is not on the surface" in str(error)


def test_a_range_that_ends_off_the_surface_is_refused() -> None:
    error = refused(talk("a", "b"), user(), replaces=(0, 7), sources=[0, 1])
    assert error.kind == "replace-end"
    assert "replace end @7 is not on the surface" in str(error)


def test_a_range_whose_start_comes_after_its_end_is_refused() -> None:
    error = refused(talk("a", "b"), user(), replaces=(1, 0), sources=[0, 1])
    assert error.kind == "replace-order"
    assert "replace start @1 comes after its end @0" in str(error)


def test_order_is_that_of_the_surface_and_not_of_the_seqs() -> None:
    session = talk("a", "b", "c")
    first = replace(session, 0, 0, "X")  # the surface is 3, 1, 2
    assert refused(session, user(), replaces=(1, first), sources=[1, first]).kind == "replace-order"
    session.append(user("Y"), replaces=(first, 1), sources=[first, 1])
    assert said(session) == "Y c"


def test_both_ends_off_the_surface_are_reported_as_the_start() -> None:
    assert refused(talk("a"), user(), replaces=(8, 9), sources=[0]).kind == "replace-start"


def test_what_was_replaced_is_no_end_of_a_range_any_more_and_the_error_says_by_what() -> None:
    session = talk("a", "b", "c")
    replace(session, 0, 1, "X")
    error = refused(session, user(), replaces=(0, 2), sources=[0, 1, 2])
    assert error.kind == "replace-start"
    assert "it was replaced by @3" in str(error)
    error = refused(session, user(), replaces=(3, 1), sources=[3, 1])
    assert error.kind == "replace-end"
    assert "it was replaced by @3" in str(error)


def test_a_log_only_event_is_no_end_of_a_range() -> None:
    session = talk("a")
    session.append(PlanMode(value=1))
    assert refused(session, user(), replaces=(1, 1), sources=[1]).kind == "replace-start"
    assert refused(session, user(), replaces=(0, 1), sources=[0, 1]).kind == "replace-end"


def test_nothing_on_an_empty_surface_can_be_replaced() -> None:
    assert refused(talk(), user(), replaces=(0, 0), sources=[0]).kind in ("replace-start", "sources-later")


@pytest.mark.parametrize("replaces", [5, (1,), (1, 2, 3), ()])
def test_a_range_that_is_no_pair_is_refused(replaces: Any) -> None:
    error = refused(talk("a", "b"), user(), replaces=replaces, sources=[0])
    assert error.kind == "marker"
    assert "replaces takes (first seq, last seq)" in str(error)


@pytest.mark.parametrize("sources", [None, [], [0], [2], [0, 2]])
def test_a_replacement_must_cite_everything_it_replaces(sources: list[int] | None) -> None:
    session = in_step()
    for number in range(3):
        session.append(user(str(number)))
    cited = None if sources is None else [3 + one for one in sources]
    error = refused(session, answer(TextBlock("x")), replaces=(3, 5), sources=cited)
    assert error.kind == "sources-shadowed"
    assert "@4" in str(error)
    assert "add the replaced seqs to the sources" in str(error)


def test_a_replacement_may_cite_more_than_it_replaces_in_any_order() -> None:
    session = talk("a", "b", "c")
    event = session.append(user("X"), replaces=(1, 2), sources=[2, 0, 1])
    assert event.sources == (2, 0, 1)


def test_an_empty_source_list_is_for_answers_only() -> None:
    session = in_step()
    session.append(call("c1"))
    assert refused(session, user(), sources=[]).kind == "sources-empty"
    assert refused(session, result("c1"), sources=()).kind == "sources-empty"
    assert session.append(answer(TextBlock("x")), sources=()).sources == ()


@pytest.mark.parametrize("source", ["0", 0.0, True, None, -1, [0], 2**60 + 0.5])
def test_a_source_that_is_no_seq_is_refused(source: Any) -> None:
    error = refused(talk("a", "b"), user(), sources=[1, source])
    assert error.kind == "sources-type"
    assert "is no seq" in str(error)


def test_a_source_named_twice_is_refused() -> None:
    error = refused(talk("a", "b"), user(), sources=[0, 1, 0])
    assert error.kind == "sources-duplicate"
    assert "@0 more than once" in str(error)


@pytest.mark.parametrize("source", [2, 3, 2**53])
def test_a_source_that_is_not_earlier_is_refused(source: int) -> None:
    error = refused(talk("a", "b"), user(), sources=[0, source])
    assert error.kind == "sources-later"
    assert f"@{source}, which is not earlier" in str(error)


def test_sources_are_checked_for_emptiness_type_duplicates_and_order_in_turn() -> None:
    session = talk("a", "b")
    assert refused(session, user(), sources=["x", 9, 9]).kind == "sources-type"
    assert refused(session, user(), sources=[9, 9]).kind == "sources-duplicate"
    assert refused(session, user(), replaces=(0, 1), sources=[0, 9]).kind == "sources-later"


def test_any_earlier_event_may_be_cited_surface_or_not() -> None:
    session = in_step()
    session.append(PlanMode(value=1))
    assert session.append(user(), sources=[0, 3, 1]).sources == (0, 3, 1)


def test_changing_the_callers_lists_afterwards_changes_nothing() -> None:
    session = talk("a", "b", "c")
    sources, place = [0, 1], [0, 1]
    event = session.append(user("X"), replaces=place, sources=sources)  # type: ignore[call-overload]
    before = lines(session)
    sources.append(2)
    place[0] = 2
    assert lines(session) == before
    assert event.sources == (0, 1)
    assert event.surface_op == Replace("replace", 0, 1)
    assert stored(session).surface == (3, 2)


@pytest.mark.parametrize("replaces", ["01", ("0", "1"), (None, 1)])
def test_an_end_that_is_no_seq_is_refused_as_such(replaces: Any) -> None:
    assert refused(talk("a", "b"), user(), replaces=replaces, sources=[0, 1]).kind in ("marker", "replace-start")


@pytest.mark.parametrize("replaces", [(True, True), (1.0, 1.0)])
def test_an_end_that_only_equals_a_seq_is_refused(replaces: Any) -> None:
    refused(talk("a", "b"), user(), replaces=replaces, sources=[1])


@pytest.mark.parametrize("cited", [{0, 1}, frozenset({1}), {1: 0}, iter([0, 1]), "01", b"\x00\x01", 1])
def test_sources_without_an_order_are_refused(cited: Any) -> None:
    """The order of a source list is stored; a set has one that nobody chose."""
    session = talk("a", "b")
    assert refused(session, user("X"), sources=cited).kind == "sources-type"
    future = session.call_soon(user("X"), sources=cited)
    session.run_pending()
    assert getattr(future.exception(), "kind", None) == "sources-type"
    assert session.append(user("X"), sources=range(2)).sources == (0, 1)


def test_a_source_list_may_be_changed_after_call_soon() -> None:
    session, cited = talk("a", "b"), [1, 0]
    future = session.call_soon(user("X"), sources=cited)
    cited.append(7)
    session.run_pending()
    assert future.result().sources == (1, 0)
