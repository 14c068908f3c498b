"""Forks and closers of random logs: at every length, always a log that nests and owes nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log import reference
from tests.log.sessions import lines, standing
from tests.log.strategies import Writer, tapes, written
from turnlog.events import LogPayload, SurfacePayload, ToolCall, TurnStart
from turnlog.log import Closer, Session

pytestmark = pytest.mark.proof


def append(session: Session, owed: list[Closer]) -> None:
    for closer in owed:
        if isinstance(closer.payload, SurfacePayload):
            session.append(closer.payload, sources=closer.sources)
        else:
            assert isinstance(closer.payload, LogPayload)
            assert closer.sources is None
            session.append(closer.payload)


def test_a_fork_at_any_length_is_prefix_then_end_seed_then_closers(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        parent = written(tape, forks=True)
        before, whole = standing(parent), lines(parent)
        for length in range(len(whole) + 1):
            child = parent.fork(length)
            log = lines(child)
            assert log[:length] == whole[:length]
            marked = length > 0 and json.loads(whole[length - 1])["type"] == "session/end-seed"
            if not marked:  # dsh-v0 §7, rule 12: a log that ends in the marker is not marked again
                seed = json.loads(log[length])
                assert (seed["type"], seed["seq"], seed["data"]) == ("session/end-seed", length, {})
            rest = [json.loads(line)["type"] for line in log[length + (not marked) :]]
            assert "session/end-seed" not in rest
            assert set(rest) <= {"assistant/message", "tool/call", "tool/result", "step/end", "turn/end"}
            assert child.header.parent_session == parent.id
            assert child.header.seed_length == length
            state = reference.nesting(reference.read(log))
            assert (state.turn, state.step) == (None, None)
            assert child.owed() == []
            assert child.surface[: len(parent.surface_at(length))] == parent.surface_at(length)
            closed = child.derive_messages(length)
            assert list(closed) == list(parent.derive_messages(length))
            child.append(TurnStart(turn=state.last_turn + 1))
        assert standing(parent) == before

    prove("forks at every length", check, tapes)


def unanswered(log: list[reference.Line]) -> list[str]:
    """Calls that the messages of the log's last step ask for and that no later result answers."""
    found: list[str] = []
    for line in log:
        if line["type"] in ("step/start", "turn/start"):
            found = []
        if isinstance(line.get("surfaceOp"), dict):
            continue
        if line["type"] == "assistant/message":
            found += [block["id"] for block in line["data"]["message"]["content"] if block["type"] == "tool-call"]
        elif line["type"] == "tool/result" and line["data"]["message"]["source"]["callId"] in found:
            found.remove(line["data"]["message"]["source"]["callId"])
    return found


def test_a_forks_child_answers_every_call_that_its_open_step_asked_for(prove: Prove) -> None:
    dangling = 0

    def check(tape: bytes) -> None:
        nonlocal dangling
        parent = written(tape)
        for length in range(len(parent) + 1):
            log = reference.read(lines(parent.fork(length)))
            if reference.nesting(log[:length]).step is not None:
                dangling += len(unanswered(log[:length]))
                assert unanswered(log) == []

    prove("calls answered in forks", check, tapes)
    assert dangling > 0


def test_what_a_log_owes_is_the_same_each_time_and_nothing_once_it_is_there(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        def look(session: Session) -> None:
            before = standing(session)
            assert session.owed() == session.owed()
            assert standing(session) == before

        session = Writer(tape, after_each=look).write()
        owed = session.owed()
        append(session, owed)
        assert session.owed() == []
        reference.nesting(reference.read(lines(session)))
        append(session, session.owed())
        assert session.owed() == []

    prove("closers appended", check, tapes)


def test_closers_cite_what_they_rest_on(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        session = written(tape)
        start = len(session)
        append(session, session.owed())
        for event in session.events[start:]:
            for source in event.sources or ():
                cited = session.event(source)
                if event.type == "tool/result":
                    assert isinstance(cited.data, ToolCall)
                    assert cited.data.call_id in event.raw.decode()
                else:
                    assert (event.type, cited.type) == ("assistant/message", "assistant/chunk")

    prove("sources of closers", check, tapes)


def test_a_fork_of_a_fork_keeps_the_whole_history(prove: Prove) -> None:
    def check(tape: bytes, cuts: list[int]) -> None:
        session = written(tape)
        for cut in cuts:
            length = cut % (len(session) + 1)
            child = session.fork(length)
            assert lines(child)[:length] == lines(session)[:length]
            assert child.header.parent_session == session.id
            session = child
        reference.nesting(reference.read(lines(session)))

    prove("forks of forks", check, tapes, st.lists(st.integers(0, 1000), max_size=5))
