"""The hooks these tests dispatch, and a way to say where a function is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from turnlog.bus import Emit, Next, Outcome, Parallel, Serial, Waterfall


@dataclass(frozen=True)
class PreStep(Waterfall["PreStep", str]):
    wire: ClassVar[str] = "agent/pre-step"
    text: str = "hello"


@dataclass(frozen=True)
class Other(Waterfall["Other", str]):
    wire: ClassVar[str] = "acme/other"


@dataclass(frozen=True)
class Stopping(Serial["Stopping", str]):
    wire: ClassVar[str] = "agent/turn-stopping"


@dataclass(frozen=True)
class Flush(Parallel):
    wire: ClassVar[str] = "session/flush"


@dataclass(frozen=True)
class Status(Emit):
    wire: ClassVar[str] = "agent/status"
    status: str = "idle"


async def shout(event: PreStep) -> str:
    """What the chain does when nobody minds."""
    return event.text.upper()


async def pass_on(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
    return await next()


def place(function: Callable[..., Any]) -> str:
    """``file:line)`` as errors have it."""
    code = function.__code__
    return f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
