"""Command lines that are understood without loading every command: ``ls`` and ``search`` as they are mostly typed.

Loading the commands takes longer than the answer. What is not beyond doubt here (help, a wrong option, a missing value)
goes to the parser of all commands, which says what is wrong.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from .screen import Screen

_Kind = Literal["text", "number", "flag", "texts"]

LS: Final[Mapping[str, _Kind]] = {
    "--root": "texts", "--since": "text", "--until": "text", "--project": "text", "--model": "text", "--errors": "flag",
    "--live": "flag", "--sort": "text", "--reverse": "flag", "--all": "flag", "--limit": "number", "--json": "flag",
}  # fmt: skip


SEARCH: Final[Mapping[str, _Kind]] = {
    "--words": "flag", "--regex": "flag", "--root": "texts", "--type": "texts", "--tool": "texts", "--project": "text",
    "--since": "text", "--until": "text", "--limit": "number", "--scan": "flag", "--json": "flag",
}  # fmt: skip


def quick(screen: Screen, arguments: Sequence[str]) -> bool:
    """Run a command line; False when it is none of those that are known here."""
    if arguments[:1] == ["ls"]:
        options, words = _parsed(arguments[1:], LS)
        if options is not None and not words:
            with _no_collection():
                _ls(screen, options)
            return True
    if arguments[:1] == ["search"]:
        options, words = _parsed(arguments[1:], SEARCH)
        if options is not None and words and not ("words" in options and "regex" in options):
            with _no_collection():
                _search(screen, options, words)
            return True
    return False


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing of a list is garbage before it is shown; looking for some takes a third of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _ls(screen: Screen, options: Mapping[str, Any]) -> None:
    from .commands.ls import Wanted, ls

    chosen = {name: options[name] for name in ("since", "until", "limit", "project", "model", "errors", "live", "sort",
                                               "reverse") if name in options}  # fmt: skip
    wanted = Wanted(**chosen, foreign=options.get("all", False))
    ls(screen, [Path(one) for one in options.get("root", ())], wanted, as_json=options.get("json", False))


def _search(screen: Screen, options: Mapping[str, Any], words: Sequence[str]) -> None:
    from .commands.search import Asked, search

    asked = Asked(
        words[0],
        "words" if "words" in options else "regex" if "regex" in options else "literal",
        tuple(words[1:]),
        tuple(options.get("type", ())),
        tuple(options.get("tool", ())),
        **{name: options[name] for name in ("project", "since", "until", "limit", "scan") if name in options},
    )
    search(screen, [Path(one) for one in options.get("root", ())], asked, as_json=options.get("json", False))


def _parsed(arguments: Sequence[str], known: Mapping[str, _Kind]) -> tuple[dict[str, Any] | None, list[str]]:
    """Options by name and the other words; None at any doubt."""
    options: dict[str, Any] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        kind = known.get(name)
        if kind == "flag" and not equals:
            options[name[2:]] = True
            continue
        if kind in (None, "flag") or (not equals and not rest):
            return None, []
        value = value if equals else rest.pop(0)
        if not equals and value.startswith("-"):
            return None, []
        if kind == "number":
            if not (value.isascii() and value.isdigit() and len(value) < 10):
                return None, []
            options[name[2:]] = int(value)
        elif kind == "texts":
            options.setdefault(name[2:], []).append(value)
        else:
            options[name[2:]] = value
    return options, words
