"""Pruning: tool results too large for the context are cut to head and tail, by a replace that the log shows.

It happens when a provider says that the context is full, and before a step when the last request used most of a known
window. One pass converges: what it leaves is short enough to be left alone by the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from turnlog.bus import Next, Outcome, stop
from turnlog.events import (
    Block,
    CompactionPrune,
    Message,
    TextBlock,
    ToolResult,
    ToolResultBlock,
)
from turnlog.events.lossless import dump
from turnlog.log import Session, SessionEvent, is_event

from .hooks import Enter, GiveUp, PreStep, Reject, RequestError, Retry

if TYPE_CHECKING:
    from .agent import Agent

LONGEST: Final = 8192
"""Code points of text that a result may have before it is pruned."""
HEAD: Final = 4096
TAIL: Final = 1024
PRESSURE: Final = 0.8
"""Part of the window that a request may have used before results are pruned ahead of the next."""


class Pruner:
    """The listeners of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def on_error(self, event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        """A full context: prune and try again, once there is something to prune."""
        if event.agent is not self._agent:  # a bus may serve several
            return await next()
        if event.failure.code == "CONTEXT_WINDOW_EXCEEDED" and (count := prune(self._agent.session)):
            return stop(Retry(), reason=f"pruned {count} tool results")
        return await next()

    async def before_step(self, event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        """Little room is left: prune before the request is made."""
        window = self._agent.context_window
        if event.agent is self._agent and window is not None and self._agent.last_context_tokens >= window * PRESSURE:
            prune(self._agent.session)
        return await next()


def prune(session: Session) -> int:
    """Replace every visible tool result that is too long by its head and tail; how many there were."""
    found = list(_too_long(session))
    for event in found:
        result = event.data
        session.append(
            CompactionPrune(
                value={
                    "shadowedRange": {"start": event.seq, "end": event.seq},
                    "shadowedSeqs": [event.seq],
                    "shadowedTokenCount": tokens(result.message),
                }
            )
        )
        session.append(_pruned(result), replaces=(event.seq, event.seq), sources=(event.seq,))
    return len(found)


def _too_long(session: Session) -> Iterator[SessionEvent[ToolResult]]:
    for seq in session.surface:
        event = session.event(seq)
        if event.type == "tool/result" and is_event(event, ToolResult) and _is_long(event.data):
            yield event


def _is_long(result: ToolResult) -> bool:
    content = result.message.content  # other logs may hold odd ones
    return len(content) == 1 and isinstance(content[0], ToolResultBlock) and sum(map(len, _texts(result))) > LONGEST


def _texts(result: ToolResult) -> list[str]:
    return [
        inner.text
        for block in result.message.content
        if isinstance(block, ToolResultBlock)
        for inner in block.content
        if isinstance(inner, TextBlock)
    ]


def _pruned(result: ToolResult) -> ToolResult:
    message = result.message
    (block,) = message.content
    assert isinstance(block, ToolResultBlock)
    text = "".join(_texts(result))
    cut = len(text) - HEAD - TAIL
    short = TextBlock(f"{text[:HEAD]}\n[{cut} characters of this result were pruned]\n{text[-TAIL:]}")
    content = _with_text(block.content, short)
    shorter = ToolResultBlock(tool_call_id=block.tool_call_id, content=content, is_error=block.is_error)
    return ToolResult(
        turn=result.turn,
        step=result.step,
        message=Message(message.role, (shorter,), message.source, message.id),
        error=result.error,
        meta=result.meta,
    )


def _with_text(content: tuple[Block, ...], text: TextBlock) -> tuple[Block, ...]:
    """The blocks with all text in the place of the first text block."""
    first = next(index for index, block in enumerate(content) if isinstance(block, TextBlock))
    others = [block for block in content[first:] if not isinstance(block, TextBlock)]
    return (*content[:first], text, *others)


def tokens(message: Message) -> int:
    """A rough price of a message (dsh-v0 §9.4), in UTF-16 units as dsh counts them."""
    return 4 + sum(map(_block_tokens, message.content))


def _block_tokens(block: Block) -> int:
    if isinstance(block, TextBlock):
        return _quarter(block.text) + 4
    if isinstance(block, ToolResultBlock):
        return sum(map(_block_tokens, block.content)) + 4
    return 4 + _quarter(dump(block).decode())


def _quarter(text: str) -> int:
    return -(-len(text.encode("utf-16-le", "surrogatepass")) // 8)
