"""`edit`: replace exact text in a file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ..context import ToolContext
from ..errors import ToolFailure
from ..tool import Policy, Proposal, ToolOutput, tool
from . import places
from .content import diff, read_file, short, write_file


def _question(proposal: Proposal) -> str:
    given = proposal.arguments
    path = places.resolve(str(given["path"]), proposal.workspace)
    old, new = str(given["old"]), str(given["new"])
    try:
        before, after = _replaced(read_file(path, str(path)), str(path), old, new, given.get("replace_all") is True)[:2]
    except ToolFailure:
        return f"edit {path}\n" + diff(old, new, path.name)
    return f"edit {path}\n{diff(before, after, path.name)}"


@tool(policy=Policy(verdict=places.inside, subjects=places.subjects, question=_question))
def edit(
    path: str, old: Annotated[str, Field(min_length=1)], new: str, ctx: ToolContext, replace_all: bool = False
) -> ToolOutput:
    """Replace text in a file that was read before and has not changed since.

    Args:
        path: The file, relative to the workspace or absolute.
        old: The text to replace, exactly as it is in the file. It has to occur once.
        new: What comes in its place.
        replace_all: Replace every occurrence instead of exactly one.
    """
    file = places.resolve(path, ctx.workspace)
    content = read_file(file, path)
    if (fault := ctx.files.fault(file)) is not None:
        raise ToolFailure(f"{path} {fault}")
    before, after, count = _replaced(content, path, old, new, replace_all)
    write_file(ctx, file, path, after.encode())
    changed = diff(before, after, places.shown(file, ctx.workspace))
    return ToolOutput(short(changed), meta={"path": str(file), "replacements": count})


def _replaced(content: bytes, path: str, old: str, new: str, every: bool) -> tuple[str, str, int]:
    try:
        before = content.decode()
    except UnicodeDecodeError as error:
        raise ToolFailure(f"{path} is not valid UTF-8 (byte {error.start}); edit it with bash") from None
    if old == new:
        raise ToolFailure("old and new are the same text")
    count = before.count(old)
    if count == 0:
        hint = "; its lines end with CR LF" if "\r\n" in before and "\n" in old and "\r\n" not in old else ""
        raise ToolFailure(f"{path} does not contain the old text{hint}; read it again and copy the text exactly")
    if count > 1 and not every:
        lines = ", ".join(map(str, _line_numbers(before, old)))
        raise ToolFailure(
            f"{path} contains the old text {count} times (lines {lines}); add lines around it, or set replace_all"
        )
    return before, before.replace(old, new), count


def _line_numbers(text: str, wanted: str) -> list[int]:
    numbers, at = list[int](), text.find(wanted)
    while at >= 0 and len(numbers) < 10:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(wanted, at + len(wanted))
    return numbers
