"""Records of foreign files, invented, and short ways to look at what they became."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import turnlog
from turnlog.events import AssistantMessage, ModelSource, TokenUsage
from turnlog.store import StoredSession

DATA: Final = Path(__file__).parents[1] / "data" / "foreign"
FILES: Final = sorted(DATA.glob("*.jsonl"))


def data(name: str) -> bytes:
    """The bytes of a fixture."""
    return (DATA / f"{name}.jsonl").read_bytes()


def opened(name: str) -> StoredSession:
    """A fixture as a session."""
    return turnlog.load(DATA / f"{name}.jsonl")


def lines(*records: Any) -> bytes:
    """A file of records, as compact as programs write them."""
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in records)


def claude(type: str, uuid: str, parent: str | None = None, *, at: int = 0, **members: Any) -> dict[str, Any]:
    """A Claude Code record, *at* seconds after the full hour."""
    return {
        "parentUuid": parent, "isSidechain": False, "sessionId": "s-1", "cwd": "/work", "type": type, "uuid": uuid,
        "timestamp": f"2026-03-01T10:{at // 60:02d}:{at % 60:02d}.000Z", **members,
    }  # fmt: skip


def said(uuid: str, content: Any, parent: str | None = None, **members: Any) -> dict[str, Any]:
    """A user record of Claude Code."""
    return claude("user", uuid, parent, message={"role": "user", "content": content}, **members)


def answered(uuid: str, id: str, *blocks: Any, usage: Any = None, **members: Any) -> dict[str, Any]:
    """An assistant record of Claude Code."""
    message = {"id": id, "role": "assistant", "model": "claude-x", "content": list(blocks), "usage": usage}
    return claude("assistant", uuid, message=message, **members)


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def call(id: str, **arguments: Any) -> dict[str, Any]:
    """A call block of Claude Code."""
    return {"type": "tool_use", "id": id, "name": "Bash", "input": arguments}


def result(id: str, words: str = "ok", **members: Any) -> list[dict[str, Any]]:
    """The content of a Claude Code record with one result."""
    return [{"type": "tool_result", "tool_use_id": id, "content": words, **members}]


def codex(type: str, at: int = 0, **payload: Any) -> dict[str, Any]:
    """A Codex record, *at* seconds after the full hour."""
    return {"timestamp": f"2026-04-02T08:{at // 60:02d}:{at % 60:02d}.000Z", "type": type, "payload": payload}


def item(kind: str, at: int = 0, **payload: Any) -> dict[str, Any]:
    """A Codex response item."""
    return {**codex("response_item", at), "payload": {"type": kind, **payload}}


def happened(kind: str, at: int = 0, **payload: Any) -> dict[str, Any]:
    """A Codex event message."""
    return {**codex("event_msg", at), "payload": {"type": kind, **payload}}


def spent(total: tuple[int, int, int, int], last: tuple[int, int, int, int], at: int = 0) -> dict[str, Any]:
    """A Codex count of tokens: input, cached input, output, reasoning."""
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    sums = [dict(zip(names, counts, strict=True)) for counts in (total, last)]
    info = {"total_token_usage": sums[0], "last_token_usage": sums[1]}
    return happened("token_count", at, info=info)


def shown(session: StoredSession) -> list[tuple[str, str]]:
    """Role and text of what the model sees now."""
    return [(one.role, one.text) for one in session.derive_messages(as_stored=True)]


def types(session: StoredSession) -> list[str]:
    """The event types, in order."""
    return [event.type for event in session.events]


def usages(session: StoredSession) -> list[TokenUsage | None]:
    """The usage of every answer, in order."""
    return [event.data.usage for event in session.select(AssistantMessage)]


def models(session: StoredSession) -> list[str]:
    """Provider and model of every answer, in order."""
    sources = [event.data.message.source for event in session.select(AssistantMessage)]
    return [f"{one.provider}/{one.model}" for one in sources if isinstance(one, ModelSource)]


def covered(session: StoredSession) -> set[int]:
    """The lines that some event comes from."""
    assert session.origins is not None
    return {line for seq in range(len(session)) for line in session.origins.lines(seq)}


def chat_line(*contents: str) -> dict[str, Any]:
    """A conversation of chat messages, the roles in turn."""
    return {"messages": [{"role": ("user", "assistant")[n % 2], "content": one} for n, one in enumerate(contents)]}
