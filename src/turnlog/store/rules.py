"""What one format forbids though its events are readable (dsh-formats §3-5): faults for ``verify``, nothing to refuse.

Strict reading takes such a log, because every event says what it says; the format's own writer would not have
written it, and its own reader may refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from turnlog.events import Payload, shape_faults
from turnlog.events.lenient import parse
from turnlog.events.shapes import HEADER_REASONS
from turnlog.log.event import AnyEvent

from .formats import Format

_SERIES_FROM: Final = 1
"""Format whose headers may start a series of requests."""
_LATER_REASONS: Final = (*HEADER_REASONS, "series")
_PROMPT_EVENT_FROM: Final = 3
"""Format in which the system prompt is an event, no longer a member of the request header."""
_OWN_KINDS_FROM: Final = 4
"""Format in which every plugin's messages have a source kind of their own."""


def format_faults(format: Format, event: AnyEvent, payload: Payload) -> Iterator[str]:
    """Shape faults of *payload* as *format* has them, as ``$.path: what is wrong``."""
    yield from shape_faults(payload, HEADER_REASONS if format.version < _SERIES_FROM else _LATER_REASONS)
    if event.type == "assistant/message" and not format.cites_chunks and event.sources is not None:
        yield f"$: {format.name} has no sourceEventSeqs on an answer; the stream is in the message"
    if event.type == "request/header" and format.version >= _PROMPT_EVENT_FROM and "system" in _header(event):
        yield f"$.header.system: {format.name} keeps the system prompt in a system/message event"
    shown = event.surface_op is not UNSET  # other events may have a source of their own, of another meaning
    if shown and format.version >= _OWN_KINDS_FROM and b'"plugin"' in event.raw and _source_kind(event) == "plugin":
        yield f"$.message.source.kind: 'plugin' is no source kind of {format.name}; each plugin has its own"


def _header(event: AnyEvent) -> Mapping[str, Any]:
    return _object(_object(parse(event.raw)).get("header"))


def _source_kind(event: AnyEvent) -> object:
    data = _object(parse(event.raw))
    return _object(_object(data.get("message", data)).get("source")).get("kind")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
