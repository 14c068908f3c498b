"""The structure of a session: ``structure(session).turns[i].steps[j].attempts[k]``.

::

    Structure ── turns ──▶ TurnView ── steps ──▶ StepView ── attempts ──▶ AttemptView
                              │                     │                        │
                              └── events, chunks, messages, calls, usage, timing, state, end ──┘

Each part costs what it spans, when it is first asked for; packed chunks stay packed until their words are. With a
live writer an open part is ``running`` and has no end. Without one it is ``interrupted (not repaired)``: the time of
its last event is a lower bound of its end, and what the writer owed stands in as synthetic closers, unless
``as_stored``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from turnlog.events import TokenUsage, TurnEnd, TurnEndReason
from turnlog.log import AnyEvent, Session

from .address import AddressUnknown, AttemptAddress, StepAddress, TurnAddress, listed, parse_address
from .attempt import Attempt
from .attempts import attempts
from .call import Call
from .calls import calls_between
from .outline import Chunks, State, chunks_in
from .projectors import reason_text
from .resolve import step_of, turn_of
from .rows import closed, is_live, slots, time_of
from .spans import Span, between, step_spans, turn_spans
from .streams import TimedChunk
from .timing import Timing, last_event_time, timing, total

NOT_REPAIRED = "interrupted (not repaired)"
"""How a part ended whose writer is gone."""


@dataclass(frozen=True)
class Structure:
    """The turns of a session, as long as it was when :func:`structure` was called."""

    session: Session
    as_stored: bool = False
    length: int = 0
    """Events of the log; an event with this seq or a later one is a synthetic closer."""
    live: bool = False
    """Whether somebody may still write to it."""

    @cached_property
    def turns(self) -> tuple[TurnView, ...]:
        """Every turn, in order; numbers may repeat or be missing in damaged logs."""
        spans = turn_spans(self.session)
        return tuple(TurnView(self, span, span is spans[-1]) for span in spans)

    @cached_property
    def usage(self) -> TokenUsage | None:
        """What all attempts cost together; None where nothing was reported."""
        return total([one.usage for turn in self.turns for one in turn.attempts if one.usage is not None])

    def __getitem__(self, address: str) -> TurnView | StepView | AttemptView:
        """The part that an address names: ``t3``, ``t3.s2`` or ``t3.s2.a1``.

        Raises :class:`~turnlog.views.AddressError` with candidates.
        """
        named = parse_address(address)
        match named:
            case TurnAddress(turn=number):
                return self._turn(turn_of(self.session, number))
            case StepAddress(turn=number, step=step):
                return self._step(number, step)
            case AttemptAddress(turn=number, step=step, attempt=attempt):
                made = self._step(number, step).attempts
                found = next((one for one in made if one.number == attempt), None)
                if found is None:
                    there = f"its attempts are {listed([one.address for one in made])}" if made else "it has none"
                    raise AddressUnknown(f"session {self.session.id} has no {address}; {there}")
                return found
            case _:
                raise AddressUnknown(f"{address} names no turn, step or attempt; turnlog.views.resolve finds events")

    def is_synthetic(self, event: AnyEvent) -> bool:
        """Whether *event* is a closer and no part of the log."""
        return event.seq >= self.length

    def _turn(self, span: Span) -> TurnView:
        return next(one for one in self.turns if one.span == span)

    def _step(self, turn: int, step: int) -> StepView:
        span = step_of(self.session, turn, step)
        return next(one for one in self._turn(turn_of(self.session, turn)).steps if one.span == span)


@dataclass(frozen=True)
class _Part:
    """What turns and steps have in common: a span of the log."""

    structure: Structure = field(repr=False)
    span: Span
    is_last: bool
    """Whether the log ends with it."""

    @property
    def address(self) -> str:
        """``t3`` or ``t3.s2``."""
        return self.span.address

    @property
    def turn(self) -> int:
        """Number of the turn."""
        return self.span.turn

    @property
    def events(self) -> Sequence[AnyEvent]:
        """Its stored events, unpacked as they are looked at."""
        return between(self._session, self.span.first, self.span.stop)

    @property
    def chunks(self) -> Iterator[Chunks]:
        """Its stream, run by run and packed: how many of which kind, from when on. Words are in ``attempts``."""
        for slot in slots(self._session, self.span.first, self.span.stop):
            yield from chunks_in(slot)

    @cached_property
    def closers(self) -> tuple[AnyEvent, ...]:
        """Synthetic events that close it, because its writer is gone; not part of the log."""
        if self.span.ended or not self.is_last:
            return ()
        owed = closed(self._session, as_stored=self.structure.as_stored)
        return owed if self.span.step is None else tuple(event for event in owed if event.type != "turn/end")

    @cached_property
    def messages(self) -> tuple[AnyEvent, ...]:
        """Its events that hold a message of the model's history, replaced ones and closers included."""
        rows = (slot.row for slot in slots(self._session, self.span.first, self.span.stop))
        shown = [row for row in rows if row.type in _WITH_MESSAGE]
        stored = [row for row in shown if row.message is not None]  # type: ignore[union-attr]
        return (*stored, *(event for event in self.closers if event.message is not None))  # type: ignore[arg-type]

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Its tool calls, each joined from block, start, approval and result, in the order they were asked for."""
        return calls_between(self._session, self.span.first, self.span.stop, as_stored=self.structure.as_stored)

    @cached_property
    def state(self) -> State:
        """``ended``, ``running`` with a live writer, else ``interrupted``."""
        if self.span.ended:
            return "ended"
        return "running" if self.is_last and self.structure.live else "interrupted"

    @property
    def started(self) -> int:
        """Epoch ms of its first event."""
        return time_of(next(slots(self._session, self.span.first, self.span.stop)).row)

    @property
    def ended(self) -> int | None:
        """Epoch ms of its end; None where it has none, and :attr:`last` is a lower bound."""
        return self._session.event(self.span.stop - 1).time if self.span.ended else None

    @property
    def last(self) -> int:
        """Epoch ms of its last event in the log."""
        return last_event_time(self._session, self.span.first, self.span.stop, self.started)

    @property
    def _session(self) -> Session:
        return self.structure.session


@dataclass(frozen=True)
class TurnView(_Part):
    """One turn."""

    @cached_property
    def steps(self) -> tuple[StepView, ...]:
        """Its steps; a turn that was blocked or emptied has none."""
        spans = step_spans(self._session, self.span)
        open_last = self.is_last and not self.span.ended
        return tuple(StepView(self.structure, span, open_last and span is spans[-1]) for span in spans)

    @cached_property
    def attempts(self) -> tuple[AttemptView, ...]:
        """The attempts of all its steps."""
        return tuple(attempt for step in self.steps for attempt in step.attempts)

    @cached_property
    def usage(self) -> TokenUsage | None:
        """What its attempts cost together, one figure for each; None where nothing was reported."""
        return total([one.usage for one in self.attempts if one.usage is not None])

    @cached_property
    def timing(self) -> Timing:
        """Where its time went."""
        return _timing(self, [one.attempt for one in self.attempts])

    @property
    def reason(self) -> TurnEndReason | None:
        """Why it ended; None where the log does not say."""
        end = self._session.event(self.span.stop - 1).data if self.span.ended else None
        return end.reason if isinstance(end, TurnEnd) else None

    @property
    def end(self) -> str:
        """How it ended, in a few words: ``completed``, ``error: CODE: …``, ``running``, …"""
        reason = self.reason
        if reason is not None:
            return reason_text(reason)
        return NOT_REPAIRED if self.state == "interrupted" else self.state


@dataclass(frozen=True)
class StepView(_Part):
    """One step of a turn: a request with its retries, and the tools that were called."""

    @property
    def step(self) -> int:
        """Its number in the turn."""
        return self.span.step or 0

    @cached_property
    def attempts(self) -> tuple[AttemptView, ...]:
        """Its requests to the model."""
        made = attempts(self._session, self.span, as_stored=self.structure.as_stored)
        return tuple(AttemptView(self, one) for one in made)

    @cached_property
    def usage(self) -> TokenUsage | None:
        """What its attempts cost together; None where nothing was reported."""
        return total([one.usage for one in self.attempts if one.usage is not None])

    @cached_property
    def timing(self) -> Timing:
        """Where its time went."""
        return _timing(self, [one.attempt for one in self.attempts])

    @property
    def end(self) -> str:
        """``ended``, ``running``, or ``interrupted (not repaired)``: only turns have reasons."""
        return NOT_REPAIRED if self.state == "interrupted" else self.state


@dataclass(frozen=True)
class AttemptView:
    """One request to the model, in its step."""

    within: StepView = field(repr=False)
    attempt: Attempt

    @property
    def address(self) -> str:
        """``t3.s2.a1``"""
        return self.attempt.address

    @property
    def number(self) -> int:
        """1 for the first of its step."""
        return self.attempt.number

    @property
    def events(self) -> tuple[AnyEvent, ...]:
        """Its stored events: chunks and what settled it."""
        return tuple(map(self.within.structure.session.event, self.attempt.seqs))

    @property
    def chunks(self) -> tuple[TimedChunk, ...]:
        """Its stream, chunk by chunk."""
        return self.attempt.chunks

    @property
    def messages(self) -> tuple[AnyEvent, ...]:
        """Its answer, if it came to one that shows anything."""
        message = self.attempt.message
        return () if message is None or message.message is None else (message,)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The calls that its answer asked for."""
        event = self.attempt.event
        if event is None:
            return ()
        return tuple(one for one in self.within.calls if one.asked is not None and one.asked.seq == event.seq)

    @property
    def usage(self) -> TokenUsage | None:
        """What it cost: the figure of its stream, or of its message where the stream has none."""
        return self.attempt.usage

    @cached_property
    def timing(self) -> Timing:
        """Where its time went, its calls included."""
        attempt = self.attempt
        settled = attempt.event is not None and not attempt.synthetic
        over = settled or attempt.outcome in ("failed", "cancelled")
        seqs = attempt.seqs
        first, stop = (seqs[0], seqs[-1] + 1) if seqs else (self.within.span.first, self.within.span.first)
        return timing(
            self.within.structure.session, first, stop, started=attempt.started,
            ended=attempt.ended if over else None, attempts=(attempt,), calls=self.calls,
            open_until=self.within.last,
        )  # fmt: skip

    @property
    def end(self) -> str:
        """``completed``, ``failed: CODE: …``, ``cancelled``, ``running`` or ``interrupted``."""
        failure = self.attempt.failure
        if self.attempt.synthetic:
            return NOT_REPAIRED
        return self.attempt.outcome if failure is None else f"{self.attempt.outcome}: {failure.code}: {failure.message}"


def structure(session: Session, *, as_stored: bool = False) -> Structure:
    """The structure of a session; a growing one is asked again for what is new."""
    return Structure(session, as_stored, len(session), is_live(session))


def _timing(part: TurnView | StepView, made: Sequence[Attempt]) -> Timing:
    return timing(
        part.structure.session, part.span.first, part.span.stop, started=part.started, ended=part.ended,
        attempts=made, calls=part.calls, open_until=part.last,
    )  # fmt: skip


_WITH_MESSAGE = frozenset({"user/message", "assistant/message", "tool/result", "system/message"})
