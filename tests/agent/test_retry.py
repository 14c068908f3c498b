"""Retries: how often, how long, and that the log shows both (dsh-v0 §9.3, items 86, 145-146)."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.agent.harness import agent_of, call, code, echo, kinds, reason, script, text
from turnlog.agent import Agent, GiveUp, RequestConfig, RequestError, Retry, RetryPolicy
from turnlog.bus import Next, Outcome
from turnlog.events import Aborted, CallConfig, CancelledByUser, Failure, LlmRetry, LlmRetryStarted
from turnlog.log import Session
from turnlog.model import ModelInfo, ScriptedModel, error

SLOW = RetryPolicy(initial_ms=9000, max_ms=9000, jitter=0)


def retries(session: Session) -> list[Any]:
    return [event.data.value for event in session.select(LlmRetry)]


async def waiting(agent: Agent) -> None:
    while not retries(agent.session):
        await asyncio.sleep(0)
    await asyncio.sleep(0)


# -- the policy -----------------------------------------------------------------------------------------------------


def failure(after: float | None = None, code: str = "RATE_LIMIT") -> Failure:
    return Failure("x", code, provider_retry_after_ms=after)


def test_delays_double_up_to_the_cap() -> None:
    policy = RetryPolicy(max_retries=9, jitter=0)

    assert [policy.delay_ms(n, failure()) for n in range(1, 8)] == [500, 1000, 2000, 4000, 8000, 10_000, 10_000]


@pytest.mark.parametrize(("drawn", "delay"), [(0.0, 450), (0.5, 500), (1.0, 550)])
def test_jitter_is_a_part_of_the_delay_to_either_side(drawn: float, delay: float) -> None:
    assert RetryPolicy(random=lambda: drawn).delay_ms(1, failure()) == pytest.approx(delay)


def test_jitter_does_not_exceed_the_cap() -> None:
    assert RetryPolicy(initial_ms=10_000, random=lambda: 1.0).delay_ms(1, failure()) == 10_000


@pytest.mark.parametrize(
    ("asked", "normal", "always"),
    [
        (3000, 3000, 3000),
        (10_000, 10_000, 10_000),
        (10_001, None, 500),
        (0, 500, 500),
        (-5, 500, 500),
        (math.nan, 500, 500),
        (None, 500, 500),
    ],
)
def test_what_the_provider_asks_for_is_used_exactly_while_it_is_sensible(
    asked: float | None, normal: float | None, always: float | None
) -> None:
    assert RetryPolicy(jitter=0).delay_ms(1, failure(asked)) == normal
    assert RetryPolicy(jitter=0, mode="always").delay_ms(1, failure(asked)) == always


def test_only_listed_codes_are_tried_again_unless_the_mode_is_always() -> None:
    assert RetryPolicy().delay_ms(1, failure(code="AUTH")) is None
    assert RetryPolicy(mode="always", jitter=0).delay_ms(99, failure(code="AUTH")) == 10_000


def test_a_huge_number_of_retries_does_not_overflow() -> None:
    assert RetryPolicy(mode="always", jitter=0).delay_ms(10**9, failure()) == 10_000


@pytest.mark.parametrize(
    "bad", [{"initial_ms": -1}, {"initial_ms": 9, "max_ms": 8}, {"jitter": 2}, {"max_retries": -1}]
)
def test_a_policy_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs"):
        RetryPolicy(**bad)


# -- in a run -------------------------------------------------------------------------------------------------------


async def test_retries_of_a_step_share_their_id_are_numbered_and_each_has_its_start() -> None:
    agent = agent_of(error("SERVER"), error("TIMEOUT"), "ok")

    assert (await agent.run("Go.")).text == "ok"

    first, second = retries(agent.session)
    assert (first["retry"], second["retry"]) == (1, 2)
    assert first["failure"]["code"] == "SERVER"
    assert first["policyKey"] == second["policyKey"]
    started = [event.data.value["retryId"] for event in agent.session.select(LlmRetryStarted)]  # type: ignore[index,call-overload]
    assert started == [first["retryId"], second["retryId"]]
    assert len(set(started)) == 1
    assert [one.attempt for one in script(agent).requests] == [1, 2, 3]


async def test_when_the_budget_is_spent_the_last_failure_ends_the_turn() -> None:
    agent = agent_of(*[error("SERVER")] * 3, retry=RetryPolicy(initial_ms=0, max_ms=0, max_retries=2))

    await agent.run("Go.")

    assert code(agent.session) == "SERVER"
    assert len(retries(agent.session)) == 2


async def test_each_step_has_its_own_budget() -> None:
    policy = RetryPolicy(initial_ms=0, max_ms=0, max_retries=1)
    agent = agent_of(error("SERVER"), [call("echo", text="x")], error("SERVER"), "ok", tools=[echo], retry=policy)

    assert (await agent.run("Go.")).text == "ok"
    assert [one["retry"] for one in retries(agent.session)] == [1, 1]


async def test_each_provider_has_its_own_budget_also_when_they_take_turns() -> None:
    agent = Agent(
        Session(), ScriptedModel([error("SERVER")] * 9), retry=RetryPolicy(initial_ms=0, max_ms=0, max_retries=2)
    )
    agent._others["other", "one"] = ScriptedModel([error("SERVER")] * 9, info=ModelInfo("other", "one"))
    asked = 0

    async def alternate(event: RequestConfig, next: Next[RequestConfig, CallConfig]) -> Outcome[CallConfig]:
        nonlocal asked
        asked += 1
        provider, model = ("scripted", "script") if asked % 2 else ("other", "one")
        return await next(replace(event, config=msgspec.structs.replace(event.config, provider=provider, model=model)))

    agent.on(RequestConfig, alternate)
    await agent.run("Go.")

    assert [(one["provider"], one["retry"]) for one in retries(agent.session)] == [
        ("scripted", 1),
        ("other", 1),
        ("scripted", 2),
        ("other", 2),
    ]


@pytest.mark.parametrize("how", ["steer", "followup"])
async def test_steering_cuts_a_wait_short(how: str) -> None:
    agent = agent_of(error("RATE_LIMIT"), "ok", "more", retry=SLOW)
    agent.followup("Go.")
    await waiting(agent)

    began = time.monotonic()
    getattr(agent, how)("Hurry.")
    await agent.when_idle()

    assert time.monotonic() - began < 5
    assert script(agent).remaining == 0


@pytest.mark.parametrize("dispose", [True, False])
async def test_a_cancel_during_the_wait_starts_no_retry(dispose: bool) -> None:
    agent = agent_of(error("RATE_LIMIT"), "never", retry=SLOW)
    agent.followup("Go.")
    await waiting(agent)

    if dispose:
        await agent.aclose()
    else:
        agent.cancel()
        await agent.when_idle()
        assert reason(agent.session) == Aborted(CancelledByUser())

    assert "llm/retry-started" not in kinds(agent.session)
    assert len(script(agent).requests) == 1


async def test_what_asks_for_too_long_a_wait_is_handed_on() -> None:
    agent = agent_of(error("RATE_LIMIT", retry_after_ms=60_000))

    await agent.run("Go.")

    assert code(agent.session) == "RATE_LIMIT"
    assert retries(agent.session) == []


async def test_always_asks_the_others_first_and_takes_their_retry() -> None:
    agent = agent_of(error("AUTH"), error("AUTH"), "ok", retry=RetryPolicy(mode="always", initial_ms=0, max_ms=0))
    fixed = 0

    async def fix(event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        nonlocal fixed
        fixed += 1
        outcome = await next()
        return outcome.with_value(Retry()) if fixed == 1 else outcome

    agent.on(RequestError, fix)

    assert (await agent.run("Go.")).text == "ok"
    assert (fixed, len(retries(agent.session))) == (2, 1)


async def test_always_goes_on_when_the_others_fail(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(event: RequestError, next: Next[RequestError, Retry | GiveUp]) -> Outcome[Retry | GiveUp]:
        raise KeyError("recovery")

    agent = agent_of(error("AUTH"), "ok", retry=RetryPolicy(mode="always", initial_ms=0, max_ms=0))
    agent.on(RequestError, broken)

    with caplog.at_level(logging.ERROR, "turnlog"):
        assert (await agent.run("Go.")).text == "ok"
    assert "recovery failed" in caplog.text


async def test_what_failed_attempts_cost_is_in_the_bill() -> None:
    from turnlog.model import usage

    agent = agent_of([text("a"), usage(5, 1), error("SERVER")], [text("b"), usage(7, 2)])

    result = await agent.run("Go.")

    assert (result.usage.input_tokens, result.usage.output_tokens) == (12, 3)
