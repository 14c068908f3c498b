"""A step: one model request, repeated while something recovers from its failure, and the tools it asks for."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from turnlog.bus import Bus
from turnlog.events import Completed, MaxTokens, ToolCallBlock
from turnlog.tools import Call

from .attempt import Attempt, Attempts
from .failure import TurnFailed, checked
from .hooks import GiveUp, RequestError, Retry
from .place import Turn
from .request import Requests
from .scheduler import Scheduler

if TYPE_CHECKING:
    from .agent import Agent


class Steps:
    """Runs the steps of one agent."""

    def __init__(self, agent: Agent, *, bus: Bus, requests: Requests, attempts: Attempts, scheduler: Scheduler) -> None:
        self._agent = agent
        self._bus = bus
        self._requests = requests
        self._attempts = attempts
        self._scheduler = scheduler

    async def run(self, turn: Turn) -> Completed | MaxTokens | None:
        """How the turn would end after this step; None when the model waits for tool results."""
        attempt = await self._answer(turn)
        message = attempt.commit()
        if attempt.hit_limit:
            return MaxTokens()
        calls = [
            Call(turn.number, turn.step, block.id, block.name, block.arguments)
            for block in message.content
            if isinstance(block, ToolCallBlock)
        ]
        if not calls:
            return Completed()
        concluded = await self._scheduler.run(calls, turn.cancellation)
        return Completed() if concluded else None

    async def _answer(self, turn: Turn) -> Attempt:
        """The first attempt that succeeds. Raises ``TurnFailed`` when nothing recovers from a failure."""
        for number in count(1):
            model, request = await self._requests.next(turn, number)
            attempt = await self._attempts.send(turn, model, request)
            failure = attempt.failure
            if failure is None:
                return attempt
            event = RequestError(
                self._agent, turn.number, turn.step, number, request.header.config.provider, failure, turn.cancellation
            )
            with turn.cancellation.scope():
                action = checked(RequestError, (await self._bus.waterfall(event, _give_up)).value, Retry, GiveUp)
            turn.check()
            if not isinstance(action, Retry):
                raise TurnFailed(failure)
        raise AssertionError("attempts are counted without end")


async def _give_up(_event: RequestError) -> Retry | GiveUp:
    return GiveUp()
