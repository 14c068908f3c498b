"""Payloads: what an event says. One frozen class per event type.

```
Payload
├── LogPayload        a fact that never becomes a message
│   └── OpaquePayload a fact kept as JSON: known dsh types we do not interpret, unknown types, undecodable data
├── ModelInput        a fact that is shown to the model: it renders itself to a user message (`Session.append_input`)
├── SurfacePayload    may join the model-visible history; this set is closed (user, assistant, tool result)
└── EndSeed           only sessions write it
```

``class Weather(LogPayload, type="acme/weather")`` makes a frozen, keyword-only struct whose wire names are camelCase.
A field that could be changed after the append (list, dict, set, ``Any``, an unfrozen struct) is refused at definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Self, TypeVar, dataclass_transform

from msgspec import Struct, StructMeta, field, inspect

from .blocks import Block
from .lossless import MAX_SAFE, Json, copied

M = TypeVar("M", bound="PayloadMeta")

_JSON: Final[object] = Json  # the run-time marker; to a type checker Json is a union
_TYPE_NAME: Final = re.compile(r"[a-z][a-z0-9-]*(/[a-z0-9-]+)+")


def _store_default(namespace: dict[str, Any], name: str) -> None:
    """Have a default other than None stored like any value: what an event says may not depend on today's default."""
    default = namespace.get(name)
    if isinstance(default, bool | int | float | str | tuple | Struct):
        namespace[name] = field(default_factory=lambda: default)


class PayloadMeta(StructMeta):
    """Builds payload classes and refuses the ones that could be mutable or are half a model input."""

    def __new__(
        mcls: type[M],
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        type: str = "",
        **config: Any,
    ) -> M:
        odd = config.keys() - {"frozen"}
        if odd:
            raise TypeError(f"{name}: {sorted(odd)[0]} cannot be set; every payload is stored by the same rules")
        namespace.setdefault("event_type", type)
        namespace.setdefault("_checked", False)
        for field_name, annotation in namespace.get("__annotations__", {}).items():
            if "ClassVar" not in str(annotation):
                _store_default(namespace, field_name)
        settings = {"frozen": True, "kw_only": True, "gc": False, "rename": "camel", "omit_defaults": True, **config}
        cls = super().__new__(mcls, name, bases, namespace, **settings)
        if type:
            assert issubclass(cls, Payload)
            check_definition(cls, final=False)
        return cls


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Payload(Struct, metaclass=PayloadMeta, frozen=True):
    """Base of everything an event can say."""

    event_type: ClassVar[str]
    """The event's ``type`` on the wire."""
    surface: ClassVar[bool] = False
    """Whether its events may join the model-visible history."""
    appendable: ClassVar[bool] = True
    """Whether ``Session.append`` takes it."""
    open_fields: ClassVar[tuple[str, ...]] = ()
    """Fields whose values no type proves lossless; they are walked at append."""
    _checked: ClassVar[bool]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copied(self, memo)


class LogPayload(Payload):
    """A fact that stays out of the model-visible history."""


class SurfacePayload(Payload):
    """A fact that may join the model-visible history."""

    surface: ClassVar[bool] = True


class ModelInput(Payload):
    """A fact the model is told about: define :meth:`render`, append it with ``Session.append_input``.

    One call appends the fact and the user message it renders to, which cites it; or neither.
    """

    appendable: ClassVar[bool] = False

    def render(self) -> tuple[Block, ...]:
        """The content of the user message the model sees for this fact."""
        raise TypeError(f"{type(self).__name__} has no render(); define it, or subclass LogPayload")


class OpaquePayload(LogPayload):
    """An event kept as the JSON it is."""

    value: Json
    """The whole ``data`` of the event, frozen."""

    def __json__(self) -> Json:
        return self.value


class UnknownPayload(OpaquePayload):
    """An event of a type this vocabulary does not have; readable, never appended."""

    type: str


class UndecodablePayload(OpaquePayload):
    """An event of a known type whose data does not have that type's shape; readable, never appended."""

    type: str
    reason: str
    """What does not fit, with its JSON path."""


def check_definition(cls: type[Payload], *, final: bool) -> None:
    """Refuse a payload class that could be mutable, has a bad name, or is half a model input.

    Raises ``TypeError`` naming class, field and remedy. Annotations that cannot be resolved yet (a class defined
    further down) are checked when the class joins a vocabulary (*final*).
    """
    if cls._checked:
        return
    where = f"{cls.__name__} ({cls.event_type!r})"
    if not _TYPE_NAME.fullmatch(cls.event_type):
        raise TypeError(f"{where}: an event type looks like 'acme/weather': lower-case words, slash in between")
    _check_renderer(cls, where)
    try:
        info = inspect.type_info(cls)
    except NameError:
        if final:
            raise
        return
    assert isinstance(info, inspect.StructType)
    if issubclass(cls, OpaquePayload) and len(info.fields) > 1:
        raise TypeError(
            f"{where}: an OpaquePayload is stored as its value alone, so {info.fields[-1].name} would be "
            "lost; put it into the value, or subclass LogPayload"
        )
    for path, found in _mutable(info, "$", ()):
        raise TypeError(
            f"{where}: {path} is {found}, which could change after the append; use a frozen type "
            "(tuple[...], Literal[...], Json, a frozen Struct)"
        )
    cls.open_fields = open_fields(cls)
    cls._checked = True


def open_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Fields of a struct whose values no type proves lossless: open JSON, floats, unbounded integers."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return tuple(member.name for member in info.fields if not _closed(member.type, ()))


def _check_renderer(cls: type[Payload], where: str) -> None:
    renders = getattr(cls, "render", None)
    if issubclass(cls, ModelInput) and renders is ModelInput.render:
        raise TypeError(
            f"{where} is a ModelInput without render(): the model would never see it. Define "
            "render(), or subclass LogPayload if the model should not see it"
        )
    if renders is not None and not issubclass(cls, ModelInput):
        raise TypeError(
            f"{where} has render() but is no ModelInput: the log would not show what the model saw. "
            "Subclass ModelInput, or rename the method"
        )


def _mutable(info: inspect.Type, path: str, seen: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    match info:
        case inspect.StructType(cls=cls):
            if not cls.__struct_config__.frozen or cls.__struct_config__.dict:
                yield path, f"the unfrozen struct {cls.__name__}"
            elif cls not in seen:
                for member in info.fields:
                    yield from _mutable(member.type, f"{path}.{member.encode_name}", (*seen, cls))
        case inspect.UnionType(types=types):
            for member_type in types:
                yield from _mutable(member_type, path, seen)
        case inspect.VarTupleType(item_type=item):
            yield from _mutable(item, f"{path}[]", seen)
        case inspect.TupleType(item_types=items):
            for index, item in enumerate(items):
                yield from _mutable(item, f"{path}[{index}]", seen)
        case inspect.CustomType(cls=cls):
            if cls is not _JSON:
                yield path, f"{cls.__name__}, whose members may change"
        case inspect.AnyType() | inspect.RawType():
            yield path, "Any" if isinstance(info, inspect.AnyType) else "raw JSON"
        case inspect.EnumType(cls=cls):
            yield path, f"the enum {cls.__name__}"
        case (
            inspect.IntType()
            | inspect.FloatType()
            | inspect.BoolType()
            | inspect.StrType()
            | inspect.NoneType()
            | inspect.LiteralType()
        ):
            return
        case _:
            yield path, f"a {type(info).__name__.removesuffix('Type').lower()}"


def _closed(info: inspect.Type, seen: tuple[type, ...]) -> bool:
    """Whether the decoder alone proves a value of this type lossless (so that append need not walk it)."""
    match info:
        case inspect.StructType(cls=cls):
            return cls in seen or all(_closed(member.type, (*seen, cls)) for member in info.fields)
        case inspect.UnionType(types=types):
            return all(_closed(member, seen) for member in types)
        case inspect.VarTupleType(item_type=item):
            return _closed(item, seen)
        case inspect.TupleType(item_types=items):
            return all(_closed(item, seen) for item in items)
        case inspect.IntType(ge=low, le=high):
            return low is not None and high is not None and low >= -MAX_SAFE and high <= MAX_SAFE
        case inspect.StrType() | inspect.BoolType() | inspect.NoneType() | inspect.LiteralType():
            return True
        case _:
            return False
