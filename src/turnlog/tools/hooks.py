"""Hooks around a call: whether it runs, around its run, and what becomes of its result.

========================  =========  ==========================================================================
``tools/pre-execute``     waterfall  gives a verdict: Allow, Deny or Ask. Default: the tool's own and the rules
``approval/request``      waterfall  gives a person's answer. Default: the answerer
``tools/execute``         waterfall  wraps the body and gives its result. Default: run it
``tools/post-execute``    waterfall  gives Accept or Reject. Default: accept
``tools/result``          emit       the result as it will be logged; once per call
``tools/progress``        emit       what a running tool shows
========================  =========  ==========================================================================

Events are immutable; ``next(event)`` may hand on another ``cancellation`` but not another call or arguments: what is
logged is what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from turnlog.bus import Cancellation, Emit, Waterfall
from turnlog.events import Json

from .call import Call, Result
from .verdict import Review, Verdict

Answer: TypeAlias = Literal["allow", "allow-always", "deny"]
"""What a person may say to a question."""


@dataclass(frozen=True)
class PreExecute(Waterfall["PreExecute", Verdict]):
    """A call is about to run; unknown tools come by too."""

    wire: ClassVar[str] = "tools/pre-execute"
    call: Call
    arguments: Mapping[str, Json]
    cancellation: Cancellation


@dataclass(frozen=True)
class Execute(Waterfall["Execute", Result]):
    """A call runs inside ``next``. Handing on another ``cancellation`` adds it to the turn's own."""

    wire: ClassVar[str] = "tools/execute"
    call: Call
    arguments: Mapping[str, Json]
    cancellation: Cancellation


@dataclass(frozen=True)
class PostExecute(Waterfall["PostExecute", Review]):
    """A call has a result that is not logged yet."""

    wire: ClassVar[str] = "tools/post-execute"
    call: Call
    arguments: Mapping[str, Json]
    result: Result
    cancellation: Cancellation
    value: Json | UnsetType = UNSET
    """The JSON value a successful tool gave, when it gave one."""


@dataclass(frozen=True)
class Question:
    """What a person is asked."""

    id: str
    """Its own: two questions never share one."""
    tool: str
    call: Call
    text: str
    """Exactly what will run: the raw command, the path, the diff."""
    reason: str | None
    always: str | None
    """The rule that the answer ``allow-always`` adds for this session; None when there is none to add."""


@dataclass(frozen=True)
class ApprovalRequest(Waterfall["ApprovalRequest", Answer | None]):
    """A person has to decide. None means that nobody can. Register with ``deadline=None``: people take their time."""

    wire: ClassVar[str] = "approval/request"
    question: Question
    cancellation: Cancellation


@dataclass(frozen=True)
class Finished(Emit):
    """A call has its result, exactly once."""

    wire: ClassVar[str] = "tools/result"
    call: Call
    result: Result


@dataclass(frozen=True)
class Progress(Emit):
    """A running tool says how far it is. Not logged."""

    wire: ClassVar[str] = "tools/progress"
    call: Call
    text: str
