"""A session as a run: what was said, asked, called and answered, step by step, without where and when it was logged.

One pass over the log, packed chunks left packed. Formats, seqs and ids do not show in it: calls are told by their tool
and their arguments as JSON with sorted members, and the workspace is called the same wherever it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnlog.events import (
    AssistantMessage,
    Message,
    ReasoningBlock,
    StepEnd,
    StepStart,
    TokenUsage,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from turnlog.log import AnyEvent, Replace, Session
from turnlog.log.rows import PackedRun

from .attempts import attempts
from .call import is_error
from .projectors import reason_text
from .rows import slots
from .spans import Span

WORKSPACE: Final = "⟨workspace⟩"


@dataclass
class Tokens:
    """Tokens by bucket; input, cache read and cache write are disjoint, reasoning is inside output."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    def add(self, usage: TokenUsage | None) -> None:
        """Add what one attempt used."""
        if usage is not None:
            self.input += usage.input_tokens
            self.cache_read += usage.cache_read_tokens or 0
            self.cache_write += usage.cache_write_tokens or 0
            self.output += usage.output_tokens
            self.reasoning += usage.reasoning_tokens or 0


@dataclass
class RunCall:
    """One call."""

    address: str
    name: str
    arguments: str
    """Normalised."""
    result: str | None = None
    """None while there is none."""
    failed: bool = False
    synthetic: bool = False
    """Whether the result is a closer: the writer died before there was one."""
    id: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same call in another run."""
        return self.name, self.arguments


@dataclass
class RunStep:
    """One step."""

    turn: int
    step: int
    heard: list[str] = field(default_factory=list)
    """What the model was told in it besides results."""
    text: str = ""
    reasoning: str = ""
    calls: list[RunCall] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    """How its attempts went: ``completed``, ``failed RATE_LIMIT``, …"""
    tokens: Tokens = field(default_factory=Tokens)
    duration_ms: int = 0

    @property
    def address(self) -> str:
        """``t3.s2``"""
        return f"t{self.turn}.s{self.step}"

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it the same step in another run: its calls, or what it says where it calls nothing."""
        return tuple(call.key for call in self.calls) or (self.text,)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of its tools: what makes it a step of the same kind."""
        return tuple(call.name for call in self.calls)


@dataclass
class RunTurn:
    """One turn."""

    turn: int
    prompt: list[str] = field(default_factory=list)
    """What was said before its first step."""
    steps: list[RunStep] = field(default_factory=list)
    end: str = "not ended"
    duration_ms: int = 0

    @property
    def address(self) -> str:
        """``t3``"""
        return f"t{self.turn}"

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it the same turn in another run."""
        return tuple(self.prompt)


def turns_of(session: Session, workspace: str | None = None) -> list[RunTurn]:
    """The turns of a session. *workspace*: the path that stands for the workspace, to be called :data:`WORKSPACE`."""
    reader = _Reader(session, workspace)
    for slot in slots(session):
        row = slot.row
        if isinstance(row, PackedRun) or row.type == "assistant/chunk":
            reader.chunks += slot.size
        elif row.type in _TAKEN:
            reader.read(row)
        elif row.type in _RETRIES:
            reader.odd()
    for event in session.closers:
        reader.read(event)
    reader.add_attempts()
    return reader.turns


class _Reader:
    def __init__(self, session: Session, workspace: str | None) -> None:
        self.turns: list[RunTurn] = []
        self._session = session
        self._length = len(session)
        self._workspace = workspace
        self._steps: dict[tuple[int, int], RunStep] = {}
        self._turn: RunTurn | None = None
        self._step: RunStep | None = None
        self._waiting: list[str] = []
        self._began = {"turn": 0, "step": 0}
        self.chunks = 0
        """Chunks of the open step so far."""
        self._first: dict[tuple[int, int], int] = {}
        self._stop: dict[tuple[int, int], int] = {}
        self._answers: dict[tuple[int, int], TokenUsage | None] = {}
        self._odd: set[tuple[int, int]] = set()

    def read(self, event: AnyEvent) -> None:
        """Take in one event."""
        match event.data:
            case TurnStart(turn=turn):
                self._turn, self._step = RunTurn(turn, prompt=self._waiting), None
                self._waiting = []
                self.turns.append(self._turn)
                self._began["turn"] = event.time
            case StepStart(turn=turn, step=step):
                self._step = RunStep(turn, step)
                self._owner(turn).steps.append(self._step)
                self._steps[turn, step] = self._step
                self._began["step"] = event.time
                self._first[turn, step] = event.seq
                self.chunks = 0
            case StepEnd(turn=turn, step=step) if self._step is not None:
                self._step.duration_ms = max(event.time - self._began["step"], 0)
                if event.seq < self._length:
                    self._stop[turn, step] = event.seq + 1
                self._step = None
            case TurnEnd(turn=turn, reason=reason):
                owner = self._owner(turn)
                owner.end = self._plain(reason_text(reason))
                owner.duration_ms = max(event.time - self._began["turn"], 0)
                self._turn = self._step = None
            case AssistantMessage(turn=turn, step=step, message=message) as data:
                self._answer(event, self._at(turn, step), message)
                cited = event.sources
                whole = (cited is None or len(cited) == self.chunks) and not data.interrupted
                if not whole or (turn, step) in self._answers:
                    self._odd.add((turn, step))
                self._answers[turn, step] = data.usage
            case ToolCall(turn=turn, step=step, call_id=id, name=name, arguments=arguments):
                self._started(self._at(turn, step), id, name, arguments)
            case ToolResult(turn=turn, step=step, message=message) as data:
                if not isinstance(event.surface_op, Replace):
                    self._result(event, self._at(turn, step), data.call_id, message)
            case _:
                if (said := event.message) is not None and not isinstance(event.surface_op, Replace):
                    self._heard(self._plain(said.text))

    def odd(self) -> None:
        """The step that is open came to more than one answer, or to none."""
        if self._step is not None:
            self._odd.add((self._step.turn, self._step.step))

    def add_attempts(self) -> None:
        """What the attempts came to and used: at once where a step is one whole answer, else from all its chunks."""
        for place, step in self._steps.items():
            if place not in self._odd and self._answers.get(place) is not None:
                step.outcomes.append("completed")
                step.tokens.add(self._answers[place])
            elif place in self._first:
                first = self._first[place]
                for attempt in attempts(self._session, Span(*place, first, self._stop.get(place, self._length))):
                    code = f" {attempt.failure.code}" if attempt.failure is not None else ""
                    step.outcomes.append(f"{attempt.outcome}{code}")
                    step.tokens.add(attempt.usage)

    def _owner(self, turn: int) -> RunTurn:
        if self._turn is None or self._turn.turn != turn:
            self._turn = RunTurn(turn, prompt=self._waiting)
            self._waiting = []
            self.turns.append(self._turn)
        return self._turn

    def _at(self, turn: int, step: int) -> RunStep:
        known = self._steps.get((turn, step))
        if known is None:
            known = self._steps[turn, step] = RunStep(turn, step)
            self._owner(turn).steps.append(known)
        return known

    def _heard(self, text: str) -> None:
        if self._step is not None:
            self._step.heard.append(text)
        elif self._turn is not None:
            self._turn.prompt.append(text)
        else:
            self._waiting.append(text)

    def _answer(self, event: AnyEvent, step: RunStep, message: Message) -> None:
        step.text += self._plain(message.text)
        step.reasoning += "\n".join(block.text for block in message.content if isinstance(block, ReasoningBlock))
        for block in message.content:
            if isinstance(block, ToolCallBlock):
                self._call(step, block.id, block.name, block.arguments)

    def _call(self, step: RunStep, id: str, name: str, arguments: str) -> None:
        address = f"{step.address}.call:{id}"
        step.calls.append(RunCall(address, name, self._arguments(arguments), id=id))

    def _started(self, step: RunStep, id: str, name: str, arguments: str) -> None:
        """A call that no block asked for (the message is lost, or was never logged)."""
        if not any(one.id == id for one in step.calls):
            self._call(step, id, name, arguments)

    def _result(self, event: AnyEvent, step: RunStep, id: str, message: Message) -> None:
        open = [one for one in step.calls if one.result is None]
        call = next((one for one in open if one.id == id), None)
        if call is None:
            call = RunCall(f"{step.address}.call:{id}", "", "", id=id)
            step.calls.append(call)
        call.result = self._plain(message.text)
        call.failed = is_error(event)
        call.synthetic = event.seq >= self._length

    def _plain(self, text: str) -> str:
        return text if self._workspace is None else text.replace(self._workspace, WORKSPACE)

    def _arguments(self, text: str) -> str:
        return self._plain(normal_arguments(text))


def normal_arguments(text: str) -> str:
    """Arguments as compact JSON with sorted members; the text itself where it is none."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def totals(turns: list[RunTurn]) -> Mapping[str, int]:
    """Counts, tokens and time of a run."""
    steps = [step for turn in turns for step in turn.steps]
    calls = [call for step in steps for call in step.calls]
    return {
        "turns": len(turns),
        "steps": len(steps),
        "attempts": sum(len(step.outcomes) for step in steps),
        "calls": len(calls),
        "failedCalls": sum(call.failed for call in calls),
        "inputTokens": sum(step.tokens.input for step in steps),
        "cacheReadTokens": sum(step.tokens.cache_read for step in steps),
        "cacheWriteTokens": sum(step.tokens.cache_write for step in steps),
        "outputTokens": sum(step.tokens.output for step in steps),
        "reasoningTokens": sum(step.tokens.reasoning for step in steps),
        "durationMs": sum(turn.duration_ms for turn in turns),
    }


_RETRIES: Final = frozenset({"llm/retry", "assistant/attempt"})
_TAKEN: Final = frozenset({
    "turn/start", "turn/end", "step/start", "step/end", "user/message", "assistant/message", "tool/call", "tool/result",
    "developer/message", "steering/message",
})  # fmt: skip
