"""The built-in tools: `bash`, `read`, `write`, `edit`, `glob`, `grep`."""

from typing import Final

from ..tool import AnyTool
from .bash import bash
from .edit import edit
from .glob import glob
from .grep import grep
from .read import read
from .write import write

__all__ = ["BUILTIN", "bash", "builtin_tools", "edit", "glob", "grep", "read", "write"]

BUILTIN: Final[tuple[AnyTool, ...]] = (bash, edit, glob, grep, read, write)
"""All of them, by name."""


def builtin_tools(*names: str) -> tuple[AnyTool, ...]:
    """All of them, or those named. Raises ``KeyError`` for a name that is none."""
    known = {one.name: one for one in BUILTIN}
    return tuple(known[name] for name in names) if names else BUILTIN
