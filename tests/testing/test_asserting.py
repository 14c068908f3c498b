"""`assert_log`: what fits, and what is said when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from turnlog.events import (
    AssistantChunk,
    Completed,
    FinishStop,
    LogPayload,
    MaxTokens,
    Message,
    Payload,
    StepEnd,
    StepStart,
    TextBlock,
    TextDelta,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    UserMessage,
    Vocabulary,
)
from turnlog.events.chunks import Finish
from turnlog.log import AnyEvent, Session
from turnlog.testing import FrozenClock, assert_log, chunks, like

pytestmark = pytest.mark.filterwarnings("ignore::turnlog.events.vocabulary.PluginEventWarning")


class Note(LogPayload, type="acme/note"):
    text: str


def logged() -> Session:
    session = Session("s", clock=FrozenClock(), vocabulary=Vocabulary.core.extend(Note))
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    session.append(UserMessage.of("Hello"))
    for chunk in (TextDelta(0, "a"), TextDelta(0, "b"), Finish(FinishStop())):
        session.append(AssistantChunk(turn=1, step=1, chunk=chunk))
    session.append(ToolCall(turn=1, step=1, call_id="c1", name="bash", arguments='{"command":"ls"}'))
    session.append(ToolResult(turn=1, step=1, message=Message.from_tool("c1", TextBlock("a.txt"), is_error=False)))
    session.append(Note(text="n"))
    session.append(StepEnd(turn=1, step=1))
    session.append(TurnEnd(turn=1, reason=Completed()))
    return session


HEAD = ["turn/start", "step/start", "user/message"]
TAIL = ["acme/note", "step/end", "turn/end"]
CALL = ["tool/call", "tool/result"]


@pytest.mark.parametrize(
    "patterns",
    [
        [...],
        [..., ...],
        [*HEAD, ..., *TAIL],
        [*HEAD, chunks(3), *CALL, *TAIL],
        [*HEAD, chunks(), *CALL, *TAIL],
        [*HEAD, chunks(2, "text-delta"), chunks(1), *CALL, *TAIL],
        [*HEAD, chunks(kind="text-delta"), chunks(kind="finish"), *CALL, *TAIL],
        [*HEAD, "assistant/chunk*", *CALL, *TAIL],
        [*HEAD, "assistant/*", "tool/*", *TAIL],
        [*HEAD, "request/*", chunks(), "hook/*", *CALL, *TAIL],
        [TurnStart, StepStart(turn=1, step=1), UserMessage, chunks(), ToolCall, ToolResult, Note, StepEnd, TurnEnd],
        [..., TurnEnd(turn=1, reason=Completed())],
        [*HEAD[:2], like(UserMessage, text="Hello", role="user"), ...],
        [..., like(ToolCall, name="bash", arguments=lambda said: "ls" in said), ...],
        [..., like(ToolResult, call_id="c1", text="a.txt", error=None), ...],
        [..., like("acme/note", text="n"), like("step/end"), "turn/end"],
        [..., lambda event: event.seq == 10],
        [..., Note(text="n"), ...],
        [Payload, ...],
    ],
)
def test_what_fits_passes(patterns: Any) -> None:
    assert_log(logged(), patterns)
    assert_log(list(logged().events), patterns)


@pytest.mark.parametrize(
    "patterns",
    [
        [],
        HEAD,
        [*HEAD, ...][:-1],
        [*HEAD, chunks(2), *CALL, *TAIL],
        [*HEAD, chunks(4), *CALL, *TAIL],
        [*HEAD, chunks(3, "text-delta"), *CALL, *TAIL],
        [*HEAD, "assistant/chunk", *CALL, *TAIL],
        [*HEAD, chunks(), chunks(3), *CALL, *TAIL],
        [*HEAD, ..., *reversed(TAIL)],
        [..., TurnEnd(turn=2, reason=Completed())],
        [..., like(ToolCall, name="read"), ...],
        [..., like(ToolCall, nothing="read"), ...],
        [..., like(ToolCall, nothing=lambda _: True), ...],
        [..., like("tool/result", text="b.txt"), ...],
        [*HEAD, ..., *TAIL, "turn/start"],
        ["user/message", ...],
        [lambda event: False, ...],
    ],
)
def test_what_does_not_fit_is_raised(patterns: Any) -> None:
    with pytest.raises(AssertionError, match="the log is not what was expected"):
        assert_log(logged(), patterns)


def test_types_may_be_left_out() -> None:
    assert_log(logged(), [*HEAD, *CALL, *TAIL], without=("assistant/chunk",))
    assert_log(Session(), [])
    assert_log(Session(), ["turn/*", ...])


def told(patterns: Any, log: Any = None) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_log(logged() if log is None else log, patterns)
    return str(caught.value)


def test_a_difference_shows_what_is_missing_what_is_there_and_which_field_is_wrong() -> None:
    said = told([
        *HEAD,
        chunks(4),
        ToolCall(turn=1, step=1, call_id="c1", name="bash", arguments="{}"),
        like(ToolResult, call_id="c2", text=lambda text: text == "a.txt"),
        "step/end",
        TurnEnd(turn=1, reason=MaxTokens()),
    ])  # fmt: skip
    assert (
        said
        == """\
the log is not what was expected
--- expected
+++ session s, 11 events
  … 3 that fit
  @3 assistant/chunk t1.s1 text-delta 'a'
  @4 assistant/chunk t1.s1 text-delta 'b'
  @5 assistant/chunk t1.s1 finish
- assistant/chunk
- tool/call t1.s1 call_id='c1' name='bash' arguments='{}'
+ @6 tool/call t1.s1 call_id='c1' name='bash' arguments='{"command":"ls"}'
?     arguments: expected '{}', got '{"command":"ls"}'
- tool/result with call_id='c2', text=<lambda>
+ @7 tool/result t1.s1 c1 'a.txt'
?     call_id: expected 'c2', got 'c1'
+ @8 acme/note text='n'
  @9 step/end t1.s1
- turn/end t1 MaxTokens()
+ @10 turn/end t1 Completed()
?     reason: expected MaxTokens(), got Completed()"""
    )


def test_a_difference_shows_only_what_is_around_it() -> None:
    session = Session("s")
    for turn in range(1, 200):
        session.append(TurnStart(turn=turn))
        session.append(TurnEnd(turn=turn, reason=Completed()))
    patterns: list[Any] = ["turn/start", "turn/end"] * 199
    patterns[201] = TurnEnd(turn=101, reason=MaxTokens())
    del patterns[300]
    lines = told(patterns, session).splitlines()[3:]
    assert lines[:5] == [
        "  … 198 that fit",
        "  @198 turn/start t100",
        "  @199 turn/end t100 Completed()",
        "  @200 turn/start t101",
        "- turn/end t101 MaxTokens()",
    ]
    assert [line for line in lines if line[0] in "-+"][2].startswith("+ @3")
    assert len(lines) < 25


def test_a_log_too_large_for_a_difference_names_the_first_misfit() -> None:
    session = Session("s")
    for turn in range(1, 1500):
        session.append(TurnStart(turn=turn))
        session.append(TurnEnd(turn=turn, reason=Completed()))
    said = told([..., *["turn/start", "turn/end"] * 1499, "step/start"], session)
    assert "the first 2998 events fit; then comes" in said


def test_what_is_no_pattern_is_refused() -> None:
    patterns: Any = [3]
    with pytest.raises(TypeError, match="3 is no pattern"):
        assert_log(logged(), patterns)


@pytest.mark.proof
def test_patterns_fit_as_regular_expressions_do(prove: Prove) -> None:
    """The same words as a regular expression over one letter per event."""
    import re

    letters = {"turn/start": "t", "user/message": "u", "acme/note": "n"}
    words: dict[str, tuple[Any, str]] = {
        **{letter: (type, letter) for type, letter in letters.items()},
        "*": ("turn/*", "t*"),
        ".": (..., ".*"),
        "n*": ("acme/*", "n*"),
    }

    def check(log: list[str], chosen: list[str]) -> None:
        events: list[AnyEvent] = []
        for letter in log:
            session = Session(vocabulary=Vocabulary.core.extend(Note))
            payloads: dict[str, Any] = {"t": TurnStart(turn=1), "u": UserMessage.of("x"), "n": Note(text="x")}
            events.append(session.append(payloads[letter]))
        patterns = [words[word][0] for word in chosen]
        if re.fullmatch("".join(words[word][1] for word in chosen), "".join(log)):
            assert_log(events, patterns)
            return
        with pytest.raises(AssertionError, match="not what was expected") as caught:
            assert_log(events, patterns)
        assert any(line[0] in "-+" for line in str(caught.value).splitlines()[3:])

    prove("assert_log equals regular expressions", check, st.lists(st.sampled_from("tun"), max_size=8),
          st.lists(st.sampled_from(list(words)), max_size=6))  # fmt: skip
