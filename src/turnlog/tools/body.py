"""Running the body of a tool so that nothing it does can hold up the loop.

A body runs in a task or a thread of its own. When the turn is cancelled or the tool's time is over it is told to stop
(a task is cancelled once, a thread can look at ``context.cancelled``), is given a grace period, and is then
*abandoned*: the call goes on without it, and what it still gives later is handed to whoever wants to note it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Final, cast

import anyio

from turnlog.bus import Cancellation

from .context import ToolContext

GRACE: Final = 2.0
"""Seconds a body has to clean up after it was told to stop."""


class Cause(Enum):
    """Why a body ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a body ended."""

    cause: Cause
    future: asyncio.Future[object]
    """Done, unless the body was abandoned."""

    @property
    def abandoned(self) -> bool:
        """Whether it is still running."""
        return not self.future.done()


def start(call: Callable[[], object], name: str) -> asyncio.Future[object]:
    """Begin the body of an async tool in a task; the future is done when it is. For others: :class:`Threads`."""
    return asyncio.get_running_loop().create_task(_contained(call), name=name)


async def run(
    body: asyncio.Future[object],
    context: ToolContext,
    cancellations: tuple[Cancellation, ...],
    *,
    timeout: float | None,
    grace: float,
) -> Ending:
    """Wait for *body*, or stop it when a cancellation fires or *timeout* seconds are over.

    When the caller's own task is cancelled, the body is stopped the same way first and then that cancel goes on.
    """
    cause = Cause.FINISHED
    with anyio.CancelScope(shield=True):  # the cancellations act in here, with their grace; nothing else cuts it short
        try:
            late = await _wait(body, context, cancellations, timeout)
        except asyncio.CancelledError:
            await stop(body, context, grace)
            raise
        if any(one.cause is not None for one in cancellations):
            cause = Cause.CANCELLED
        elif late:
            cause = Cause.TIMEOUT
        if not body.done():
            await stop(body, context, grace)
    return Ending(cause, body)


async def _wait(
    body: asyncio.Future[object], context: ToolContext, cancellations: tuple[Cancellation, ...], timeout: float | None
) -> bool:
    """Wait for the body, a cancellation or the deadline; True when it was the deadline."""
    with ExitStack() as scopes:
        for one in cancellations:
            scopes.enter_context(one.scope())
        limit = scopes.enter_context(anyio.move_on_after(timeout))
        context.limited_by(limit)
        await asyncio.wait({body})
    return limit.cancelled_caught


async def stop(body: asyncio.Future[object], context: ToolContext, grace: float) -> None:
    """Tell it to stop, and wait at most *grace* seconds until it did."""
    if body.done():
        return
    context.expire()
    if isinstance(body, asyncio.Task):
        body.cancel()
    await asyncio.wait({body}, timeout=grace)


async def _contained(call: Callable[[], object]) -> object:
    try:
        return await cast("Awaitable[object]", call())
    except SystemExit as error:  # would end the program, not the tool
        raise RuntimeError(f"the tool called sys.exit({error.code!r})") from error
