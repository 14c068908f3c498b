"""``turnlog rm``"""

from __future__ import annotations

import sys
from typing import Any

from turnlog.store.remove import Removal, plan_removal, remove

from ..json_views import document
from ..opening import Which
from ..problems import WrongUsage
from ..screen import Screen, Styled
from ..text import size


def rm(screen: Screen, which: Which, *, yes: bool, force: bool, as_json: bool) -> None:
    """Remove a session, once somebody has said so."""
    log = which.file()
    plan = plan_removal(log)
    _warn(screen, plan)
    if not yes and not _agreed(screen, plan):
        screen.nothing("nothing was removed")
        return
    done = remove(log, force=force)
    if as_json:
        screen.json(document(**_view(done)))
    else:
        screen.line(Styled("removed", "green"), f": session {done.id}, {len(done.files)} files, {size(done.size)}")
    if done.others:
        screen.hint(f"{done.directory} stays: {', '.join(done.others)} is not ours to remove")


def _warn(screen: Screen, plan: Removal) -> None:
    if plan.forks:
        listed = ", ".join(entry.id for entry in plan.forks)
        screen.hint(f"{len(plan.forks)} sessions name it as their parent and keep what they inherited: {listed}")


def _agreed(screen: Screen, plan: Removal) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise WrongUsage(f"session {plan.id} is removed for ever; say --yes to remove it without being asked")
    screen.hint(
        f"remove session {plan.id} ({len(plan.files)} files, {size(plan.size)}, {plan.directory}) for ever? y/N"
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _view(done: Removal) -> dict[str, Any]:
    return {
        "id": done.id,
        "directory": str(done.directory),
        "removed": done.files,
        "left": done.others,
        "size": done.size,
        "forks": [entry.id for entry in done.forks],
    }
