"""What the model was sent: made again from the log, checked against what really went over the wire."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import turnlog
from tests.log import reference, sessions, strategies
from tests.views.logs import LONG, TOOLS, case, real
from turnlog import Agent, tool
from turnlog.agent import RetryPolicy
from turnlog.events import AssistantChunk, AssistantMessage, CallConfig, Header, Message, RequestHeader, StepStart
from turnlog.log import AnyEvent, Projector, Session
from turnlog.model import ModelError, ScriptedModel, call, error, open_model, text
from turnlog.store import StoredSession
from turnlog.store.attest import ATTEST_NAME
from turnlog.store.discover import latest
from turnlog.testing import LoopbackServer
from turnlog.views import AddressInvalid, AddressUnknown, attempts
from turnlog.views.context import _step, context
from turnlog.views.context_diff import Row, diff_contexts, diff_projection
from turnlog.views.resolve import step_of
from turnlog.views.spans import step_spans, turn_spans
from turnlog.views.wire import body, prefix

AT_ONCE = RetryPolicy(initial_ms=0, max_ms=0)
TOO_LONG = error("CONTEXT_WINDOW_EXCEEDED")


@tool
def huge() -> str:
    """Say a lot."""
    return "all work and no play " * 1000


@tool
def echo(said: str) -> str:
    """Say it again."""
    return said


def written(where: Path, *answers: Any, runs: int = 1, model: Any = None, **options: Any) -> StoredSession:
    """The log of an agent that got *answers*."""

    async def work() -> None:
        async with turnlog.open_store(where) as store:
            session = await store.create(cwd=where)
            given = {"system": "Work.", "retry": AT_ONCE, **options}
            async with Agent(session, model or ScriptedModel(answers), [huge, echo], **given) as agent:
                for number in range(runs):
                    await agent.run(f"Number {number}.")
            if model is not None:
                await model.aclose()

    asyncio.run(work())
    return turnlog.load(latest([where]))


def marks(rows: tuple[Row, ...]) -> str:
    return "".join(row.mark for row in rows)


# -- one request ----------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(strategies.tapes)
def test_the_messages_of_a_request_are_those_of_the_log_as_it_was(tape: bytes) -> None:
    session = strategies.written(tape)
    log = reference.read(sessions.lines(session))
    steps = {(one.data.turn, one.data.step) for one in session.select(StepStart)}
    for attempt in attempts(session):
        if not attempt.seqs or (attempt.turn, attempt.step) not in steps:
            continue  # outside of any step no request was made
        found = context(session, attempt.address)
        assert _step(session, attempt.turn, attempt.step) == step_of(session, attempt.turn, attempt.step)
        assert found.at == min(attempt.seqs)
        assert [json.loads(event.message_json) for event in found.events] == reference.messages(log[: found.at])
        assert list(found.messages) == list(session.derive_messages(at=found.at))
        headers = [line["data"]["header"] for line in log[: found.at] if line["type"] == "request/header"]
        assert (found.header is None) == (not headers)


def test_every_attempt_of_a_run_is_confirmed_by_the_hash_that_was_kept_when_it_left(tmp_path: Path) -> None:
    session = written(tmp_path, [call("huge")], TOO_LONG, [text("Short now.")], [text("Fine.")], runs=2)
    found = [context(session, one.address) for one in attempts(session)]
    assert [one.address for one in found] == ["t1.s1.a1", "t1.s2.a1", "t1.s2.a2", "t2.s1.a1"]
    assert {one.confirmation for one in found} == {"confirmed"}
    assert all(one.told is not None and one.told.seq == one.at for one in found)
    assert context(session, "t1.s2").address == "t1.s2.a2", "a step is its last attempt"


def test_a_hash_that_does_not_fit_contradicts_and_none_attests_nothing(tmp_path: Path) -> None:
    session = written(tmp_path, [text("Hello.")])
    assert session.path is not None
    side = session.path.with_name(ATTEST_NAME)
    good = side.read_bytes()
    lines = [json.loads(line) for line in good.splitlines()]
    lied = [{**line, "chain": "0" * 64} if line["type"] == "proof" else line for line in lines]
    side.write_text("".join(json.dumps(line) + "\n" for line in lied))
    assert context(session, "t1.s1").confirmation == "contradicted"
    side.unlink()
    assert context(session, "t1.s1").confirmation == "unattested"
    side.write_bytes(good)
    session.path.write_bytes(session.path.read_bytes().replace(b"Number 0.", b"Number 9."))
    assert context(turnlog.load(session.path), "t1.s1").confirmation == "contradicted"


def test_the_body_is_what_went_over_the_wire(tmp_path: Path) -> None:
    answers = iter([[call("echo", said="a")], [call("echo", said="b")], [text("Done.")]])
    bodies: list[Any] = []

    def answer(request: Any) -> Any:
        bodies.append(request)
        return next(answers)

    with LoopbackServer(answer) as server:
        model = open_model("deepseek/chat", base_url=server.base_url, api_key="k")
        session = written(tmp_path, model=model)
    found = [body(context(session, address)) for address in ("t1.s1", "t1.s2", "t1.s3")]
    assert [json.loads(one.body) for one in found if one is not None] == bodies
    assert all(one is not None and one.provider == "deepseek" for one in found)


def test_the_fixups_that_changed_something_are_counted() -> None:
    session = sessions.empty()
    session.append(turnlog.events.TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    header = Header(config=CallConfig(provider="openai", model="m"))
    session.append(RequestHeader(header=header, reason="initial"))
    session.append(sessions.user("", "u"))
    session.append(sessions.asks("c", id="a"))
    found = context(session, "t1.s1")
    sent = body(found)
    assert sent is not None
    assert found.at == 4, "an answer that was not streamed came back as a whole"
    later = body(context(_next_step(session), "t1.s2"))
    assert later is not None
    assert dict(later.fixups) == {"answer-every-call/1": 1}


def _next_step(session: Session) -> Session:
    """The log of a writer that lost a result, going on."""
    lines = [json.loads(line) for line in sessions.lines(session)]
    seq = len(lines)
    for type, data in (("step/end", {"turn": 1, "step": 1}), ("step/start", {"turn": 1, "step": 2})):
        lines.append({"type": type, "seq": seq, "time": 1, "data": data})
        seq += 1
    header = {"type": "session", "version": 0, "id": "s", "createdAt": 1, "delegationDepth": 0}
    return turnlog.load(b"".join(json.dumps(line).encode() + b"\n" for line in (header, *lines)))


def test_another_providers_body_is_not_guessed() -> None:
    found = context(real(0, TOOLS[0]), "t1.s1")
    assert found.header is not None
    assert body(found) is None
    assert prefix(found)[-1].data == found.events[-1].message_json


def test_what_a_provider_cannot_be_asked_is_an_error() -> None:
    session = sessions.in_turn()
    session.append(StepStart(turn=1, step=1))
    config = CallConfig(provider="openai", model="m", reasoning_effort="enormous")
    session.append(RequestHeader(header=Header(config=config), reason="initial"))
    with pytest.raises(ModelError, match=r"t1\.s1\.a1 cannot be asked of openai: .*enormous"):
        body(context(session, "t1.s1"))


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("name", [TOOLS, LONG])
def test_every_format_tells_its_requests(version: int, name: dict[int, str]) -> None:
    session = real(version, name[version])
    for attempt in attempts(session):
        found = context(session, attempt.address)
        assert found.header is not None
        assert list(found.messages) == list(session.derive_messages(at=found.at))
        assert attempt.message is None or found.at <= attempt.message.seq


def test_only_steps_and_attempts_are_requests() -> None:
    session = real(0, TOOLS[0])
    with pytest.raises(AddressInvalid, match="give a step"):
        context(session, "t1")
    with pytest.raises(AddressUnknown, match=r"the steps of t1 are t1\.s1"):
        context(session, "t1.s99")
    with pytest.raises(AddressUnknown, match=r"its attempts are t1\.s1\.a1"):
        context(session, "t1.s1.a7")


def test_a_request_that_nothing_came_back_for_is_what_would_have_been_sent() -> None:
    session = sessions.in_step()
    session.append(sessions.user())
    found = context(session, "t1.s1")
    assert (found.at, found.answer, len(found.messages)) == (4, None, 1)


# -- two requests ---------------------------------------------------------------------------------------------------


def test_a_later_request_goes_on_where_the_earlier_one_ended(tmp_path: Path) -> None:
    session = written(tmp_path, [call("echo", said="a")], [text("Done.")])
    found = diff_contexts(context(session, "t1.s1"), context(session, "t1.s2"))
    assert (marks(found.rows), found.header, found.broken, found.same) == ("=++", (), None, False)
    assert diff_contexts(found.left, found.left).same


def test_a_pruned_result_breaks_the_cache_and_says_which_event_did(tmp_path: Path) -> None:
    session = written(tmp_path, [call("huge")], TOO_LONG, [text("Short now.")])
    found = diff_contexts(context(session, "t1.s2.a1"), context(session, "t1.s2.a2"))
    changed = [row for row in found.rows if row.mark == "~"]
    assert marks(found.rows) == "==~"
    assert changed[0].left_size > 10_000 > changed[0].right_size
    assert found.broken is not None
    assert found.broken.event is not None
    assert (found.broken.event.seq, found.broken.part) == (changed[0].right[0].seq, "messages")
    one, other = (b"".join(part.data for part in prefix(each) if part.name != "model")
                  for each in (found.left, found.right))  # fmt: skip
    at = found.broken.offset
    assert one[:at] == other[:at]
    assert one[at : at + 1] != other[at : at + 1]
    assert found.broken.lost == len(one) - at


def test_a_changed_prompt_breaks_the_cache_before_any_message(tmp_path: Path) -> None:
    session = sessions.in_step()
    session.append(sessions.user())
    session.append(sessions.answer())
    session.append(turnlog.events.StepEnd(turn=1, step=1))
    session.append(StepStart(turn=1, step=2))
    header = Header(config=sessions.HEADER.config, system="Be brief.")
    event = session.append(RequestHeader(header=header, reason="change"))
    found = diff_contexts(context(session, "t1.s1"), context(session, "t1.s2"))
    assert [(one.path, one.left, one.right) for one in found.header] == [("system", None, "Be brief.")]
    assert found.broken is not None
    assert (found.broken.offset, found.broken.part, found.broken.event) == (0, "system", event)


def test_a_compacted_history_shows_what_was_shadowed() -> None:
    session = sessions.talk("one", "two", "three")
    session.append(turnlog.events.TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    session.append(sessions.answer(turnlog.events.TextBlock("a")))
    session.append(sessions.user("all of it", "sum"), replaces=(0, 1), sources=[0, 1])
    session.append(turnlog.events.StepEnd(turn=1, step=1))
    session.append(StepStart(turn=1, step=2))
    found = diff_contexts(context(session, "t1.s1"), context(session, "t1.s2"))
    assert marks(found.rows) == "~=+"
    assert [one.seq for one in found.rows[0].left] == [0, 1]
    assert [one.seq for one in found.rows[0].right] == [6]


def test_requests_of_two_sessions_are_compared_by_what_they_say(tmp_path: Path) -> None:
    answers = ([call("echo", said="a")], [text("Done.")])
    one, other = (written(tmp_path / name, *answers) for name in ("one", "other"))
    assert diff_contexts(context(one, "t1.s2"), context(other, "t1.s2")).same
    third = written(tmp_path / "third", [call("echo", said="b")], [text("Done.")])
    assert marks(diff_contexts(context(one, "t1.s2"), context(third, "t1.s2")).rows) == "=~~"


def test_another_projection_is_set_against_the_models(tmp_path: Path) -> None:
    session = written(tmp_path, [call("echo", said="a")], [text("Done.")], runs=1)
    found = context(session, "t1.s2")

    def without_calls(event: AnyEvent) -> Message | None:
        return None if isinstance(event.data, AssistantMessage) else event.message

    def chunks(event: AnyEvent) -> int | None:
        return event.seq if isinstance(event.data, AssistantChunk) else None

    assert marks(diff_projection(found, without_calls)) == "=-="
    assert marks(diff_projection(found, lambda event: event.type)) == "~~~"
    over_log = marks(diff_projection(found, Projector("chunks", chunks, over="log")))
    assert over_log.count("-") == 3
    assert over_log.count("+") > 0


def test_a_foreign_crashed_log_tells_what_was_asked_last() -> None:
    session = case("BC-041/session.jsonl")
    for turn in turn_spans(session):
        for step in step_spans(session, turn):
            assert context(session, step.address).at <= len(session)
