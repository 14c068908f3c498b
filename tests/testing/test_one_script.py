"""One script, three ways to say it: a scripted model, a chat-completion server and an Anthropic server on loopback."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from turnlog.events import CallConfig, Finish, Header, StreamChunk, UsageChunk, UserMessage
from turnlog.model import (
    Request,
    ScriptedModel,
    call,
    cut,
    error,
    max_tokens,
    open_model,
    reasoning,
    text,
    usage,
)
from turnlog.testing import LoopbackServer, drop, keep_alive, refuse, reply, sse


def request() -> Request:
    header = Header(CallConfig("any", "any"))
    return Request("s", 1, 1, 1, header, (UserMessage.of("Hello").message,))


async def over_http(script: Any, provider: str, streams: bool) -> list[StreamChunk]:
    async with LoopbackServer([script]) as server:
        model = open_model(f"{provider}/any", base_url=server.base_url, api_key="k", stream=streams)
        try:
            return [chunk async for chunk in model.stream(request())]
        finally:
            await model.aclose()


async def scripted(script: Any) -> list[StreamChunk]:
    return [chunk async for chunk in ScriptedModel([script]).stream(request())]


def essence(chunks: list[StreamChunk]) -> list[object]:
    """Block by block, since protocols close them at other times, and how it ends; counts apart."""
    blocks = [chunk for chunk in chunks if not isinstance(chunk, Finish | UsageChunk)]
    blocks.sort(key=lambda chunk: chunk.index)  # type: ignore[union-attr]
    return [*blocks, *(chunk.reason for chunk in chunks if isinstance(chunk, Finish))]


def counts(chunks: list[StreamChunk]) -> list[tuple[int, int]]:
    found = [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)]
    return [(one.input_tokens, one.output_tokens) for one in found[-1:]]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "script",
    [
        "hello",
        [text("hel", "lo"), usage(10, 5, cache_read=90)],
        [call("read", path="a.txt"), usage(10, 5)],
        [text("first"), call("read", '{"pa', 'th":"a"}'), call("ls"), usage(10, 5)],
        [text("long"), max_tokens(), usage(10, 5)],
    ],
)
def test_an_answer_is_the_same_however_it_is_said(script: Any, provider: str) -> None:
    async def main() -> None:
        wanted, got = await scripted(script), await over_http(script, provider, True)
        assert essence(got) == essence(wanted)
        if counts(wanted):
            assert counts(got) == counts(wanted)

    anyio.run(main)


def said(chunks: list[StreamChunk]) -> Any:
    return chunks[-1].reason.failure  # type: ignore[union-attr]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    ("script", "code"),
    [
        (error("RATE_LIMIT", retry_after_ms=1500), "RATE_LIMIT"),
        (error("AUTH"), "AUTH"),
        (error("QUOTA", "no money"), "QUOTA"),
        (error("TIMEOUT"), "TIMEOUT"),
        (error("CONTEXT_WINDOW_EXCEEDED", "prompt is too long"), "CONTEXT_WINDOW_EXCEEDED"),
        (error("INVALID_REQUEST"), "INVALID_REQUEST"),
        (error("SERVER"), "SERVER"),
        (error("SERVER", status=529), "SERVER"),
        (refuse(429, retry_after=1.5), "RATE_LIMIT"),
        (refuse(404), "HTTP_404"),
        (refuse(502, body=b"<html>bad gateway</html>"), "SERVER"),
    ],
)
def test_an_http_error_means_to_a_model_what_the_script_says(
    script: Any, code: str, provider: str, streams: bool
) -> None:
    failure = said(anyio.run(over_http, script, provider, streams))
    assert failure.code == code
    if code == "RATE_LIMIT":
        assert failure.provider_retry_after_ms == 1500


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([text("hel"), error("SERVER", "overloaded")], "SERVER"),
        ([text("hel"), error("RATE_LIMIT", "slow down")], "RATE_LIMIT"),
        ([text("hel"), cut()], "STREAM_CLOSED"),
        (reply(text("hel"), drop()), "STREAM_CLOSED"),
    ],
)
def test_a_stream_that_fails_later_keeps_what_was_said(script: Any, code: str, provider: str) -> None:
    chunks = anyio.run(over_http, script, provider, True)
    assert "hel" in "".join(getattr(chunk, "text", "") for chunk in chunks)
    assert said(chunks).code == code


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_reasoning_pauses_pieces_and_keep_alives_do_not_change_an_answer(provider: str) -> None:
    parts = (reasoning("Hm", "m."), text("hé", " 😀"), call("read", path="é"))

    async def main() -> None:
        wanted = await over_http(reply(*parts), provider, True)
        for shape in (reply(*parts, pieces=1), reply(*parts, pieces=7, pause=0.0001), reply(keep_alive(), *parts)):
            assert await over_http(shape, provider, True) == wanted
        whole = await over_http(reply(*parts), provider, False)
        assert "".join(getattr(one, "text", "") for one in whole) == "".join(getattr(o, "text", "") for o in wanted)

    anyio.run(main)


def test_malformed_json_is_a_failure_and_not_an_exception() -> None:
    chunks = anyio.run(over_http, reply("hel", sse(b"data: {not json\n\n")), "openai", True)
    assert said(chunks).code
