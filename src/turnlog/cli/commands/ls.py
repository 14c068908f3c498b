"""``turnlog ls``

What it shows comes from the index; nothing that reads logs is imported unless a log has to be read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnlog.catalogue.index import Catalogue, Listed, Skip
from turnlog.catalogue.places import default_roots

from ..problems import WrongUsage
from ..progress import Progress
from ..screen import Screen, Styled
from ..text import ago, rfc3339, visible

if TYPE_CHECKING:
    from turnlog.store.foreign import ForeignEntry

    from ..moments import Period

_UNKNOWN: Final = "-"
SORTS: Final = ("created", "modified", "turns", "tokens", "cost", "size", "title", "project")
"""What ``--sort`` takes."""


@dataclass(frozen=True)
class Wanted:
    """Which sessions are listed, and how."""

    since: str | None = None
    until: str | None = None
    limit: int | None = None
    project: str | None = None
    model: str | None = None
    errors: bool = False
    live: bool = False
    sort: str = "created"
    reverse: bool = False
    foreign: bool = False
    """Also those of other programs."""


class Row(NamedTuple):
    """One session of the list."""

    id: str
    path: str
    source: str
    """``turnlog``, or the program whose session it is."""
    created_ms: int
    modified_ms: int
    size: int
    cwd: str | None
    title: str
    model: str
    """``provider/model``"""
    turns: int
    tokens: int
    cost: int | None
    """Micro-dollars."""
    exact: bool
    end: str
    failed: int
    problem: str
    trouble: str
    listed: Listed | None


def ls(screen: Screen, roots: Sequence[Path], wanted: Wanted, *, as_json: bool) -> None:
    """List the sessions under *roots*, or in the usual places; of those that are wanted the first."""
    if wanted.sort not in SORTS:
        raise WrongUsage(f"--sort takes {', '.join(SORTS)}, not {wanted.sort!r}")
    period = screen.clock.period(wanted.since, wanted.until)
    places = places_of(roots)
    with Catalogue(places, say=screen.hint, progress=Progress(screen, "sessions are indexed")) as catalogue:
        chosen = _choose(catalogue.sessions(), wanted, period)
        skips = [one for one in catalogue.skipped() if period.has(one.modified_ms)]
        rows = chosen.rows
        live = {row.path: is_live(row) for row in rows}
        if as_json:
            _json(screen, catalogue, rows, live, skips)
        else:
            _table(screen, rows, live)
            for one in skips:
                screen.line(Styled(f"skipped: {one.path}: {one.reason}", "yellow"))
    _warn(screen, rows, skips)
    if len(rows) < chosen.found:
        screen.hint(f"{len(rows)} of {chosen.found} sessions are shown; raise --limit for more")
    elif chosen.every and not chosen.timely:
        screen.nothing(f"no session began in that time; there are {chosen.every} of other times")
    elif chosen.every and not chosen.found:
        screen.nothing(f"no session is like that; there are {chosen.timely} others")
    elif not chosen.every:
        where = ", ".join(map(str, places)) or "~/.turnlog/sessions or ~/.dsh/sessions"
        screen.nothing(f"no sessions under {where}; --root DIR looks elsewhere")


class _Chosen(NamedTuple):
    """The rows to show, and how many sessions there are."""

    rows: list[Row]
    found: int
    """That are wanted, whatever the limit."""
    timely: int
    """That began in the time asked for."""
    every: int


def _choose(sessions: Sequence[Listed], wanted: Wanted, period: Period) -> _Chosen:
    if wanted == Wanted(since=wanted.since, until=wanted.until, limit=wanted.limit):  # rows are only made to be shown
        timely = [one for one in sessions if period.has(one.record.created_ms)]
        return _Chosen([_row(one) for one in timely[: wanted.limit]], len(timely), len(timely), len(sessions))
    every = [_row(one) for one in sessions]
    every += [_foreign_row(one) for one in _foreign()] if wanted.foreign else []
    if wanted.foreign or wanted.sort != "created" or wanted.reverse:
        every.sort(key=_order(wanted.sort), reverse=wanted.reverse)
    rows = [row for row in every if period.has(row.created_ms)]
    found = _fitting(rows, wanted)
    return _Chosen(found[: wanted.limit], len(found), len(rows), len(every))


def places_of(roots: Sequence[Path]) -> list[Path]:
    """The directories that ``--root`` names, or the usual places. Raises :class:`WrongUsage` for one that is none."""
    for root in roots:
        if not root.is_dir():
            raise WrongUsage(f"--root {root}: {'not a directory' if root.exists() else 'no such directory'}")
    return list(roots) or default_roots()


def in_project(project: str) -> Callable[[str | None], bool]:
    """Whether a working directory is of a project: a path means that directory and what is below it, a name any
    directory of that name and what is below it."""
    if os.sep not in project and project not in (os.curdir, os.pardir):
        return lambda cwd: cwd is not None and project in cwd.replace("\\", "/").split("/")
    path = os.path.abspath(os.path.expanduser(project))
    return lambda cwd: cwd is not None and (cwd == path or cwd.startswith(path.rstrip("/") + "/"))


def uses_model(model: str) -> Callable[[str], bool]:
    """Whether ``provider/model`` is meant by a name, a part of one, or a pattern, in any case."""
    meant = model.lower()
    if any(character in meant for character in "*?["):
        return lambda name: fnmatchcase(name.lower(), meant) or fnmatchcase(name.lower().rpartition("/")[2], meant)
    return lambda name: meant in name.lower()


def is_live(row: Row) -> bool:
    """Whether somebody writes to it right now."""
    return row.listed is not None and row.listed.live


def _fitting(rows: Sequence[Row], wanted: Wanted) -> list[Row]:
    found = list(rows)
    if wanted.project is not None:
        of_project = in_project(wanted.project)
        found = [row for row in found if of_project(row.cwd)]
    if wanted.model is not None:
        of_model = uses_model(wanted.model)
        found = [row for row in found if row.model and of_model(row.model)]
    if wanted.errors:
        found = [row for row in found if row.failed]
    return [row for row in found if is_live(row)] if wanted.live else found


_ORDERS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "created": lambda row: -row.created_ms,
    "modified": lambda row: -row.modified_ms,
    "turns": lambda row: -row.turns,
    "tokens": lambda row: -row.tokens,
    "cost": lambda row: -(row.cost or 0),
    "size": lambda row: -row.size,
    "title": lambda row: (not row.title, row.title.casefold()),
    "project": lambda row: (row.cwd is None, row.cwd or ""),
}


def _order(sort: str) -> Callable[[Row], Any]:
    order = _ORDERS[sort]
    return lambda row: (order(row), -row.created_ms, row.id, row.path)


def _row(one: Listed) -> Row:
    record = one.record
    totals = record.totals
    model = f"{totals.provider}/{totals.model}" if totals.provider else totals.model
    tokens = sum(used.input + used.output + used.cache_read + used.cache_write for used in totals.tokens)
    modified = record.identity.modified_ns // 1_000_000
    return Row(record.id, one.path, "turnlog", record.created_ms, modified, record.identity.size, record.cwd,
               totals.shown_title, model, totals.turns, tokens, totals.micro_usd, totals.exact, totals.end,
               totals.failed, one.problem, one.trouble, one)  # fmt: skip


def _foreign() -> list[ForeignEntry]:
    from turnlog.store.foreign import discover

    return discover()


def _foreign_row(one: ForeignEntry) -> Row:
    trouble = "unreadable" if one.problem else ""
    return Row(one.id, str(one.path), one.kind, one.created_ms, one.modified_ms, one.size, one.cwd, one.title or "",
               "", 0, 0, None, False, "", 0, one.problem or "", trouble, None)  # fmt: skip


def _warn(screen: Screen, rows: Sequence[Row], skips: Sequence[Skip]) -> None:
    """Say that something is wrong, without which nobody would look at the end of long rows."""
    bad = sum(bool(row.problem) for row in rows)
    if bad:
        have = "has a problem" if bad == 1 else "have problems"
        screen.partly(f"{bad} of {len(rows)} sessions {have}; turnlog verify says more about each")
    if skips:
        screen.partly(f"{len(skips)} {'log is' if len(skips) == 1 else 'logs are'} skipped, for the reasons listed")


# -- JSON -----------------------------------------------------------------------------------------------------------


def _json(
    screen: Screen, catalogue: Catalogue, rows: Sequence[Row], live: Mapping[str, bool], skips: Sequence[Skip]
) -> None:
    headers = [None if row.listed is None else catalogue.header(row.listed) for row in rows]
    views = ",".join(_view(row, live[row.path], header) for row, header in zip(rows, headers, strict=True))
    left = _dump([{"path": one.path, "reason": one.reason} for one in skips])
    screen.json_lines((f'{{"schemaVersion":1,"sessions":[{views}],"skipped":{left}}}'.encode(),))


def _view(row: Row, live: bool, header: bytes | None) -> str:
    record = None if row.listed is None else row.listed.record
    known = record is None or header is not None
    said = None if record is None else record.totals
    view = {
        "id": row.id,
        "path": row.path,
        "source": row.source,
        "version": record.version if record is not None and known else None,
        "size": row.size,
        "createdAt": rfc3339(row.created_ms) if known else None,
        "modifiedAt": rfc3339(row.modified_ms),
        "cwd": row.cwd,
        "title": row.title or None,
        "model": row.model or None,
        "events": None if said is None else said.events,
        "turns": None if said is None else said.turns,
        "failedTurns": None if said is None else said.failed,
        "tokens": None if said is None else _tokens(said.used._asdict(), row.tokens),
        "costMicroUsd": row.cost,
        "costExact": row.exact,
        "end": shown_end(row.end, live) or None,
        "live": live,
        "trouble": row.trouble or None,
        "problem": row.problem or None,
    }
    return f'{_dump(view)[:-1]},"header":{"null" if header is None else header.decode()}}}'


def _tokens(used: Mapping[str, Any], total: int) -> dict[str, int]:
    names = {"input": "input", "output": "output", "cache_read": "cacheRead", "cache_write": "cacheWrite",
             "reasoning": "reasoning"}  # fmt: skip
    return {"total": total, **{shown: used[name] for name, shown in names.items()}}


def _dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # halves of broken pairs
        return json.dumps(value, separators=(",", ":"))
    return text


# -- the table ------------------------------------------------------------------------------------------------------

_TITLES: Final = ("SESSION", "CREATED", "MODEL", "TURNS", "TOKENS", "COST", "END", "LIVE", "DIRECTORY", "TITLE")
_RIGHT: Final = frozenset({"TURNS", "TOKENS", "COST"})


def _table(screen: Screen, rows: Sequence[Row], live: Mapping[str, bool]) -> None:
    """Aligned columns; what is wrong with a session stands at the end of its row."""
    if not rows:
        return
    aged = screen.terminal and not screen.clock.chosen
    now = time.time_ns() // 1_000_000
    cells = [_cells(screen, row, live[row.path], now if aged else None) for row in rows]
    columns = list(zip(_TITLES, *cells, strict=True))
    shown = [one for one in columns if one[0] not in ("LIVE", "COST", "TITLE") or any(one[1:])]
    shown = [one for one in shown if one[0] != "COST" or any(cell != _UNKNOWN for cell in one[1:])]
    lines = ["  ".join(line).rstrip() for line in zip(*map(_aligned, shown), strict=True)]
    last = "  PROBLEM" if any(row.problem for row in rows) else ""
    screen.line(Styled(lines[0] + last, "bold"))
    plain: list[str] = []
    for row, line in zip(rows, lines[1:], strict=True):
        if not row.problem:
            plain.append(line if line.isprintable() else visible(line))
        else:
            _lines(screen, plain)
            plain.clear()
            said = f"{row.trouble}: {row.problem} ({row.path})"
            screen.line(line, "  ", Styled(said, "red" if row.trouble == "damaged" else "yellow"))
    _lines(screen, plain)


def _lines(screen: Screen, lines: Sequence[str]) -> None:
    """Print lines that hold no line ends, all at once: ten thousand one by one take longer than finding them."""
    if lines:
        screen.write("\n".join(lines) + "\n")


def _aligned(column: tuple[str, ...]) -> list[str]:
    width = max(map(len, column))
    if column[0] == "TITLE":
        return list(column)
    return [cell.rjust(width) for cell in column] if column[0] in _RIGHT else [cell.ljust(width) for cell in column]


def _cells(screen: Screen, row: Row, live: bool, now: int | None) -> tuple[str, ...]:
    """Somebody at a terminal sees ages, unless they asked for a time zone. What only a log says needs one."""
    if row.listed is not None and not row.listed.record.headed:
        return row.id, *(_UNKNOWN,) * 6, "live" if live else "", "", ""
    when = ago(now - row.created_ms) if now is not None else screen.clock.show(row.created_ms)
    counts = (str(row.turns), short(row.tokens)) if row.listed is not None else (_UNKNOWN, _UNKNOWN)
    cost = _UNKNOWN if row.cost is None or not row.tokens else dollars(row.cost, exact=row.exact)
    title = row.title if row.source == "turnlog" else f"[{row.source}] {row.title}"
    return (row.id, when, row.model.rpartition("/")[2] or _UNKNOWN, *counts, cost, shown_end(row.end, live) or _UNKNOWN,
            "live" if live else "", row.cwd or "", title)  # fmt: skip


def shown_end(end: str, live: bool) -> str:
    """How the last turn ended. One that did not is running, or its writer is gone."""
    return end if end != "open" else "running" if live else "interrupted"


def dollars(micro: int, *, exact: bool) -> str:
    """Money for people; ``~`` says that it is an estimate, or the least."""
    digits = 2 if micro >= 10_000 else 4
    return f"{'' if exact else '~'}${micro / 1_000_000:.{digits}f}"


def short(count: int) -> str:
    """A number of tokens for people."""
    amount = float(count)
    for unit in ("", "k", "M"):
        if amount < 1000 or unit == "M":
            return f"{count}" if not unit else f"{amount:.1f}{unit}"
        amount /= 1000
    raise AssertionError
