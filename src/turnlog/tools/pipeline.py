"""The way of a call: prepare → execute → finish (dsh-v0 §6.2).

::

    prepare   read the arguments → tools/pre-execute → approval
    execute   tools/execute around the body: grace, deadline, abandonment
    finish    tools/post-execute → the result for the log → tools/result

None of the stages raises, except when the caller's own task is cancelled. Whatever else goes wrong becomes a result,
so that every call has one. A failure inside a hook is final: it passes by ``tools/post-execute``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
from msgspec import UNSET, UnsetType

from turnlog.bus import Bus, Cancellation, HookContract, HookError, Outcome
from turnlog.events import Json, TextBlock
from turnlog.log import Session

from . import arguments as argument_text
from . import body
from .approval import Approvals
from .body import GRACE, Cause, Ending
from .call import Call, Result
from .context import Spill, ToolContext
from .errors import ToolArgsError, ToolNotFoundError, ToolOutputError
from .files import Files
from .hooks import Execute, Finished, PostExecute, PreExecute, Progress
from .output import Rendered, canonical, describe, failure, render
from .place import raised_in
from .threads import Threads
from .tool import AnyTool, Proposal, Subjects
from .toolbox import Toolbox
from .verdict import Accept, Allow, Ask, Deny, Reject, Review, Verdict

logger: Final = logging.getLogger("turnlog")

T = TypeVar("T")
_NO_ARGUMENTS: Final = argument_text.parse("")


@dataclass(slots=True)
class Prepared:
    """A call that may run, or already has its result because it may not."""

    call: Call
    cancellation: Cancellation
    arguments: Mapping[str, Json] = field(default_factory=lambda: _NO_ARGUMENTS)
    tool: AnyTool | None = None
    bound: dict[str, object] = field(default_factory=dict)
    """Validated keyword arguments."""
    subjects: Subjects | None = None
    """What it acts on, as it was when it was allowed."""
    result: Result | None = None
    """Why it does not run."""
    final: bool = False
    """Whether the result passes by ``tools/post-execute``."""
    started: bool = False
    """Whether the body has begun."""
    stop: Callable[[], Awaitable[object]] | None = None
    """Ends the body if it still runs."""


@dataclass(slots=True)
class Executed:
    """A call with what its body gave."""

    prepared: Prepared
    result: Result
    value: Json | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Stuck:
    """A body that did not stop when it was told to, and was left behind."""

    call: Call
    future: asyncio.Future[object]


class Pipeline:
    """Takes calls from the model's text to the result in the log. Belongs to one session and one event loop."""

    def __init__(
        self,
        toolbox: Toolbox,
        bus: Bus,
        session: Session,
        *,
        workspace: Path | str = ".",
        approvals: Approvals | None = None,
        spill: Path | None = None,
        grace: float = GRACE,
        late: Callable[[Call, Result], object] | None = None,
    ) -> None:
        """*spill*: directory for output too large to show (a temporary one, if None). *grace*: seconds a body has to
        stop. *late*: told what an abandoned body gave in the end."""
        self.toolbox: Final = toolbox
        self.files: Final = Files()
        self._bus = bus
        self._session = session
        self._workspace = Path(workspace).resolve()
        self._approvals = Approvals() if approvals is None else approvals
        self._spill = Spill(spill)
        self._grace = grace
        self._late = late
        self._threads = Threads()
        self._stuck: list[Stuck] = []

    @property
    def stuck(self) -> tuple[Stuck, ...]:
        """Bodies that were abandoned and still run."""
        return tuple(self._stuck)

    # -- prepare ------------------------------------------------------------------------------------------------

    async def prepare(self, call: Call, cancellation: Cancellation) -> Prepared:
        """Read the arguments and decide whether the call may run; asks a person if need be.

        Cancelling the caller's task withdraws a question; the log says ``cancelled``.
        """
        prepared = Prepared(call, cancellation)
        try:
            await self._prepare(prepared)
        except Exception as error:  # hooks, rules and answerers are foreign code; a call always gets a result
            prepared.result, prepared.final = self._failed(error), True
        return prepared

    async def _prepare(self, prepared: Prepared) -> None:
        call = prepared.call
        prepared.arguments = argument_text.parse(call.arguments)  # a fault here beats an earlier cancel
        if prepared.cancellation.cause is not None:
            prepared.result, prepared.final = not_started(prepared.cancellation), True
            return
        self._approvals.announce(self._session)
        self._look_up(prepared)
        prepared.subjects = self._subjects(prepared)
        verdict = await self._verdict(prepared)
        if isinstance(verdict, Ask) and prepared.result is None:
            verdict = await self._ask(prepared, verdict)
        if isinstance(verdict, Deny):
            prepared.result = Result.failed(verdict.reason)
        elif prepared.cancellation.cause is not None:
            prepared.result = not_started(prepared.cancellation)

    def _look_up(self, prepared: Prepared) -> None:
        """Find the tool and check the arguments. The fault, if any, waits until the policy has seen the call."""
        try:
            prepared.tool = self._tool(prepared.call.name)
            prepared.bound = prepared.tool.bind(prepared.arguments)
        except (ToolNotFoundError, ToolArgsError) as error:
            prepared.result = failure(error)

    def _tool(self, name: str) -> AnyTool:
        found = self.toolbox.get(name)
        if found is None:
            known = ", ".join(sorted(one.name for one in self.toolbox)) or "none"
            raise ToolNotFoundError(f"there is no tool named {name!r}; there are: {known}")
        return found

    async def _verdict(self, prepared: Prepared) -> Verdict | None:
        """What hooks, rules and the tool say; None when a cancel came first."""

        async def default(event: PreExecute) -> Verdict:
            _check_same(event, prepared)
            if prepared.tool is None or prepared.result is not None:
                return Allow()  # it fails anyway, and says why
            return self._approvals.verdict(prepared.tool, self._proposal(prepared))

        event = PreExecute(prepared.call, prepared.arguments, prepared.cancellation)
        with self._cut_short(PreExecute, prepared.cancellation):
            verdict = (await self._bus.waterfall(event, default)).value
            if not isinstance(verdict, Allow | Deny | Ask):
                raise HookContract(event.wire, "a listener", f"gave a {type(verdict).__name__}, which is no verdict")
            return verdict
        return None

    async def _ask(self, prepared: Prepared, ask: Ask) -> Verdict | None:
        assert prepared.tool is not None
        return await self._approvals.ask(
            self._session, self._bus, prepared.tool, self._proposal(prepared), ask.reason, prepared.cancellation
        )

    def _subjects(self, prepared: Prepared) -> Subjects | None:
        look = None if prepared.tool is None else prepared.tool.policy.subjects
        return None if look is None or prepared.result is not None else look(self._proposal(prepared))

    def _proposal(self, prepared: Prepared) -> Proposal:
        return Proposal(prepared.call, prepared.arguments, self._workspace, self._spill.directory)

    # -- execute ------------------------------------------------------------------------------------------------

    async def execute(self, prepared: Prepared) -> Executed:
        """Run the body inside ``tools/execute``. Calls may overlap here.

        Cancelling the caller's task stops the body and gives it its grace period before the cancel goes on.
        """
        if prepared.result is not None:
            return Executed(prepared, prepared.result)
        ran: list[Rendered] = []
        try:
            return await self._execute(prepared, ran)
        except Exception as error:  # a wrapper failed: whatever the body did, the call gets a result
            prepared.final = True
            if prepared.stop is not None:  # a wrapper may have left its next() running
                await prepared.stop()
            return Executed(prepared, self._failed(error))

    async def _execute(self, prepared: Prepared, ran: list[Rendered]) -> Executed:
        async def default(event: Execute) -> Result:
            _check_same(event, prepared)
            ran.append(await self._dispatch(prepared, event.cancellation))
            return ran[-1].result

        event = Execute(prepared.call, prepared.arguments, prepared.cancellation)
        outcome: Outcome[Result] | None = None
        with self._cut_short(Execute, prepared.cancellation):
            outcome = await self._bus.waterfall(event, default)
        own = ran[-1] if ran else None
        if outcome is None:  # the cancel came while a wrapper waited
            return Executed(prepared, self._after_cancel(prepared, own.result if own else None))
        if own is not None and outcome.value is own.result:
            value, result = own.value, own.result
        else:
            value, result = UNSET, canonical(outcome.value)
        settled = self._after_cancel(prepared, result)
        return Executed(prepared, settled, UNSET if settled.is_error else value)

    def _after_cancel(self, prepared: Prepared, result: Result | None) -> Result:
        """Errors stay what they are; a success that settles after a cancel is not used, its contexts are."""
        if prepared.cancellation.cause is None and result is not None:
            return result
        if result is not None and result.is_error:
            return result
        ended = aborted(prepared.cancellation, ()) if prepared.started else not_started(prepared.cancellation)
        return ended if result is None else replace(ended, contexts=result.contexts)

    async def _dispatch(self, prepared: Prepared, cancellation: Cancellation) -> Rendered:
        fused: tuple[Cancellation, ...] = (prepared.cancellation,)
        if cancellation is not prepared.cancellation:
            fused = (*fused, cancellation)
        for one in fused:
            if one.cause is not None:
                return Rendered(not_started(one))
        tool = prepared.tool
        if tool is None or self.toolbox.get(tool.name) is not tool:
            return Rendered(failure(ToolNotFoundError(f"the tool {prepared.call.name!r} was taken away")))
        if self._subjects(prepared) != prepared.subjects:  # a link was turned round since
            return Rendered(Result.failed("what this call acts on has changed since it was allowed; try again"))
        context = self._context(prepared)
        prepared.started = True
        call, name = tool.bound(prepared.bound, context), f"tool {tool.name}"
        running = body.start(call, name) if tool.asynchronous else self._threads.start(call, name)
        prepared.stop = partial(body.stop, running, context, self._grace)
        ending = await body.run(running, context, fused, timeout=tool.timeout, grace=self._grace)
        if ending.abandoned:
            self._abandon(prepared.call, ending.future)
        rendered = self._settled(tool, ending, context, next((one for one in fused if one.cause), fused[0]))
        result = rendered.result
        if context.contexts or context.concludes_turn:
            contexts = (*context.contexts, *result.contexts)
            concludes = (context.concludes_turn or result.concludes_turn) and not result.is_error
            result = replace(result, contexts=contexts, concludes_turn=concludes)
        return Rendered(result, rendered.value)

    def _settled(self, tool: AnyTool, ending: Ending, context: ToolContext, cancellation: Cancellation) -> Rendered:
        notes = list(context.notes)
        if ending.abandoned:
            notes.append(f"It did not stop within {self._grace:g} s and was left running; its effects are unknown.")
        match ending.cause:
            case Cause.CANCELLED:
                own = None if ending.abandoned or ending.future.cancelled() else _given(ending.future).result
                if own is not None and own.is_error:
                    return Rendered(own)
                ended = aborted(cancellation, notes)
                return Rendered(ended if own is None else replace(ended, contexts=own.contexts))
            case Cause.TIMEOUT:
                if not ending.abandoned and not ending.future.cancelled():
                    ending.future.exception()  # looked at, so that asyncio does not complain
                return Rendered(timed_out(tool, notes))
            case Cause.FINISHED:
                return _given(ending.future)

    def _context(self, prepared: Prepared) -> ToolContext:
        async def ask(question: str) -> bool:
            assert prepared.tool is not None
            verdict = await self._approvals.ask(
                self._session,
                self._bus,
                prepared.tool,
                self._proposal(prepared),
                None,
                prepared.cancellation,
                text=question,
            )
            return isinstance(verdict, Allow)

        return ToolContext(
            prepared.call,
            workspace=self._workspace,
            files=self.files,
            spill=self._spill,
            cancellation=prepared.cancellation,
            tell=lambda call, text: self._bus.emit(Progress(call, text)),
            ask=ask,
        )

    def _abandon(self, call: Call, future: asyncio.Future[object]) -> None:
        stuck = Stuck(call, future)
        self._stuck.append(stuck)
        logger.warning(
            "tool %r (call %s) did not stop within %g s; it was abandoned", call.name, call.call_id, self._grace
        )

        def ended(future: asyncio.Future[object]) -> None:
            self._stuck.remove(stuck)
            if future.cancelled() or self._late is None:
                _ = future.cancelled() or future.exception()
                return
            self._late(call, _given(future).result)

        future.add_done_callback(ended)

    # -- finish -------------------------------------------------------------------------------------------------

    async def finish(self, executed: Executed) -> Result:
        """Let ``tools/post-execute`` decide, make the result fit for the log, and tell ``tools/result``.

        Cancelling the caller's task drops what the hooks would have said.
        """
        prepared = executed.prepared
        result = executed.result
        if not prepared.final:
            try:
                result = await self._reviewed(executed)
            except Exception as error:  # a reviewer failed: the call gets a result nevertheless
                result = self._failed(error)
        try:
            result = canonical(result)
        except ToolOutputError as error:
            result = failure(error)
        self._bus.emit(Finished(prepared.call, result))
        return result

    async def _reviewed(self, executed: Executed) -> Result:
        async def default(event: PostExecute) -> Review:
            _check_same(event, prepared)
            return Accept()

        prepared = executed.prepared
        event = PostExecute(prepared.call, prepared.arguments, executed.result, prepared.cancellation, executed.value)
        review = await self._patiently(prepared.cancellation, lambda: self._bus.waterfall(event, default))
        if review is None:
            return self._after_cancel(prepared, executed.result)
        match review.value:
            case Reject(feedback=feedback, contexts=contexts):
                return Result((TextBlock(feedback),), is_error=True, meta=executed.result.meta, contexts=contexts)
            case Accept() as accept:
                return self._accepted(executed, accept)
            case other:
                raise HookContract(event.wire, "a listener", f"gave a {type(other).__name__}, not Accept or Reject")

    async def _patiently(self, cancellation: Cancellation, run: Callable[[], Awaitable[T]]) -> T | None:
        """Run hooks so that a cancel ends them; after one they get the grace period. None when they were cut off."""
        if cancellation.cause is not None:
            with anyio.move_on_after(self._grace):
                return await run()
        else:
            with self._cut_short(PostExecute, cancellation):
                return await run()
        return None

    def _cut_short(self, event: type, cancellation: Cancellation) -> AbstractContextManager[object, bool | None]:
        """A scope in which a cancel ends what listeners wait for; without any there is nothing to end."""
        return cancellation.scope() if self._bus.hears(event) else nullcontext()

    def _accepted(self, executed: Executed, accept: Accept) -> Result:
        result = executed.result
        contexts = (*result.contexts, *accept.contexts)
        if accept.content is not None and accept.value is not UNSET:
            raise HookContract(PostExecute.wire, "a listener", "gave both content and value; give one")
        if accept.content is not None:
            return replace(result, content=accept.content, contexts=contexts)
        if accept.value is UNSET:
            return replace(result, contexts=contexts) if accept.contexts else result
        if result.is_error:
            raise HookContract(PostExecute.wire, "a listener", "gave a value for a failed result")
        self._tool(executed.prepared.call.name)  # the value of a tool that is gone cannot be shown
        return replace(render(accept.value).result, contexts=contexts, concludes_turn=result.concludes_turn)

    # -- failures -----------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> Result:
        if isinstance(error, HookError):
            return Result.failed(str(error), name=type(error).__name__, code=error.code)
        if isinstance(error, ToolArgsError | ToolOutputError):
            return failure(error)
        where = raised_in(error)
        if where is None:
            logger.error("the tool pipeline failed", exc_info=error)
            return Result.failed(describe(error))
        return Result.failed(f"{where} failed: {describe(error)}", name="HookError", code="HOOK_FAILED")


# -- results the harness makes itself -------------------------------------------------------------------------------


def not_started(cancellation: Cancellation) -> Result:
    """The result of a call that a cancel kept from starting."""
    return Result.failed(
        f"aborted before it started ({_why(cancellation)})", name="AbortError", code="ABORTED_BEFORE_DISPATCH"
    )


def aborted(cancellation: Cancellation, notes: Sequence[str]) -> Result:
    """The result of a call that was cancelled while it ran."""
    text = "\n".join([f"aborted while it ran ({_why(cancellation)})", *notes])
    return canonical(Result.failed(text, name="AbortError", code="ABORTED"))


def timed_out(tool: AnyTool, notes: Sequence[str]) -> Result:
    """The result of a call whose time was over."""
    text = "\n".join([f"{tool.name} ran longer than {tool.timeout or 0:g} s and was stopped", *notes])
    return canonical(Result.failed(text, name="ToolTimeoutError", code="TOOL_TIMEOUT"))


def _why(cancellation: Cancellation) -> str:
    kind = type(cancellation.cause).__name__.removeprefix("CancelledBy").lower()
    return f"cancelled by {kind}" if cancellation.cause is not None else "cancelled"


def _given(future: asyncio.Future[object]) -> Rendered:
    """What a finished body gave or raised."""
    if future.cancelled():
        return Rendered(Result.failed("the tool was cancelled from inside, by nobody's wish"))
    error = future.exception()
    try:
        return Rendered(failure(error)) if error is not None else render(future.result())
    except ToolOutputError as fault:
        return Rendered(failure(fault))


def _check_same(event: PreExecute | Execute | PostExecute, prepared: Prepared) -> None:
    if event.call is not prepared.call or event.arguments is not prepared.arguments:
        raise HookContract(event.wire, "a listener", "handed on another call or other arguments; what is logged runs")
