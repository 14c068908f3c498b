"""Where a turn was cancelled: the log says why it ended, and only its events say since when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from turnlog.events import (
    Aborted,
    ApprovalDecided,
    AssistantMessage,
    CancelledByUser,
    Errored,
    Interrupted,
    StepEnd,
    ToolResult,
)
from turnlog.log import AnyEvent

from .script import CLOSED, GIVEN_UP, NOT_RUN, TIME_LIMIT, Cancel, Insert, StepCalls, Withdraw, text_of

if TYPE_CHECKING:
    from .recording import Recording


def read_cancel(recording: Recording, seq: int, reason: object, step: StepCalls | None, turn: int) -> None:
    """Add the cancel that a turn ended with at *seq*, if one did; *turn*: the seq of its start."""
    only_said = isinstance(reason, Interrupted) and seq < len(recording.events)
    match reason:
        case Aborted(reason=cause):
            pass
        case Errored(error=cause) if cause.code == TIME_LIMIT:
            pass
        case Interrupted() if step is not None and _felt(recording, seq, step, only_said=only_said) < seq:
            cause = CancelledByUser()  # whoever it was: the writer was gone before it could say
        case _:
            return
    place = first = _felt(recording, seq, step, only_said=only_said)
    while first > turn and isinstance(recording.actions.get(first - 1), Insert | Withdraw):
        first -= 1
    withdrawn = [one for one in range(first, place) if isinstance(recording.actions[one], Withdraw)]
    lists = [recording.actions[one].target for one in withdrawn]  # type: ignore[union-attr]
    if len(set(lists)) < len(lists):  # one by one: somebody cancelled where nothing may be logged
        withdrawn = []
    for one in withdrawn:
        del recording.actions[one]
    recording.actions[withdrawn[0] if withdrawn else place] = Cancel(
        cause, bool(withdrawn), _given_up(recording, seq, step)
    )


def _felt(recording: Recording, seq: int, step: StepCalls | None, *, only_said: bool) -> int:
    """The first event of the turn that shows that it was cancelled; *seq* if none does.

    *only_said*: not where it can only be concluded from what is missing.
    """
    if step is None:
        return seq
    for place in range(step.first, seq):
        match recording.events[place].data:
            case AssistantMessage(message=message, interrupted=True) if not message.id.startswith(CLOSED):
                return place
            case ApprovalDecided(value=value) if isinstance(value, Mapping) and value.get("outcome") == "cancelled":
                return place
            case ToolResult(error=error, message=message) as result if (
                error is not None and error.code.startswith("ABORTED") and not message.id.startswith(CLOSED)
            ):
                return place - 1 if text_of(result).startswith(NOT_RUN) else place
            case ToolResult() as result if text_of(result).startswith(GIVEN_UP):
                return place
            case StepEnd() if (
                place == seq - 1 and not only_said and not _answered_in(recording.events[step.first : place])
            ):
                return place
            case _:
                pass
    return seq


def _given_up(recording: Recording, seq: int, step: StepCalls | None) -> bool:
    """Whether calls of the step say that the loop ended around them."""
    said = (GIVEN_UP, "Error: Not run: the harness failed")
    results = [] if step is None else recording.events[step.first : seq]
    return any(isinstance(one.data, ToolResult) and text_of(one.data).startswith(said) for one in results)


def _answered_in(events: list[AnyEvent]) -> bool:
    """Whether a whole answer was logged."""
    return any(isinstance(event.data, AssistantMessage) for event in events)
