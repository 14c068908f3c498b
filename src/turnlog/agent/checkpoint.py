"""Checkpoints: what precedes an action is durable before the action (dsh-v0 §9.2).

Three listeners wait for the store before a step begins, before a request leaves and before a tool's body runs. If the
store fails, so does what waits for it: no request is sent and no tool runs without its record. With no store attached
nothing is waited for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from turnlog.bus import Bus, Next, Outcome
from turnlog.events import StreamChunk
from turnlog.log import Session
from turnlog.model.hooks import LlmStream
from turnlog.tools import Execute, Result

from .hooks import Enter, PreStep, Reject


class Checkpoints:
    """The listeners of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def listen(self, bus: Bus) -> None:
        """Register; without a deadline, because a slow disk is no broken hook."""
        bus.on(PreStep, self.before_step, deadline=None)
        bus.on(LlmStream, self.before_request, deadline=None)
        bus.on(Execute, self.before_tool, deadline=None)

    async def before_step(self, event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        """The input's claim is durable before it is decided upon."""
        await self._session.durable()
        return await next(event)

    async def before_request(
        self, event: LlmStream, next: Next[LlmStream, AsyncGenerator[StreamChunk, None]]
    ) -> Outcome[AsyncGenerator[StreamChunk, None]]:
        """The user's text is durable before the request leaves."""
        await self._session.durable()
        return await next(event)

    async def before_tool(self, event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        """The call is durable before it can have an effect."""
        await self._session.durable()
        return await next(event)
