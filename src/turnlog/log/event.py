"""`SessionEvent`: one committed event. At rest it is bytes; the typed payload is a view of them.

``event.data`` decodes the stored JSON when it is first looked at. Nothing reachable from an event can be changed.
Each vocabulary and format has its own subclass, which knows the event types it may meet and how to decode them;
code that uses events only ever names ``SessionEvent``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, Literal, Self, TypeAlias, TypeGuard, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, StructMeta, UnsetType, field
from msgspec.structs import force_setattr

from turnlog.events import Codec, Message, Payload, UndecodablePayload, Vocabulary, message_of
from turnlog.events.codec import ALWAYS_SHOWN, PREFIX, START, not_empty
from turnlog.events.lossless import MAX_SAFE, AnyInstance, dump

D_co = TypeVar("D_co", bound=Payload, covariant=True)
P = TypeVar("P", bound=Payload)

_Seq: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAFE)]
_Time: TypeAlias = Annotated[int, Meta(ge=-MAX_SAFE, le=MAX_SAFE)]

SURFACE_TYPES: frozenset[str] = frozenset({"user/message", "assistant/message", "tool/result"})
"""Format 0's surface types, the set that Turnlog writes."""


class Replace(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A surface operation: this event takes the place of the nodes from *start* to *end* (seqs, inclusive)."""

    op: Literal["replace"]
    start: _Seq
    end: _Seq


class ReplaceSeqs(Replace, frozen=True, gc=False, forbid_unknown_fields=True):
    """The same as formats 3 and later spell it."""

    start: _Seq = field(name="startSeq")
    end: _Seq = field(name="endSeq")


if TYPE_CHECKING:
    _OnlyTrue: TypeAlias = bool | UnsetType
    _Cached: TypeAlias = Payload | UnsetType
    _Stored: TypeAlias = Raw | bytes
    _StoredSources: TypeAlias = Raw | tuple[int | tuple[int, int], ...] | UnsetType
else:

    class _OnlyTrue(metaclass=AnyInstance):
        """Decoded by the hook, which lets nothing but true pass."""

    class _Cached:
        """Never on the wire: the hook refuses it."""

    _Stored = Raw
    _StoredSources = Raw


class SessionEvent(Struct, Generic[D_co], frozen=True, gc=False, forbid_unknown_fields=True):
    """One committed event of a session: ``type``, ``seq``, ``time`` and ``data``."""

    type: str
    """The event type, for example ``tool/call``."""
    seq: _Seq
    """Its index in the log; the only order there is."""
    time: _Time
    """Wall clock in epoch milliseconds; may step back, never used for order."""
    _raw: _Stored = field(name="data")
    surface_op: Literal["append"] | Replace | UnsetType = field(name="surfaceOp", default=UNSET)
    """How it joins the surface: ``"append"``, a :class:`Replace`, or UNSET for log-only events."""
    _sources: _StoredSources = field(name="sourceEventSeqs", default=UNSET)
    _ignorable: _OnlyTrue = field(name="ignorable", default=UNSET)
    _data: _Cached = field(name="(decoded)", default=UNSET)

    _codec: ClassVar[Codec] = Vocabulary.core.codec
    """What decodes events of this class."""

    @property
    def data(self) -> D_co:
        """The typed payload, decoded from the stored JSON when first looked at."""
        data = self._data
        if data is UNSET:
            data = self._codec.payload(self.type, self._raw, self._first_seq)
            force_setattr(self, "_data", data)
        return data  # type: ignore[return-value]

    @property
    def _first_seq(self) -> int:
        """What a message without id is named for: a rewritten result keeps the id of the one it replaces."""
        op = self.surface_op
        return op.start if isinstance(op, Replace) and self.type == "tool/result" else self.seq

    def _rewritten(self, raw: bytes | None = None) -> Any:
        """Its data, or that of a result *raw* in its place, as JSON in today's shape and with its own message id."""
        return self._codec.canonical(self.type, self._raw if raw is None else raw, self._first_seq)

    @property
    def raw(self) -> bytes:
        """The stored JSON of ``data``, byte for byte."""
        return bytes(self._raw)

    @property
    def sources(self) -> tuple[int, ...] | None:
        """The seqs it rests on. None is unknown, ``()`` is known to be none; ranges are expanded."""
        stored = self._sources
        if stored is UNSET:
            return None
        if isinstance(stored, Raw):
            return read_sources(stored)
        return expand_ranges(stored)

    @property
    def ignorable(self) -> bool:
        """Whether readers that do not know the type may skip it."""
        return self._ignorable is True

    @property
    def message(self) -> Message | None:
        """The model-visible message of a surface event; None for log-only events and empty answers."""
        if self.surface_op is UNSET:
            return None
        if self._data is not UNSET and not isinstance(self._data, UndecodablePayload):
            return message_of(self._data)
        return self._codec.message(self.type, self._raw, self._first_seq)

    @property
    def message_json(self) -> bytes:
        """The same as JSON in the canonical shape; the stored bytes where they have it."""
        return self._codec.message_json(self.type, self._raw, self._first_seq)

    def line(self) -> bytes:
        """The event as a format-0 log line, without the newline."""
        head = b'{"type":%b,"seq":%d,"time":%d,"data":%b' % (dump(self.type), self.seq, self.time, self.raw)
        if self.surface_op is UNSET and self._sources is UNSET and self._ignorable is UNSET:
            return head + b"}"
        parts = [head]
        if self._sources is not UNSET:
            stored = self._sources
            parts.append(b',"sourceEventSeqs":' + (bytes(stored) if isinstance(stored, Raw) else dump(stored)))
        if isinstance(self.surface_op, Replace):
            span = (self.surface_op.start, self.surface_op.end)
            parts.append(b',"surfaceOp":{"op":"replace","start":%d,"end":%d}' % span)
        elif self.surface_op is not UNSET:
            parts.append(b',"surfaceOp":' + dump(self.surface_op))
        if self._ignorable is not UNSET:  # an unknown event may say anything else, which counts as nothing
            parts.append(b',"ignorable":' + dump(self._ignorable))
        return b"".join([*parts, b"}"])

    def __deepcopy__(self, _memo: object) -> Self:
        """Itself: nothing about it can change."""
        return self

    def __eq__(self, other: object) -> bool:
        """Equal when both say the same at the same place, whether or not anybody has looked at their data yet."""
        return self._said() == other._said() if isinstance(other, SessionEvent) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.type, self.seq, self.time))

    def _said(self) -> tuple[object, ...]:
        return self.type, self.seq, self.time, self.raw, self.surface_op, self.sources, self.ignorable

    def __repr__(self) -> str:
        return f"<{self.type} @{self.seq}>"


AnyEvent: TypeAlias = SessionEvent[Payload]
EventClass: TypeAlias = type[AnyEvent]


def is_event(event: AnyEvent, kind: type[P]) -> TypeGuard[SessionEvent[P]]:
    """Whether *event* says a *kind*; narrows ``event.data``."""
    return isinstance(event.data, kind)


def with_messages(events: list[AnyEvent]) -> Sequence[AnyEvent | None]:
    """Surface events, with None in the place of those that have no message.

    Decodes an event only where its stored bytes do not tell. They are searched where they lie, without a copy.
    """
    open = [event for event in events if event.type not in ALWAYS_SHOWN]
    if all(map(not_empty, [event._raw for event in open], repeat(START), repeat(PREFIX))):
        return events
    untold = [event for event in open if event._data is not UNSET or not_empty(event._raw, START, PREFIX) is None]
    hidden = {event.seq for event in untold if event.message is None}
    return [None if event.seq in hidden else event for event in events] if hidden else events


Ranges = tuple[int | tuple[int, int], ...]
Number = int | float

_decode_ranges = msgspec.json.Decoder(Ranges).decode
_decode_numbers = msgspec.json.Decoder(tuple[Number | tuple[Number, Number], ...]).decode


def decode_ranges(stored: Raw) -> Ranges:
    """A stored source list as it stands, with its ranges. Raises ``msgspec.MsgspecError`` for anything else."""
    try:
        return _decode_ranges(stored)
    except msgspec.ValidationError:  # to JSON 60, 60.0 and 6E1 are one number
        found = _decode_numbers(stored)
        whole = [tuple(map(_whole, one)) if isinstance(one, tuple) else _whole(one) for one in found]
        return msgspec.convert(whole, Ranges)


def _whole(number: Number) -> Number:
    return int(number) if isinstance(number, float) and number.is_integer() else number


def read_sources(stored: Raw) -> tuple[int, ...] | None:
    """The seqs of a stored source list; None when it is no list of seqs (which strict readers refuse)."""
    try:
        return expand_ranges(decode_ranges(stored))
    except msgspec.MsgspecError:
        return None


def expand_ranges(stored: Iterable[int | tuple[int, int]]) -> tuple[int, ...]:
    """The seqs of a stored source list, in which ``[start, end]`` stands for a run."""
    if type(stored) is tuple and tuple not in map(type, stored):
        return stored
    seqs: list[int] = []
    for one in stored:
        if isinstance(one, tuple):
            seqs.extend(range(one[0], one[1] + 1))
        else:
            seqs.append(one)
    return tuple(seqs)


_ONLY_TRUE: Final[object] = _OnlyTrue  # the run-time marker; to a type checker it is a union


def decode_hook(kind: type, value: Any) -> Any:
    """msgspec's hook for the two fields that take less than JSON can say."""
    if kind is _ONLY_TRUE and value is True:
        return True
    raise ValueError(f"{value!r:.40} is not allowed here")


def event_class(codec: Codec, *, replace: type[Replace] = Replace, any_type: bool = False) -> type[AnyEvent]:
    """The event class of a codec: its decoder accepts exactly the codec's event types (or *any_type*)."""
    annotations = {
        "type": str if any_type else Literal[tuple(codec.kinds)],
        "surface_op": Literal["append"] | replace | UnsetType,
    }
    return _subclass(SessionEvent, annotations, _codec=codec)


def line_class(kind: type[AnyEvent], runs: frozenset[str]) -> type[AnyEvent]:
    """A subclass of *kind* that decodes any line of a log, packed rows of the types *runs* as well.

    A row has ``_seq0`` and ``_time0`` where an event has ``seq`` and ``time``; what is absent is UNSET.
    """
    names = {"seq": "seq", "time": "time", "_seq0": "seq0", "_time0": "time0"}
    annotations: dict[str, object] = dict.fromkeys(names, _Time | UnsetType)
    annotations["type"] = Literal[(*kind._codec.kinds, *sorted(runs))]
    annotations["surface_op"] = kind.__annotations__["surface_op"]
    fields = {name: field(name=wire, default=UNSET) for name, wire in names.items()}
    return _subclass(kind, annotations, kw_only=True, _codec=kind._codec, **fields)


_FIELDS: Final[dict[str, tuple[object, Any]]] = {
    "type": (str, None),
    "seq": (_Seq, None),
    "time": (_Time, None),
    "_raw": (_Stored, field(name="data")),
    "surface_op": (object, field(name="surfaceOp", default=UNSET)),
    "_sources": (_StoredSources, field(name="sourceEventSeqs", default=UNSET)),
    "_ignorable": (_OnlyTrue, field(name="ignorable", default=UNSET)),
    "_data": (_Cached, field(name="(decoded)", default=UNSET)),
}
"""The fields of an event once more: where a class has all of them, msgspec need not evaluate those of its bases."""


def _subclass(
    base: type[AnyEvent], annotations: dict[str, Any], kw_only: bool = False, **members: Any
) -> type[AnyEvent]:
    namespace = {
        "__module__": __name__,
        "__qualname__": "SessionEvent",
        "__annotations__": {**{name: kind for name, (kind, _field) in _FIELDS.items()}, **annotations},
        "__repr__": SessionEvent.__repr__,
        **{name: member for name, (_kind, member) in _FIELDS.items() if member is not None},
        **members,
    }
    made = StructMeta(
        "SessionEvent", (base,), namespace, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=kw_only
    )
    assert issubclass(made, SessionEvent)
    return made


def event_decoder(kind: type[AnyEvent]) -> msgspec.json.Decoder[AnyEvent]:
    """Decodes log lines straight into events of *kind*."""
    return msgspec.json.Decoder(kind, dec_hook=decode_hook)
