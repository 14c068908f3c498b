"""The model's stream as it was recorded: every chunk with its time and address, whatever the format.

Formats 0 and 1 log each chunk as an event (runs of them packed into one row); formats 2 to 4 keep the stream inside
the event that settled it (dsh-formats §6). Both give the same :class:`TimedChunk`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from turnlog.events import AssistantChunk, Opaque, StreamChunk
from turnlog.events.lenient import Mismatch, convert, parse
from turnlog.events.lossless import decode_hook, freeze
from turnlog.log import AnyEvent
from turnlog.log.rows import PackedRun, delta_maker

KINDS: Final = {
    "text-chunks": "text-delta",
    "reasoning-chunks": "reasoning-delta",
    "tool-call-chunks": "tool-call-delta",
}
"""What kind of chunk a packed run or stream record holds."""

STREAMED: Final = frozenset({"assistant/message", "assistant/attempt"})
"""The event types that may hold a stream."""


class TimedChunk(NamedTuple):
    """One chunk and when it came."""

    time: int
    """Epoch ms; may step back with the writer's clock."""
    chunk: StreamChunk
    seq: int
    """Of the event that holds it."""
    k: int | None = None
    """Its place inside an embedded stream, from 0; None where the chunk is an event of its own."""

    @property
    def address(self) -> str:
        """``@SEQ``, or ``@SEQ/k`` inside an embedded stream."""
        return f"@{self.seq}" if self.k is None else f"@{self.seq}/{self.k}"


class EmbeddedRun(NamedTuple):
    """Chunks of one kind inside an event, one record of its stream."""

    kind: str
    number: int
    time: int
    """When the first of them came, epoch ms."""


class _Record(Struct, frozen=True, gc=False):
    type: str
    time: int = 0
    time0: int = 0
    index: int = 0
    dt: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    id: str = ""
    name: str | None = None
    chunk: StreamChunk | None = None


class _Streamed(Struct, frozen=True, gc=False):
    stream: tuple[_Record, ...] = ()


class _Kind(Struct, frozen=True, gc=False):
    type: str = ""


class _LightRecord(Struct, frozen=True, gc=False):
    type: str
    time: int = 0
    time0: int = 0
    dt: tuple[int, ...] = ()
    chunk: _Kind = _Kind()


class _LightStreamed(Struct, frozen=True, gc=False):
    stream: tuple[_LightRecord, ...] = ()


class _OfKind(Struct, frozen=True, gc=False):
    chunk: _Kind


class _OfChunk(Struct, frozen=True, gc=False):
    chunk: StreamChunk


_streamed = msgspec.json.Decoder(_Streamed, dec_hook=decode_hook).decode
_light = msgspec.json.Decoder(_LightStreamed).decode
_of_kind = msgspec.json.Decoder(_OfKind).decode


def chunk_kind(event: AnyEvent) -> str:
    """The kind of an ``assistant/chunk`` event's chunk, decoding no more than that."""
    try:
        return _of_kind(event.raw).chunk.type
    except (msgspec.MsgspecError, UnicodeError):
        data = event.data
        return chunk_type(data.chunk) if isinstance(data, AssistantChunk) else "unreadable"


def chunk_type(chunk: StreamChunk) -> str:
    """The tag of a chunk: ``text-delta``, ``finish``, …"""
    return chunk.kind if isinstance(chunk, Opaque) else str(chunk.__struct_config__.tag)


def chunks_of(row: AnyEvent | PackedRun) -> Iterator[TimedChunk]:
    """The chunks that a row of a log of format 0 or 1 holds."""
    if isinstance(row, PackedRun):
        yield from _run_chunks(row)
        return
    data = row.data
    if isinstance(data, AssistantChunk):
        yield TimedChunk(row.time, data.chunk, row.seq)


def embedded(event: AnyEvent) -> tuple[TimedChunk, ...]:
    """The chunks of the stream inside an event of formats 2 to 4; none for any other event."""
    if event.type not in STREAMED:
        return ()
    raw = event.raw
    try:
        records: Iterable[_Record] = _streamed(raw).stream
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        records = _slow_records(raw)
    found = (timed for record in records for timed in _record_chunks(record))
    return tuple(TimedChunk(time, chunk, event.seq, k) for k, (time, chunk) in enumerate(found))


def embedded_runs(event: AnyEvent) -> list[EmbeddedRun]:
    """The chunks inside an event, run by run and in order, without their words."""
    if event.type not in STREAMED:
        return []
    try:
        records = _light(event.raw).stream
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return [EmbeddedRun(chunk_type(timed.chunk), 1, timed.time) for timed in embedded(event)]
    return [EmbeddedRun(KINDS[one.type], len(one.dt) + 1, one.time0) if one.type in KINDS
            else EmbeddedRun(one.chunk.type or one.type, 1, one.time) for one in records]  # fmt: skip


def _run_chunks(run: PackedRun) -> Iterator[TimedChunk]:
    data = run.unpack()
    times = accumulate(data.dt, initial=run.time0)
    make = delta_maker(run.type, data.index, data.id or "", data.name)
    for seq, (time, text) in enumerate(zip(times, data.members(), strict=True), run.seq0):
        yield TimedChunk(time, make(text), seq)


def _record_chunks(record: _Record) -> Iterator[tuple[int, StreamChunk]]:
    if record.type not in KINDS:
        chunk = record.chunk if record.chunk is not None else Opaque(record.type, {"type": record.type})
        yield record.time, chunk
        return
    time = record.time0
    make = delta_maker(record.type, record.index, record.id, record.name)
    for place, text in enumerate(record.args or record.texts):
        time += record.dt[place - 1] if 0 < place <= len(record.dt) else 0
        yield time, make(text)


def _slow_records(raw: bytes) -> Iterator[_Record]:
    """Records of a stream that the fast decoder refuses: unknown chunks, broken pairs, foreign shapes."""
    try:
        value = parse(raw)
    except ValueError:
        return
    stream = value.get("stream") if isinstance(value, dict) else None
    time = 0
    for item in stream if isinstance(stream, list) else ():
        if not isinstance(item, dict):
            continue
        record = _slow_record(item, time)
        time = record.time or record.time0
        yield record


def _slow_record(item: dict[str, Any], time: int) -> _Record:
    rest = {key: member for key, member in item.items() if key != "chunk"}
    try:
        record: _Record = convert(_Record, rest)
        if "chunk" not in item:
            return record
        return msgspec.structs.replace(record, chunk=convert(_OfChunk, {"chunk": item["chunk"]}).chunk)
    except Mismatch:
        own = item.get("time", item.get("time0"))
        opaque = Opaque(str(item.get("type")), freeze(item))  # type: ignore[arg-type]
        return _Record(type="chunk", time=own if type(own) is int else time, chunk=opaque)
