"""``turnlog index``: the index of the sessions, which may be deleted at any time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from turnlog.catalogue.building import alone, build
from turnlog.catalogue.database import discard, quick_check
from turnlog.catalogue.fulltext import FullText, FullTextLost, text_path
from turnlog.catalogue.index import Catalogue
from turnlog.catalogue.places import index_path

from ..json_views import document
from ..progress import Progress
from ..screen import Screen
from ..text import size
from .ls import places_of


def build_index(screen: Screen, roots: Sequence[Path], *, quiet: bool, as_json: bool) -> None:
    """Bring index and full text up to date."""
    places = places_of(roots)
    indexing, progress = Progress(screen, "sessions are indexed"), Progress(screen, "bytes are in the full text")
    try:
        built = build(places, say=screen.hint, progress=progress, indexing=indexing)
    except (sqlite3.Error, OSError) as error:
        screen.partly(f"the full text was not built: {error}; searches read the logs")
        return
    if as_json:
        screen.json(document(sessions=built.sessions, left=built.left, busy=built.busy))
    if built.busy:
        screen.hint("another process builds it already")
    elif not quiet and not as_json:
        screen.line(f"{built.sessions} sessions were put into the full text")
    if built.left:
        screen.hint(f"{built.left} sessions change right now or cannot be read; searches read them")


def show_index(screen: Screen, roots: Sequence[Path], *, as_json: bool) -> None:
    """Say where the indexes are, how large, and how much the full text holds."""
    views = []
    for root in places_of(roots):
        with Catalogue([root], say=screen.hint) as catalogue:
            sessions = catalogue.sessions()
        held = 0
        problem = None
        try:
            text = FullText(root, screen.hint)
            held = sum(
                1 for one in sessions
                if (known := text.covers(one)) is not None and known.offset >= one.record.identity.size
            )  # fmt: skip
            text.close()
        except FullTextLost as error:
            problem = str(error)
        paths = [path for path in (index_path(root), text_path(root)) if path.exists()]
        problem = problem or next((told for path in paths if (told := quick_check(path)) is not None), None)
        with alone(text_path(root)) as free:
            building = not free
        views.append({
            "root": str(root), "path": str(index_path(root)), "size": sum(path.stat().st_size for path in paths),
            "sessions": len(sessions), "inFullText": held, "building": building, "problem": problem,
        })  # fmt: skip
    if as_json:
        screen.json(document(indexes=views))
        return
    for view in views:
        screen.line(f"{view['root']}: {view['sessions']} sessions, {view['inFullText']} in the full text"
                    f"{' (it is being built)' if view['building'] else ''}")  # fmt: skip
        screen.line(f"  {view['path']}, {size(int(str(view['size'])))}")
        if view["problem"]:
            screen.partly(f"{view['path']} is damaged: {view['problem']}; turnlog index clear deletes it")
    if not views:
        screen.nothing("there are no sessions in the usual places; --root DIR looks elsewhere")


def clear_index(screen: Screen, roots: Sequence[Path]) -> None:
    """Delete the indexes; the logs stay."""
    gone = 0
    for root in places_of(roots):
        for path in (index_path(root), text_path(root)):
            gone += path.exists()
            discard(path)
    screen.hint(f"{gone} files were deleted; the logs are as they were" if gone else "there was no index")
