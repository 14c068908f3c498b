"""Running a command: whatever happens comes out as a sentence and an exit code."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Final, NamedTuple

from .moments import Clock
from .problems import OUTPUT, explain
from .screen import USAGE, OutputFailed, OutputGone, Screen

PIPE: Final = 141
"""What a shell reports for a program that SIGPIPE ended."""

_COLORS: Final = ("auto", "always", "never")


def run(arguments: Sequence[str]) -> int:
    """Run one command line."""
    display, rest = _take_display(list(arguments))
    color = display.color
    screen = Screen(Clock(), color if color in _COLORS else "auto", pager=display.pager)  # type: ignore[arg-type]
    try:
        if color not in _COLORS:
            screen.hint(f"--color takes {', '.join(_COLORS)}, not {color!r}")
            return USAGE
        screen.clock = Clock(display.timezone)
        code = _command(screen, rest)
        screen.close()
        return code
    except OutputGone:
        if screen.paged:
            screen.close()
            return screen.code
        screen.give_up()
        return PIPE
    except OutputFailed as error:
        screen.give_up()
        return _say(screen, f"the output cannot be written: {error}", OUTPUT)
    except RecursionError:
        return _say(screen, "the log is nested too deeply to be shown", 3)
    except Exception as error:  # the last resort: a bad log or a fault of ours never ends in a traceback
        return _say(screen, *explain(error))


def _command(screen: Screen, arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):  # without loading the commands
        from turnlog import __version__

        screen.line(f"turnlog {__version__}")
        return 0
    from .quick import quick

    if quick(screen, arguments):
        return screen.code
    from .app import command

    told = io.StringIO()  # help and completions, which typer writes by itself and without a thought for full disks
    try:
        with redirect_stdout(told):
            command()(arguments, prog_name="turnlog", obj=screen)
    except SystemExit as exit:
        code = exit.code
        if told.getvalue():
            screen.unpaged()
            screen.write(told.getvalue())
        return code if isinstance(code, int) and code else screen.code
    return screen.code


def _say(screen: Screen, text: str, code: int, listed: Sequence[str] = ()) -> int:
    try:
        screen.close()
        screen.hint(text)
        for one in listed:
            screen.aside(one)
    except (OutputGone, OutputFailed):
        screen.give_up()
    return code


class _Display(NamedTuple):
    """How things are shown."""

    color: str = "auto"
    pager: bool = True
    timezone: str | None = None


def _take_display(arguments: list[str]) -> tuple[_Display, list[str]]:
    """``--color``, ``--timezone`` and ``--no-pager`` may stand anywhere before ``--``."""
    display = _Display()
    rest: list[str] = []
    while arguments:
        word = arguments.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            return display, [*rest, word, *arguments]
        if name in ("--color", "--timezone") and not equals:
            value = arguments.pop(0) if arguments else ""
        if name == "--color":
            display = display._replace(color=value)
        elif name == "--timezone":
            display = display._replace(timezone=value)
        elif word == "--no-pager":
            display = display._replace(pager=False)
        else:
            rest.append(word)
    return display, rest
