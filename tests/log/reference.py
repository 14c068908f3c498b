"""A naive reference of the log's semantics, written for the tests from dsh-v0 §2.4-2.6 and §3.2.

It knows nothing of the code under test: it reads a log as plain JSON lines, with the standard library, and folds
them from the beginning, every time. Slow and obvious on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]

SURFACE = ("user/message", "assistant/message", "tool/result")


def read(lines: Iterable[bytes]) -> list[Line]:
    """The log as plain JSON."""
    return [json.loads(line) for line in lines]


def nodes(log: Sequence[Line]) -> list[int]:
    """The seqs on the surface after all of *log*."""
    found: list[int] = []
    for line in log:
        op = line.get("surfaceOp")
        if op == "append":
            found.append(line["seq"])
        elif op is not None:
            start, end = found.index(op["start"]), found.index(op["end"])
            found[start : end + 1] = [line["seq"]]
    return found


def message(line: Line) -> Line | None:
    """What one surface event shows the model."""
    if line["type"] == "user/message":
        shown: Line = line["data"]
        return shown
    shown = line["data"]["message"]
    return None if line["type"] == "assistant/message" and shown["content"] == [] else shown


def messages(log: Sequence[Line]) -> list[Line]:
    """What the model sees after all of *log*."""
    shown = [message(log[seq]) for seq in nodes(log)]
    return [one for one in shown if one is not None]


def replaced_by(log: Sequence[Line]) -> dict[int, int]:
    """Which event took whose place."""
    found: dict[int, int] = {}
    for length, line in enumerate(log):
        op = line.get("surfaceOp")
        if isinstance(op, dict):
            before = nodes(log[:length])
            for seq in before[before.index(op["start"]) : before.index(op["end"]) + 1]:
                found[seq] = line["seq"]
    return found


@dataclass
class Nesting:
    """The nesting grammar (dsh-v0 §3.2), as a table walked from the first event."""

    turn: int | None = None
    step: int | None = None
    last_turn: int = 0
    last_step: int = 0
    pending: list[str] = field(default_factory=list)

    def accepts(self, type: str, data: Line, replaces: bool = False) -> bool:
        named = (data.get("turn"), data.get("step")) if isinstance(data, dict) else None
        here = named == (self.turn, self.step) and self.step is not None
        match type:
            case "turn/start":
                return self.turn is None and data["turn"] == self.last_turn + 1
            case "turn/end":
                return self.turn == data["turn"] and self.step is None
            case "step/start":
                return self.turn == data["turn"] and self.step is None and data["step"] == self.last_step + 1
            case "step/end" | "assistant/chunk":
                return here
            case "assistant/message":
                return here
            case "tool/call":
                return here and data["callId"] not in self.pending  # ours: ids are unique while they wait
            case "tool/result" if replaces:
                return self.turn is not None
            case "tool/result":
                block = data["message"]["content"][0]
                never_started = block.get("isError") is True and data.get("error", {}).get("code") == "TOOL_NOT_STARTED"
                return here and (never_started or data["message"]["source"]["callId"] in self.pending)
            case "todo/write" | "request/header" | "request/context":
                return self.turn is not None
            case _:
                return True

    def take(self, type: str, data: Line, replaces: bool = False) -> None:
        match type:
            case "turn/start":
                self.turn = self.last_turn = data["turn"]
                self.last_step = 0
            case "turn/end":
                self.turn = None
            case "step/start":
                self.step = self.last_step = data["step"]
            case "step/end":
                self.step, self.pending = None, []
            case "tool/call":
                self.pending.append(data["callId"])
            case "tool/result" if not replaces and data["message"]["source"]["callId"] in self.pending:
                self.pending.remove(data["message"]["source"]["callId"])
            case _:
                pass


def nesting(log: Iterable[Line]) -> Nesting:
    """Where *log* stands. Fails when it does not nest."""
    state = Nesting()
    for line in log:
        replaces = isinstance(line.get("surfaceOp"), dict)
        assert state.accepts(line["type"], line["data"], replaces), f"@{line['seq']} {line['type']} does not nest"
        state.take(line["type"], line["data"], replaces)
    return state


def surface_fault(
    log: Sequence[Line], type: str, replaces: tuple[int, int] | None, sources: list[int] | None
) -> set[str]:
    """Every rule of dsh-v0 §2.4-2.5 that an event breaks (the tool-result rewrite aside)."""
    if type not in SURFACE:
        return set() if replaces is None and sources is None else {"surface-eligible"}
    faults = set()
    if sources is not None:
        if sources == [] and type != "assistant/message":
            faults.add("sources-empty")
        if any(one < 0 for one in sources):
            faults.add("sources-type")
        if len(set(sources)) < len(sources):
            faults.add("sources-duplicate")
        if any(one >= len(log) for one in sources):
            faults.add("sources-later")
    if replaces is not None:
        now = nodes(log)
        start, end = replaces
        if start not in now:
            faults.add("replace-start")
        if end not in now:
            faults.add("replace-end")
        if not faults & {"replace-start", "replace-end"}:
            if now.index(start) > now.index(end):
                faults.add("replace-order")
            elif set(now[now.index(start) : now.index(end) + 1]) - set(sources or ()):
                faults.add("sources-shadowed")
    return faults
