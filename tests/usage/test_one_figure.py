"""Every view that counts tokens tells the same figure, and the same attempts, whichever record carries it."""

from __future__ import annotations

from hypothesis import strategies as st

import turnlog
from tests.conftest import Prove
from tests.usage.billing import Request, Script, total, turns
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
