"""Older shapes that are still legal under version 0 (dsh-v0 §2.10), as rewrites of decoded JSON.

They apply to views only: the stored bytes stay. A rewrite gets the data and the id to give a message without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


def _turn_end(data: Any, _message_id: str) -> tuple[str, Any]:
    reason = data.get("reason") if isinstance(data, dict) else None
    if not isinstance(reason, dict):
        return "turn/end", data
    kind = reason.get("kind")
    if kind == "disposed":
        reason = {"kind": "aborted", "reason": {"kind": "disposed"}}
    elif kind == "aborted" and "reason" not in reason:
        reason = {"kind": "aborted", "reason": {"kind": "legacy"}}
    elif kind == "error" and "error" not in reason:
        failure = reason.get("failure") or {"message": reason.get("message"), "code": reason.get("code") or "UNKNOWN"}
        reason = {"kind": "error", "error": failure}
    return "turn/end", {**data, "reason": reason}


def _user_message(data: Any, message_id: str) -> tuple[str, Any]:
    if isinstance(data, dict) and "message" in data and "content" not in data:
        data = data["message"]
    if isinstance(data, dict):
        data = {"role": "user", "id": message_id, **data}
    return "user/message", data


def _assistant_message(data: Any, message_id: str) -> tuple[str, Any]:
    if isinstance(data, dict) and "message" not in data and "content" in data:
        provenance = data.get("provenance")
        source = {**(provenance if isinstance(provenance, dict) else {}), "kind": "model"}
        message = {"role": "assistant", "content": data["content"], "source": source, "id": message_id}
        data = {"message": message, **{k: v for k, v in data.items() if k not in ("content", "provenance")}}
    return "assistant/message", data


def _tool_result(data: Any, message_id: str) -> tuple[str, Any]:
    if isinstance(data, dict) and "message" not in data and "callId" in data:
        block = {
            "type": "tool-result",
            "toolCallId": data["callId"],
            "content": data.get("content"),
            "isError": bool(data.get("isError")),
        }
        message = {
            "role": "user",
            "content": [block],
            "source": {"kind": "tool", "callId": data["callId"]},
            "id": message_id,
        }
        data = {"message": message, **{k: v for k, v in data.items() if k not in ("callId", "content", "isError")}}
    return "tool/result", data


NORMALIZERS: Final[dict[str, Callable[[Any, str], tuple[str, Any]]]] = {
    "turn/end": _turn_end,
    "user/message": _user_message,
    "steering/message": _user_message,
    "assistant/message": _assistant_message,
    "tool/result": _tool_result,
}

RENAMED: Final = {f"compact/{name}": f"compaction/{name}" for name in ("start", "summary", "end", "prune")}
"""Event types that had another name once."""
