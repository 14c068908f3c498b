"""`glob`: find files by name."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

from pydantic import Field

from ..context import ToolContext
from ..errors import ToolFailure
from ..tool import Policy, ToolOutput, tool
from . import places
from .search import files, glob_expression

LIMIT: Final = 1000


@tool(
    parallel=True,
    timeout=60,
    policy=Policy(verdict=places.inside_or_spilled, subjects=places.subjects, question=places.question),
)
def glob(pattern: str, ctx: ToolContext, path: str = ".", limit: Annotated[int, Field(ge=1)] = LIMIT) -> ToolOutput:
    """List files whose path matches a pattern, in order. Version control and caches are left out.

    Args:
        pattern: Such as *.py (at any depth), src/**/*.ts or {README,LICENSE}*.
        path: The directory to look in.
        limit: How many files to list at most.
    """
    root = places.resolve(path, ctx.workspace)
    if not root.is_dir():
        raise ToolFailure(f"{path} is no directory")
    try:
        wanted = glob_expression(pattern)
    except ValueError as error:
        raise ToolFailure(str(error)) from None
    names = (name for name in files(str(root), links=True) if not ctx.cancelled and wanted.fullmatch(name))
    found = list(islice(names, limit + 1))
    base = places.shown(root, ctx.workspace)
    lines = [name if base == "." else f"{base}/{name}" for name in found[:limit]]
    if len(found) > limit:
        lines.append(f"[more than {limit} files; only the first are listed]")
    return ToolOutput("\n".join(lines) or "[no file matches]", meta={"files": min(len(found), limit)})
