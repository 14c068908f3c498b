"""Blocks are assembled as dsh does (dsh-v0 §4.8)."""

from __future__ import annotations

import pytest

from tests.model.asking import assembled
from turnlog.events import (
    BlockEnd,
    BlockStart,
    Failure,
    Finish,
    FinishAborted,
    FinishMaxTokens,
    FinishStop,
    Opaque,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)
from turnlog.model import Assembler, AssemblyError


def test_blocks_stand_in_the_order_in_which_their_index_came_first() -> None:
    found = assembled([TextDelta(3, "a"), BlockStart(0, "reasoning"), ReasoningDelta(0, "r"), TextDelta(3, "b")])
    assert found.content() == (TextBlock("ab"), ReasoningBlock("r"))


def test_the_first_block_end_is_the_block_and_later_deltas_are_ignored() -> None:
    found = assembled(
        [
            BlockStart(0, "text"),
            BlockStart(0, "reasoning"),
            TextDelta(0, "streamed"),
            BlockEnd(0, TextBlock("authoritative")),
            TextDelta(0, "late"),
            BlockEnd(0, TextBlock("second")),
        ]
    )
    assert found.content() == (TextBlock("authoritative"),)


def test_of_a_call_the_last_id_wins_a_name_replaces_and_arguments_join() -> None:
    found = assembled(
        [ToolCallDelta(1, "a", '{"x"', "old"), ToolCallDelta(1, "b", ":1", None), ToolCallDelta(1, "c", "}", "new")]
    )
    assert found.content() == (ToolCallBlock("c", "new", '{"x":1}'),)


def test_a_call_that_only_began_is_named_for_its_index() -> None:
    assert assembled([BlockStart(4, "tool-call")]).content() == (ToolCallBlock("call-4", "", ""),)


def test_halves_of_a_character_are_joined() -> None:
    assert assembled([TextDelta(0, "a\ud83d"), TextDelta(0, "\udc0bb")]).content() == (TextBlock("a🐋b"),)


def test_the_last_usage_and_the_last_finish_count() -> None:
    found = assembled(
        [
            UsageChunk(TokenUsage(1, 1)),
            Finish(FinishMaxTokens()),
            UsageChunk(TokenUsage(2, 2)),
            Finish(FinishStop(), {"response": {}}),
        ]
    )
    assert found.usage == TokenUsage(2, 2)
    assert found.finish == FinishStop()
    assert found.replay_state == {"response": {}}


CUT: list[StreamChunk] = [
    BlockEnd(0, ReasoningBlock("Plan.")),
    BlockEnd(1, ToolCallBlock("c", "bash", '{"comm')),
    BlockEnd(2, TextBlock("Writing.")),
]


def test_an_answer_cut_by_its_limit_has_no_calls_and_its_side_data_stays_aligned() -> None:
    found = assembled([*CUT, Finish(FinishMaxTokens(), {"response": {}, "blocks": ["r", "c", "t"]})])
    assert found.content() == (ReasoningBlock("Plan."), TextBlock("Writing."))
    assert found.replay_state == {"response": {}, "blocks": ["r", "t"]}


@pytest.mark.parametrize("finish", [FinishStop(), FinishMaxTokens()])
def test_side_data_that_does_not_fit_is_dropped_whole(finish: FinishStop | FinishMaxTokens) -> None:
    assert assembled([*CUT, Finish(finish, {"response": {}, "blocks": ["r"]})]).replay_state is None


def test_what_was_shown_is_text_and_reasoning_with_something_to_see() -> None:
    found = assembled(
        [
            BlockEnd(0, ReasoningBlock("r")),
            TextDelta(1, " \n"),
            ToolCallDelta(2, "c", "{", "bash"),
            TextDelta(3, "half \ud83d"),
            BlockStart(4, "unknown"),
            Finish(FinishAborted(Failure("x", "ABORTED")), {"response": {}}),
        ]
    )
    assert found.visible() == (ReasoningBlock("r"), TextBlock("half \ufffd"))


def test_nothing_is_an_empty_message() -> None:
    nothing = Assembler()
    assert (nothing.content(), nothing.visible(), nothing.usage, nothing.finish) == ((), (), None, None)
    assert nothing.replay_state is None


def test_a_block_of_an_unknown_kind_is_kept_when_closed_and_an_error_when_not() -> None:
    opaque = Opaque("video", {"type": "video"})
    assert assembled([BlockStart(0, "video"), BlockEnd(0, opaque)]).content() == (opaque,)
    with pytest.raises(AssemblyError, match="block 0 is of the unknown kind 'video'"):
        assembled([BlockStart(0, "video")]).content()


def test_an_unknown_chunk_is_an_error() -> None:
    with pytest.raises(AssemblyError, match="unknown kind"):
        Assembler().feed(Opaque("later", {"type": "later"}))
