"""The classes that a log's lines are decoded into, with their decoders.

An event knows by its class which types there are, how their data is read and which session it belongs to (messages
without an id are named for it). Making a class takes longer than reading a small log, so those of the last few
sessions are kept.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Final

import msgspec

from turnlog.events import Vocabulary
from turnlog.log.event import AnyEvent, event_class, event_decoder, line_class
from turnlog.log.rows import RUN_TYPES

from .formats import FORMATS, SAMPLE, Format


class LineClasses:
    """What decodes the lines of one session."""

    def __init__(self, format: Format, kind: type[AnyEvent]) -> None:
        self.format: Final = format
        self.kind: Final = kind
        """The class of its events."""

    @cached_property
    def events(self) -> msgspec.json.Decoder[AnyEvent]:
        """Decodes events."""
        return event_decoder(self.kind)

    @cached_property
    def lines(self) -> msgspec.json.Decoder[AnyEvent] | None:
        """Decodes events and packed rows; None where the format has no packed rows."""
        return event_decoder(line_class(self.kind, RUN_TYPES)) if self.format.packed else None

    @cached_property
    def loose(self) -> type[AnyEvent]:
        """The class of events whose type the format does not have."""
        return event_class(self.kind._codec, replace=self.format.replace, any_type=True)


def line_classes(format: Format, vocabulary: Vocabulary, session_id: str) -> LineClasses:
    """The classes for a session; the same ones if it was read lately."""
    if format is SAMPLE:  # its codec learns from the log
        return _make(format, vocabulary, session_id)
    return _kept(format.version, vocabulary, session_id)


@lru_cache(maxsize=32)
def _kept(version: int, vocabulary: Vocabulary, session_id: str) -> LineClasses:
    return _make(FORMATS[version], vocabulary, session_id)


def _make(format: Format, vocabulary: Vocabulary, session_id: str) -> LineClasses:
    codec = format.codec(format.kinds(vocabulary), session_id)
    return LineClasses(format, event_class(codec, replace=format.replace))
