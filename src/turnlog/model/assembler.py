"""`Assembler`: from the chunks of one attempt to the blocks of its message (dsh-v0 §4.8).

It reads chunks that are already in the log and is the only thing that interprets them. Blocks stand in the order in
which the stream first names their index; the first ``block-end`` of a block is authoritative and is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from turnlog.events import (
    Block,
    BlockEnd,
    BlockStart,
    Finish,
    FinishMaxTokens,
    FinishReason,
    Json,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    UsageChunk,
)
from turnlog.events.lossless import JsonArray, whole_text

from .errors import AssemblyError

_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class _Open:
    """A block while its deltas come."""

    __slots__ = ("block", "id", "kind", "name", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.id = ""
        self.name = ""
        self.block: Block | None = None
        """What its ``block-end`` said."""

    def close(self, index: int) -> Block:
        if self.block is not None:
            return self.block
        text = joined(self.pieces)
        match self.kind:
            case "text":
                return TextBlock(text)
            case "reasoning":
                return ReasoningBlock(text)
            case "tool-call":
                return ToolCallBlock(self.id or f"call-{index}", self.name, text)
            case kind:
                raise AssemblyError(f"block {index} is of the unknown kind {kind!r} and was never closed")


class Assembler:
    """Feed it every chunk of one attempt, in order, once it is logged."""

    __slots__ = ("_blocks", "_finish", "_usage")

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self._usage: TokenUsage | None = None
        self._finish: Finish | None = None

    def feed(self, chunk: StreamChunk) -> None:
        """Take in the next chunk. Raises :class:`AssemblyError` for a kind this build does not know."""
        kind = type(chunk)
        if kind is TextDelta or kind is ReasoningDelta or kind is ToolCallDelta:
            self._delta(chunk)  # type: ignore[arg-type]  # mypy does not narrow by `type(x) is`
            return
        match chunk:
            case BlockStart(index=index, block_type=block_type):
                if index not in self._blocks:
                    self._blocks[index] = _Open(block_type)
            case BlockEnd(index=index, block=block):
                opened = self._blocks.setdefault(index, _Open("closed"))
                opened.block = block if opened.block is None else opened.block
            case UsageChunk(usage=usage):
                self._usage = usage
            case Finish():
                self._finish = chunk
            case _:
                raise AssemblyError(f"no message can be made of a chunk of the unknown kind {chunk!r:.80}")

    def _delta(self, chunk: TextDelta | ReasoningDelta | ToolCallDelta) -> None:
        opened = self._blocks.get(chunk.index)
        if opened is None:
            opened = self._blocks[chunk.index] = _Open(_KINDS[type(chunk)])
        if opened.block is not None:
            return
        if isinstance(chunk, ToolCallDelta):
            opened.pieces.append(chunk.arguments_delta)
            opened.id = chunk.id
            opened.name = chunk.name or opened.name
        else:
            opened.pieces.append(chunk.text)

    @property
    def usage(self) -> TokenUsage | None:
        """What it cost, as far as the stream said."""
        return self._usage

    @property
    def finish(self) -> FinishReason | None:
        """How it ended; None while it has not."""
        return None if self._finish is None else self._finish.reason

    def content(self) -> tuple[Block, ...]:
        """The blocks of the message. An answer that the output limit cut has no calls: half a call is never run."""
        blocks = self._closed()
        if not isinstance(self.finish, FinishMaxTokens):
            return blocks
        return tuple(block for block in blocks if not isinstance(block, ToolCallBlock))

    def visible(self) -> tuple[Block, ...]:
        """What had been shown when the attempt was stopped: text and reasoning, no calls."""
        shown: list[Block] = []
        for index, opened in self._blocks.items():
            if opened.block is None and opened.kind not in ("text", "reasoning"):
                continue
            block = opened.close(index)
            if isinstance(block, TextBlock | ReasoningBlock) and block.text.strip():
                shown.append(type(block)(whole_text(block.text)))
        return tuple(shown)

    @property
    def replay_state(self) -> Json:
        """The adapter's state for this message, kept in step with :meth:`content`; None when it does not fit."""
        state = None if self._finish is None else self._finish.replay_state
        if not isinstance(state, Mapping) or "blocks" not in state:
            return state
        sides, blocks = state["blocks"], self._closed()
        if not isinstance(sides, list | tuple) or len(sides) != len(blocks):
            return None
        if not isinstance(self.finish, FinishMaxTokens):
            return state
        kept = [side for side, block in zip(sides, blocks, strict=True) if not isinstance(block, ToolCallBlock)]
        return {**state, "blocks": JsonArray(kept)}

    def _closed(self) -> tuple[Block, ...]:
        return tuple(opened.close(index) for index, opened in self._blocks.items())


_KINDS: Final[Mapping[type, str]] = {TextDelta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool-call"}


def joined(pieces: list[str]) -> str:
    """The pieces as one text; halves of a character that was cut between two of them are put together."""
    text = "".join(pieces)
    if text.isascii():
        return text
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
