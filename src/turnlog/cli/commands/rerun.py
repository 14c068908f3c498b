"""``turnlog rerun``"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnlog.agent import Agent
from turnlog.log import Session
from turnlog.model import UnknownProvider
from turnlog.rerun import NotFaithful, Rerun, effects_before
from turnlog.rerun import rerun as run_again
from turnlog.store import open_store
from turnlog.tools import Approvals, approval_settings
from turnlog.tools.builtin import builtin_tools
from turnlog.views.address import AddressError
from turnlog.views.normal import NormalEvent

from ..json_views import document
from ..opening import Which, open_session
from ..problems import WrongUsage
from ..screen import Screen, Styled
from .work import SETTINGS

DIFFERENT = 1


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    start: str | None
    model: str | None
    live_tools: bool
    listeners: tuple[str, ...]
    require_faithful: bool
    keep: Path | None


def rerun(screen: Screen, which: Which, options: Options, *, as_json: bool) -> None:
    """Run a session again; print where it differs."""
    if options.start is None and (options.model is not None or options.live_tools or options.require_faithful):
        raise WrongUsage("--model, --tool-results live and --require-faithful need --from: where the recording ends")
    session = open_session(screen, which)
    listeners = [_listener(name) for name in options.listeners]
    workspace = Path(session.header.cwd or ".")
    approvals = Approvals(approval_settings(workspace / SETTINGS).rules) if options.live_tools else None
    try:
        _warn(screen, session, options)
        made = asyncio.run(
            _run(
                options.keep,
                run_again(
                    session,
                    from_=options.start,
                    model=options.model,
                    tools=builtin_tools() if options.live_tools else "recorded",
                    listeners=listeners,
                    approvals=approvals,
                    require_faithful=options.require_faithful,
                ),
            )
        )
    except (NotFaithful, AddressError, UnknownProvider) as error:
        raise WrongUsage(str(error)) from error
    if as_json:
        screen.json(_view(made, options.keep))
    else:
        _print(screen, made, options.keep)
    if not made.same:
        screen.code = DIFFERENT


def _warn(screen: Screen, session: Session, options: Options) -> None:
    """Say what cannot be as it was, before anything is done."""
    had = () if options.start is None else effects_before(session, options.start)
    if had and not options.require_faithful:
        screen.hint(f"the steps before {options.start} changed the workspace, and it may not be as it was then:")
        for one in had:
            screen.aside(f"  {one}")


async def _run(keep: Path | None, running: Any) -> Rerun:
    made: Rerun = await running
    if keep is not None:
        async with open_store(keep) as store:
            store.keep(made.session)
            for line in made.summary():
                made.session.note(line)
            await made.session.durable()
    return made


def _listener(name: str) -> Callable[[Agent], object]:
    """The function that adds listeners to an agent."""
    module, colon, function = name.partition(":")
    if not colon or not module or not function:
        raise WrongUsage(f"--with {name}: name a module and a function in it, module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as python -m does
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise WrongUsage(f"--with {name}: {error}") from error
    if not callable(found):
        raise WrongUsage(f"--with {name}: it is no function that takes an agent")
    return found  # type: ignore[no-any-return]


def _print(screen: Screen, made: Rerun, keep: Path | None) -> None:
    for line in made.summary():
        screen.line(line)
    if keep is not None:
        screen.line(f"kept as {made.session.id} in {keep}")
    found = made.divergence
    if found is None:
        screen.line(Styled("no divergence", "green"))
        return
    screen.line(Styled("first divergence", "red"), f"  {found}")
    for side, event in (("recorded", found.left), ("now", found.right)):
        for place, line in enumerate(_lines(event)):
            screen.line(f"  {side if not place else '':10}", line)


def _lines(event: NormalEvent | None) -> list[str]:
    if event is None:
        return ["nothing more"]
    body = json.dumps(event.data, ensure_ascii=False)
    shown = body if len(body) <= 2000 else f"{body[:1999]}…"
    return [f"{event.address} {event.type}", shown]


def _view(made: Rerun, keep: Path | None) -> dict[str, Any]:
    found = made.divergence
    return document(
        recorded=made.recorded.id,
        session=made.session.id,
        kept=None if keep is None else str(keep),
        same=made.same,
        ended=made.how or "completed",
        liveFrom=made.live_from,
        effects=[{"address": one.address, "name": one.name, "arguments": one.arguments} for one in made.effects],
        replayedFailures=made.replayed,
        steps=[{"address": one.address, "live": one.live, "seq": one.seq} for one in made.steps],
        divergence=None
        if found is None
        else {
            "index": found.index,
            "path": found.path,
            "recorded": _side(found.left, found.left_value),
            "now": _side(found.right, found.right_value),
        },
    )


def _side(event: NormalEvent | None, value: Any) -> dict[str, Any] | None:
    if event is None:
        return None
    return {"address": event.address, "type": event.type, "value": value, "data": event.data}
