"""A call on its way through the pipeline, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events import Block, Json, TextBlock, ToolError, UserMessage


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the model asked for it."""

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str
    """The model's raw text: the log, the question to a person, the policy and the tool all start from these bytes."""


@dataclass(frozen=True, slots=True)
class Result:
    """What the log keeps of a finished call (dsh-v0 §6.3)."""

    content: tuple[Block, ...]
    is_error: bool = False
    error: ToolError | None = None
    """Class and code, for failures of the harness; a tool's own failure has none."""
    meta: Json = None
    """For people and programs; the model never sees it."""
    contexts: tuple[UserMessage, ...] = ()
    """Messages for the next step, accepted with the result."""
    concludes_turn: bool = False
    """The tool said that the turn is over with this result."""

    @property
    def text(self) -> str:
        """Its text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    @classmethod
    def failed(cls, message: str, *, name: str | None = None, code: str | None = None) -> Result:
        """A failure with one text block ``Error: <message>``; *name* and *code* mark the harness's own kinds."""
        error = None if code is None else ToolError(name or "ToolError", code)
        return cls((TextBlock(f"Error: {message}"),), is_error=True, error=error)
