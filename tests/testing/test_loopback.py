"""The loopback server, over real connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest

from turnlog.model import ScriptError, call, crash, cut, error, max_tokens, reasoning, stop, text, usage, wait
from turnlog.model.sse import EventSplitter
from turnlog.testing import LoopbackServer, drop, hang, keep_alive, refuse, reply, sse

CHAT = "/chat/completions"
MESSAGES = "/messages"
ASK = {"model": "m", "messages": [], "stream": True}


def served(
    script: Any, use: Callable[[LoopbackServer, httpx.AsyncClient], Awaitable[Any]], *, strict: bool = True
) -> LoopbackServer:
    """The server after *use* ran against it."""

    async def main() -> LoopbackServer:
        server = LoopbackServer(script, strict=strict)
        async with server, httpx.AsyncClient(timeout=5) as client:
            client.base_url = server.base_url
            await use(server, client)
        return server

    return anyio.run(main)


async def events(client: httpx.AsyncClient, path: str = CHAT, **ask: Any) -> list[Any]:
    """The events of one streamed answer."""
    return [event async for event in _events(client, path, ask)]


async def _events(client: httpx.AsyncClient, path: str, ask: dict[str, Any]) -> AsyncIterator[Any]:
    splitter = EventSplitter()
    async with client.stream("POST", path, json={**ASK, **ask}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        async for data in response.aiter_raw():
            for event in splitter.feed(data):
                yield event.data.decode() if event.data == b"[DONE]" else json.loads(event.data)


def deltas(stream: list[Any]) -> list[Any]:
    return [chunk["choices"][0]["delta"] for chunk in stream if chunk != "[DONE]" and chunk["choices"]]


# -- OpenAI-compatible ------------------------------------------------------------------------------------------------

WHOLE = [
    reasoning("Hm", "m."),
    text("Look", " first."),
    call("read", '{"pa', 'th":"a"}'),
    call("ls"),
    usage(10, 5, cache_read=90, reasoning=2),
]


def opened(index: int, name: str) -> Any:
    function = {"name": name, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": f"call_{index + 1}", "type": "function", "function": function}]}


def test_a_scripted_answer_is_streamed_as_chat_completion() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        stream = await events(client)
        assert deltas(stream) == [
            {"role": "assistant", "content": ""},
            {"reasoning_content": "Hm"},
            {"reasoning_content": "m."},
            {"content": "Look"},
            {"content": " first."},
            opened(0, "read"),
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"pa'}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": 'th":"a"}'}}]},
            opened(1, "ls"),
            {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
            {},
        ]
        assert [chunk["choices"][0]["finish_reason"] for chunk in stream[:-2]] == [None] * 10 + ["tool_calls"]
        assert stream[-2]["choices"] == []
        assert stream[-2]["usage"] == {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "total_tokens": 105,
            "prompt_tokens_details": {"cached_tokens": 90},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
        assert stream[-1] == "[DONE]"

    served([WHOLE], use)


def test_the_same_answer_comes_whole_when_the_request_does_not_stream() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        for ask in ({"stream": False}, {}):
            response = await client.post(CHAT, json={"model": "m", **ask})
            choice = response.json()["choices"][0]
            assert choice["finish_reason"] == "tool_calls"
            assert choice["message"]["content"] == "Look first."
            assert choice["message"]["reasoning_content"] == "Hmm."
            assert [one["function"] for one in choice["message"]["tool_calls"]] == [
                {"name": "read", "arguments": '{"path":"a"}'}, {"name": "ls", "arguments": "{}"}
            ]  # fmt: skip
            assert response.json()["usage"]["total_tokens"] == 105
        assert (await client.post(CHAT, json={})).json()["choices"][0]["message"]["content"] is None

    served([WHOLE, WHOLE, [usage(1, 0)]], use)


@pytest.mark.parametrize(
    ("script", "openai", "anthropic"),
    [
        ("hello", "stop", "end_turn"),
        ([call("ls")], "tool_calls", "tool_use"),
        ([text("hel"), max_tokens()], "length", "max_tokens"),
        ([call("ls"), stop()], "stop", "end_turn"),
        ([text("hel"), cut()], None, None),
    ],
)
def test_how_an_answer_ends(script: Any, openai: str | None, anthropic: str | None) -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        stream = await events(client)
        assert (stream[-1] == "[DONE]") is (openai is not None)
        assert stream[-2 if openai else -1]["choices"][0]["finish_reason"] == openai
        last = [event for event in await events(client, MESSAGES) if event["type"] == "message_delta"]
        assert [event["delta"]["stop_reason"] for event in last] == ([anthropic] if anthropic else [])
        whole = await client.post(CHAT, json={})
        assert whole.json()["choices"][0]["finish_reason"] == openai

    served([script] * 3, use)


# -- Anthropic --------------------------------------------------------------------------------------------------------


def test_a_scripted_answer_is_streamed_as_anthropic_message() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        stream = await events(client, MESSAGES)
        assert [event["type"] for event in stream] == [
            "message_start",
            *("content_block_start", *["content_block_delta"] * 3, "content_block_stop"),
            *("content_block_start", *["content_block_delta"] * 2, "content_block_stop"),
            *("content_block_start", *["content_block_delta"] * 2, "content_block_stop"),
            *("content_block_start", *["content_block_delta"] * 1, "content_block_stop"),
            "message_delta",
            "message_stop",
        ]
        assert [event["content_block"]["type"] for event in stream if "content_block" in event] == [
            "thinking", "text", "tool_use", "tool_use"
        ]  # fmt: skip
        assert [event["delta"]["type"] for event in stream if event["type"] == "content_block_delta"] == [
            *["thinking_delta"] * 2, "signature_delta", *["text_delta"] * 2, *["input_json_delta"] * 3
        ]  # fmt: skip
        assert stream[0]["message"]["usage"] == {
            "input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0
        }  # fmt: skip
        assert stream[-2]["usage"] == {"output_tokens": 5}
        whole = (await client.post(MESSAGES, json={})).json()
        assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use", "tool_use"]
        assert whole["content"][2]["input"] == {"path": "a"}
        assert (whole["stop_reason"], whole["usage"]["output_tokens"]) == ("tool_use", 5)

    served([WHOLE, WHOLE], use)


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status", "headers"),
    [
        (error("RATE_LIMIT", retry_after_ms=1500, request_id="r1"), 429, {"retry-after": "1.5", "x-request-id": "r1"}),
        (error("AUTH"), 401, {}),
        (error("SERVER"), 500, {}),
        (error("HTTP_418"), 418, {}),
        (error("SERVER", status=529), 529, {}),
        (refuse(429, retry_after=2), 429, {"retry-after": "2"}),
        (refuse(500, "down"), 500, {}),
        (refuse(503, body=b"<html>", headers={"x-proxy": "p"}), 503, {"x-proxy": "p"}),
    ],
)
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("streams", [True, False])
def test_a_failure_with_nothing_before_it_is_an_http_error(
    script: Any, status: int, headers: dict[str, str], path: str, streams: bool
) -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        response = await client.post(path, json={"stream": streams})
        assert response.status_code == status
        assert headers.items() <= dict(response.headers).items()
        if b"<html>" not in response.content:
            assert response.json()["error"]["message"]

    served([script], use)


def test_a_failure_after_something_was_streamed_is_an_error_event() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        stream = await events(client)
        assert deltas(stream[:-1])[-1] == {"content": "hel"}
        assert stream[-1] == {"error": {"message": "busy", "type": "server_error", "code": None}}
        stream = await events(client, MESSAGES)
        assert stream[-1] == {"type": "error", "error": {"type": "api_error", "message": "busy"}}
        assert (await client.post(CHAT, json={})).status_code == 500

    served([[text("hel"), error("SERVER", "busy")]] * 3, use)


@pytest.mark.parametrize("script", [reply(text("hello"), drop()), reply(text("hello"), cut_bytes=40)])
@pytest.mark.parametrize("streams", [True, False])
def test_a_connection_breaks_off_where_the_script_says(script: Any, streams: bool) -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(CHAT, json={"stream": streams})

    assert served([script], use).requests[0].outcome == "dropped"


@pytest.mark.parametrize("script", [drop(), [wait(0.001), drop()]])
@pytest.mark.parametrize("streams", [True, False])
def test_a_connection_may_be_closed_without_a_word(script: Any, streams: bool) -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            await client.post(CHAT, json={"stream": streams})

    assert served([script], use).requests[0].outcome == "dropped"


async def until_it_breaks(response: httpx.Response) -> tuple[bytes, Exception | None]:
    received = b""
    try:
        async for data in response.aiter_raw():
            received += data
    except httpx.TransportError as error:
        return received, error
    return received, None


def test_a_stream_may_be_cut_after_every_byte() -> None:
    whole = b""

    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        nonlocal whole
        whole = (await client.post(CHAT, json=ASK)).content
        assert whole.endswith(b"[DONE]\n\n")
        for length in range(0, len(whole), 7):
            async with client.stream("POST", CHAT, json={**ASK, "length": length}) as response:
                received, error = await until_it_breaks(response)
            assert received == whole[:length]
            assert isinstance(error, httpx.RemoteProtocolError)

    served(lambda body: reply("hé 😀", cut_bytes=body.get("length")), use)


def test_a_stream_may_come_in_pieces_of_any_size() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        bodies = {(await client.post(CHAT, json=ASK)).content for _ in range(4)}
        assert len(bodies) == 1

    served([reply("hé 😀"), *(reply("hé 😀", pieces=size, pause=0.0001) for size in (1, 7, 1000))], use)


def test_delays_keep_alives_and_bytes_as_they_are() -> None:
    gate = asyncio.Event()

    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        async with client.stream("POST", CHAT, json=ASK) as response:
            stream = response.aiter_raw()
            first = b""
            while not first.endswith(b": keep-alive\n\n"):
                first += await anext(stream)
            gate.set()
            rest = b"".join([data async for data in stream])
        assert rest.startswith(b"data: {not json\n\n")
        assert b'"hello"' in rest

    served([reply(keep_alive(), wait(gate), sse(b"data: {not json\n\n"), wait(0.001), "hello")], use)


def test_a_delay_before_anything_holds_back_the_headers() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        started = asyncio.get_running_loop().time()
        for streams in (True, False):
            async with client.stream("POST", CHAT, json={"stream": streams}):
                assert asyncio.get_running_loop().time() - started > 0.04
            started = asyncio.get_running_loop().time()

    served([[wait(0.05), text("x")]] * 2, use)


@pytest.mark.parametrize("script", [hang(), reply(keep_alive(), wait(1000), "x"), [wait(anyio.Event()), "x"]])
def test_a_client_that_leaves_ends_its_answer(script: Any) -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.ReadTimeout):
            await client.post(CHAT, json=ASK, timeout=0.05)
        with anyio.fail_after(5):
            while server._open:
                await anyio.sleep(0.001)
        assert server.requests[0].outcome == "client left"

    served([script], use)


def test_leaving_the_block_ends_answers_that_never_come() -> None:
    async def main() -> None:
        async with httpx.AsyncClient(timeout=5) as client:
            async with LoopbackServer([hang()]) as server:
                request = asyncio.create_task(client.post(server.base_url + CHAT, json={}))
                while not server.requests:
                    await asyncio.sleep(0.001)
            with pytest.raises(httpx.TransportError):
                await request
        await server.aclose()

    anyio.run(main)


# -- the script -------------------------------------------------------------------------------------------------------


def test_requests_are_recorded_without_their_secrets() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        secrets = {"Authorization": "Bearer sk-1", "X-Api-Key": "sk-2", "Cookie": "c", "X-Other": "o"}
        await client.post(f"{CHAT}?x=1", json={"n": 1}, headers=secrets)

        async def body() -> AsyncIterator[bytes]:
            yield b'{"n":'
            yield b"2}"

        await client.post(CHAT, content=body())

    server = served(["a", "b"], use)
    assert server.bodies == [{"n": 1}, {"n": 2}]
    assert server.requests[0].path == f"/v1{CHAT}?x=1"
    assert server.requests[0].headers["x-other"] == "o"
    assert [one.outcome for one in server.requests] == ["answered", "answered"]
    assert "sk-" not in repr(server.requests)


def test_connections_are_kept_open_and_serve_in_order() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        for n in range(5):
            assert deltas(await events(client))[1] == {"content": str(n)}
        assert len(server._open) == 1

    served([str(n) for n in range(5)], use)


def test_calls_are_numbered_over_the_whole_script() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        ids = []
        for _ in range(3):
            message = (await client.post(CHAT, json={})).json()["choices"][0]["message"]
            ids.append([one["id"] for one in message["tool_calls"]])
        assert ids == [["call_1", "call_2"], ["mine"], ["call_4"]]

    served([[call("a"), call("b")], call("c", id="mine"), lambda body: call("d")], use)


def test_an_unexpected_request_is_refused_and_raised_at_the_end() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        await client.post(CHAT, json={})
        response = await client.post(CHAT, json={"late": 1})
        assert (response.status_code, response.json()["error"]["message"]) == (
            400, "unexpected request 2: the script has 1 answers"
        )  # fmt: skip

    with pytest.raises(ScriptError, match=r'unexpected request 2: .*"late":1'):
        served(["a"], use)
    assert served(["a"], use, strict=False).remaining == 0


def test_answers_left_over_are_raised_at_the_end() -> None:
    async def nothing(server: LoopbackServer, client: httpx.AsyncClient) -> None: ...

    with pytest.raises(ScriptError, match="2 of 2 answers were never asked for; the next is 'a'"):
        served(["a", "b"], nothing)
    served(["a", "b"], nothing, strict=False)
    with pytest.raises(ZeroDivisionError):  # and not the script's error
        served(["a"], lambda server, client: 1 / 0)  # type: ignore[arg-type, return-value]


def test_a_script_that_fails_or_cannot_be_sent_is_said_to_both_sides() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        response = await client.post(CHAT, json={})
        assert response.status_code == 500
        assert "ZeroDivisionError" in response.text

    with pytest.raises(ScriptError, match="the answer to request 1: ZeroDivisionError"):
        served(lambda body: 1 / 0, use)
    with pytest.raises(ScriptError, match="cannot be sent by a server"):
        reply(crash(ValueError()))  # type: ignore[arg-type]


def test_other_paths_and_bodies_are_refused_and_use_up_no_answer() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        assert (await client.get("/models")).status_code == 404
        assert (await client.post(CHAT, content=b"{")).status_code == 400
        assert (await client.post(CHAT, content=b"[]")).status_code == 400
        assert (await client.post(CHAT, json={})).status_code == 200

    served(["a"], use)


def test_it_serves_from_a_thread_too() -> None:
    with LoopbackServer(["a", "b"]) as server:
        for said in "ab":
            response = httpx.post(server.base_url + CHAT, json={})
            assert response.json()["choices"][0]["message"]["content"] == said
    with pytest.raises(httpx.ConnectError):
        httpx.post(server.base_url + CHAT, json={})
    with pytest.raises(ScriptError, match="1 of 1"), LoopbackServer(["a"]):
        pass


def test_it_has_no_address_before_it_serves() -> None:
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        assert LoopbackServer([]).base_url


def test_many_clients_are_served_at_once() -> None:
    async def use(server: LoopbackServer, client: httpx.AsyncClient) -> None:
        async def one(n: int) -> None:
            stream = await events(client, n=n)
            assert deltas(stream)[1] == {"content": str(n)}

        async with anyio.create_task_group() as group:
            for n in range(40):
                group.start_soon(one, n)

    assert len(served(lambda body: reply(wait(0.001), str(body["n"]), pause=0.001), use).requests) == 40
