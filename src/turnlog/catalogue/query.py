"""`Query`: what is searched for, what a block must contain to be worth a look, and where in a text it is found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from .fold import fold

Mode: TypeAlias = Literal["literal", "words", "regex"]
MODES: Final[tuple[Mode, ...]] = ("literal", "words", "regex")

_PLAIN: Final = re.compile(rb"[a-z0-9 !#$%()*+,.:;=?@\[\]^_`{|}~-]+")
"""Folded ASCII that JSON writers do not escape."""
_MOST_GRAMS: Final = 24


class QueryInvalid(Exception):
    """The query cannot be searched for; the message says why."""


class Span(NamedTuple):
    """A place in a text."""

    start: int
    end: int


@dataclass(frozen=True)
class Query:
    """What is searched for.

    ``literal``: the text, in any case, whatever white space lies between its words. ``words``: all of these words, in
    any order and case; a word is not part of a longer one. ``regex``: a regular expression of Python's ``re``, as it is
    written (``(?i)`` for any case).
    """

    text: str
    mode: Mode = "literal"
    needles: tuple[str, ...] = field(init=False, default=())
    """Folded pieces that whatever is found contains, all of them."""
    _patterns: tuple[re.Pattern[str], ...] = field(init=False, default=(), repr=False)

    def __post_init__(self) -> None:
        if self.mode == "regex":
            needles, patterns = _regex(self.text)
        else:
            words = [fold(word) for word in self.text.split()]
            if not words:
                raise QueryInvalid("there is nothing to search for in a text of white space")
            needles = words
            whole = [_word(word) for word in words]
            patterns = whole if self.mode == "words" else [re.compile(r"\s+".join(map(re.escape, words)))]
        object.__setattr__(self, "needles", tuple(dict.fromkeys(needles)))
        object.__setattr__(self, "_patterns", tuple(patterns))

    def find(self, text: str) -> Span | None:
        """Where *text* has it first; None where it has not."""
        searched = text if self.mode == "regex" else fold(text)
        first: Span | None = None
        for pattern in self._patterns:
            found = pattern.search(searched)
            if found is None:
                return None
            first = first or Span(*found.span())
        return first

    @property
    def plain(self) -> bytes:
        """The longest ASCII piece that a line must contain in any case, if the line is ASCII and escapes nothing."""
        found = [piece for needle in self.needles if needle.isascii() for piece in _PLAIN.findall(needle.encode())]
        return max(found, key=len, default=b"")

    def grams(self) -> list[str]:
        """Groups of three characters that whatever is found contains; enough to tell most blocks apart."""
        every = dict.fromkeys(gram for needle in self.needles for gram in _threes(needle))
        listed = list(every)
        return listed if len(listed) <= _MOST_GRAMS else listed[:: -(-len(listed) // _MOST_GRAMS)]

    def shorts(self) -> list[str]:
        """Needles of one or two characters, which no group of three characters stands for."""
        return [needle for needle in self.needles if len(needle) < 3]


def _threes(needle: str) -> Iterator[str]:
    return (needle[at : at + 3] for at in range(len(needle) - 2))


def _word(word: str) -> re.Pattern[str]:
    """A word that is no part of a longer one; scripts without spaces have no such borders."""
    before = r"(?<!\w)" if _bordered(word[0]) else ""
    after = r"(?!\w)" if _bordered(word[-1]) else ""
    return re.compile(before + re.escape(word) + after)


def _bordered(character: str) -> bool:
    return (character.isalnum() or character == "_") and ord(character) < 0x2E80


def _regex(text: str) -> tuple[list[str], list[re.Pattern[str]]]:
    if not text:
        raise QueryInvalid("there is nothing to search for in an empty expression")
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        where = f" at character {error.pos + 1}" if isinstance(error, re.error) and error.pos is not None else ""
        raise QueryInvalid(f"{text!r} is no regular expression: {getattr(error, 'msg', error)}{where}") from None
    return [fold(run) for run in _literals(text)], [pattern]


def _literals(text: str) -> list[str]:
    """Runs of characters that every match contains. What an expression leaves open breaks a run."""
    from re import _parser  # type: ignore[attr-defined]

    runs: list[str] = [""]
    _collect(_parser.parse(text), runs)
    return [run for run in runs if run]


def _collect(parts: Iterable[Any], runs: list[str]) -> None:
    for op, argument in parts:
        match str(op):
            case "LITERAL":
                runs[-1] += chr(argument)
            case "SUBPATTERN":
                _collect(argument[-1], runs)
            case "AT" | "ASSERT" | "ASSERT_NOT":
                pass  # matches nothing of its own
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT" if argument[0] >= 1:
                runs.append("")
                _collect(argument[2], runs)
                runs.append("")
            case _:
                runs.append("")
