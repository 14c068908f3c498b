"""The commands and their options. Bodies are one call; what they do is in :mod:`turnlog.cli.commands`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated

import typer

from . import asking, billing, comparing, finding, keeping, rerunning, working
from .completion import event_types, granularities, kinds, moments, session_ids
from .opening import Which, split_words
from .options import AsJson, AsStored, Latest, Limit, Roots, SessionName, Since, Until, screen_of

app = typer.Typer(
    name="turnlog",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Run agents, and read, verify, query and replay their session logs.

\b
  turnlog run "fix the typo"          an agent works on it; its session is kept
  turnlog resume                      go on with the newest session, after a crash as well
  turnlog ls                          which sessions there are
  turnlog show --latest               the outline of the newest one
  turnlog messages session-9b26       what the model saw, of the session whose id begins so
  turnlog call session.jsonl call_1   the life of a tool call
  turnlog replay --latest --speed 4   watch it happen again

\b
A session is named by id, a unique beginning of it (with or without session-), path,
- (stdin) or --latest.
Addresses: t3  t3.s2  t3.s2.a1  call:ID  t3.s2.call:ID  msg:ID  @SEQ  @SEQ/k

\b
stdout is data only. Exit codes: 0 ok, 1 nothing found (verify: faults), 2 usage,
3 unreadable or unsupported, 4 read in part, 70 a fault of turnlog, 74 output
cannot be written, 130 interrupted, 141 the reader of the output went away. Of run,
chat and resume: 0 completed, 10 error, 11 cut by the output limit, 12 blocked,
13 interrupted, 130 aborted.
--json prints times in UTC; tables print local time, or that of --timezone.
--color, --no-pager and --timezone may stand anywhere; NO_COLOR, COLUMNS, PAGER and
TZ are honoured.
""",
)


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", "-V", is_eager=True, help="Print the version.")] = False,
    # Taken out of the line before it is parsed (run.py); here for the help and for shells.
    _color: Annotated[
        str, typer.Option("--color", metavar="auto|always|never", show_default=False, help="Colour the output.")
    ] = "auto",
    _no_pager: Annotated[bool, typer.Option("--no-pager", help="Never start a pager.")] = False,
    _timezone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", show_default=False, help="local, UTC or Europe/Berlin.")
    ] = "local",
) -> None:
    if version:
        from turnlog import __version__

        typer.echo(f"turnlog {__version__}")
        raise typer.Exit


working.add_commands(app)


finding.add_list(app)


@app.command("show")
def _show(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also messages, results and every other event, as short lines.")
    ] = False,
    captured: Annotated[
        bool, typer.Option("--captured", help="What the log holds and what it does not, instead of the outline.")
    ] = False,
    as_stored: AsStored = False,
    as_json: AsJson = False,
) -> None:
    """Outline of a session.

    \b
      turnlog show --latest                 turns, steps, chunks and calls of the newest one
      turnlog show session.jsonl --all      also messages, results and all other events
      turnlog show session-9b26 --json      for programs: with times, durations, usage
      turnlog show session.jsonl --captured

    Without --all, events that are neither boundary, chunk nor call show only when they are out of the ordinary:
    failures, retries, decisions.
    """
    from .commands.show import show, show_captured

    which = Which(session, latest, root or [])
    if captured:
        show_captured(screen_of(context), which, as_json=as_json)
        return
    show(screen_of(context), which, everything=everything, as_stored=as_stored, as_json=as_json)


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
            autocompletion=event_types,
            help="Only these types: tool/call, tool/*, several with commas.",
            show_default=False,
        ),
    ] = None,
    turn: Annotated[
        str | None, typer.Option("--turn", metavar="TURN", help="Only this turn: 3 or t3.", show_default=False)
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="ADDRESS", help="From this event on (@SEQ, SEQ, t3, …).", show_default=False),
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", metavar="ADDRESS", help="Up to this event, included.", show_default=False)
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(
            "--around", metavar="ADDRESS", help="This place and the events before and after it.", show_default=False
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option("--window", metavar="N", help="With --around: how many (5).", show_default=False),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="TOOL", help="Only about calls of these: bash, file_*.", show_default=False),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only what says this, in any case.", show_default=False)
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only failures.")] = False,
    surface: Annotated[
        list[str] | None,
        typer.Option(
            "--surface", metavar="PLACE", help="Only current, shadowed or log-only events.", show_default=False
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    header: Annotated[
        bool, typer.Option("--header", help="With --json: the log's header line first, so that it loads again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Events as they are stored.

    \b
      turnlog events session.jsonl --type tool/call,tool/result
      turnlog events session.jsonl --turn 1 --from @3 --limit 20
      turnlog events session.jsonl --around call:call_1 --window 3
      turnlog events session.jsonl --tool bash --text runoob
      turnlog events --latest --surface current,shadowed
      turnlog events --latest --since 10m       what was logged in the last ten minutes
      turnlog events --latest --json | jq .type
      turnlog events session-9b26 --json --header | turnlog verify -

    All conditions have to hold. --text looks at what was said, called and answered; --errors finds failed results,
    requests and turns. --json prints one log line per line and nothing else (NDJSON). What a second writer
    wrote and cannot follow the log comes after it, under a heading, or with a member "branch".
    """
    from .commands.events import Filter, events

    wanted = Filter(tuple(type or ()), turn, since, until, start, stop, limit, tuple(tool or ()), text, errors,
                    tuple(surface or ()), around, width)  # fmt: skip
    events(screen_of(context), Which(session, latest, root or []), wanted, header=header, as_json=as_json)


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
    """The messages the model sees, one per line.

    \b
      turnlog messages session.jsonl                what it sees now
      turnlog messages session.jsonl --before @5    what it saw before event 5 was appended
      turnlog messages --latest --json              for programs

    --json prints {"schemaVersion", "messages"}; messages are in the canonical shape, unknown members kept. When some
    come from synthetic closers, "synthetic" lists their positions.
    """
    from .commands.messages import messages

    which = Which(session, latest, root or [])
    messages(screen_of(context), which, before=before, after=after, as_stored=as_stored, as_json=as_json)


@app.command("turn")
def _turn(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="[SESSION] TURN", autocompletion=session_ids, help="TURN is a number or t3."),
    ],
    latest: Latest = False,
    root: Roots = None,
    as_stored: AsStored = False,
    as_json: AsJson = False,
) -> None:
    """Every event of a turn.

    \b
      turnlog turn session.jsonl 1
      turnlog turn --latest t1 --json
    """
    from .commands.turn import turn

    session, number = split_words(words, latest, "TURN")
    turn(screen_of(context), Which(session, latest, root or []), number, as_stored=as_stored, as_json=as_json)


@app.command("call")
def _call(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="[SESSION] CALL", autocompletion=session_ids, help="CALL is a call id, or its address."),
    ],
    latest: Latest = False,
    root: Roots = None,
    as_json: AsJson = False,
) -> None:
    """The life of a tool call.

    \b
      turnlog call session.jsonl call_1                  every call with that id
      turnlog call session.jsonl t1.s1.call:call_1       one of them

    Block, argument stream, approvals, result, and what cites it.
    """
    from .commands.call import call

    session, name = split_words(words, latest, "CALL")
    call(screen_of(context), Which(session, latest, root or []), name, as_json=as_json)


@app.command("sources")
def _sources(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="[SESSION] ADDRESS", autocompletion=session_ids, help="@SEQ, SEQ, call:ID, msg:ID, …"),
    ],
    latest: Latest = False,
    root: Roots = None,
    as_json: AsJson = False,
) -> None:
    """Where something comes from.

    \b
      turnlog sources session.jsonl @5            what event 5 cites and what cites it
      turnlog sources session.jsonl call:call_1   the same for a call

    Also what it took the place of, and what took its place.
    """
    from .commands.sources import sources

    session, address = split_words(words, latest, "ADDRESS")
    sources(screen_of(context), Which(session, latest, root or []), address, as_json=as_json)


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
    until: Annotated[
        str | None, typer.Option("--until", "--to", metavar="ADDRESS", help="End here, included.", show_default=False)
    ] = None,
    idle_limit: Annotated[
        float, typer.Option("--idle-limit", metavar="SECONDS", help="Cut longer waits to this; inf never cuts.")
    ] = 5.0,
    granularity: Annotated[
        str,
        typer.Option(
            "--granularity",
            metavar="token|block|step|turn",
            autocompletion=granularities,
            help="What is shown at once.",
        ),
    ] = "token",
    stall: Annotated[
        float | None,
        typer.Option(
            "--stall", metavar="SECONDS", show_default=False, help="Mark longer gaps between tokens; inf marks none."
        ),
    ] = None,
    as_stored: AsStored = False,
    as_json: AsJson = False,
) -> None:
    """Watch a session again at its recorded timing.

    \b
      turnlog replay --latest --speed 4                   four times as fast
      turnlog replay session.jsonl --from t1.s1 --until @6 --idle-limit 2
      turnlog replay session.jsonl --granularity step     a whole step at once
      turnlog replay session.jsonl --json                 frames for programs

    On a terminal: space pauses, . b s t show one token, block, step or turn more, + and - change the speed, q ends,
    ? lists all keys. Gaps between tokens are marked as stalls when they are longer than 3 s, or than 99 % of all gaps
    and half a second, or than --stall. --json prints one frame per line at once, each with its waitMs, and does not
    wait.
    """
    from .commands.replay import Options, replay

    options = Options(speed, start, until, idle_limit, granularity, stall, as_stored, as_json)
    replay(screen_of(context), Which(session, latest, root or []), options)


@app.command("tail")
def _tail(
    context: typer.Context,
    session: SessionName = None,
    latest: Latest = False,
    root: Roots = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="ADDRESS", help="Begin here; by default at the last turn.", show_default=False),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="KIND",
            autocompletion=kinds,
            help="Only text, thinking, tools, writes, …",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="turn-end|idle|error",
            autocompletion=moments,
            help="End when it comes to that.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on though nobody is known to write it.")] = False,
    as_stored: AsStored = False,
    as_json: AsJson = False,
) -> None:
    """Watch a session as it is written.

    \b
      turnlog tail                              the newest one, from its last turn on
      turnlog tail 9b26 --only thinking,tools   of the session whose id begins so
      turnlog tail session.jsonl --until turn-end     ends when its turn has ended
      turnlog tail session.jsonl --json         its events for programs, one per line

    Ends with its writer. Without a lock file nothing says whether there is one: then what is there is shown, and
    --follow waits for more. --only takes text, thinking, tools, writes, prompts, errors, turns and other. --until
    error waits for a turn that fails, idle for two quiet seconds between turns; when the writer ends before, the exit
    code is 1. --from @SEQ goes on where an earlier one stopped.
    """
    from .commands.tail import Options, tail

    which = Which(session, latest or session is None, root or [])
    tail(screen_of(context), which, Options(start, only or [], until, follow, as_stored, as_json))


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
    """Check a log against every rule.

    \b
      turnlog verify session.jsonl
      turnlog verify --latest --forensic      also what is readable of a refused log

    Exit code: 0 ok, 1 faults, 3 refused, 4 torn tail (or refused, with --forensic).
    """
    from .commands.verify import verify

    verify(screen_of(context), Which(session, latest, root or []), forensic=forensic, as_json=as_json)


comparing.add_commands(app)
asking.add_commands(app)
rerunning.add_commands(app)
finding.add_search(app)
billing.add_commands(app)
keeping.add_commands(app)


@cache
def command() -> Callable[..., object]:
    """All commands, put together once."""
    return typer.main.get_command(app)
