"""Where the time went: waiting for the first token, decoding, tools, waiting for a person.

Durations are wall clock and never negative: an interval whose end is stamped before its start counts as nothing, and
events where the clock stepped back are listed. Tools that ran side by side are counted once (the time during which any
of them ran), and the time a person was asked in is not the tools'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from turnlog.events import TokenUsage, is_token
from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun

from .attempt import Attempt
from .call import Call
from .rows import last_time, slots, time_of

Interval: TypeAlias = tuple[int, int]
"""From and to, epoch ms."""


class ClockStep(NamedTuple):
    """An event that is stamped earlier than the one before it."""

    seq: int
    back_ms: int


@dataclass(frozen=True)
class Timing:
    """Durations in ms."""

    started: int
    """Epoch ms of its first event."""
    ended: int
    """Epoch ms of its end, or where it has none, of its last event."""
    is_over: bool
    """False: it has no end in the log, so that :attr:`ended` and :attr:`total_ms` are lower bounds."""
    total_ms: int
    first_token_ms: int | None
    """From the start to the first token that the model showed; None when it showed none."""
    decode_ms: int
    """From first to last token, attempts added."""
    model_ms: int
    """From request to last token, attempts added."""
    tool_ms: int
    """While at least one tool ran and no person was asked."""
    waiting_ms: int
    """While a person was asked for approval."""
    clock_steps: tuple[ClockStep, ...]
    """Events at which the clock was set back: what spans one of them is a guess."""


def timing(
    session: Session,
    first: int,
    stop: int,
    *,
    started: int,
    ended: int | None,
    attempts: Iterable[Attempt],
    calls: Iterable[Call],
    open_until: int,
) -> Timing:
    """The timing of the events from *first* up to *stop*; *ended* is None where they are not over.

    Calls without result and questions without answer count up to *open_until*.
    """
    made = tuple(attempts)
    called = tuple(calls)
    last = last_event_time(session, first, stop, started)
    tokens = [shown for shown in map(token_times, made) if shown is not None]
    until = last if ended is None else ended
    asked = [one for call in called for one in waits(call, open_until)]
    length = len(session)
    running = [one for call in called for one in runs(call, open_until, length)]
    return Timing(
        started=started,
        ended=until,
        is_over=ended is not None,
        total_ms=max(until - started, 0),
        first_token_ms=max(tokens[0][0] - started, 0) if tokens else None,
        decode_ms=sum(max(end - begin, 0) for begin, end in tokens),
        model_ms=sum(one.duration_ms for one in made),
        tool_ms=covered([*running, *asked]) - covered(asked),
        waiting_ms=covered(asked),
        clock_steps=tuple(clock_steps(session, first, stop)),
    )


def token_times(attempt: Attempt) -> Interval | None:
    """When an attempt showed its first and its last token; None when it showed none."""
    times = [timed.time for timed in attempt.chunks if is_token(timed.chunk)]
    return (times[0], times[-1]) if times else None


def waits(call: Call, until: int) -> Iterator[Interval]:
    """While a person was asked about a call: from each question to the answer after it, or to *until*."""
    asked: AnyEvent | None = None
    for event in call.approvals:
        if event.type == "approval/asked":
            asked = asked or event
        elif asked is not None:
            yield asked.time, event.time
            asked = None
    if asked is not None:
        yield asked.time, until


def runs(call: Call, until: int, length: int) -> Iterator[Interval]:
    """While a call ran: from its start to its result, or to *until* where the log, *length* events long, has none."""
    if call.started is None or call.started.seq >= length:
        return  # it never began
    if call.result is None or call.synthetic:
        yield call.started.time, until
    else:
        yield call.started.time, call.result.time


def covered(intervals: Iterable[Interval]) -> int:
    """How many ms lie in at least one of *intervals*; those that end before they begin have none."""
    total = 0
    reached: int | None = None
    for begin, end in sorted(one for one in intervals if one[0] < one[1]):
        start = begin if reached is None else max(begin, reached)
        total += max(end - start, 0)
        reached = end if reached is None else max(end, reached)
    return total


def clock_steps(session: Session, first: int = 0, stop: int | None = None) -> Iterator[ClockStep]:
    """The events from *first* up to *stop* that are stamped earlier than the one before them among these."""
    before: int | None = None
    for slot in slots(session, first, stop):
        for seq, time in _times(slot.seq, slot.row):
            if seq < first or (stop is not None and seq >= stop):
                continue
            if before is not None and time < before:
                yield ClockStep(seq, before - time)
            before = time


def _times(seq: int, row: AnyEvent | PackedRun) -> Iterator[tuple[int, int]]:
    """Seqs and times that tell whether the clock stepped back inside or before a row; two for most packed runs."""
    yield seq, time_of(row)
    if not isinstance(row, PackedRun):
        return
    gaps = row.unpack().dt
    if gaps and min(gaps) >= 0:
        yield seq + len(gaps), row.time0 + sum(gaps)
        return
    time = row.time0
    for offset, gap in enumerate(gaps, 1):
        time += gap
        yield seq + offset, time


def last_event_time(session: Session, first: int, stop: int, default: int) -> int:
    """When the last event before *stop* was logged."""
    if stop <= first:
        return default
    index = session.rows.row_index(stop - 1)
    return last_time(session.rows.rows[index])


def total(figures: Sequence[TokenUsage]) -> TokenUsage | None:
    """Usages added; a part that nobody reported stays absent, and so does the sum of none."""
    if not figures:
        return None
    return TokenUsage(
        input_tokens=sum(one.input_tokens for one in figures),
        output_tokens=sum(one.output_tokens for one in figures),
        cache_read_tokens=_sum([one.cache_read_tokens for one in figures]),
        cache_write_tokens=_sum([one.cache_write_tokens for one in figures]),
        reasoning_tokens=_sum([one.reasoning_tokens for one in figures]),
    )


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
