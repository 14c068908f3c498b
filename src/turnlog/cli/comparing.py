"""The commands that set one thing against another: context, diff, fork. What they do is in :mod:`.commands`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .completion import session_ids
from .opening import Which, split_words
from .options import AsJson, Latest, Roots, screen_of


class _Over(StrEnum):
    """What is compared."""

    structure = "structure"
    events = "events"
    messages = "messages"
    context = "context"


def add_commands(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command("context")(_context)
    app.command("diff")(_diff)
    app.command("fork")(_fork)


def _context(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SESSION] STEP", autocompletion=session_ids, help="STEP is t3.s2, or t3.s2.a1 for one attempt."
        ),
    ],
    latest: Latest = False,
    root: Roots = None,
    against: Annotated[
        str | None,
        typer.Option("--diff", metavar="STEP", show_default=False, help="What changed since the request of this one."),
    ] = None,
    projector: Annotated[
        str | None,
        typer.Option(
            "--projector",
            metavar="MODULE:NAME",
            show_default=False,
            help="Set another projection of the same history against it.",
        ),
    ] = None,
    wire: Annotated[bool, typer.Option("--wire", help="Print the provider's body and nothing else.")] = False,
    as_json: AsJson = False,
) -> None:
    """What the model was sent.

    \b
      turnlog context session.jsonl t1.s1              the request of a step: system, tools, config, messages
      turnlog context --latest t1.s1.a1 --json         that of one attempt, for programs
      turnlog context --latest t1.s1 --diff t1.s1      what changed, and where the prompt cache broke

    It is made again from the log; when a hash of the request was kept as it left, it says whether that confirms it.
    = is in both, + came, - went, ~ took the place of others. MODULE:NAME is a Projector, or a function that makes a
    message of an event; the module is looked for in the current directory as well.
    """
    from .commands.context import show_context

    session, step = split_words(words, latest, "STEP")
    which = Which(session, latest, root or [])
    show_context(screen_of(context), which, step, against=against, projector=projector, wire=wire, as_json=as_json)


def _diff(
    context: typer.Context,
    left: Annotated[
        str, typer.Argument(metavar="A", autocompletion=session_ids, help="A session: id, prefix or path.")
    ],
    right: Annotated[str, typer.Argument(metavar="B", autocompletion=session_ids, help="The other one.")],
    root: Roots = None,
    over: Annotated[
        _Over,
        typer.Option(
            "--over", show_default=False, help="Compare structure (the default), events, messages, or a context."
        ),
    ] = _Over.structure,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="STEP", show_default=False, help="The step whose request is compared: t3.s2."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Where two sessions part.

    \b
      turnlog diff session.jsonl session.jsonl                       turns, steps, calls, results, tokens
      turnlog diff session.jsonl session.jsonl --over events         event by event, without times, seqs and ids
      turnlog diff session.jsonl session.jsonl --over context --at t1.s1

    Turns are matched by what was asked, steps and calls by tool and arguments; formats, seqs and ids do not count, and
    times are shown but never a difference. Exit code: 0 the same, 1 different.
    """
    from .commands.diff import show

    show(screen_of(context), left, right, root or [], over=over.value, at=at, as_json=as_json)


def _fork(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SESSION] ADDRESS", autocompletion=session_ids, help="Up to here, included: @SEQ, t3, call:ID, …"
        ),
    ],
    latest: Latest = False,
    root: Roots = None,
    before: Annotated[bool, typer.Option("--before", help="Up to just before ADDRESS.")] = False,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", show_default=False, help="Its id; a fresh one by default.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", show_default=False, help="Root for the fork; that of its parent."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go on from a place in a session, as a new one.

    \b
      turnlog fork session-9b26 t1                      everything up to the end of turn 1
      turnlog fork session-9b26 t1.s2 --before          back to just before step 2
      turnlog fork --latest @7 --id session-again --json

    The new session begins with the old one's events, byte for byte; what the cut left open is closed. Prints its id,
    for turnlog resume. Only format 0 is forked: turnlog convert makes a format-0 session of any other.
    """
    from .commands.fork import fork_session

    session, address = split_words(words, latest, "ADDRESS")
    which = Which(session, latest, root or [])
    fork_session(screen_of(context), which, address, before=before, id=id, out=out, as_json=as_json)
