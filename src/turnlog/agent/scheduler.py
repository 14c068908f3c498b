"""Which tool calls run when: in model order, those that declare it side by side, results always in model order.

Whatever happens, every call block of the answer has a call and a result in the log before its step ends: providers
refuse every later request of a history with a dangling call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio

from turnlog.bus import Cancellation
from turnlog.events import Message, ToolCall, ToolResult
from turnlog.log import Session
from turnlog.tools import Call, Executed, Pipeline, Prepared, Result, Toolbox

from .inbox import Inbox

MAX_PARALLEL: Final = 10
"""Calls that run at once unless told otherwise."""

_UNKNOWN: Final = (
    "The harness failed while this call was running, so its outcome is unknown. It may have had effects: look before "
    "you call it again."
)


class Scheduler:
    """Runs the calls of one answer after another."""

    def __init__(
        self, session: Session, inbox: Inbox, toolbox: Toolbox, pipeline: Pipeline, *, max_parallel: int
    ) -> None:
        if type(max_parallel) is not int or max_parallel < 1:
            raise ValueError(f"max_parallel is {max_parallel!r}; it is how many calls may run at once, 1 or more")
        self._session = session
        self._inbox = inbox
        self._toolbox = toolbox
        self._pipeline = pipeline
        self._max_parallel = max_parallel

    async def run(self, calls: Sequence[Call], cancellation: Cancellation) -> bool:
        """Run *calls*; whether one of their results concludes the turn.

        After a cancel nothing new starts, what runs is drained, and what never started is answered as such. A failure
        of the harness itself is raised once every call has its result.
        """
        batch = _Batch(self, calls, cancellation)
        try:
            position = 0
            while position < len(calls) and cancellation.cause is None:
                if self._toolbox.is_parallel(calls[position]):
                    position = await batch.pool(position)
                else:
                    await batch.alone(position)
                    position += 1
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            batch.settle()
        return batch.concluded


class _Batch:
    """The calls of one answer."""

    def __init__(self, scheduler: Scheduler, calls: Sequence[Call], cancellation: Cancellation) -> None:
        self._session = scheduler._session
        self._inbox = scheduler._inbox
        self._toolbox = scheduler._toolbox
        self._pipeline = scheduler._pipeline
        self._max_parallel = scheduler._max_parallel
        self._calls = calls
        self._cancellation = cancellation
        self._started: list[int] = []
        """The seq of each call that is in the log, in order."""
        self._committed = 0
        self._done: dict[int, Executed] = {}
        self._committing = anyio.Lock()
        self.concluded = False

    async def alone(self, position: int) -> None:
        """Run one call by itself."""
        prepared = await self._begin(position)
        await self._finish(position, await self._pipeline.execute(prepared))

    async def pool(self, first: int) -> int:
        """Run calls side by side from *first* on, until one is exclusive; the position of that one."""
        position = first
        slots = anyio.Semaphore(self._max_parallel)

        async def body(position: int, prepared: Prepared) -> None:
            try:
                executed = await self._pipeline.execute(prepared)
            finally:
                slots.release()
            await self._finish(position, executed)

        async with anyio.create_task_group() as group:
            while position < len(self._calls):
                await slots.acquire()
                if self._cancellation.cause is not None:
                    break
                if position > first and not self._toolbox.is_parallel(self._calls[position]):
                    break  # asked again right before the start: the toolbox may have changed
                group.start_soon(body, position, await self._begin(position))
                position += 1
        return position

    async def _begin(self, position: int) -> Prepared:
        call = self._calls[position]
        self._start(call)
        return await self._pipeline.prepare(call, self._cancellation)

    def _start(self, call: Call) -> None:
        event = self._session.append(
            ToolCall(turn=call.turn, step=call.step, call_id=call.call_id, name=call.name, arguments=call.arguments)
        )
        self._started.append(event.seq)

    async def _finish(self, position: int, executed: Executed) -> None:
        """Commit every result whose turn it is: the contiguous finished ones, in model order."""
        self._done[position] = executed
        async with self._committing:
            while self._committed in self._done:
                result = await self._pipeline.finish(self._done[self._committed])
                del self._done[self._committed]
                self._commit(result)

    def _commit(self, result: Result) -> None:
        position = self._committed
        call = self._calls[position]
        message = Message.from_tool(call.call_id, *result.content, is_error=result.is_error)
        payload = ToolResult(turn=call.turn, step=call.step, message=message, error=result.error, meta=result.meta)
        self._session.append(payload, sources=(self._started[position],))
        self._committed = position + 1  # only now: a result that the log refused is still owed
        self.concluded = self.concluded or result.concludes_turn
        for context in result.contexts:
            if context.id not in self._inbox.ids:  # what waits already is not put there twice
                self._inbox.append("next-step", context)

    def settle(self) -> None:
        """Give every call that has none its result. Appends only: nothing here can be cancelled."""
        cancelled = self._cancellation.cause is not None
        while self._committed < len(self._calls):
            if self._committed < len(self._started):
                self._commit(Result.failed(_UNKNOWN, name="ToolOutcomeUnknownError", code="TOOL_OUTCOME_UNKNOWN"))
            else:
                self._start(self._calls[self._committed])
                why = "the turn was cancelled" if cancelled else "the harness failed"
                self._commit(
                    Result.failed(
                        f"Not run: {why} before this call started.", name="AbortError", code="ABORTED_BEFORE_DISPATCH"
                    )
                )
