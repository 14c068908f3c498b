"""`grep`: find lines by regular expression."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from ..context import ToolContext
from ..errors import ToolFailure
from ..tool import Policy, ToolOutput, tool
from . import places
from .bash import spill_file
from .process import Collected, Guarded, clean_environment
from .search import glob_expression

SCRIPT: Final = Path(__file__).with_name("search.py")
LIMIT: Final = 200
SHOWN: Final = 64 * 1024
STORED: Final = 16 * 1024 * 1024


@tool(
    parallel=True,
    timeout=60,
    policy=Policy(verdict=places.inside_or_spilled, subjects=places.subjects, question=places.question),
)
async def grep(
    pattern: Annotated[str, Field(min_length=1)],
    ctx: ToolContext,
    path: str = ".",
    glob: str = "",
    ignore_case: bool = False,
    limit: Annotated[int, Field(ge=1)] = LIMIT,
) -> ToolOutput:
    """Find lines that match a regular expression, as path:line:text, ordered by path. Version control, caches and
    binary files are left out.

    Args:
        pattern: A regular expression, Python's kind.
        path: The directory or file to search.
        glob: Only files whose path matches, such as *.py.
        ignore_case: Whether upper and lower case are the same.
        limit: How many lines to show at most.
    """
    root = places.resolve(path, ctx.workspace)
    _check(root, path, pattern, glob)
    output = Collected(SHOWN, STORED, lambda: spill_file(ctx, "grep"))
    settings = [pattern, glob, "1" if ignore_case else "0", str(limit), shutil.which("rg") or ""]
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(root), _prefix(root, ctx.workspace), *settings]
    running = Guarded(command, ctx.workspace, clean_environment(os.environ), output.take)
    try:
        report = await running.wait()
    finally:
        running.close()
    if report.code != 0:
        raise ToolFailure(f"the search failed: {output.text.strip()[-500:]}")
    return ToolOutput(output.text.removesuffix("\n") or "[no line matches]", meta={"bytes": output.total})


def _prefix(root: Path, workspace: Path) -> str:
    base = places.shown(root, workspace)
    if root.is_file():
        return base
    return "" if base == "." else f"{base}/"


def _check(root: Path, path: str, pattern: str, glob: str) -> None:
    if not root.exists():
        raise ToolFailure(f"{path} does not exist")
    try:
        re.compile(pattern)
        glob_expression(glob)
    except re.error as error:
        raise ToolFailure(f"{pattern!r} is no regular expression: {error}") from None
    except ValueError as error:
        raise ToolFailure(str(error)) from None
