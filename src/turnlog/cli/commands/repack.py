"""``turnlog compress`` and ``turnlog decompress``"""

from __future__ import annotations

from typing import Any

from turnlog.store.repack import Repacked, repack_root
from turnlog.store.repack import repack as repack_session

from ..json_views import document
from ..opening import Which
from ..problems import WrongUsage
from ..screen import Screen
from ..text import size


def repack(screen: Screen, which: Which, *, compressed: bool, force: bool, cut_torn: bool, as_json: bool) -> None:
    """Repack one session, or every session of a root."""
    if which.text is None and not which.latest:
        if len(which.roots) != 1:
            raise WrongUsage("name one session, or one whole root: --root DIR")
        (root,) = which.search()
        done = repack_root(root, compressed=compressed, force=force, cut_torn=cut_torn)
    else:
        done = repack_session(which.file(), compressed=compressed, force=force, cut_torn=cut_torn)
    if as_json:
        screen.json(document(logs=[_view(one) for one in done]))
    else:
        for one in done:
            screen.line(f"{one.path}  {size(one.before)} → {size(one.after)}")
    for one in done:
        if one.cut is not None:
            screen.hint(f"{one.path}: left out {one.cut}")
    if not done:
        screen.nothing(f"no sessions under {which.roots[0]}")
    elif len(done) > 1:
        before, after = sum(one.before for one in done), sum(one.after for one in done)
        screen.hint(f"{len(done)} logs: {size(before)} → {size(after)}")


def _view(one: Repacked) -> dict[str, Any]:
    return {
        "path": str(one.path),
        "compressed": one.compressed,
        "sizeBefore": one.before,
        "size": one.after,
        "cut": one.cut,
    }
