"""Where the loop waits for others: there a rerun does what was recorded, and gives what the agent was set up with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from turnlog.agent import (
    Context,
    Enter,
    GiveUp,
    PreStep,
    Reject,
    RequestConfig,
    RequestError,
    Retry,
    RetryPolicy,
    TurnFailed,
    TurnStopping,
)
from turnlog.agent.limits import Limits
from turnlog.agent.place import Turn
from turnlog.agent.request import without_defaults
from turnlog.bus import Bus, Next, Outcome, stop
from turnlog.bus.listeners import Registration
from turnlog.events import CallConfig, Failure, LlmRetry, StreamChunk
from turnlog.model import ModelInfo
from turnlog.model.hooks import LlmStream

from .conductor import Conductor
from .script import LIMITS

WAITS: Final = 100.0
"""Milliseconds of a retry's wait in which something was recorded; it comes at once, and may cut it short."""


class Holds:
    """The listeners of a rerun that do what is due."""

    def __init__(self, conductor: Conductor, live: ModelInfo | None) -> None:
        """*live*: the route from the step on from which nothing is recorded."""
        self._conductor = conductor
        self._live = live
        self._last: Registration | None = None

    def listen(self, bus: Bus) -> None:
        """Register: settings outermost, so that other listeners see them; the rest innermost."""
        self._bus = bus
        bus.on(RequestConfig, self._config, prepend=True, deadline=None)
        bus.on(RequestError, self._on_error, deadline=None)
        bus.on(LlmStream, self._before_request, deadline=None)
        bus.on(TurnStopping, self._stopping, deadline=None)

    async def before_step(self) -> str:
        """For a context that is never shown: the loop asks for its text before it asks its listeners."""
        conductor = self._conductor
        if self._last is not None:
            self._last.close()
            self._last = None
        await conductor.settle(said=conductor.patient)
        if not conductor.patient:
            self._fail()
        elif (event := conductor.recording.at(conductor.length)) is None or event.type != "hook/invoked":
            # after the others; not where they took every message out, for the log names whoever was asked
            self._last = self._bus.on(PreStep, self._after_others, deadline=None)
        return ""

    async def _after_others(self, event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
        await self._conductor.settle()
        return await next()

    def _fail(self) -> None:
        """Fail where the recorded turn did, when nothing in the log says why. Listeners fail by themselves."""
        conductor = self._conductor
        failure = conductor.recording.failure(conductor.length)
        if failure is not None and conductor.open and not conductor.patient and failure.code not in LIMITS:
            conductor.replayed.append(conductor.length)
            raise TurnFailed(failure)

    async def _config(self, event: RequestConfig, next: Next[RequestConfig, CallConfig]) -> Outcome[CallConfig]:
        conductor = self._conductor
        await conductor.settle()
        self._fail()
        if conductor.live and self._live is not None:
            return await next(replace(event, config=self._other_route(event.config, self._live)))
        header = conductor.recording.logs_header(conductor.length) if conductor.open else None
        if header is None:
            return await next()
        return await next(replace(event, config=without_defaults(header)))

    def _other_route(self, config: CallConfig, live: ModelInfo) -> CallConfig:
        return msgspec.structs.replace(config, provider=live.provider, model=live.model)

    async def _on_error(self, event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        await self._conductor.settle()
        if self._conductor.ended:
            return stop(GiveUp(), reason="the runs have parted")
        return await next()

    async def _stopping(self, event: TurnStopping) -> None:
        await self._conductor.settle()
        self._fail()

    async def _before_request(
        self, event: LlmStream, next: Next[LlmStream, AsyncGenerator[StreamChunk, None]]
    ) -> Outcome[AsyncGenerator[StreamChunk, None]]:
        await self._conductor.settle()
        self._fail()
        return await next()


@dataclass(frozen=True, slots=True)
class RecordedLimits(Limits):
    """Limits as they were reached; the log does not hold the settings."""

    conductor: Conductor | None = None

    @contextmanager
    def watch(self, turn: Turn) -> Iterator[None]:
        """Have the conductor cut *turn* off where it was cut off."""
        assert self.conductor is not None
        self.conductor.turn = turn
        yield

    def check_step(self, turn: Turn) -> None:
        """Fail where the next step was refused."""
        conductor = self.conductor
        assert conductor is not None
        failure = conductor.recording.failure(conductor.length) if conductor.open else None
        if failure is not None and failure.code in LIMITS:
            raise TurnFailed(failure)


@dataclass(frozen=True, slots=True)
class RecordedRetries(RetryPolicy):
    """A policy as the log knows it, without waiting. Where none is recorded, it does what was done."""

    conductor: Conductor | None = field(default=None, compare=False)
    known: bool = field(default=False, compare=False)

    def delay_ms(self, retry: int, failure: Failure) -> float | None:
        """0 where nothing came during the recorded wait, else enough for it to come."""
        conductor = self.conductor
        assert conductor is not None
        if conductor.live:
            return RetryPolicy.delay_ms(self, retry, failure)
        if conductor.ended:
            return None
        here, after = (conductor.recording.at(conductor.length + place) for place in (0, 1))
        recorded = here is not None and isinstance(here.data, LlmRetry)
        if not (RetryPolicy.delay_ms(self, retry, failure) is not None if self.known else recorded):
            return None
        cut = recorded and after is not None and after.type != "llm/retry-started"
        return WAITS if cut else 0


def retries(conductor: Conductor, policies: Iterator[Any]) -> RecordedRetries:
    """The policy of the first recorded retry."""
    for policy in policies:
        try:
            return RecordedRetries(
                mode=policy["mode"],
                max_retries=policy["maxRetries"],
                codes=tuple(policy["retryableCodes"]),
                initial_ms=policy["initialDelayMs"],
                max_ms=policy["maxDelayMs"],
                jitter=policy["jitterRatio"],
                conductor=conductor,
                known=True,
            )
        except (KeyError, TypeError, ValueError):
            continue  # another program's policy
    return RecordedRetries(conductor=conductor)


def contexts(conductor: Conductor, holds: Holds) -> list[Context]:
    """The recorded contexts, each with the text it had at this place, and one that is never shown."""

    def text(name: str) -> Context:
        return Context(name, lambda: conductor.recording.snapshot(conductor.length, name))

    return [Context("", holds.before_step), *map(text, conductor.recording.sections)]


def system(conductor: Conductor) -> str:
    """The recorded system prompt at this place."""
    header = conductor.recording.header(conductor.length)
    return "" if header is None else header.system or ""
