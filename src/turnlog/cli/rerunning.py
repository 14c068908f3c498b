"""The command that runs a session again: ``rerun``. What it does is in :mod:`.commands.rerun`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .opening import Which
from .options import AsJson, Latest, Roots, SessionName, screen_of


class _Results(StrEnum):
    """Where results of tools come from."""

    recorded = "recorded"
    live = "live"


def add_commands(app: typer.Typer) -> None:
    """Add it to the command line."""
    app.command("rerun")(_rerun)


def _rerun(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="ADDRESS", show_default=False, help="Live from this step or turn on: t3.s2, t3."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="PROVIDER/NAME", show_default=False, help="Who answers from there on."),
    ] = None,
    results: Annotated[
        _Results, typer.Option("--tool-results", help="From there on: as recorded, or run the built-in tools.")
    ] = _Results.recorded,
    listeners: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="MODULE:FUNCTION", show_default=False, help="Give it the agent, to add its listeners."
        ),
    ] = None,
    require_faithful: Annotated[
        bool, typer.Option("--require-faithful", help="Refuse when the steps before --from changed the workspace.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", show_default=False, help="Keep the new session here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a session again and compare.

    \b
      turnlog rerun --latest                        the loop, answered from the log
      turnlog rerun --latest --from t1.s1 --json    a live model from that step on

    Without --from no model is asked and no tool runs: a difference is a change of the loop, of Turnlog or of the
    listeners. With it the steps before come from the log and the others are live; tools ask nobody, so what the rules
    do not allow is denied. Exit code: 0 the same, 1 another log.
    """
    from .commands.rerun import Options, rerun

    options = Options(start, model, results.value == "live", tuple(listeners or ()), require_faithful, keep)
    rerun(screen_of(context), Which(session, latest, root or []), options, as_json=as_json)
