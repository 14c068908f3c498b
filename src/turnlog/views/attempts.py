"""Attempts: every request to the model, answered or not, the same for every format.

A step makes one request; when it fails and is retried, the step has several attempts. Formats 0 and 1 log their
chunks as events: a retry, a chunk after a ``finish``, the message and the end of the step divide them, and a message
that cites chunks has exactly these. A figure that comes when its attempt is over is no attempt of its own. Formats 2
to 4 keep each attempt's stream inside the event that settled it.

A message that takes the place of earlier ones changes what the model sees and asked for nothing: it is no attempt,
settles none, and what it says that it used was used by nobody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from turnlog.events import (
    Aborted,
    AssistantMessage,
    Errored,
    Failure,
    Finish,
    FinishAborted,
    FinishError,
    FinishReason,
    Interrupted,
    OpaquePayload,
    StepStart,
    TurnEnd,
    TurnEndReason,
    UsageChunk,
    thaw,
)
from turnlog.events.lenient import Mismatch, convert
from turnlog.log import AnyEvent, Replace, Session
from turnlog.log.rows import PackedRun

from .attempt import Attempt, Outcome, single_chunk
from .index import index_of
from .rows import Slot, closed, is_live, slots, time_of
from .spans import Span
from .streams import embedded

_BEFORE_REQUEST: Final = frozenset({
    "step/start", "user/message", "system/message", "request/header", "request/context", "compaction/end",
    "llm/retry-started",
})  # fmt: skip
"""What is logged before a request leaves; the last of these is the best known time of its start."""


def attempts(session: Session, span: Span | None = None, *, as_stored: bool = False) -> Iterator[Attempt]:
    """Every attempt of the session, or of a turn or step (:class:`Span`), in order.

    A log whose writer is gone has its unfinished attempt completed from its closers, unless *as_stored*.
    """
    first, stop = (0, None) if span is None else (span.first, span.stop)
    builder = _Builder(session, span)
    for slot in slots(session, first, stop):
        yield from builder.read(slot)
    if stop is None or stop >= len(session):
        for event in closed(session, as_stored=as_stored):
            yield from builder.read(Slot(event.seq, 1, event))
    yield from builder.end(None if stop is None else _reason_after(session, stop))


def _reason_after(session: Session, seq: int) -> TurnEndReason | None:
    """How the turn ended whose step was over before *seq*."""
    edges = index_of(session).turn_edges
    at = bisect_left(edges, seq)
    end = session.event(edges[at]).data if at < len(edges) else None
    return end.reason if isinstance(end, TurnEnd) else None


@dataclass
class _Current:
    """The chunks since the last border between attempts."""

    parts: list[Slot] = field(default_factory=list)
    finish: FinishReason | None = None


class _Builder:
    """Reads rows in order; gives attempts when their turn is over, for only its end says how open ones ended."""

    def __init__(self, session: Session, span: Span | None) -> None:
        self._length = len(session)
        self._live = is_live(session)
        self._turn, self._step = (span.turn, span.step or 0) if span is not None else (0, 0)
        self._in_step = False  # outside of any step, chunks say themselves where they belong
        self._step_is_over = False  # what is logged between steps is about none of them
        self._number = 0
        self._started: int | None = None
        self._current = _Current()
        self._waiting: list[Attempt] = []
        self._open: set[int] = set()  # indexes in _waiting whose outcome only the turn's end decides

    def read(self, slot: Slot) -> Iterator[Attempt]:
        """Take one row; gives the attempts that it completes."""
        row = slot.row
        if isinstance(row, PackedRun) or row.type == "assistant/chunk":
            self._chunk(slot)
            return
        if row.type in _BEFORE_REQUEST:
            self._started = row.time
        if row.type == "step/start" and isinstance(row.data, StepStart):
            self._cut()
            self._turn, self._step, self._number, self._in_step = row.data.turn, row.data.step, 0, True
            self._step_is_over = False
        elif row.type == "llm/retry":
            if not self._step_is_over:
                self._retry(row)
        elif row.type in ("assistant/message", "assistant/attempt"):
            if not isinstance(row.surface_op, Replace):
                self._settle(row)
        elif row.type == "step/end":
            self._cut()
            self._in_step, self._step_is_over = False, True
        elif row.type == "turn/end":
            yield from self.end(row.data.reason if isinstance(row.data, TurnEnd) else None)

    def end(self, reason: TurnEndReason | None) -> Iterator[Attempt]:
        """The turn is over, for *reason*; None: the log is."""
        self._cut()
        for index, attempt in enumerate(self._waiting):
            yield self._decided(attempt, reason) if index in self._open else attempt
        self._waiting, self._open, self._in_step = [], set(), False

    def _chunk(self, slot: Slot) -> None:
        self._step_is_over = False
        if self._current.finish is not None and not self._is_late_usage(slot):
            self._cut()
        if not self._current.parts and not self._in_step:
            data = slot.row.unpack() if isinstance(slot.row, PackedRun) else slot.row.data
            self._at(*_where(data, self._turn, self._step))
        self._current.parts.append(slot)
        chunk = single_chunk(slot)
        if isinstance(chunk, Finish):
            self._current.finish = chunk.reason

    def _is_late_usage(self, slot: Slot) -> bool:
        """Whether it is a figure that came after the finish of an answer: the same request, not the next one's."""
        failed = isinstance(self._current.finish, FinishError)
        return not failed and isinstance(single_chunk(slot), UsageChunk)

    def _at(self, turn: int, step: int) -> None:
        if (turn, step) != (self._turn, self._step):
            self._turn, self._step, self._number = turn, step, 0

    def _retry(self, row: AnyEvent) -> None:
        self._told_late()
        value = row.data.value if isinstance(row.data, OpaquePayload) else None
        failure = _failure(value.get("failure")) if isinstance(value, Mapping) else None
        if self._current.parts or not self._waiting or self._waiting[-1].retry is not None or self._settled_last():
            self._add("failed", failure=failure, retry=row)
        else:  # formats 2 to 4 settle the attempt before the retry is logged
            index = len(self._waiting) - 1
            self._open.discard(index)
            known = self._waiting[index]
            self._waiting[index] = replace(known, outcome="failed", failure=known.failure or failure, retry=row)

    def _settled_last(self) -> bool:
        last = self._waiting[-1]
        return last.message is not None or (last.turn, last.step) != (self._turn, self._step)

    def _settle(self, row: AnyEvent) -> None:
        data = row.data
        self._step_is_over = False
        self._at(*_where(data, self._turn, self._step))
        if row.type == "assistant/attempt":
            self._cut()
            finish = next((one.chunk.reason for one in reversed(embedded(row)) if isinstance(one.chunk, Finish)), None)
            self._current.finish = finish
            self._add_unfinished(event=row)
            return
        sources = row.sources
        cited = None if sources is None else frozenset(sources)
        if cited is not None:
            cited |= self._leave_uncited(cited)
        interrupted = isinstance(data, AssistantMessage) and bool(data.interrupted)
        partly = cited if cited is not None and sum(part.size for part in self._current.parts) != len(cited) else None
        self._add("interrupted" if interrupted else "completed", event=row, cited=partly)
        if interrupted:
            self._open.add(len(self._waiting) - 1)

    def _leave_uncited(self, cited: frozenset[int]) -> frozenset[int]:
        """Chunks that the message does not rest on were an attempt of their own. Gives the seqs of figures, which never
        are one."""
        parts = self._current.parts
        mine = [part for part in parts if not cited.isdisjoint(range(part.seq, part.seq + part.size))]
        if len(mine) == len(parts):
            return frozenset()
        kept = {part.seq for part in mine}
        rest = [part for part in parts if part.seq not in kept]
        finish = self._current.finish
        self._current = _Current(rest)
        if self._told_late():
            rest = []
        elif _are_figures(rest):
            mine = parts
        else:
            self._cut()
            rest = []
        self._current = _Current(mine, finish)
        return frozenset(part.seq for part in rest)

    def _cut(self) -> None:
        if self._current.parts and not self._told_late():
            self._add_unfinished()

    def _told_late(self) -> bool:
        """Whether all that came are figures of the attempt before, which was over already; gives them to it."""
        last = self._waiting[-1] if self._waiting else None
        if last is None or last.retry is not None or (last.turn, last.step) != (self._turn, self._step):
            return False
        if self._current.finish is not None or not _are_figures(self._current.parts):
            return False
        late = self._current.parts
        cited = None if last.cited is None else last.cited | {part.seq for part in late}
        self._waiting[-1] = replace(last, parts=(*last.parts, *late), cited=cited)
        self._current = _Current()
        return True

    def _add_unfinished(self, event: AnyEvent | None = None) -> None:
        match self._current.finish:
            case FinishError(failure=failure):
                self._add("failed", event=event, failure=failure)
            case FinishAborted(failure=failure):
                self._add("cancelled", event=event, failure=failure)
            case _:
                self._add("interrupted", event=event)
                self._open.add(len(self._waiting) - 1)

    def _add(
        self,
        outcome: Outcome,
        *,
        event: AnyEvent | None = None,
        failure: Failure | None = None,
        retry: AnyEvent | None = None,
        cited: frozenset[int] | None = None,
    ) -> None:
        finish = self._current.finish
        if failure is None and isinstance(finish, FinishError | FinishAborted):
            failure = finish.failure
        self._number += 1
        synthetic = event is not None and event.seq >= self._length
        parts = tuple(self._current.parts)
        started = self._started if self._started is not None else _first_time(parts, event)
        attempt = Attempt(
            self._turn, self._step, self._number, started, outcome, event, failure, retry, synthetic, parts, cited
        )  # fmt: skip
        self._waiting.append(attempt)
        self._current = _Current()

    def _decided(self, attempt: Attempt, reason: TurnEndReason | None) -> Attempt:
        match reason:
            case Aborted():
                return replace(attempt, outcome="cancelled")
            case Errored(error=failure):
                return replace(attempt, outcome="failed", failure=attempt.failure or failure)
            case Interrupted():
                return replace(attempt, outcome="interrupted")
            case None:
                running = self._live and attempt.message is None
                return replace(attempt, outcome="running" if running else "interrupted")
            case _:  # the turn went on: this attempt was left behind
                return replace(attempt, outcome="cancelled" if attempt.message is not None else "failed")


def _are_figures(parts: list[Slot]) -> bool:
    return bool(parts) and all(isinstance(single_chunk(part), UsageChunk) for part in parts)


def _first_time(parts: tuple[Slot, ...], event: AnyEvent | None) -> int:
    """Where the log lost what came before: the time of the attempt's own first event."""
    return time_of(parts[0].row) if parts else 0 if event is None else event.time


def _where(data: object, turn: int, step: int) -> tuple[int, int]:
    if isinstance(data, OpaquePayload):
        value = data.value if isinstance(data.value, Mapping) else {}
        found = value.get("turn"), value.get("step")
    else:
        found = getattr(data, "turn", None), getattr(data, "step", None)
    return (
        found[0] if isinstance(found[0], int) else turn,
        found[1] if isinstance(found[1], int) else step,
    )


def _failure(value: object) -> Failure | None:
    try:
        return convert(Failure, thaw(value))  # type: ignore[no-any-return, arg-type]
    except Mismatch:
        return None


def by_step(found: Iterator[Attempt]) -> Mapping[tuple[int, int], tuple[Attempt, ...]]:
    """Attempts by (turn, step)."""
    steps: dict[tuple[int, int], tuple[Attempt, ...]] = {}
    for attempt in found:
        place = attempt.turn, attempt.step
        steps[place] = (*steps.get(place, ()), attempt)
    return steps
