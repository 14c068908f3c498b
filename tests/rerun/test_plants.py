"""Changes planted in the loop are found, each where the logs begin to differ."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rerun import scenarios
from tests.rerun.test_rerun import again, recorded
from turnlog.agent import RetryPolicy
from turnlog.agent.driver import Driver
from turnlog.agent.inbox import Inbox
from turnlog.agent.request import Requests
from turnlog.agent.scheduler import _Batch
from turnlog.events import AssistantChunk, Completed, Finish, FinishError, InboxSpliced, MaxTokens
from turnlog.log import Session
from turnlog.rerun import Rerun
from turnlog.tools import Executed


def seqs(session: Session, type: str) -> list[int]:
    return [event.seq for event in session.events if event.type == type]


def found(made: Rerun) -> tuple[int, str]:
    """The seq in the recording, and what differs."""
    assert made.divergence is not None
    assert made.divergence.left is not None
    return made.divergence.left.seq, made.divergence.path


def test_results_committed_in_the_order_in_which_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    session = recorded(scenarios.plain)

    async def finish(self: _Batch, position: int, executed: Executed) -> None:
        result = await self._pipeline.finish(executed)
        before, self._committed = self._committed, position
        self._commit(result)
        self._committed = before + 1

    monkeypatch.setattr(_Batch, "_finish", finish)
    made = again(session, scenarios.plain)
    assert found(made) == (seqs(session, "tool/result")[0], "$.message.content[0].content[0].text")
    assert "'b'" in str(made) or '"b"' in str(made)


def test_one_retry_less(monkeypatch: pytest.MonkeyPatch) -> None:
    session = recorded(scenarios.failing)
    delay_ms = RetryPolicy.delay_ms
    monkeypatch.setattr(RetryPolicy, "delay_ms", lambda self, retry, failure: delay_ms(self, retry + 1, failure))
    made = again(session, scenarios.failing)
    assert found(made) == (seqs(session, "llm/retry")[1], "type")
    assert "llm/retry and step/end" in str(made)


def test_one_retry_more(monkeypatch: pytest.MonkeyPatch) -> None:
    session = recorded(scenarios.failing)
    delay_ms = RetryPolicy.delay_ms
    monkeypatch.setattr(RetryPolicy, "delay_ms", lambda self, retry, failure: delay_ms(self, retry - 1, failure))
    made = again(session, scenarios.failing)
    last = [
        event.seq
        for event in session.select(AssistantChunk)
        if isinstance(event.data.chunk, Finish) and isinstance(event.data.chunk.reason, FinishError)
    ][-1]
    assert found(made) == (last + 1, "type")
    assert "step/end and llm/retry" in str(made)


def test_an_output_limit_that_does_not_stick(monkeypatch: pytest.MonkeyPatch) -> None:
    session = recorded(scenarios.cut_and_steered)
    assert "max-tokens" in list(session.events)[-1].line().decode()
    step = Driver._step

    async def forgets(self: Driver, turn: Any, messages: Any) -> Any:
        ends = await step(self, turn, messages)
        return Completed() if isinstance(ends, MaxTokens) else ends

    monkeypatch.setattr(Driver, "_step", forgets)
    made = again(session, scenarios.cut_and_steered)
    assert found(made) == (len(session) - 1, "$.reason.kind")
    assert '"max-tokens" and "completed"' in str(made)


def test_steering_claimed_a_step_late(monkeypatch: pytest.MonkeyPatch) -> None:
    session = recorded(scenarios.plain)  # what `look` leaves for the next step
    claim = Inbox.claim
    late: list[int] = []

    def sleepy(self: Inbox, target: Any, turn: int) -> Any:
        if target == "next-step" and self.waiting("next-step") and not late:
            late.append(turn)
            return ()
        return claim(self, target, turn)

    monkeypatch.setattr(Inbox, "claim", sleepy)
    made = again(session, scenarios.plain)
    taken = [
        event.seq
        for event in session.select(InboxSpliced)
        if event.data.value["target"] == "next-step" and "removedCount" in event.data.value  # type: ignore[index,call-overload,operator]
    ]
    assert found(made) == (taken[0], "type")
    assert "agent/inbox/spliced and step/start" in str(made)


def test_a_header_that_changed_and_is_not_logged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session = recorded(scenarios.raised)
    log_header = Requests._log_header

    def once(self: Requests, header: Any) -> Any:
        return self._header if self._header is not None else log_header(self, header)

    monkeypatch.setattr(Requests, "_log_header", once)
    made = again(session, scenarios.raised)
    assert found(made) == (seqs(session, "request/header")[1], "type")
    assert "request/header and" in str(made)
