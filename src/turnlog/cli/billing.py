"""The command that counts tokens and money: usage. What it does is in :mod:`.commands`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .completion import session_ids
from .options import AsJson, Latest, Limit, Roots, Since, Until, screen_of


class _By(StrEnum):
    """What rows are about."""

    session = "session"
    day = "day"
    model = "model"
    project = "project"
    tool = "tool"
    turn = "turn"


def add_commands(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command("usage")(_usage)


def _usage(
    context: typer.Context,
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SESSION]…",
            show_default=False,
            autocompletion=session_ids,
            help="Ids, unique prefixes, files, or - for stdin; without any, all sessions.",
        ),
    ] = None,
    latest: Latest = False,
    root: Roots = None,
    by: Annotated[
        _By | None,
        typer.Option("--by", show_default=False, help="A row for each; by default session, or turn of one session."),
    ] = None,
    since: Since = None,
    until: Until = None,
    project: Annotated[
        str | None,
        typer.Option(
            "--project", metavar="DIR", show_default=False, help="Only of this directory (or name) and below."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", show_default=False, help="Only of this model: part of its name."),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option("--prices", metavar="FILE", show_default=False, help="Prices (TOML) that go before all others."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also sessions of Claude Code and Codex in their usual places.")
    ] = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Tokens and cost, each request billed once.

    \b
      turnlog usage --by day --since 30d                what every day came to
      turnlog usage --by model --timezone Europe/Berlin --since 2026-11-01
      turnlog usage --latest                            the newest session, turn by turn
      turnlog usage session-9b26 --by tool              what led to calls of which tools
      turnlog usage --by project --json                 for programs, money in micro-dollars

    INPUT is what no cache knew; REASONING is part of OUTPUT. Retried attempts count, what a fork inherited does not.
    A request belongs to the day on which its usage was logged. ~ marks a cost that is estimated, ≥ one of which a part
    is unknown; standard error says why. --since and --until go by requests. Prices are looked up in FILE, in [prices]
    of turnlog.toml here, in ~/.config/turnlog/prices.toml, then in Turnlog's own table.
    """
    from .commands.usage import Asked, usage

    asked = Asked(tuple(sessions or ()), latest, None if by is None else by.value, since, until, project, model, prices,
                  everything, limit)  # fmt: skip
    usage(screen_of(context), root or [], asked, as_json=as_json)
