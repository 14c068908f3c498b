"""Time and ids that are the same in every run, for tests that compare whole logs.

::

    with frozen_ids():
        session = Session(clock=FrozenClock(step_ms=10))
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from turnlog.events.value import ids_from

START_MS: Final = 1_755_000_000_000
"""12 August 2025, in the afternoon."""


class FrozenClock:
    """A clock for ``Session(clock=…)`` that shows a later time only when it is told to, or looked at.

    Each look moves it on by *step_ms*, which may be 0, and may be negative: clocks step back.
    """

    def __init__(self, start_ms: int = START_MS, step_ms: int = 0) -> None:
        self.now = start_ms
        """What it shows next; may be set."""
        self.step_ms = step_ms

    def __call__(self) -> int:
        """Epoch milliseconds, as sessions ask for them."""
        now = self.now
        self.now += self.step_ms
        return now

    def advance(self, ms: int) -> None:
        """Move it on."""
        self.now += ms

    def __repr__(self) -> str:
        return f"FrozenClock({self.now}, {self.step_ms})"


@contextmanager
def frozen_ids(prefix: str = "id") -> Iterator[None]:
    """Give new messages and sessions the ids ``id-1``, ``id-2``, … inside the block, in the order they are made.

    For one test at a time: it holds for the whole process. Blocks may nest; an inner one counts from 1 again.
    """
    numbers = itertools.count(1)
    with ids_from(lambda: f"{prefix}-{next(numbers)}"):
        yield
