"""Every view that counts tokens tells the same figure, and the same attempts, whichever record carries it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import turnlog
from tests.conftest import Prove
from tests.usage.billing import Figure, Request, Script, figures, total, turns
from tests.views import logs
from turnlog.views import attempts, structure
from turnlog.views.diff import diff
from turnlog.views.usage import usage


def test_views_of_structure_and_differences_count_what_was_billed(prove: Prove) -> None:
    """Also figures that come after the finish, or after the message."""

    def check(session: list[list[list[Request]]]) -> None:
        made = Script()
        for turn in session:
            made.turn(turn)
        loaded = turnlog.load(made.log())
        billed = total([figure for _, figure in made.billed])
        told = structure(loaded).usage
        known = told and (told.input_tokens, told.cache_read_tokens or 0, told.cache_write_tokens or 0,
                          told.output_tokens, told.reasoning_tokens or 0)  # fmt: skip
        assert (known or (0, 0, 0, 0, 0)) == billed
        counts = diff(loaded, loaded).left_totals
        names = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens", "reasoningTokens")
        assert tuple(counts[name] for name in names) == billed
        assert counts["attempts"] == sum(len(step) for turn in session for step in turn)

    prove("every view counts what was billed", check, st.lists(turns, min_size=1, max_size=3))


def _shown(*events: dict[str, object]) -> list[tuple[str, str, int | None]]:
    found = attempts(logs.session(logs.turn(), logs.step(), *events, logs.step_end(), logs.end()))
    return [(one.address, one.outcome, one.usage.output_tokens if one.usage else None) for one in found]


def test_a_figure_after_the_message_is_no_attempt_of_its_own() -> None:
    stream = [logs.chunk(logs.text("a")), logs.chunk(logs.usage(outputTokens=1)), logs.chunk(logs.finish())]
    late = logs.chunk(logs.usage(outputTokens=7))
    message = logs.message(sources=[2, 3, 4], usage={"inputTokens": 10, "outputTokens": 1})
    assert _shown(*stream, message, late) == [("t1.s1.a1", "completed", 7)]
    (attempt,) = attempts(logs.session(logs.turn(), logs.step(), *stream, message, late))
    assert attempt.seqs == (2, 3, 4, 5, 6)


def test_a_figure_that_the_message_does_not_cite_is_the_messages() -> None:
    stream = [logs.chunk(logs.text("a")), logs.chunk(logs.usage(outputTokens=7)), logs.chunk(logs.finish())]
    assert _shown(*stream, logs.message(sources=[2, 4])) == [("t1.s1.a1", "completed", 7)]


def test_a_figure_between_a_failure_and_its_retry_is_the_failed_attempts() -> None:
    failed = [logs.chunk(logs.text("a")), logs.chunk(logs.finish("error", "TRANSPORT"))]
    late = logs.chunk(logs.usage(outputTokens=7))
    again = [logs.chunk(logs.text("b")), logs.chunk(logs.usage(outputTokens=3)), logs.chunk(logs.finish())]
    shown = _shown(*failed, late, logs.retry(), *again, logs.message(sources=[6, 7, 8]))
    assert shown == [("t1.s1.a1", "failed", 7), ("t1.s1.a2", "completed", 3)]
    session = logs.session(logs.turn(), logs.step(), *failed, late, logs.retry(), *again, logs.message())
    assert [one.tokens and one.tokens.output for one in usage(session).charges] == [7, 3]


def _stream(figures: list[dict[str, int]], end: dict[str, Any], time: int) -> list[dict[str, Any]]:
    """A stream as formats 2 to 4 keep it, inside of the event that settled the attempt."""
    words = {"type": "text-chunks", "time0": time, "index": 0, "dt": [1], "texts": ["a", "b"]}
    told = [{"type": "usage", "usage": figure} for figure in figures]
    return [words, *({"type": "chunk", "time": time + 2, "chunk": one} for one in (*told, end))]


def test_streams_that_events_hold_count_as_those_of_events_do(prove: Prove) -> None:
    """Formats 2 to 4: failed attempts are events of their own; a message tells its figure in its stream, or itself."""

    def check(steps: list[tuple[list[Figure], Figure, str]], version: int) -> None:
        events = [logs.turn()]
        billed: list[Figure | None] = []
        for number, (failed, figure, carrier) in enumerate(steps, 1):
            events.append(logs.step(number))
            for again, one in enumerate(failed, 1):
                stream = _stream([{"inputTokens": 1, "outputTokens": 1}, one], logs.finish("error", "SERVER"), 2000)
                events.append(logs.event("assistant/attempt", {"turn": 1, "step": number, "stream": stream}))
                events.append(logs.retry(again, step=number, code="SERVER"))
                billed.append(one)
            inside = [figure] if carrier in ("stream", "both") else []
            beside: dict[str, Any] = {"usage": figure} if carrier in ("message", "both") else {}
            stream = _stream(inside, logs.finish(), 3000)
            events += [logs.message(step=number, id=f"a{number}", stream=stream, **beside), logs.step_end(number)]
            billed.append(figure if inside or beside else None)
        found = usage(logs.session(*events, logs.end(), version=version))
        assert tuple(found.total.tokens) == total(billed)
        assert [one.tokens is None for one in found.charges] == [one is None for one in billed]

    carriers = st.sampled_from(("stream", "message", "both", "nothing"))
    steps = st.lists(st.tuples(st.lists(figures(), max_size=2), figures(), carriers), min_size=1, max_size=4)
    prove("embedded streams count as events", check, steps, st.sampled_from((2, 3, 4)))
