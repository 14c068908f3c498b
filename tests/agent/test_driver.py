"""Turns: what begins them, what ends them, and what becomes of what waits (dsh-v0 §4.3-4.5, items 66-96)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.harness import (
    Refused,
    agent_of,
    call,
    code,
    echo,
    kinds,
    reason,
    refusing,
    script,
    settled,
    streaming,
    text,
)
from turnlog.agent import (
    Agent,
    AgentBusy,
    AgentClosed,
    AgentFailed,
    Enter,
    InboxError,
    PreStep,
    Reject,
    StatusChanged,
    TurnStopping,
)
from turnlog.agent.limits import Limits
from turnlog.bus import Cancellation, Cancelled, Next, Outcome, stop
from turnlog.events import (
    Aborted,
    AssistantMessage,
    Blocked,
    CancelledByDisposal,
    CancelledByHook,
    CancelledByParent,
    CancelledByUser,
    Completed,
    Errored,
    InboxSpliced,
    MaxTokens,
    Payload,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from turnlog.log import Session
from turnlog.model import error, max_tokens, wait
from turnlog.tools import ToolContext, tool

Entered = Outcome[Enter | Reject]
Onward = Next[PreStep, Enter | Reject]


def forever() -> Any:
    return wait(asyncio.Event())


def texts(session: Session) -> list[str]:
    return [one.text for one in session.derive_messages()]


async def within(seconds: float, awaitable: Any) -> Any:
    async with asyncio.timeout(seconds):
        return await awaitable


# -- waking ---------------------------------------------------------------------------------------------------------


async def test_idle_steer_opens_a_turn_and_a_second_steer_joins_it_as_its_next_step() -> None:
    agent = agent_of("one", "two")

    agent.steer("First.")
    agent.steer("Second.")
    await agent.when_idle()

    log = kinds(agent.session)
    assert (log.count("turn/start"), log.count("step/start")) == (1, 2)
    assert texts(agent.session) == ["First.", "one", "Second.", "two"]


async def test_a_rejected_first_prompt_leaves_a_turn_without_step_and_the_next_one_runs() -> None:
    agent = agent_of("fine")
    agent.on(PreStep, guard)

    blocked, fine = await asyncio.gather(agent.run("the secret"), agent.run("harmless"))

    assert (blocked.reason, fine.text) == (Blocked(), "fine")
    assert "the secret" not in texts(agent.session)


async def guard(event: PreStep, next: Onward) -> Entered:
    if any("secret" in one.message.text for one in event.messages):
        return stop(Reject("no secrets"), reason="it names a secret")
    return await next()


async def test_a_rejection_at_a_later_step_ends_the_turn_blocked_after_a_completed_step() -> None:
    agent = agent_of([call("echo", text="x")], tools=[echo])
    agent.on(PreStep, guard)
    agent.on(StepStart, lambda event: asyncio.get_running_loop().call_soon(agent.inject, "a secret"))

    result = await agent.run("Go.")

    assert result.reason == Blocked()
    log = kinds(agent.session)
    assert log.count("step/start") == log.count("step/end") == 1
    assert log[-4:] == ["agent/inbox/spliced next-step -1", "hook/invoked", "hook/result", "turn/end blocked"]


async def test_an_emptied_steer_opens_no_step_once_the_turn_is_done() -> None:
    agent = agent_of("one")

    async def drop(event: PreStep, next: Onward) -> Entered:
        outcome = await next()
        return outcome if event.step == 1 else outcome.with_value(Enter(()))

    agent.on(PreStep, drop)
    agent.steer("Go.")
    agent.steer("More.")
    await agent.when_idle()

    assert reason(agent.session) == Completed()
    assert kinds(agent.session).count("step/start") == 1


async def test_an_emptied_prompt_does_not_hold_up_the_next_one() -> None:
    agent = agent_of("two")

    async def drop(event: PreStep, next: Onward) -> Entered:
        outcome = await next()
        return outcome.with_value(Enter(())) if event.turn == 1 else outcome

    agent.on(PreStep, drop)
    first, second = await asyncio.gather(agent.run("One."), agent.run("Two."))

    assert (first.reason, first.text, second.text) == (Completed(), "", "two")


async def test_a_wake_from_idle_opens_a_turn_also_when_its_message_is_withdrawn_at_once() -> None:
    agent = agent_of("one")
    agent.inject("kept")

    message = agent.followup("Hi.")

    assert not agent.inbox.remove(message.id)  # it is claimed already
    await agent.when_idle()
    assert reason(agent.session) == Completed()


async def test_turns_count_on_across_resume_and_fork() -> None:
    agent = agent_of("one", "two")
    await agent.run("One.")
    await agent.run("Two.")

    for session in (Session.resumed(agent.session), agent.session.fork()):
        session.settle()
        assert (await agent_of("three", session=session).run("Three.")).address == "t3"


# -- cancelling -----------------------------------------------------------------------------------------------------


async def test_cancelling_an_idle_agent_changes_nothing_for_the_next_prompt() -> None:
    agent = agent_of("one")

    agent.cancel()
    agent.cancel(CancelledByParent())

    assert len(agent.session) == 0
    assert (await agent.run("Hi.")).text == "one"


async def test_cancelling_right_after_sending_drops_all_prompts_and_leaves_one_turn_without_step() -> None:
    agent = agent_of()
    for prompt in "123":
        agent.followup(prompt)

    agent.cancel()
    await agent.when_idle()

    log = kinds(agent.session)
    assert (log.count("turn/start"), log.count("step/start")) == (1, 0)
    assert log[-2:] == ["agent/inbox/spliced next-turn -2 canceled", "turn/end aborted user"]


async def test_what_a_waking_send_has_claimed_is_not_given_back_and_kept_input_waits_for_the_next_wake() -> None:
    agent = agent_of("two", "three")
    agent.followup("One.")
    agent.followup("Two.")

    agent.cancel(keep_inbox=True)
    await agent.when_idle()

    assert [one.message.text for one in agent.inbox.waiting("next-turn")] == ["Two."]
    await agent.run("Three.")
    assert texts(agent.session) == ["Two.", "two", "Three.", "three"]


async def test_a_send_between_cancel_and_idle_starts_the_next_turn_by_itself() -> None:
    agent = agent_of([text("Hel"), forever()], "two")
    agent.followup("One.")
    agent.followup("Dropped.")
    await streaming(agent)

    agent.cancel()
    agent.steer("Two.")
    await within(5, agent.when_idle())  # waits for the new turn too

    assert texts(agent.session) == ["One.", "Hel", "Two.", "two"]
    log = kinds(agent.session)
    end = log.index("turn/end aborted user")
    assert log[end + 1 : end + 3] == ["turn/start", "agent/inbox/spliced next-turn -1"]
    assert log.index("agent/inbox/spliced next-turn -1 canceled") < end


async def test_what_is_withdrawn_between_cancel_and_idle_starts_nothing() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")
    await settled(lambda: bool(script(agent).requests))

    agent.cancel()
    message = agent.followup("Two.")
    agent.inbox.remove(message.id)
    await agent.when_idle()

    assert kinds(agent.session).count("turn/start") == 1


async def test_disposal_suppresses_what_was_sent_between_cancel_and_idle() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")
    await settled(lambda: bool(script(agent).requests))

    agent.cancel()
    agent.followup("Two.")
    await agent.aclose()

    assert kinds(agent.session).count("turn/start") == 1
    assert reason(agent.session) == Aborted(CancelledByUser())  # the first cause


async def test_the_first_cause_wins() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")
    await settled(lambda: bool(script(agent).requests))

    agent.cancel(CancelledByHook("budget"))
    agent.cancel()
    await agent.aclose()

    assert reason(agent.session) == Aborted(CancelledByHook("budget"))


async def test_a_cancel_by_the_observer_of_an_answer_runs_no_tool_and_answers_every_call() -> None:
    ran: list[str] = []

    @tool
    async def act() -> str:
        """Act."""
        ran.append("act")
        return "done"

    agent = agent_of([call("act"), call("act")], tools=[act])
    agent.on(AssistantMessage, lambda event: agent.cancel())
    await agent.run("Go.")

    assert ran == []
    assert [event.data.error.code for event in agent.session.select(ToolResult)] == ["ABORTED_BEFORE_DISPATCH"] * 2
    assert reason(agent.session) == Aborted(CancelledByUser())


async def test_a_cancel_in_turn_stopping_aborts_the_turn_without_another_step() -> None:
    agent = agent_of("one")

    async def halt(event: TurnStopping) -> None:
        event.agent.steer("more")
        event.agent.cancel()

    agent.on(TurnStopping, halt)
    result = await agent.run("Go.")

    assert result.reason == Aborted(CancelledByUser())
    assert kinds(agent.session).count("step/start") == 1


@pytest.mark.parametrize("kind", [TurnStart, StepStart, UserMessage, StepEnd])
async def test_a_cancel_from_inside_a_subscriber_withdraws_what_waits_and_aborts_the_turn(kind: type[Payload]) -> None:
    agent = agent_of("one")
    agent.on(kind, lambda event: agent.cancel(CancelledByParent()))
    agent.inbox.append("next-turn", UserMessage.of("One."), UserMessage.of("Two."))

    result = await within(5, agent.run("Three."))

    assert result.reason == Aborted(CancelledByParent())
    assert len(agent.inbox) == 0
    assert kinds(agent.session).count("turn/start") == 1


async def test_a_cancel_cancels_also_when_the_log_does_not_take_the_withdrawal() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")
    agent.followup("Two.")
    await settled(lambda: bool(script(agent).requests))
    refusing(agent.session, InboxSpliced)

    with pytest.raises(Refused):
        agent.cancel()
    await within(5, agent.when_idle())

    assert reason(agent.session) == Aborted(CancelledByUser())


async def test_what_a_hook_makes_of_a_cancel_does_not_change_how_the_turn_ends() -> None:
    reached = asyncio.Event()

    async def clumsy(event: PreStep, next: Onward) -> Entered:
        try:
            reached.set()
            await asyncio.Event().wait()
        except BaseException:
            raise ValueError("cleaning up failed") from None
        return await next()

    agent = agent_of()
    failures: list[object] = []
    agent.on(AgentFailed, failures.append)
    agent.on(PreStep, clumsy)
    agent.followup("Go.")
    await reached.wait()

    agent.cancel()
    await agent.when_idle()

    assert reason(agent.session) == Aborted(CancelledByUser())
    assert failures == []


async def test_a_hook_that_swallows_the_cancel_does_not_go_on() -> None:
    reached = asyncio.Event()

    async def deaf(event: PreStep, next: Onward) -> Entered:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return stop(Enter(event.messages), reason="whatever")

    agent = agent_of()
    agent.on(PreStep, deaf)
    agent.followup("Go.")
    await reached.wait()

    agent.cancel()
    await within(5, agent.when_idle())

    assert reason(agent.session) == Aborted(CancelledByUser())
    assert "step/start" not in kinds(agent.session)


async def test_a_hook_that_swallows_the_cancel_of_the_drivers_task_only_delays_it() -> None:
    reached = asyncio.Event()

    async def deaf(event: TurnStopping) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            event.agent.steer("On and on.")

    agent = agent_of("one", "two", "never")
    agent.on(TurnStopping, deaf)
    running = asyncio.ensure_future(agent.run("Go."))
    await reached.wait()

    agent._driver._task.cancel()  # type: ignore[union-attr]

    assert (await within(5, running)).reason == Aborted(CancelledByDisposal())
    assert len(script(agent).requests) == 2
    assert agent.status == "idle"


async def test_a_foreign_cancellation_is_an_error_of_whoever_raised_it() -> None:
    async def confused(event: PreStep, next: Onward) -> Entered:
        raise Cancelled(CancelledByUser())

    agent = agent_of()
    agent.on(PreStep, confused)
    await agent.run("Go.")

    assert code(agent.session) == "UNKNOWN"


async def test_a_tool_that_swallows_the_cancel_does_not_complete_the_turn() -> None:
    running = asyncio.Event()

    @tool
    async def deaf() -> str:
        """Ignore a cancel."""
        running.set()
        try:
            await asyncio.Event().wait()
        except BaseException:
            pass
        return "fine"

    agent = agent_of([call("deaf")], tools=[deaf])
    agent.followup("Go.")
    await running.wait()

    agent.cancel()
    await within(5, agent.when_idle())

    assert reason(agent.session) == Aborted(CancelledByUser())
    assert [event.data.error.code for event in agent.session.select(ToolResult)] == ["ABORTED"]
    assert len(script(agent).requests) == 1


# -- how turns end --------------------------------------------------------------------------------------------------


async def test_turn_stopping_may_steer_and_the_same_turn_goes_on() -> None:
    agent = agent_of("one", "two")

    async def more(event: TurnStopping) -> None:
        if len(script(agent).requests) == 1:
            event.agent.steer("And?")

    agent.on(TurnStopping, more)
    result = await agent.run("Go.")

    assert (result.text, result.address) == ("two", "t1")


async def test_what_turn_stopping_raises_ends_the_turn_with_an_error_and_the_loop_survives() -> None:
    agent = agent_of("one", "two")

    async def broken(event: TurnStopping) -> None:
        raise KeyError("oops")

    registration = agent.on(TurnStopping, broken)
    assert isinstance((await agent.run("Go.")).reason, Errored)
    registration.close()
    assert (await agent.run("Again.")).text == "two"


async def test_a_concluding_tool_ends_the_turn_unless_somebody_steered() -> None:
    @tool
    async def finish(ctx: ToolContext) -> str:
        """Finish."""
        ctx.conclude_turn()
        return "bye"

    agent = agent_of([call("finish")], [call("finish")], "more", tools=[finish])
    assert (await agent.run("Go.")).completed
    assert len(script(agent).requests) == 1

    agent.on(ToolCall, lambda event: asyncio.get_running_loop().call_soon(agent.steer, "Wait."))
    await agent.run("Go.")
    assert texts(agent.session)[-2:] == ["Wait.", "more"]


async def test_max_tokens_stays_the_reason_of_its_turn_and_does_not_leak_into_the_next() -> None:
    agent = agent_of([text("cut"), max_tokens()], "whole", "fine")
    agent.steer("One.")
    agent.steer("Two.")
    await agent.when_idle()
    assert reason(agent.session) == MaxTokens()
    assert texts(agent.session)[-1] == "whole"

    assert (await agent.run("Three.")).reason == Completed()


async def test_observers_that_raise_change_nothing() -> None:
    def broken(event: object) -> None:
        raise RuntimeError("observer")

    agent = agent_of([call("echo", text="x")], "done", tools=[echo])
    for kind in (TurnStart, StepStart, UserMessage, AssistantMessage, ToolCall, ToolResult, StepEnd, TurnEnd):
        agent.on(kind, broken)
    agent.on(StatusChanged, broken)

    assert (await agent.run("Go.")).text == "done"


async def test_a_refused_step_start_leaves_no_phantom_step() -> None:
    agent = agent_of()
    refusing(agent.session, StepStart)

    await agent.run("Go.")

    assert code(agent.session) == "UNKNOWN"
    assert not [one for one in kinds(agent.session) if one.startswith("step/")]


async def test_a_refused_turn_start_leaves_the_prompt_queued_and_is_told() -> None:
    agent = agent_of("one", "two")
    failures: list[AgentFailed] = []
    agent.on(AgentFailed, failures.append)
    refusing(agent.session, TurnStart)

    agent.followup("One.")

    assert agent.status == "idle"
    assert [str(one.error) for one in failures] == ["no turn/start now"]
    assert [one.message.text for one in agent.inbox.waiting("next-turn")] == ["One."]
    await agent.run("Two.")
    assert texts(agent.session) == ["One.", "one", "Two.", "two"]


@pytest.mark.parametrize("kind", [StepEnd, TurnEnd])
async def test_a_refused_end_is_told_and_the_agent_goes_idle(kind: type[Payload]) -> None:
    agent = agent_of("one")
    failures: list[AgentFailed] = []
    agent.on(AgentFailed, failures.append)
    refusing(agent.session, kind)

    result = await within(5, agent.run("Go."))

    assert isinstance(result.reason, Errored)
    assert agent.status == "idle"
    assert isinstance(failures[0].error, Refused)
    assert "turn/end completed" not in kinds(agent.session)


class Unshowable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot be shown")

    __repr__ = __str__


class Odd(str):
    def encode(self, *_: Any, **__: Any) -> bytes:
        raise RuntimeError("nor encoded")


class Oddly(Exception):
    def __str__(self) -> str:
        return Odd("odd \ud800")


def circular() -> Exception:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def deep() -> Exception:
    error = ValueError("0")
    for number in range(1, 5000):
        above = ValueError(str(number))
        above.__cause__ = error
        error = above
    return error


@pytest.mark.parametrize(
    "error",
    [Unshowable(), Oddly(), circular(), deep(), ExceptionGroup("many", [ValueError("a"), Unshowable()]), Exception()],
    ids=["unshowable", "odd text", "circular", "deep", "group", "empty"],
)
async def test_an_error_that_cannot_be_shown_still_closes_the_turn(error: Exception) -> None:
    async def broken(event: PreStep, next: Onward) -> Entered:
        raise error

    agent = agent_of()
    agent.on(PreStep, broken)
    result = await agent.run("Go.")

    assert isinstance(result.reason, Errored)
    assert result.reason.error.message.strip()
    assert len(result.reason.error.message) < 2000


# -- nobody waits for ever ------------------------------------------------------------------------------------------


async def test_a_withdrawn_prompt_says_who_withdrew_it() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")
    waiting = asyncio.ensure_future(agent.run("Two."))
    await settled(lambda: bool(script(agent).requests))

    agent.cancel(CancelledByParent())
    result = await within(5, waiting)

    assert (result.reason, result.turn, result.address) == (Aborted(CancelledByParent()), None, agent.session.id)


async def test_a_prompt_that_is_removed_from_the_inbox_was_withdrawn_by_the_user() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")
    waiting = asyncio.ensure_future(agent.run("Two."))
    await settled(lambda: bool(script(agent).requests))

    agent.inbox.remove(agent.inbox.waiting("next-turn")[0].id)

    assert (await within(5, waiting)).reason == Aborted(CancelledByUser())
    await agent.aclose()


async def test_a_run_whose_turn_cannot_start_raises_why() -> None:
    agent = agent_of()
    refusing(agent.session, TurnStart)

    with pytest.raises(Refused):
        await within(5, agent.run("One."))
    assert agent.status == "idle"


async def test_a_run_whose_input_cannot_be_claimed_raises_why_and_its_turn_is_closed() -> None:
    agent = agent_of("one")
    append = agent.session.append

    def refuse(payload: Payload, **options: Any) -> Any:
        if isinstance(payload, InboxSpliced) and not payload.value["inserted"]:  # type: ignore[index,call-overload]
            raise Refused("no claim")
        return append(payload, **options)

    agent.session.append = refuse  # type: ignore[method-assign,assignment]
    with pytest.raises(Refused):
        await within(5, agent.run("One."))

    assert agent.status == "idle"
    assert kinds(agent.session)[-2:] == ["turn/start", "turn/end error UNKNOWN"]


async def test_a_run_behind_a_failed_turn_is_run_all_the_same() -> None:
    agent = agent_of(error("AUTH"), "two")

    first, second = await within(5, asyncio.gather(agent.run("One."), agent.run("Two.")))

    assert isinstance(first.reason, Errored)
    assert second.text == "two"


async def test_a_followup_behind_a_failed_turn_waits_for_the_next_wake() -> None:
    agent = agent_of(error("AUTH"), "two", "three")
    agent.followup("One.")
    agent.followup("Two.")
    await agent.when_idle()
    assert [one.message.text for one in agent.inbox.waiting("next-turn")] == ["Two."]

    await agent.run("Three.")
    assert texts(agent.session)[-4:] == ["Two.", "two", "Three.", "three"]


async def test_a_run_that_a_cancel_leaves_parked_hears_of_it() -> None:
    agent = agent_of([forever()], "two", "three")
    agent.followup("One.")
    waiting = asyncio.ensure_future(agent.run("Two."))
    await settled(lambda: bool(script(agent).requests))

    agent.cancel(CancelledByParent(), keep_inbox=True)
    result = await within(5, waiting)

    assert (result.reason, result.turn) == (Aborted(CancelledByParent()), None)
    assert len(agent.inbox) == 1


@pytest.mark.parametrize("keep", [True, False])
async def test_a_run_that_is_cancelled_before_its_turn_opens_hears_of_it(keep: bool) -> None:
    agent = agent_of()

    def halt(event: StatusChanged) -> None:
        if event.status == "running":
            agent.cancel(keep_inbox=keep)

    agent.on(StatusChanged, halt)
    result = await within(5, agent.run("One."))

    assert result.reason == Aborted(CancelledByUser())
    assert "turn/start" not in kinds(agent.session)
    assert len(agent.inbox) == keep


async def test_a_run_on_a_closed_agent_raises() -> None:
    async with agent_of() as agent:
        pass

    with pytest.raises(AgentClosed):
        await within(5, agent.run("One."))
    with pytest.raises(AgentClosed):
        await agent.run_maintenance(_nothing)


async def _nothing(_: Cancellation) -> None:
    return None


async def test_a_run_that_waits_when_the_agent_is_closed_hears_of_it() -> None:
    agent = agent_of([forever()])
    waiting = [asyncio.ensure_future(agent.run(one)) for one in ("One.", "Two.")]
    await settled(lambda: bool(script(agent).requests))

    await agent.aclose()

    assert [one.reason for one in await asyncio.gather(*waiting)] == [Aborted(CancelledByDisposal())] * 2


async def test_a_run_whose_driver_is_cancelled_from_outside_hears_of_it() -> None:
    agent = agent_of([forever()])
    waiting = [asyncio.ensure_future(agent.run(one)) for one in ("One.", "Two.")]
    await settled(lambda: bool(script(agent).requests))

    agent._driver._task.cancel()  # type: ignore[union-attr]

    results = await within(5, asyncio.gather(*waiting))
    assert [one.reason for one in results] == [Aborted(CancelledByDisposal())] * 2
    assert agent.status == "idle"


async def test_a_message_is_run_once_at_a_time() -> None:
    agent = agent_of([forever()])
    message = UserMessage.of("One.")
    first = asyncio.ensure_future(agent.run(message))
    await settled(lambda: bool(script(agent).requests))

    with pytest.raises(InboxError):
        await agent.run(message)

    agent.cancel()
    assert (await within(5, first)).reason == Aborted(CancelledByUser())


async def test_cancelling_a_run_cancels_its_own_turn_only() -> None:
    agent = agent_of("one", [text("two"), forever()])
    first = asyncio.ensure_future(agent.run("One."))
    agent.on(TurnEnd, lambda event: first.cancel() if event.data.turn == 1 else None)
    await asyncio.sleep(0)
    agent.followup("Two.")

    with pytest.raises(asyncio.CancelledError):
        await first
    await streaming(agent, 5)

    assert agent.status == "running"
    await agent.aclose()


async def test_cancelling_a_run_that_waits_in_the_queue_withdraws_it_only() -> None:
    agent = agent_of([wait(0.01), text("one")])
    first = asyncio.ensure_future(agent.run("One."))
    second = asyncio.ensure_future(agent.run("Two."))
    await settled(lambda: bool(script(agent).requests))

    second.cancel()
    await asyncio.wait([second])

    assert (await first).text == "one"
    assert kinds(agent.session).count("turn/start") == 1


async def test_a_timeout_around_a_run_cancels_it_cleanly() -> None:
    agent = agent_of([text("So"), forever()])

    with pytest.raises(TimeoutError):
        await within(0.05, agent.run("One."))

    assert agent.status == "idle"
    assert reason(agent.session) == Aborted(CancelledByUser())


async def test_the_next_run_may_follow_at_once() -> None:
    agent = agent_of(*"abcdef")

    for answer in "abcdef":
        assert (await within(5, agent.run("Go."))).text == answer


# -- status, maintenance, the end -----------------------------------------------------------------------------------


async def test_a_status_is_never_told_twice_in_a_row() -> None:
    agent = agent_of("one", error("AUTH"), "three")
    told: list[str] = []
    agent.on(StatusChanged, lambda event: told.append(event.status))

    for prompt in "123":
        await agent.run(prompt)
    agent.cancel()
    await agent.run_maintenance(_nothing)

    assert told == ["running", "idle"] * 3


async def test_a_listener_that_hears_of_idle_may_begin_anew() -> None:
    agent = agent_of("one", "two")
    agent.on(StatusChanged, lambda event: agent.followup("Two.") if _first_idle(event) else None)

    await agent.run("One.")
    await agent.when_idle()

    assert texts(agent.session) == ["One.", "one", "Two.", "two"]


def _first_idle(event: StatusChanged) -> bool:
    return event.status == "idle" and kinds(event.agent.session).count("turn/start") == 1


async def test_no_turn_starts_during_maintenance_and_what_was_sent_then_starts_after_it() -> None:
    agent = agent_of("one")
    order: list[str] = []
    agent.on(TurnStart, lambda event: order.append("turn"))

    async def work(_: Cancellation) -> None:
        agent.followup("One.")
        await asyncio.sleep(0)
        order.append("work")

    await agent.run_maintenance(work)
    await agent.when_idle()

    assert order == ["work", "turn"]


async def test_maintenance_during_a_turn_is_refused_and_during_maintenance_too() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")
    with pytest.raises(AgentBusy):
        await agent.run_maintenance(_nothing)
    agent.cancel()
    await agent.when_idle()

    gate = asyncio.Event()

    async def work(_: Cancellation) -> None:
        await gate.wait()

    first = asyncio.ensure_future(agent.run_maintenance(work))
    await asyncio.sleep(0)
    with pytest.raises(AgentBusy):
        await agent.run_maintenance(_nothing)
    gate.set()
    await first


async def test_cancel_reaches_maintenance_and_what_it_raises_is_the_callers() -> None:
    agent = agent_of("one")

    async def work(cancellation: Cancellation) -> None:
        asyncio.get_running_loop().call_soon(agent.cancel)
        with cancellation.scope():
            await asyncio.Event().wait()
        cancellation.check()

    with pytest.raises(Cancelled):
        await within(5, agent.run_maintenance(work))
    assert (await agent.run("One.")).text == "one"


async def test_maintenance_that_is_cancelled_before_it_begins_leaves_the_agent_free() -> None:
    agent = agent_of("one")
    waiting = asyncio.ensure_future(agent.run_maintenance(_nothing))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])

    assert (await within(5, agent.run("One."))).text == "one"


async def test_an_event_queued_by_another_thread_is_committed_while_the_agent_runs() -> None:
    gate = asyncio.Event()
    agent = agent_of([text("one"), wait(gate)])
    agent.followup("Go.")
    await streaming(agent)
    note = UserMessage.of("from a thread")

    future = await asyncio.to_thread(agent.session.call_soon, note)
    event = await within(5, asyncio.wrap_future(future))

    assert event.data.message.text == "from a thread"
    gate.set()
    await agent.when_idle()
    assert reason(agent.session) == Completed()


def test_another_thread_may_queue_events_when_the_loop_is_gone() -> None:
    agent = agent_of("one", "two")
    agent.run_sync("One.")

    future = agent.session.call_soon(UserMessage.of("later"))
    agent.run_sync("Two.")

    assert future.result().data.message.text == "later"


async def test_closing_twice_at_once_is_fine() -> None:
    agent = agent_of([forever()])
    agent.followup("One.")

    await within(5, asyncio.gather(agent.aclose(), agent.aclose()))

    assert reason(agent.session) == Aborted(CancelledByDisposal())


# -- limits ---------------------------------------------------------------------------------------------------------


async def test_a_turn_with_too_many_steps_ends_with_step_limit() -> None:
    agent = agent_of(*[[call("echo", text="x")]] * 5, tools=[echo], max_steps=2)

    await agent.run("Go.")

    assert code(agent.session) == "STEP_LIMIT"
    assert kinds(agent.session).count("step/start") == 2


async def _streaming() -> Agent:
    return agent_of([text("Hel"), forever()], max_seconds=0.03)


async def _hanging_tool() -> Agent:
    @tool
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return "never"

    return agent_of([call("hang"), call("hang")], tools=[hang], max_seconds=0.03)


async def _waiting_for_a_retry() -> Agent:
    from turnlog.agent import RetryPolicy

    return agent_of(error("RATE_LIMIT"), max_seconds=0.03, retry=RetryPolicy(initial_ms=9000))


async def _hanging_hook() -> Agent:
    async def hang(event: PreStep, next: Onward) -> Entered:
        await asyncio.Event().wait()
        return await next()

    agent = agent_of(max_seconds=0.03)
    agent.on(PreStep, hang)
    return agent


@pytest.mark.parametrize("where", [_streaming, _hanging_tool, _waiting_for_a_retry, _hanging_hook])
async def test_a_turn_that_takes_too_long_is_cut_and_ends_with_time_limit(where: Callable[[], Any]) -> None:
    agent = await where()
    failures: list[AgentFailed] = []
    agent.on(AgentFailed, failures.append)

    result = await within(5, agent.run("Go."))

    assert isinstance(result.reason, Errored)
    assert code(agent.session) == "TIME_LIMIT"
    assert len(failures) == 1
    log = kinds(agent.session)
    assert log.count("step/start") == log.count("step/end")
    assert len(list(agent.session.select(ToolCall))) == len(list(agent.session.select(ToolResult)))


async def test_what_is_sent_while_a_turn_is_cut_off_by_its_limit_is_run_after_it() -> None:
    agent = agent_of([forever()], "two", max_seconds=0.03)
    agent.on(ToolCall, lambda event: None)
    agent.followup("One.")
    while agent._driver._cancellation.cause is None:
        await asyncio.sleep(0.001)

    agent.followup("Two.")
    await within(5, agent.when_idle())

    assert texts(agent.session)[-1] == "two"


async def test_a_turn_that_costs_too_much_ends_with_cost_limit_before_its_next_step() -> None:
    from turnlog.model import usage

    agent = agent_of(
        *[[call("echo", text="x"), usage(10, 10)]] * 5,
        tools=[echo],
        max_cost=30,
        price=lambda one: one.input_tokens * 2,
    )

    await agent.run("Go.")

    assert code(agent.session) == "COST_LIMIT"
    assert kinds(agent.session).count("step/start") == 2


def test_a_cost_limit_needs_a_price() -> None:
    with pytest.raises(ValueError, match="price="):
        agent_of(max_cost=1)


async def test_waking_an_idle_agent_works_on_what_waits_and_says_nothing_itself() -> None:
    agent = agent_of("one")
    agent.inject("For later.")
    assert (agent.status, agent.task) == ("idle", None)
    agent.wake()
    assert agent.status == "running"
    assert agent.task is not None
    await within(5, agent.when_idle())
    assert [one.data.message.text for one in agent.session.select(UserMessage)] == ["For later."]
    agent.wake()
    await within(5, agent.when_idle())
    assert len(list(agent.session.select(TurnStart))) == 1, "nothing waits, so no turn is opened"


def test_limits_stand_for_all_four_and_beside_none_of_them() -> None:
    with pytest.raises(ValueError, match="limits= is given beside max_steps"):
        agent_of("one", limits=Limits(max_steps=1), max_steps=2)


async def test_limits_of_ones_own_decide_before_every_step() -> None:
    agent = agent_of(call("nobody"), "two", limits=Limits(max_steps=1))
    done = await within(5, agent.run("One."))
    assert isinstance(done.reason, Errored)
    assert done.reason.error.code == "STEP_LIMIT"
