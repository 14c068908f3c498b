"""``turnlog usage``"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from turnlog.events.lenient import parse
from turnlog.store import LogRefused, StoredSession, load
from turnlog.store.convert import MAP_NAME
from turnlog.store.discover import list_sessions
from turnlog.views.prices import PriceTable
from turnlog.views.usage import NO_TOOL, Charge, Tally, Usage, by, tally
from turnlog.views.usage import usage as usage_of

from ..json_views import document
from ..money import UNKNOWN, cost_text, tally_view
from ..opening import Which, open_session, search_in
from ..problems import WrongUsage
from ..progress import Progress
from ..screen import Screen, Styled
from ..text import clip
from .ls import in_project, uses_model

_LISTED: Final = 10
_TITLES: Final = ("REQUESTS", "INPUT", "CACHE READ", "CACHE WRITE", "OUTPUT", "REASONING", "CACHED", "COST")
_SHOWN_IF_ANY: Final = frozenset({"CACHE READ", "CACHE WRITE", "REASONING", "CACHED"})
_NAME_COLUMNS: Final = 60


@dataclass(frozen=True)
class Asked:
    """What is counted, and how it is shown."""

    sessions: tuple[str, ...] = ()
    latest: bool = False
    by: str | None = None
    since: str | None = None
    until: str | None = None
    project: str | None = None
    model: str | None = None
    prices: Path | None = None
    foreign: bool = False
    limit: int | None = None


def usage(screen: Screen, roots: Sequence[Path], asked: Asked, *, as_json: bool) -> None:
    """Print what sessions used and cost."""
    period = screen.clock.period(asked.since, asked.until)
    prices = _prices(asked.prices)
    counted = _Counted()
    for session in _sessions(screen, roots, asked, counted):
        counted.take(session)
    every = counted.usage()
    wanted = [charge for charge in every.charges if period.has(charge.time) and _is_wanted(charge, asked)]
    what = asked.by or ("turn" if len(counted.found) == 1 and (asked.sessions or asked.latest) else "session")
    rows = _rows(screen, wanted, what, prices)
    total = tally(wanted, prices)
    shown = rows[: asked.limit]
    if as_json:
        views = [{**_named(what, key, wanted), **tally_view(found)} for key, found in shown]
        screen.json(document(by=what, rows=views, total=tally_view(total), sessions=len(counted.found),
                             inheritedRequests=every.inherited, skipped=counted.skipped))  # fmt: skip
    elif wanted:
        _table(screen, what, shown, total)
    _say(screen, counted, every, total, wanted)
    if len(shown) < len(rows):
        screen.hint(f"{len(shown)} of {len(rows)} rows are shown, the total is of all; raise --limit for more")


def _prices(file: Path | None) -> PriceTable:
    if file is not None and not file.is_file():
        raise WrongUsage(f"--prices {file}: {'not a file' if file.exists() else 'no such file'}")
    return PriceTable.load(file, workspace=Path.cwd())


# -- which sessions -------------------------------------------------------------------------------------------------


@dataclass
class _Counted:
    """What was read."""

    found: dict[str, Usage] = field(default_factory=dict)
    """By the id of the session."""
    skipped: list[dict[str, str]] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    """What would have been counted twice, and is not."""
    _made_of: dict[str, tuple[str, int]] = field(default_factory=dict)

    def take(self, session: StoredSession) -> None:
        """Count a session; of several with one id, the one that tells of the most requests."""
        found = usage_of(session)
        other = self.found.get(session.id)
        if other is not None:
            self.copies.append(f"session {session.id} is there more than once; it is counted once")
        if other is not None and len(other.charges) >= len(found.charges):
            return
        self.found[session.id] = found
        origin = _origin(session)
        if origin is not None:
            self._made_of[session.id] = origin

    def usage(self) -> Usage:
        """All of it. What a conversion copied is not counted again beside the session that it was made of."""
        every: list[Charge] = []
        for id, found in self.found.items():
            origin, events = self._made_of.get(id, ("", 0))
            copied = origin in self.found
            if copied:
                self.copies.append(f"session {id} was made of {origin}; what both hold is counted once")
            every += [one for one in found.charges if not copied or one.seq >= events]
        return Usage(tuple(every), sum(found.inherited for found in self.found.values()))


def _origin(session: StoredSession) -> tuple[str, int] | None:
    """The session that one was converted from, and how many of its events come from there."""
    path = getattr(session, "path", None)
    try:
        told = None if path is None else parse(Path(path).with_name(MAP_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(told, Mapping):
        return None
    old, new = told.get("from"), told.get("to")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or new.get("id") != session.id:
        return None
    origin, events = old.get("id"), new.get("events")
    return (origin, events) if isinstance(origin, str) and isinstance(events, int) else None


def _sessions(screen: Screen, roots: Sequence[Path], asked: Asked, counted: _Counted) -> Iterator[StoredSession]:
    if asked.sessions or asked.latest:
        names: tuple[str | None, ...] = (*asked.sessions, *((None,) if asked.latest else ()))
        for name in names:
            yield open_session(screen, Which(name, name is None, roots))
        return
    entries: list[Path] = []
    for entry in list_sessions(search_in(roots)):
        if entry.header is None:
            counted.skipped.append({"path": str(entry.path), "reason": entry.problem or "it has no header"})
        elif asked.project is None or in_project(asked.project)(entry.header.cwd):
            entries.append(entry.path)
    entries += _foreign(counted) if asked.foreign else []
    progress = Progress(screen, "sessions are read")
    for number, path in enumerate(entries):
        progress(number, len(entries))
        session = _read(path, counted)
        if session is not None:
            yield session
    progress(len(entries), len(entries))


def _foreign(counted: _Counted) -> list[Path]:
    from turnlog.store.foreign import discover

    found = discover()
    counted.skipped += [{"path": str(one.path), "reason": one.problem} for one in found if one.problem]
    return [one.path for one in found if not one.problem]


def _read(path: Path, counted: _Counted) -> StoredSession | None:
    reason = ""
    for forensic in (False, True):
        try:
            session = load(path, forensic=forensic)
        except (LogRefused, OSError) as error:
            reason = str(error)
            continue
        if reason:
            counted.skipped.append({"path": str(path), "reason": f"counted as far as it can be read: {reason}"})
        return session
    counted.skipped.append({"path": str(path), "reason": reason})
    return None


def _is_wanted(charge: Charge, asked: Asked) -> bool:
    if asked.project is not None and not in_project(asked.project)(charge.project):
        return False
    return asked.model is None or uses_model(asked.model)(charge.route)


# -- rows -----------------------------------------------------------------------------------------------------------


def _rows(screen: Screen, charges: Iterable[Charge], what: str, prices: PriceTable) -> list[tuple[Any, Tally]]:
    keys: dict[str, Callable[[Charge], Any]] = {
        "session": lambda charge: charge.session,
        "day": lambda charge: screen.clock.day(charge.time),
        "model": lambda charge: charge.route,
        "project": lambda charge: charge.project,
        "tool": lambda charge: ", ".join(charge.tools),
        "turn": lambda charge: (charge.session, charge.turn),
    }
    rows = list(by(charges, keys[what], prices).items())
    if what in ("day", "project"):
        rows.sort(key=lambda row: (row[0] is None, row[0] or ""))
    elif what in ("model", "tool"):
        rows.sort(key=lambda row: (-row[1].tokens.total, row[0]))
    return rows


def _named(what: str, key: Any, charges: Iterable[Charge]) -> dict[str, Any]:
    """What a row is about, as JSON."""
    if what == "turn":
        return {"session": key[0], "turn": key[1]}
    if what == "tool":
        return {"tools": key.split(", ") if key != NO_TOOL else []}
    return {what: key or None}


def _title(what: str, key: Any, several: bool) -> str:
    match what:
        case "turn":
            turn = "between turns" if key[1] is None else f"t{key[1]}"
            return f"{key[0]} {turn}" if several else turn
        case "tool":
            return key or "(no call)"
        case "day":
            return key or "(no date)"
        case _:
            return key or "(unknown)"


def _table(screen: Screen, what: str, rows: Sequence[tuple[Any, Tally]], total: Tally) -> None:
    several = what == "turn" and len({key[0] for key, _ in rows}) > 1
    lines = [(clip(_title(what, key, several), _NAME_COLUMNS), *_cells(found)) for key, found in rows]
    lines.append(("TOTAL", *_cells(total)))
    columns = list(zip((what.upper(), *_TITLES), *lines, strict=True))
    shown = [
        one for one in columns if one[0] not in _SHOWN_IF_ANY or any(cell not in ("0", UNKNOWN) for cell in one[1:])
    ]
    first, *others = shown
    width = max(map(len, first))
    aligned = [[cell.ljust(width) for cell in first]]
    aligned += [[cell.rjust(max(map(len, column))) for cell in column] for column in others]
    table = ["  ".join(cells).rstrip() for cells in zip(*aligned, strict=True)]
    screen.line(Styled(table[0], "bold"))
    for line in table[1:-1]:
        screen.line(line)
    screen.line(Styled(table[-1], "bold"))


def _cells(found: Tally) -> tuple[str, ...]:
    tokens = found.tokens
    percent = tokens.cache_percent
    counts = (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output, tokens.reasoning)
    cached = UNKNOWN if percent is None else f"{percent} %"
    return (f"{found.requests:,}", *(f"{count:,}" for count in counts), cached if tokens.cache_read else UNKNOWN,
            cost_text(found.cost))  # fmt: skip


# -- beside the data ------------------------------------------------------------------------------------------------


def _say(screen: Screen, counted: _Counted, every: Usage, total: Tally, wanted: Sequence[Charge]) -> None:
    for reason in total.cost.why:
        screen.hint(reason)
    for text in counted.copies[:_LISTED]:
        screen.hint(text)
    if len(counted.copies) > _LISTED:
        screen.hint(f"{len(counted.copies) - _LISTED} more sessions are there twice and counted once")
    for one in counted.skipped[:_LISTED]:
        screen.partly(f"{one['path']}: {one['reason']}")
    if len(counted.skipped) > _LISTED:
        screen.partly(f"{len(counted.skipped) - _LISTED} more logs cannot be read as they should be; --json lists them")
    if wanted:
        return
    if every.charges:
        screen.nothing(f"no request is like that; there are {len(every.charges)} others")
    elif every.inherited:
        screen.nothing("no request of its own; what it inherited is billed in its parent")
    elif counted.found:
        screen.nothing("no request reported or answered anything")
    else:
        screen.nothing("no sessions to count; turnlog ls lists those there are, --root DIR looks elsewhere")
