"""Tools keep the types of their functions; hooks around calls give what their events say. Nothing here runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

from turnlog.bus import Bus, Next, Outcome, stop
from turnlog.tools import (
    Accept,
    Allow,
    AnyTool,
    Deny,
    Execute,
    PostExecute,
    PreExecute,
    Reject,
    Result,
    Review,
    Tool,
    Toolbox,
    ToolContext,
    ToolOutput,
    Verdict,
    tool,
)


@tool
def plain(path: str, limit: int = 10) -> str:
    """Plain."""
    return path * limit


@tool(name="other", parallel=True, timeout=3)
async def waiting(path: str, ctx: ToolContext) -> ToolOutput:
    """Waiting."""
    await ctx.progress("half")
    allowed: bool = await ctx.ask("really?")
    return ToolOutput(path if allowed else "no")


@tool(parallel=lambda arguments: arguments.get("path") == ".")
def classified(path: str) -> dict[str, int]:
    """Classified."""
    return {path: 1}


# -- the decorated function is the function ---------------------------------------------------------------------------

assert_type(plain("a"), str)
assert_type(plain("a", limit=2), str)
assert_type(classified("a"), dict[str, int])
everything: Toolbox = Toolbox([plain, waiting, classified])
one: AnyTool = plain
function: Callable[[str], str] = plain

plain(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
plain()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
plain("a", limits=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
wrong: int = plain("a")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
Toolbox([print])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


async def calling(ctx: ToolContext) -> None:
    assert_type(await waiting("a", ctx), ToolOutput)
    pending: Coroutine[Any, Any, ToolOutput] = waiting("a", ctx)
    await pending
    await waiting("a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    print(waiting("a", ctx).content)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


def setting(some: Tool[[str], str]) -> None:
    some.name = "x"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    tool(timeout="3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


# -- hooks ------------------------------------------------------------------------------------------------------------


async def guard(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
    if event.arguments.get("path") == "/":
        return stop(Deny("not that one"), reason="root")
    return await next(event)


async def review(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
    outcome = await next()
    match outcome.value:
        case Accept():
            return outcome.with_value(Reject("never"))
        case Reject():
            return outcome


async def wrap(event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
    outcome = await next()
    assert_type(outcome.value, Result)
    return outcome


async def changes(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
    event.call = event.call  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    event.arguments["path"] = "x"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    return await next()


async def says_yes(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
    return stop(True, reason="fine")  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


async def gives_a_verdict(event: Execute, next: Next[Execute, Result]) -> Outcome[Verdict]:
    return stop(Allow(), reason="fine")


def registering(bus: Bus) -> None:
    bus.on(PreExecute, guard)
    bus.on(PostExecute, review)
    bus.on(Execute, wrap)
    bus.on(Execute, guard)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(Execute, gives_a_verdict)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
