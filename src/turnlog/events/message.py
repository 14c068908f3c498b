"""Messages as the model sees them, and who they come from (dsh-v0 §1.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .blocks import Block, TextBlock, ToolResultBlock
from .lossless import Json
from .value import Opaque, Value, new_id


class UserSource(Value, tag="user", tag_field="kind"):
    """A person typed it."""


class ModelSource(Value, tag="model", tag_field="kind"):
    """A model produced it."""

    provider: str
    model: str
    replay_state: Json = None
    """Opaque adapter state (signatures, response ids) to send back with the message."""


class ToolSource(Value, tag="tool", tag_field="kind"):
    """A tool call produced it."""

    call_id: str


class ContextSection(Value):
    """One named part of a snapshot context."""

    name: str
    text: str


class PluginSource(Value, tag="plugin", tag_field="kind"):
    """A program added it: injected context, catalogues, notices, compaction checkpoints."""

    plugin: str
    form: str | None = None
    """``instructions``, ``catalog``, ``snapshot``, ``notice``, ``relay`` or ``recall``; None is unclassified."""
    sections: tuple[ContextSection, ...] | None = None
    summary: str | None = None
    compaction_id: str | None = None
    source_command_id: str | None = None


if TYPE_CHECKING:
    Source: TypeAlias = UserSource | ModelSource | ToolSource | PluginSource | Opaque
else:
    Source: TypeAlias = UserSource | ModelSource | ToolSource | PluginSource


class Message(Value):
    """One model-visible message; immutable, shared by every projection that shows it."""

    role: str
    """``user`` or ``assistant``; logs of newer formats also hold ``system`` and ``developer``."""
    content: tuple[Block, ...]
    source: Source
    id: str

    @classmethod
    def from_model(cls, *content: Block, provider: str, model: str, replay_state: Json = None) -> Message:
        """An assistant message with a fresh id."""
        source = ModelSource(provider=provider, model=model, replay_state=replay_state)
        return cls("assistant", content, source, new_id())

    @classmethod
    def from_tool(cls, call_id: str, *content: Block, is_error: bool = False) -> Message:
        """The message of a tool result: a user message with exactly one tool-result block."""
        block = ToolResultBlock(tool_call_id=call_id, content=content, is_error=is_error)
        return cls("user", (block,), ToolSource(call_id), new_id())

    @property
    def text(self) -> str:
        """Its visible text blocks, joined by newlines (tool results included)."""
        return "\n".join(_texts(self.content))


def _texts(content: tuple[Block, ...]) -> list[str]:
    found: list[str] = []
    for block in content:
        if isinstance(block, TextBlock):
            found.append(block.text)
        elif isinstance(block, ToolResultBlock):
            found.extend(_texts(block.content))
    return found
