"""The driver: claims input, runs turns, and closes each of them whatever happens.

::

    wake ─→ turn/start ─→ claim ─→ ┌─→ pre-step ─→ step/start ─→ messages ─→ step ─→ step/end ─┐
                                   └────────── tool results, steering ←───────────────────────┤
                                   turn/end ←── completed, max-tokens, blocked, aborted, error ┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, Protocol

from turnlog.bus import Bus, Cancellation
from turnlog.events import (
    Aborted,
    Blocked,
    CancelCause,
    CancelledByDisposal,
    CancelledByUser,
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
from turnlog.log import Reentrant, Session, TurnlogError

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


class AgentClosed(TurnlogError):
    """The agent was closed; make another one on the session."""


class Ledger(Protocol):
    """Who is told how turns end."""

    def ended(self, turn: Turn, reason: TurnEndReason) -> None:
        """A turn is over."""
        ...

    def refused(self, error: Exception) -> None:
        """No turn can be opened."""
        ...

    def idle(self, cause: CancelCause) -> None:
        """Nothing runs any more, and what still waits stays parked because of *cause*."""
        ...

    def still_awaited(self) -> bool:
        """Whether somebody waits for a turn that has not begun."""
        ...


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
        self._maintaining = False
        self._to_withdraw: list[str] = []
        """Messages that a cancel from inside a subscriber could not withdraw at once."""
        self.disposed = False
        self.withdrawn_by: CancelCause = CancelledByUser()
        """Why the messages that are being withdrawn are."""
        self.status: Literal["idle", "running"] = "idle"

    # -- from outside -------------------------------------------------------------------------------------------

    @property
    def winding_down(self) -> bool:
        """Whether it works on something that was cancelled already: new input is for a turn after that."""
        return self._task is not None and self._cancellation.cause is not None

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What runs, if anything does."""
        return self._task

    def wake(self) -> None:
        """Make sure that what waits is worked on. From idle, a turn is open and its input claimed on return."""
        if self.disposed:
            return
        if self._task is None and self.status == "idle":
            self._begin()
        elif self._maintaining or self._cancellation.cause is not None:
            self._woken = True

    def cancel(self, cause: CancelCause, *, keep_inbox: bool = False) -> None:
        """Cancel what runs; the first cause wins. Unless told to keep it, pending input is withdrawn first."""
        try:
            if not keep_inbox:
                self._woken = False
                self._withdraw(cause)
        finally:  # also when the log refuses to say so
            if self._task is not None or self.status == "running":
                self._cancellation.cancel(cause)

    def _withdraw(self, cause: CancelCause) -> None:
        self.withdrawn_by = cause
        try:
            self._inbox.clear()
        except Reentrant:  # from inside a subscriber; as soon as it has returned, then
            self._to_withdraw += self._inbox.ids
            asyncio.get_running_loop().call_soon(self._withdraw_rest)
        else:
            self.withdrawn_by = CancelledByUser()

    def _withdraw_rest(self) -> None:
        ids, self._to_withdraw = self._to_withdraw, []
        for message_id in ids:
            self._inbox.remove(message_id)
        self.withdrawn_by = CancelledByUser()

    def maintain(self, work: Callable[[Cancellation], Awaitable[None]]) -> asyncio.Task[None]:
        """Run *work* while no turn can start; input that comes meanwhile waits for its end.

        Raises ``AgentBusy`` at once when something runs. *work* gets what ``cancel`` cancels.
        """
        if self.disposed:
            raise AgentClosed(f"session {self._session.id}: its agent is closed")
        if self._task is not None or self.status == "running":
            raise AgentBusy(f"session {self._session.id} is being worked on; await agent.when_idle() first")
        self._cancellation = Cancellation()
        self._maintaining = True
        self._task = self._start(self._maintain(work), lambda: None)
        return self._task

    async def _maintain(self, work: Callable[[Cancellation], Awaitable[None]]) -> None:
        try:
            await work(self._cancellation)
        finally:
            self._rest()

    async def idle(self) -> None:
        """Wait until nothing runs, also when one turn wakes the next. Cancelling it cancels only the wait."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def dispose(self) -> None:
        """Cancel everything for good and wait for it. Idempotent."""
        self.disposed = True
        self.cancel(CancelledByDisposal())
        await self.idle()

    # -- driving ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._session.on_pending(lambda: _wake(loop, self._session))
        self._cancellation = Cancellation()
        self._woken = False
        self._set_status("running")
        opened = self._open()
        if opened is None:
            self._rest()
        else:
            self._task = self._start(self._drive(opened), lambda: self._close(opened, self._aborted()))

    def _start(self, work: Coroutine[Any, Any, None], never_began: Callable[[], object]) -> asyncio.Task[None]:
        """A task for *work*, which ends with ``_rest``; if it is cancelled before it begins, *never_began* is called
        and that done for it."""
        task = asyncio.get_running_loop().create_task(work, name=f"turnlog {self._session.id}")

        def done(task: asyncio.Task[None]) -> None:
            if self._task is task:
                never_began()
                self._rest()

        task.add_done_callback(done)
        return task

    async def _drive(self, turn: Turn | None) -> None:
        try:
            while turn is not None:
                goes_on = await self._run(turn)
                self._withdraw_rest()
                turn = self._open_next() if goes_on and len(self._inbox) else None
        except asyncio.CancelledError:  # whoever runs the loop wants it to end
            self._woken = False
            raise
        finally:
            self._rest()

    def _open_next(self) -> Turn | None:
        self._cancellation = Cancellation()
        self._woken = False
        return self._open()

    def _rest(self) -> None:
        """To idle; and on again when somebody asked for it meanwhile. Nobody is left waiting for what stays parked."""
        self._task = None
        self._maintaining = False
        self._set_status("idle")
        if self._task is not None or self.status == "running":
            return  # whoever heard of it has begun anew
        if self._woken and len(self._inbox) and not self.disposed:
            self._begin()
        else:
            self._ledger.idle(self._aborted().reason)

    def _aborted(self) -> Aborted:
        return Aborted(self._cancellation.cause or CancelledByDisposal())

    def _set_status(self, status: Literal["idle", "running"]) -> None:
        if status != self.status:
            self.status = status
            self._bus.emit(StatusChanged(self._agent, status))

    def _open(self) -> Turn | None:
        """Log the start of a turn and claim its input; None when it was cancelled before, or the log refuses it."""
        if self._cancellation.cause is not None:
            return None
        turn = Turn(self._last + 1, (), self._cancellation)
        try:
            self._session.append(TurnStart(turn=turn.number))
        except Exception as error:  # the input stays queued, and the host hears why
            self._refused(turn, error)
            return None
        self._last = turn.number
        try:
            turn.claimed = self._inbox.claim("next-turn", turn.number)
        except Exception as error:  # the log has become unwilling in between
            self._close(turn, Errored(failure_of(error)))
            self._refused(turn, error)
            return None
        return turn

    def _refused(self, turn: Turn, error: Exception) -> None:
        self._bus.emit(AgentFailed(self._agent, turn.number, 0, error))
        self._ledger.refused(error)

    async def _run(self, turn: Turn) -> bool:
        """One turn, from its claimed input to ``turn/end``; whether the driver goes on to what waits."""
        reason: TurnEndReason | None = None
        try:
            with self._limits.watch(turn):
                reason = await self._turn(turn)
            return self._close(turn, reason)
        except Exception as error:  # whatever went wrong, the turn is closed and says so
            reason = self._why(turn, error)
            if isinstance(reason, Errored):
                self._woken = self._woken or self._ledger.still_awaited()  # else what waits stays parked
                self._bus.emit(AgentFailed(self._agent, turn.number, turn.step, error))
            self._close(turn, reason)
            return False
        finally:
            if reason is None:  # whoever runs the loop gives up
                self._close(turn, self._aborted())

    def _why(self, turn: Turn, error: Exception) -> Aborted | Errored:
        """A cancelled turn was cancelled, whatever its code made of that; the first cause counts."""
        if turn.limit is not None:
            return Errored(turn.limit)
        cause = turn.cancellation.cause
        return Errored(failure_of(error)) if cause is None else Aborted(cause)

    def _close(self, turn: Turn, reason: TurnEndReason) -> bool:
        """Log the end of a turn and tell whoever waits for it; False when the log refuses, and then stays open."""
        closed = True
        try:
            self._session.append(TurnEnd(turn=turn.number, reason=reason))
        except Exception as error:  # the agent goes idle all the same
            closed, reason = False, Errored(failure_of(error))
            self._bus.emit(AgentFailed(self._agent, turn.number, turn.step, error))
        self._ledger.ended(turn, reason)
        return closed

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
            _check_task()
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


def _check_task() -> None:
    """Notice a cancel of our own task that a hook has swallowed."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _wake(loop: asyncio.AbstractEventLoop, session: Session) -> None:
    """Have the loop commit what other threads queued. Without a loop it waits for the session's next append."""
    try:
        loop.call_soon_threadsafe(session.run_pending)
    except RuntimeError:  # the loop is closed
        return
