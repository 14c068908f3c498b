"""`Call`: one tool call, joined from all that the log says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from turnlog.events import ToolCall, ToolCallBlock, ToolResult, ToolResultBlock
from turnlog.log import AnyEvent

from .address import CallAddress
from .streams import TimedChunk

CallState: TypeAlias = Literal["done", "failed", "running", "asked", "interrupted"]
"""``asked``: the model asked for it and it has not begun (yet). ``interrupted``: the writer died before its result."""


@dataclass(frozen=True)
class Call:
    """One tool call."""

    id: str
    turn: int
    step: int
    occurrence: int
    """1, unless the id is there several times in its step."""
    state: CallState
    block: ToolCallBlock | None
    """What the model asked for."""
    asked: AnyEvent | None
    """The ``assistant/message`` that holds the block."""
    chunks: tuple[TimedChunk, ...]
    """The stream of its arguments."""
    started: AnyEvent | None
    """Its ``tool/call``."""
    approvals: tuple[AnyEvent, ...]
    """What was asked of a person about it, and the answers."""
    result: AnyEvent | None
    """Its ``tool/result``."""
    synthetic: bool
    """Whether the result is a closer, made because the writer died."""
    others: tuple[AnyEvent, ...]
    """Other events that name the call: jobs, sub-calls, …"""
    replaced_by: tuple[int, ...] = ()
    """The events that took the result's place in the model's view, one after the other."""
    cited_by: tuple[int, ...] = ()
    """The later events that cite the call, its result or what replaced it."""

    @property
    def address(self) -> str:
        """``t3.s2.call:ID``"""
        return str(CallAddress(self.id, self.turn, self.step))

    @property
    def address_key(self) -> tuple[int, int, str, int]:
        """Turn, step, id and occurrence: no other call of its session has the same."""
        return self.turn, self.step, self.id, self.occurrence

    @property
    def name(self) -> str:
        """The tool's name."""
        if self.started is not None and isinstance(self.started.data, ToolCall):
            return self.started.data.name
        return "" if self.block is None else self.block.name

    @property
    def arguments(self) -> str:
        """The model's raw argument text, as the call got it."""
        if self.started is not None and isinstance(self.started.data, ToolCall):
            return self.started.data.arguments
        return "" if self.block is None else self.block.arguments

    @property
    def text(self) -> str:
        """The text of its result."""
        message = None if self.result is None else self.result.message
        return "" if message is None else message.text

    @property
    def duration_ms(self) -> int | None:
        """From its start to its result, waiting for people included; None while there is no result in the log."""
        if self.started is None or self.result is None or self.synthetic:
            return None
        return max(self.result.time - self.started.time, 0)

    @property
    def seq(self) -> int:
        """The event that stands for it: the result, else its start, else the message that asked."""
        return next(one.seq for one in (None if self.synthetic else self.result, self.started, self.asked, self.result)
                    if one is not None)  # fmt: skip

    @property
    def seqs(self) -> tuple[int, ...]:
        """Its start and its result in the log, and what replaced the result."""
        logged = (self.started, None if self.synthetic else self.result)
        return (*(one.seq for one in logged if one is not None), *self.replaced_by)


def is_error(result: AnyEvent) -> bool:
    """Whether a ``tool/result`` says that its call failed."""
    data = result.data
    if not isinstance(data, ToolResult):
        return False
    return data.error is not None or any(isinstance(b, ToolResultBlock) and b.is_error for b in data.message.content)
