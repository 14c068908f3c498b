"""Random sessions as an agent's driver writes them: what dsh's own driver could have written, in its own shapes.

dsh's migrations refuse much that its loader lets pass: an answer has to cite the whole attempt it came from, every call
has to be asked for and answered within its step, nothing joins the surface before the first step, and payloads have no
members of their own. The :class:`Writer` keeps none of that; the :class:`Driver` keeps all of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from tests.log import reference
from tests.log.sessions import HEADER, SOURCE
from tests.log.strategies import FAILURE, TEXTS, Writer
from turnlog.events import (
    Aborted,
    ApprovalAsked,
    ApprovalDecided,
    ApprovalPolicy,
    AssistantChunk,
    AssistantMessage,
    Block,
    Blocked,
    BlockEnd,
    BlockStart,
    CancelledByUser,
    Completed,
    Errored,
    FeedbackRecord,
    Finish,
    FinishError,
    FinishStop,
    FinishToolCalls,
    Header,
    HookInvoked,
    HookResult,
    InboxSpliced,
    Json,
    LlmRetry,
    LlmRetryStarted,
    MaxTokens,
    Message,
    Payload,
    PlanMode,
    ReasoningBlock,
    ReasoningDelta,
    RequestContext,
    RequestHeader,
    SessionTitle,
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
)
from turnlog.log import Session

CWD: Final = "/work/a project"
PROMPTS: Final = (None, "You help.", "You help in this folder.")
REASONS: Final[tuple[TurnEndReason, ...]] = (
    Completed(),
    MaxTokens(),
    Errored(FAILURE),
    Aborted(CancelledByUser()),
)
OUTCOMES: Final = ("allowed-once", "rejected", "cancelled", "unavailable")
RETRIES: Final = 3


def live(id: str) -> Session:
    """An empty session of the core vocabulary whose clock counts 1000, 1001, …"""
    return Session(id, cwd=CWD, clock=itertools.count(1000).__next__)


def settled(log: Sequence[reference.Line], at: int) -> int:
    """*at*, or the beginning of the attempt that a cut there would split."""
    for line in reversed(log[:at]):
        if line["type"] in ("step/start", "step/end", "assistant/message", "llm/retry"):
            break
        if line["type"] == "assistant/chunk":
            at = line["seq"]
    return at


class Driver(Writer):
    """Writes one session from a tape of choices; a tape that ends within a turn leaves it open."""

    def __init__(self, tape: bytes, id: str, *, forks: bool = False) -> None:
        super().__init__(tape, forks=forks)
        self.session = live(id)
        self._settle()

    def _settle(self) -> None:
        """What holds when no step is open."""
        self._attempt: list[int] = []
        self._over = False  # the attempt has its finish chunk
        self._asked: dict[str, str] = {}  # the step's unanswered calls: id → arguments
        self._retry: tuple[str, int] | None = None

    def close(self) -> Session:
        """Answer what is asked for and end the turn, as a driver does that stops in good order."""
        while self.nesting.turn is not None:
            if self.nesting.step is not None:
                self._end_step()
            else:
                self._end_turn(Completed())
        return self.session

    # -- choices ------------------------------------------------------------------------------------------------

    def _act(self, choice: int) -> None:
        if self._forks and choice > 250:
            self._fork_at(self._next(len(self.log) + 1))
        elif self.nesting.turn is None:
            if choice % 4:
                self._start_turn()
            else:
                self._aside()
        elif self.nesting.step is None:
            self._between_steps(choice)
        else:
            self._in_step(choice)

    def _between_steps(self, choice: int) -> None:
        if self.nesting.last_step == 0 and choice % 6 == 0:
            self._hooks("pre-step", "block")
            self._end_turn(Blocked())
        elif self.nesting.last_step == 0 or choice % 3:
            self._start_step()
        else:
            self._end_turn(self._pick(REASONS))

    def _in_step(self, choice: int) -> None:
        makers: tuple[Callable[[], object], ...] = (
            self._stream,
            self._stream,
            self._stream,
            self._answer_attempt,
            self._answer_attempt,
            self._call,
            self._call,
            self._result,
            self._result,
            self._fail_attempt,
            lambda: self._append(self._user()),
            self._replace,
            self._rewrite,
            self._bookkeeping,
            lambda: self._hooks("post-tool", "allow"),
            self._end_step,
        )
        makers[choice % 16]()

    def _fork_at(self, at: int) -> None:
        self.take(self.session.fork(settled(self.log, at)))

    def take(self, session: Session) -> None:
        """Go on with a session that has no open turn."""
        self.session = session
        self.log = reference.read(event.line() for event in session.events)
        self.nesting = reference.nesting(self.log)
        self._number = max(self._number, 4 * len(self.log))  # ids stay unique: no event takes more than three
        self._settle()

    # -- turns and steps ----------------------------------------------------------------------------------------

    def _start_turn(self) -> None:
        self._append(TurnStart(turn=self.nesting.last_turn + 1))

    def _end_turn(self, reason: TurnEndReason) -> None:
        assert self.nesting.turn is not None
        self._append(TurnEnd(turn=self.nesting.turn, reason=reason))

    def _start_step(self) -> None:
        assert self.nesting.turn is not None
        self._append(StepStart(turn=self.nesting.turn, step=self.nesting.last_step + 1))
        self._append(self._user())
        prompt = self._pick(PROMPTS)
        reason: Literal["initial", "change"] = "initial" if self.session.request_header() is None else "change"
        self._append(RequestHeader(header=Header(config=HEADER.config, system=prompt), reason=reason))

    def _end_step(self) -> None:
        while self._asked:
            if not self.nesting.pending:
                self._call()
            self._result()
        self._append(StepEnd(**self._here()))
        self._settle()

    # -- the model ----------------------------------------------------------------------------------------------

    def _stream(self) -> None:
        """A run of deltas, long enough to be packed or too short for it."""
        if self._over:
            self._attempt, self._over = [], False
        index, text = self._next(2), self._pick(TEXTS)
        makers: tuple[Callable[[], StreamChunk], ...] = (
            lambda: TextDelta(index, text),
            lambda: ReasoningDelta(index, text),
            lambda: ToolCallDelta(index, "c", text, self._pick((None, "read"))),
        )
        make = self._pick(makers)
        if self._next(2):
            self._add(BlockStart(index, "text"))
        for _ in range(self._next(6)):
            self._add(make())
        if self._next(2):
            self._add(BlockEnd(index, TextBlock(text)))

    def _add(self, chunk: StreamChunk) -> None:
        self._append(AssistantChunk(**self._here(), chunk=chunk))
        self._attempt.append(len(self.session) - 1)

    def _answer_attempt(self) -> None:
        """The attempt's message, which cites all of it; or a message that came without a stream."""
        if self._over:
            self._attempt, self._over = [], False
        asked = {self._id("call"): self._pick(TEXTS) for _ in range(self._next(3))}
        if self._attempt and self._next(2):
            self._add(UsageChunk(TokenUsage(self._next(9), self._next(9))))
            self._add(Finish(FinishToolCalls() if asked else FinishStop()))
        calls = (ToolCallBlock(id, "read", arguments) for id, arguments in asked.items())
        message = Message("assistant", (*self._blocks(), *calls), SOURCE, self._id("a"))
        here, usage = self._here(), self._pick((None, TokenUsage(1, 2)))
        payload = AssistantMessage(turn=here["turn"], step=here["step"], message=message, usage=usage)
        self._append(payload, sources=self._attempt)
        self._attempt = []
        self._asked |= asked

    def _fail_attempt(self) -> None:
        """The stream breaks; the driver waits and tries again."""
        if self._attempt and not self._over and self._next(2):
            self._add(Finish(FinishError(FAILURE)))
            self._over = True
        id, retry = self._retry or (self._id("retry"), 0)
        if retry == RETRIES:
            return
        retry += 1
        policy: dict[str, Json] = {"mode": "normal", "policyKey": "p", "maxRetries": RETRIES, "delayMs": 5}
        failure: dict[str, Json] = {"message": "it broke", "code": "TRANSPORT"}
        where: dict[str, Json] = {"retryId": id, **self._here(), "retry": retry}
        self._append(LlmRetry(value={**where, **policy, "provider": SOURCE.provider, "failure": failure}))
        self._append(LlmRetryStarted(value=where))
        self._attempt, self._over, self._retry = [], False, (id, retry)

    # -- tools --------------------------------------------------------------------------------------------------

    def _call(self) -> None:
        waiting = [id for id in self._asked if id not in self.nesting.pending]
        if not waiting:
            return
        id = self._pick(waiting)
        if self._next(3) == 0:
            self._approval(id)
        self._append(ToolCall(**self._here(), call_id=id, name="read", arguments=self._asked[id]))

    def _approval(self, call_id: str | None) -> None:
        id, reason = self._id("approval"), self._pick((None, "", "it writes"))
        asked = {"id": id, "toolName": "read", "callId": call_id, "reason": reason}
        self._append(ApprovalAsked(value={name: value for name, value in asked.items() if value is not None}))
        self._append(ApprovalDecided(value={"id": id, "outcome": self._pick(OUTCOMES)}))

    def _result(self) -> None:
        if not self.nesting.pending:
            return
        id = self._pick(self.nesting.pending)
        started = next(event.seq for event in self.session.select(ToolCall) if event.data.call_id == id)
        block = ToolResultBlock(id, self._blocks(), self._pick((True, False)))
        message = Message("user", (block,), ToolSource(id), self._id("r"))
        error = ToolError("Error", "E") if block.is_error and self._next(2) else None
        payload = ToolResult(**self._here(), message=message, error=error, meta=self._pick((None, {"a": [1, {}]})))
        self._append(payload, sources=self._pick(([started], None)))
        del self._asked[id]

    def _hooks(self, point: str, decision: str) -> None:
        turn, handler = self.nesting.turn, self._id("hook")
        invoked = {"turn": turn, "point": point, "dialect": "claude-code", "matcher": "read", "handlerId": handler}
        result: dict[str, Any] = {"turn": turn, "point": point, "handlerId": handler, "decision": decision}
        if self._next(2):
            result |= {"exitCode": 2, "stderrSummary": "no"}
        self._append(HookInvoked(value=invoked))
        self._append(HookResult(value={**result, "durationMs": 1.5}))

    # -- history and the rest -----------------------------------------------------------------------------------

    def _replace(self) -> None:
        """A summary in the place of a range of the surface."""
        nodes = reference.nodes(self.log)
        first = self._next(len(nodes))
        last = min(first + self._next(4), len(nodes) - 1)
        self._append(self._user(), replaces=(nodes[first], nodes[last]), sources=nodes[first : last + 1])

    def _block(self) -> Block:
        text = self._pick(TEXTS)
        kinds: tuple[Block, ...] = (TextBlock(text), ReasoningBlock(text))
        return self._pick(kinds)  # type: ignore[no-any-return]

    def _bookkeeping(self) -> None:
        makers: tuple[Callable[[], Payload], ...] = (
            lambda: RequestContext(provider=SOURCE.provider, model=SOURCE.model, context_window=self._pick((None, 9))),
            lambda: TodoWrite(todos=(Todo("x", "pending"),) * self._next(3)),
        )
        self._append(self._pick(makers)())

    def _aside(self) -> None:
        """What a host logs between turns."""
        spliced: dict[str, Json] = {"target": "next-turn", "start": 0, "inserted": []}
        title: dict[str, Json] = {"title": "A talk", "messageSeqs": [], "source": {"kind": "user"}}
        makers: tuple[Callable[[], Payload], ...] = (
            lambda: PlanMode(value={"active": self._pick((True, False))}),
            lambda: InboxSpliced(value=spliced),
            lambda: SessionTitle(value=title),
            lambda: FeedbackRecord(value={"text": "good"}),
            lambda: ApprovalPolicy(value={"policy": self._pick(("ask", "never"))}),
        )
        self._append(self._pick(makers)())
