"""BC-071, the half that is the bus's: hooks around a request or a call that do everything wrong.

What an agent makes of it (the turn ends, the call fails) is tested with the agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import anyio
import pytest

from tests.bus.hooks import place
from turnlog.bus import Bus, HookContract, HookTimeout, Next, Outcome, Waterfall
from turnlog.events import Header, Json, ToolSchema


@dataclass(frozen=True)
class Execute(Waterfall["Execute", str]):
    """A request, or a call, on its way."""

    wire: ClassVar[str] = "tools/execute"
    arguments: Json = None
    header: Header | None = None


Rest = Next[Execute, str]


async def forgets(event: Execute, next: Rest) -> Any: ...


async def twice(event: Execute, next: Rest) -> Any:
    await next()
    return await next()


async def drops(event: Execute, next: Rest) -> Any:
    await next()


async def fails(event: Execute, next: Rest) -> Outcome[str]:
    raise ZeroDivisionError("boom")


async def hangs(event: Execute, next: Rest) -> Outcome[str]:
    await anyio.sleep(600)
    return await next()


class Tool:
    """What the hooks are around; counts its runs."""

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, event: Execute) -> str:
        self.runs += 1
        await anyio.sleep(0)
        return "done"


@pytest.mark.parametrize(
    ("case", "listener", "error", "runs"),
    [
        ("a", forgets, HookContract, 0),
        ("b", twice, HookContract, 1),
        ("c", drops, HookContract, 1),
        ("f", fails, ZeroDivisionError, 0),
        ("h", hangs, HookTimeout, 0),
    ],
)
def test_a_hook_that_misbehaves_is_an_error_within_the_call(case: str, listener: Any, error: Any, runs: int) -> None:
    async def main() -> None:
        bus, tool = Bus(), Tool()
        bus.on(Execute, listener, deadline=0.05)
        with anyio.fail_after(5), pytest.raises(error) as caught:
            await bus.waterfall(Execute(), tool.run)
        assert place(listener) in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        assert tool.runs == runs
        with bus.trace() as trace, bus.on(Execute, pass_on, prepend=True), pytest.raises(error):
            await bus.waterfall(Execute(), tool.run)
        assert [one.outcome for one in trace.dispatches[0].ran] == ["let through", "raised"]

    anyio.run(main)


async def pass_on(event: Execute, next: Rest) -> Outcome[str]:
    return await next()


def test_d_next_after_a_cancel_runs_nothing() -> None:
    async def main() -> None:
        bus, tool = Bus(), Tool()

        async def cancels(event: Execute, next: Rest) -> Outcome[str]:
            scope.cancel()
            return await next()

        bus.on(Execute, cancels)
        with anyio.CancelScope() as scope:
            await bus.waterfall(Execute(), tool.run)
        assert scope.cancelled_caught
        assert tool.runs == 0

    anyio.run(main)


def test_g_what_a_hook_is_given_cannot_be_changed_in_place() -> None:
    event: Any = Execute(arguments=None, header=None)
    with pytest.raises(AttributeError):
        event.arguments = {}
    schema: Any = ToolSchema("bash", "runs", None)
    with pytest.raises(AttributeError):
        schema.name = "other"
