"""Whatever the log: what the views say is what their definition says, computed naively."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log import reference
from tests.log.strategies import tapes
from tests.views.naive import Cause, Naive, as_stored, depths, random_log, turned
from turnlog.events import AssistantMessage, TokenUsage, UsageChunk, is_token
from turnlog.log import Session
from turnlog.store import StoredSession
from turnlog.views import Call, attempts, calls, outline
from turnlog.views.outline import Chunks, Step, Turn
from turnlog.views.structure import AttemptView, StepView, TurnView, structure
from turnlog.views.trace import Link, Trace, trace

pytestmark = pytest.mark.proof

gaps = st.lists(st.sampled_from([0, 1, 5, 1000, -3, -2000]), min_size=1, max_size=7)


def test_a_trace_is_the_closure_of_single_links_back_and_forward(prove: Prove) -> None:
    def check(tape: bytes, choice: int) -> None:
        live = random_log(tape)
        if not len(live):
            return
        naive = Naive(live)
        for session in (live, as_stored(live)):
            check_trace(session, naive, choice % len(live))

    prove("traces equal the naive closure", check, tapes, st.integers(0, 10_000))


def check_trace(session: Session, naive: Naive, seq: int) -> None:
    found = trace(session, f"@{seq}")
    ties = naive.all_causes()
    check_links(found.back, ties, depths(ties, seq), naive, nearer=lambda link: ties[link.by])
    against = turned(ties)
    check_links(found.forward, against, depths(against, seq), naive, nearer=lambda link: against[link.by])
    reached = [seq, *depths(ties, seq)]
    assert found.unknown == tuple(
        sorted(one for one in reached if "surfaceOp" in naive.log[one] and "sourceEventSeqs" not in naive.log[one])
    )
    check_requests(found, naive, reached)
    shown = [seq, *depths(against, seq)]
    check_seen(session, found, naive, shown)


def check_links(found, ties, wanted: Mapping[int, int], naive: Naive, nearer) -> None:  # type: ignore[no-untyped-def]
    told: dict[int, Link] = {}
    for link in found:
        for one in range(link.first, link.last + 1):
            assert one not in told, "each event once"
            told[one] = link
            assert link.type == naive.log[one]["type"]
            assert nearer(link)[one] == Cause(link.kind, link.inferred)
    assert {one: link.depth for one, link in told.items()} == wanted


def check_requests(found: Trace, naive: Naive, reached: list[int]) -> None:
    points = set()
    for one in reached:
        line = naive.log[one]
        own = [tie for tie in naive.causes(one) if naive.log[tie]["type"] == "assistant/chunk"]
        if line["type"] == "assistant/chunk" or (naive.is_answer(line) and not own):
            points.add(naive.point(one))
    assert [request.at for request in found.requests] == sorted(points)
    for request in found.requests:
        sent = [seq for seq in reference.nodes(naive.log[: request.at]) if reference.message(naive.log[seq])]
        assert request.messages == tuple(sent)
        headers = [line["seq"] for line in naive.log[: request.at] if line["type"] == "request/header"]
        assert request.header == (headers[-1] if headers else None)


def check_seen(session: Session, found: Trace, naive: Naive, shown: list[int]) -> None:
    visible = [one for one in shown if "surfaceOp" in naive.log[one] and reference.message(naive.log[one]) is not None]
    sent = [point for point in naive.points() if set(visible) & set(reference.nodes(naive.log[:point]))]
    told = [point for run in found.seen for point in naive.points() if run.first <= point <= run.last]
    assert told == sent
    assert sum(run.number for run in found.seen) == len(sent)


# -- structure --------------------------------------------------------------------------------------------------


def test_turns_steps_and_attempts_hold_what_their_spans_hold(prove: Prove) -> None:
    def check(tape: bytes, gaps: list[int]) -> None:
        live = random_log(tape)
        for session in (live, as_stored(live, gaps), as_stored(live, gaps, packed=False)):
            check_structure(session)

    prove("structure equals its naive definition", check, tapes, gaps)


def check_structure(session: Session) -> None:
    naive = Naive(session)
    found = structure(session)
    spans = list(naive.spans("turn"))
    assert [(one.span.first, one.span.stop, one.span.ended) for one in found.turns] == spans
    for turn, (first, stop, _ended) in zip(found.turns, spans, strict=True):
        steps = list(naive.spans("step", first, stop - turn.span.ended))
        assert [(one.span.first, one.span.stop, one.span.ended) for one in turn.steps] == steps
        check_part(session, naive, turn)
        for step in turn.steps:
            check_part(session, naive, step)
            check_attempts(session, step)
        assert turn.usage == naive_total([one.usage for step in turn.steps for one in step.attempts])
    outside = [one for one in calls(session) if not any(one.turn == turn.turn for turn in found.turns)]
    assert [one for turn in found.turns for one in turn.calls] + outside == list(calls(session))


def check_part(session: Session, naive: Naive, part: TurnView | StepView) -> None:
    first, stop = part.span.first, part.span.stop
    lines = naive.log[first:stop]
    assert [event.seq for event in part.events] == list(range(first, stop))
    assert sum(run.number for run in part.chunks) == sum(line["type"] == "assistant/chunk" for line in lines)
    last = stop == len(naive.log) and not part.span.ended and part.is_last
    live = not isinstance(session, StoredSession)
    assert part.state == ("ended" if part.span.ended else "running" if last and live else "interrupted")
    assert part.ended == (lines[-1]["time"] if part.span.ended else None)
    assert (part.started, part.last) == (lines[0]["time"], lines[-1]["time"])
    shown = [line["seq"] for line in lines if "surfaceOp" in line and reference.message(line) is not None]
    assert [event.seq for event in part.messages if event.seq < len(naive.log)] == shown
    assert all(last and not live for event in part.messages if event.seq >= len(naive.log))
    until = stop + 1000 if last else stop  # closers belong to what the log ends with
    assert list(part.calls) == [one for one in calls(session) if any(first <= seq < until for seq in parts_of(one))]
    check_timing(naive, part)


def parts_of(call: Call) -> list[int]:
    return [one.seq for one in (call.asked, call.started, call.result) if one is not None]


def check_timing(naive: Naive, part: TurnView | StepView) -> None:
    """Durations are counted ms by ms."""
    first, stop = part.span.first, part.span.stop
    lines = naive.log[first:stop]
    timing = part.timing
    until = part.last
    assert (timing.started, timing.ended, timing.is_over) == (part.started, until, part.span.ended)
    assert timing.total_ms == max(until - part.started, 0)
    backs = [(two["seq"], one["time"] - two["time"]) for one, two in pairwise(lines) if two["time"] < one["time"]]
    assert list(timing.clock_steps) == backs
    running: set[int] = set()
    waiting: set[int] = set()
    for call in part.calls:
        if call.started is not None and call.started.seq < len(naive.log):
            end = until if call.result is None or call.synthetic else call.result.time
            running |= set(range(call.started.time, end))
        begun = None
        for event in call.approvals:
            if event.type == "approval/asked":
                begun = event.time if begun is None else begun
            elif begun is not None:
                waiting |= set(range(begun, event.time))
                begun = None
        if begun is not None:
            waiting |= set(range(begun, until))
    assert (timing.tool_ms, timing.waiting_ms) == (len(running - waiting), len(waiting))
    shown = [
        [line.time for line in attempt.chunks if is_token(line.chunk)]
        for attempt in (part.attempts if isinstance(part, StepView) else [a for s in part.steps for a in s.attempts])
    ]
    tokens = [times for times in shown if times]
    assert timing.decode_ms == sum(max(times[-1] - times[0], 0) for times in tokens)
    assert timing.first_token_ms == (max(tokens[0][0] - part.started, 0) if tokens else None)


def check_attempts(session: Session, step: StepView) -> None:
    made = [one for one in attempts(session) if (one.turn, one.step) == (step.turn, step.step)]
    assert [one.attempt for one in step.attempts] == made
    chunks = [timed.seq for one in step.attempts for timed in one.chunks]
    assert sorted(chunks) == [event.seq for event in step.events if event.type == "assistant/chunk"]
    for one in step.attempts:
        assert one.usage == naive_usage(one)
        assert min(one.timing.total_ms, one.timing.decode_ms, one.timing.tool_ms, one.timing.model_ms) >= 0
        assert [call.asked for call in one.calls] == [one.attempt.event for _call in one.calls]


def naive_usage(one: AttemptView) -> TokenUsage | None:
    """The stream's last figure, else the message's; never both."""
    figures = [timed.chunk.usage for timed in one.chunks if isinstance(timed.chunk, UsageChunk)]
    if figures:
        return figures[-1]
    data = None if one.attempt.event is None else one.attempt.event.data
    return data.usage if isinstance(data, AssistantMessage) else None


def naive_total(figures: list[TokenUsage | None]) -> TokenUsage | None:
    known = [one for one in figures if one is not None]
    if not known:
        return None
    return TokenUsage(sum(one.input_tokens for one in known), sum(one.output_tokens for one in known))


def test_an_outline_counts_every_chunk_in_its_run(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        live = random_log(tape)
        for session in (live, as_stored(live), as_stored(live, packed=False)):
            check_outline(session)

    prove("outlines equal the naive runs", check, tapes)


def check_outline(session: Session) -> None:
    """Runs end where the kind changes, at any other event, and nowhere else."""
    wanted: list[list[object]] = []
    inside = False
    for line in Naive(session).log:
        if line["type"] != "assistant/chunk":
            inside = False
            continue
        kind = line["data"]["chunk"]["type"]
        if inside and wanted[-1][0] == kind:
            wanted[-1][1] += 1  # type: ignore[operator]
        else:
            wanted.append([kind, 1, line["seq"], line["time"]])
        inside = True
    assert [[one.kind, one.number, one.seq, one.time] for one in _runs(outline(session).items)] == wanted


def _runs(items: Sequence[object]) -> Iterator[Chunks]:
    for item in items:
        if isinstance(item, Chunks):
            yield item
        elif isinstance(item, Turn | Step):
            yield from _runs(item.items)
