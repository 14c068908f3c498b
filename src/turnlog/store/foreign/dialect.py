"""Which program wrote a file: decided by what its first records look like.

A first line may be damaged or half, so several lines are looked at and the first one that says something decides. A
record that Turnlog or dsh wrote says "none of these", so a damaged log of theirs is never taken for a foreign one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from turnlog.events.lenient import parse

Kind: TypeAlias = Literal["claude-code", "codex", "chat"]
"""Which family of files: Claude Code sessions, Codex sessions, chat-completion messages."""

_LINES: Final = 64
"""How many lines are looked at: more than any program writes before its first telling record."""
_BYTES: Final = 4 << 20
"""How far into the first block they are looked for; one line may hold an image."""


class Dialect(NamedTuple):
    """One kind of foreign file."""

    kind: Kind
    name: str
    """For people: ``Claude Code``."""
    version: int
    """Its number among the formats; negative, because it is none of dsh's."""


DIALECTS: Final[Mapping[Kind, Dialect]] = {
    "claude-code": Dialect("claude-code", "Claude Code", -2),
    "codex": Dialect("codex", "Codex", -3),
    "chat": Dialect("chat", "chat messages", -4),
}

_CLAUDE_TYPES: Final = frozenset({
    "user", "assistant", "system", "summary", "attachment", "progress", "queue-operation", "file-history-snapshot",
    "custom-title", "ai-title", "agent-name", "last-prompt", "pr-link", "tag", "mode", "permission-mode",
})  # fmt: skip
_CLAUDE_MARKS: Final = frozenset({"sessionId", "uuid", "parentUuid", "leafUuid", "isSidechain", "messageId"})
_CODEX_TYPES: Final = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_CODEX_BARE: Final[Mapping[str, frozenset[str]]] = {
    "message": frozenset({"role", "content"}),
    "reasoning": frozenset({"summary"}),
    "function_call": frozenset({"call_id", "name"}),
    "function_call_output": frozenset({"call_id", "output"}),
    "custom_tool_call": frozenset({"call_id", "name"}),
    "custom_tool_call_output": frozenset({"call_id", "output"}),
    "local_shell_call": frozenset({"action"}),
}
"""Items of files before they had types, with the members that tell them from other programs' records."""
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def detect(text: bytes) -> Dialect | None:
    """The dialect of a file that begins with *text*; None when it is a log of dsh's or of no program known here."""
    for line in _first_lines(text):
        try:
            value = parse(line)
        except ValueError:
            continue
        if not isinstance(value, dict):
            continue
        if _is_ours(value):
            return None
        kind = kind_of(value)
        if kind is not None:
            return DIALECTS[kind]
    return None


def kind_of(value: Mapping[str, Any]) -> Kind | None:
    """Whose record this is, if it says so."""
    type = value.get("type")
    if isinstance(type, str):
        if type in _CODEX_TYPES and isinstance(value.get("payload"), dict):
            return "codex"
        if type in _CLAUDE_TYPES and _CLAUDE_MARKS & value.keys():
            return "claude-code"
        wanted = _CODEX_BARE.get(type)
        if wanted is not None and value.keys() >= wanted and "uuid" not in value:
            return "codex"
    if value.get("record_type") == "state" or _is_bare_meta(value):
        return "codex"
    messages = value.get("messages")
    if isinstance(messages, list) and all(_is_message(one) for one in messages):
        return "chat"
    return "chat" if _is_message(value) and "type" not in value else None


def _is_bare_meta(value: Mapping[str, Any]) -> bool:
    """The first line of Codex files before they had types: id, time, instructions and git."""
    return "type" not in value and value.keys() >= {"id", "timestamp"} and ("instructions" in value or "git" in value)


def _is_message(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    role = value.get("role")
    return isinstance(role, str) and role in _ROLES and bool(value.keys() & {"content", "tool_calls", "function_call"})


def _is_ours(value: Mapping[str, Any]) -> bool:
    return (value.get("type") == "session" and "version" in value) or value.keys() >= {"type", "seq", "data"}


def _first_lines(text: bytes) -> Iterator[bytes]:
    """The first lines that are not blank; the last one may be cut and then says nothing."""
    start = 3 if text.startswith(b"\xef\xbb\xbf") else 0
    for _ in range(_LINES):
        if start >= min(len(text), _BYTES):
            return
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].strip(b" \t\r\0")
        start = end + 1
        if line:
            yield line
