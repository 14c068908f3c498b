"""Random logs: any order of things a program may append, built through ``Session.append``.

A log is drawn as a *tape* of bytes. The :class:`Writer` reads it one choice at a time and does what is possible at
that point, so every tape is a valid log, a shorter tape is a shorter log, and hypothesis shrinks well. What is
possible is decided by the naive reference, never by the session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from hypothesis import strategies as st

from tests.log import reference
from tests.log.sessions import HEADER, SOURCE, Reminder, Weather, empty
from turnlog.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Block,
    BlockEnd,
    BlockStart,
    CancelledByUser,
    Completed,
    Errored,
    Failure,
    Finish,
    FinishAborted,
    FinishError,
    FinishMaxTokens,
    FinishStop,
    FinishToolCalls,
    InboxSpliced,
    LlmRetry,
    Message,
    Opaque,
    Payload,
    PlanMode,
    ReasoningBlock,
    ReasoningDelta,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    StreamChunk,
    TextBlock,
    TextDelta,
    Todo,
    TodoWrite,
    TokenUsage,
    ToolCall,
    ToolCallBlock,
    ToolCallDelta,
    ToolError,
    ToolResult,
    ToolResultBlock,
    ToolSource,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UsageChunk,
    UserMessage,
    UserSource,
)
from turnlog.log import Session

tapes: Final = st.one_of(
    st.binary(max_size=60), st.binary(min_size=150, max_size=500), st.binary(min_size=300, max_size=800)
)
"""Short logs for shrinking, long ones for depth."""

TEXTS: Final = ("", "a", "hello", "\n", "  ", "é😀", "\u2028", '{"x":1}', "end\0")
IDS: Final = ("c1", "c2", "c3")
FAILURE: Final = Failure("it broke", "TRANSPORT", status=503)
REASONS: Final[tuple[TurnEndReason, ...]] = (Completed(), Aborted(CancelledByUser()), Errored(FAILURE))
META: Final = (None, 0, 1.5, "x", [1, [2, None]], {"a": {"b": [True, 1]}}, {"": ""})

AfterEach = Callable[[Session], object]


class Writer:
    """Writes the log that a tape says; *after_each* sees the session after every append."""

    def __init__(self, tape: bytes, *, after_each: AfterEach = lambda _: None, forks: bool = False) -> None:
        self._tape = iter(tape)
        self._after_each = after_each
        self._forks = forks
        self._number = 0
        self.session = empty()
        self.log: list[reference.Line] = []
        """The same log as the naive reference reads it."""
        self.nesting = reference.Nesting()

    def write(self) -> Session:
        for choice in self._tape:
            self._act(choice)
        return self.session

    # -- choices ------------------------------------------------------------------------------------------------

    def _next(self, below: int) -> int:
        return next(self._tape, 0) % below

    def _pick(self, options: Any) -> Any:
        return options[self._next(len(options))]

    def _id(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _act(self, choice: int) -> None:
        kind, inside = choice % 16, self.nesting.step is not None
        if kind < 3 and inside:
            self._chunk()
        elif kind < 6 and inside:
            self._surface(self._answer())
        elif kind == 6:
            self._surface(self._user())
        elif kind < 9 and inside:
            self._call()
        elif kind < 11 and self.nesting.pending:
            self._result()
        elif kind == 11:
            self._replace()
        elif kind == 12:
            self._rewrite()
        elif kind == 13 and self.nesting.turn:
            self._bookkeeping()
        elif kind == 14 and self._forks and choice > 192:
            self._fork()
        elif kind == 15:
            self._plugin()
        else:
            self._boundary()

    # -- what is appended ---------------------------------------------------------------------------------------

    def _append(self, payload: Payload, **place: Any) -> None:
        self.session.append(payload, **place)  # type: ignore[call-overload]
        self._committed()

    def _committed(self) -> None:
        for event in self.session.events[len(self.log) :]:
            line = json.loads(event.line())
            self.nesting.take(line["type"], line["data"], isinstance(line.get("surfaceOp"), dict))
            self.log.append(line)
        self._after_each(self.session)

    def _boundary(self) -> None:
        at = self.nesting
        if at.turn is None:
            self._append(TurnStart(turn=at.last_turn + 1))
        elif at.step is None and self._next(3):
            self._append(StepStart(turn=at.turn, step=at.last_step + 1))
        elif at.step is None:
            self._append(TurnEnd(turn=at.turn, reason=self._pick(REASONS)))
        else:
            self._append(StepEnd(turn=at.turn, step=at.step))

    def _chunk(self) -> None:
        self._append(AssistantChunk(**self._here(), chunk=self._some_chunk()))

    def _some_chunk(self) -> StreamChunk:
        index, text = self._next(3), self._pick(TEXTS)
        finishes = (FinishStop(), FinishToolCalls(), FinishMaxTokens(), FinishError(FAILURE), FinishAborted(FAILURE))
        makers: tuple[Callable[[], StreamChunk], ...] = (
            lambda: TextDelta(index, text),
            lambda: TextDelta(index, text),
            lambda: ReasoningDelta(index, text),
            lambda: ToolCallDelta(index, self._pick(IDS), text, self._pick((None, "read"))),
            lambda: BlockStart(index, self._pick(("text", "reasoning", "tool-call"))),
            lambda: BlockEnd(index, self._block()),
            lambda: UsageChunk(TokenUsage(self._next(9), self._next(9))),
            lambda: Finish(self._pick(finishes), self._pick(META)),
            lambda: Opaque("cite", {"type": "cite", "at": index}),
        )
        return self._pick(makers)()  # type: ignore[no-any-return]

    def _block(self) -> Block:
        text = self._pick(TEXTS)
        kinds: tuple[Block, ...] = (
            TextBlock(text),
            ReasoningBlock(text),
            Opaque("chart", {"type": "chart", "v": text}),
        )
        return self._pick(kinds)  # type: ignore[no-any-return]

    def _blocks(self) -> tuple[Block, ...]:
        return tuple(self._block() for _ in range(self._next(3)))

    def _user(self) -> UserMessage:
        return UserMessage(content=self._blocks(), source=UserSource(), id=self._id("u"))

    def _answer(self) -> AssistantMessage:
        asked = IDS[: self._next(4)]
        calls = tuple(ToolCallBlock(one, "read", "{}") for one in asked)
        message = Message("assistant", (*self._blocks(), *calls), SOURCE, self._id("a"))
        return AssistantMessage(**self._here(), message=message, usage=self._pick((None, TokenUsage(1, 2))))

    def _surface(self, payload: Payload) -> None:
        """Append to the surface with sources absent, empty where that is legal, or some earlier events."""
        some = sorted({self._next(len(self.log)) for _ in range(3)}) if self.log else []
        choices: list[list[int] | None] = [None, some or None]
        if isinstance(payload, AssistantMessage):
            choices.append([])
        self._append(payload, sources=self._pick(choices))

    def _call(self) -> None:
        call_id = self._pick(IDS)
        if call_id not in self.nesting.pending:
            self._append(ToolCall(**self._here(), call_id=call_id, name="read", arguments=self._pick(TEXTS)))

    def _result(self) -> None:
        call_id = self._pick(self.nesting.pending)
        block = ToolResultBlock(call_id, self._blocks(), self._pick((None, True, False)))
        message = Message("user", (block,), ToolSource(call_id), self._id("r"))
        error = ToolError("Error", "E") if block.is_error else None
        self._append(ToolResult(**self._here(), message=message, error=error, meta=self._pick(META)))

    def _replace(self) -> None:
        """A user or assistant message in the place of a random range of the surface."""
        nodes = reference.nodes(self.log)
        if not nodes:
            return
        first = self._next(len(nodes))
        last = min(first + self._next(4), len(nodes) - 1)
        extra = [one for one in (self._next(len(self.log)),) if one not in nodes[first : last + 1]]
        payload = self._answer() if self.nesting.step and self._next(2) else self._user()
        self._append(payload, replaces=(nodes[first], nodes[last]), sources=[*nodes[first : last + 1], *extra])

    def _rewrite(self) -> None:
        """A tool result with other content in the place of a tool result."""
        results = [seq for seq in reference.nodes(self.log) if self.log[seq]["type"] == "tool/result"]
        if not results or self.nesting.turn is None:
            return
        seq = self._pick(results)
        old = self.session.event(seq).data
        assert isinstance(old, ToolResult)
        block = old.message.content[0]
        assert isinstance(block, ToolResultBlock)
        new = ToolResultBlock(block.tool_call_id, self._blocks(), block.is_error)
        message = Message(old.message.role, (new,), old.message.source, old.message.id)
        payload = ToolResult(turn=old.turn, step=old.step, message=message, error=old.error, meta=old.meta)
        self._append(payload, replaces=(seq, seq), sources=[seq])

    def _bookkeeping(self) -> None:
        makers: tuple[Callable[[], Payload], ...] = (
            lambda: RequestHeader(header=HEADER, reason=self._pick(("initial", "resume", "change"))),
            lambda: RequestContext(provider="acme", model="acme-1", context_window=self._pick((None, 1000))),
            lambda: TodoWrite(todos=(Todo("x", "pending"),) * self._next(3)),
            lambda: LlmRetry(value={"retry": self._next(5)}),
        )
        self._append(self._pick(makers)())

    def _plugin(self) -> None:
        if self._next(4) == 0:
            self.session.append_input(Reminder(text=self._pick(TEXTS), note=self._pick(META)))
            self._committed()
            return
        makers: tuple[Callable[[], Payload], ...] = (
            lambda: Weather(city=self._pick(TEXTS), degrees=1.5, raw=self._pick(META)),
            lambda: PlanMode(value=self._pick(META)),
            lambda: InboxSpliced(value={"target": "next-turn", "start": 0, "inserted": []}),
        )
        self._append(self._pick(makers)())

    def _fork(self) -> None:
        self.session = self.session.fork(self._next(len(self.log) + 1))
        self.log = reference.read(event.line() for event in self.session.events)
        self.nesting = reference.nesting(self.log)
        self._after_each(self.session)

    def _here(self) -> dict[str, int]:
        assert self.nesting.turn is not None
        assert self.nesting.step is not None
        return {"turn": self.nesting.turn, "step": self.nesting.step}


def written(tape: bytes, *, forks: bool = False) -> Session:
    """The session that a tape says."""
    return Writer(tape, forks=forks).write()


def prefixes(session: Session) -> Iterator[list[reference.Line]]:
    """The log of *session* as plain JSON, at every length from 0 on."""
    log = reference.read(event.line() for event in session.events)
    for length in range(len(log) + 1):
        yield log[:length]
