"""`Value`, the frozen struct every typed part of an event is made of, and `Opaque`, for parts we do not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated, Any, Never, Self, TypeAlias, dataclass_transform, final
from uuid import uuid4

from msgspec import Meta, Struct, field

from .lossless import MAX_SAFE, Json, copied, freeze

SafeInt: TypeAlias = Annotated[int, Meta(ge=-MAX_SAFE, le=MAX_SAFE)]
"""An integer every JSON reader holds exactly."""

Index: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAFE)]
"""A non-negative :data:`SafeInt`: seqs, turn and step numbers, block indexes."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A frozen part of an event. Python names are snake_case, the wire is camelCase; None is absent."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copied(self, memo)


@final
class Opaque:
    """A block, source, chunk or reason of a kind this build does not know, kept whole.

    Only readers make one. It may be appended again as it is; there is no way to build one from raw text.
    """

    __slots__ = ("_kind", "_value")

    _kind: str
    _value: Mapping[str, Json]

    def __new__(cls, kind: str, value: Mapping[str, Json]) -> Self:
        """Keep *value*; made here and not in ``__init__``, which could be called again."""
        self = super().__new__(cls)
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_value", value if type(value) is MappingProxyType else freeze(dict(value)))
        return self

    def __setattr__(self, name: str, _value: Never) -> None:
        raise AttributeError(f"Opaque is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Opaque is immutable: {name!r} cannot be deleted")

    @property
    def kind(self) -> str:
        """The tag it carries (``type`` of a block or chunk, ``kind`` of a source or reason)."""
        return self._kind

    @property
    def value(self) -> Mapping[str, Json]:
        """All its members, tag included, read-only."""
        return self._value

    def __deepcopy__(self, _memo: object) -> Self:
        """Itself: nothing about it can change."""
        return self

    def __json__(self) -> dict[str, Json]:
        return dict(self.value)

    def __eq__(self, other: object) -> bool:
        return self.value == other.value if isinstance(other, Opaque) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.kind, tuple(self.value)))

    def __repr__(self) -> str:
        return f"Opaque({self.kind!r}, {dict(self.value)!r})"


def _random() -> str:
    return str(uuid4())


_source: Callable[[], str] = _random


def new_id() -> str:
    """A fresh random id for a session or message made in this process."""
    return _source()


@contextmanager
def ids_from(source: Callable[[], str]) -> Iterator[None]:
    """Take new ids from *source* inside the block, in every thread; for tests that compare whole logs."""
    global _source
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before
