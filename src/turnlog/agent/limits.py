"""Limits of one turn, off by default: steps, seconds, cost. A turn that reaches one ends ``error``, properly closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from turnlog.events import Failure, TokenUsage

from .failure import failed
from .place import Turn


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may use up; None is no limit."""

    max_steps: int | None = None
    max_seconds: float | None = None
    """Wall-clock seconds; reaching it cancels the step that runs."""
    max_cost: float | None = None
    """In the unit *price* counts in; checked before each step, over all attempts."""
    price: Callable[[TokenUsage], float] | None = None
    """The cost of a usage."""

    def __post_init__(self) -> None:
        if self.max_cost is not None and self.price is None:
            raise ValueError("max_cost needs price=, a function from TokenUsage to cost")

    @contextmanager
    def watch(self, turn: Turn) -> Iterator[None]:
        """Cancel *turn* when its time is up."""
        if self.max_seconds is None:
            yield
            return
        limit = Failure(
            message=f"the turn ran longer than {self.max_seconds:g} s; raise max_seconds or ask for less",
            code="TIME_LIMIT",
        )
        timer = asyncio.get_running_loop().call_later(self.max_seconds, turn.stop_at, limit)
        try:
            yield
        finally:
            timer.cancel()

    def check_step(self, turn: Turn) -> None:
        """Raise ``TurnFailed`` when another step would be one too many, or what is used up costs too much."""
        if self.max_steps is not None and turn.step >= self.max_steps:
            raise failed(
                "STEP_LIMIT", f"the turn needs more than {self.max_steps} steps; raise max_steps or ask for less"
            )
        if self.max_cost is not None and self.price is not None:
            cost = self.price(turn.total)
            if cost > self.max_cost:
                raise failed(
                    "COST_LIMIT",
                    f"the turn has cost {cost:g}, more than {self.max_cost:g}; raise max_cost or ask for less",
                )
