"""``turnlog repair``"""

from __future__ import annotations

from typing import Any

from turnlog.events.lossless import plain
from turnlog.store.repair import Repair
from turnlog.store.repair import repair as repair_log

from ..json_views import document
from ..opening import Which
from ..screen import PARTLY, Screen, Style, Styled

_STYLES: dict[str, Style] = {"found": "yellow", "did": "green", "moved": "yellow", "lost": "red", "branch": "cyan"}


def repair(screen: Screen, which: Which, *, apply: bool, force: bool, as_json: bool) -> None:
    """Repair a log into a new file and say what became of everything."""
    done = repair_log(which.file(), apply=apply, force=force)
    if as_json:
        screen.json(document(**_view(done)))
    else:
        _print(screen, done)
    if done.lost:
        screen.code = PARTLY
        screen.hint("what was lost is only in the damaged log; keep it")
    if done.repaired is not None and done.damaged is None:
        screen.hint(f"{done.path} was not changed; --apply puts the repaired log in its place")


def _print(screen: Screen, done: Repair) -> None:
    if not done.needed:
        screen.line(Styled("nothing to repair", "green"), f": {done.path}: {done.reason}")
        return
    screen.line(Styled("repaired", "green"), f": {done.events} events, {done.repaired}")
    for finding in done.findings:
        _row(screen, "found", f"{finding.code}  {finding.text}")
    for text in done.said:
        _row(screen, "did", text)
    for moved in done.moved:
        _row(screen, "moved", str(moved))
    for lost in done.lost:
        _row(screen, "lost", lost.text)
    for branch in done.branches:
        _row(screen, "branch", str(branch))
    if done.damaged is not None:
        _row(screen, "kept", str(done.damaged))


def _row(screen: Screen, what: str, text: str) -> None:
    screen.line("  ", Styled(f"{what:6}", _STYLES.get(what, "dim")), f"  {text}")


def _view(done: Repair) -> dict[str, Any]:
    return {
        "path": str(done.path),
        "needed": done.needed,
        "reason": done.reason,
        "findings": [{**plain(one), "severity": one.severity, "place": plain(one.place)} for one in done.findings],
        "did": done.said,
        "moved": [one._asdict() for one in done.moved],
        "lost": [one._asdict() for one in done.lost],
        "events": done.events,
        "repaired": None if done.repaired is None else str(done.repaired),
        "branches": [str(one) for one in done.branches],
        "damaged": None if done.damaged is None else str(done.damaged),
    }
