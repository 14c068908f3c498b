"""Retries (dsh-v0 §9.3): a listener on ``agent/request-error``. Both the wait and its end are in the log.

The delay doubles from try to try, with jitter; what the provider asks for is used exactly while it is below the cap,
and when it asks for more than that a ``normal`` policy gives up. Steering and cancelling cut the wait short.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import anyio

from turnlog.bus import Next, Outcome, stop
from turnlog.events import Failure, Json, LlmRetry, LlmRetryStarted
from turnlog.events.lenient import parse
from turnlog.events.lossless import dump
from turnlog.events.value import new_id

from .hooks import GiveUp, RequestError, Retry

if TYPE_CHECKING:
    from .agent import Agent

logger: Final = logging.getLogger("turnlog")

RETRYABLE: Final = ("EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "STREAM_CLOSED", "TIMEOUT", "TRANSPORT")
"""Failures that may pass by themselves."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When and how often to try again."""

    mode: Literal["normal", "always"] = "normal"
    """``always`` retries whatever fails, without end; for batch runs."""
    max_retries: int = 5
    codes: tuple[str, ...] = RETRYABLE
    initial_ms: float = 500
    max_ms: float = 10_000
    jitter: float = 0.1
    """Part of the delay that is random, 0 to 1."""
    random: Callable[[], float] = field(default=random.random, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.initial_ms <= self.max_ms or not 0 <= self.jitter <= 1 or self.max_retries < 0:
            raise ValueError(f"{self}: needs 0 <= initial_ms <= max_ms, 0 <= jitter <= 1 and max_retries >= 0")

    @property
    def key(self) -> str:
        """What the log knows the policy by."""
        parts = {
            "mode": self.mode,
            "maxRetries": self.max_retries,
            "retryableCodes": sorted(self.codes),
            "initialDelayMs": self.initial_ms,
            "maxDelayMs": self.max_ms,
            "jitterRatio": self.jitter,
        }
        return json.dumps(parts, separators=(",", ":"))

    def delay_ms(self, retry: int, failure: Failure) -> float | None:
        """Milliseconds before retry number *retry* (1, 2, …); None when it is not to be tried again."""
        if self.mode == "normal" and (retry > self.max_retries or failure.code not in self.codes):
            return None
        asked = failure.provider_retry_after_ms
        if asked is not None and 0 < asked <= self.max_ms:  # zero and NaN ask for nothing
            return asked
        if asked is not None and asked > self.max_ms and self.mode == "normal":
            return None
        base = min(self.initial_ms * 2.0 ** min(retry - 1, 60), self.max_ms)
        return min(base * (1 - self.jitter + 2 * self.jitter * self.random()), self.max_ms)


@dataclass(slots=True)
class _Chain:
    """Retries that belong together; dsh refuses a log in which they do not share their id."""

    id: str = field(default_factory=new_id)
    count: int = 0


class Retries:
    """The listener of one agent."""

    def __init__(self, agent: Agent, policy: RetryPolicy) -> None:
        self._agent = agent
        self._policy = policy
        self._step = (0, 0)
        self._chains: dict[str, _Chain] = {}
        """The retries of the step so far, by provider."""

    async def on_error(self, event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        """Wait and try again, or hand on to whoever else may recover."""
        if event.agent is not self._agent:  # a bus may serve several
            return await next()
        chain = self._chain(event)
        retry = chain.count + 1
        delay = self._policy.delay_ms(retry, event.failure)
        if delay is None:
            return await next()
        if self._policy.mode == "always" and (recovered := await _recovered(next)) is not None:
            return recovered
        session = self._agent.session
        session.append(LlmRetry(value=self._record(event, chain.id, retry, delay)))
        with anyio.move_on_after(delay / 1000):
            await self._agent.steered()
        event.cancellation.check()
        place: dict[str, Json] = {"retryId": chain.id, "turn": event.turn, "step": event.step, "retry": retry}
        session.append(LlmRetryStarted(value=place))
        chain.count = retry
        return stop(Retry(), reason=f"retry {retry} after {event.failure.code}")

    def _chain(self, event: RequestError) -> _Chain:
        """The retries of this step on the same provider."""
        if (event.turn, event.step) != self._step:
            self._step, self._chains = (event.turn, event.step), {}
        return self._chains.setdefault(event.provider, _Chain())

    def _record(self, event: RequestError, retry_id: str, retry: int, delay: float) -> dict[str, Json]:
        policy = self._policy
        record: dict[str, Json] = {
            "retryId": retry_id,
            "turn": event.turn,
            "step": event.step,
            "provider": event.provider,
            "mode": policy.mode,
            "policyKey": policy.key,
            "retry": retry,
        }
        if policy.mode == "normal":
            record["maxRetries"] = policy.max_retries
        record["delayMs"] = delay
        record["failure"] = parse(dump(event.failure))
        return record


async def _recovered(next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp] | None:
    """What the others make of it, if that is another try. A failure of theirs is no reason to stop trying."""
    try:
        outcome = await next()
    except Exception:  # logged, because nobody hears of it otherwise
        logger.exception("agent/request-error: recovery failed; trying again all the same")
        return None
    return outcome if isinstance(outcome.value, Retry) else None
