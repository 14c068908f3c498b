"""Paths as the model gives them: where they lead, and whether that is outside the workspace."""

from __future__ import annotations

from pathlib import Path

from ..errors import ToolFailure
from ..tool import Proposal, Subjects
from ..verdict import Allow, Ask, Verdict


def resolve(path: str, workspace: Path) -> Path:
    """The absolute path, symbolic links resolved; relative ones start in the workspace."""
    try:
        return (workspace / Path(path).expanduser()).resolve()
    except (ValueError, OSError, RuntimeError) as error:  # NUL, loops of links, no home
        raise ToolFailure(f"{path!r} is no path that can be used: {error}") from None


def shown(path: Path, workspace: Path) -> str:
    """Relative to the workspace where it is inside."""
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)


def subjects(proposal: Proposal) -> Subjects:
    """For rules: the path relative to the workspace if it is inside, else absolute."""
    try:
        text = shown(resolve(_given(proposal), proposal.workspace), proposal.workspace)
    except ToolFailure:
        text = _given(proposal)
    return Subjects((text,), text)


def inside(proposal: Proposal) -> Verdict:
    """Ask about what is outside the workspace."""
    try:
        path = resolve(_given(proposal), proposal.workspace)
    except ToolFailure:
        return Allow()  # the tool itself will say so
    if path.is_relative_to(proposal.workspace):
        return Allow()
    return Ask(f"{path} is outside the workspace {proposal.workspace}")


def inside_or_spilled(proposal: Proposal) -> Verdict:
    """The same, but what the session itself stored of long outputs may be read."""
    verdict = inside(proposal)
    if isinstance(verdict, Ask) and proposal.spill is not None:
        path = resolve(_given(proposal), proposal.workspace)
        return Allow() if path.is_relative_to(proposal.spill.resolve()) else verdict
    return verdict


def question(proposal: Proposal) -> str:
    """What a person is shown of a call that only reads."""
    others = {name: value for name, value in proposal.arguments.items() if name != "path"}
    path = resolve(_given(proposal), proposal.workspace)
    said = "".join(f"\n{name}: {value}" for name, value in others.items())
    return f"{proposal.call.name} {path}{said}"


def _given(proposal: Proposal) -> str:
    path = proposal.arguments.get("path", ".")
    return path if isinstance(path, str) else "."
