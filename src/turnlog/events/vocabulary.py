"""`Vocabulary`: the event types a session knows. A value that you pass around, never a global registry."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

import msgspec
from msgspec import Struct, inspect

from . import dsh
from .codec import RETIRED, Codec, decoder_of, encode
from .conversation import AssistantChunk, AssistantMessage, UserMessage
from .errors import TurnlogError
from .lenient import Mismatch, convert, parse
from .lossless import LosslessError, check_open, encoder
from .payload import (
    OpaquePayload,
    Payload,
    SurfacePayload,
    UndecodablePayload,
    UnknownPayload,
    check_definition,
    open_fields,
)
from .request import EndSeed, RequestContext, RequestHeader
from .tool import TodoWrite, ToolCall, ToolResult
from .turn import StepEnd, StepStart, TurnEnd, TurnStart
from .value import Opaque

CORE: Final[tuple[type[Payload], ...]] = (
    TurnStart, TurnEnd, StepStart, StepEnd, UserMessage, AssistantChunk, AssistantMessage, ToolCall, ToolResult,
    TodoWrite, RequestHeader, RequestContext, EndSeed, *dsh.KNOWN,
)  # fmt: skip
"""The 48 types that format 0 writers may use."""


class UnknownEventType(TurnlogError, ValueError):
    """An event type that this vocabulary does not have: names it, and the class and call that would add it."""


class PluginEventWarning(UserWarning):
    """A vocabulary got event types of its own: logs that hold them are not readable by dsh 0.1.3 and later."""


class Vocabulary:
    """An immutable set of event types.

    ``Vocabulary.core`` is what dsh knows. ``Vocabulary.core.extend(Weather)`` is a new vocabulary with one more; pass
    it to ``Session(vocabulary=…)`` and ``load(…, vocabulary=…)``.
    """

    core: ClassVar[Vocabulary]
    kinds: Final[Mapping[str, type[Payload]]]
    """Event type → payload class."""

    def __init__(self, kinds: Mapping[str, type[Payload]]) -> None:
        self.kinds = MappingProxyType(dict(kinds))
        self.codec: Final = Codec(self.kinds)
        self._decoders = {kind: decoder_of(kind) for kind in self.kinds.values() if not issubclass(kind, OpaquePayload)}

    def extend(self, *kinds: type[Payload]) -> Vocabulary:
        """A vocabulary with *kinds* added.

        Warns with :class:`PluginEventWarning`. Raises ``TypeError`` for a class that could be mutable, is half a
        model input or would widen the surface, and ``ValueError`` for a name that is taken or retired.
        """
        for kind in kinds:
            self._check_new(kind)
        if len({kind.event_type for kind in kinds}) != len(set(kinds)):
            twice = sorted(
                {
                    kind.event_type
                    for kind in kinds
                    for other in kinds
                    if other is not kind and other.event_type == kind.event_type
                }
            )
            raise ValueError(f"{', '.join(map(repr, twice))}: two classes for one event type; rename one")
        names = ", ".join(sorted(kind.event_type for kind in kinds))
        warnings.warn(
            f"{names}: sessions that hold these events are not readable by dsh 0.1.3 and later",
            PluginEventWarning,
            stacklevel=2,
        )
        return Vocabulary({**self.kinds, **{kind.event_type: kind for kind in kinds}})

    def _check_new(self, kind: type[Payload]) -> None:
        name = kind.event_type
        if issubclass(kind, SurfacePayload):
            raise TypeError(
                f"{kind.__name__} ({name!r}): the surface types are user, assistant and tool result, so "
                "that every reader derives the same messages; subclass ModelInput instead"
            )
        if name in RETIRED:
            raise ValueError(f"{name!r} is a retired type that readers refuse; choose another name")
        if self.kinds.get(name, kind) is not kind:
            raise ValueError(f"{name!r} is already {self.kinds[name].__name__}; choose another name")
        check_definition(kind, final=True)

    def __contains__(self, name: str) -> bool:
        return name in self.kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    @property
    def plugins(self) -> frozenset[str]:
        """The event types that :meth:`extend` added; their events are stored as ``ignorable``."""
        return frozenset(self.kinds).difference(Vocabulary.core.kinds)

    def snapshot(self, payload: Payload) -> tuple[bytes, Payload]:
        """The stored data of *payload* and its detached frozen copy.

        Encodes once, decodes with the reader's decoder and compares; open JSON is walked as well. Raises
        :class:`UnknownEventType` or :class:`LosslessError` (event type, JSON path, remedy).
        """
        kind = type(payload)
        decode = self._decoders.get(kind)
        if decode is None:
            return self._snapshot_opaque(payload)
        try:
            if kind.open_fields:
                for name, wire, walk in _OPEN.get(kind) or _fields(kind, False):
                    value = getattr(payload, name)
                    if _OPEN.get(type(value)) != ():  # else its own type proves it, as a text delta's does
                        walk(value, f"$.{wire}", False)
            raw = encoder.encode(payload)
            try:
                data = decode(raw)
                same = data == payload
            except msgspec.ValidationError:  # an Opaque inside, which only the slow decoder knows; or a wrong type
                _check(payload, "$", True)  # no field's type proves what an Opaque holds
                data = convert(kind, parse(raw))
                same = data == payload and encode(data) == raw
            if same:
                return raw, data
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise self._diagnose(payload, error) from None
        raise self._diagnose(payload, None, data)

    def _snapshot_opaque(self, payload: Payload) -> tuple[bytes, Payload]:
        kind = type(payload)
        if isinstance(payload, UnknownPayload | UndecodablePayload):
            raise UnknownEventType(
                f"{payload.type}: read from a log of another program and not in this vocabulary; "
                "define its payload class and pass Vocabulary.core.extend(…)"
            )
        if self.kinds.get(kind.event_type) is not kind or not isinstance(payload, OpaquePayload):
            raise UnknownEventType(
                f"{kind.event_type or kind.__name__}: not in this session's vocabulary; pass "
                f"vocabulary=Vocabulary.core.extend({kind.__name__}) to the Session"
            )
        try:
            check_open(payload.value)
        except LosslessError as error:
            raise LosslessError(f"{kind.event_type}: {error}") from None
        raw = encode(payload)
        return raw, self.codec.slow_payload(kind.event_type, raw, 0) if kind.event_type in self.codec.kinds else payload

    def _diagnose(self, payload: Payload, cause: Exception | None, kept: Payload | None = None) -> LosslessError:
        name = type(payload).event_type
        try:
            _check(payload, "$", True)
        except LosslessError as error:
            return LosslessError(f"{name}: {error}")
        except RecursionError:
            return LosslessError(f"{name}: $: nested too deeply to be read back (or cyclic); store it flatter")
        if cause is None:
            return LosslessError(f"{name}: {_difference(payload, kept)}")
        if isinstance(cause, LosslessError):
            return LosslessError(f"{name}: {cause}")
        if isinstance(cause, Mismatch | msgspec.ValidationError):
            return LosslessError(f"{name}: {cause}; the value does not have its field's type")
        return LosslessError(f"{name}: $: {cause}")


def _check(value: object, path: str, everything: bool = False) -> None:
    """Walk what no type proves (or *everything*, to find the place of a failure)."""
    kind = type(value)
    fields = _OPEN.get(kind)
    if fields is not None or isinstance(value, Struct):
        if fields is None or everything:
            fields = _fields(kind, everything)
        for name, wire, walk in fields:
            walk(getattr(value, name), f"{path}.{wire}", everything)
    elif kind is tuple:
        for index, member in enumerate(value):  # type: ignore[arg-type, var-annotated]
            _check(member, f"{path}[{index}]", everything)
    elif kind is Opaque:
        check_open(value.value, path)  # type: ignore[attr-defined]
    elif kind is list or kind is dict:
        remedy = "a tuple" if kind is list else "its field's own type"
        raise LosslessError(f"{path}: a {kind.__name__} could change after the append; use {remedy}")
    else:
        check_open(value, path)


def _check_json(value: object, path: str, _everything: bool) -> None:
    check_open(value, path)


def _check_jsons(value: object, path: str, everything: bool) -> None:
    if type(value) is not tuple:
        _check(value, path, everything)
        return
    for index, member in enumerate(value):
        check_open(member, f"{path}[{index}]")


_Walk: TypeAlias = Callable[[object, str, bool], None]
_Fields: TypeAlias = tuple[tuple[str, str, _Walk], ...]
_OPEN: Final[dict[type, _Fields]] = {}


def _fields(kind: type, everything: bool) -> _Fields:
    """Name, wire name and walk of a struct's fields: of those that need one, or of all."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    if everything:
        return tuple((one.name, one.encode_name, _walk_of(one.type)) for one in info.fields)
    names = open_fields(kind)
    _OPEN[kind] = tuple((one.name, one.encode_name, _walk_of(one.type)) for one in info.fields if one.name in names)
    return _OPEN[kind]


def _walk_of(info: inspect.Type) -> _Walk:
    match info:
        case inspect.CustomType():
            return _check_json
        case inspect.UnionType(types=types) if any(isinstance(one, inspect.CustomType) for one in types):
            return _check_json
        case inspect.VarTupleType(item_type=inspect.CustomType()):
            return _check_jsons
        case _:
            return _check


def _difference(given: object, kept: object, path: str = "$") -> str:
    """Where and how a payload reads back as another one."""
    pairs: list[tuple[object, object, str]] = []
    if isinstance(given, Struct) and type(given) is type(kept):
        pairs = [(getattr(given, n), getattr(kept, n), f"{path}.{w}") for n, w, _ in _fields(type(given), True)]
    elif isinstance(given, tuple) and isinstance(kept, tuple) and len(given) == len(kept):
        pairs = [(one, other, f"{path}[{n}]") for n, (one, other) in enumerate(zip(given, kept, strict=True))]
    for differs in (_unequal, _of_other_types):  # 1.0 equals 1, so types come second
        for one, other, place in pairs:
            if differs(one, other):
                return _difference(one, other, place)
    return (
        f"{path}: {type(given).__name__} reads back as another value ({type(kept).__name__}); use the exact type "
        "of its field"
    )


def _unequal(one: object, other: object) -> bool:
    return bool(one != other)


def _of_other_types(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return list(map(type, one)) != list(map(type, other))
    return type(one) is not type(other)


Vocabulary.core = Vocabulary({kind.event_type: kind for kind in CORE})
