"""The commands that find sessions and what was said in them."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import AsJson, Limit, Roots, Since, Until, screen_of

Project = Annotated[
    str | None,
    typer.Option("--project", metavar="DIR", show_default=False, help="Only of this directory (or name) and below."),
]


def add_list(app: typer.Typer) -> None:
    """Add ``ls`` to the command line."""
    app.command("ls")(_ls)


def add_search(app: typer.Typer) -> None:
    """Add ``search`` and ``index`` to the command line."""
    app.command("search")(_search)
    app.command("index")(_index)


def _ls(
    context: typer.Context,
    root: Roots = None,
    since: Since = None,
    until: Until = None,
    project: Project = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", show_default=False, help="Only with this model: part of it."),
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only with a turn that ended in an error.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Only those that are written right now.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", metavar="BY", help="created, modified, turns, tokens, cost, size, title, project.")
    ] = "created",
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also sessions of Claude Code and Codex in their usual places.")
    ] = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first.

    \b
      turnlog ls                                     all of them
      turnlog ls --since 3d --limit 10               the newest of the last three days
      turnlog ls --project . --errors                where something went wrong, in this directory
      turnlog ls --sort tokens --limit 5             the largest ones
      turnlog ls --root /backup/sessions --json      those of another place

    CREATED is when a session began; --since and --until go by it, and by the file's time where the header is not
    readable. What is wrong with a session stands in its row, and logs that are skipped follow with the reason; then
    the exit code is 4.
    """
    from .commands.ls import Wanted, ls

    wanted = Wanted(since, until, limit, project, model, errors, live, sort, reverse, everything)
    ls(screen_of(context), root or [], wanted, as_json=as_json)


def _search(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="QUERY [SESSION]…", show_default=False, help="What to look for, and in which sessions."),
    ],
    by_words: Annotated[bool, typer.Option("--words", "-w", help="All of these words, in any order.")] = False,
    regex: Annotated[bool, typer.Option("--regex", "-e", help="QUERY is a regular expression.")] = False,
    root: Roots = None,
    type: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", show_default=False, help="Only these types: tool/*, user/message."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="TOOL", show_default=False, help="Only calls and results of: bash, file_*."),
    ] = None,
    project: Project = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", min=0, metavar="N", help="At most so many.")] = 20,
    scan: Annotated[bool, typer.Option("--scan", help="Read every log and use no index.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search what was said, across sessions.

    \b
      turnlog search "connection reset"              in any case, whatever blanks lie between
      turnlog search --words "timeout retry"         events with both words
      turnlog search --regex 'HTTP [45]\\d\\d' --type tool/result
      turnlog search 你好 session-9b26                in one session
      turnlog search mkdir --tool bash --since 7d --project .

    Looks at messages, calls, results, tool errors, todos and how turns ended; not at reasoning. Newest session first;
    each hit has its address. --since and --until go by when the event was logged.
    """
    from .commands.search import Asked, search
    from .problems import WrongUsage

    if by_words and regex:
        raise WrongUsage("--words and --regex exclude each other")
    asked = Asked(words[0], "words" if by_words else "regex" if regex else "literal", tuple(words[1:]),
                  tuple(type or ()), tuple(tool or ()), project, since, until, limit, scan)  # fmt: skip
    search(screen_of(context), root or [], asked, as_json=as_json)


def _index(
    context: typer.Context,
    action: Annotated[str, typer.Argument(metavar="build|status|clear", show_default=False)],
    root: Roots = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="With build: say nothing when all is well.")] = False,
    as_json: AsJson = False,
) -> None:
    """The index behind ls and search.

    \b
      turnlog index build      bring it up to date, the full text included
      turnlog index status     where it is, and how much it holds
      turnlog index clear      delete it; the logs stay, and it is made again when it is needed

    Nothing is only in the index: it may be deleted at any time, and what is asked is answered without it as well.
    """
    from .commands.index import build_index, clear_index, show_index
    from .problems import WrongUsage

    match action:
        case "build":
            build_index(screen_of(context), root or [], quiet=quiet, as_json=as_json)
        case "status":
            show_index(screen_of(context), root or [], as_json=as_json)
        case "clear":
            clear_index(screen_of(context), root or [])
        case _:
            raise WrongUsage(f"turnlog index takes build, status or clear, not {action!r}")
