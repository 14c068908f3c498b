"""``turnlog convert``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnlog.events.lossless import plain
from turnlog.store.convert import MAP_NAME, Conversion, Difference
from turnlog.store.convert import convert as convert_log
from turnlog.store.rewrite import root_of

from ..json_views import document
from ..opening import Which
from ..problems import WrongUsage
from ..screen import Screen, Styled

_SHOWN = 8
"""Seqs of a difference that are listed."""
_DAMAGE = frozenset({"branch", "lost", "torn-tail"})


def convert(
    screen: Screen,
    which: Which,
    *,
    out: Path | None,
    in_place_root: bool,
    id: str | None,
    for_dsh: bool,
    forensic: bool,
    as_json: bool,
) -> None:
    """Make a format-0 session of a stored one and say what is not as it was."""
    source, _name = which.source()
    if (out is None) != in_place_root:
        raise WrongUsage("say where the new session goes: --out DIR, or --in-place-root for the root of the old one")
    root = out if out is not None else _root_of(source)
    done = convert_log(source, root, id=id, for_dsh=for_dsh, forensic=forensic)
    if as_json:
        screen.json(document(**_view(done)))
    else:
        _print(screen, done)
    if any(one.code in _DAMAGE for one in done.differences):
        screen.partly("the old log is damaged; what is not readable stays in it")


def _root_of(source: Path | bytes) -> Path:
    root = root_of(source) if isinstance(source, Path) else None
    if root is None:
        raise WrongUsage("--in-place-root is for a session that lies in a root; use --out DIR")
    return root


def _print(screen: Screen, done: Conversion) -> None:
    screen.line(Styled("converted", "green"), f": session {done.header.id}, {done.events} events, {done.path}")
    for one in sorted(done.differences, key=lambda one: not one.lost):
        word = Styled("lost   ", "red") if one.lost else Styled("changed", "dim")
        screen.line("  ", word, f"  {one.code}{_seqs(one)}  {one.text}")
    screen.line("  ", Styled("map    ", "dim"), f"  {done.path.with_name(MAP_NAME)}")


def _seqs(one: Difference) -> str:
    if not one.seqs:
        return ""
    more = f" and {len(one.seqs) - _SHOWN} more" if len(one.seqs) > _SHOWN else ""
    return "  " + " ".join(f"@{seq}" for seq in one.seqs[:_SHOWN]) + more


def _view(done: Conversion) -> dict[str, Any]:
    return {
        "path": str(done.path),
        "id": done.header.id,
        "format": done.format,
        "events": done.events,
        "losses": [plain(one) for one in done.losses],
        "changes": [plain(one) for one in done.differences if not one.lost],
        "seqs": done.seqs,
        "chunks": done.chunks,
    }
