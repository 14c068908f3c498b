"""`write`: put a whole file in place."""

from __future__ import annotations

from ..context import ToolContext
from ..errors import ToolFailure
from ..tool import Policy, Proposal, ToolOutput, tool
from . import places
from .content import diff, is_binary, read_file, write_file


def _question(proposal: Proposal) -> str:
    path = places.resolve(str(proposal.arguments["path"]), proposal.workspace)
    after = str(proposal.arguments["content"])
    if not path.exists():
        return f"write the new file {path}\n{after}"
    try:
        before = read_file(path, str(path))
    except ToolFailure:
        return f"write {path}\n{after}"
    if is_binary(before):
        return f"overwrite the binary file {path}\n{after}"
    return f"overwrite {path}\n{diff(before.decode(errors='replace'), after, path.name)}"


@tool(policy=Policy(verdict=places.inside, subjects=places.subjects, question=_question))
def write(path: str, content: str, ctx: ToolContext) -> ToolOutput:
    """Write a file: a new one, or all of one that was read before and has not changed since. Makes directories.

    Args:
        path: The file, relative to the workspace or absolute.
        content: All of its new content.
    """
    file = places.resolve(path, ctx.workspace)
    if file.is_dir():
        raise ToolFailure(f"{path} is a directory")
    new = not file.exists()
    raw = content.encode()
    write_file(ctx, file, path, raw)
    said = f"{'created' if new else 'overwrote'} {path} ({len(raw)} bytes)"
    return ToolOutput(said, meta={"path": str(file), "bytes": len(raw), "created": new})
