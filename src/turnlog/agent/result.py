"""What a run gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from turnlog.events import Completed, TokenUsage, TurnEndReason
from turnlog.log import TurnlogError

T = TypeVar("T")


class NoOutput(TurnlogError):
    """A run ended without the structured output it was asked for."""


@dataclass(frozen=True, slots=True)
class RunResult(Generic[T]):
    """How the turn that took a prompt ended."""

    text: str
    """The last answer that showed text; empty when none did."""
    reason: TurnEndReason
    usage: TokenUsage
    """All attempts of the turn added up, failed ones included."""
    turn: int | None
    """Its number; None when the prompt was withdrawn before a turn took it."""
    session_id: str
    structured: T | None = None

    @property
    def address(self) -> str:
        """The turn's address, ``t3``; the session's id when no turn took the prompt."""
        return self.session_id if self.turn is None else f"t{self.turn}"

    @property
    def completed(self) -> bool:
        """Whether no work was owed any more."""
        return isinstance(self.reason, Completed)

    @property
    def output(self) -> T:
        """The structured output. Raises :class:`NoOutput` when the run gave none, with how it ended."""
        if self.structured is None:
            raise NoOutput(
                f"session {self.session_id} {self.address}: no structured output; the turn ended {self.reason!r} and "
                f"the model's last words were {self.text[:200]!r}"
            )
        return self.structured
