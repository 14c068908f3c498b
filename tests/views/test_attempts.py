"""Attempts: one view of every request to the model, whatever the format."""

from __future__ import annotations

from pathlib import Path

import pytest

import turnlog
from tests.views.logs import (
    LONG,
    SAMPLE,
    TOOLS,
    case,
    chunk,
    end,
    event,
    finish,
    log,
    message,
    packed,
    real,
    retry,
    root,
    session,
    step,
    step_end,
    text,
    turn,
    usage,
    user,
)
from turnlog.events import TextDelta, TokenUsage
from turnlog.log import Session
from turnlog.views import AddressUnknown, Attempt, attempts, context, structure
from turnlog.views.spans import step_spans, turn_spans
from turnlog.views.usage import usage as charged


def of(log: Session) -> list[Attempt]:
    return list(attempts(log))


@pytest.mark.parametrize("version", [0, 3, 4])
def test_every_format_gives_the_same_attempt_of_a_streamed_answer(version: int) -> None:
    (attempt,) = of(real(version, LONG[version]))
    assert (attempt.address, attempt.outcome, attempt.failure) == ("t1.s1.a1", "completed", None)
    assert sum(isinstance(timed.chunk, TextDelta) for timed in attempt.chunks) == 600
    assert attempt.text.startswith("w0 w1 w2 ")
    assert attempt.message is not None
    assert attempt.message.message is not None
    assert attempt.text == attempt.message.message.text
    assert attempt.usage is not None
    assert (attempt.usage.input_tokens, attempt.usage.output_tokens) == (56, 40)
    assert attempt.first_token_ms is not None
    assert 0 <= attempt.first_token_ms <= attempt.duration_ms


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_step_with_a_tool_and_a_step_with_the_answer_are_two_attempts(version: int) -> None:
    assert [one.address for one in of(real(version, TOOLS[version]))] == ["t1.s1.a1", "t1.s2.a1"]


def test_chunk_addresses_are_seqs_in_format_0_and_places_in_the_stream_later() -> None:
    assert [one.address for one in of(real(0, TOOLS[0]))[0].chunks][:3] == ["@8", "@9", "@10"]
    assert [one.address for one in of(real(4, TOOLS[4]))[0].chunks][:3] == ["@14/0", "@14/1", "@14/2"]


def test_the_chunks_of_an_attempt_are_exactly_what_its_message_cites() -> None:
    for path in sorted((root(0) / "--home-dev-project--").iterdir()):
        for attempt in of(turnlog.load(path)):
            if attempt.event is not None and not attempt.synthetic:
                assert tuple(timed.seq for timed in attempt.chunks) == attempt.event.sources


def test_the_sample_has_one_attempt_with_the_usage_of_its_message() -> None:
    (attempt,) = of(turnlog.load(SAMPLE))
    assert (attempt.outcome, attempt.text, attempt.seqs) == ("completed", "I'll ", (3, 4, 5))
    assert attempt.usage is not None
    assert attempt.usage.input_tokens == 12


def test_a_retry_in_the_same_step_is_a_second_attempt_with_its_own_usage() -> None:
    """Usage of failed attempts was overwritten by the retry's (dsh-v0 §11.2)."""
    found = of(session(
        turn(), step(), user(),
        chunk(text("one")), chunk(usage(outputTokens=1)), chunk(finish("error", "SERVER")), retry(code="SERVER"),
        event("llm/retry-started", {"retryId": "x", "turn": 1, "step": 1, "retry": 1}),
        chunk(text("two")), chunk(usage(outputTokens=2)), chunk(finish()), message(sources=[8, 9, 10]),
        step_end(), end(),
    ))  # fmt: skip
    assert [(one.address, one.outcome, one.text) for one in found] == [
        ("t1.s1.a1", "failed", "one"),
        ("t1.s1.a2", "completed", "two"),
    ]
    assert [one.usage.output_tokens for one in found if one.usage is not None] == [1, 2]
    assert found[0].failure is not None
    assert found[0].failure.code == "SERVER"
    assert found[0].retry is not None
    assert found[0].retry.seq == 6
    assert found[1].started == 1070  # llm/retry-started
    assert found[1].first_token_ms == 10


def test_a_chunk_after_a_finish_begins_a_new_attempt_even_without_a_retry_record() -> None:
    found = of(session(
        turn(), step(), chunk(text("one")), chunk(finish("error", "SERVER")), chunk(text("two")), chunk(finish()),
        message(), step_end(), end(),
    ))  # fmt: skip
    assert [(one.outcome, one.text) for one in found] == [("failed", "one"), ("completed", "two")]


def test_chunks_that_the_message_does_not_cite_are_an_attempt_of_their_own() -> None:
    kept = [chunk(text("kept")), chunk(finish()), message(sources=[3, 4])]
    found = of(session(turn(), step(), chunk(text("lost")), *kept, step_end(), end()))
    assert [(one.outcome, one.text, one.seqs) for one in found] == [
        ("failed", "lost", (2,)),
        ("completed", "kept", (3, 4, 5)),
    ]


def test_a_message_may_cite_a_part_of_a_packed_row() -> None:
    lines = log(turn(), step()) + packed("text-chunks", 2, ["a", "b", "c"], time0=1020, dt=[1, 1])
    lines += log(*[event("turn/start")] * 5, message(sources=[3, 4]), step_end(), end()).split(b"\n", 6)[6]
    found = of(turnlog.load(lines))
    assert [(one.text, one.seqs) for one in found] == [("bc", (3, 4, 5))]


def test_a_request_that_failed_before_its_first_chunk_is_an_attempt_without_chunks() -> None:
    found = of(session(turn(), step(), retry(), chunk(text("ok")), chunk(finish()), message(), step_end(), end()))
    assert [(one.outcome, len(one.chunks), one.seqs) for one in found] == [
        ("failed", 0, (2,)),
        ("completed", 2, (3, 4, 5)),
    ]


def test_a_message_that_takes_the_place_of_an_answer_is_no_attempt_and_its_figure_is_not_billed() -> None:
    """A rewrite was shown as a request that nobody had made, and billed like one."""
    place = {"surfaceOp": {"op": "replace", "start": 4, "end": 4}}
    rewrite = {**message(id="b", sources=[4], usage={"inputTokens": 900, "outputTokens": 900}), **place}
    log = session(turn(), step(), chunk(text("answer")), chunk(usage(outputTokens=1)), message(sources=[2, 3]), rewrite,
                  step_end(), end())  # fmt: skip
    (attempt,) = of(log)
    assert (attempt.address, attempt.outcome, attempt.seqs) == ("t1.s1.a1", "completed", (2, 3, 4))
    assert attempt.usage == structure(log).usage == structure(log).turns[0].usage == TokenUsage(10, 1)
    (charge,) = charged(log).charges
    assert (charge.address, charge.tokens and charge.tokens.output) == ("t1.s1.a1", 1)
    assert context(log, "t1.s1").at == 2
    with pytest.raises(AddressUnknown, match=r"its attempts are t1\.s1\.a1$"):
        context(log, "t1.s1.a2")


def test_a_message_that_takes_a_place_amid_a_stream_leaves_the_stream_whole() -> None:
    place = {"surfaceOp": {"op": "replace", "start": 2, "end": 2}}
    rewrite = {**message(id="b", sources=[2]), **place}
    (attempt,) = of(session(turn(), step(), user(), chunk(text("one ")), rewrite, chunk(text("two")), chunk(finish()),
                            message(sources=[3, 5, 6]), step_end(), end()))  # fmt: skip
    assert (attempt.outcome, attempt.text, attempt.seqs) == ("completed", "one two", (3, 5, 6, 7))


def test_an_answer_that_was_not_streamed_is_an_attempt_without_chunks() -> None:
    (attempt,) = of(session(turn(), step(), message(sources=[]), step_end(), end()))
    assert (attempt.outcome, attempt.chunks, attempt.first_token_ms) == ("completed", (), None)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ({"kind": "aborted", "reason": {"kind": "user"}}, "cancelled"),
        ({"kind": "error", "error": {"message": "m", "code": "TRANSPORT"}}, "failed"),
        ({"kind": "interrupted"}, "interrupted"),
    ],
)
def test_how_an_unfinished_attempt_ended_is_what_its_turn_says(reason: object, outcome: str) -> None:
    log = session(turn(), step(), chunk(text("half")), step_end(), end(reason=reason))
    assert [one.outcome for one in of(log)] == [outcome]
    (span,) = turn_spans(log)
    assert [one.outcome for one in attempts(log, step_spans(log, span)[0])] == [outcome]


def test_a_cancelled_attempt_with_a_visible_prefix_is_cancelled_and_has_its_message() -> None:
    (attempt,) = of(session(turn(), step(), chunk(text("half")), message(sources=[2], interrupted=True), step_end(),
                            end(reason={"kind": "aborted", "reason": {"kind": "user"}})))  # fmt: skip
    assert attempt.outcome == "cancelled"
    assert attempt.message is not None


def test_an_attempt_whose_writer_died_is_interrupted_and_has_a_synthetic_message() -> None:
    crashed = real(0, "crashed-session")
    last = of(crashed)[-1]
    assert (last.address, last.outcome, last.synthetic) == ("t2.s1.a1", "interrupted", True)
    assert last.text.startswith("s0 s1 s2")
    as_stored = list(attempts(crashed, as_stored=True))[-1]
    assert (as_stored.outcome, as_stored.synthetic, as_stored.message) == ("interrupted", False, None)


def test_an_attempt_of_a_living_session_is_running() -> None:
    from tests.log import sessions

    live = sessions.in_step()
    live.append(sessions.chunk(TextDelta(0, "so far")))
    (attempt,) = of(live)
    assert (attempt.outcome, attempt.text, attempt.message) == ("running", "so far", None)


def test_a_failed_attempt_of_format_4_says_why() -> None:
    (attempt,) = of(real(4, "session-380d22160ed84c27915aede7652c4182"))
    assert attempt.outcome == "failed"
    assert attempt.failure is not None
    assert attempt.failure.code == "MALFORMED_RESPONSE"
    assert attempt.message is None
    assert len(attempt.chunks) == 8


def test_retried_attempts_of_later_formats_keep_their_usage_and_their_order() -> None:
    stream = [{"type": "text-chunks", "time0": 2000, "index": 0, "dt": [5], "texts": ["a", "b"]},
              {"type": "chunk", "time": 2010, "chunk": usage(outputTokens=3)},
              {"type": "chunk", "time": 2011, "chunk": finish("error", "SERVER")}]  # fmt: skip
    failed = event("assistant/attempt", {"turn": 1, "step": 1, "stream": stream})
    good = message(stream=[{"type": "chunk", "time": 2100, "chunk": finish()}])
    found = of(session(turn(), step(), failed, retry(code="SERVER"), good, step_end(), end(), version=4))
    assert [(one.number, one.outcome, len(one.chunks)) for one in found] == [(1, "failed", 4), (2, "completed", 1)]
    assert found[0].retry is not None
    assert found[0].usage is not None
    assert found[0].usage.output_tokens == 3
    assert [timed.time for timed in found[0].chunks] == [2000, 2005, 2010, 2011]


def test_reasoning_tokens_and_repeated_usage_are_never_added() -> None:
    """BC-002: the message's figure counts, not the message's and the chunk's."""
    found = of(case("BC-002/session.jsonl"))
    assert sum(one.usage.input_tokens for one in found if one.usage is not None) == 130
    assert sum(one.usage.output_tokens for one in found if one.usage is not None) == 61


def test_the_last_usage_chunk_counts_when_the_message_has_none() -> None:
    (attempt,) = of(session(turn(), step(), chunk(usage(outputTokens=1)), chunk(usage(outputTokens=9)), chunk(finish()),
                            message(), step_end(), end()))  # fmt: skip
    assert attempt.usage is not None
    assert attempt.usage.output_tokens == 9


def test_a_clock_that_was_set_back_gives_no_negative_durations() -> None:
    late = {**chunk(text("x")), "time": 5}
    (attempt,) = of(session(turn(), step(), late, message(), step_end(), end()))
    assert (attempt.first_token_ms, attempt.duration_ms) == (0, 0)


def test_chunks_outside_of_any_step_say_themselves_where_they_belong() -> None:
    """BC-065: a log that lost its beginning."""
    (attempt,) = of(case("BC-065/end-without-start.jsonl"))
    assert (attempt.address, attempt.text, attempt.first_token_ms) == ("t5.s2.a1", "x", 0)


def test_unknown_chunks_and_broken_pairs_inside_a_stream_stay_visible() -> None:
    stream = ('[{"type":"text-chunks","time0":7,"index":0,"dt":[],"texts":["\\ud83d"]},'
              '{"type":"chunk","time":8,"chunk":{"type":"novel","x":1}},{"type":"novel-run","time":9}]')  # fmt: skip
    text_of = log(turn(), step(), message(stream="STREAM"), step_end(), end(), version=3).decode()
    (attempt,) = of(turnlog.load(text_of.replace('"STREAM"', stream).encode()))
    kinds = [getattr(timed.chunk, "kind", "text-delta") for timed in attempt.chunks]
    assert kinds == ["text-delta", "novel", "novel-run"]
    assert [timed.time for timed in attempt.chunks] == [7, 8, 9]


@pytest.mark.parametrize("version", [0, 3, 4])
def test_no_real_log_is_beyond_the_view(version: int) -> None:
    paths: list[Path] = sorted((root(version) / "--home-dev-project--").iterdir())
    assert len(paths) >= 12
    for path in paths:
        log = turnlog.load(path)
        found = of(log)
        assert all(one.outcome in ("completed", "failed", "interrupted") for one in found)
        per_turn = [one.address for span in turn_spans(log) for one in attempts(log, span)]
        assert per_turn == [one.address for one in found]
