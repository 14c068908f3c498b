"""What can go wrong with tools.

::

    TurnlogError
    └── ToolFault                the model is answered with an error result, the turn goes on
        ├── ToolFailure          raised by a tool: what it says is what the model reads
        ├── ToolArgsError        the arguments are no JSON object or do not fit (INVALID_ARGS)
        ├── ToolOutputError      what the tool gave cannot be logged (INVALID_TOOL_OUTPUT)
        ├── ToolNotFoundError    no such tool here (UNKNOWN_TOOL)
        └── ToolDefinitionError  at registration: lists everything that is wrong (UNSUPPORTED_SCHEMA)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from turnlog.events import Json
from turnlog.log import TurnlogError


class ToolFault(TurnlogError):
    """Base of the failures that become error results."""

    code: ClassVar[str | None] = None
    """The code the log keeps with the result, if it is a kind of the harness."""


class ToolFailure(ToolFault):
    """Raise it in a tool: the result is an error whose text is the message, without a traceback."""

    def __init__(self, message: str, *, meta: Json = None, kind: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.meta = meta
        """For people and programs; the model never sees it."""
        self.kind = kind
        """(class, code) for the log, when the failure has a name, such as ``("ToolTimeoutError", "TOOL_TIMEOUT")``."""


class ToolArgsError(ToolFault):
    """The model's arguments are no strict JSON object, or do not fit the tool's signature."""

    code = "INVALID_ARGS"


class ToolOutputError(ToolFault):
    """What a tool gave back has no lossless form in the log."""

    code = "INVALID_TOOL_OUTPUT"


class ToolNotFoundError(ToolFault):
    """No tool of that name may be used here."""

    code = "UNKNOWN_TOOL"


class ToolDefinitionError(ToolFault, TypeError):
    """A function cannot become a tool, or a toolbox cannot take it; ``violations`` has every reason."""

    code = "UNSUPPORTED_SCHEMA"

    def __init__(self, what: str, violations: Sequence[str]) -> None:
        super().__init__(f"{what}: " + "; ".join(violations))
        self.violations = tuple(violations)
