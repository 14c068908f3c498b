"""`Conductor`: keeps a rerun in step with its recording.

It hears every event of the new log. Whatever came from outside happens when the new log is as long as the old one was
then; where the loop waits for something in between, the wait ends there. As soon as an event is of another type than
the recorded one, the runs have parted: from then on nothing is held back any more, so that the loop comes to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec

from turnlog.events import (
    Aborted,
    AssistantMessage,
    CancelledByDisposal,
    Errored,
    Failure,
    InboxSpliced,
    ModelInput,
    Payload,
    StepEnd,
    ToolCall,
    ToolResult,
    TurnEnd,
    UserSource,
)
from turnlog.log import AnyEvent, Replace, Session, Subscription
from turnlog.tools import Approvals

from .recording import Recording
from .script import Action, Cancel, Copy, Insert, Withdraw

if TYPE_CHECKING:
    from turnlog.agent import Agent
    from turnlog.agent.place import Turn

TICKS: Final = 5
"""How often other listeners get to run before what was recorded is done in their place."""

Ended = Literal["", "diverged", "cut", "stalled"]


class Conductor:
    """The state of one rerun."""

    def __init__(self, recording: Recording, *, live_from: int | None, approvals: Approvals, patient: bool) -> None:
        """*live_from*: the seq from which on nothing is recorded. *patient*: others listen, who may act first."""
        self.recording: Final = recording
        self.approvals: Final = approvals
        self.new: Session
        self.agent: Agent | None = None
        self.live = live_from == 0
        self.ended: Ended = ""
        self.stopped_at = 0
        """How many events the new log held when it ended."""
        self.retrying = False
        self.live_from = live_from or 0
        self._last_call = 0
        self._live_from = live_from
        self.patient = patient
        self._cancelled: set[int] = set()
        self._cancelling = False
        self.turn: Turn | None = None
        """The turn that runs."""
        self.replayed: list[int] = []
        """Where a turn was made to fail because it had failed there, and nothing else in the log says why."""
        self._moved = asyncio.Event()
        self._subscription: Subscription | None = None
        self._cuts: set[int] = set()
        self._begin_live: Callable[[], object] = lambda: None

    def follow(self, session: Session, cuts: set[int]) -> None:
        """Hear *session* from now on. At a length in *cuts* the recorded writer was gone."""
        if self._subscription is not None:
            self._subscription.close()
        self.new = session
        self._cuts = cuts
        self._subscription = session.subscribe(self._logged)
        self._prepare(len(session))

    def when_live(self, begin: Callable[[], object]) -> None:
        """Have *begin* called once nothing is recorded any more."""
        self._begin_live = begin
        if self.live:
            begin()

    def leave(self) -> None:
        """Hear nothing any more."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    @property
    def open(self) -> bool:
        """Whether what the loop does next is still compared, and so held to the recording."""
        return not self.ended and not self.live

    @property
    def length(self) -> int:
        """Events of the new log so far."""
        return len(self.new)

    @property
    def cancelling(self) -> bool:
        """Whether a recorded cancel has been done, and its turn is not over."""
        return self._cancelling

    # -- hearing ------------------------------------------------------------------------------------------------

    def _logged(self, event: AnyEvent) -> None:
        if self.ended:
            return
        if not self.live:
            recorded = self.recording.at(event.seq)
            if recorded is None or recorded.type != event.type:
                self.end("diverged", event.seq + 1)
                return
            self._note(event)
            self._prepare(event.seq + 1)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def last_call(self) -> int:
        """The seq of the call that was started last."""
        return self._last_call

    def _note(self, event: AnyEvent) -> None:
        next_action = self.recording.actions.get(event.seq + 1)
        ends = isinstance(next_action, Cancel) or (isinstance(next_action, Withdraw) and not next_action.instead)
        if event.type == "tool/result" and (ends or not self.patient) and self._is_due(event.seq + 1):
            after = self.recording.at(event.seq + 1)
            if after is not None and after.type not in ("tool/result", "tool/call"):  # those are for who runs them
                # as soon as the loop waits for anything; a listener that ends something too does no harm
                asyncio.get_running_loop().call_soon(self.do_due)
        if event.type == "tool/call":
            self._last_call = event.seq
        if event.type == "llm/retry":
            self.retrying = True
            if self._is_due(event.seq + 1):
                asyncio.get_running_loop().call_soon(self.do_due)
        elif event.type in ("llm/retry-started", "step/end"):
            self.retrying = False
        elif event.type == "turn/end":
            self._cancelling = False
            ended = event.data.reason if isinstance(event.data, TurnEnd) else None
            goes_on = not isinstance(ended, Aborted | Errored | None)
            if goes_on and isinstance(next_action, Withdraw) and self.agent is not None:
                self.agent.cancel()  # the next turn claims what waits at once: who heard of the end withdrew it

    def do_due(self, *, said: bool = False) -> None:
        """Do what is due, without a pause in which others could act.

        *said*: only after an answer, and only what people said, which no listener does."""
        if said and not self._is_answer(self.length - 1):
            return
        while self.open and (not said or self._is_said(self.length)) and self.perform():
            pass

    def _prepare(self, length: int) -> None:
        """What has to be so before the next event."""
        if self._live_from is not None and length >= self._live_from:
            if not self.live:
                self.live = True
                self._begin_live()
            return
        if policy := self.recording.policies.get(length):
            self.approvals.policy = cast("Literal['ask', 'deny']", policy)
        action = self.recording.actions.get(length)
        if length in self._cuts:
            self.end("cut", length)
        elif isinstance(action, Copy) and not self.patient and not isinstance(action.event.data, ModelInput):
            self._copy(action)
        elif isinstance(action, Cancel) and not action.withdraws and self._at_once(length):
            self._cancel(length, action)

    def _at_once(self, length: int) -> bool:
        """After an answer and at the end of a step nothing waits: whoever cancels there does it at once."""
        before, after = self.recording.at(length - 1), self.recording.at(length)
        if before is None or after is None:
            return False
        never_ran = isinstance(before.data, ToolResult | InboxSpliced) and isinstance(after.data, ToolCall)
        return never_ran or isinstance(before.data, AssistantMessage | StepEnd)

    def end(self, how: Ended, stopped_at: int | None = None) -> None:
        """Hold nothing back any more; what the loop still does is not looked at."""
        if self.ended:
            return
        self.ended, self.stopped_at = how, self.length if stopped_at is None else stopped_at
        self._moved.set()
        if self.agent is not None and self.agent.status == "running":
            asyncio.get_running_loop().call_soon(self.agent.cancel)

    # -- doing --------------------------------------------------------------------------------------------------

    async def settle(self, *, said: bool = False) -> None:
        """For where the loop waits: do what is due, after those who may have done it themselves.

        *said*: only what people said and cancelled, which no listener does."""
        while said and self.open and self._is_said(self.length) and self.perform():
            pass
        if said:
            return
        for _ in range(TICKS if self.patient and self._is_due(self.length) else 0):
            await asyncio.sleep(0)
        while self.open and self.perform():
            pass

    async def reach(self, length: int) -> None:
        """Wait until the new log is that long, doing what is due meanwhile."""
        while True:
            await self.settle()
            if not self.open or self.length >= length:
                return
            await self._moved.wait()

    async def progress(self, seconds: float) -> bool:
        """Wait for another event; False when none comes in that time."""
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(self._moved.wait())), seconds)
        except TimeoutError:
            return False
        return True

    def _is_due(self, length: int) -> bool:
        return length in self.recording.actions and length not in self._cancelled

    def _is_answer(self, seq: int) -> bool:
        event = self.recording.at(seq)
        return event is not None and isinstance(event.data, AssistantMessage)

    def _is_said(self, length: int) -> bool:
        action = self.recording.actions.get(length)
        return isinstance(action, Insert) and all(isinstance(one.source, UserSource) for one in action.messages)

    def perform(self) -> bool:
        """Do what came from outside at this length; False when nothing did."""
        at = self.length
        action = self.recording.actions.get(at)
        if action is None or at in self._cancelled or not self.open or self.agent is None:
            return False
        if isinstance(action, Cancel):
            self._cancel(at, action)
            return self.length > at
        self._do(action)
        return self.length > at

    def _do(self, action: Action) -> None:
        match action:
            case Insert():
                self._insert(action)
            case Withdraw():
                self._withdraw(action)
            case Copy():
                payload = action.event.data
                if isinstance(payload, ModelInput):
                    self.new.append_input(payload)
                elif self.patient:
                    self._copy(action)
                self.new.run_pending()
            case Cancel():
                raise AssertionError("cancels are done once")

    def _cancel(self, at: int, action: Cancel) -> None:
        assert self.agent is not None
        self._cancelled.add(at)
        self._cancelling = True
        task = self.agent.task if action.task else None
        if task is not None:
            if not isinstance(action.cause, CancelledByDisposal | Failure):  # both were cancelled
                self.agent.cancel(action.cause, keep_inbox=not action.withdraws)
            task.cancel()
        elif not isinstance(action.cause, Failure):
            self.agent.cancel(action.cause, keep_inbox=not action.withdraws)
        elif self.turn is not None:
            self.turn.stop_at(action.cause)

    def _insert(self, action: Insert) -> None:
        agent = self.agent
        assert agent is not None
        target: Literal["next-turn", "next-step"] = "next-turn" if action.target == "next-turn" else "next-step"
        after = self.recording.at(self.length + 1)
        follows = "" if after is None else after.type
        idle = agent.status == "idle"
        wakes = follows == "turn/start" if idle else (target == "next-turn" or follows == "llm/retry-started")
        if action.start < len(agent.inbox.waiting(target)):
            agent.inbox.prepend(target, *action.messages)
        elif len(action.messages) == 1 and wakes:
            agent.send(action.messages[0], target, wake=True)
        else:
            agent.inbox.append(target, *action.messages)

    def _withdraw(self, action: Withdraw) -> None:
        agent = self.agent
        assert agent is not None
        target: Literal["next-turn", "next-step"] = "next-turn" if action.target == "next-turn" else "next-step"
        waiting = agent.inbox.waiting(target)[action.start : action.start + action.ids]
        if action.ids == 1 and len(waiting) == 1:
            if action.instead:
                agent.inbox.replace(waiting[0].id, action.instead[0])
            else:
                agent.inbox.remove(waiting[0].id)
        elif agent.status == "idle":
            agent.inbox.clear()

    def _copy(self, action: Copy) -> None:
        event = action.event
        payload: Payload = event.data
        operation = event.surface_op
        replaces = (operation.start, operation.end) if isinstance(operation, Replace) else None
        if isinstance(payload, ToolResult) and replaces is not None:
            known = self.new.event(replaces[0]).data  # a result keeps the id of its message, which is new here
            if isinstance(known, ToolResult):
                message = msgspec.structs.replace(payload.message, id=known.message.id)
                payload = msgspec.structs.replace(payload, message=message)
        if payload.surface:
            self.new.call_soon(payload, replaces=replaces, sources=event.sources)
        else:
            self.new.call_soon(payload)

    def wake(self) -> bool:
        """A turn was begun on what waited (somebody waited for it); False when none was."""
        event = self.recording.at(self.length)
        agent = self.agent
        if event is None or event.type != "turn/start" or agent is None or not len(agent.inbox):
            return False
        agent.wake()
        return True

    # -- after the recording ------------------------------------------------------------------------------------

    def later_prompts(self) -> list[Insert]:
        """What people said later in the recording, for a rerun that has gone its own way."""
        return [
            action
            for seq, action in sorted(self.recording.actions.items())
            if seq >= (self._live_from or 0)
            and isinstance(action, Insert)
            and any(isinstance(one.source, UserSource) for one in action.messages)
        ]
