"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from .completion import session_ids
from .screen import Screen

SessionName: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        show_default=False,
        autocompletion=session_ids,
        help="Id, unique prefix of one, file, session directory, or - for stdin.",
    ),
]
Latest: TypeAlias = Annotated[bool, typer.Option("--latest", help="The newest session instead of a named one.")]
Roots: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--root", metavar="DIR", show_default=False, help="Look for sessions here; may be given again."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsStored: TypeAlias = Annotated[
    bool, typer.Option("--as-stored", help="Leave out the synthetic closers of a log whose writer is gone.")
]
Since: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="WHEN", show_default=False, help="Not before: 2026-01-31, 2026-01-31T09:30:00Z, 2h, 3d."
    ),
]
Until: TypeAlias = Annotated[
    str | None, typer.Option("--until", metavar="WHEN", show_default=False, help="Not after; a date is the whole day.")
]
Limit: TypeAlias = Annotated[
    int | None, typer.Option("--limit", min=0, metavar="N", show_default=False, help="At most so many.")
]


def screen_of(context: typer.Context) -> Screen:
    """Where a command prints."""
    screen = context.obj
    assert isinstance(screen, Screen)
    return screen
