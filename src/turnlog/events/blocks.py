"""Content blocks: what messages are made of (dsh-v0 §1.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .value import Index, Opaque, Value


class TextBlock(Value, tag="text", tag_field="type"):
    """Visible text."""

    text: str


class ReasoningBlock(Value, tag="reasoning", tag_field="type"):
    """The model's reasoning, passed back to providers that ask for it."""

    text: str


class Dimensions(Value):
    """Width and height in pixels."""

    width: Index
    height: Index


class ImageAttachment(Value):
    """A stored image that a block points at."""

    attachment_id: str
    """``sha256:…`` of the bytes."""
    media_type: str
    """``image/png``, ``image/jpeg``, ``image/webp`` or ``image/gif``."""
    bytes: Index
    """Size in bytes."""
    width: Index
    height: Index
    name: str | None = None
    original_dimensions: Dimensions | None = None
    """Size before scaling down, when it was scaled."""


class ImageBlock(Value, tag="image", tag_field="type"):
    """An image, by reference."""

    attachment: ImageAttachment


class ToolCallBlock(Value, tag="tool-call", tag_field="type"):
    """A call the model asks for."""

    id: str
    name: str
    arguments: str
    """The model's raw JSON text, never parsed in the log."""


class ToolResultBlock(Value, tag="tool-result", tag_field="type"):
    """The model-visible result of one call; the only block of a tool result's message."""

    tool_call_id: str
    content: tuple[Block, ...]
    is_error: bool | None = None


if TYPE_CHECKING:
    Block: TypeAlias = TextBlock | ReasoningBlock | ImageBlock | ToolCallBlock | ToolResultBlock | Opaque
else:  # the decoder's union; readers put an Opaque where the tag is unknown
    Block: TypeAlias = TextBlock | ReasoningBlock | ImageBlock | ToolCallBlock | ToolResultBlock
