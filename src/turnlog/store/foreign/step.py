"""One answer of a foreign file, with its calls and their results, while its pieces come in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace as changed

from turnlog.events import (
    Block,
    Json,
    Message,
    ModelSource,
    Payload,
    TokenUsage,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
    ToolSchema,
    ToolSource,
)


class From(NamedTuple):
    """Where something comes from."""

    line: int
    time: int | None
    """Epoch ms; None takes the time of what was before it."""
    id: str | None = None
    """The id that the program gave it."""


class Item(NamedTuple):
    """Something that waits for its place."""

    origin: From
    payload: Payload | None
    """None: a record that is kept as it is."""
    type: str = ""
    raw: bytes = b""
    opens: bool = False
    """Whether an answer to it begins a turn."""
    rewind: int | None = None
    """A message takes the place of everything from this seq on."""
    inferred: bool = False
    meta: bytes = b""
    """JSON text of a result's ``meta``."""


class Request(NamedTuple):
    """What the file says about a request besides its messages, when its answer begins."""

    effort: str | None
    system: str | None
    tools: tuple[ToolSchema, ...] | None
    window: int | None


@dataclass
class Step:
    """One answer, what was before it and what came of it."""

    key: str
    """Tells the pieces of this answer from those of the next."""
    before: list[Item]
    model: ModelSource
    request: Request
    blocks: list[Block] = field(default_factory=list)
    sides: list[Json] = field(default_factory=list)
    """For each block what its provider wants back with it."""
    origins: list[From] = field(default_factory=list)
    """Of each block."""
    items: list[Item] = field(default_factory=list)
    """Calls, results and kept records, in the order of the file."""
    at: int = 0
    """How many of them stand before the answer."""
    usage: TokenUsage | None = None
    calls: int = 0
    open: int = 0
    """How many calls wait for a result."""
    cut: bool = False
    """Whether the output limit ended the answer."""
    failed: bool = False
    _waiting: dict[str, deque[str]] = field(default_factory=dict)
    """The file's call id → the ids in the log that wait for a result."""
    _taken: dict[str, int] = field(default_factory=dict)
    """The ids in the log, with how often the file has each."""

    def add(self, block: Block, side: Json, origin: From) -> bool:
        """One more block; gives whether a call's id was there before, so that the call has another one now."""
        renamed = False
        if not self.blocks:
            self.at = len(self.items)
        if isinstance(block, ToolCallBlock):
            id = self._unique(block.id)
            self._waiting.setdefault(block.id, deque()).append(id)
            self.calls += 1
            self.open += 1
            renamed = id != block.id
            block = changed(block, id=id) if renamed else block
            call = ToolCall(turn=0, step=0, call_id=id, name=block.name, arguments=block.arguments)
            self.items.append(Item(origin, call, inferred=True))
        self.blocks.append(block)
        self.sides.append(side)
        self.origins.append(origin)
        return renamed

    def answered(self, call_id: str, result: ToolResult) -> ToolResult | None:
        """The result of a call that waits for it, under the call's id in the log; None when none does."""
        waiting = self._waiting.get(call_id)
        if not waiting:
            return None
        self.open -= 1
        known = waiting.popleft()
        return result if known == call_id else _renamed(result, known)

    def message(self) -> Message:
        """The whole answer."""
        told = any(side is not None for side in self.sides)
        source = changed(self.model, replay_state={"blocks": self.sides}) if told else self.model
        return Message("assistant", tuple(self.blocks), source, self.key)

    def said_at(self) -> int | None:
        """When the answer was complete, as far as results that came before its last block let it be."""
        results = [one.origin.time for one in self.items if isinstance(one.payload, ToolResult)]
        first = next((time for time in results if time is not None), None)
        times = [one.time for one in self.origins if one.time is not None]
        before = [time for time in times if first is None or time <= first]
        return max(before) if before else times[0] if times else None

    def _unique(self, id: str) -> str:
        """The id, with a number where the step has it already."""
        times = self._taken.get(id, 0)
        self._taken[id] = times + 1
        if not times:
            return id
        number = times + 1
        while f"{id}~{number}" in self._taken:
            number += 1
        self._taken[id] = number
        self._taken[f"{id}~{number}"] = 1
        return f"{id}~{number}"


def _renamed(result: ToolResult, call_id: str) -> ToolResult:
    message = result.message
    block = message.content[0]
    assert isinstance(block, ToolResultBlock)
    content = (changed(block, tool_call_id=call_id),)
    return changed(result, message=changed(message, content=content, source=ToolSource(call_id)))
