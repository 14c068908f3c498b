"""Trace: from an event back to the chunks and prompts it rests on, and forward to everything that came of it."""

from __future__ import annotations

import pytest

import turnlog
from tests.log import sessions
from tests.views.logs import (
    LONG,
    SAMPLE,
    TOOLS,
    arguments,
    asks,
    call,
    case,
    chunk,
    end,
    event,
    log,
    message,
    real,
    result,
    retry,
    session,
    step,
    step_end,
    text,
    turn,
    user,
)
from turnlog.events import StepEnd
from turnlog.views import AddressUnknown, calls, trace
from turnlog.views.trace import Link


def ties(links: tuple[Link, ...]) -> list[tuple[int, int, str, bool, int]]:
    return [(link.first, link.last, link.kind, link.inferred, link.by) for link in links]


def test_a_result_goes_back_over_its_call_and_answer_to_the_tokens_and_the_prompt() -> None:
    found = trace(turnlog.load(SAMPLE), "call:call_1", direction="back")
    assert ties(found.back) == [(6, 6, "cites", False, 7), (5, 5, "asked", True, 6), (3, 4, "cites", False, 5)]
    (request,) = found.requests
    assert (request.address, request.messages, request.prompt, request.header) == ("t1.s1", (2,), 2, None)
    assert found.forward == ()


def test_an_answer_has_its_very_tokens_with_their_times() -> None:
    found = trace(turnlog.load(SAMPLE), "@5")
    assert [(timed.address, timed.time - 1755000000000) for timed in found.tokens] == [("@3", 30), ("@4", 40)]
    assert not found.tokens_inferred
    assert ties(found.forward) == [(6, 6, "asked", True, 5), (7, 7, "cites", False, 6)]


@pytest.mark.parametrize("version", [0, 3, 4])
def test_the_tokens_of_an_answer_are_the_same_in_every_format(version: int) -> None:
    log = real(version, LONG[version])
    answer = next(one.seq for one in log.message_events() if one.type == "assistant/message")
    found = trace(log, f"@{answer}")
    assert sum("delta" in type(timed.chunk).__name__.lower() for timed in found.tokens) == 600
    assert found.unknown == ()
    assert [request.address for request in found.requests] == ["t1.s1"]
    assert found.requests[0].prompt is not None


@pytest.mark.parametrize("version", [0, 3, 4])
def test_what_came_of_a_prompt_reaches_to_the_last_request_that_was_sent_it(version: int) -> None:
    log = real(version, TOOLS[version])
    prompt = next(one.seq for one in log.message_events() if one.type == "user/message")
    (seen,) = trace(log, f"@{prompt}").seen
    assert (seen.addresses, seen.number) == (("t1.s1", "t1.s2"), 2)


def test_an_answer_without_sources_is_tied_to_the_chunks_of_its_request_and_that_is_inferred() -> None:
    found = session(turn(), step(), user(), chunk(text("lost")), retry(), chunk(text("a")), chunk(text("b")), message(),
                    step_end(), end())  # fmt: skip
    answer = trace(found, "@7")
    assert ties(answer.back) == [(5, 6, "stream", True, 7)]
    assert answer.tokens_inferred
    assert [timed.seq for timed in answer.tokens] == [5, 6]
    assert answer.sources is None
    assert answer.unknown == (7,)
    assert ties(trace(found, "@5").forward) == [(7, 7, "stream", True, 5)]
    assert trace(found, "@3").forward == ()  # the attempt that failed
    assert [request.at for request in trace(found, "@3").requests] == [3]


def test_absent_sources_are_unknown_and_an_empty_list_is_not() -> None:
    found = session(turn(), step(), message(sources=[]), message(), step_end(), end())
    assert (trace(found, "@2").sources, trace(found, "@2").unknown) == ((), ())
    assert (trace(found, "@3").sources, trace(found, "@3").unknown) == (None, (3,))
    assert trace(found, "@0").unknown == ()  # a log-only event cites nothing and need not


def test_results_that_cite_nothing_are_tied_to_their_call_by_step_and_id() -> None:
    found = session(turn(), step(), message(asks("c")), call("c"), result("c"), step_end(), end())
    assert ties(trace(found, "@4").back) == [(3, 3, "call", True, 4), (2, 2, "asked", True, 3)]
    assert ties(trace(found, "@2").forward) == [(3, 3, "asked", True, 2), (4, 4, "call", True, 3)]


def test_one_id_in_every_step_is_traced_by_step() -> None:
    """BC-041: calls were paired over the whole session."""
    log = case("BC-041/session.jsonl")
    for one in calls(log):
        assert one.result is not None
        assert one.started is not None
        assert one.asked is not None
        found = trace(log, f"@{one.result.seq}", direction="back")
        assert [link.first for link in found.back[:2]] == [one.started.seq, one.asked.seq]


def test_one_id_twice_in_a_step_is_traced_in_order() -> None:
    """BC-041: a dict keyed by id lost one of them."""
    log = case("BC-041/twice-in-one-step.jsonl")
    first, second = calls(log)
    assert first.started is not None
    assert second.started is not None
    assert second.result is not None
    assert [link.first for link in trace(log, f"@{second.started.seq}").forward][:1] == [second.result.seq]
    back = trace(log, f"@{second.result.seq}", direction="back").back
    assert first.started.seq not in [link.first for link in back]


def test_messages_with_one_id_are_traced_by_seq() -> None:
    """BC-062: what was keyed by message id got lost."""
    log = case("BC-062/session.jsonl")
    seqs = [one.seq for one in log.message_events()]
    assert len(seqs) == 4
    assert [trace(log, f"@{seq}").event.seq for seq in seqs] == seqs


@pytest.mark.parametrize("name", ["after-compaction.jsonl", "old-log-without-price.jsonl"])
def test_a_summary_rests_on_everything_it_took_the_place_of(name: str) -> None:
    """BC-037."""
    log = case(f"BC-037/{name}")
    (summary,) = log.surface
    found = trace(log, f"@{summary}")
    replaced = [seq for link in found.back if link.kind == "replaces" for seq in range(link.first, link.last + 1)]
    assert replaced == list(log.surface_at(summary))
    assert any(link.type == "assistant/chunk" for link in found.back)
    first = trace(log, f"@{replaced[0]}")
    assert (summary, summary, "replaces", False, replaced[0]) in ties(first.forward)


def test_a_user_message_between_call_and_result_does_not_part_them() -> None:
    """BC-058."""
    log = case("BC-058/user-between-call-and-result.jsonl")
    for one in calls(log):
        assert one.result is not None
        assert one.started is not None
        back = trace(log, f"@{one.result.seq}", direction="back").back
        assert one.started.seq in [link.first for link in back]


def test_cited_events_that_a_damaged_log_lost_are_named() -> None:
    data = log(turn(), step(), chunk(text("a")), chunk(text("b")), message(sources=[2, 3]), step_end(), end())
    lines = data.splitlines(keepends=True)
    found = trace(turnlog.load(b"".join(lines[:4] + lines[5:]), forensic=True), "@4")
    assert found.missing == (3,)
    assert ties(found.back) == [(2, 2, "cites", False, 4)]


def test_addresses_that_name_nothing_list_what_there_is() -> None:
    log = turnlog.load(SAMPLE)
    with pytest.raises(AddressUnknown, match="there are @0 to @9"):
        trace(log, "@10")
    with pytest.raises(AddressUnknown, match="call:call_1"):
        trace(log, "call:nope")


def test_a_growing_session_is_traced_as_far_as_it_is() -> None:
    live = sessions.in_step()
    live.append(sessions.asks("c"))
    assert trace(live, "@3").forward == ()
    live.append(sessions.call("c"))
    assert ties(trace(live, "@3").forward) == [(4, 4, "asked", True, 3)]
    live.append(sessions.result("c"), sources=[4])
    live.append(StepEnd(turn=1, step=1))
    assert ties(trace(live, "@3").forward) == [(4, 4, "asked", True, 3), (5, 5, "cites", False, 4)]


def test_chunks_of_a_call_are_traced_to_its_result() -> None:
    found = session(turn(), step(), chunk(arguments("{}", "c")), message(asks("c"), sources=[2]), call("c"),
                    result("c", sourceEventSeqs=[4]), step_end(), event("acme/x", ignorable=True), end())  # fmt: skip
    assert [link.first for link in trace(found, "@2").forward] == [3, 4, 5]
