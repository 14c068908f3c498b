"""`LoopbackServer`: a provider on 127.0.0.1, over real HTTP and server-sent events, that says what a test wrote down.

::

    async with LoopbackServer([
        [text("Look first."), call("read", path="a.txt")],      # the first request is answered with a call
        error("RATE_LIMIT", retry_after_ms=20),                  # the second with a 429
        reply(text("It says"), drop()),                          # the third breaks off
        lambda body: f"You sent {len(body['messages'])} messages.",
    ]) as server:
        model = open_model("openai/any", base_url=server.base_url, key="k")

It speaks OpenAI-compatible chat completions (``…/chat/completions``) and Anthropic messages (``…/messages``), streaming
or not, as the request asks. It is strict like `ScriptedModel`: a request that no answer is left for gets a 400, and
leaving the block raises for it and for answers that nobody asked for.

``async with`` serves in the running event loop, plain ``with`` in a thread of its own. What replies can do is in
`turnlog.testing.replies`; a `reply` is turned into bytes once, however often it is given.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from turnlog.model.errors import ScriptError
from turnlog.model.scripted import Call, Gate, Wait

from .replies import Drop, Flavour, Part, Refusal, Reply, Step, refuse, sendable

Scripted: TypeAlias = Reply | Refusal | Part | str | Sequence[Part | str]
"""One answer: a :func:`reply`, a :func:`refuse`, or parts to make a reply of."""
Script: TypeAlias = Iterable[Scripted | Callable[[Any], Scripted]] | Callable[[Any], Scripted]
"""Answers in the order of the requests, or one function for all; functions are given the request's JSON."""

SECRET_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
"""Headers that are not kept."""

_BUFFER: Final = 1 << 20
_SHORT: Final = 0.2
"""Seconds after which it is soon enough to notice that a client is gone."""


class _Wants(msgspec.Struct):
    stream: bool = False


_wants: Final = msgspec.json.Decoder(_Wants).decode


@dataclass(slots=True)
class Received:
    """One request that came, without its secrets."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    outcome: Literal["open", "answered", "dropped", "client left"] = "open"
    """How the connection went: ``dropped`` by the script, or the client closed it before the answer was over."""

    @property
    def json(self) -> Any:
        """Its body."""
        return msgspec.json.decode(self.body)


class LoopbackServer:
    """Serves a script. ``base_url`` is known once the block is entered."""

    def __init__(self, script: Script, *, strict: bool = True) -> None:
        """*strict*: leaving the block raises for requests that were not expected and for answers left over."""
        self._function = script if callable(script) else None
        self._answers = [] if callable(script) else list(script)
        self._strict = strict
        self._calls = 0
        self._given = 0
        self._unexpected: ScriptError | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._thread: _Thread | None = None
        self.requests: Final[list[Received]] = []
        """Every request so far, in the order in which they came."""
        self.origin = ""
        """``http://127.0.0.1:<port>``"""

    @property
    def base_url(self) -> str:
        """What clients take as base URL."""
        if not self.origin:
            raise RuntimeError("the server has no address before it serves; use it inside its `with` block")
        return f"{self.origin}/v1"

    @property
    def bodies(self) -> list[Any]:
        """The JSON of every request so far."""
        return [one.json for one in self.requests]

    @property
    def remaining(self) -> int:
        """How many answers nobody has asked for."""
        return len(self._answers) - self._given

    def assert_done(self) -> None:
        """Raise :class:`ScriptError` unless every answer was asked for and nothing else was."""
        if self._unexpected is not None:
            raise self._unexpected
        if self.remaining:
            left = self._answers[self._given]
            raise ScriptError(
                f"{self.remaining} of {len(self._answers)} answers were never asked for; the next is {left!r:.200}"
            )

    # -- serving ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_BUFFER)
        self.origin = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def aclose(self) -> None:
        """Stop listening and close what is open. Idempotent; the script is not checked."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
        if kind is None and self._strict:
            self.assert_done()

    def __enter__(self) -> Self:
        self._thread = _Thread(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._thread.stop()
        if kind is None and self._strict:
            self.assert_done()

    # -- one connection -----------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # the client is gone; its request says so
                await self._serve(reader, writer)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()  # until what was written is sent
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (received := await _read(reader)) is not None:
            self.requests.append(received)
            await _give(self._answer(received), received, reader, writer)
            if received.outcome != "answered":
                break

    def _answer(self, received: Received) -> tuple[Step, ...]:
        flavour = _flavour(received.path)
        if flavour is None:
            return refuse(404, f"{received.path} is no path of a provider").steps("openai", False)
        try:
            streams = _wants(received.body).stream
        except msgspec.MsgspecError as error:
            return refuse(400, f"the body is no JSON object: {error}").steps(flavour, False)
        answer = self._next(received)
        return answer.steps(flavour, streams)

    def _next(self, received: Received) -> Reply | Refusal:
        if self._function is None and self._given >= len(self._answers):
            fact = f"unexpected request {len(self.requests)}: the script has {len(self._answers)} answers"
            self._unexpected = self._unexpected or ScriptError(f"{fact}; it says {received.body[-200:]!r}")
            return refuse(400, fact)
        answer = self._function or self._answers[self._given]
        self._given += self._function is None
        try:
            return self._made(answer(received.json) if callable(answer) else answer)
        except Exception as error:  # a script that fails must not leave its client waiting
            self._unexpected = self._unexpected or ScriptError(f"the answer to request {len(self.requests)}: {error!r}")
            return refuse(500, f"the script failed: {error!r}")

    def _made(self, scripted: Scripted) -> Reply | Refusal:
        if isinstance(scripted, Reply | Refusal):
            return scripted
        several = [scripted] if isinstance(scripted, str) or not isinstance(scripted, Sequence) else scripted
        parts = sendable(several, self._calls)
        self._calls += sum(isinstance(part, Call) for part in parts)
        return Reply(parts)


class _Thread:
    """Serves in a thread of its own, with an event loop of its own."""

    def __init__(self, server: LoopbackServer) -> None:
        self._serving = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(server)), name="loopback", daemon=True)
        self._thread.start()
        self._serving.wait()

    async def _run(self, server: LoopbackServer) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            await server.start()
        finally:
            self._serving.set()
        await self._over.wait()
        await server.aclose()

    def stop(self) -> None:
        """Close the server and wait for the thread."""
        if self._loop is not None and self._over is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()


def _flavour(path: str) -> Flavour | None:
    route = path.partition("?")[0]
    if route.endswith("/chat/completions"):
        return "openai"
    return "anthropic" if route.endswith("/messages") else None


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """The next request of a connection, or None when the client is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b"".join([chunk async for chunk in _chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    kept = {name: value for name, value in headers.items() if name not in SECRET_HEADERS}
    return Received(first.split(" ")[1], kept, body)


async def _chunks(reader: asyncio.StreamReader) -> Any:
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")


async def _give(
    steps: tuple[Step, ...], received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Do what a reply says, until it is over or the client is gone."""
    received.outcome = "client left"  # unless it goes on to the end
    for step in steps:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, Drop):
            received.outcome = "dropped"
            return
        elif not await _wait(step, reader):
            return
    received.outcome = "answered"


async def _wait(step: Wait, reader: asyncio.StreamReader) -> bool:
    """Wait as long as a reply says; False when the client is gone before."""
    until = step.until
    if isinstance(until, int | float) and until <= _SHORT:
        await asyncio.sleep(until)
        return not reader.at_eof()
    over = asyncio.ensure_future(asyncio.sleep(until) if isinstance(until, int | float) else _passing(until))
    gone = asyncio.ensure_future(reader.read(1))  # a client says nothing while it waits for an answer
    try:
        await asyncio.wait((over, gone), return_when=asyncio.FIRST_COMPLETED)
        return not gone.done()
    finally:
        over.cancel()
        gone.cancel()
        await asyncio.wait((over, gone))


async def _passing(gate: Gate) -> None:
    await gate.wait()
