"""`Agent`: a session, a model and tools, and the loop that runs them.

The agent keeps nothing of its own that matters: pending input, turns, answers and results are events of its session,
and a new agent on a resumed session goes on where the old one was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, overload

from turnlog.bus import Bus, Cancellation
from turnlog.events import (
    Aborted,
    AssistantMessage,
    Block,
    CallConfig,
    CancelCause,
    CancelledByUser,
    TokenUsage,
    TurnEndReason,
    UserMessage,
)
from turnlog.log import AnyEvent, Session, SessionEvent, is_event
from turnlog.model import Model
from turnlog.tools import Approvals, Call, Pipeline, Result, Tool, Toolbox

from .attempt import Attempts
from .checkpoint import Checkpoints
from .driver import AgentClosed, Driver
from .entry import Entry
from .hooks import InboxClaimed, InboxDiscarded, InboxInserted, PreStep, RequestError, Target, TurnStopping
from .inbox import Inbox, InboxError
from .limits import Limits
from .output import Wanted
from .place import Turn, added
from .prompt import Context, Prompt, Text
from .prune import Pruner
from .request import Requests, Sampling
from .result import RunResult
from .retry import Retries, RetryPolicy
from .scheduler import MAX_PARALLEL, Scheduler
from .step import Steps

T = TypeVar("T")
Input = str | UserMessage | Sequence[Block]
"""What may be said to an agent: text, blocks, or a whole message."""


class Agent:
    """Runs turns on one session. An async context manager: leaving it cancels what runs and waits for its end.

    An agent belongs to the thread and event loop it is used on, like its session.
    """

    def __init__(
        self,
        session: Session,
        model: str | Model,
        tools: Iterable[Tool[..., object]] | Toolbox = (),
        *,
        system: Text | None = None,
        contexts: Sequence[Context] = (),
        workspace: str | Path | None = None,
        approvals: Approvals | None = None,
        spill: str | Path | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        reasoning_effort: str | None = None,
        stop: Sequence[str] | None = None,
        max_parallel: int = MAX_PARALLEL,
        retry: RetryPolicy | None = None,
        max_steps: int | None = None,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        price: Callable[[TokenUsage], float] | None = None,
        limits: Limits | None = None,
        bus: Bus | None = None,
    ) -> None:
        """*model*: ``"deepseek/deepseek-chat"`` or a `Model`. *workspace*: where tools work; the session's directory
        unless given. *spill*: where tools put what is too large to show. *max_tokens* is per request; *max_steps*,
        *max_seconds* and *max_cost* (with *price*) are per turn, off by default; *limits* stands for all four.
        """
        if limits is not None and (max_steps, max_seconds, max_cost, price) != (None, None, None, None):
            raise ValueError("limits= is given beside max_steps, max_seconds, max_cost or price; put them into it")
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
            raise ValueError(f"max_tokens is {max_tokens!r}; it is a whole number of tokens, 1 or more")
        self.session: Final = session
        self.bus: Final = Bus() if bus is None else bus
        self.toolbox: Final = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self.on: Final = self.bus.on
        self._owned: list[Model] = []
        self._model = self._given(model)
        self._others: dict[tuple[str, str], Model] = {}
        self._nudge = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[RunResult[None]]] = {}
        self._turns: dict[int, list[str]] = {}
        self.last_context_tokens = _last_context_tokens(session)
        """Tokens of the last request and its answer, as the provider counted them; 0 before the first."""

        info = self._model.info
        self.inbox: Final = Inbox(session, _Watcher(self))
        self.pipeline: Final = Pipeline(
            self.toolbox,
            self.bus,
            session,
            workspace=Path(workspace or session.header.cwd or "."),
            approvals=approvals,
            spill=None if spill is None else Path(spill),
            late=self._late,
        )
        prompt = Prompt(session, system, contexts)
        sampling = Sampling(max_tokens, temperature, reasoning_effort, None if stop is None else tuple(stop))
        self._requests = Requests(
            self,
            session=session,
            bus=self.bus,
            toolbox=self.toolbox,
            prompt=prompt,
            sampling=sampling,
            resolve=self._resolve,
            route=(info.provider, info.model),
        )
        scheduler = Scheduler(session, self.inbox, self.toolbox, self.pipeline, max_parallel=max_parallel)
        self._driver = Driver(
            self,
            session=session,
            bus=self.bus,
            inbox=self.inbox,
            entry=Entry(self, session=session, bus=self.bus, prompt=prompt),
            steps=Steps(
                self,
                bus=self.bus,
                requests=self._requests,
                attempts=Attempts(session, self.bus, self.used),
                scheduler=scheduler,
            ),
            limits=Limits(max_steps, max_seconds, max_cost, price) if limits is None else limits,
            ledger=self,
        )
        self._listen(retry or RetryPolicy())

    def _listen(self, retry: RetryPolicy) -> None:
        """Checkpoints, retries and pruning are listeners like any other; they are just there first."""
        Checkpoints(self.session).listen(self.bus)
        pruner = Pruner(self)
        self.bus.on(PreStep, pruner.before_step, deadline=None)
        self.bus.on(RequestError, pruner.on_error)
        self.bus.on(RequestError, Retries(self, retry).on_error, deadline=None)
        self._facts = self.bus.attach(self.session)

    # -- talking to it ------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """``idle`` or ``running``."""
        return self._driver.status

    @property
    def context_window(self) -> int | None:
        """Tokens the current route takes; None when it does not say."""
        return self._requests.context_window

    def followup(self, said: Input) -> UserMessage:
        """Queue input for a turn of its own. From idle, that turn is open in the log when this returns."""
        return self.send(said, "next-turn", wake=True)

    def steer(self, said: Input) -> UserMessage:
        """Give input to the next step of the running turn, or to a new turn from idle. Shortens a wait for a retry."""
        return self.send(said, "next-step", wake=True)

    def inject(self, said: Input) -> UserMessage:
        """Leave input for the next step, whenever there is one; starts nothing."""
        return self.send(said, "next-step", wake=False)

    def send(self, said: Input, target: Target, *, wake: bool) -> UserMessage:
        """Queue input and give the message it became. Raises what the log raises, and ``RuntimeError`` where no event
        loop runs; then nothing is queued."""
        message = _message(said)
        if wake:
            asyncio.get_running_loop()
        if wake and self._driver.winding_down:
            target = "next-turn"  # what runs is ending; this is for after it
        self.inbox.append(target, message)
        if wake:
            self._driver.wake()
            self._nudge.set()
            self._nudge = asyncio.Event()
        return message

    def cancel(self, cause: CancelCause | None = None, *, keep_inbox: bool = False) -> None:
        """Cancel what runs (by the user unless *cause* says otherwise) and withdraw what waits.

        The turn ends ``aborted`` with everything closed; await :meth:`when_idle` for that.
        """
        self._driver.cancel(CancelledByUser() if cause is None else cause, keep_inbox=keep_inbox)

    def wake(self) -> None:
        """Have what waits worked on, without saying anything; does nothing where nothing waits."""
        if len(self.inbox):
            self._driver.wake()

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task that runs the loop; None while nothing runs. Cancelling it gives the loop up: what is open is
        closed in the log, calls that ran are answered with a failure. :meth:`cancel` ends only the turn."""
        return self._driver.task

    async def when_idle(self) -> None:
        """Wait until nothing runs and nothing is about to. Cancelling it cancels only the wait."""
        await self._driver.idle()

    async def run_maintenance(self, work: Callable[[Cancellation], Awaitable[None]]) -> None:
        """Run *work* between turns; no turn starts meanwhile. Raises ``AgentBusy`` when one runs."""
        await self._driver.maintain(work)

    async def steered(self) -> None:
        """Wait until somebody steers or asks for another turn."""
        await self._nudge.wait()

    # -- running ------------------------------------------------------------------------------------------------

    @overload
    async def run(self, said: Input) -> RunResult[None]: ...
    @overload
    async def run(self, said: Input, *, output: type[T]) -> RunResult[T]: ...
    async def run(self, said: Input, *, output: type[T] | None = None) -> RunResult[T] | RunResult[None]:
        """Queue input, and wait for the turn that takes it to end.

        A prompt that is withdrawn, or stays parked when the agent goes idle, gives ``Aborted`` and no turn. Raises what
        keeps the log from opening a turn, and ``AgentClosed``.

        *output*: a type the answer has to have; it is ``result.output``. Cancelling the wait cancels the turn (and
        what else is queued), waits until it is closed, and passes the cancellation on.
        """
        message = _message(said)
        if output is None:
            return await self._run(message)
        wanted = Wanted(output, lambda turn: message.id in self._turns.get(turn, ()))
        self.toolbox.add(wanted.tool)
        try:
            with self.bus.on(TurnStopping, wanted.remind):
                done = await self._run(message)
        finally:
            self.toolbox.remove(wanted.tool.name)
        return RunResult(done.text, done.reason, done.usage, done.turn, done.session_id, wanted.answer)

    async def _run(self, message: UserMessage) -> RunResult[None]:
        if self._driver.disposed:
            raise AgentClosed(f"session {self.session.id}: its agent is closed; make another one on the session")
        if message.id in self._waiting:
            raise InboxError(f"message {message.id} is being run already; make a new one")
        future: asyncio.Future[RunResult[None]] = asyncio.get_running_loop().create_future()
        self._waiting[message.id] = future
        try:
            self.send(message, "next-turn", wake=True)
            return await future
        except asyncio.CancelledError:
            if self._taken(message.id):
                self.cancel()
                await self._settled()
            else:
                self.inbox.remove(message.id)
            raise
        finally:
            self._waiting.pop(message.id, None)

    async def _settled(self) -> None:
        """Wait for the end of a cancelled turn even while our own task is being cancelled again."""
        waiting = asyncio.ensure_future(self.when_idle())
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                continue

    @overload
    def run_sync(self, said: Input) -> RunResult[None]: ...
    @overload
    def run_sync(self, said: Input, *, output: type[T]) -> RunResult[T]: ...
    def run_sync(self, said: Input, *, output: type[T] | None = None) -> RunResult[T] | RunResult[None]:
        """:meth:`run` for scripts without an event loop of their own."""
        if output is None:
            return asyncio.run(self.run(said))
        return asyncio.run(self.run(said, output=output))

    async def stream(self, said: Input) -> AsyncGenerator[AnyEvent, None]:
        """Queue input, and give every event of the session until the turn that takes it has ended.

        Closing it early (leaving the loop with ``break`` and ``aclose``) cancels the turn and waits for its end.
        """
        told: deque[AnyEvent] = deque()
        news = asyncio.Event()

        def tell(event: AnyEvent) -> None:
            told.append(event)
            news.set()

        subscription = self.session.subscribe(tell)
        task = asyncio.ensure_future(self._run(_message(said)))
        task.add_done_callback(lambda _: news.set())
        try:
            while told or not task.done():
                while told:
                    yield told.popleft()
                news.clear()
                if not task.done():
                    await news.wait()
        finally:
            subscription.close()
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            task.cancelled() or task.exception()  # looked at, so that asyncio does not complain
        await task

    # -- ends of turns ------------------------------------------------------------------------------------------

    def claimed(self, message: UserMessage, turn: int) -> None:
        """For the inbox: a turn took *message*."""
        if message.id in self._waiting:
            self._turns.setdefault(turn, []).append(message.id)

    def discarded(self, message: UserMessage) -> None:
        """For the inbox: *message* was withdrawn."""
        self._answer(message.id, self._not_run(self._driver.withdrawn_by))

    def _not_run(self, cause: CancelCause) -> RunResult[None]:
        return RunResult("", Aborted(cause), added([]), None, self.session.id)

    def used(self, usage: TokenUsage) -> None:
        """For the attempts: what a request and its answer took."""
        self.last_context_tokens = _context_tokens(usage)

    def ended(self, turn: Turn, reason: TurnEndReason) -> None:
        """For the driver: a turn is closed."""
        result: RunResult[None] = RunResult(turn.text, reason, turn.total, turn.number, self.session.id)
        for message_id in self._turns.pop(turn.number, ()):
            self._answer(message_id, result)

    def refused(self, error: Exception) -> None:
        """For the driver: the log refuses to open a turn; whoever waits for one hears why."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)

    def idle(self, cause: CancelCause) -> None:
        """For the driver: what still waits stays parked; whoever waits for it hears that it was not run."""
        for message_id in list(self._waiting):
            if not self._taken(message_id):
                self._answer(message_id, self._not_run(cause))

    def still_awaited(self) -> bool:
        """For the driver: whether somebody waits for a turn that has not begun."""
        return any(not future.done() and not self._taken(one) for one, future in self._waiting.items())

    def _taken(self, message_id: str) -> bool:
        return any(message_id in taken for taken in self._turns.values())

    def _answer(self, message_id: str, result: RunResult[None]) -> None:
        future = self._waiting.get(message_id)
        if future is not None and not future.done():
            future.set_result(result)

    # -- models -------------------------------------------------------------------------------------------------

    def _late(self, call: Call, result: Result) -> None:
        """A tool that was given up on has ended after all: too late for the log, not for the record beside it."""
        self.session.note(f"{call.name} ({call.call_id}) gave a result after it was given up on: {result.text[:1000]}")

    def _given(self, model: str | Model) -> Model:
        if not isinstance(model, str):
            return model
        from turnlog.model import open_model  # only now: HTTP is not needed before

        opened = open_model(model)
        self._owned.append(opened)
        return opened

    def _resolve(self, config: CallConfig) -> Model:
        """The model for a config: the agent's own, or another that a hook chose."""
        info = self._model.info
        wanted = (config.provider, config.model)
        if wanted == (info.provider, info.model):
            return self._model
        if wanted not in self._others:
            self._others[wanted] = self._given("/".join(wanted))
        return self._others[wanted]

    # -- the end ------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Cancel what runs, wait for its end, and close the models this agent opened. Idempotent."""
        await self._driver.dispose()
        self._facts.close()
        for model in self._owned:
            await model.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Watcher:
    """Tells the bus and the agent what the inbox does."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def inserted(self, target: Target, message: UserMessage) -> None:
        self._agent.bus.emit(InboxInserted(self._agent, target, message))

    def discarded(self, target: Target, message: UserMessage) -> None:
        self._agent.discarded(message)
        self._agent.bus.emit(InboxDiscarded(self._agent, target, message))

    def claimed(self, message: UserMessage, turn: int) -> None:
        self._agent.claimed(message, turn)
        self._agent.bus.emit(InboxClaimed(self._agent, message, turn))


def _message(said: Input) -> UserMessage:
    if isinstance(said, UserMessage):
        return said
    return UserMessage.of(said) if isinstance(said, str) else UserMessage.of(*said)


def _context_tokens(usage: TokenUsage) -> int:
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return usage.input_tokens + usage.output_tokens + cached


def _last_context_tokens(session: Session) -> int:
    """What the newest answer in the log took, also when another agent got it."""
    for row in reversed(session.rows.rows):
        if row.type != AssistantMessage.event_type or not isinstance(row, SessionEvent):
            continue  # told without decoding
        if is_event(row, AssistantMessage) and row.data.usage is not None:
            return _context_tokens(row.data.usage)
    return 0
