"""`HttpModel`: a dialect over HTTP. One client for all its requests; httpx is imported with the first of them.

Two watchdogs. *idle*: nothing at all came for so long; every byte counts, comments and keep-alives too. It is the
client's read timeout, armed once per network read. *total*: the whole answer takes too long, however lively; looked at
after each read, so it is noticed at most one idle time late. Both end the answer with ``TIMEOUT``.

Cancelling, or closing the generator early, closes the connection. Redirects are not followed: they would carry the key
to another host.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Final, cast

import anyio

from turnlog.events import Failure, Finish, FinishError, StreamChunk

from . import failures
from .dialect import Dialect
from .errors import ProviderFailure
from .protocol import ModelInfo
from .reader import Reading
from .request import Request
from .secret import Secret
from .sse import MAX_EVENT
from .wire import Wire

if TYPE_CHECKING:
    import httpx

IDLE_SECONDS: Final = 300.0
"""dsh's idle limit: providers that think for minutes send comments meanwhile."""
TOTAL_SECONDS: Final = 3600.0
"""No answer is worth waiting for longer."""
CONNECT_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 0.25
"""What is spent on the last bytes of an answer that is over: less than a new connection costs."""
MAX_KEPT: Final = 100
"""Idle connections that are kept: as many agents may share a model."""
MAX_ERROR_BODY: Final = 64 * 1024
"""Bytes of an error body that are read."""

_HEADERS: Final[Mapping[str, str]] = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream, application/json",
    "Accept-Encoding": "identity",  # compressed streams come late
    "User-Agent": "turnlog",
}


class HttpModel:
    """A provider's model behind HTTP. Its requests may run at the same time."""

    def __init__(
        self,
        dialect: Dialect,
        info: ModelInfo,
        *,
        base_url: str,
        key: Secret | None,
        key_variable: str | None = None,
        client: httpx.AsyncClient | None = None,
        idle: float = IDLE_SECONDS,
        total: float = TOTAL_SECONDS,
    ) -> None:
        """*key_variable* names the environment variable to set when *key* is None; None: no key is needed.

        A *client* that is passed in stays the caller's: :meth:`aclose` leaves it open.
        """
        self._dialect = dialect
        self._info = info
        self._url = base_url.rstrip("/") + dialect.path
        self._key = key
        self._key_variable = key_variable
        self._client = client
        self._owned: httpx.AsyncClient | None = None
        self._opening = threading.Lock()
        self._idle = idle
        self._total = total
        self._wire = Wire(info.provider, dialect.fixups, dialect.encode)
        self._redact = (key or Secret("")).redact

    @property
    def info(self) -> ModelInfo:
        """Its route."""
        return self._info

    @property
    def fixups(self) -> tuple[str, ...]:
        """Names and versions of what differs between log and wire, in the order in which it is applied."""
        return tuple(map(str, self._dialect.fixups))

    def body(self, request: Request) -> bytes:
        """The body that would be sent. Raises nothing that :meth:`stream` would not report as a failure."""
        messages = self._wire.messages(request.session_id, request.messages)
        return self._dialect.body(request, messages, stream=self._info.streams)

    async def stream(self, request: Request) -> AsyncGenerator[StreamChunk, None]:
        """The answer. Cancelling, or closing the generator, closes the connection; what was yielded stays valid."""
        if self._client is None and self._owned is None:
            await anyio.to_thread.run_sync(self._open)  # 55 ms of imports, 35 ms of TLS: not on the loop
        import httpx

        reading: Reading | None = None
        try:
            async with self._post(request) as response:
                reading = self._reading(response)
                deadline = time.monotonic() + self._total
                async with aclosing(_reads(response)) as reads:
                    if not response.is_success:
                        body = await _read(reads, MAX_ERROR_BODY, deadline)
                        raise ProviderFailure(_refusal(response, body, self._redact))
                    _check_kind(response)
                    if not _is_event_stream(response, self._info.streams):
                        chunks = reading.feed_whole(await _read(reads, MAX_EVENT, deadline))
                    else:
                        async for data in reads:
                            chunks = reading.feed(data)
                            if reading.over:
                                break
                            for chunk in chunks:
                                yield chunk
                            _check(deadline)
                        else:
                            chunks = reading.end()
                    for chunk in chunks[:-1]:
                        yield chunk
                    await _drain(reads)
                yield chunks[-1]
                return
        except ProviderFailure as error:
            failure = error.failure
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failure = self._broken(error)
        for chunk in [Finish(FinishError(failure))] if reading is None else reading.stop(failure):
            yield chunk

    async def aclose(self) -> None:
        """Close the connections. Idempotent; a client that was passed in is its owner's to close."""
        client, self._owned = self._owned, None
        if client is not None:
            await client.aclose()

    def __repr__(self) -> str:
        return f"<{self._info.provider}/{self._info.model} over HTTP>"

    def _post(self, request: Request) -> AbstractAsyncContextManager[httpx.Response]:
        key = self._key
        if key is None and self._key_variable is not None:
            said = f"no API key for {self._info.provider}: set {self._key_variable}, or pass api_key"
            raise ProviderFailure(Failure(said, "MISSING_CREDENTIAL"))
        if key is not None and not key.is_sendable:
            said = f"the API key for {self._info.provider} holds characters that no HTTP header can carry"
            raise ProviderFailure(Failure(said, "INVALID_CREDENTIAL"))
        body = self.body(request)
        headers = {**_HEADERS, **self._dialect.headers(key)}
        return self._open().stream("POST", self._url, content=body, headers=headers, timeout=self._timeout())

    def _reading(self, response: httpx.Response) -> Reading:
        headers = response.headers
        return Reading(self._dialect.reader(headers, self._redact), self._redact, failures.request_id(headers))

    def _open(self) -> httpx.AsyncClient:
        if self._client is not None:
            return self._client
        with self._opening:
            if self._owned is None:
                import httpx

                limits = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_KEPT)
                self._owned = httpx.AsyncClient(limits=limits)
            return self._owned

    def _timeout(self) -> httpx.Timeout:
        import httpx

        idle = min(self._idle, self._total)
        return httpx.Timeout(idle, connect=min(CONNECT_SECONDS, self._total))

    def _broken(self, error: httpx.HTTPError | httpx.InvalidURL) -> Failure:
        import httpx

        if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
            return Failure(f"the provider was silent for {min(self._idle, self._total):g} s", "TIMEOUT")
        if isinstance(error, httpx.DecodingError):
            return Failure("the provider's answer is compressed in a way that cannot be undone", "MALFORMED_RESPONSE")
        words = self._redact(str(error)) or "no reason given"
        if isinstance(error, httpx.RemoteProtocolError):
            return Failure(f"the connection ended in the middle of the answer: {words}", "STREAM_CLOSED")
        return Failure(f"{type(error).__name__}: {words}", "TRANSPORT")


def _reads(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())  # it is one, and a wrapper costs per read


def _check_kind(response: httpx.Response) -> None:
    if "text/html" in response.headers.get("content-type", ""):
        said = "the server answered with a web page, not with a model's answer: is the base URL right?"
        raise ProviderFailure(Failure(said, "MALFORMED_RESPONSE", response.status_code))


def _is_event_stream(response: httpx.Response, asked: bool) -> bool:
    """What the answer says it is; servers ignore the wish to stream, and the wish not to."""
    kind = response.headers.get("content-type", "")
    if "event-stream" in kind:
        return True
    return asked and "json" not in kind


def _refusal(response: httpx.Response, body: bytes, redact: failures.Redact) -> Failure:
    return failures.of_response(response.status_code, response.headers, body, redact)


async def _read(reads: AsyncIterator[bytes], limit: int, deadline: float) -> bytes:
    """The body, as far as *limit*."""
    pieces: list[bytes] = []
    left = limit
    async for data in reads:
        pieces.append(data[:left])
        left -= len(pieces[-1])
        if not left:
            break
        _check(deadline)
    return b"".join(pieces)


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise ProviderFailure(Failure("the answer took longer than the total limit", "TIMEOUT"))


async def _drain(reads: AsyncIterator[bytes]) -> None:
    """Read to the end of the body, which is near, so that the connection can be used again."""
    import httpx

    with anyio.move_on_after(DRAIN_SECONDS):
        try:
            async for _ in reads:
                pass
        except httpx.HTTPError:
            pass  # the answer is whole; the connection is not used again
