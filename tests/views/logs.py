"""Logs for the tests of the views: stored ones, and small ones written line by line as foreign writers might."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import turnlog
from turnlog.store import StoredSession

DATA: Final = Path(__file__).parents[1] / "data"
SAMPLE: Final = DATA / "sample.jsonl"
CASES: Final = DATA / "cases"

TOOLS: Final = {0: "session-9b26029093b9418888b55d8948fed479", 3: "session-0e1df1949e994c698caf470b106c1279",
                4: "session-f47c807b86eb4de1bab3f72a40ade8f8"}  # fmt: skip
"""The log with one tool call, by format."""
LONG: Final = {0: "session-a724b55e739447a2bcb2f43b73b7aa9a", 3: "session-3cba4b2f46c4464b8688ef4e27eabc26",
               4: "session-d6f3599d09d34894b9f1fee4a05989f9"}  # fmt: skip
"""The log with 600 deltas, by format."""

USAGE: Final = {"inputTokens": 10, "outputTokens": 5}


def root(version: int) -> Path:
    """The root that holds the real logs of a format."""
    return DATA / "corpus" / f"v{version}"


def real(version: int, name: str) -> StoredSession:
    """A real log."""
    return turnlog.load(root(version) / "--home-dev-project--" / name)


def case(name: str) -> StoredSession:
    """A log of a known failure: ``BC-041/session.jsonl``."""
    return turnlog.load(CASES / name)


def log(*events: dict[str, Any], version: int = 0, id: str = "s") -> bytes:
    """A log with these events; ``seq`` counts, ``time`` is 1000 + 10 seq unless the event says otherwise."""
    header = {"type": "session", "version": version, "id": id, "createdAt": 1, "delegationDepth": 0}
    if version >= 2:
        header["isSeeded"] = False
    lines: list[dict[str, Any]] = [header]
    for seq, event in enumerate(events):
        lines.append({"type": event["type"], "seq": seq, "time": 1000 + 10 * seq, **event})
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def session(*events: dict[str, Any], version: int = 0) -> StoredSession:
    """The session of such a log; its writer is gone."""
    return turnlog.load(log(*events, version=version))


def event(type: str, data: dict[str, Any] | None = None, **envelope: Any) -> dict[str, Any]:
    """One event, log-only unless *envelope* says otherwise."""
    return {"type": type, **envelope, "data": data or {}}


def turn(number: int = 1) -> dict[str, Any]:
    return event("turn/start", {"turn": number})


def end(number: int = 1, reason: Any = None) -> dict[str, Any]:
    return event("turn/end", {"turn": number, "reason": reason or {"kind": "completed"}})


def step(number: int = 1, turn: int = 1) -> dict[str, Any]:
    return event("step/start", {"turn": turn, "step": number})


def step_end(number: int = 1, turn: int = 1) -> dict[str, Any]:
    return event("step/end", {"turn": turn, "step": number})


def user(text: str = "hi", id: str = "u") -> dict[str, Any]:
    data = {"content": [{"type": "text", "text": text}], "source": {"kind": "user"}, "role": "user", "id": id}
    return event("user/message", data, surfaceOp="append")


def chunk(chunk: dict[str, Any], turn: int = 1, step: int = 1) -> dict[str, Any]:
    return event("assistant/chunk", {"turn": turn, "step": step, "chunk": chunk})


def text(words: str, index: int = 0) -> dict[str, Any]:
    return {"type": "text-delta", "index": index, "text": words}


def arguments(delta: str, id: str = "c", index: int = 0) -> dict[str, Any]:
    return {"type": "tool-call-delta", "index": index, "id": id, "argumentsDelta": delta}


def usage(**counts: int) -> dict[str, Any]:
    return {"type": "usage", "usage": {**USAGE, **counts}}


def finish(kind: str = "stop", code: str | None = None) -> dict[str, Any]:
    reason: dict[str, Any] = {"kind": kind}
    if code is not None:
        reason["failure"] = {"message": "it failed", "code": code}
    return {"type": "finish", "reason": reason}


def retry(number: int = 1, turn: int = 1, step: int = 1, code: str = "RATE_LIMIT") -> dict[str, Any]:
    data = {"retryId": "x", "turn": turn, "step": step, "provider": "acme", "mode": "normal", "policyKey": "k",
            "retry": number, "delayMs": 500, "failure": {"message": "slow down", "code": code}}  # fmt: skip
    return event("llm/retry", data)


def asks(id: str, args: str = "{}") -> dict[str, Any]:
    """A tool-call block."""
    return {"type": "tool-call", "id": id, "name": "bash", "arguments": args}


def message(
    *blocks: dict[str, Any], turn: int = 1, step: int = 1, id: str = "a", sources: Iterable[int] | None = None,
    **data: Any,
) -> dict[str, Any]:  # fmt: skip
    content = list(blocks) or [{"type": "text", "text": "answer"}]
    body = {
        "role": "assistant",
        "content": content,
        "source": {"kind": "model", "provider": "p", "model": "m"},
        "id": id,
    }
    envelope: dict[str, Any] = {"surfaceOp": "append"}
    if sources is not None:
        envelope["sourceEventSeqs"] = list(sources)
    return event("assistant/message", {"turn": turn, "step": step, "message": body, **data}, **envelope)


def call(id: str, args: str = "{}", turn: int = 1, step: int = 1) -> dict[str, Any]:
    return event("tool/call", {"turn": turn, "step": step, "callId": id, "name": "bash", "arguments": args})


def result(
    id: str, words: str = "done", *, turn: int = 1, step: int = 1, message_id: str = "r", is_error: bool = False,
    **envelope: Any,
) -> dict[str, Any]:  # fmt: skip
    block = {"type": "tool-result", "toolCallId": id, "content": [{"type": "text", "text": words}], "isError": is_error}
    body = {"role": "user", "content": [block], "source": {"kind": "tool", "callId": id}, "id": message_id}
    return event("tool/result", {"turn": turn, "step": step, "message": body}, **{"surfaceOp": "append", **envelope})


def packed(kind: str, seq0: int, texts: list[str], *, time0: int, dt: list[int], **data: Any) -> bytes:
    """A packed row as a line."""
    members = "args" if kind == "tool-call-chunks" else "texts"
    row = {"type": kind, "seq0": seq0, "time0": time0,
           "data": {"turn": 1, "step": 1, "index": 0, "dt": dt, **data, members: texts}}  # fmt: skip
    return (json.dumps(row, separators=(",", ":")) + "\n").encode()
