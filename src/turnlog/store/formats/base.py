"""The table of formats (dsh-formats §1-7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from turnlog.events import (
    AssistantAttempt,
    AssistantChunk,
    Codec,
    DeveloperMessage,
    OpaquePayload,
    Payload,
    SystemMessage,
    Vocabulary,
)
from turnlog.events.legacy import RENAMED
from turnlog.events.payload import PayloadMeta
from turnlog.log.event import SURFACE_TYPES, Replace, ReplaceSeqs

from .sample import SampleCodec
from .v4 import Format4Codec

_LATE_0: Final = ("model/selection", "session-log-deepseek/delivery-accepted", "subagent/model-selection-policy")
"""Added by dsh 0.1.2-alpha.1 without a new version number."""

_ADDED_2: Final = ("feedback/message-put", "feedback/message-delete")
_ADDED_3: Final = (
    "tool/ptc-dispatch",
    "tool/ptc-dispatch-start",
    "image/offload",
    "deliverables/presented",
    "subagent/catalog",
    "workspace/changes",
)
_DROPPED_3: Final = frozenset({"tool/code-dispatch", "tool/code-dispatch-start"})
_ADDED_4: Final = ("job/registered", "job/settled")


@dataclass(frozen=True)
class Format:
    """One on-disk format."""

    name: str
    """``format 0`` … ``format 4``, or ``sample``."""
    version: int
    surface: frozenset[str]
    """Event types that may join the surface."""
    extra: Mapping[str, type[Payload]]
    """Event types beyond (or instead of) the core vocabulary."""
    dropped: frozenset[str] = frozenset()
    """Core event types that this format does not have."""
    replace: type[Replace] = Replace
    codec: type[Codec] = Codec
    packed: bool = True
    """Whether runs of chunks may be packed rows (later formats embed the stream in the final message)."""
    cites_chunks: bool = True
    """Whether assistant messages carry ``sourceEventSeqs``."""

    def kinds(self, vocabulary: Vocabulary) -> Mapping[str, type[Payload]]:
        """Every event type a log of this format may hold, with the payload class that shows it."""
        if vocabulary is Vocabulary.core:
            return _core_kinds(self.name)
        return self._kinds(vocabulary)

    def _kinds(self, vocabulary: Vocabulary) -> Mapping[str, type[Payload]]:
        known = {name: kind for name, kind in vocabulary.kinds.items() if name not in self.dropped}
        return MappingProxyType({**known, **self.extra})


@cache
def _core_kinds(name: str) -> Mapping[str, type[Payload]]:
    chosen = SAMPLE if name == "sample" else next(one for one in FORMATS.values() if one.name == name)
    return chosen._kinds(Vocabulary.core)


def _opaque(*names: str) -> dict[str, type[Payload]]:
    """A named opaque payload class for each event type."""
    made: dict[str, type[Payload]] = {}
    for name in names:
        title = "".join(word.capitalize() for word in name.replace("/", "-").split("-"))
        kind = PayloadMeta(title, (OpaquePayload,), {"__module__": __name__}, type=name)
        assert issubclass(kind, Payload)
        made[name] = kind
    return made


_READ_0: Final[dict[str, type[Payload]]] = {
    **_opaque(*_LATE_0),
    **{old: Vocabulary.core.kinds[new] for old, new in RENAMED.items()},
    "steering/message": Vocabulary.core.kinds["user/message"],
}
_READ_2: Final[dict[str, type[Payload]]] = {**_opaque(*_LATE_0, *_ADDED_2), "assistant/attempt": AssistantAttempt}
_READ_3: Final[dict[str, type[Payload]]] = {**_READ_2, **_opaque(*_ADDED_3), "system/message": SystemMessage}
_READ_4: Final[dict[str, type[Payload]]] = {**_READ_3, **_opaque(*_ADDED_4), "developer/message": DeveloperMessage}
_NO_CHUNKS = frozenset({AssistantChunk.event_type})

FORMATS: Final[Mapping[int, Format]] = MappingProxyType({
    0: Format("format 0", 0, SURFACE_TYPES | {"steering/message"}, _READ_0),
    1: Format("format 1", 1, SURFACE_TYPES | {"steering/message"}, _READ_0),
    2: Format("format 2", 2, SURFACE_TYPES, _READ_2, _NO_CHUNKS, packed=False, cites_chunks=False),
    3: Format("format 3", 3, SURFACE_TYPES | {"system/message"}, _READ_3, _NO_CHUNKS | _DROPPED_3, ReplaceSeqs,
              packed=False, cites_chunks=False),
    4: Format("format 4", 4, SURFACE_TYPES | {"system/message", "developer/message"}, _READ_4,
              _NO_CHUNKS | _DROPPED_3, ReplaceSeqs, Format4Codec, packed=False, cites_chunks=False),
})  # fmt: skip
"""Format version → what it allows."""

NEWEST: Final = max(FORMATS)

SAMPLE: Final = Format("sample", -1, SURFACE_TYPES, {}, codec=SampleCodec)
"""The header-less, simplified log of the documents."""
