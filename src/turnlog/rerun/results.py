"""When the results of calls came, and what came with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlog.events import Completed, InboxSpliced, MaxTokens, StepStart, ToolResult, TurnEnd, UserMessage
from turnlog.tools import Result, ToolArgsError
from turnlog.tools.arguments import parse

from .script import GIVEN_UP, NOT_RUN, Cancel, Insert, Ran

if TYPE_CHECKING:
    from .recording import Recording


def give_contexts(recording: Recording) -> None:
    """What tools left for the next step is given with their results; the last of a turn may have ended it."""
    for ran in recording.calls.values():
        after = None if ran.next is None else recording.calls[ran.next].result
        if after is not None and after.text.startswith(NOT_RUN):
            ran.next = None  # never started: its call was only logged to be answered
        if ran.answered is None or ran.result is None:
            continue
        contexts: list[UserMessage] = []
        place = ran.answered + 1
        while (
            _ran(recording, ran)
            and isinstance(action := recording.actions.get(place), Insert)
            and action.target == "next-step"
        ):
            contexts += action.messages
            del recording.actions[place]
            place += 1
        concludes = ran.next is None and _concluded(recording, ran.answered)
        ran.result = Result(
            ran.result.content, ran.result.is_error, ran.result.error, ran.result.meta, tuple(contexts), concludes
        )


def _ran(recording: Recording, ran: Ran) -> bool:
    """Whether its tool was asked for the result; else the loop makes it by itself, also when it runs again."""
    header = recording.header(ran.seq)
    known = any(one.name == ran.call.name for one in (header.tools or () if header else ()))
    if not known or (ran.asked is not None and ran.asked.outcome != "allowed-once"):
        return False
    try:
        parse(ran.call.arguments)
    except ToolArgsError:
        return False
    return True


def _concluded(recording: Recording, seq: int) -> bool:
    """Whether the turn ended with the step of this result, without another request."""
    for event in recording.events[seq + 1 :]:
        match event.data:
            case StepStart() | ToolResult():
                return False
            case TurnEnd(reason=reason):
                return isinstance(reason, Completed | MaxTokens)
            case _:
                pass
    return False


def set_gates(recording: Recording) -> None:
    """When results may come: those that follow each other in the log together, the last of them first.

    A loop that keeps its promise logs them in the model's order all the same.
    """
    group: list[Ran] = []
    before_cancel: list[Ran] = []
    by_answer = sorted((one for one in recording.calls.values() if one.answered is not None), key=_answer_of)
    for ran in by_answer:
        assert ran.answered is not None
        if group:
            before = group[-1].answered
            assert before is not None
            follows = ran.seq < (group[0].answered or 0) and all(
                isinstance(recording.events[place].data, InboxSpliced) and place not in recording.actions
                for place in range(before + 1, ran.answered)
            )
            if not follows or ran.answered in recording.actions:
                group = []
        if _before_cancel(recording, ran):
            before_cancel.append(ran)
            continue
        group.append(ran)
        ran.gate = group[0].answered
        given = [one for one in reversed(group) if one.result is not None and not _is_given_up(one.result)]
        for late, one in enumerate(given):  # what the loop says of calls that it gave up waits for nothing
            one.late = late
    for early in before_cancel:
        for one in by_answer:
            if one.gate is not None and _step(one) == _step(early):
                one.after += (early.seq,)


def _before_cancel(recording: Recording, ran: Ran) -> bool:
    """Whether it had succeeded when the turn was cancelled, though its result is logged after that."""
    if ran.result is None or ran.result.is_error or ran.answered is None:
        return False
    return any(isinstance(recording.actions.get(place), Cancel) for place in range(ran.seq + 1, ran.answered))


def _step(ran: Ran) -> tuple[int, int]:
    return ran.call.turn, ran.call.step


def _is_given_up(result: Result) -> bool:
    return result.text.startswith(GIVEN_UP)


def _answer_of(ran: Ran) -> int:
    return ran.answered or 0
