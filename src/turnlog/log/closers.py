"""Closers: what a log whose writer died still owes, so that it can be read and resumed (dsh-v0 §2.11).

For an open turn, in this order: the visible text of an unfinished attempt as an *interrupted* assistant message; a
result for every call without one; the end of the step; the end of the turn. They are a pure function of the log:
the same log always gives the same closers, and a log with its closers owes none.

A call that was never logged gets its ``tool/call`` first and then a result with the code a cancelled call has
(``ABORTED_BEFORE_DISPATCH``); dsh's own code for it is only legal with dsh's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    Block,
    BlockEnd,
    BlockStart,
    Finish,
    FinishAborted,
    FinishError,
    Interrupted,
    LlmRetry,
    Message,
    ModelSource,
    Payload,
    ReasoningBlock,
    ReasoningDelta,
    StepEnd,
    StepStart,
    TextBlock,
    TextDelta,
    ToolCall,
    ToolCallBlock,
    ToolError,
    ToolResult,
    ToolResultBlock,
    ToolSource,
    TurnEnd,
    TurnStart,
)
from turnlog.events.lossless import join_text, whole_text

from .event import AnyEvent, Replace

NOT_STARTED: Final = (
    "This call was not started: the program stopped before it ran. "
    "Nothing was changed by it; it can be asked for again."
)
OUTCOME_UNKNOWN: Final = (
    "The program stopped while this call ran, so its outcome is unknown. "
    "It may have taken effect: check before asking for it again."
)


class Closer(NamedTuple):
    """One event to append: payload and sources (None where unknown)."""

    payload: Payload
    sources: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Call:
    block: ToolCallBlock
    step: int
    seq: int | None = None


@dataclass(slots=True)
class _Attempt:
    """The chunks of the attempt that may still be running."""

    seqs: list[int] = field(default_factory=list)
    blocks: dict[int, Block | None] = field(default_factory=dict)
    """By index, in the order in which the stream first names them."""
    closed: set[int] = field(default_factory=set)
    ended: bool = False
    failed: bool = False

    def add(self, seq: int, chunk: object) -> None:
        if self.ended:
            self.seqs, self.blocks, self.closed, self.ended, self.failed = [], {}, set(), False, False
        self.seqs.append(seq)
        match chunk:
            case BlockStart(index=index):
                self.blocks.setdefault(index, None)
            case TextDelta(index=index, text=text):
                self._grow(index, TextBlock, text)
            case ReasoningDelta(index=index, text=text):
                self._grow(index, ReasoningBlock, text)
            case BlockEnd(index=index, block=block) if index not in self.closed:
                self.closed.add(index)
                self.blocks[index] = block
            case Finish(reason=reason):
                self.ended, self.failed = True, isinstance(reason, FinishError | FinishAborted)
            case _:
                pass

    def _grow(self, index: int, kind: type[TextBlock | ReasoningBlock], text: str) -> None:
        if index in self.closed:
            return
        known = self.blocks.get(index)
        so_far = known.text if isinstance(known, TextBlock | ReasoningBlock) else ""
        self.blocks[index] = kind(join_text(so_far, text))

    def visible(self) -> tuple[Block, ...]:
        if self.failed:
            return ()
        shown = [b for b in self.blocks.values() if isinstance(b, TextBlock | ReasoningBlock) and b.text.strip()]
        return tuple(type(b)(whole_text(b.text)) for b in shown)  # a half of a character may be the last thing said


@dataclass(slots=True)
class _Tail:
    """What the open turn owes."""

    turn: int = 0
    step: int = 0
    calls: list[_Call] = field(default_factory=list)
    early: dict[str, int] = field(default_factory=dict)
    """Calls that no message of the step has asked for so far: id → seq."""
    attempt: _Attempt = field(default_factory=_Attempt)

    def read(self, event: AnyEvent) -> None:
        if isinstance(event.surface_op, Replace):
            return  # rewritten history asks for nothing and answers nothing
        match event.data:
            case TurnStart(turn=turn):
                self.turn, self.step = turn, 0
                self._forget()
            case TurnEnd():
                self.turn = self.step = 0
                self._forget()
            case StepStart(step=step):
                self.step = step
                self._forget()
            case StepEnd():
                self.step = 0
                self._forget()
            case AssistantChunk(chunk=chunk):
                self.attempt.add(event.seq, chunk)
            case LlmRetry():
                self.attempt = _Attempt()
            case AssistantMessage(message=message, step=step):
                self.attempt = _Attempt()
                asked = [block for block in message.content if isinstance(block, ToolCallBlock)]
                self.calls += [_Call(block, step, self.early.pop(block.id, None)) for block in asked]
            case ToolCall(call_id=call_id):
                waiting = next((c for c in self.calls if c.block.id == call_id and c.seq is None), None)
                if waiting is None:
                    self.early[call_id] = event.seq
                else:
                    waiting.seq = event.seq
            case ToolResult(call_id=call_id):
                answered = next((c for c in self.calls if c.block.id == call_id), None)
                if answered is None:
                    self.early.pop(call_id, None)
                else:
                    self.calls.remove(answered)
            case _:
                pass

    def _forget(self) -> None:
        self.calls, self.early, self.attempt = [], {}, _Attempt()


def closers(open_turn: Iterable[AnyEvent], length: int, route: Callable[[], ModelSource | None]) -> list[Closer]:
    """What the log owes. *open_turn* are its events from the last ``turn/start`` on, *length* its event count,
    *route* gives the provider and model of its last request header."""
    tail = _Tail()
    for event in open_turn:
        tail.read(event)
    if not tail.turn:
        return []
    owed: list[Closer] = []
    blocks = tail.attempt.visible() if tail.step else ()
    source = route() if blocks else None
    if source is not None:
        message = Message("assistant", blocks, source, f"interrupted-assistant-{length}")
        payload = AssistantMessage(turn=tail.turn, step=tail.step, message=message, interrupted=True)
        owed.append(Closer(payload, tuple(tail.attempt.seqs)))
    for call in tail.calls:
        owed += _answer(tail.turn, call, length + len(owed))
    if tail.step:
        owed.append(Closer(StepEnd(turn=tail.turn, step=tail.step)))
    owed.append(Closer(TurnEnd(turn=tail.turn, reason=Interrupted())))
    return owed


def _answer(turn: int, call: _Call, seq: int) -> list[Closer]:
    if call.seq is not None:
        error = ToolError("ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN")
        return [Closer(_result(turn, call, seq, OUTCOME_UNKNOWN, error), (call.seq,))]
    block = call.block
    started = ToolCall(turn=turn, step=call.step, call_id=block.id, name=block.name, arguments=block.arguments)
    error = ToolError("AbortError", "ABORTED_BEFORE_DISPATCH")
    return [Closer(started), Closer(_result(turn, call, seq + 1, NOT_STARTED, error), (seq,))]


def _result(turn: int, call: _Call, seq: int, text: str, error: ToolError) -> ToolResult:
    block = ToolResultBlock(call.block.id, (TextBlock(text),), True)
    message = Message("user", (block,), ToolSource(call.block.id), f"interrupted-tool-result-{call.block.id}-{seq}")
    return ToolResult(turn=turn, step=call.step, message=message, error=error)
