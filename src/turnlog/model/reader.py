"""`Reader`: what turns one provider answer into chunks, one per attempt. `Reading`: it, fed with bytes."""

from __future__ import annotations

import json
import re
from typing import Final, Protocol

from msgspec.structs import replace

from turnlog.events import Failure, Finish, FinishError, StreamChunk

from . import failures
from .errors import ProviderFailure
from .sse import MAX_EVENT, EventSplitter, EventTooLong, ServerEvent

_SHOWN: Final = 16 * 1024
"""Bytes of something unreadable that an error quotes: more than is kept, so that no key is cut before it is found."""

_LONGEST_CODE: Final = 60


class Reader(Protocol):
    """Reads one answer. Every method raises :class:`ProviderFailure` where the provider failed."""

    done: bool
    """Whether the stream said that it is over; nothing after that is read."""

    @property
    def finished(self) -> bool:
        """Whether the provider said how the answer ends, be the stream over or not."""
        ...

    def read(self, event: ServerEvent) -> list[StreamChunk]:
        """The chunks that one event of the stream gives."""
        ...

    def read_whole(self, body: bytes) -> list[StreamChunk]:
        """The chunks of an answer that was not streamed, without the end."""
        ...

    def end(self) -> list[StreamChunk]:
        """The end of the answer: ends of blocks, usage, finish."""
        ...

    def partial(self) -> list[StreamChunk]:
        """What is known of the cost of an answer that failed."""
        ...


def parse(data: bytes) -> object:
    """Any JSON that Python can read, broken surrogate pairs included. Raises ProviderFailure for what is none."""
    try:
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        raise malformed(f"bytes that are not UTF-8 ({error.reason} at byte {error.start})", data) from None
    except (ValueError, RecursionError) as error:
        raise malformed(f"text that is not JSON ({error})", data) from None


def malformed(what: str, data: bytes) -> ProviderFailure:
    """The failure of an answer that cannot be read; quotes the begin of it."""
    quoted = data[:_SHOWN].decode(errors="replace")
    return ProviderFailure(Failure(f"the provider sent {what}: {quoted!r}", "MALFORMED_RESPONSE"))


def unknown_finish(reason: str) -> ProviderFailure:
    """The failure of an answer that ended for a reason we have no word for: it becomes the code."""
    code = re.sub(r"[^A-Z0-9]+", "_", reason.upper())[:_LONGEST_CODE].strip("_") or "UNKNOWN"
    return ProviderFailure(Failure(f"the provider ended the answer: {reason}", code))


def closed(what: str) -> ProviderFailure:
    """The failure of an answer that stopped before it was whole."""
    return ProviderFailure(Failure(what, "STREAM_CLOSED"))


class Reading:
    """An answer while its bytes come: from what the network gives to chunks, ending with exactly one ``Finish``.

    Whatever goes wrong becomes that ``Finish``; chunks that were read before it are given out first.
    """

    __slots__ = ("_reader", "_redact", "_request_id", "_splitter", "over")

    def __init__(
        self,
        reader: Reader,
        redact: failures.Redact = str,
        request_id: str | None = None,
        limit: int = MAX_EVENT,
    ) -> None:
        self._reader = reader
        self._request_id = request_id
        self._redact = redact
        self._splitter = EventSplitter(limit)
        self.over = False
        """Whether the ``Finish`` was given out; nothing follows."""

    def feed(self, data: bytes) -> list[StreamChunk]:
        """The chunks that more of a stream gives."""
        chunks: list[StreamChunk] = []
        try:
            for event in self._splitter.feed(data):
                chunks += self._reader.read(event)
                if self._reader.done:
                    return chunks + self.end()
        except ProviderFailure as error:
            return chunks + self.fail(error.failure)
        except EventTooLong as error:
            return chunks + self.fail(Failure(str(error), "MALFORMED_RESPONSE"))
        return chunks

    def feed_whole(self, body: bytes) -> list[StreamChunk]:
        """All chunks of an answer that was not streamed."""
        try:
            return self._reader.read_whole(body) + self.end()
        except ProviderFailure as error:
            return self.fail(error.failure)

    def end(self) -> list[StreamChunk]:
        """The chunks that the end of the stream gives."""
        if self.over:
            return []
        try:
            chunks = self._reader.end()
        except ProviderFailure as error:
            return self.fail(error.failure)
        self.over = True
        return chunks

    def fail(self, failure: Failure) -> list[StreamChunk]:
        """What ends an answer that something outside it stopped."""
        if self.over:
            return []
        self.over = True
        words = failures.tidy(self._redact, failure.message)
        said = replace(failure, message=words, request_id=failure.request_id or self._request_id)
        return [*self._reader.partial(), Finish(FinishError(said))]

    def stop(self, failure: Failure) -> list[StreamChunk]:
        """What ends an answer whose connection broke: its own end, where it had come to one."""
        return self.end() if self._reader.finished else self.fail(failure)
