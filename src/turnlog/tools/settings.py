"""Rules and policy of approval from ``turnlog.toml`` and from flags. ::

[approval]
policy = "ask"                # what happens to questions: ask, deny or allow

[approval.rules]
bash = "ask"
"bash:git status*" = "allow"
"bash:rm *" = "deny"
"read:/etc/*" = "allow"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .approval import Answerer, Approvals
from .rules import ACTIONS, Action, Rule, RuleError

_KEYS: Final = frozenset({"policy", "rules"})


@dataclass(frozen=True)
class ApprovalSettings:
    """What a file and flags say."""

    rules: tuple[Rule, ...] = ()
    policy: Action | None = None
    """None: nothing is said."""

    def approvals(self, answerer: Answerer | None = None) -> Approvals:
        """What a pipeline takes; without a policy questions are asked."""
        return Approvals(self.rules, answerer, policy=self.policy or "ask")

    def with_flags(
        self,
        *,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        policy: Action | None = None,
    ) -> ApprovalSettings:
        """These and what the command line adds. A flag takes the place of a rule with the same text."""
        flags: dict[str, Rule] = {}
        given: tuple[tuple[Action, Iterable[str]], ...] = (("allow", allow), ("ask", ask), ("deny", deny))
        for action, texts in given:
            for text in texts:
                rule = Rule.parse(text, action)
                flags[rule.text] = rule
        kept = (rule for rule in self.rules if rule.text not in flags)
        return ApprovalSettings((*kept, *flags.values()), policy or self.policy)


def approval_settings(source: Path | Mapping[str, object]) -> ApprovalSettings:
    """The ``[approval]`` table of a TOML file (or of one that was read already); other tables are others' business.

    Raises :class:`RuleError` naming file, key and remedy; a file that is not there says nothing.
    """
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                return _read(tomllib.load(file), str(source))
        except FileNotFoundError:
            return ApprovalSettings()
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RuleError(f"{source}: not valid TOML: {error}") from None
    return _read(source, "settings")


def _read(tables: Mapping[str, object], where: str) -> ApprovalSettings:
    table = tables.get("approval", {})
    if not isinstance(table, Mapping):
        raise RuleError(f"{where}: approval is a table, [approval]")
    if unknown := sorted(table.keys() - _KEYS):
        raise RuleError(f"{where}: [approval] has no key {', '.join(map(repr, unknown))}; it has policy and rules")
    policy = table.get("policy")
    if policy is not None and policy not in ACTIONS:
        raise RuleError(f"{where}: approval.policy is {policy!r}; it is one of {', '.join(ACTIONS)}")
    rules = table.get("rules", {})
    if not isinstance(rules, Mapping):
        raise RuleError(f"{where}: approval.rules is a table, [approval.rules]")
    try:
        return ApprovalSettings(tuple(Rule.parse(text, str(action)) for text, action in rules.items()), policy)
    except RuleError as error:
        raise RuleError(f"{where}: {error}") from None
