"""What a bus did: which listeners ran, who stopped a chain, how long each took."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import Self


@dataclass(slots=True)
class Ran:
    """One listener in one dispatch. As a context, it records how the body went."""

    where: str
    """``name (file:line)``."""
    outcome: str = "running"
    """``returned``, ``passed on``, ``stopped``, ``answered``, ``raised``, ``let through`` (what was raised further
    inside), ``cancelled``, or ``running``."""
    detail: str | None = None
    """The reason of a stop, or what was raised."""
    seconds: float = 0.0
    """Its own time: what it waited for in ``next`` is not counted."""

    def raised(self, error: BaseException) -> None:
        """Note a failure."""
        if self.outcome == "running":
            self.outcome = "raised"
        self.detail = f"{type(error).__name__}: {error}"

    def __enter__(self) -> Self:
        self.seconds -= perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += perf_counter()
        if isinstance(error, Exception):
            self.raised(error)
        elif error is not None:  # cancelled, or the program is being ended
            self.outcome = "cancelled"
        elif self.outcome == "running":
            self.outcome = "returned"


@dataclass(slots=True)
class Dispatch:
    """One event and everyone who heard it, in order. As a context, it is timed."""

    wire: str
    mode: str
    ran: list[Ran] = field(default_factory=list)
    reached_default: bool | None = None
    """For waterfalls: whether the default ran."""
    seconds: float = 0.0

    def running(self, where: str) -> Ran:
        """Record one listener's run."""
        ran = Ran(where)
        self.ran.append(ran)
        return ran

    def __enter__(self) -> Self:
        self.seconds -= perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += perf_counter()

    def __str__(self) -> str:
        lines = [f"{self.wire} ({self.mode}) {self.seconds * 1000:.2f} ms"]
        for one in self.ran:
            detail = "" if one.detail is None else f": {one.detail}"
            lines.append(f"  {one.where} {one.outcome}{detail} {one.seconds * 1000:.2f} ms")
        if self.reached_default is not None:
            lines.append(f"  the default {'ran' if self.reached_default else 'did not run'}")
        return "\n".join(lines)


@dataclass(slots=True)
class Trace:
    """The dispatches of one ``with bus.trace() as trace:`` block, in the order they began, of every task.

    Facts that nobody listens to are not dispatched and do not appear.
    """

    dispatches: list[Dispatch] = field(default_factory=list)

    def of(self, wire: str) -> list[Dispatch]:
        """Those of one event."""
        return [one for one in self.dispatches if one.wire == wire]

    def __str__(self) -> str:
        return "\n".join(map(str, self.dispatches))
