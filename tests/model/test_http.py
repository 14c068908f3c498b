"""What happens between a request and its chunks over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import gzip
import logging
import pickle
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.model.asking import assembled, collect, request
from tests.model.loopback import Reply, Server, document, events, loopback
from tests.model.test_cases_streams import CASES, STREAMS, read
from turnlog.events import (
    CallConfig,
    Failure,
    Finish,
    FinishError,
    FinishStop,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolSchema,
    UsageChunk,
)
from turnlog.model import Model, ModelError, UnknownProvider, open_model
from turnlog.model.http import HttpModel
from turnlog.model.secret import Secret

KEY: Final = "sk-test-0123456789abcdef"


def line(content: str = "", finish: str | None = None) -> bytes:
    import json

    delta = {"content": content} if content else {}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


DONE: Final = b"data: [DONE]\n\n"
FINE: Final = events(line("Hello"), line(finish="stop"), DONE)


def model_of(server: Server, **options: Any) -> HttpModel:
    return open_model("deepseek/deepseek-chat", base_url=server.url, api_key=KEY, **options)


def talk(
    *replies: Reply, after: Callable[[Server, HttpModel], Awaitable[None]] | None = None, **options: Any
) -> list[StreamChunk]:
    async def run() -> list[StreamChunk]:
        async with loopback(*replies) as server:
            model = model_of(server, **options)
            try:
                chunks = await collect(model)
                if after is not None:
                    await after(server, model)
                return chunks
            finally:
                await model.aclose()
                await model.aclose()

    return asyncio.run(run())


def failure(chunks: list[StreamChunk]) -> Failure:
    assert isinstance(chunks[-1], Finish)
    assert isinstance(chunks[-1].reason, FinishError)
    return chunks[-1].reason.failure


SAMPLE: Final = [name for name in STREAMS if name.split("/")[0] in ("BC-001", "BC-016", "BC-019", "BC-025", "BC-020")]


@pytest.mark.parametrize("name", SAMPLE)
def test_a_reported_stream_over_http_gives_what_it_gives_in_memory(name: str) -> None:
    stream = (CASES / name).read_bytes()
    third = len(stream) // 3
    assert talk(events(stream[:third], 0.001, stream[third : 2 * third], stream[2 * third :])) == read(stream)


def test_a_request_says_what_the_header_says() -> None:
    async def run() -> None:
        async with loopback(FINE) as server:
            model = model_of(server)
            tool = ToolSchema("ls", "List.", {"type": "object"})
            config = CallConfig("deepseek", "deepseek-reasoner", "high", 0.5, 100, ("END",))
            await collect(model, request("Hi", config=config, system="Be brief.", tools=[tool]))
            await model.aclose()
            [asked] = server.asked
        assert asked.path == "/v1/chat/completions"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.body == {
            "model": "deepseek-reasoner",
            "thinking": {"type": "enabled"},
            "reasoning_effort": "high",
            "temperature": 0.5,
            "max_tokens": 100,
            "stop": ["END"],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "ls", "description": "List.", "parameters": {"type": "object"}},
                }
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        }

    asyncio.run(run())


def test_a_connection_is_used_again_after_done() -> None:
    async def run() -> None:
        async with loopback(FINE, FINE, document({"choices": []}, 500), FINE) as server:
            model = model_of(server)
            for _ in range(4):
                await collect(model)
            assert server.connections == 1
            await model.aclose()

    asyncio.run(run())


def test_a_server_that_stays_silent_after_done_does_not_hold_the_answer() -> None:
    began = time.monotonic()
    chunks = talk(events(line("Hello"), line(finish="stop"), DONE, 5.0))
    assert chunks[-1] == Finish(FinishStop())
    assert time.monotonic() - began < 3


USAGE: Final = {"prompt_tokens": 10, "completion_tokens": 2}
CALL: Final = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": ""}}


@pytest.mark.parametrize(
    ("message", "finish", "deltas"),
    [
        ({"content": "Hi"}, "stop", [{"content": "H"}, {"content": "i"}]),
        ({"content": None, "tool_calls": [CALL]}, "tool_calls", [{"tool_calls": [{"index": 0, **CALL}]}]),
        (
            {"content": "", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
            "tool_calls",
            [{"tool_calls": [{"index": 0, **CALL}]}, {"tool_calls": [{"index": 1, **CALL, "id": "c2"}]}],
        ),
        (
            {"content": "", "tool_calls": [CALL, CALL]},
            "tool_calls",
            [{"tool_calls": [{"index": 0, **CALL}]}, {"tool_calls": [{"index": 1, **CALL}]}],
        ),
        (
            {"content": "x", "reasoning_content": "r", "tool_calls": [CALL]},
            "length",
            [{"reasoning_content": "r"}, {"content": "x"}, {"tool_calls": [{"index": 0, **CALL}]}],
        ),
        ({"content": ""}, "stop", [{"content": ""}]),
        ({"content": "bad"}, "content_filter", [{"content": "bad"}]),
    ],
)
def test_whole_answers_and_streams_give_the_same(
    message: dict[str, Any], finish: str, deltas: list[dict[str, Any]]
) -> None:
    import json

    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": USAGE})
    stream = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    streamed = talk(events(*stream, DONE))
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE}
    whole = talk(document(answer), stream=False)
    for found in (streamed, whole):
        assert UsageChunk(TokenUsage(10, 2)) in found
    one, other = assembled(streamed), assembled(whole)
    assert (one.content(), one.finish, one.usage) == (other.content(), other.finish, other.usage)


def test_a_server_that_does_not_stream_though_asked_to_and_one_that_does_though_not_asked_to() -> None:
    answer = {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
    assert assembled(talk(document(answer))).content() == (TextBlock("Hello"),)
    assert assembled(talk(FINE, stream=False)).content() == (TextBlock("Hello"),)


REFUSALS: Final[list[tuple[Reply, Failure]]] = [
    (document({"error": {"message": "bad key"}}, 401), Failure("bad key", "AUTH", 401)),
    (document({"error": {"message": "no"}}, 403), Failure("no", "AUTH", 403)),
    (document({"error": {"message": "Insufficient Balance"}}, 402), Failure("Insufficient Balance", "QUOTA", 402)),
    (
        document({"error": {"message": "slow", "type": "rate_limit"}}, 429, retry_after="2", x_request_id="r1"),
        Failure("slow", "RATE_LIMIT", 429, 2000, "r1"),
    ),
    (document({"error": "slow"}, 429, retry_after_ms="250"), Failure("slow", "RATE_LIMIT", 429, 250)),
    (document({"error": "slow"}, 429, retry_after="-1"), Failure("slow", "RATE_LIMIT", 429)),
    (document({"error": "slow"}, 429, retry_after="soon"), Failure("slow", "RATE_LIMIT", 429)),
    (
        document({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, 429),
        Failure("You exceeded your current quota", "QUOTA", 429),
    ),
    (
        document({"error": {"message": "This model's maximum context length is 10", "code": None}}, 400),
        Failure("This model's maximum context length is 10", "CONTEXT_WINDOW_EXCEEDED", 400),
    ),
    (
        document({"error": {"message": "x", "code": "context_length_exceeded"}}, 400),
        Failure("x", "CONTEXT_WINDOW_EXCEEDED", 400),
    ),
    (document({"detail": [{"msg": "bad"}]}, 422), Failure('[{"msg": "bad"}]', "INVALID_REQUEST", 422)),
    (document({"message": "nope"}, 400), Failure("nope", "INVALID_REQUEST", 400)),
    (document({}, 404), Failure("{}", "HTTP_404", 404)),
    (document({"error": {}}, 408), Failure('{"error": {}}', "TIMEOUT", 408)),
    (Reply([b"<html>down</html>"], 502), Failure("<html>down</html>", "SERVER", 502)),
    (Reply([], 529), Failure("HTTP 529", "SERVER", 529)),
    (Reply([], 504), Failure("HTTP 504", "TIMEOUT", 504)),
    (Reply([], 302, {"Location": "http://127.0.0.1:1/"}), Failure("HTTP 302", "HTTP_302", 302)),
]


@pytest.mark.parametrize(("reply", "expected"), REFUSALS, ids=lambda one: getattr(one, "code", None))
def test_a_refusal_says_code_status_wait_and_request_id(reply: Reply, expected: Failure) -> None:
    assert talk(reply) == [Finish(FinishError(expected))]


def test_a_wait_given_as_a_date_is_a_wait_in_milliseconds() -> None:
    found = failure(talk(document({}, 503, retry_after=formatdate(time.time() + 60, usegmt=True))))
    assert found.provider_retry_after_ms is not None
    assert 50_000 < found.provider_retry_after_ms <= 60_000
    past = failure(talk(document({}, 503, retry_after=formatdate(time.time() - 60, usegmt=True))))
    assert past.provider_retry_after_ms is None


@pytest.mark.parametrize(
    ("data", "code", "status"),
    [
        (b'{"error":{"message":"m","type":"server_error"}}', "SERVER", None),
        (b'{"error":{"message":"m","type":"rate_limit_error"}}', "RATE_LIMIT", None),
        (b'{"error":{"message":"m","code":502}}', "SERVER", 502),
        (b'{"error":{"message":"m","code":"429"}}', "RATE_LIMIT", 429),
        (b'{"error":{"message":"m","code":"context_length_exceeded"}}', "CONTEXT_WINDOW_EXCEEDED", None),
        (b'{"error":"m"}', "SERVER", None),
        (b'{"object":"error","message":"m","code":400}', "INVALID_REQUEST", 400),
        (b'{"id":"x","choices":[{"index":0,"finish_reason":"error"}],"error":{"message":"m"}}', "SERVER", None),
    ],
)
def test_an_error_inside_a_stream_is_an_error_and_the_text_before_it_stays(
    data: bytes, code: str, status: int | None
) -> None:
    chunks = talk(events(line("Half"), b"data: " + data + b"\n\n", line(finish="stop"), DONE))
    assert chunks[1] == TextDelta(0, "Half")
    assert failure(chunks) == Failure("m", code, status)


def test_a_named_error_event_is_an_error() -> None:
    assert failure(talk(events(b'event: error\ndata: {"message":"m"}\n\n'))) == Failure("m", "SERVER")
    assert failure(talk(events(b"event: error\ndata: upstream died\n\n"))) == Failure("upstream died", "SERVER")


def test_a_web_page_is_no_answer_and_says_where_to_look() -> None:
    found = failure(talk(Reply([b"<html>"], headers={"Content-Type": "text/html"})))
    assert (found.code, found.status) == ("MALFORMED_RESPONSE", 200)
    assert "base URL" in found.message


def test_a_failure_of_any_kind_carries_the_request_id() -> None:
    cut = Reply([line("x")], headers={"Content-Type": "text/event-stream", "X-Request-Id": "r7"}, cut=True)
    assert failure(talk(cut)).request_id == "r7"


def test_tokens_per_minute_are_a_rate_and_not_a_context() -> None:
    said = {"error": {"message": "Too many tokens per minute", "code": "rate_limit_exceeded"}}
    for status in (413, 429):
        assert failure(talk(document(said, status))).code == "RATE_LIMIT"


@pytest.mark.parametrize(
    "data",
    [b"{cut", b"[1]", b'{"choices":[{"delta":{"content":"\xff"}}]}', b"[" * 99999],
    ids=["cut", "list", "utf-8", "deep"],
)
def test_what_cannot_be_read_fails_the_attempt_with_what_was_read(data: bytes) -> None:
    found = failure(talk(events(line("x"), b"data: " + data + b"\n\n")))
    assert found.code == "MALFORMED_RESPONSE"
    assert "the provider sent" in found.message


def test_a_connection_that_breaks() -> None:
    assert failure(talk(Reply(silent=True))).code == "STREAM_CLOSED"
    broken = Reply([line("x")], headers={"Content-Type": "text/event-stream"}, cut=True)
    assert failure(talk(broken)).code == "STREAM_CLOSED"
    whole = Reply([line("x"), line(finish="stop")], headers={"Content-Type": "text/event-stream"}, cut=True)
    assert isinstance(assembled(talk(whole)).finish, FinishStop)
    no_length = Reply([line("x"), line(finish="stop"), DONE], chunked=False)
    assert talk(no_length)[-1] == Finish(FinishStop())


def test_nobody_listens() -> None:
    async def run() -> None:
        async with loopback() as server:
            url = server.url
        model = open_model("openai/x", base_url=url)
        assert failure(await collect(model)).code == "TRANSPORT"
        await model.aclose()

    asyncio.run(run())


def test_silence_ends_the_answer_and_comments_keep_it_alive() -> None:
    assert failure(talk(events(line("x"), 30.0), idle=0.1)) == Failure("the provider was silent for 0.1 s", "TIMEOUT")
    assert failure(talk(events(30.0), idle=0.1)).code == "TIMEOUT"
    pings = [piece for _ in range(6) for piece in (b": ping\n\n", 0.05)]
    assert talk(events(*pings, line("x"), line(finish="stop"), DONE), idle=0.2)[-1] == Finish(FinishStop())
    assert failure(talk(events(*pings, *pings, line(finish="stop"), DONE), idle=0.2, total=0.3)).code == "TIMEOUT"


def test_a_compressed_answer_is_read() -> None:
    body = gzip.compress(line("Hello") + line(finish="stop") + DONE)
    reply = Reply([body], headers={"Content-Type": "text/event-stream", "Content-Encoding": "gzip"})
    assert assembled(talk(reply)).content() == (TextBlock("Hello"),)
    broken = Reply([b"no gzip"], headers={"Content-Type": "text/event-stream", "Content-Encoding": "gzip"})
    assert failure(talk(broken)).code == "MALFORMED_RESPONSE"


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_cancelling_or_leaving_closes_the_connection(how: str) -> None:
    async def run() -> None:
        never = asyncio.Event()
        async with loopback(events(line("x"), never)) as server:
            model = model_of(server)
            stream = model.stream(request())
            assert [await anext(stream), await anext(stream)][1] == TextDelta(0, "x")
            if how == "close":
                await stream.aclose()
            else:
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0.02)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            await asyncio.wait_for(server.closed.wait(), 2)
            await model.aclose()

    asyncio.run(run())


def test_a_client_that_was_passed_in_stays_open() -> None:
    async def run() -> None:
        async with loopback(FINE) as server, httpx.AsyncClient() as client:
            model = model_of(server, client=client)
            await collect(model)
            await model.aclose()
            assert not client.is_closed

    asyncio.run(run())


def test_a_missing_key_is_a_failure_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEEPSEEK_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, variable in [
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("anthropic/claude-opus-4-6", "ANTHROPIC_API_KEY"),
    ]:
        found = failure(asyncio.run(collect(open_model(name))))
        assert found.code == "MISSING_CREDENTIAL"
        assert variable in found.message


def test_keys_come_from_the_usual_variables_and_addresses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with loopback(FINE, FINE) as server:
            monkeypatch.setenv("DEEPSEEK_API_KEY", f" {KEY}\n")
            monkeypatch.setenv("DEEPSEEK_BASE_URL", server.url + "/")
            model = open_model("deepseek/deepseek-chat")
            await collect(model)
            assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
            assert server.asked[0].path == "/v1/chat/completions"
            await model.aclose()
            monkeypatch.delenv("OPENAI_API_KEY", raising=False)
            local = open_model("openai/llama", base_url=server.url)
            await collect(local)
            assert "authorization" not in server.asked[1].headers
            await local.aclose()

    asyncio.run(run())


def test_a_key_is_shown_nowhere(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    replies = [
        document({"error": {"message": f"Incorrect API key provided: {KEY}."}}, 401),
        events(b'data: {"error":{"message":"key ' + KEY.encode() + b' is bad"}}\n\n'),
        document({"error": {"message": "Incorrect API key provided: sk-proj-ab***********89."}}, 401),
        Reply([KEY.encode()], 500),
        events(b"data: {" + KEY.encode() + b"\n\n"),
    ]
    for reply in replies:
        chunks = talk(reply)
        assert KEY not in repr(chunks)
        assert "sk-" not in repr(chunks)
    for awkward in (f"{KEY}\nx", f"{KEY}ü"):
        model = open_model("openai/x", base_url="http://127.0.0.1:9/v1", api_key=awkward)
        chunks = asyncio.run(collect(model))
        assert failure(chunks).code == "INVALID_CREDENTIAL"
        assert KEY not in repr(chunks) + repr(model) + str(model) + repr(model.__dict__)
    assert KEY not in caplog.text
    assert KEY not in "".join(capfd.readouterr())
    assert repr(Secret(KEY)) == str(Secret(KEY)) == "Secret(…)"
    with pytest.raises(TypeError):
        pickle.dumps(Secret(KEY))


def test_names_that_are_no_model() -> None:
    for name in ("gpt-5", "mistral/large", "openai/", ""):
        with pytest.raises(UnknownProvider, match=r"anthropic/…, deepseek/…, openai/…"):
            open_model(name)
    for url in ("localhost:8000", "http://", "http://host:99999", "ftp://host"):
        with pytest.raises(ModelError, match="begins with http"):
            open_model("openai/x", base_url=url)
    for url in ("https://me:secret@host/v1", "https://host/v1?key=secret"):
        with pytest.raises(ModelError, match="no user, password or query") as caught:
            open_model("openai/x", base_url=url)
        assert "secret" not in str(caught.value)


def test_an_effort_without_a_word_for_it_fails() -> None:
    async def run() -> None:
        model = open_model("deepseek/x", api_key=KEY)
        found = failure(await collect(model, request(config=CallConfig("deepseek", "x", "enormous"))))
        assert found.code == "UNSUPPORTED_REASONING_EFFORT"
        assert "low, medium, high" in found.message

    asyncio.run(run())


def test_a_model_is_a_model_and_httpx_is_only_imported_with_the_first_request() -> None:
    import subprocess
    import sys

    assert isinstance(open_model("openai/x", api_key=KEY), Model)
    code = "import sys, turnlog.model as m; m.open_model('openai/x'); sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path.cwd(), check=False).returncode == 0
