"""Running a command: whatever happens comes out as a sentence and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .problems import OUTPUT, explain
from .screen import USAGE, OutputFailed, OutputGone, Screen

PIPE: Final = 141
"""What a shell reports for a program that SIGPIPE ended."""

_COLORS: Final = ("auto", "always", "never")


def run(arguments: Sequence[str]) -> int:
    """Run one command line."""
    color, pager, rest = _take_display(list(arguments))
    screen = Screen(color if color in _COLORS else "auto", pager=pager)  # type: ignore[arg-type]
    try:
        if color not in _COLORS:
            screen.hint(f"--color takes {', '.join(_COLORS)}, not {color!r}")
            return USAGE
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
    from .app import command

    try:
        command()(arguments, prog_name="turnlog", obj=screen)
    except SystemExit as exit:
        code = exit.code
        return code if isinstance(code, int) and code else screen.code
    return screen.code


def _say(screen: Screen, text: str, code: int) -> int:
    try:
        screen.close()
        screen.hint(text)
    except (OutputGone, OutputFailed):
        screen.give_up()
    return code


def _take_display(arguments: list[str]) -> tuple[str, bool, list[str]]:
    """``--color`` and ``--no-pager`` may stand anywhere before ``--``."""
    pager = True
    color = "auto"
    rest: list[str] = []
    while arguments:
        word = arguments.pop(0)
        if word == "--":
            return color, pager, [*rest, word, *arguments]
        if word.startswith("--color="):
            color = word.removeprefix("--color=")
        elif word == "--color":
            color = arguments.pop(0) if arguments else ""
        elif word == "--no-pager":
            pager = False
        else:
            rest.append(word)
    return color, pager, rest
