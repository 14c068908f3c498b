"""Recorded tools: they are told to the model as they were then, and give what they gave then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

import anyio

from turnlog.bus import Bus, Next, Outcome, stop
from turnlog.events import Json, ToolSchema
from turnlog.tools import (
    Accept,
    Allow,
    Answer,
    AnyTool,
    ApprovalRequest,
    Ask,
    Call,
    Execute,
    Policy,
    PostExecute,
    PreExecute,
    Proposal,
    Result,
    Review,
    Tool,
    Toolbox,
    Verdict,
)
from turnlog.tools.tool import NAME

from .conductor import Conductor
from .script import GIVEN_UP, Ran

TURNS: Final = 3
"""Turns of the event loop by which a result comes before the one that the model asked for earlier."""
MANY: Final = 50
"""Calls that one waits for at most before it is cancelled."""
NOT_STARTED: Final = "Error: aborted before it started"
_ANSWERS: Final[Mapping[str, Answer]] = {"allowed-once": "allow", "rejected": "deny"}


class RecordedTool(Tool[[], object]):
    """A tool of which only the schema is known. It takes whatever it is given."""

    def __init__(self, schema: ToolSchema, policy: Policy) -> None:
        async def recorded() -> str:
            return ""

        name = schema.name if NAME.fullmatch(schema.name) else "recorded"
        super().__init__(recorded, name=name, description="A recorded tool.", policy=policy)

    def bind(self, arguments: Mapping[str, Json]) -> dict[str, object]:
        """Nothing: what was wrong with the arguments is in the recorded result."""
        return {}


class RecordedToolbox(Toolbox):
    """The tools that the request at this place named; from some step on, live ones."""

    def __init__(self, conductor: Conductor, calls: Calls, live: Toolbox | None) -> None:
        super().__init__()
        self._conductor = conductor
        self._calls = calls
        self._live = live
        self._made: dict[str, AnyTool] = {}

    @property
    def live(self) -> Toolbox | None:
        """The live tools, where they are in charge."""
        return self._live if self._conductor.live else None

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """What the recorded request said."""
        if self.live is not None:
            return self.live.schemas
        header = self._conductor.recording.header(self._conductor.length)
        return () if header is None else header.tools or ()

    def get(self, name: str) -> AnyTool | None:
        """The tool of that name."""
        if self.live is not None:
            return self.live.get(name)
        schema = next((one for one in self.schemas if one.name == name), None)
        if schema is None:
            return None
        if name not in self._made:
            self._made[name] = RecordedTool(schema, Policy(verdict=self._calls.verdict))
        return self._made[name]

    def is_parallel(self, call: Call) -> bool:
        """Whether it ran beside the call before it, as far as the log shows."""
        if self.live is not None:
            return self.live.is_parallel(call)
        if not self._conductor.open:
            return False
        self._conductor.do_due(said=self._conductor.patient)  # what came between an answer and its calls
        return self._conductor.cancelling or self._conductor.length >= self._calls.may_start()

    def __iter__(self) -> Iterator[AnyTool]:
        if self.live is not None:
            return iter(self.live)
        return iter([found for one in self.schemas if (found := self.get(one.name)) is not None])

    def __len__(self) -> int:
        return len(self.schemas)

    def __contains__(self, name: object) -> bool:
        return any(one.name == name for one in self.schemas)


class Calls:
    """Which recorded call a call of the rerun is: the one whose ``tool/call`` has its seq."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._known: dict[int, tuple[Call, Ran | None]] = {}
        self._given: set[int] = set()
        self._used: set[int] = set()
        self._ready: set[int] = set()

    def listen(self, bus: Bus, *, live_tools: bool) -> None:
        """Register: outermost before a call runs, innermost around its run."""
        self._live_tools = live_tools
        bus.on(PreExecute, self._before, prepend=True, deadline=None)
        bus.on(ApprovalRequest, self._asked, prepend=True, deadline=None)
        bus.on(Execute, self._execute, deadline=None)
        bus.on(PostExecute, self._after, prepend=True, deadline=None)

    def of(self, call: Call) -> Ran | None:
        """The recorded call."""
        known = self._known.get(id(call))
        return None if known is None else known[1]

    def verdict(self, proposal: Proposal) -> Verdict:
        """What was decided about the call then: whether somebody had to be asked."""
        ran = self.of(proposal.call)
        return Allow() if ran is None or ran.asked is None or not self._conductor.open else Ask(ran.asked.reason)

    def may_start(self) -> int:
        """How long the log has to be before the next call starts: as long as it was when it did."""
        length, recording = self._conductor.length, self._conductor.recording
        return next((seq for seq in sorted(recording.calls) if seq >= length), len(recording))

    async def _before(self, event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        conductor = self._conductor
        if conductor.open:
            last = conductor.last_call()
            ran = conductor.recording.calls.get(last)
            self._known[id(event.call)] = event.call, ran
            if ran is not None and (until := _overlapped(ran)):
                await conductor.reach(until if ran.asked is None else ran.asked.seq)
            elif ran is not None and ran.result is not None and ran.result.text.startswith((NOT_STARTED, GIVEN_UP)):
                given_up = ran.result.text.startswith(GIVEN_UP)
                if given_up and self._kept_another(ran):
                    conductor.do_due()  # a pause would let the other one start
                    await anyio.sleep_forever()
                if not given_up or not self._tools(event.call.name):
                    await conductor.settle()  # it was cancelled here, and not only when it ran
                    if given_up and conductor.cancelling:
                        await anyio.sleep_forever()
        return await next()

    async def _asked(
        self, event: ApprovalRequest, next: Next[ApprovalRequest, Answer | None]
    ) -> Outcome[Answer | None]:
        ran = self.of(event.question.call)
        if not self._conductor.open or ran is None or ran.asked is None:
            return await next()
        await self._conductor.reach(ran.asked.decided)
        return stop(_ANSWERS.get(ran.asked.outcome), reason="as it was answered then")

    async def _execute(self, event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        ran = self.of(event.call)
        if self._conductor.live:
            return await next() if self._live_tools else stop(self._like(event.call), reason="recorded")
        if ran is not None and ran.result is None:
            await self._conductor.reach(len(self._conductor.recording) + 1)  # its writer was gone before it ended
        if ran is None or ran.result is None:
            return stop(Result.failed("no result of this call is recorded"), reason="nothing is recorded")
        self._given.add(id(event.call))
        with anyio.CancelScope(shield=True):  # what a cancelled call said is recorded too
            for _ in range(TURNS * MANY):
                if not self._conductor.open or self._ready.issuperset(ran.after):
                    break
                await asyncio.sleep(0)
            if ran.gate is not None:
                await self._conductor.reach(ran.gate)
            self._ready.add(ran.seq)
            for _ in range(ran.late * TURNS):
                await asyncio.sleep(0)
        if self._conductor.cancelling and ran.result.text.startswith(GIVEN_UP):
            await anyio.sleep_forever()  # the loop says what became of it
        return stop(ran.result, reason="recorded")

    async def _after(self, event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        if id(event.call) in self._given and self._conductor.open:
            return stop(Accept(), reason="the recorded result has been reviewed")
        await self._conductor.settle()
        return await next()

    def _kept_another(self, ran: Ran) -> bool:
        """Whether a call beside it, which was logged before it, was kept from starting by the same cancel."""
        beside = (one for one in self._conductor.recording.calls.values() if _overlapped(one) == ran.seq)
        return any(one.result is not None and one.result.text.startswith(NOT_STARTED) for one in beside)

    def _tools(self, name: str) -> bool:
        """Whether the model had been told of the tool."""
        header = self._conductor.recording.header(self._conductor.length)
        return any(one.name == name for one in (header.tools or () if header else ()))

    def _like(self, call: Call) -> Result:
        """The result of a recorded call with the same name and arguments that was not given yet."""
        for ran in self._conductor.recording.calls.values():
            same = (ran.call.name, ran.call.arguments) == (call.name, call.arguments)
            if same and ran.result is not None and ran.seq not in self._used and ran.seq >= self._conductor.live_from:
                self._used.add(ran.seq)
                return ran.result
        return Result.failed(
            f"{call.name} was not called with these arguments in the recording, so there is no result of it"
        )


def _overlapped(ran: Ran) -> int | None:
    """When the next call started, if that was before this one was answered."""
    return ran.next if ran.next is not None and (ran.answered is None or ran.next < ran.answered) else None
