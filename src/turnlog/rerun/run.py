"""`rerun`: the real loop, driven by a recording.

::

    recording ──→ conductor ──┬─ input, cancels, approvals ─→ Agent ─→ new log ─┐
                              ├─ answers, results ──────────→               compare, event by event
                              └─ system, tools, contexts ───→ recorded log ─────┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from turnlog.agent import Agent
from turnlog.agent.inbox import InboxError
from turnlog.bus import Bus
from turnlog.events import StepStart
from turnlog.log import Session
from turnlog.log.lineage import inherit
from turnlog.model import Model, open_model
from turnlog.tools import AnyTool, Approvals, Toolbox
from turnlog.views.address import Address, AddressInvalid, StepAddress, TurnAddress, parse_address
from turnlog.views.normal import Divergence, first_divergence, normal_events
from turnlog.views.resolve import resolve

from .conductor import Conductor
from .effects import Effect, effects
from .errors import NotFaithful, RerunError
from .listeners import Holds, RecordedLimits, contexts, retries, system
from .model import Answers
from .recording import Recording
from .tools import Calls, RecordedToolbox

PATIENCE: Final = 5.0
"""Seconds without an event after which a rerun that waits for something recorded is given up."""

Listen: TypeAlias = Callable[[Agent], object]
"""Registers listeners on an agent: ``lambda agent: agent.on(PreStep, guard)``."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the new log."""

    address: str
    live: bool
    """Whether it really happened now; else it is the recording's."""
    seq: int
    """Of its ``step/start``, in both logs unless it is live."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """What came of it."""

    recorded: Session
    session: Session
    """The new log."""
    divergence: Divergence | None
    """The first event in which the logs differ, times and ids aside: the recorded one is *left*."""
    how: Literal["", "diverged", "cut", "stalled"]
    """How it came to its end, if not with the recording: the logs parted; the recorded writer was gone; the loop
    waited for something that did not come."""
    live_from: str | None
    """The address of the first step that really happened."""
    effects: tuple[Effect, ...]
    """What the steps before it had done to the workspace."""
    replayed: tuple[str, ...] = ()
    """Turns that were made to fail where they had failed: nothing but their end says why (a full disk, a listener that
    was not given)."""

    @property
    def same(self) -> bool:
        """Whether the new log says what the recorded one says."""
        return self.divergence is None

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the new log; their addresses are the recording's as far as they are not live."""
        first = None if self.live_from is None else resolve(self.recorded, self.live_from).first
        starts = list(self.session.select(StepStart))
        return tuple(
            Step(f"t{event.data.turn}.s{event.data.step}", first is not None and event.seq >= first, event.seq)
            for event in starts
        )

    def summary(self) -> list[str]:
        """What was recorded in it and what was live, in sentences."""
        lines: list[str]
        if self.live_from is None:
            lines = [f"{self.recorded.id} run again: every answer and every result is recorded"]
        else:
            lines = []
            before = [one.address for one in self.steps if not one.live]
            told = f"{before[0]} to {before[-1]} recorded, " if before else ""
            live = [one.address for one in self.steps if one.live]
            ends = f" to {live[-1]}" if len(live) > 1 else ""
            lines.append(f"{self.recorded.id} run again: {told}{self.live_from}{ends} live")
        lines += [f"{turn} failed as it had failed; nothing but its end says why" for turn in self.replayed]
        if self.how == "stalled":
            lines.append("the loop waited for something that was not recorded, and was ended")
        elif self.how == "cut":
            lines.append("the recorded writer was gone in the middle of a turn; the rerun ends there too")
        return lines

    def __str__(self) -> str:
        about = f"{self.recorded.id}: {len(self.session)} events"
        return f"{about}, no divergence" if self.divergence is None else f"{about}, {self.divergence}"


async def rerun(
    session: Session,
    *,
    from_: Address | str | None = None,
    model: str | Model | None = None,
    tools: Literal["recorded"] | Iterable[AnyTool] | Toolbox = "recorded",
    listeners: Iterable[Listen] = (),
    approvals: Approvals | None = None,
    workspace: str | None = None,
    require_faithful: bool = False,
    patience: float = PATIENCE,
) -> Rerun:
    """Drive the loop with what *session* recorded, and compare the logs event by event.

    *listeners* get each agent before it begins: hooks that were there when it was recorded belong here. Without
    *from_*, a step or a turn, everything is recorded: no model is asked and no tool runs. With it, the steps before
    come from the log, and those from it on are live: *model* answers (the recorded route unless given), *tools* run if
    they are given (else recorded results are given to equal calls), *listeners* hear only these steps, *approvals*
    decide, and later prompts of the recording follow when a turn has ended.

    Raises :class:`RerunError` for a session that cannot be driven, :class:`NotFaithful` with *require_faithful* when
    the steps before had effects on the workspace. Cancelling it ends everything it began.
    """
    recording = Recording(session)
    if from_ is None and (model is not None or tools != "recorded"):
        raise RerunError("a live model and live tools need a place to begin: from_='t3.s2'")
    first = None if from_ is None else _place(session, from_)
    had = () if first is None else effects(recording, first.seq)
    if had and require_faithful:
        raise NotFaithful(
            f"session {session.id}: the steps before {first and first.address} changed the workspace, and it may not "
            f"be as it was: {'; '.join(map(str, had))}"
        )
    run = _Run(recording, first, model, tools, tuple(listeners), approvals, workspace, patience)
    return await run.run(had)


def effects_before(session: Session, from_: Address | str) -> tuple[Effect, ...]:
    """What the steps before a step or a turn did to the workspace, for whoever wants to know it first."""
    return effects(Recording(session), _place(session, from_).seq)


def _place(session: Session, address: Address | str) -> Step:
    """The step at which something else begins."""
    named = parse_address(address) if isinstance(address, str) else address
    if not isinstance(named, StepAddress | TurnAddress):
        raise AddressInvalid(f"{named} is no step; something else can begin at a step (t3.s2) or a turn (t3)")
    found = resolve(session, named)
    starts = [event for event in session.select(StepStart) if found.first <= event.seq <= found.last]
    if not starts:
        raise RerunError(f"session {session.id}: {named} has no step, so nothing else can begin there")
    return Step(f"t{starts[0].data.turn}.s{starts[0].data.step}", True, starts[0].seq)


class _Run:
    """One rerun."""

    def __init__(
        self,
        recording: Recording,
        first: Step | None,
        model: str | Model | None,
        tools: Literal["recorded"] | Iterable[AnyTool] | Toolbox,
        listeners: tuple[Listen, ...],
        approvals: Approvals | None,
        workspace: str | None,
        patience: float,
    ) -> None:
        self._recording = recording
        self._first = first
        self._listeners = listeners
        self._approvals = Approvals() if approvals is None or first is None else approvals
        self._workspace = workspace
        self._patience = patience
        self._conductor = Conductor(
            recording,
            live_from=None if first is None else first.seq,
            approvals=self._approvals,
            patient=bool(listeners) and first is None,
        )
        self._live_tools: Toolbox | None = None
        if tools != "recorded":
            self._live_tools = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self._named = model
        self._model: Model | None = None

    async def run(self, had: tuple[Effect, ...]) -> Rerun:
        async with AsyncExitStack() as stack:
            if self._first is not None:
                self._model = self._open(stack, self._first)
            new = await self._drive(self._begin())
        conductor, recorded = self._conductor, self._recording.session
        stop = len(new) if conductor.live else conductor.stopped_at
        divergence = first_divergence(normal_events(recorded), normal_events(new, stop=stop))
        live_from = None if self._first is None else self._first.address
        if stop < len(new):
            new = _prefix(new, stop)  # what came after was the agent's way to its end
        failed = [recorded.event(seq).data for seq in conductor.replayed]
        replayed = tuple(dict.fromkeys(f"t{getattr(data, 'turn', 0)}" for data in failed))
        return Rerun(recorded, new, divergence, conductor.ended, live_from, had, replayed)

    def _open(self, stack: AsyncExitStack, first: Step) -> Model:
        if self._named is not None and not isinstance(self._named, str):
            return self._named
        header = self._recording.header(first.seq)
        if self._named is None and header is None:
            raise RerunError(
                f"session {self._recording.session.id} names no model; say which one: model='provider/name'"
            )
        name = self._named or (f"{header.config.provider}/{header.config.model}" if header else "")
        opened = open_model(name)
        stack.push_async_callback(opened.aclose)
        return opened

    def _begin(self) -> Session:
        """A new log, with what a fork began with."""
        recorded = self._recording.session
        if recorded.header.seed_length is None:
            return Session(cwd=recorded.header.cwd, vocabulary=recorded.vocabulary)
        return recorded.fork(min(recorded.header.seed_length, len(recorded)))

    async def _drive(self, new: Session) -> Session:
        """Agent after agent, as they went on with each other's log."""
        conductor, recording = self._conductor, self._recording
        passed: set[int] = set()
        while True:
            cuts = {place for place in recording.boundaries if place not in passed and _mid_turn(recording, place)}
            conductor.follow(new, cuts)
            await self._agent(new, passed)
            at = conductor.stopped_at
            if conductor.ended not in ("", "cut") or conductor.live or at >= len(recording):
                return new
            passed.add(at)
            new = _prefix(new, at) if at < len(new) else Session.resumed(new)
            conductor.ended = ""
            if recording.boundaries[at].resumed:
                conductor.follow(new, set())
                new.settle()

    async def _agent(self, new: Session, passed: set[int]) -> None:
        conductor = self._conductor
        bus = Bus()
        calls = Calls(conductor)
        live = None if self._model is None or self._named is None else self._model.info
        holds = Holds(conductor, live)
        try:
            agent = Agent(
                new,
                Answers(conductor, self._model),
                RecordedToolbox(conductor, calls, self._live_tools),
                system=lambda: system(conductor),
                contexts=contexts(conductor, holds),
                workspace=self._workspace or new.header.cwd or ".",
                approvals=self._approvals,
                max_parallel=1_000_000,
                retry=retries(conductor, self._recording.retry_policies(len(new))),
                limits=RecordedLimits(conductor=conductor),  # only these know which turn to cut off
                bus=bus,
            )
        except InboxError as error:
            raise RerunError(str(error)) from error
        conductor.agent = agent
        try:
            if self._first is None:
                self._listen(agent)
            else:
                conductor.when_live(lambda: self._listen(agent))
            holds.listen(bus)
            calls.listen(bus, live_tools=self._live_tools is not None)
            await self._span(agent, passed)
            if not conductor.ended:
                conductor.stopped_at = len(new)
        finally:
            if not conductor.live:
                conductor.leave()
            await agent.aclose()
            conductor.agent = None

    def _listen(self, agent: Agent) -> None:
        for listen in self._listeners:
            listen(agent)

    async def _span(self, agent: Agent, passed: set[int]) -> None:
        """Until the recording ends, another agent goes on, or the logs part."""
        conductor, recording = self._conductor, self._recording
        while not conductor.ended and not conductor.live:
            at = conductor.length
            if agent.status == "running":
                await self._until_idle(agent)
            elif at >= len(recording) or (at in recording.boundaries and at not in passed):
                return
            elif not conductor.perform() and not conductor.wake() and conductor.length == at:
                await conductor.settle()
                if conductor.length == at and agent.status == "idle":
                    conductor.end("stalled")
        if conductor.live:
            await self._live(agent)
        await agent.when_idle()

    async def _until_idle(self, agent: Agent) -> None:
        conductor = self._conductor
        idle = asyncio.ensure_future(agent.when_idle())
        try:
            while not idle.done():
                before = conductor.length
                await asyncio.wait({idle}, timeout=None if conductor.live else self._patience)
                if not idle.done() and conductor.length == before and not conductor.live:
                    conductor.end("stalled")
                    await agent.when_idle()
        finally:
            idle.cancel()

    async def _live(self, agent: Agent) -> None:
        """The turn that runs, and what people said later, turn by turn."""
        await agent.when_idle()
        for said in self._conductor.later_prompts():
            for message in said.messages:
                if message.id not in agent.inbox.ids:
                    agent.send(message, "next-turn", wake=True)
                    await agent.when_idle()


def _mid_turn(recording: Recording, place: int) -> bool:
    """Whether the recorded writer was gone in the middle of a turn."""
    for event in reversed(recording.events[:place]):
        if event.type in ("turn/start", "turn/end"):
            return event.type == "turn/start"
    return False


def _prefix(session: Session, length: int) -> Session:
    """The same log as far as that, live."""
    made = Session(vocabulary=session.vocabulary, header=session.header)
    inherit(made, session, length)
    return made
