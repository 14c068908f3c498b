"""`read`: show a text file, or some lines of it."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from turnlog.events import Json

from ..context import ToolContext
from ..files import snapshot
from ..tool import Policy, ToolOutput, tool
from . import places
from .content import is_binary, read_file

LINES: Final = 2000
SHOWN: Final = 64 * 1024
"""Characters that are shown at most."""


@tool(
    parallel=True,
    policy=Policy(verdict=places.inside_or_spilled, subjects=places.subjects, question=places.question),
)
def read(
    path: str,
    ctx: ToolContext,
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1)] = LINES,
) -> ToolOutput:
    """Read a text file. A file has to be read before it can be edited or overwritten.

    Args:
        path: The file, relative to the workspace or absolute.
        offset: First line to show, counted from 1.
        limit: How many lines to show at most.
    """
    file = places.resolve(path, ctx.workspace)
    content = read_file(file, path)
    ctx.files.record(file, snapshot(file, content))
    meta: dict[str, Json] = {"path": str(file), "bytes": len(content)}
    if is_binary(content):
        return ToolOutput(f"[{path} is a binary file of {len(content)} bytes]", meta=meta)
    text = content.decode(errors="replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    shown, cut = _cut(lines[offset - 1 : offset - 1 + limit])
    said = "\n".join(shown)
    notes = _notes(path, offset, len(shown), len(lines), cut)
    if "\ufffd" in text and not _is_utf8(content):
        notes.append(f"[{path} is not valid UTF-8; what could not be read is shown as \ufffd, and edit refuses it]")
    return ToolOutput("\n".join(one for one in (said, *notes) if one), meta={**meta, "lines": len(lines)})


def _cut(lines: list[str]) -> tuple[list[str], bool]:
    """As many lines as fit; a first line that is too long by itself is cut."""
    room, kept = SHOWN, list[str]()
    for line in lines:
        if len(line) + 1 > room:
            return (kept, False) if kept else ([line[:SHOWN]], True)
        kept.append(line)
        room -= len(line) + 1
    return kept, False


def _notes(path: str, offset: int, shown: int, total: int, cut: bool) -> list[str]:
    if total == 0:
        return [f"[{path} is empty]"]
    if shown == 0:
        return [f"[{path} has {total} lines; there is no line {offset}]"]
    notes = [f"[line {offset} is longer than {SHOWN} characters and was cut; use bash for the rest]"] if cut else []
    last = offset + shown - 1
    if last < total:
        notes.append(f"[lines {offset} to {last} of {total}; go on with offset={last + 1}]")
    return notes


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
