"""Every reported stream gives the outcome that its case states, whole, cut at every byte and cut at random."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.model.asking import assembled
from turnlog.events import (
    Block,
    FinishError,
    FinishMaxTokens,
    FinishReason,
    FinishStop,
    FinishToolCalls,
    ReasoningBlock,
    StreamChunk,
    TextBlock,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
)
from turnlog.model.openai_stream import ChatReader
from turnlog.model.reader import Reading

CASES: Final = Path(__file__).parent.parent / "data" / "cases"
STREAMS: Final = sorted(path.relative_to(CASES).as_posix() for path in CASES.glob("BC-*/*.sse"))


def read(*pieces: bytes) -> list[StreamChunk]:
    reading = Reading(ChatReader({}, str))
    chunks = [chunk for piece in pieces for chunk in reading.feed(piece)]
    return chunks + reading.end()


class Outcome(NamedTuple):
    content: tuple[Block, ...]
    finish: type[FinishReason] = FinishStop  # type: ignore[valid-type]
    usage: TokenUsage | None = None
    code: str | None = None
    notes: tuple[str, ...] = ()


def text(words: str) -> TextBlock:
    return TextBlock(words)


def call(id: str, name: str, arguments: str) -> ToolCallBlock:
    return ToolCallBlock(id, name, arguments)


def calls(*blocks: Block, usage: TokenUsage | None = None) -> Outcome:
    return Outcome(blocks, FinishToolCalls, usage)


def lost(*blocks: Block) -> Outcome:
    """Kept as an attempt; nothing of it becomes a message."""
    return Outcome(blocks, FinishError, code="STREAM_CLOSED")


PLAN: Final = call("call_k1", "read_file", '{"path": "notes/plan.md"}')
OSLO: Final = call("c1", "weather", '{"city":"Oslo"}')
BERGEN: Final = call("c2", "weather", '{"city":"Bergen","unit":"C"}')
HELLO: Final = Outcome((text("Hello"),))
OK: Final = (text("ok"),)
NOT_KNOWN: Final = "usage: prompt and completion tokens are not both known"

EXPECTED: Final[dict[str, Outcome]] = {
    "BC-001/a-empty-strings.sse": calls(PLAN, usage=TokenUsage(40, 12)),
    "BC-001/b-nulls.sse": calls(PLAN, usage=TokenUsage(40, 12)),
    "BC-001/c-absent.sse": calls(PLAN, usage=TokenUsage(40, 12)),
    "BC-001/d-repeated-same.sse": calls(PLAN, usage=TokenUsage(40, 12)),
    "BC-001/e-late-id.sse": calls(PLAN),
    "BC-007/reply.sse": calls(
        text("one\u2028two\u2029three\u0085four"), call("call_u", "note", '{"text":"x\u2028y"}')
    ),
    "BC-016/a-eof-in-text.sse": lost(text("First half of the ans")),
    "BC-016/b-eof-in-tool-args.sse": lost(call("call_w", "write_file", '{"path":"a.txt","content":"hel')),
    "BC-016/c-finish-seen-no-done.sse": Outcome(
        (text("Complete."),), usage=TokenUsage(5, 2), notes=("the stream ended without [DONE]",)
    ),
    "BC-016/d-done-without-finish.sse": lost(text("No reason given")),
    "BC-016/e-eof-no-blank-line.sse": lost(text("x")),
    "BC-016/f-finish-key-absent.sse": Outcome(OK),
    "BC-017/a-tool_calls-but-cut.sse": calls(
        call("call_w", "write_file", '{"path":"a.txt","content":"line one\\nline')
    ),
    "BC-017/b-stop-but-cut.sse": Outcome((call("call_w", "write_file", '{"path":"a.txt"'),)),
    "BC-017/c-length.sse": Outcome((text("I will write it."),), FinishMaxTokens, TokenUsage(9, 32)),
    "BC-017/d-two-objects.sse": calls(call("call_w", "search", '{"q":"a"}{"q":"b"}')),
    "BC-019/a-interleaved.sse": calls(OSLO, BERGEN),
    "BC-019/b-same-index-other-id.sse": calls(OSLO, BERGEN),
    "BC-019/c-no-index.sse": calls(OSLO, BERGEN),
    "BC-019/d-one-chunk-two-entries-same-index.sse": calls(OSLO, BERGEN),
    "BC-019/e-index-starts-at-1-out-of-order.sse": calls(BERGEN, OSLO),
    "BC-019/f-text-between.sse": calls(text("Looking now"), OSLO, BERGEN),
    "BC-020/reply.sse": calls(text("中文 ok 🐋"), call("c1", "note", '{"t":"naïve 🐋 \\\\ud83d"}')),
    "BC-025/a-comments.sse": HELLO,
    "BC-025/b-comment-after-id.sse": HELLO,
    "BC-025/c-keepalive-as-data.sse": HELLO,
    "BC-025/d-event-ping.sse": HELLO,
    "BC-025/e-crlf-no-space-bom.sse": HELLO,
    "BC-025/f-cr-only.sse": HELLO,
    "BC-025/g-multi-line-data.sse": HELLO,
    "BC-026/a-empty.sse": calls(call("c1", "list_scopes", "")),
    "BC-026/b-absent.sse": calls(call("c1", "list_scopes", "")),
    "BC-026/c-null.sse": calls(call("c1", "list_scopes", "")),
    "BC-026/d-spaces.sse": calls(call("c1", "list_scopes", " \n")),
    "BC-026/e-word-null.sse": calls(call("c1", "list_scopes", "null")),
    "BC-026/f-object-not-string.sse": calls(call("c1", "read", '{"path":"a"}')),
    "BC-026/g-array.sse": calls(call("c1", "read", '["a"]')),
    "BC-038/length.sse": Outcome(
        (ReasoningBlock("Plan. "), text("Writing.")), FinishMaxTokens, TokenUsage(10, 64)
    ),
    "BC-040/both-in-one-delta.sse": Outcome((ReasoningBlock("think"), text("say more"))),
    "BC-040/reasoning-after-text.sse": Outcome((text("AB"), ReasoningBlock("late thought"))),
    "BC-053/a-null-details.sse": Outcome(OK, usage=TokenUsage(100, 5)),
    "BC-053/b-cached-over-prompt.sse": Outcome(
        OK,
        usage=TokenUsage(100, 5, 250),
        notes=("usage: 250 cached tokens are more than the 100 of the prompt; taken as separate",),
    ),
    "BC-053/c-null-counts.sse": Outcome(OK, notes=(NOT_KNOWN,)),
    "BC-053/d-strings-floats.sse": Outcome(
        OK,
        usage=TokenUsage(100, 5),
        notes=("usage: prompt_tokens is '100'", "usage: completion_tokens is 5.0"),
    ),
    "BC-053/e-both-cache-names.sse": Outcome(OK, usage=TokenUsage(40, 5, 60)),
    "BC-053/f-only-total.sse": Outcome(OK, notes=(NOT_KNOWN,)),
    "BC-053/g-negative.sse": Outcome(OK, notes=("usage: prompt_tokens is -12; left out", NOT_KNOWN)),
    "BC-070/dup-in-arguments.sse": calls(call("c1", "bash", '{"command":"ls","command":"touch SHOULD-NOT-EXIST"}')),
}  # fmt: skip


def test_every_stream_has_an_expected_outcome() -> None:
    assert list(EXPECTED) == STREAMS


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_what_its_case_says(name: str) -> None:
    expected = EXPECTED[name]
    chunks = read((CASES / name).read_bytes())
    found = assembled(chunks)
    assert found.content() == expected.content
    assert isinstance(found.finish, expected.finish)
    assert found.usage == expected.usage
    failure = found.finish.failure if isinstance(found.finish, FinishError) else None
    assert (failure and failure.code) == expected.code
    state = found.replay_state
    assert (state or {"response": {"notes": []}}) == {"response": {"notes": list(expected.notes)}}


@pytest.mark.parametrize("name", STREAMS)
def test_every_delta_of_a_call_carries_its_id_and_name_so_that_runs_pack_into_one_row(name: str) -> None:
    chunks = read((CASES / name).read_bytes())
    deltas = [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)]
    assert len({(one.index, one.id, one.name) for one in deltas}) == len({one.index for one in deltas})
    assert all(one.id and one.name for one in deltas)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_the_same_cut_at_every_byte(name: str) -> None:
    stream = (CASES / name).read_bytes()
    whole = read(stream)
    for cut in range(len(stream) + 1):
        assert read(stream[:cut], stream[cut:]) == whole
    assert read(*(bytes([byte]) for byte in stream)) == whole


def test_the_stream_of_case_20_is_the_same_at_its_nasty_offsets() -> None:
    stream = (CASES / "BC-020/reply.sse").read_bytes()
    for offset in json.loads((CASES / "BC-020/splits.json").read_bytes())["nasty_offsets"]:
        assert read(stream[:offset], stream[offset:]) == read(stream)


def test_a_stream_is_the_same_cut_at_random(prove: Prove) -> None:
    def check(name: str, cuts: list[float]) -> None:
        stream = (CASES / name).read_bytes()
        places = [0, *sorted(int(cut * len(stream)) for cut in cuts), len(stream)]
        pieces = [stream[begin:end] for begin, end in pairwise(places)]
        assert read(*pieces) == read(stream)

    prove("a reported stream cut at random", check, st.sampled_from(STREAMS), st.lists(st.floats(0, 1), max_size=30))
