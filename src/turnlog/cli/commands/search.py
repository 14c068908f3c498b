"""``turnlog search``"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from turnlog.catalogue.building import start_builder
from turnlog.catalogue.index import Catalogue, Listed
from turnlog.catalogue.query import Mode, Query, QueryInvalid
from turnlog.catalogue.searching import Filters, Hit, Search, by_names

from ..problems import WrongUsage
from ..progress import Progress
from ..screen import Screen, Styled
from ..text import rfc3339, size
from .ls import in_project, places_of

LIMIT: Final = 20
_WORTH_BUILDING: Final = 256 << 10
"""Bytes of log that are read sooner than a process begins to put them into the full text."""


@dataclass(frozen=True)
class Asked:
    """What is searched for, and where."""

    text: str
    mode: Mode = "literal"
    sessions: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    project: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int = LIMIT
    scan: bool = False
    """Read every log and use no index."""


def search(screen: Screen, roots: Sequence[Path], asked: Asked, *, as_json: bool) -> None:
    """Print what was found, newest session first; exit code 1 when nothing was."""
    query = _query(asked)
    period = screen.clock.period(asked.since, asked.until)
    places = places_of(roots)
    indexing = Progress(screen, "sessions are indexed")
    with Catalogue(places, say=screen.hint, progress=indexing, keep=not asked.scan) as catalogue:
        sessions = catalogue.sessions()
        if asked.sessions:
            try:
                sessions = by_names(sessions, asked.sessions)
            except LookupError as error:
                screen.nothing(str(error.args[0]))
                return
        filters = Filters(_split(asked.types), _split(asked.tools), period.since, period.until, _project(asked.project))
        found = Search(catalogue, query, filters, say=screen.hint, use_index=not asked.scan)
        hits = list(islice(found.hits(sessions), asked.limit + 1))
        more = len(hits) > asked.limit
        hits = hits[: asked.limit]
    if as_json:
        _json(screen, asked, hits, more)
    else:
        for hit in hits:
            _line(screen, hit)
    if found.missing and not asked.scan:
        _build(screen, found)
    if more:
        screen.hint(f"there are more than {asked.limit}; raise --limit, or say more with --type, --tool, --since, …")
    if not hits and not more:
        where = ", ".join(map(str, places)) or "~/.turnlog/sessions or ~/.dsh/sessions"
        screen.nothing(f"nothing was found in {len(sessions)} sessions under {where}")


def _query(asked: Asked) -> Query:
    try:
        return Query(asked.text, asked.mode)
    except QueryInvalid as error:
        raise WrongUsage(str(error)) from None


def _split(patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for pattern in patterns for part in pattern.split(",") if part.strip())


def _project(project: str | None) -> Any:
    if project is None:
        return lambda _session: True
    of_project = in_project(project)

    def belongs(session: Listed) -> bool:
        return of_project(session.record.cwd)

    return belongs


def _build(screen: Screen, found: Search) -> None:
    """Sessions were read because the full text does not hold them: say so, and have it built."""
    if found.read.bytes < _WORTH_BUILDING:
        return
    read = f"{found.read.sessions} sessions ({size(found.read.bytes)}) are not in the full text yet and were read"
    if start_builder(found.missing):
        screen.hint(f"{read}; it is built in the background from now on (turnlog index status says how far it is)")
    else:
        screen.hint(f"{read}; it is being built (turnlog index status says how far it is)")


def _line(screen: Screen, hit: Hit) -> None:
    before, match, after = hit.snippet
    place = "" if hit.place is None else f" {hit.place}"
    head = f"{hit.session.record.id}  {hit.address}{place}  {hit.said.type}  "
    screen.line(Styled(head, "dim"), before, Styled(match, "yellow"), after)


def _json(screen: Screen, asked: Asked, hits: Sequence[Hit], more: bool) -> None:
    document = {
        "schemaVersion": 1,
        "query": asked.text,
        "mode": asked.mode,
        "more": more,
        "hits": [_view(hit) for hit in hits],
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        line = text.encode()
    except UnicodeEncodeError:  # halves of broken pairs
        line = json.dumps(document, separators=(",", ":")).encode()
    screen.json_lines((line,))


def _view(hit: Hit) -> dict[str, Any]:
    before, match, after = hit.snippet
    return {
        "session": hit.session.record.id,
        "path": hit.session.path,
        "address": hit.address,
        "seq": hit.said.seq,
        "turn": hit.said.turn,
        "step": hit.said.step,
        "callId": hit.said.call_id,
        "type": hit.said.type,
        "loggedAt": rfc3339(hit.said.time),
        "snippet": before + match + after,
        "match": {"start": len(before), "end": len(before) + len(match)},
    }
