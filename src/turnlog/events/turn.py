"""Boundaries: turns and steps (dsh-v0 §1.3 rows 1-4)."""

from __future__ import annotations

from .payload import LogPayload
from .reasons import TurnEndReason
from .value import Index


class TurnStart(LogPayload, type="turn/start"):
    """A turn opens, before it claims its input."""

    turn: Index
    """Counts 1, 2, 3, … over the whole log."""


class TurnEnd(LogPayload, type="turn/end"):
    """The last event of a turn."""

    turn: Index
    reason: TurnEndReason


class StepStart(LogPayload, type="step/start"):
    """A step opens: one model request (with its retries) and the tools it calls."""

    turn: Index
    step: Index
    """Counts 1, 2, 3, … within the turn."""


class StepEnd(LogPayload, type="step/end"):
    """The step closes."""

    turn: Index
    step: Index
