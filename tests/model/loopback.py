"""A server on loopback that says what a test wrote down: bytes, pauses, cuts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Piece: TypeAlias = bytes | float | asyncio.Event
"""Bytes to send, seconds to wait, something to wait for."""


@dataclass
class Reply:
    """One response. Without *length* or *chunked* the end of the connection ends the body."""

    body: Sequence[Piece] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunked: bool = True
    cut: bool = False
    """Close the connection without ending the body."""
    silent: bool = False
    """Close the connection without a word."""


def events(*pieces: Piece, **headers: str) -> Reply:
    """An event stream, piece by piece."""
    return Reply(pieces, headers={"Content-Type": "text/event-stream", **headers})


def document(value: object, status: int = 200, **headers: str) -> Reply:
    """A JSON document."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply([json.dumps(value).encode()], status, {"Content-Type": "application/json", **named})


@dataclass
class Asked:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int


class Server:
    """Gives its replies one by one."""

    def __init__(self, replies: Iterable[Reply]) -> None:
        self._replies = iter(replies)
        self.asked: list[Asked] = []
        self.url = ""
        self.connections = 0
        self.tasks: set[asyncio.Task[None] | None] = set()
        self.closed = asyncio.Event()
        """Set when a client goes away before its reply is over."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.tasks.add(asyncio.current_task())
        try:
            while await self._one(reader, writer, number):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # the last: the test is over
            self.closed.set()
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.asked.append(Asked(head[0].split(" ")[1], headers, json.loads(body), number))
        reply = next(self._replies)
        if reply.silent:
            return False
        sent = {**reply.headers, **({"Transfer-Encoding": "chunked"} if reply.chunked else {"Connection": "close"})}
        lines = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        for piece in reply.body:
            await self._say(reader, writer, piece, reply.chunked)
        if reply.cut:
            return False
        if reply.chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return reply.chunked

    async def _say(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, piece: Piece, chunked: bool
    ) -> None:
        if isinstance(piece, bytes):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
            return
        gone = asyncio.create_task(reader.read(1))
        wait = asyncio.create_task(piece.wait() if isinstance(piece, asyncio.Event) else asyncio.sleep(piece))
        try:
            await asyncio.wait([gone, wait], return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ConnectionResetError
        finally:
            gone.cancel()
            wait.cancel()
            await asyncio.gather(gone, wait, return_exceptions=True)


@asynccontextmanager
async def loopback(*replies: Reply) -> AsyncIterator[Server]:
    """A server for the block; its address is ``server.url``."""
    server = Server(replies)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    try:
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        yield server
    finally:
        listener.close()
        for task in server.tasks:
            if task is not None:
                task.cancel()
                await task
