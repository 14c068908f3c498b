"""Rules of approval: ``allow``, ``ask`` or ``deny`` per tool and pattern.

``bash`` speaks of a whole tool, ``*`` of all tools, ``bash:git *`` of calls whose command matches (``*`` any text,
``?`` one character). The most specific rule decides: a pattern beats a tool beats ``*``, of two patterns the one with
more literal characters. Among equally specific ones deny beats ask beats allow.

What a pattern is compared with is the tool's affair: commands for ``bash``, absolute paths for file tools, the raw
arguments for others. A command line is taken apart at ``;``, ``&&``, ``|`` and the like; every part has to be allowed,
one denied part denies it all. Where that cannot be done safely (substitutions, redirections) no pattern with a wildcard
allows it, and a deny pattern applies wherever it occurs. Rules are a convenience for people who ask and are asked,
not a sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

from turnlog.log import TurnlogError

from .tool import Subjects

Action: TypeAlias = Literal["ask", "deny", "allow"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
_STRICTEST: Final[dict[Action, int]] = {"allow": 0, "ask": 1, "deny": 2}


class RuleError(TurnlogError, ValueError):
    """A rule or a setting that cannot be understood; says which."""


@dataclass(frozen=True)
class Rule:
    """One rule."""

    tool: str
    """Name of a tool, or ``*``."""
    action: Action
    pattern: str | None = None
    literal: bool = False
    """Whether *pattern* is the whole subject, character by character."""

    @classmethod
    def parse(cls, text: str, action: str) -> Rule:
        """``tool``, ``tool:pattern`` or ``*``, with ask, deny or allow. Raises :class:`RuleError`."""
        if action not in ACTIONS:
            raise RuleError(f"rule {text!r}: {action!r} is none of {', '.join(ACTIONS)}")
        tool, colon, pattern = text.partition(":")
        if not tool.strip() or (colon and not pattern):
            raise RuleError(f"rule {text!r}: write tool, tool:pattern or *")
        if tool == "*" and colon:
            raise RuleError(f"rule {text!r}: a pattern needs the name of a tool")
        return cls(tool.strip(), action, pattern if colon else None)

    @property
    def text(self) -> str:
        """As it is written."""
        return self.tool if self.pattern is None else f"{self.tool}:{self.pattern}"

    @cached_property
    def weight(self) -> tuple[int, int]:
        """How specific it is, then how strict."""
        if self.pattern is None:
            return (0 if self.tool == "*" else 1), _STRICTEST[self.action]
        written = self.pattern if self.literal else re.sub(r"[*?]", "", self.pattern)
        return 2 + len(written), _STRICTEST[self.action]

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        wild = {"*": ".*", "?": "."}
        return re.compile("".join(wild.get(char) or re.escape(char) for char in self.pattern or ""), re.DOTALL)

    def covers(self, part: str, subjects: Subjects) -> bool:
        """Whether it speaks of this part of a call of its tool."""
        if self.pattern is None:
            return True
        if self.literal:
            return self.pattern == subjects.whole
        if subjects.exact:
            return bool(
                self._expression.fullmatch(part)
                or (self._expression.fullmatch(subjects.whole) and self.action != "allow")
            )
        if self.action == "allow":
            return self.pattern == "*" or self.pattern == subjects.whole
        return self._expression.search(subjects.whole) is not None


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say about a call."""

    rule: Rule

    @property
    def action(self) -> Action:
        """Allow, ask or deny."""
        return self.rule.action


def decide(rules: Iterable[Rule], tool: str, subjects: Subjects) -> Decision | None:
    """The strictest of what the rules say about each part; None when a part is not spoken of and none is denied."""
    known = [one for one in rules if one.tool in (tool, "*")]
    found = [_strongest(known, part, subjects) for part in subjects.parts or (subjects.whole,)]
    spoken = [one for one in found if one is not None]
    if not spoken:
        return None
    strictest = max(spoken, key=lambda one: (_STRICTEST[one.action], -one.weight[0]))
    return None if strictest.action == "allow" and len(spoken) < len(found) else Decision(strictest)


def _strongest(rules: Sequence[Rule], part: str, subjects: Subjects) -> Rule | None:
    return max((one for one in rules if one.covers(part, subjects)), key=lambda one: one.weight, default=None)
