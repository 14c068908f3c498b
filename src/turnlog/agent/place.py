"""Where the loop is: the turn and step everything it logs carries, and what a turn adds up to."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnlog.bus import Cancellation
from turnlog.events import CancelledByHook, Failure, TokenUsage, UserMessage

from .failure import TurnFailed


@dataclass(slots=True)
class Turn:
    """One running turn."""

    number: int
    claimed: tuple[UserMessage, ...]
    """What it was opened with."""
    cancellation: Cancellation
    step: int = 0
    """The step it is in or was in last; 0 before the first."""
    usage: list[TokenUsage] = field(default_factory=list)
    """One figure per attempt that reported any, failed ones included."""
    text: str = ""
    """The last answer that showed any text."""
    limit: Failure | None = None
    """The limit that cancelled it, if one did."""

    def check(self) -> None:
        """Raise if it was cancelled or ran into a limit."""
        if self.limit is not None:
            raise TurnFailed(self.limit)
        self.cancellation.check()

    def stop_at(self, limit: Failure) -> None:
        """Cancel what it does now; it ends with *limit* instead of ``aborted``."""
        if self.cancellation.cause is None:
            self.limit = limit
            self.cancellation.cancel(CancelledByHook(limit.code))

    @property
    def total(self) -> TokenUsage:
        """All attempts added up."""
        return added(self.usage)


def added(figures: list[TokenUsage]) -> TokenUsage:
    """The sum of usages; a part nobody reported stays absent."""
    return TokenUsage(
        input_tokens=sum(one.input_tokens for one in figures),
        output_tokens=sum(one.output_tokens for one in figures),
        cache_read_tokens=_sum([one.cache_read_tokens for one in figures]),
        cache_write_tokens=_sum([one.cache_write_tokens for one in figures]),
        reasoning_tokens=_sum([one.reasoning_tokens for one in figures]),
    )


def _sum(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
