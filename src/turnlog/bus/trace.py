"""What a bus did: which listeners ran, who stopped a chain, how long each took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass(slots=True)
class Ran:
    """One listener in one dispatch."""

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

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of the body."""
        started = perf_counter()
        try:
            yield
        finally:
            self.seconds -= perf_counter() - started


@dataclass(slots=True)
class Dispatch:
    """One event and everyone who heard it, in order."""

    wire: str
    mode: str
    ran: list[Ran] = field(default_factory=list)
    reached_default: bool | None = None
    """For waterfalls: whether the default ran."""
    seconds: float = 0.0

    @contextmanager
    def running(self, where: str) -> Iterator[Ran]:
        """Record one listener's run."""
        ran = Ran(where)
        self.ran.append(ran)
        started = perf_counter()
        try:
            yield ran
        except Exception as error:
            ran.raised(error)
            raise
        except BaseException:  # cancelled, or the program is being ended
            ran.outcome = "cancelled"
            raise
        finally:
            ran.seconds += perf_counter() - started
        if ran.outcome == "running":
            ran.outcome = "returned"

    @contextmanager
    def timed(self) -> Iterator[Dispatch]:
        """Record the whole dispatch."""
        started = perf_counter()
        try:
            yield self
        finally:
            self.seconds = perf_counter() - started

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
