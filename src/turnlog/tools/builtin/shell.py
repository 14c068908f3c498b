"""A command line taken apart, for the rules of approval."""

from __future__ import annotations

import re
from typing import Final

from ..tool import Subjects

_CONDITIONS: Final = frozenset({"if", "then", "elif", "else", "fi", "case", "esac", "!", "[["})
_LOOPS: Final = frozenset({"for", "while", "until", "do", "done", "select"})
_OTHERS: Final = frozenset({"function", "time", "coproc", "{", "}", "eval", "exec"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_HARMLESS: Final = re.compile(r"[0-9]?>(?:&[0-9]|>?[ \t]*/dev/null)(?=[\s;|&]|$)")
"""Redirections that write nowhere."""


def subjects(command: str) -> Subjects:
    """The simple commands of a line. Not *exact* where a shell would find more in it than this does."""
    parts, exact = _split(command)
    if any(_starts_oddly(part) for part in parts):
        exact = False
    return Subjects(tuple(parts), command.strip(), exact)


def _starts_oddly(part: str) -> bool:
    first = part.split(maxsplit=1)[0]
    return first in _CONDITIONS | _LOOPS | _OTHERS or _ASSIGNMENT.match(first) is not None


def _split(command: str) -> tuple[list[str], bool]:
    parts: list[str] = []
    current: list[str] = []
    exact, quote, at = True, "", 0
    while at < len(command):
        char = command[at]
        taken = 1
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char == "\\":
            taken = 2
            exact = exact and command[at + 1 : at + 2] not in ("\n", "")
        elif char == "`" or (char == "$" and command[at + 1 : at + 2] in ("(", "'", "{", '"')):
            exact = False
        elif char == '"':
            quote = "" if quote else '"'
        elif quote:
            pass
        elif char == "'":
            quote = "'"
        elif harmless := _HARMLESS.match(command, at):
            taken = len(harmless[0])
        elif char in ";|&\n":
            parts.append("".join(current).strip())
            current = []
            at += 1
            continue
        elif char in "<>(){}":
            exact = False
        current.append(command[at : at + taken])
        at += taken
    parts.append("".join(current).strip())
    return [part for part in parts if part], exact and not quote
