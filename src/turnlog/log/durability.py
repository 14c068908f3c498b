"""The seam between a session and whatever keeps it: one async method.

*accepted* is in the log; *written* was handed to the operating system; *durable* survives power loss. ``log/`` only
knows the protocol; a store attaches an implementation to each session it keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Durable:
    """The first *length* events survive power loss."""

    length: int


@dataclass(frozen=True, slots=True)
class Volatile:
    """Nothing keeps this session: its *length* events live as long as the process."""

    length: int


class Durability(Protocol):
    """What a store attaches to a session."""

    async def durable(self, length: int) -> Durable:
        """Return when the first *length* events are durable. Cancelling the wait cancels nothing that is written."""
        ...
