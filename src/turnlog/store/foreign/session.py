"""What a foreign file says about its session, and names of the events that its records are kept as."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from turnlog.events.blocks import ImageBlock
from turnlog.events.lossless import dump
from turnlog.events.value import Opaque

from .builder import Builder
from .step import From

IMAGE: Final = "foreign/image"
"""The event that holds the bytes of an image: ``{attachmentId, mediaType, data}``, in base64."""
UNREADABLE: Final = "foreign/unreadable-line"
"""The event that holds a line that is no JSON object: ``{reason, text}``, or ``{reason, base64}``."""

_TYPED: Final = frozenset({"text", "image", "reasoning", "tool-call", "tool-result"})
_ODD: Final = re.compile(r"[^a-z0-9]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST: Final = 60


@dataclass
class About:
    """Who the session is, as far as the file says."""

    id: str | None = None
    cwd: str | None = None
    parent: str | None = None
    subagent: bool = False
    seed: int | None = None
    """How many leading events it inherited."""
    named: str | None = None
    """What the file is named for."""
    only_sidechains: bool = False
    """Whether the beginning of the file has no records but a sub-agent's."""


def event_name(program: str, *kinds: Any) -> str:
    """The event type of a record that is kept as it is: ``codex/event-msg/exec-command-end``."""
    parts = [_word(kind) for kind in kinds if isinstance(kind, str)]
    return "/".join([program, *(parts or ["record"])])


def _word(text: str) -> str:
    return _ODD.sub("-", _CAMEL.sub("-", text[:_LONGEST]).lower()).strip("-") or "record"


def opaque_block(program: str, block: Any) -> Opaque:
    """A block of a kind that logs do not have, kept whole. One that has the name of a kind of ours, and not its shape,
    gets the program's name before it; what is no block at all becomes one."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str) or not kind:
        return Opaque(program, {"type": program, "value": block})
    if kind not in _TYPED:
        return Opaque(kind, block)
    return Opaque(f"{program}-{kind}", {**block, "type": f"{program}-{kind}"})


def keep_image(builder: Builder, block: ImageBlock, data: str, origin: From) -> None:
    """Keep the bytes that an image block points at."""
    held = block.attachment
    value = {"attachmentId": held.attachment_id, "mediaType": held.media_type, "data": data}
    builder.keep(IMAGE, dump(value), origin._replace(id=None))
