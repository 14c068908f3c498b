"""Tool calls and their results (dsh-v0 §1.3 rows 8-10)."""

from __future__ import annotations

from typing import Literal

from .lossless import Json
from .message import Message
from .payload import LogPayload, SurfacePayload
from .value import Index, Value


class ToolCall(LogPayload, type="tool/call"):
    """The scheduler starts (or skips) a call."""

    turn: Index
    step: Index
    call_id: str
    name: str
    arguments: str
    """The model's raw JSON text."""


class ToolError(Value):
    """Class and code of a failed call."""

    name: str
    code: str


class ToolResult(SurfacePayload, type="tool/result"):
    """A finished call; its message goes back to the model in the user role."""

    turn: Index
    step: Index
    message: Message
    error: ToolError | None = None
    meta: Json = None
    """For people and programs; the model never sees it."""

    @property
    def call_id(self) -> str:
        """The call it answers (empty when a foreign log does not say)."""
        return getattr(self.message.source, "call_id", "")


class Todo(Value):
    """One line of the model's plan."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class TodoWrite(LogPayload, type="todo/write"):
    """The whole plan; the last one counts."""

    todos: tuple[Todo, ...]
