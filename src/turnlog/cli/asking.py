"""The commands that ask where something comes from."""

from __future__ import annotations

from typing import Annotated

import typer

from .completion import session_ids
from .opening import Which, split_words
from .options import AsJson, Latest, Roots, screen_of
from .problems import WrongUsage


def add_commands(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command("trace")(_trace)


def _trace(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="[SESSION] ADDRESS", autocompletion=session_ids, help="@SEQ, SEQ, call:ID, msg:ID, …"),
    ],
    latest: Latest = False,
    root: Roots = None,
    back: Annotated[bool, typer.Option("--back", help="Only what it rests on.")] = False,
    forward: Annotated[bool, typer.Option("--forward", help="Only what came of it.")] = False,
    as_json: AsJson = False,
) -> None:
    """What something came of, and what came of it.

    \b
      turnlog trace session.jsonl @5                    an answer: its very tokens, and the calls it led to
      turnlog trace session.jsonl call:call_1 --back    what a tool's result rests on
      turnlog trace session.jsonl @2 --forward          what a prompt led to

    Sources and replaces are followed to the end. What only turn, step and call id say is marked inferred; where the log
    does not state sources they are unknown.
    """
    from .commands.trace import trace

    if back and forward:
        raise WrongUsage("--back and --forward exclude each other; without either, both are shown")
    session, address = split_words(words, latest, "ADDRESS")
    which = Which(session, latest, root or [])
    trace(screen_of(context), which, address, "back" if back else "forward" if forward else "both", as_json=as_json)
