"""`Recording`: what a log says about everything that the loop did not decide by itself.

A rerun that does not diverge puts every event at the seq that it has in the recording. So all that comes from outside
is kept by seq: input and its withdrawal, cancels, answers, results, approvals, the request header, the moment when
another agent went on. What the loop derives from these is not looked at here; that is what the rerun is for.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from turnlog.events import (
    ApprovalAsked,
    ApprovalDecided,
    ApprovalPolicy,
    AssistantChunk,
    AssistantMessage,
    CompactionPrune,
    EndSeed,
    Errored,
    Failure,
    Header,
    InboxSpliced,
    Interrupted,
    LlmRetry,
    MaxTokens,
    ModelInput,
    PluginSource,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from turnlog.log import AnyEvent, Replace, Session
from turnlog.log.header import FORMAT
from turnlog.tools import Result

from .cancels import read_cancel
from .errors import RerunError
from .results import give_contexts, set_gates
from .script import LOOP, TIME_LIMIT, Action, Asked, Boundary, Copy, Ran, StepCalls, splice_of, text_of


def _format_of(session: Session) -> str:
    return getattr(session, "format", f"format {session.header.version}")


class Recording:
    """A session as a script."""

    def __init__(self, session: Session) -> None:
        """Raises :class:`RerunError` for a log that the loop cannot follow."""
        self.session: Final = session
        if session.header.version != FORMAT:
            raise RerunError(
                f"session {session.id} is of {_format_of(session)}, and the loop writes format {FORMAT}; "
                "turnlog convert makes a session of it that can be run again"
            )
        self.events: Final = list(session.events)
        if any(event.seq != place for place, event in enumerate(self.events)):
            raise RerunError(f"session {session.id} has gaps in its events; turnlog repair makes a whole log of it")
        self.actions: Final[dict[int, Action]] = {}
        self.boundaries: Final[dict[int, Boundary]] = {}
        self.calls: Final[dict[int, Ran]] = {}
        self.policies: Final[dict[int, str]] = {}
        self._headers: list[int] = []
        self._contexts: list[int] = []
        self._snapshots: dict[int, PluginSource | None] = {}
        self._read()

    def __len__(self) -> int:
        return len(self.events)

    def at(self, seq: int) -> AnyEvent | None:
        """The event there; None past the end."""
        return self.events[seq] if seq < len(self.events) else None

    # -- requests -----------------------------------------------------------------------------------------------

    def header(self, seq: int) -> Header | None:
        """The header of a request that was made when the log held *seq* events."""
        place = bisect_right(self._headers, seq)
        if not self._headers:
            return None
        event = self.events[self._headers[max(place - 1, 0)]]
        return cast("RequestHeader", event.data).header

    def logs_header(self, seq: int) -> Header | None:
        """The header, if it is logged right there."""
        event = self.at(seq)
        return event.data.header if event is not None and isinstance(event.data, RequestHeader) else None

    def window(self, seq: int) -> int | None:
        """The context window of that request's route."""
        after = seq + 1 if self.logs_header(seq) is not None else seq
        place = bisect_right(self._contexts, after)
        if not place:
            return None
        return cast("RequestContext", self.events[self._contexts[place - 1]].data).context_window

    def streams(self, seq: int) -> bool:
        """Whether the answer to that request was logged chunk by chunk."""
        for event in self.events[seq : seq + 64]:
            match event.data:
                case AssistantChunk():
                    return True
                case AssistantMessage():
                    return False
                case StepEnd() | TurnEnd():
                    return True
                case _:
                    pass
        return True

    def hit_limit(self, seq: int) -> bool:
        """Whether the output limit cut the answer at *seq*, of which no chunks were logged."""
        event = self.events[seq]
        assert isinstance(event.data, AssistantMessage)
        asked = any(block.__class__.__name__ == "ToolCallBlock" for block in event.data.message.content)
        for later in self.events[seq + 1 :]:
            match later.data:
                case ToolCall():
                    return False
                case StepEnd() if asked:
                    return True
                case AssistantMessage():
                    return False
                case TurnEnd(reason=reason):
                    return isinstance(reason, MaxTokens)
                case _:
                    pass
        return False

    def failure(self, seq: int) -> Failure | None:
        """Why the turn failed, if all that the log says after *seq* is that it did."""
        event = self.at(seq)
        if event is not None and isinstance(event.data, StepEnd):
            event = self.at(seq + 1)
        match event.data if event is not None else None:
            case TurnEnd(reason=Errored(error=failure)) if failure.code != TIME_LIMIT:
                return failure
            case _:
                return None

    def retry_policies(self, first: int) -> Iterator[Mapping[str, Any]]:
        """The policies of retries from *first* on."""
        for event in self.events[first:]:
            if isinstance(event.data, LlmRetry) and isinstance(event.data.value, Mapping):
                try:
                    policy = json.loads(str(event.data.value.get("policyKey")))
                except ValueError:
                    continue
                if isinstance(policy, dict):
                    yield policy

    # -- contexts -----------------------------------------------------------------------------------------------

    @property
    def sections(self) -> tuple[str, ...]:
        """The names of all context sections, in the order of their first snapshot."""
        found: dict[str, None] = {}
        for source in self._snapshots.values():
            for section in () if source is None else source.sections or ():
                found.setdefault(section.name)
        return tuple(found)

    def snapshot(self, seq: int, name: str) -> str:
        """The text of a section when the step was decided upon that began when the log held *seq* events."""
        event = self.at(seq)
        reach = seq
        if event is not None and isinstance(event.data, StepStart):
            reach = seq + 1
            while (event := self.at(reach)) is not None and isinstance(event.data, UserMessage):
                reach += 1
        shown = [source for place, source in self._snapshots.items() if place < reach]
        if not shown or shown[-1] is None:
            return ""
        return next((one.text for one in shown[-1].sections or () if one.name == name), "")

    # -- reading ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        first = self._inherited()
        step: StepCalls | None = None
        open_turn = 0
        entering = False
        header_since_turn: int | None = None
        for seq, event in enumerate(self.events):
            data = event.data
            self._index(seq, event)
            if seq < first:
                continue
            was_entering, entering = entering, False
            match data:
                case TurnStart(turn=turn):
                    open_turn, header_since_turn = turn, seq
                case TurnEnd(reason=reason):
                    read_cancel(self, seq, reason, step, header_since_turn or 0)
                    open_turn, step = 0, None
                case StepStart(turn=turn, step=number):
                    step, entering = StepCalls(seq, turn, number), True
                case RequestHeader(reason="resume"):
                    self._another_agent(header_since_turn or seq, first)
                case EndSeed():
                    self._resumed(seq)
                case ToolCall():
                    ran = Ran(seq, data)
                    if step is not None:
                        if step.calls:
                            step.calls[-1].next = seq
                        step.calls.append(ran)
                    self.calls[seq] = ran
                case ToolResult() if not isinstance(event.surface_op, Replace):
                    self._answered(seq, event, data, step)
                case ApprovalAsked():
                    self._asked(seq, data, step)
                case InboxSpliced(value=value):
                    if action := splice_of(value):
                        self.actions.setdefault(seq, action)
                case CompactionPrune() | ToolResult() if not open_turn or _running(step):
                    self.actions[seq] = Copy(event)  # somebody else pruned; the loop does between steps
                case UserMessage():
                    entering = was_entering
                    shown = seq and isinstance(self.events[seq - 1].data, ModelInput)  # logged together with it
                    if not was_entering and not shown:
                        self.actions[seq] = Copy(event)
                case _ if event.type not in LOOP:
                    entering = was_entering
                    self.actions[seq] = Copy(event)
                case _:
                    pass
        give_contexts(self)
        set_gates(self)
        if open_turn:
            read_cancel(self, len(self.events), Interrupted(), step, header_since_turn or 0)
        if open_turn or self._open_at_end():
            self.boundaries.setdefault(len(self.events), Boundary(resumed=False))

    def _open_at_end(self) -> bool:
        for event in reversed(self.events):
            if isinstance(event.data, TurnEnd | TurnStart):
                return isinstance(event.data, TurnStart)
        return False

    def _inherited(self) -> int:
        """How many events were not made here: what a fork took over, its end-seed, the closers of the cut."""
        if self.session.header.seed_length is None:
            return 0
        first = min(self.session.header.seed_length, len(self.events))
        return min(len(self.session.fork(first)), len(self.events))

    @property
    def inherited(self) -> int:
        """How many events a fork began with."""
        return self._inherited()

    def _index(self, seq: int, event: AnyEvent) -> None:
        match event.data:
            case RequestHeader():
                self._headers.append(seq)
            case RequestContext():
                self._contexts.append(seq)
            case UserMessage(source=PluginSource(plugin="turnlog", form="snapshot") as source):
                self._snapshots[seq] = source
            case UserMessage(source=PluginSource(plugin="turnlog", form=None)):
                self._snapshots[seq] = None
            case ApprovalPolicy(value=value) if isinstance(value, Mapping):
                self.policies[seq] = "deny" if value.get("policy") == "never" else "ask"
            case _:
                pass

    def _another_agent(self, turn: int, first: int) -> None:
        """An agent's first request: it was made after the turn before."""
        place = turn
        while place > first and isinstance(self.events[place - 1].data, InboxSpliced):
            place -= 1
        if not any(place <= one <= turn and b.resumed for one, b in self.boundaries.items()):
            self.boundaries.setdefault(place, Boundary(resumed=False))

    def _resumed(self, seq: int) -> None:
        """Where the writer was gone before ``session/end-seed``: before what was closed for it."""
        place = seq
        if place and isinstance(self.events[place - 1].data, TurnEnd):
            ended = self.events[place - 1].data
            assert isinstance(ended, TurnEnd)
            if isinstance(ended.reason, Interrupted):
                place -= 1
                while place and self._closes(place - 1):
                    place -= 1
        for one in range(place, seq + 1):
            self.actions.pop(one, None)
        self.boundaries[place] = Boundary(resumed=True)

    def _closes(self, seq: int) -> bool:
        match self.events[seq].data:
            case StepEnd():
                return seq + 1 < len(self.events) and isinstance(self.events[seq + 1].data, TurnEnd)
            case AssistantMessage(message=message):
                return message.id.startswith("interrupted-assistant-")
            case ToolResult(message=message):
                return message.id.startswith("interrupted-tool-result-")
            case ToolCall():
                after = self.events[seq + 1].data
                return (
                    isinstance(after, ToolResult)
                    and after.message.id == f"interrupted-tool-result-{after.call_id}-{seq + 1}"
                    and text_of(after).startswith("This call was not started")
                )
            case _:
                return False

    def _answered(self, seq: int, event: AnyEvent, data: ToolResult, step: StepCalls | None) -> None:
        waiting = [one for one in (step.calls if step else ()) if one.answered is None]
        ran = self.calls.get(event.sources[0]) if event.sources else None
        if ran is None or ran.answered is not None:
            ran = next((one for one in waiting if one.call.call_id == data.call_id), None)
        if ran is None:
            return
        ran.answered = seq
        (block,) = data.message.content if len(data.message.content) == 1 else (None,)
        if isinstance(block, ToolResultBlock):
            ran.result = Result(block.content, block.is_error is True, data.error, data.meta)

    def _asked(self, seq: int, data: ApprovalAsked, step: StepCalls | None) -> None:
        value = data.value if isinstance(data.value, Mapping) else {}
        decided, outcome = len(self.events) + 1, "cancelled"
        for later in range(seq + 1, len(self.events)):
            said = self.events[later].data
            answer = said.value if isinstance(said, ApprovalDecided) and isinstance(said.value, Mapping) else {}
            if answer and answer.get("id") == value.get("id"):
                decided, outcome = later, str(answer.get("outcome"))
                break
        reason = value.get("reason")
        mine = [one for one in (step.calls if step else ()) if one.call.call_id == value.get("callId")]
        if mine and mine[-1].asked is None:
            mine[-1].asked = Asked(seq, reason if isinstance(reason, str) else None, decided, outcome)


def _running(step: StepCalls | None) -> bool:
    """Whether calls of the step wait for their results."""
    return step is not None and any(one.answered is None for one in step.calls)
