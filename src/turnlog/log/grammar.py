"""How turns, steps and calls nest (dsh-v0 §3.2), in O(1) per event.

The same rules serve append, which refuses what would break them, and ``verify``, which lists every place of a stored
log that does. Turn numbers count 1, 2, 3, … over the log, step numbers within the turn; a result answers a call of
its own step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    Payload,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    TodoWrite,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
    TurnStart,
)


class Grammar:
    """Where a log stands: the open turn and step (0 is none) and the calls that wait for a result."""

    __slots__ = ("next_step", "next_turn", "pending", "step", "turn")

    def __init__(self) -> None:
        self.turn = 0
        self.step = 0
        self.next_turn = 1
        self.next_step = 1
        self.pending: dict[str, int] = {}
        """Call id → how many calls of the open step with that id wait for a result."""

    def fault(self, payload: Payload, *, replaces: bool = False) -> str | None:
        """Why *payload* cannot come next, or None. Changes nothing."""
        rule = _RULES.get(type(payload))
        return rule(self, payload, replaces) if rule is not None else None

    def advance(self, payload: Payload, *, replaces: bool = False) -> None:
        """Take *payload* as the next event, whether or not it had a fault."""
        step = _STEPS.get(type(payload))
        if step is not None and not replaces:
            step(self, payload)

    def position_fault(self, turn: int, step: int) -> str | None:
        """Why something of this turn and step cannot come next, or None."""
        if turn == self.turn and step == self.step and step:
            return None
        return f"belongs to turn {turn} step {step}, but {self.where()}"

    def where(self) -> str:
        """The open turn and step in words."""
        if not self.turn:
            return "no turn is open"
        return f"turn {self.turn} step {self.step} is open" if self.step else f"turn {self.turn} is open without a step"


def _turn_start(g: Grammar, p: TurnStart, _replaces: bool) -> str | None:
    if g.turn:
        return f"turn {p.turn} cannot start: {g.where()}; end it first"
    if p.turn != g.next_turn:
        return f"turn {p.turn} cannot start: the next turn is {g.next_turn}"
    return None


def _turn_end(g: Grammar, p: TurnEnd, _replaces: bool) -> str | None:
    if p.turn != g.turn or not g.turn:
        return f"turn {p.turn} cannot end: {g.where()}"
    if g.step:
        return f"turn {p.turn} cannot end: step {g.step} is open; end it first"
    return None


def _step_start(g: Grammar, p: StepStart, _replaces: bool) -> str | None:
    if p.turn != g.turn or not g.turn:
        return f"step {p.step} of turn {p.turn} cannot start: {g.where()}"
    if g.step:
        return f"step {p.step} cannot start: step {g.step} is open; end it first"
    if p.step != g.next_step:
        return f"step {p.step} cannot start: the next step is {g.next_step}"
    return None


def _step_end(g: Grammar, p: StepEnd, _replaces: bool) -> str | None:
    if p.turn != g.turn or p.step != g.step or not g.step:
        return f"step {p.step} of turn {p.turn} cannot end: {g.where()}"
    return None


def _inside(g: Grammar, p: AssistantChunk | AssistantMessage, _replaces: bool) -> str | None:
    if p.turn == g.turn and p.step == g.step and g.step:
        return None
    return g.position_fault(p.turn, p.step)


def _tool_call(g: Grammar, p: ToolCall, _replaces: bool) -> str | None:
    fault = g.position_fault(p.turn, p.step)
    if fault is None and p.call_id in g.pending:
        return f"call id {p.call_id!r} already waits for a result in this step; make ids unique within a step"
    return fault


def _tool_result(g: Grammar, p: ToolResult, replaces: bool) -> str | None:
    if replaces:
        return _in_turn(g, p, replaces)
    fault = g.position_fault(p.turn, p.step)
    if fault is not None or p.call_id in g.pending or _never_started(p):
        return fault
    return f"no call {p.call_id!r} waits for a result in turn {p.turn} step {p.step}; log the tool/call first"


def _never_started(p: ToolResult) -> bool:
    content = p.message.content
    failed = bool(content) and isinstance(content[0], ToolResultBlock) and content[0].is_error is True
    return failed and p.error is not None and p.error.code == "TOOL_NOT_STARTED"


def _in_turn(g: Grammar, _p: Any, _replaces: bool) -> str | None:
    return None if g.turn else "needs an open turn, but no turn is open"


def _open_turn(g: Grammar, p: TurnStart) -> None:
    g.turn, g.step, g.next_step = p.turn, 0, 1
    g.pending.clear()


def _close_turn(g: Grammar, p: TurnEnd) -> None:
    g.turn = g.step = 0
    g.next_turn = p.turn + 1
    g.pending.clear()


def _open_step(g: Grammar, p: StepStart) -> None:
    g.turn, g.step = p.turn, p.step
    g.pending.clear()


def _close_step(g: Grammar, p: StepEnd) -> None:
    g.step, g.next_step = 0, p.step + 1
    g.pending.clear()


def _wait(g: Grammar, p: ToolCall) -> None:
    g.pending[p.call_id] = g.pending.get(p.call_id, 0) + 1


def _answer(g: Grammar, p: ToolResult) -> None:
    left = g.pending.pop(p.call_id, 1) - 1
    if left > 0:
        g.pending[p.call_id] = left


_RULES: Final[dict[type[Payload], Callable[[Grammar, Any, bool], str | None]]] = {
    TurnStart: _turn_start,
    TurnEnd: _turn_end,
    StepStart: _step_start,
    StepEnd: _step_end,
    AssistantChunk: _inside,
    AssistantMessage: _inside,
    ToolCall: _tool_call,
    ToolResult: _tool_result,
    TodoWrite: _in_turn,
    RequestHeader: _in_turn,
    RequestContext: _in_turn,
}

_STEPS: Final[dict[type[Payload], Callable[[Grammar, Any], None]]] = {
    TurnStart: _open_turn,
    TurnEnd: _close_turn,
    StepStart: _open_step,
    StepEnd: _close_step,
    ToolCall: _wait,
    ToolResult: _answer,
}
