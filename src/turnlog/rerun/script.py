"""What a recording consists of: what came from outside, the calls with their results, and how they are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnlog.events import CancelCause, Failure, ToolCall, ToolResult, UserMessage
from turnlog.events.codec import decoder_of
from turnlog.events.lossless import dump
from turnlog.log import AnyEvent
from turnlog.tools import Result

from .errors import RerunError

LOOP: Final = frozenset(
    {
        *("turn/start", "turn/end", "step/start", "step/end", "user/message", "assistant/chunk", "assistant/message"),
        *("tool/call", "tool/result", "request/header", "request/context", "agent/inbox/spliced", "session/end-seed"),
        *("approval/asked", "approval/decided", "approval/policy", "hook/invoked", "hook/result"),
        *("llm/retry", "llm/retry-started", "compaction/prune"),
    }
)
"""What the loop writes. Everything else came from programs around it."""
LIMITS: Final = ("STEP_LIMIT", "COST_LIMIT")
"""Limits of a turn that are checked before a step; the log does not hold the settings."""
TIME_LIMIT: Final = "TIME_LIMIT"
"""The one that cuts a step off."""

CLOSED: Final = "interrupted-"
"""How the ids of messages begin that were not logged by the loop, but for a writer that was gone."""
GIVEN_UP: Final = "Error: The harness failed while this call was running"
"""How the result of a call begins whose loop was cancelled from outside."""
NOT_RUN: Final = "Error: Not run: "
"""How the result of a call begins that was only logged to be answered."""
_decode: Final = decoder_of(UserMessage)


@dataclass(frozen=True, slots=True)
class Insert:
    """Somebody said something."""

    target: str
    start: int
    messages: tuple[UserMessage, ...]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Messages that waited were taken back, or replaced."""

    target: str
    ids: int
    start: int
    instead: tuple[UserMessage, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody cancelled the turn."""

    cause: CancelCause | Failure
    """A failure is the limit that cut it off."""
    withdraws: bool
    """Whether what waited was withdrawn with it."""
    task: bool = False
    """Not the turn was cancelled but the task that runs the loop, while tools ran."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A program around the loop logged something."""

    event: AnyEvent


Action = Insert | Withdraw | Cancel | Copy


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a call, and its answer."""

    seq: int
    reason: str | None
    decided: int
    outcome: str


@dataclass(slots=True)
class Ran:
    """A call as it was recorded."""

    seq: int
    call: ToolCall
    next: int | None = None
    """The seq of the call that was started next in its step."""
    answered: int | None = None
    """The seq of its result."""
    gate: int | None = None
    """How long the log has to be before its result may come; None for at once."""
    after: tuple[int, ...] = ()
    """The calls that had their result already when it was cancelled, though it is logged later."""
    late: int = 0
    """Which of the results that may come together it is, from the end."""
    result: Result | None = None
    asked: Asked | None = None


@dataclass(frozen=True, slots=True)
class Boundary:
    """Here another agent went on."""

    resumed: bool
    """From the stored log: what was open is closed, and ``session/end-seed`` follows."""


@dataclass(slots=True)
class StepCalls:
    """A step while it is read."""

    first: int
    turn: int
    step: int
    calls: list[Ran] = field(default_factory=list)


def splice_of(value: object) -> Insert | Withdraw | None:
    """What somebody did to the waiting input; None for a claim, which is the loop's."""
    if not isinstance(value, Mapping):
        return None
    inserted = tuple(_message(one) for one in value.get("inserted") or ())
    removed, start, target = value.get("removedCount", 0), value.get("start", 0), str(value.get("target"))
    if value.get("outcome") == "canceled":
        return Withdraw(target, removed, start, inserted)
    return Insert(target, start, inserted) if inserted and not removed else None


def _message(record: Any) -> UserMessage:
    decoded = _decode(dump(record))
    if not isinstance(decoded, UserMessage):
        raise RerunError(f"a waiting message is no user message: {record!r:.100}")
    return decoded


def text_of(result: ToolResult) -> str:
    """What the model was told."""
    return result.message.text
