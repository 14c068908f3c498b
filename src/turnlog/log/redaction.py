"""Secrets that must not enter a log: found by pattern, replaced by ``[redacted:<rule>]``.

Pure and deterministic: the same text gives the same text, and redacting twice changes nothing more. Object keys are
left alone. Text that is JSON (the raw arguments of a call) stays valid JSON.

It works on one text at a time: a secret that a stream cut in two is only found where the text is whole.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from turnlog.events import Json, JsonArray, Payload, Vocabulary
from turnlog.events.lenient import parse
from turnlog.events.lossless import dump, freeze, thaw

PASSES: Final = 8
"""How often a text is searched again after something was replaced, because a replacement may bare a neighbour."""


@dataclass(frozen=True)
class RedactionRule:
    """One kind of secret. Only the group ``secret`` is replaced if the pattern has one, else the whole match."""

    name: str
    """Lower case, for the replacement."""
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    """Lower-case texts of which one occurs wherever the pattern matches; they save the search."""

    @classmethod
    def of(cls, name: str, pattern: str, *hints: str) -> RedactionRule:
        """From the text of a pattern. Raises ``ValueError`` for a bad name and a pattern that matches nothing real."""
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise ValueError(f"redaction rule {name!r}: a name is lower-case words joined by -")
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"redaction rule {name!r}: {error}") from None
        if compiled.search("") or compiled.search(f"[redacted:{name}]"):
            raise ValueError(f"redaction rule {name!r}: it matches the empty text or its own replacement")
        return cls(name, compiled, hints)

    @property
    def replacement(self) -> str:
        """What stands in place of the secret."""
        return f"[redacted:{self.name}]"


_KEYWORDS: Final = (
    r"(?i:passw(?:or)?d|passphrase|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token)"
)
_NOT_YET: Final = r"(?!\[redacted:)"
_VALUE: Final = r"""[^\s"'\\,;&|()<>{}\[\]$`]"""
_ASSIGNED: Final = (
    _KEYWORDS
    + rf"""(?:=|:[ ]?)(?!(?:None|null|true|false|undefined)\b){_NOT_YET}(?P<secret>{_VALUE}{{4,}}+)(?![\w(.\[])"""
)
_QUOTED: Final = (
    _KEYWORDS
    + rf"""\w{{0,20}}(?P<open>\\*["'])?\s{{0,4}}[=:]\s{{0,4}}\\*["']{_NOT_YET}(?P<secret>[^\s"'\\]{{4,}})(?=\\*["'])"""
)
_BLOCK: Final = (
    r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=:,.\s]|-(?!----)|\\+[nrt])*"
    r"(?:-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----)?"
)

BUILTIN_RULES: Final = (
    RedactionRule.of("private-key", _BLOCK, "private key"),
    RedactionRule.of("aws-key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])", "akia", "asia"),
    RedactionRule.of("github-token", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,255}", "gh"),
    RedactionRule.of("github-token", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{22,255}", "github_pat_"),
    RedactionRule.of("gitlab-token", r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}", "glpat-"),
    RedactionRule.of("google-key", r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}", "aiza"),
    RedactionRule.of("stripe-key", r"(?<![A-Za-z0-9])[sr]k_live_[A-Za-z0-9]{16,}", "k_live_"),
    RedactionRule.of("api-key", r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]{0,80}\d)[A-Za-z0-9_-]{20,}", "sk-"),
    RedactionRule.of("slack-token", r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}", "xox"),
    RedactionRule.of(
        "slack-webhook", r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9]+)", "hooks.slack"
    ),
    RedactionRule.of("jwt", r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}", "eyj"),
    RedactionRule.of(
        "bearer",
        rf"(?i)(?<![a-z])bearer[ ]+{_NOT_YET}(?P<secret>(?=[a-z._~+/=-]{{0,200}}\d)[a-z0-9._~+/=-]{{16,}})",
        "bearer",
    ),
    RedactionRule.of(
        "authorization", r"(?i)authorization:[ ]*(?:basic|token)[ ]+(?P<secret>[a-z0-9._~+/=-]{8,})", "authorization:"
    ),
    RedactionRule.of("url-password", rf"""://[^/\s:@"'\\]{{0,80}}:{_NOT_YET}(?P<secret>[^/\s:@"'\\]+)(?=@)""", "://"),
    RedactionRule.of("password", _QUOTED, "pass", "secret", "key", "token"),
    RedactionRule.of("password", _ASSIGNED, "pass", "secret", "key", "token"),
)
"""The secrets everybody has. False alarms in source code are kept rare: unquoted assignments count only without spaces
around them and when what follows is no expression."""


@dataclass(frozen=True)
class Redacted:
    """A text without its secrets."""

    text: str
    hits: Mapping[str, int] = field(default_factory=dict)
    """Rule → how many secrets it replaced."""


class Redactor:
    """Replaces what its rules find."""

    def __init__(self, rules: Iterable[RedactionRule] = BUILTIN_RULES) -> None:
        self.rules: Final = tuple(rules)
        self._hints = frozenset(hint for rule in self.rules for hint in rule.hints)
        self._hinted = all(rule.hints for rule in self.rules)
        self._raw_hints = tuple(hint.encode() for hint in self._hints)

    def redact(self, text: str) -> Redacted:
        """The text without secrets, and how many of which kind there were."""
        lower = text.lower()
        if self._hinted and not any(hint in lower for hint in self._hints):
            return Redacted(text)
        hits: Counter[str] = Counter()
        new = text
        for _ in range(PASSES):
            before, new = new, self._once(new, hits)
            if new == before:
                break
        if not hits:
            return Redacted(text)
        return Redacted(self._valid(text, new), dict(hits))

    def may_find(self, raw: bytes) -> bool:
        """Whether JSON text could hold a secret at all: a cheap look before it is parsed."""
        if not self._hinted:
            return True
        lower = raw.lower()
        return any(hint in lower for hint in self._raw_hints)

    def text(self, text: str) -> str:
        """The text without secrets; the same object when there are none."""
        return self.redact(text).text

    def value(self, value: Json) -> Json:
        """The same JSON with every string redacted, keys untouched; the same object when nothing was found."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            changed = {key: self.value(member) for key, member in value.items()}
            same = all(changed[key] is member for key, member in value.items())
            return value if same else _like(value, changed)
        if isinstance(value, JsonArray | list | tuple):
            members = [self.value(member) for member in value]
            same = all(new is old for new, old in zip(members, value, strict=True))
            return value if same else _like(value, members)
        return value

    def _once(self, text: str, hits: Counter[str]) -> str:
        lower = text.lower()
        for rule in self.rules:
            if rule.hints and not any(hint in lower for hint in rule.hints):
                continue
            has_group = "secret" in rule.pattern.groupindex

            def replace(found: re.Match[str], rule: RedactionRule = rule, has_group: bool = has_group) -> str:
                start, end = found.span("secret") if has_group else found.span()
                hits[rule.name] += 1
                whole = found[0]
                return whole[: start - found.start()] + rule.replacement + whole[end - found.start() :]

            before, text = text, rule.pattern.sub(replace, text)
            lower = lower if text is before or text == before else text.lower()
        return text

    def _valid(self, before: str, after: str) -> str:
        """*after*, unless it broke what was JSON; then its strings are redacted one by one."""
        if before.lstrip()[:1] not in ("{", "["):
            return after
        try:
            parsed = json.loads(before)
        except (ValueError, RecursionError):
            return after
        try:
            json.loads(after)
            return after
        except (ValueError, RecursionError):
            return json.dumps(thaw(self.value(parsed)), ensure_ascii=False)


def _like(old: object, new: Json) -> Json:
    """Frozen if the original was."""
    return new if isinstance(old, dict | list) else freeze(new)


def redacting(vocabulary: Vocabulary, redactor: Redactor) -> Callable[[Payload], tuple[bytes, Payload]]:
    """``vocabulary.snapshot`` with the secrets taken out of what it gives."""
    snapshot, codec = vocabulary.snapshot, vocabulary.codec

    def taken(payload: Payload) -> tuple[bytes, Payload]:
        raw, data = snapshot(payload)
        if not redactor.may_find(raw):
            return raw, data
        value = parse(raw)
        clean = redactor.value(value)
        if clean is value:
            return raw, data
        raw = dump(clean)
        return raw, codec.payload(data.event_type, raw, 0)

    return taken
