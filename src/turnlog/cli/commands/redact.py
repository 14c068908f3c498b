"""``turnlog redact``"""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.log.redaction import BUILTIN_RULES, RedactionRule, Redactor
from turnlog.store.redact import redact as redact_log

from ..json_views import document
from ..opening import Which
from ..problems import WrongUsage
from ..screen import Screen, Styled


def redact(screen: Screen, which: Which, *, rules: Sequence[str], as_json: bool) -> None:
    """Make a copy of a log without its secrets, and say what went."""
    done = redact_log(which.file(), Redactor([*BUILTIN_RULES, *map(_rule, rules)]))
    if as_json:
        screen.json(document(path=str(done.path), events=done.events, hits=dict(done.hits), seqs=done.seqs))
        return
    found = sum(done.hits.values())
    screen.line(Styled("redacted", "green"), f": {found} secrets in {len(done.seqs)} events, {done.path}")
    for name, count in sorted(done.hits.items()):
        screen.line(f"  {name} ×{count}")


def _rule(text: str) -> RedactionRule:
    name, equals, pattern = text.partition("=")
    if not equals:
        raise WrongUsage(f"--rule {text!r}: write NAME=PATTERN, for example order-number='ORD-[0-9]+'")
    try:
        return RedactionRule.of(name, pattern)
    except ValueError as error:
        raise WrongUsage(str(error)) from None
