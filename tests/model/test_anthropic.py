"""Answers of Anthropic Messages, streamed and whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.model.asking import assembled, collect, logged, request
from tests.model.loopback import Reply, document, events, loopback
from turnlog.events import (
    BlockEnd,
    BlockStart,
    CallConfig,
    Failure,
    Finish,
    FinishError,
    FinishMaxTokens,
    FinishStop,
    FinishToolCalls,
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
from turnlog.model import open_model
from turnlog.model.anthropic_stream import MessagesReader
from turnlog.model.reader import Reading

START: Final = {
    "type": "message_start",
    "message": {"id": "m", "usage": {"input_tokens": 10, "cache_read_input_tokens": 7, "output_tokens": 1}},
}
STOP: Final = {"type": "message_stop"}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def end(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def done(reason: str | None, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9, **usage}}


def stream(*said: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one.get('type')}\ndata: {json.dumps(one)}\n\n".encode() for one in said)


def read(*pieces: bytes) -> list[StreamChunk]:
    reading = Reading(MessagesReader({}, str))
    return [chunk for piece in pieces for chunk in reading.feed(piece)] + reading.end()


def whole(message: dict[str, Any]) -> list[StreamChunk]:
    return Reading(MessagesReader({}, str)).feed_whole(json.dumps(message).encode())


EVERYTHING: Final = stream(
    START,
    {"type": "ping"},
    begin(0, type="thinking", thinking="", signature=""),
    more(0, type="thinking_delta", thinking="hm"),
    more(0, type="signature_delta", signature="si"),
    more(0, type="signature_delta", signature="g"),
    end(0),
    begin(1, type="redacted_thinking", data="blob"),
    end(1),
    begin(2, type="text", text=""),
    more(2, type="text_delta", text="Hi 🐋"),
    end(2),
    begin(3, type="server_tool_use", id="s", name="web_search", input={}),
    more(3, type="input_json_delta", partial_json="{}"),
    end(3),
    begin(4, type="tool_use", id="c1", name="ls", input={}),
    more(4, type="input_json_delta", partial_json=""),
    more(4, type="input_json_delta", partial_json='{"a":'),
    more(4, type="input_json_delta", partial_json="1}"),
    end(4),
    begin(5, type="tool_use", id="c2", name="pwd", input={}),
    end(5),
    done("tool_use"),
    STOP,
)


def test_every_kind_of_block_becomes_chunks_and_signatures_become_replay_state() -> None:
    state = {"response": {}, "blocks": [{"signature": "sig"}, {"redacted": "blob"}, None, None, None]}
    assert read(EVERYTHING) == [
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "hm"),
        BlockEnd(0, ReasoningBlock("hm")),
        BlockStart(1, "reasoning"),
        BlockEnd(1, ReasoningBlock("")),
        BlockStart(2, "text"),
        TextDelta(2, "Hi 🐋"),
        BlockEnd(2, TextBlock("Hi 🐋")),
        BlockStart(3, "tool-call"),
        ToolCallDelta(3, "c1", "", "ls"),
        ToolCallDelta(3, "c1", '{"a":', "ls"),
        ToolCallDelta(3, "c1", "1}", "ls"),
        BlockEnd(3, ToolCallBlock("c1", "ls", '{"a":1}')),
        BlockStart(4, "tool-call"),
        ToolCallDelta(4, "c2", "", "pwd"),
        ToolCallDelta(4, "c2", "{}", "pwd"),
        BlockEnd(4, ToolCallBlock("c2", "pwd", "{}")),
        UsageChunk(TokenUsage(10, 9, 7)),
        Finish(FinishToolCalls(), state),
    ]


def test_the_stream_is_the_same_cut_at_every_byte() -> None:
    expected = read(EVERYTHING)
    assert read(*(bytes([byte]) for byte in EVERYTHING)) == expected
    for cut in range(0, len(EVERYTHING), 3):
        assert read(EVERYTHING[:cut], EVERYTHING[cut:]) == expected


def test_a_whole_answer_gives_the_same_message() -> None:
    found = assembled(
        whole(
            {
                "type": "message",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "redacted_thinking", "data": "blob"},
                    {"type": "text", "text": "Hi 🐋"},
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                    {"type": "tool_use", "id": "c1", "name": "ls", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "pwd", "input": {}},
                ],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 10, "cache_read_input_tokens": 7, "output_tokens": 9},
            }
        )
    )
    streamed = assembled(read(EVERYTHING))
    calls = [ToolCallBlock("c1", "ls", '{"a": 1}'), ToolCallBlock("c2", "pwd", "{}")]  # as the provider spelled them
    assert [*found.content()] == [*streamed.content()[:3], *calls]
    assert (found.usage, found.finish, found.replay_state) == (streamed.usage, streamed.finish, streamed.replay_state)


def test_large_numbers_of_a_whole_answer_are_kept_as_text() -> None:
    body = b'{"type":"message","content":[{"type":"tool_use","id":"c","name":"n","input":{"id":2512292042121000001}}],"stop_reason":"tool_use"}'  # noqa: E501
    found = assembled(Reading(MessagesReader({}, str)).feed_whole(body))
    assert found.content() == (ToolCallBlock("c", "n", '{"id":2512292042121000001}'),)


TEXT: Final = (begin(0, type="text", text=""), more(0, type="text_delta", text="x"), end(0))


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ((*TEXT, done("end_turn"), STOP), Finish(FinishStop())),
        ((*TEXT, done("stop_sequence"), STOP), Finish(FinishStop())),
        ((*TEXT, done("max_tokens"), STOP), Finish(FinishMaxTokens())),
        ((*TEXT, done("model_context_window_exceeded"), STOP), Finish(FinishMaxTokens())),
        (
            (*TEXT, done("end_turn")),
            Finish(FinishStop(), {"response": {"notes": ["the stream ended without message_stop"]}}),
        ),
        (
            (*TEXT, done("refusal"), STOP),
            Finish(FinishError(Failure("the provider ended the answer: refusal", "REFUSAL"))),
        ),
        (
            (*TEXT, STOP),
            Finish(FinishError(Failure("the answer ended without a stop reason", "STREAM_CLOSED"))),
        ),
        (TEXT, Finish(FinishError(Failure("the stream ended in the middle of the answer", "STREAM_CLOSED")))),
        ((done("end_turn"), STOP), Finish(FinishError(Failure("the provider's answer is empty", "EMPTY_RESPONSE")))),
        (
            (*TEXT, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            Finish(FinishError(Failure("Overloaded", "SERVER"))),
        ),
        (
            (*TEXT, {"type": "error", "error": {"type": "rate_limit_error", "message": "m"}, "request_id": "r"}),
            Finish(FinishError(Failure("m", "RATE_LIMIT", request_id="r"))),
        ),
        (({"type": 5}, *TEXT, done("end_turn"), STOP), Finish(FinishStop())),
    ],
)
def test_how_an_answer_ends(said: tuple[dict[str, Any], ...], finish: Finish) -> None:
    assert read(stream(START, *said))[-1] == finish


def test_usage_of_an_answer_that_failed_is_known_as_far_as_it_was_said() -> None:
    chunks = read(stream(START, *TEXT, {"type": "error", "error": {"message": "m"}}))
    assert chunks[-2] == UsageChunk(TokenUsage(10, 1, 7))


def test_half_a_surrogate_pair_in_a_delta_waits_for_the_other() -> None:
    cut = (
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}\n\n'
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\udc0bb"}}\n\n'
    )
    chunks = read(cut + stream(done("end_turn"), STOP))
    assert chunks[1:3] == [TextDelta(0, "a"), TextDelta(0, "🐋b")]


def test_over_http() -> None:
    async def run() -> None:
        refused: Reply = document(
            {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}},
            400,
            request_id="req_1",
        )
        answer = {"type": "message", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
        async with loopback(events(EVERYTHING), refused, document(answer)) as server:
            model = open_model("anthropic/claude-opus-4-6", base_url=server.url, api_key="sk-ant-0123456789")
            config = CallConfig("anthropic", "claude-opus-4-6")
            assert await collect(model, request(config=config)) == read(EVERYTHING)
            [finish] = await collect(model, request(config=config))
            failure = Failure("prompt is too long: 9 > 8", "CONTEXT_WINDOW_EXCEEDED", 400, None, "req_1")
            assert finish == Finish(FinishError(failure))
            assert assembled(await collect(model, request(config=config))).content() == (TextBlock("Hi"),)
            await model.aclose()
            asked = server.asked[0]
        assert asked.path == "/v1/messages"
        assert asked.headers["x-api-key"] == "sk-ant-0123456789"
        assert asked.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in asked.headers
        assert model.info.max_tokens == 32_000

    asyncio.run(run())


def test_whatever_comes_the_log_takes_it(prove: Prove) -> None:
    strings = st.sampled_from(["", "x", "{}", "a\ud83d", "\udc0b"])
    kinds = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "image", ""])
    fields = ("text", "thinking", "signature", "data", "id", "name", "partial_json")
    values = st.fixed_dictionaries({"type": kinds}, optional=dict.fromkeys(fields, strings | st.none() | st.just(5)))
    indexes = st.sampled_from([0, 1, None, "0"])
    said = st.one_of(
        st.builds(lambda i, b: {"type": "content_block_start", "index": i, "content_block": b}, indexes, values),
        st.builds(lambda i, d: {"type": "content_block_delta", "index": i, "delta": d}, indexes, values),
        st.builds(lambda i: {"type": "content_block_stop", "index": i}, indexes),
        st.sampled_from([done("end_turn"), done("max_tokens"), done("a\ud83d"), done(None), START, STOP]),
        st.sampled_from([{}, {"type": "ping"}, {"type": "error"}, {"delta": 5, "index": []}]),
        st.just({"type": "error", "error": {"message": "a\ud83d"}}),
    )  # fmt: skip

    def check(some: list[dict[str, Any]]) -> None:
        found = read(stream(*some))
        assert [type(one).__name__ for one in found].count("Finish") == 1
        logged(found)

    prove("any Anthropic events end in one finish", check, st.lists(said, max_size=10), times=5)
