"""The commands and their options. Bodies are one call; what they do is in :mod:`turnlog.cli.commands`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated

import typer

from .opening import Which, split_words
from .options import AsJson, AsStored, Latest, Roots, SessionName
from .screen import Screen

app = typer.Typer(
    name="turnlog",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Read, verify, query and replay the session logs of agents.

\b
  turnlog ls                          which sessions there are
  turnlog show --latest               the outline of the newest one
  turnlog messages 27d2               what the model saw, of the session whose id begins so
  turnlog call session.jsonl call_1   the life of a tool call
  turnlog replay --latest --speed 4   watch it happen again

\b
A session is named by id, unique prefix, path, - (stdin) or --latest.
Addresses: t3  t3.s2  t3.s2.a1  call:ID  t3.s2.call:ID  msg:ID  @SEQ  @SEQ/k

\b
stdout is data only. Exit codes: 0 ok, 1 nothing found (verify: faults), 2 usage,
3 unreadable or unsupported, 4 read in part, 70 a fault of turnlog, 74 output
cannot be written, 130 interrupted, 141 the reader of the output went away.
--color auto|always|never and --no-pager work with every command; so do NO_COLOR,
COLUMNS and PAGER.
""",
)


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", "-V", is_eager=True, help="Print the version.")] = False,
) -> None:
    if version:
        from turnlog import __version__

        typer.echo(f"turnlog {__version__}")
        raise typer.Exit


@app.command("ls")
def _ls(context: typer.Context, root: Roots = None, as_json: AsJson = False) -> None:
    """List sessions, newest first. Damaged ones are rows with their reason (then the exit code is 4)."""
    from .commands.ls import ls

    ls(_screen(context), root or [], as_json=as_json)


@app.command("show")
def _show(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also messages, results and every other event, as short lines.")
    ] = False,
    as_stored: AsStored = False,
    as_json: AsJson = False,
) -> None:
    """Outline of a session: turns, steps, chunks, calls, and whatever is out of the ordinary."""
    from .commands.show import show

    which = Which(session, latest, root or [])
    show(_screen(context), which, everything=everything, as_stored=as_stored, as_json=as_json)


@app.command("events")
def _events(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    type: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only these types: tool/call, tool/*, several with commas.",
            show_default=False,
        ),
    ] = None,
    turn: Annotated[int | None, typer.Option("--turn", metavar="N", help="Only this turn.", show_default=False)] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="ADDRESS", help="From this event on (@SEQ, SEQ, t3, …).", show_default=False),
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", metavar="ADDRESS", help="Up to this event, included.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, metavar="N", help="At most so many.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Events as they are stored. With --json: one log line per line and nothing else (NDJSON)."""
    from .commands.events import Filter, events

    wanted = Filter(tuple(type or ()), turn, start, stop, limit)
    events(_screen(context), Which(session, latest, root or []), wanted, as_json=as_json)


@app.command("messages")
def _messages(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="SEQ", help="What the model saw before this event was appended.", show_default=False
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="SEQ", help="What it saw right after.", show_default=False)
    ] = None,
    as_stored: AsStored = False,
    as_json: AsJson = False,
) -> None:
    """The messages the model sees: derived from the log, one per line.

    --json prints {"schemaVersion", "messages"}; messages are in the canonical shape, unknown members kept. When some
    come from synthetic closers, "synthetic" lists their positions.
    """
    from .commands.messages import messages

    which = Which(session, latest, root or [])
    messages(_screen(context), which, before=before, after=after, as_stored=as_stored, as_json=as_json)


@app.command("turn")
def _turn(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="[SESSION] TURN", help="TURN is a number or t3.")],
    latest: Latest = False,
    root: Roots = None,
    as_json: AsJson = False,
) -> None:
    """Every event of a turn."""
    from .commands.turn import turn

    session, number = split_words(words, latest, "TURN")
    turn(_screen(context), Which(session, latest, root or []), number, as_json=as_json)


@app.command("call")
def _call(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="[SESSION] CALL", help="CALL is a call id, or its address.")],
    latest: Latest = False,
    root: Roots = None,
    as_json: AsJson = False,
) -> None:
    """The life of a tool call: block, argument stream, approvals, result, what cites it. All calls with that id."""
    from .commands.call import call

    session, name = split_words(words, latest, "CALL")
    call(_screen(context), Which(session, latest, root or []), name, as_json=as_json)


@app.command("sources")
def _sources(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="[SESSION] ADDRESS", help="@SEQ, SEQ, call:ID, msg:ID, …")],
    latest: Latest = False,
    root: Roots = None,
    as_json: AsJson = False,
) -> None:
    """Where something comes from: what it cites, what cites it, and what took its place."""
    from .commands.sources import sources

    session, address = split_words(words, latest, "ADDRESS")
    sources(_screen(context), Which(session, latest, root or []), address, as_json=as_json)


@app.command("replay")
def _replay(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    speed: Annotated[float, typer.Option("--speed", metavar="X", help="2 is twice as fast, 0 does not wait.")] = 1.0,
    start: Annotated[
        str | None, typer.Option("--from", metavar="ADDRESS", help="Begin here.", show_default=False)
    ] = None,
    idle_limit: Annotated[
        float, typer.Option("--idle-limit", metavar="SECONDS", help="Cut longer waits to this; inf never cuts.")
    ] = 5.0,
    as_stored: AsStored = False,
    as_json: AsJson = False,
) -> None:
    """Watch a session again at its recorded token timing.

    --json prints one frame per line at once, each with its waitMs, and does not wait.
    """
    from .commands.replay import replay

    which = Which(session, latest, root or [])
    replay(_screen(context), which, speed=speed, start=start, idle_limit=idle_limit, as_stored=as_stored,
           as_json=as_json)  # fmt: skip


@app.command("verify")
def _verify(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    forensic: Annotated[
        bool, typer.Option("--forensic", help="Also say what is readable of a log that strict readers refuse.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a log against every rule. Exit code: 0 ok, 1 faults, 3 refused, 4 torn tail (or refused, --forensic)."""
    from .commands.verify import verify

    verify(_screen(context), Which(session, latest, root or []), forensic=forensic, as_json=as_json)


@cache
def command() -> Callable[..., object]:
    """All commands, put together once."""
    return typer.main.get_command(app)


def _screen(context: typer.Context) -> Screen:
    screen = context.obj
    assert isinstance(screen, Screen)
    return screen
