"""Events without what differs from run to run: times, seqs and ids. What is left tells whether two runs said the same.

Ids are numbered by first appearance, seqs become places among the normal events, times and durations are left out.
Deltas of one block in a row are one event, and a stream inside a message (formats 2 to 4) stands before it as if it had
been logged chunk by chunk: two logs of the same run compare equal whatever their format, and however a provider cut its
stream. Packed runs are joined without being unpacked event by event.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec

from turnlog.events import AssistantChunk, ReasoningDelta, StreamChunk, TextDelta, ToolCallDelta
from turnlog.events.lenient import parse
from turnlog.events.lossless import plain
from turnlog.log import AnyEvent, Replace, Session
from turnlog.log.rows import PackedRun

from .rows import Slot, slots
from .streams import KINDS, STREAMED, embedded

CHUNK: Final = "assistant/chunk"
_NOT_IDS: Final = frozenset({"handlerId", "attachmentId"})
"""Members that name a thing by what it is: a listener, the bytes of a file."""
_DELTAS: Final = (TextDelta, ReasoningDelta, ToolCallDelta)
_TIMES: Final = frozenset({"time", "timestamp", "time0", "dt"})
_encode: Final = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True)
class NormalEvent:
    """What one event says, or what the deltas of one block in a row say together."""

    type: str
    body: bytes
    """Its data as JSON with sorted members, ids numbered, times and durations left out."""
    replaces: tuple[int, int] | None
    """The places (among the normal events) of the first and the last event that it takes the place of."""
    sources: tuple[int, ...] | None
    """The places of what it cites, each once; None is unknown."""
    seq: int = field(compare=False)
    """Of its first event in the log; not compared, nor are the following."""
    last: int = field(compare=False)
    """Of its last event."""
    k: int | None = field(compare=False, default=None)
    """Place of its first chunk inside the stream of the event *seq*."""

    @property
    def address(self) -> str:
        """``@SEQ``, or ``@SEQ/k`` inside an embedded stream."""
        return f"@{self.seq}" if self.k is None else f"@{self.seq}/{self.k}"

    @cached_property
    def data(self) -> Any:
        """The body as plain JSON values."""
        return parse(self.body)


@dataclass(frozen=True)
class Divergence:
    """The first place where two sequences of events are not the same."""

    index: int
    """Place among the normal events of both."""
    left: NormalEvent | None
    """None: the left one is over here."""
    right: NormalEvent | None
    path: str
    """The first member that differs, ``$.message.content[0].text``; ``type``, ``sources`` or ``surfaceOp`` for what
    stands beside the data; empty where one of them is over."""
    left_value: Any = None
    """What stands there, normalised; None also where nothing does."""
    right_value: Any = None

    def __str__(self) -> str:
        if self.left is None or self.right is None:
            one, side = (self.left, "right") if self.right is None else (self.right, "left")
            assert one is not None
            return f"event {self.index}: {one.type} ({one.address}), where the {side} one is over"
        where = f"event {self.index}, {self.left.address} and {self.right.address}"
        if self.path == "type":
            return f"{where}: {self.left.type} and {self.right.type}"
        told = f"{_short(self.left_value)} and {_short(self.right_value)}"
        return f"{where}, {self.left.type} {self.path}: {told}"


def normal_events(session: Session, *, first: int = 0, stop: int | None = None) -> list[NormalEvent]:
    """The events of a log (from *first* up to *stop*; seqs), normalised. Closers are no part of it."""
    reader = _Reader()
    for slot in slots(session, first, stop):
        reader.read(slot)
    return reader.finish()


def first_divergence(left: Sequence[NormalEvent], right: Sequence[NormalEvent]) -> Divergence | None:
    """Where two logs part, event by event; None when they say the same."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return Divergence(index, one, other, *difference(one, other))
    if len(left) == len(right):
        return None
    index = min(len(left), len(right))
    if index == len(left):
        return Divergence(index, None, right[index], "")
    return Divergence(index, left[index], None, "")


def difference(left: NormalEvent, right: NormalEvent) -> tuple[str, Any, Any]:
    """The first member in which two events differ, and what stands there in both."""
    if left.type != right.type:
        return "type", left.type, right.type
    if left.body != right.body:
        return first_difference(left.data, right.data) or ("$", left.data, right.data)
    if left.replaces != right.replaces:
        return "surfaceOp", left.replaces, right.replaces
    return "sources", left.sources, right.sources


def first_difference(left: Any, right: Any, path: str = "$") -> tuple[str, Any, Any] | None:
    """The path of the first member in which two JSON values differ, and both values; None when they are equal."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in (*left, *(key for key in right if key not in left)):
            if key not in left or key not in right:
                return f"{path}.{key}", left.get(key), right.get(key)
            if found := first_difference(left[key], right[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(left, list) and isinstance(right, list):
        for place, (one, other) in enumerate(zip(left, right, strict=False)):
            if found := first_difference(one, other, f"{path}[{place}]"):
                return found
        shared = min(len(left), len(right))
        if len(left) == len(right):
            return None
        return f"{path}[{shared}]", next(iter(left[shared:]), None), next(iter(right[shared:]), None)
    same = left == right and isinstance(left, bool) == isinstance(right, bool)
    return None if same else (path, left, right)


class _Ids:
    """Numbers ids by first appearance.

    Providers use the id of a call again, some in every step: within its step an id means one call; elsewhere, the
    latest that was brought up.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._calls: dict[tuple[object, object, str], str] = {}
        self._latest: dict[str, str] = {}

    def call(self, turn: object, step: object, id: str, *, brings: bool) -> str:
        """The call *id* as an event of some step names it; *brings* says that it asks for it."""
        place = turn, step, id
        known = self._calls.get(place) or (None if brings else self._latest.get(id))
        if known is None:
            known = self._calls[place] = self._latest[id] = f"call-{len(self._calls) + 1}"
        return known

    def other(self, id: str) -> str:
        """Whatever else has an id."""
        if id not in self._known:
            self._known[id] = f"id-{len(self._known) + 1}"
        return self._known[id]


@dataclass
class _Deltas:
    """Deltas of one block in a row."""

    key: tuple[object, ...]
    turn: int
    step: int
    texts: list[str]
    seq: int
    last: int
    k: int | None


class _Reader:
    def __init__(self) -> None:
        self._made: list[NormalEvent] = []
        self._starts: list[int] = []  # the seq of each of them
        self._ids = _Ids()
        self._at: tuple[object, object] = None, None  # turn and step of the event that is being normalised
        self._deltas: _Deltas | None = None

    def finish(self) -> list[NormalEvent]:
        """Everything that was read."""
        self._close()
        return self._made

    def read(self, slot: Slot) -> None:
        """Take in one row."""
        row = slot.row
        if isinstance(row, PackedRun):
            run = row.unpack()
            key = (KINDS[row.type], run.index, run.id, run.name)
            self._join(key, run.turn, run.step, run.members(), slot.seq, slot.seq + slot.size - 1, None)
        elif row.type == CHUNK and isinstance(row.data, AssistantChunk):
            self._chunk(row.data.turn, row.data.step, row.data.chunk, row.seq, None)
        else:
            self._close()
            self._event(row)

    # -- streams ------------------------------------------------------------------------------------------------

    def _chunk(self, turn: int, step: int, chunk: StreamChunk, seq: int, k: int | None) -> None:
        match chunk:
            case TextDelta(index=index, text=text):
                self._join(("text-delta", index, None, None), turn, step, (text,), seq, seq, k)
            case ReasoningDelta(index=index, text=text):
                self._join(("reasoning-delta", index, None, None), turn, step, (text,), seq, seq, k)
            case ToolCallDelta(index=index, id=id, arguments_delta=text, name=name):
                self._join(("tool-call-delta", index, id, name), turn, step, (text,), seq, seq, k)
            case _:
                self._close()
                data = {"turn": turn, "step": step, "chunk": plain(chunk)}
                self._add(CHUNK, self._normal(data), None, None, seq, seq, k)

    def _join(
        self, key: tuple[Any, ...], turn: int, step: int, texts: Iterable[str], seq: int, last: int, k: int | None
    ) -> None:
        open = self._deltas
        if open is not None and (open.turn, open.step) == (turn, step) and _same_block(open.key, key):
            open.texts.extend(texts)
            open.last = last
            return
        self._close()
        self._deltas = _Deltas(key, turn, step, list(texts), seq, last, k)

    def _close(self) -> None:
        """The deltas in a row are over."""
        open, self._deltas = self._deltas, None
        if open is None:
            return
        kind, index, id, name = open.key
        said = "".join(open.texts)
        chunk: dict[str, Any] = {"type": kind, "index": index}
        if kind == "tool-call-delta":
            chunk["argumentsDelta"] = said
            chunk["id"] = self._ids.call(open.turn, open.step, id, brings=True) if isinstance(id, str) and id else id
            if name is not None:
                chunk["name"] = name
        else:
            chunk["text"] = said
        body = {"turn": open.turn, "step": open.step, "chunk": chunk}
        self._add(CHUNK, body, None, None, open.seq, open.last, open.k)

    # -- events -------------------------------------------------------------------------------------------------

    def _event(self, event: AnyEvent) -> None:
        inside = self._stream(event)
        if event.type == "assistant/attempt" and inside:
            return  # all it says is its stream
        data = _data(event)
        if inside and isinstance(data, dict):
            data.pop("stream", None)
        operation = event.surface_op
        replaces = (
            (self._place(operation.start), self._place(operation.end)) if isinstance(operation, Replace) else None
        )
        cited = event.sources
        sources = None if cited is None else self._places(cited)
        if inside:
            sources = tuple(dict.fromkeys((*inside, *(sources or ()))))
        self._add(event.type, self._normal(data), replaces, sources, event.seq, event.seq, None)

    def _stream(self, event: AnyEvent) -> range:
        """The places of the chunks that the event holds, which come before it."""
        if event.type not in STREAMED:
            return range(0)
        first = len(self._made)
        turn, step = _step_of(event)
        for timed in embedded(event):
            self._chunk(turn, step, timed.chunk, event.seq, timed.k)
        self._close()
        return range(first, len(self._made))

    def _add(
        self,
        type: str,
        body: Any,
        replaces: tuple[int, int] | None,
        sources: tuple[int, ...] | None,
        seq: int,
        last: int,
        k: int | None,
    ) -> None:
        self._made.append(NormalEvent(type, _bytes(body), replaces, sources, seq, last, k))
        self._starts.append(seq)

    def _place(self, seq: int) -> int:
        """The place of the normal event that holds *seq*; -1 for one that was not read."""
        return bisect_right(self._starts, seq) - 1

    def _places(self, seqs: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(map(self._place, seqs)))

    def _normal(self, data: Any) -> Any:
        """Data with ids numbered, seqs as places, without times."""
        self._at = (data.get("turn"), data.get("step")) if isinstance(data, dict) else (None, None)
        return self._value(data)

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            brings = value.get("type") in ("tool-call", "tool-call-delta")
            return {key: self._member(key, member, brings) for key, member in value.items() if not _timely(key, member)}
        if isinstance(value, list):
            return [self._value(member) for member in value]
        return value

    def _member(self, key: str, value: Any, brings: bool) -> Any:
        if isinstance(value, str):
            if not value or not (key == "id" or key.endswith("Id")) or key in _NOT_IDS:
                return value
            brings = brings and key == "id"
            if brings or key.lower().endswith("callid"):
                return self._ids.call(*self._at, value, brings=brings)
            return self._ids.other(value)
        if key.endswith(("Seq", "Seqs")):
            return self._seqs(value)
        return self._value(value) if isinstance(value, dict | list) else value

    def _seqs(self, value: Any) -> Any:
        if type(value) is int:
            return self._place(value)
        return [self._seqs(one) for one in value] if isinstance(value, list) else value


def _timely(key: str, value: Any) -> bool:
    """Whether a member is a moment or a duration."""
    return (key in _TIMES or key.endswith(("At", "Ms"))) and isinstance(value, int | float | list)


def _same_block(open: tuple[Any, ...], key: tuple[Any, ...]) -> bool:
    """Whether deltas go on with the block of those before; only the first has to say the name."""
    return open[:3] == key[:3] and (key[3] is None or key[3] == open[3])


def _step_of(event: AnyEvent) -> tuple[int, int]:
    data = event.data
    turn, step = getattr(data, "turn", None), getattr(data, "step", None)
    if turn is None:
        value = getattr(data, "value", None)
        found = value if isinstance(value, Mapping) else {}
        turn, step = found.get("turn"), found.get("step")
    return turn if isinstance(turn, int) else 0, step if isinstance(step, int) else 0


def _data(event: AnyEvent) -> Any:
    """The data as plain JSON in today's shape; the text itself where it is no JSON."""
    try:
        data = event._codec.canonical(event.type, event.raw, event._first_seq)
        if event.type == "tool/result" and data["message"]["role"] == "tool":  # as format 4 spells it
            data["message"] = parse(event.message_json)
        return data
    except (ValueError, TypeError, KeyError, RecursionError):
        return event.raw.decode(errors="backslashreplace")


def _bytes(value: Any) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:  # halves of broken pairs
        return json.dumps(value, sort_keys=True).encode()


def _short(value: Any, length: int = 60) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= length else f"{text[: length - 1]}…"
