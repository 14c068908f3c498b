"""Views of a session are immutable sequences: they share what they show and never grow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.log.sessions import WITH_PLUGINS, chunk, in_step, talk, user
from turnlog.events import PlanMode, ReasoningDelta, TextDelta, ToolCallDelta
from turnlog.events.lossless import dump
from turnlog.log import MESSAGES, AnyEvent, Events, Projector, Session, View
from turnlog.log.event import event_class
from turnlog.log.header import SessionHeader
from turnlog.log.rows import PackedRun, Rows
from turnlog.log.surface import Surface


def texts(view: Any) -> list[str]:
    return [message.text for message in view]


# -- messages and other projections ------------------------------------------------------------------------------------


def test_a_view_is_a_sequence() -> None:
    view = talk(*"abcd").derive_messages()
    assert isinstance(view, View)
    assert len(view) == 4
    assert texts(view) == list("abcd")
    assert texts(reversed(view)) == list("dcba")
    assert (view[0].text, view[-1].text, view[3].text) == ("a", "d", "d")
    assert texts(view[1:3]) == ["b", "c"]
    assert texts(view[::-2]) == ["d", "b"]
    assert isinstance(view[1:3], tuple)
    assert view[2] in view
    assert view.index(view[2]) == 2
    assert view.count(view[2]) == 1
    for index in (4, -5):
        with pytest.raises(IndexError, match=f"no item {index if index > 0 else -1} in a view of 4"):
            view[index]
    assert repr(view) == "<View of 4 items>"


def test_views_are_equal_to_what_they_show() -> None:
    session = talk("a", "b")
    view = session.derive_messages()
    assert view == session.derive_messages()
    assert view == list(view)
    assert view == tuple(view)
    assert view == talk("a", "b").derive_messages()
    assert view != talk("a").derive_messages()
    assert view != session.derive_messages(1)
    assert view != "ab"
    assert hash(view) == hash(session.derive_messages())
    empty: list[Any] = []
    assert talk().derive_messages() == empty


def test_a_view_never_grows_or_changes_also_across_a_replace() -> None:
    session = talk("a", "b", "c")
    three = session.derive_messages()
    kept = list(three)
    session.append(user("d"))
    four = session.derive_messages()
    session.append(user("X"), replaces=(0, 1), sources=[0, 1])
    replaced = session.derive_messages()
    session.append(user("e"))
    assert texts(three) == ["a", "b", "c"]
    assert all(one is other for one, other in zip(three, kept, strict=True))
    assert texts(four) == ["a", "b", "c", "d"]
    assert texts(replaced) == ["X", "c", "d"]
    assert texts(session.derive_messages()) == ["X", "c", "d", "e"]


def test_iterating_goes_on_undisturbed_while_the_log_grows() -> None:
    session = talk("a", "b")
    seen = []
    for message in session.derive_messages():
        seen.append(message.text)
        session.append(user("x"))
    assert seen == ["a", "b"]
    events = []
    for event in session.events:
        events.append(event.seq)
        session.append(user("y"))
    assert events == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "name", ["append", "extend", "insert", "pop", "remove", "clear", "sort", "__setitem__", "__delitem__"]
)
def test_views_have_no_way_to_change(name: str) -> None:
    session = talk("a")
    for view in (session.derive_messages(), session.events, session.surface):
        assert not hasattr(view, name)


@pytest.mark.parametrize(("at", "expected"), [(0, ""), (1, "a"), (3, "abc"), (4, "abcd"), (None, "abcd")])
def test_a_length_gives_the_view_of_that_moment(at: int | None, expected: str) -> None:
    assert "".join(texts(talk(*"abcd").derive_messages(at))) == expected


@pytest.mark.parametrize("at", [-1, 5, True, 1.0, "1"])
def test_a_length_that_the_log_never_had_is_refused(at: Any) -> None:
    session = talk(*"abcd")
    asked: list[Any] = [
        session.derive_messages,
        session.message_events,
        session.surface_at,
        session.request_header,
        lambda length: session.project(MESSAGES, length),
    ]
    for ask in asked:
        with pytest.raises(IndexError, match="is no number of events; the log holds 4"):
            ask(at)


def test_messages_are_a_projection_like_any_other() -> None:
    session = talk("a", "b")
    assert session.project(MESSAGES) == session.derive_messages()


def test_a_projector_is_asked_once_for_each_event_and_only_for_what_is_new() -> None:
    session = talk("a", "b", "c")
    asked: list[int] = []

    def project(event: AnyEvent) -> int:
        asked.append(event.seq)
        return event.seq

    for over in ("surface", "log"):
        asked.clear()
        projector = Projector(f"seqs of the {over}", project, over=over)  # type: ignore[arg-type]
        session.project(projector)
        known = len(asked)
        session.append(user("d"))
        assert session.project(projector)[-1] == len(session) - 1
        session.project(projector)
        session.project(projector, 2)
        assert len(asked) == known + 1
        assert sorted(asked) == sorted(set(asked))


def test_nothing_is_projected_for_none_and_anything_else_counts() -> None:
    session = talk("a", "b", "c")
    for over in ("surface", "log"):
        falsy = Projector(over, lambda event: [None, 0, ""][event.seq], over=over)  # type: ignore[arg-type]
        assert list(session.project(falsy)) == [0, ""]


@pytest.mark.parametrize("over", ["surface", "log"])
def test_a_projector_that_fails_once_leaves_nothing_half_done(over: Any) -> None:
    session = talk("a", "b", "c")
    session.append(user("X"), replaces=(0, 1), sources=[0, 1])
    session.append(user("Y"), replaces=(2, 2), sources=[2])
    broken = {2, 3, 4}

    def project(event: AnyEvent) -> int:
        if event.seq in broken:
            broken.discard(event.seq)
            raise RuntimeError(f"not now, @{event.seq}")
        return event.seq

    projector = Projector("fails", project, over=over)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            session.project(projector)
    assert list(session.project(projector)) == ([3, 4] if over == "surface" else [0, 1, 2, 3, 4])


def test_over_the_log_chunks_are_left_out_unless_asked_for() -> None:
    session = in_step()
    session.append(chunk(TextDelta(0, "x")))
    session.append(PlanMode(value=1))
    session.append(chunk(TextDelta(0, "y")))
    assert list(session.project(Projector("no chunks", lambda event: event.seq, over="log"))) == [0, 1, 2, 4]
    every = Projector("all", lambda event: event.seq, over="log", skips_chunks=False)
    assert list(session.project(every)) == [0, 1, 2, 3, 4, 5]
    session.append(chunk(TextDelta(0, "z")))
    assert list(session.project(every)) == [0, 1, 2, 3, 4, 5, 6]


# -- events ------------------------------------------------------------------------------------------------------------


def test_events_are_a_sequence_that_never_grows() -> None:
    session = talk("a", "b", "c")
    events = session.events
    session.append(user("d"))
    assert isinstance(events, Events)
    assert (len(events), len(session.events)) == (3, 4)
    assert [event.seq for event in events] == [0, 1, 2]
    assert [event.seq for event in reversed(events)] == [2, 1, 0]
    assert (events[0].seq, events[-1].seq) == (0, 2)
    assert [event.seq for event in events[1:]] == [1, 2]
    assert isinstance(events[1:], Events)
    assert [event.seq for event in events[1:][1:]] == [2]
    assert [event.seq for event in events[2:1]] == []
    assert [event.seq for event in events[::2]] == [0, 2]
    assert events == session.events[:3]
    assert events != session.events
    for index in (3, -4):
        with pytest.raises(IndexError):
            events[index]
    with pytest.raises(TypeError):
        hash(events)
    assert repr(events) == "<3 events>"


def packed() -> Session:
    """A stored session of a step whose chunks 3 to 8 are packed: three of text, two of reasoning, one of a call."""
    session = in_step()
    rows, surface = Rows(event_class(WITH_PLUGINS.codec)), Surface()
    for event in session.events:
        rows.add(event)
    runs: list[tuple[str, int, dict[str, Any]]] = [
        ("text-chunks", 3, {"turn": 1, "step": 1, "index": 0, "dt": [5, -2], "texts": ["a", "b", "c"]}),
        ("reasoning-chunks", 2, {"turn": 1, "step": 1, "index": 1, "dt": [0], "texts": ["x", "y"]}),
        ("tool-call-chunks", 1, {"turn": 1, "step": 1, "index": 2, "dt": [], "args": ["{"], "id": "c1", "name": "n"}),
    ]
    for kind, count, data in runs:
        line = {"type": kind, "seq0": rows.length, "time0": 1000, "data": data}
        rows.add_run(decode_row(dump(line)), count)
    header = SessionHeader(version=0, id="p", created_at=1)
    return Session.stored(header, rows, surface, vocabulary=WITH_PLUGINS, read_only="stored", closes=False)


def decode_row(line: bytes) -> PackedRun:
    import msgspec

    return msgspec.json.decode(line, type=PackedRun)


def test_packed_chunks_read_like_chunks() -> None:
    session = packed()
    assert len(session) == 9
    chunks: list[Any] = [event.data for event in session.events[3:]]
    assert [one.chunk for one in chunks] == [
        TextDelta(0, "a"),
        TextDelta(0, "b"),
        TextDelta(0, "c"),
        ReasoningDelta(1, "x"),
        ReasoningDelta(1, "y"),
        ToolCallDelta(2, "c1", "{", "n"),
    ]
    assert [event.time for event in session.events[3:]] == [1000, 1005, 1003, 1000, 1000, 1000]
    assert [event.seq for event in session.events] == list(range(9))
    assert session.events[4].raw == b'{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"b"}}'


def test_any_part_of_packed_events_can_be_taken() -> None:
    session = packed()
    whole = [event.seq for event in session.events]
    for start in range(10):
        for stop in range(10):
            assert [event.seq for event in session.events[start:stop]] == whole[start:stop]
    assert [session.event(seq).seq for seq in (8, 3, 5, 4, 7, 0)] == [8, 3, 5, 4, 7, 0]


def test_packed_chunks_are_selected_projected_and_forked_like_others() -> None:
    session = packed()
    assert [event.seq for event in session.select(type(chunk(TextDelta(0, ""))))] == list(range(3, 9))
    every = Projector("all", lambda event: event.seq, over="log", skips_chunks=False)
    assert list(session.project(every)) == list(range(9))
    assert list(session.project(every, 5)) == list(range(5))
    for length in range(10):
        child = session.fork(length)
        assert child.events[:length] == session.events[:length]
        assert child.events[length].type == "session/end-seed"
