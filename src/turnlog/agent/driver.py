"""The driver: claims input, runs turns, and closes each of them whatever happens.

::

    wake ─→ turn/start ─→ claim ─→ ┌─→ pre-step ─→ step/start ─→ messages ─→ step ─→ step/end ─┐
                                   └────────── tool results, steering ←───────────────────────┤
                                   turn/end ←── completed, max-tokens, blocked, aborted, error ┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, Protocol

from turnlog.bus import Bus, Cancellation, Cancelled
from turnlog.events import (
    Aborted,
    Blocked,
    CancelCause,
    CancelledByDisposal,
    Completed,
    Errored,
    MaxTokens,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from turnlog.log import Session, TurnlogError

from .entry import Entry
from .failure import failure_of
from .hooks import AgentFailed, Reject, StatusChanged, TurnStopping
from .inbox import Inbox
from .limits import Limits
from .place import Turn
from .step import Steps

if TYPE_CHECKING:
    from .agent import Agent


class AgentBusy(TurnlogError):
    """Something runs that has to end first."""


class Ledger(Protocol):
    """Who is told how turns end."""

    def ended(self, turn: Turn, reason: TurnEndReason) -> None: ...
    def refused(self, error: Exception) -> None: ...
    def still_awaited(self) -> bool: ...


class Driver:
    """Runs the turns of one agent, one at a time."""

    def __init__(
        self,
        agent: Agent,
        *,
        session: Session,
        bus: Bus,
        inbox: Inbox,
        entry: Entry,
        steps: Steps,
        limits: Limits,
        ledger: Ledger,
    ) -> None:
        self._agent = agent
        self._session = session
        self._bus = bus
        self._inbox = inbox
        self._entry = entry
        self._steps = steps
        self._limits = limits
        self._ledger = ledger
        self._last = max((event.data.turn for event in session.select(TurnStart)), default=0)
        self._task: asyncio.Task[None] | None = None
        self._cancellation = Cancellation()
        self._woken = False
        self._disposed = False
        self._maintaining = False
        self.status: Literal["idle", "running"] = "idle"

    # -- from outside -------------------------------------------------------------------------------------------

    @property
    def winding_down(self) -> bool:
        """Whether it works on something that was cancelled already: new input is for a turn after that."""
        return self._task is not None and self._cancellation.cause is not None

    def wake(self) -> None:
        """Make sure that what waits is worked on. From idle, a turn is open and its input claimed on return."""
        if self._disposed:
            return
        if self._task is None and self.status == "idle":
            self._begin()
        elif self._maintaining or self._cancellation.cause is not None:
            self._woken = True

    def cancel(self, cause: CancelCause, *, keep_inbox: bool = False) -> None:
        """Cancel what runs; the first cause wins. Unless told to keep it, pending input is withdrawn first."""
        if not keep_inbox:
            self._inbox.clear()
            self._woken = False
        if self._task is not None or self.status == "running":
            self._cancellation.cancel(cause)

    def maintain(self, work: Callable[[Cancellation], Awaitable[None]]) -> asyncio.Task[None]:
        """Run *work* while no turn can start; input that comes meanwhile waits for its end.

        Raises ``AgentBusy`` at once when something runs. *work* gets what ``cancel`` cancels.
        """
        if self._task is not None or self.status == "running":
            raise AgentBusy(f"session {self._session.id} is being worked on; await agent.when_idle() first")
        self._cancellation = Cancellation()
        self._maintaining = True
        self._task = asyncio.get_running_loop().create_task(self._maintain(work))
        return self._task

    async def _maintain(self, work: Callable[[Cancellation], Awaitable[None]]) -> None:
        try:
            await work(self._cancellation)
        finally:
            self._maintaining = False
            self._task = None
            self._converge()

    async def idle(self) -> None:
        """Wait until nothing runs, also when one turn wakes the next. Cancelling it cancels only the wait."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def dispose(self) -> None:
        """Cancel everything for good and wait for it. Idempotent."""
        self._disposed = True
        self.cancel(CancelledByDisposal())
        await self.idle()

    # -- driving ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._session.on_pending(lambda: loop.call_soon_threadsafe(self._session.run_pending))
        self._cancellation = Cancellation()
        self._woken = False
        self._set_status("running")
        opened = self._open()
        if opened is None:
            self._converge()
        else:
            self._task = loop.create_task(self._drive(opened), name=f"turnlog {self._session.id}")

    async def _drive(self, opened: Turn | None) -> None:
        try:
            while opened is not None:
                goes_on = await self._run(opened)
                opened = self._open_next() if goes_on and len(self._inbox) else None
        except Exception as error:  # a bug of ours: whoever waits hears of it
            self._ledger.refused(error)
            raise
        finally:
            self._task = None
            self._converge()

    def _open_next(self) -> Turn | None:
        self._cancellation = Cancellation()
        self._woken = False
        return self._open()

    def _converge(self) -> None:
        """To idle; and on again when somebody asked for it meanwhile."""
        self._set_status("idle")
        if self._woken and len(self._inbox) and not self._disposed:
            self._begin()

    def _set_status(self, status: Literal["idle", "running"]) -> None:
        if status != self.status:
            self.status = status
            self._bus.emit(StatusChanged(self._agent, status))

    def _open(self) -> Turn | None:
        """Log the start of a turn and claim its input; None when it was cancelled before, or the log refuses it."""
        if self._cancellation.cause is not None:
            return None
        number = self._last + 1
        try:
            self._session.append(TurnStart(turn=number))
        except Exception as error:  # the input stays queued, and the host hears why
            self._bus.emit(AgentFailed(self._agent, number, 0, error))
            self._ledger.refused(error)
            return None
        self._last = number
        return Turn(number, self._inbox.claim("next-turn", number), self._cancellation)

    async def _run(self, turn: Turn) -> bool:
        """One turn, from its claimed input to ``turn/end``; whether the driver goes on to what waits."""
        reason: TurnEndReason = Aborted(CancelledByDisposal())
        goes_on = False
        try:
            with self._limits.watch(turn):
                reason = await self._turn(turn)
            goes_on = True
        except Cancelled as cancelled:
            reason = Aborted(cancelled.cause) if turn.limit is None else Errored(turn.limit)
        except Exception as error:
            reason = Errored(failure_of(error))
            self._woken = self._ledger.still_awaited()  # what waits stays parked, unless somebody awaits its end
            self._bus.emit(AgentFailed(self._agent, turn.number, turn.step, error))
        finally:
            self._close(turn, reason)
        return goes_on

    def _close(self, turn: Turn, reason: TurnEndReason) -> None:
        try:
            self._session.append(TurnEnd(turn=turn.number, reason=reason))
        except Exception as error:  # a log that refuses its closing event stays open; the agent goes idle
            self._bus.emit(AgentFailed(self._agent, turn.number, turn.step, error))
        self._ledger.ended(turn, reason)

    async def _turn(self, turn: Turn) -> TurnEndReason:
        ends: Completed | MaxTokens | None = None
        claimed = turn.claimed
        while True:
            decision = await self._entry.decide(turn, claimed)
            if isinstance(decision, Reject):
                return Blocked()
            if not decision.messages and (ends is not None or turn.step == 0):
                return ends or Completed()
            self._limits.check_step(turn)
            after = await self._step(turn, decision.messages)
            if not isinstance(ends, MaxTokens):  # once cut, a turn stays cut
                ends = after
            turn.check()
            if ends is not None and not self._inbox.waiting("next-step"):
                await self._stopping(turn)
                if not self._inbox.waiting("next-step"):
                    return ends
            claimed = self._inbox.claim("next-step", turn.number)

    async def _step(self, turn: Turn, messages: tuple[UserMessage, ...]) -> Completed | MaxTokens | None:
        number = turn.step + 1
        self._session.append(StepStart(turn=turn.number, step=number))
        turn.step = number
        try:
            self._entry.enter(messages)
            return await self._steps.run(turn)
        finally:
            self._session.append(StepEnd(turn=turn.number, step=number))

    async def _stopping(self, turn: Turn) -> None:
        with turn.cancellation.scope():
            await self._bus.serial(TurnStopping(self._agent, turn.number, turn.cancellation))
        turn.check()
