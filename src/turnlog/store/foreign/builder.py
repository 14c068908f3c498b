"""From mapped records to a log: turns, steps and calls that nest, in the order of the file.

```
prompt ──→ turn/start
           step/start ─→ what waited (prompt, context, kept records) ─→ request/header ─→ retries
                         assistant/message   all blocks that the file has for one answer, its usage once
                         tool/call, tool/result, kept records, in the order of their lines
           step/end
prompt ──→ turn/end, turn/start, …
```

A foreign file writes an answer piece by piece, with results in between. So one step is held back until the next one, a
prompt or the end of the file, and what follows it until it is clear whose that is. Boundaries that no record states are
inferred, and noted as such in :class:`~turnlog.store.foreign.origins.Origins`.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr
from msgspec.structs import replace as changed

from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    Block,
    CallConfig,
    Completed,
    EndSeed,
    Header,
    Interrupted,
    Json,
    LlmRetry,
    MaxTokens,
    ModelSource,
    Payload,
    RequestContext,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    ToolSchema,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from turnlog.events.codec import encode
from turnlog.log.event import AnyEvent, Replace
from turnlog.log.rows import Rows
from turnlog.log.surface import Surface

from .origins import Origins
from .step import From, Item, Request, Step

UNRECORDED: Final = "unrecorded"
"""Provider or model where a file does not say which."""

_REMEMBERED: Final = 100_000
"""Calls that are remembered for results that come late."""


class Builder:
    """Builds the log of one foreign file."""

    def __init__(self, kind: type[AnyEvent], origins: Origins) -> None:
        self._kind = kind
        self.rows: Final = Rows(kind)
        self.surface: Final = Surface()
        self.origins: Final = origins
        self.effort: str | None = None
        self.system: str | None = None
        self.tools: tuple[ToolSchema, ...] | None = None
        self.window: int | None = None
        self.first_time: int | None = None
        self.seqs: Final[dict[str, int]] = {}
        """The program's id of a record → the seq of the surface event that it became."""
        self._timeless: list[AnyEvent] = []
        self._time = 0
        self._line = 1
        self._queue: list[Item] = []
        self._step: Step | None = None
        self.turn = 0
        """The open turn; 0 is none."""
        self.turns: Final[list[int]] = []
        """The first seq of every turn."""
        self.explicit = False
        """Whether the file said that the open turn began."""
        self._steps = 0
        self._done = self._cut = False
        self._header: tuple[object, ...] | None = None
        self._context: tuple[object, ...] | None = None
        self._rewind: int | None = None
        self._summaries: set[int] = set()
        self._placed: dict[str, tuple[int, int, str, int]] = {}

    # -- what records say ---------------------------------------------------------------------------------------

    def prompt(self, message: UserMessage, origin: From) -> None:
        """A person's prompt: begins a turn, unless the file said that one began and it has no answer yet."""
        self.settle()
        if self.turn and not (self.explicit or (not self._steps and not self._waits())):
            self.end_turn(None, origin)
        if not self.turn:
            self.begin_turn(origin)
        self._wait(message, origin)

    def said(self, message: UserMessage, origin: From, *, opens: bool = False) -> None:
        """A message in the user's role that no turn begins with by itself. *opens*: an answer to it does begin one."""
        self._wait(message, origin, opens=opens)

    def _wait(self, message: UserMessage, origin: From, *, opens: bool = False) -> None:
        taken_back, self._rewind = self._rewind, None
        self._queue.append(Item(origin, message, opens=opens, rewind=taken_back))

    def summary(self, message: UserMessage, origin: From, *, kept_from: int | None = None) -> None:
        """A message that takes the place of everything the model saw, or of what was before the event *kept_from*."""
        self.settle()
        if self._done and not self.explicit:
            self.end_turn(None, origin)
        self._drain()
        seq = self._user(message, Item(origin, message), self._before(kept_from))
        self._summaries.add(seq)
        self._note(origin, seq)

    def keep(self, type: str, raw: bytes, origin: From, *, of_step: bool = False) -> None:
        """A record that becomes no typed event: kept byte for byte under its name. *of_step*: it is about the answer
        before it, if there is one."""
        self._in_order(Item(origin, None, type, raw), of_step)

    def fact(self, payload: Payload, origin: From) -> None:
        """A log-only event. A retry belongs to the answer that comes after it."""
        if isinstance(payload, LlmRetry):
            self._queue.append(Item(origin, payload))
        else:
            self._in_order(Item(origin, payload))

    def drain(self) -> None:
        """What waits has no answer to wait for: write it."""
        self.settle()
        self._drain()

    def _in_order(self, item: Item, of_step: bool = False) -> None:
        step = self._step
        goes_on = step is not None and not self._queue and (of_step or step.open > 0)
        (step.items if step is not None and goes_on else self._queue).append(item)

    def answer(self, key: str, source: ModelSource, origin: From) -> Step:
        """The step of the answer *key*; a new one unless that answer is being put together."""
        if self._step is not None and self._step.key == key:
            return self._step
        self.settle()
        if self.turn and self._done and not self.explicit and self._waits(opens=True):
            self.end_turn(None, origin)
        if not self.turn:
            self.begin_turn(origin)
        request = Request(self.effort, self.system, self.tools, self.window)
        self._step = Step(key, self._queue, source, request)
        self._queue = []
        return self._step

    def block(self, step: Step, block: Block, side: Json, origin: From) -> None:
        """One more block of an answer."""
        if step.add(block, side, origin):
            self.remark("repeated-call-id", "call ids that one answer has twice; a number was added", lost=False)

    def result(self, call_id: str, make: ToolResult, origin: From, *, meta: bytes = b"") -> None:
        """A result; *make* names the file's call id. *meta* is the JSON text of what only people and programs see."""
        step = self._step
        known = None if step is None else step.answered(call_id, make)
        if step is not None and known is not None:
            step.items.append(Item(origin, known, meta=meta))
            return
        self.remark("orphan-results", "results whose call is not in the step before them", lost=False)
        (self._queue if step is None else step.items).append(Item(origin, make, meta=meta))

    def fail(self, chunk: AssistantChunk, origin: From, source: ModelSource) -> None:
        """A request that failed for good."""
        step = self.answer(f"failed {origin.line}", source, origin)
        step.failed = True
        step.items.append(Item(origin, chunk))

    @property
    def step(self) -> Step | None:
        """The answer that is being put together."""
        return self._step

    @property
    def waiting(self) -> int:
        """How many records wait for their place."""
        return len(self._queue) + (0 if self._step is None else len(self._step.items))

    # -- boundaries ---------------------------------------------------------------------------------------------

    def begin_turn(self, origin: From, *, explicit: bool = False) -> None:
        """Open a turn; ends the one that is open, unless that was only inferred from the prompt before this."""
        if explicit and self.turn and not self.explicit and not self._steps and self._step is None:
            self.explicit = True
            return
        if self.turn:
            self.end_turn(None, origin)
        self._drain(before="message")
        self.turn = len(self.turns) + 1
        self.turns.append(self.rows.length)
        self._steps, self._done, self.explicit = 0, False, explicit
        first = self._queue[0].origin if self._queue else origin
        line = origin.line if explicit else first.line
        self._commit(TurnStart(turn=self.turn), first.time, (line,), inferred=not explicit)

    def end_turn(self, reason: TurnEndReason | None, origin: From | None) -> None:
        """Close the open turn; without a *reason* it is inferred: completed after an answer that asks for nothing."""
        self.settle()
        if not self.turn:
            return
        if reason is not None:
            self._drain()
        elif not self._done:
            self._drain(before="opens" if self._steps else None)
        done = MaxTokens() if self._cut else Completed()
        told = reason if reason is not None else done if self._done else Interrupted()
        if reason is None:
            self.remark(
                "inferred-ends", "ends of turns that no record states: the next prompt or the answer tells", lost=False
            )
        line = self._line if origin is None or reason is None else origin.line
        time = origin.time if origin is not None and reason is not None else None
        self._commit(TurnEnd(turn=self.turn, reason=told), time, (line,), inferred=reason is None)
        self.turn = 0
        self.explicit = False

    def settle(self) -> None:
        """Write the step that was held back."""
        step, self._step = self._step, None
        if step is not None:
            self._write(step, end=True)

    def seed(self, origin: From) -> int:
        """End the inherited part here; gives its length."""
        self.settle()
        if self.turn:
            self.end_turn(None, origin)
        self._drain()
        return self._commit(EndSeed(), None, (self._line,), inferred=True)

    def rewind(self, turn: int) -> None:
        """The next message takes the place of everything from *turn* on: the model no longer sees it."""
        self.settle()
        if 0 < turn <= len(self.turns):
            self._rewind = self.turns[turn - 1]

    def finish(self) -> None:
        """The file is over."""
        step, self._step = self._step, None
        if step is not None:
            self._write(step, end=not step.open)
        if self.turn and self._done and not self.explicit and (step is None or not step.open):
            self.end_turn(None, None)
        self._drain()
        if self._rewind is not None:
            self.remark("open-rewind", "a rewind that no message follows: what it took back is still shown")
        if self._timeless:
            text = "events without a time, before any line has one; 0 stands there"
            self.remark("no-times", text, number=len(self._timeless), seq=self._timeless[0].seq)

    def remark(self, code: str, text: str, *, number: int = 1, seq: int | None = None, lost: bool = True) -> None:
        """See :meth:`Origins.remark`."""
        self.origins.remark(code, text, self.rows.length if seq is None else seq, number=number, lost=lost)

    # -- writing ------------------------------------------------------------------------------------------------

    def _waits(self, *, opens: bool = False) -> bool:
        return any(isinstance(one.payload, UserMessage) and (one.opens or not opens) for one in self._queue)

    def _drain(self, *, before: Literal["message", "opens"] | None = None) -> None:
        """Write what waits: all of it, or up to the first message, or the first that opens a turn."""
        taken = len(self._queue)
        for place, item in enumerate(self._queue):
            if item.opens if before == "opens" else before == "message" and isinstance(item.payload, UserMessage):
                taken = place
                break
        waiting, self._queue = self._queue[:taken], self._queue[taken:]
        for item in waiting:
            self._emit(item)

    def _write(self, step: Step, *, end: bool) -> None:
        self._steps += 1
        number = self._steps
        first = step.before[0].origin if step.before else None
        line = first.line if first is not None else self._line
        asked = step.origins[0] if step.origins else step.items[0].origin if step.items else From(line, None)
        started = first.time if first is not None else None
        if number == 1 and not step.before:
            line = asked.line
        self._commit(StepStart(turn=self.turn, step=number), started, (line,), inferred=True)
        retries = [item for item in step.before if isinstance(item.payload, LlmRetry)]
        for item in step.before:
            if not isinstance(item.payload, LlmRetry):
                self._emit(item, number)
        self._request(step, asked)
        for item in retries:
            self._emit(item, number)
        calls: dict[str, int] = {}
        for place, item in enumerate(step.items):
            if place == step.at and step.blocks:
                self._answer(step, number)
            self._emit(item, number, calls)
        if step.blocks and step.at >= len(step.items):
            self._answer(step, number)
        if end:
            self._commit(StepEnd(turn=self.turn, step=number), None, (self._line,), inferred=True)
        if step.open:
            self.remark("unanswered-calls", "calls that no result answers", number=step.open, lost=False)
        self._done = bool(step.blocks) and not step.calls
        self._cut = step.cut
        if len(self._placed) > _REMEMBERED:
            self._placed.clear()

    def _request(self, step: Step, asked: From) -> None:
        """The request header, where what the file says about the request changed."""
        model, request = step.model, step.request
        nothing = model.provider == UNRECORDED == model.model and request.system is None and request.tools is None
        if step.failed or nothing:
            return
        header = (model.provider, model.model, *request[:3])
        if header != self._header:
            config = CallConfig(model.provider, model.model, reasoning_effort=request.effort)
            said = Header(config, system=request.system, tools=request.tools)
            reason = "initial" if self._header is None else "change"
            self._header = header
            self._commit(RequestHeader(header=said, reason=reason), None, (asked.line,), inferred=True)
        context = (model.provider, model.model, request.window)
        if request.window is not None and context != self._context:
            self._context = context
            told = RequestContext(provider=model.provider, model=model.model, context_window=request.window)
            self._commit(told, None, (asked.line,), inferred=True)

    def _answer(self, step: Step, number: int) -> None:
        lines = tuple(dict.fromkeys(one.line for one in step.origins))
        payload = AssistantMessage(turn=self.turn, step=number, message=step.message(), usage=step.usage)
        seq = self._commit(payload, step.said_at(), lines, id=step.key, op="append")
        for one in step.origins:
            if one.id is not None:
                self.seqs[one.id] = seq

    def _emit(self, item: Item, number: int = 0, calls: dict[str, int] | None = None) -> None:
        origin, payload = item.origin, item.payload
        lines = (origin.line,)
        match payload:
            case None:
                self._commit_raw(item.type, item.raw, origin)
            case UserMessage():
                self._note(origin, self._user(payload, item, [] if item.rewind is None else self._since(item.rewind)))
            case ToolCall():
                placed = changed(payload, turn=self.turn, step=number)
                seq = self._commit(placed, origin.time, lines, id=origin.id, inferred=item.inferred)
                if calls is not None:
                    calls[payload.call_id] = seq
                self._placed[payload.call_id] = (self.turn, number, payload.call_id, seq)
            case ToolResult():
                self._result(payload, item, number, calls or {})
            case AssistantChunk():
                self._commit(changed(payload, turn=self.turn, step=number), origin.time, lines, id=origin.id)
            case LlmRetry(value=value):
                told = {**value, "turn": self.turn, "step": number}  # type: ignore[dict-item]
                self._commit(LlmRetry(value=told), origin.time, lines, id=origin.id)
            case _:
                self._commit(payload, origin.time, lines, id=origin.id, inferred=item.inferred)

    def _result(self, payload: ToolResult, item: Item, number: int, calls: dict[str, int]) -> None:
        origin = item.origin
        known = calls.get(payload.call_id)
        turn, step = self.turn, number
        if known is None and payload.call_id in self._placed:
            turn, step, _id, known = self._placed[payload.call_id]
        placed = changed(payload, turn=turn, step=step)
        sources = UNSET if known is None else (known,)
        line = (origin.line,)
        seq = self._commit(placed, origin.time, line, id=origin.id, op="append", sources=sources, meta=item.meta)
        self._note(origin, seq)

    def _note(self, origin: From, seq: int) -> None:
        if origin.id is not None:
            self.seqs[origin.id] = seq

    def _user(self, payload: UserMessage, item: Item, shadowed: list[int]) -> int:
        line = (item.origin.line,)
        if not shadowed:
            return self._commit(payload, item.origin.time, line, id=item.origin.id, op="append")
        op = Replace("replace", shadowed[0], shadowed[-1])
        return self._commit(payload, item.origin.time, line, id=item.origin.id, op=op, sources=tuple(shadowed))

    def _before(self, kept_from: int | None) -> list[int]:
        nodes = self.surface.nodes
        if not nodes or kept_from is None or kept_from not in self.surface:
            return list(nodes)
        span = Replace("replace", nodes[0], kept_from)
        return self.surface.plan_replace(self.rows.length, span)[1][:-1]

    def _since(self, start: int) -> list[int]:
        """The nodes at the end of the surface that belong to what was taken back; a summary holds more than that."""
        nodes = self.surface.nodes
        at = len(nodes)
        while at and nodes[at - 1] >= start and nodes[at - 1] not in self._summaries:
            at -= 1
        return list(nodes[at:])

    def _commit(
        self,
        payload: Payload,
        time: int | None,
        lines: tuple[int, ...],
        *,
        id: str | None = None,
        inferred: bool = False,
        op: Literal["append"] | Replace | UnsetType = UNSET,
        sources: tuple[int, ...] | UnsetType = UNSET,
        meta: bytes = b"",
    ) -> int:
        seq = self.rows.length
        raw = encode(payload)
        if meta:
            raw = b'%b,"meta":%b}' % (raw[:-1], meta)
        event = self._kind(payload.event_type, seq, self._clock(time), raw, op, sources, UNSET, UNSET)
        self._add(event, lines, id, inferred)
        if op == "append":
            self.surface.append(seq)
        elif isinstance(op, Replace):
            self.surface.apply(self.surface.plan_replace(seq, op)[0])
        return seq

    def _commit_raw(self, type: str, raw: bytes, origin: From) -> None:
        event = self._kind(type, self.rows.length, self._clock(origin.time), raw, UNSET, UNSET, True, UNSET)
        self._add(event, (origin.line,), origin.id, False)

    def _add(self, event: AnyEvent, lines: tuple[int, ...], id: str | None, inferred: bool) -> None:
        self.rows.add(event)
        self.origins.add(lines, id, inferred=inferred)
        self._line = lines[-1]
        if self.first_time is None:
            self._timeless.append(event)

    def _clock(self, time: int | None) -> int:
        if time is None:
            return self._time
        self._time = time
        if self.first_time is None:
            self.first_time = time
            for event in self._timeless:  # what came before the first time happened before it, nobody knows when
                force_setattr(event, "time", time)
            self._timeless = []
        return time
