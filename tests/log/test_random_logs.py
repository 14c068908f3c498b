"""Whatever the log: live = at any length = replayed = a naive reference, and nothing handed out ever changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log import reference
from tests.log.sessions import WITH_PLUGINS, Reminder, Weather, empty, lines, stored
from tests.log.strategies import Writer, tapes, written
from turnlog.events import Message, PlanMode, TodoWrite
from turnlog.events.lossless import dump
from turnlog.log import AnyEvent, Projector, Replace, Session, View

pytestmark = pytest.mark.proof


def shown(messages: Sequence[Message]) -> list[Any]:
    """Messages as plain JSON."""
    return [json.loads(dump(message)) for message in messages]


def of_surface(event: AnyEvent) -> tuple[int, str] | None:
    return None if event.seq % 3 == 0 else (event.seq, event.type)


def of_log(event: AnyEvent) -> str | None:
    return None if event.type == "turn/start" else f"{event.seq}:{event.type}"


SURFACE = Projector("surface", of_surface)
LOG = Projector("log", of_log, over="log")
WHOLE_LOG = Projector("whole log", of_log, over="log", skips_chunks=False)


def expected_surface(log: list[reference.Line]) -> list[tuple[int, str]]:
    return [(seq, log[seq]["type"]) for seq in reference.nodes(log) if seq % 3]


def expected_log(log: list[reference.Line], *, chunks: bool) -> list[str]:
    wanted = [line for line in log if line["type"] != "turn/start" and (chunks or line["type"] != "assistant/chunk")]
    return [f"{line['seq']}:{line['type']}" for line in wanted]


def test_live_views_equal_the_naive_reference_at_every_length_and_never_change(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        kept: list[tuple[Sequence[Any], list[Any]]] = []

        def look(session: Session) -> None:
            log = writer.log
            messages = session.derive_messages()
            assert session.surface == tuple(reference.nodes(log))
            assert shown(messages) == reference.messages(log)
            assert list(session.project(SURFACE)) == expected_surface(log)
            assert list(session.project(LOG)) == expected_log(log, chunks=False)
            assert list(session.project(WHOLE_LOG)) == expected_log(log, chunks=True)
            for view in (messages, session.project(SURFACE), session.project(LOG), session.events, session.surface):
                kept.append((view, list(view)))

        writer = Writer(tape, after_each=look, forks=True)
        writer.write()
        for view, then in kept:
            assert len(view) == len(then)
            assert list(view) == then
            assert all(view[at] is one or view[at] == one for at, one in enumerate(then))

    prove("logs looked at after every append", check, tapes)


def test_a_view_at_any_length_equals_the_naive_reference(prove: Prove) -> None:
    def check(tape: bytes, warm: bool) -> None:
        session = written(tape, forks=True)
        log = reference.read(lines(session))
        if warm:
            session.derive_messages()
        for length in range(len(log) + 1):
            prefix = log[:length]
            assert session.surface_at(length) == tuple(reference.nodes(prefix))
            assert shown(session.derive_messages(length)) == reference.messages(prefix)
            assert list(session.project(SURFACE, length)) == expected_surface(prefix)
            assert list(session.project(LOG, length)) == expected_log(prefix, chunks=False)
            assert list(session.project(WHOLE_LOG, length)) == expected_log(prefix, chunks=True)
            behind = [event.seq for event in session.message_events(length)]
            assert behind == [seq for seq in reference.nodes(prefix) if reference.message(prefix[seq]) is not None]
        assert shown(session.derive_messages()) == reference.messages(log)

    prove("logs looked at at every length", check, tapes, st.booleans())


def test_what_replaced_what_equals_the_naive_reference(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        session = written(tape, forks=True)
        log = reference.read(lines(session))
        took = reference.replaced_by(log)
        assert {seq: session.replaced_by(seq) for seq in range(len(log))} == {
            seq: took.get(seq) for seq in range(len(log))
        }
        assert session.generation == sum(isinstance(line.get("surfaceOp"), dict) for line in log)

    prove("replacements", check, tapes)


def test_messages_are_one_object_each_however_often_they_are_derived(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        seen: dict[int, Message] = {}

        def look(session: Session, length: int | None = None) -> None:
            events = session.message_events(length)
            for event, message in zip(events, session.derive_messages(length), strict=True):
                assert seen.setdefault(event.seq, message) is message

        session = Writer(tape, after_each=look).write()
        for length in range(len(session) + 1):
            look(session, length)

    prove("shared messages", check, tapes)


def test_log_only_events_in_between_never_change_what_is_derived(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        def interleave(session: Session) -> None:
            before = list(session.derive_messages())
            session.append(PlanMode(value={"active": True}))
            session.append(Weather(city="Ulm"))
            if writer.nesting.turn:
                session.append(TodoWrite(todos=()))
            after = session.derive_messages()
            assert len(after) == len(before)
            assert all(one is other for one, other in zip(before, after, strict=True))
            for event in session.events[len(writer.log) :]:
                writer.log.append(json.loads(event.line()))

        writer = Writer(tape, after_each=interleave)
        writer.write()

    prove("interleaved log-only events", check, tapes)


def without_fresh_ids(log: Sequence[bytes]) -> list[reference.Line]:
    """A log as plain JSON without the ids of messages that ``append_input`` renders: those are fresh each time."""
    read = reference.read(log)
    for line in read:
        if line["type"] == "user/message" and line["data"]["source"]["kind"] == "plugin":
            del line["data"]["id"]
    return read


def test_appending_what_a_log_says_gives_the_same_log(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        original = written(tape)
        now = 0
        again = Session("s", vocabulary=WITH_PLUGINS, clock=lambda: now)
        rendered = -1
        for event in stored(original).events:
            if event.seq == rendered:
                continue
            now = event.time
            if isinstance(event.data, Reminder):
                again.append_input(event.data)
                rendered = event.seq + 1
                continue
            place: dict[str, Any] = {}
            if event.data.surface:
                place["sources"] = event.sources
                if isinstance(event.surface_op, Replace):
                    place["replaces"] = (event.surface_op.start, event.surface_op.end)
            again.append(event.data, **place)  # type: ignore[call-overload]
        assert without_fresh_ids(lines(again)) == without_fresh_ids(lines(original))
        assert again.surface == original.surface
        assert again.owed() == original.owed()
        if rendered < 0:
            assert lines(again) == lines(original)
            assert again.events == original.events
            assert again.derive_messages() == original.derive_messages()

    prove("replayed logs", check, tapes)


def test_a_stored_log_reads_as_it_was_live(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        session = written(tape, forks=True)
        read = stored(session)
        assert lines(read) == lines(session)
        assert read.events == session.events
        assert [event.data for event in read.events] == [event.data for event in session.events]
        assert read.derive_messages() == session.derive_messages()
        assert list(read.project(LOG)) == list(session.project(LOG))
        assert read.owed() == session.owed()

    prove("stored logs", check, tapes)


def test_a_view_over_the_whole_log_skips_no_chunk() -> None:
    assert isinstance(empty().project(WHOLE_LOG), View)
