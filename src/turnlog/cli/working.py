"""The commands that let an agent work: ``run``, ``chat``, ``resume``. What they do is in :mod:`.commands.work`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from .options import AsJson, Latest, Roots, screen_of

_Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="PROVIDER/NAME",
        show_default=False,
        help="deepseek/…, openai/… or anthropic/…; TURNLOG_MODEL, else deepseek/deepseek-chat.",
    ),
]
_BaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", show_default=False, help="Another server that speaks this protocol."),
]
_Workspace: TypeAlias = Annotated[
    Path | None,
    typer.Option("--workspace", "-C", metavar="DIR", show_default=False, help="Where tools work; here by default."),
]
_Store: TypeAlias = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", show_default=False, help="Keep the session here; ~/.turnlog/sessions."),
]
_System: TypeAlias = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", show_default=False, help="System prompt instead of our own.")
]
_Rules: TypeAlias = list[str] | None
_Allow: TypeAlias = Annotated[
    _Rules,
    typer.Option("--allow", metavar="RULE", show_default=False, help="bash, 'bash:git *', …; may be given again."),
]
_Ask: TypeAlias = Annotated[_Rules, typer.Option("--ask", metavar="RULE", show_default=False, help="Ask about these.")]
_Deny: TypeAlias = Annotated[_Rules, typer.Option("--deny", metavar="RULE", show_default=False, help="Deny these.")]


class _Action(StrEnum):
    """What happens to questions."""

    ask = "ask"
    deny = "deny"
    allow = "allow"


_Approve: TypeAlias = Annotated[
    _Action | None,
    typer.Option("--approve", show_default=False, help="What happens to questions that no rule answers; ask."),
]
_MaxTokens: TypeAlias = Annotated[
    int | None, typer.Option("--max-tokens", min=1, metavar="N", show_default=False, help="Per answer.")
]
_MaxSteps: TypeAlias = Annotated[
    int | None, typer.Option("--max-steps", min=1, metavar="N", show_default=False, help="Per turn.")
]
_MaxSeconds: TypeAlias = Annotated[
    float | None, typer.Option("--max-seconds", min=0, metavar="S", show_default=False, help="Per turn.")
]
_NoStream: TypeAlias = Annotated[bool, typer.Option("--no-stream", help="Ask for whole answers.")]
_Redact: TypeAlias = Annotated[
    bool, typer.Option("--redact", help="Keep keys, tokens and passwords out of the log, and from the model.")
]
_Headless: TypeAlias = Annotated[
    bool, typer.Option("--headless", help="Nobody is there: ask nothing, and go on when the terminal goes away.")
]


def _action(chosen: _Action | None) -> Literal["ask", "deny", "allow"] | None:
    return None if chosen is None else chosen.value


def add_commands(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command("run")(_run)
    app.command("chat")(_chat)
    app.command("resume")(_resume)


def _run(
    context: typer.Context,
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to do; - reads it from standard input.")],
    model: _Model = None,
    base_url: _BaseUrl = None,
    workspace: _Workspace = None,
    root: _Store = None,
    system: _System = None,
    allow: _Allow = None,
    ask: _Ask = None,
    deny: _Deny = None,
    approve: _Approve = None,
    max_tokens: _MaxTokens = None,
    max_steps: _MaxSteps = None,
    max_seconds: _MaxSeconds = None,
    no_stream: _NoStream = False,
    redact: _Redact = False,
    headless: _Headless = False,
    as_json: AsJson = False,
) -> None:
    """Give an agent a task.

    \b
      turnlog run "fix the failing test"
      turnlog run "what does this project do?" --model openai/qwen3 --base-url http://localhost:11434/v1
      turnlog run - --headless --allow 'bash:pytest *' --json    the task from stdin, the log to stdout

    What it does is shown as it happens; typing a line steers it, Ctrl-C cancels it cleanly, Ctrl-C again leaves at
    once. Rules for tools also stand in turnlog.toml. --json prints the log itself: a header line and event lines.

    Exit code: 0 completed, 10 error, 11 cut by the output limit, 12 blocked, 13 interrupted, 130 aborted.
    """
    from .commands.work import Options, run

    options = Options(
        model, base_url, workspace, root, system, allow or [], ask or [], deny or [], _action(approve),
        max_tokens, max_steps, max_seconds, not no_stream, redact, headless, as_json,
    )  # fmt: skip
    run(screen_of(context), task, options)


def _chat(
    context: typer.Context,
    model: _Model = None,
    base_url: _BaseUrl = None,
    workspace: _Workspace = None,
    root: _Store = None,
    system: _System = None,
    allow: _Allow = None,
    ask: _Ask = None,
    deny: _Deny = None,
    approve: _Approve = None,
    max_tokens: _MaxTokens = None,
    max_steps: _MaxSteps = None,
    max_seconds: _MaxSeconds = None,
    no_stream: _NoStream = False,
    redact: _Redact = False,
) -> None:
    """Talk with an agent, line by line.

    \b
      turnlog chat
      turnlog chat --model openai/qwen3 --base-url http://localhost:11434/v1

    A line typed while it works steers it. Ctrl-D ends the chat when it is done. Exit code as of the last turn.
    """
    from .commands.work import Options, chat

    options = Options(
        model, base_url, workspace, root, system, allow or [], ask or [], deny or [], _action(approve),
        max_tokens, max_steps, max_seconds, not no_stream, redact, False, False,
    )  # fmt: skip
    chat(screen_of(context), options)


def _resume(
    context: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", show_default=False, help="Id, unique prefix or path; the newest if none."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", show_default=False, help="What to do next, - from stdin; a chat if none."),
    ] = None,
    latest: Latest = False,
    roots: Roots = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also a session without a lock file (dsh leaves none); stop dsh first.")
    ] = False,
    model: _Model = None,
    base_url: _BaseUrl = None,
    workspace: _Workspace = None,
    system: _System = None,
    allow: _Allow = None,
    ask: _Ask = None,
    deny: _Deny = None,
    approve: _Approve = None,
    max_tokens: _MaxTokens = None,
    max_steps: _MaxSteps = None,
    max_seconds: _MaxSeconds = None,
    no_stream: _NoStream = False,
    redact: _Redact = False,
    headless: _Headless = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a session, after a crash as well.

    \b
      turnlog resume                                  the newest, as a chat
      turnlog resume --latest "now the tests"         one more turn of the newest
      turnlog resume session-9b26 "go on" --force --workspace .    one that dsh left

    What a dead writer left open is closed first, and the model is told what is known of each call. Without --model
    the session's last one is used.
    """
    from .commands.work import Options, resume
    from .opening import Which

    if latest and task is None:
        session, task = None, session
    options = Options(
        model, base_url, workspace, None, system, allow or [], ask or [], deny or [], _action(approve),
        max_tokens, max_steps, max_seconds, not no_stream, redact, headless, as_json,
    )  # fmt: skip
    resume(screen_of(context), Which(session, latest or session is None, roots or []), task, options, force=force)
