"""`usage`: what the requests of a session used and cost, each billed once.

Every request that a log tells of becomes one :class:`Charge`, whichever records carry its figure::

    attempt      the last usage chunk of its stream, else the usage of its message or assistant/attempt; never both
    compaction   the usage of a compaction/summary that a model wrote
    title        a session/title-llm-request, whose usage nobody records

A retried attempt is a charge of its own, for it is billed like any other. What a fork inherited was billed in its
parent and is no charge. An attempt that failed before anything of an answer came is none either; one that answered and
reported nothing is a charge without tokens, for unknown is not zero. Replacements and compactions change what the model
sees and not what was spent; packing, paging and conversion change where a figure stands and not the figure.

Charges add up exactly: by turn, model, day, tool or project, the parts make the total.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from turnlog.events import OpaquePayload, RequestHeader, TokenUsage, ToolCallBlock, UsageChunk, thaw
from turnlog.events.lenient import Mismatch, convert
from turnlog.events.message import ModelSource
from turnlog.log import AnyEvent, Session
from turnlog.log.rows import PackedRun, Row

from .attempt import Attempt, single_chunk
from .attempts import attempts
from .buckets import Buckets
from .prices import NOTHING, Cost, PriceTable
from .rows import last_time
from .streams import chunk_kind, chunk_type, embedded

Kind: TypeAlias = Literal["attempt", "compaction", "title"]
"""What a request was for."""
_Figure: TypeAlias = tuple[int, int, TokenUsage]
"""Seq and time of the record that says what a request used, and what it says."""
UNREPORTED: Final = "some requests reported no usage"
FLAWED: Final = "some reported usage cannot be right: what is below zero counts as zero"
NO_TOOL: Final = ""
"""The tool of a request whose answer called none."""
_NONE: Final = Buckets()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TELLS: Final = frozenset({"request/header", "compaction/summary", "session/title-llm-request"})
_NO_ANSWER: Final = frozenset({"usage", "finish"})


class Charge(NamedTuple):
    """One request and what it used."""

    seq: int
    """Of the record that says what it used; of its last record where none does."""
    time: int
    """When that was logged, epoch ms: a request is billed on that day, whatever day its turn began."""
    kind: Kind
    provider: str
    """Both are empty where the log does not say which model was asked."""
    model: str
    tokens: Buckets | None
    """None: it answered and reported nothing."""
    flawed: bool = False
    """Whether it reported figures that cannot be."""
    turn: int | None = None
    step: int | None = None
    attempt: int | None = None
    outcome: str = "completed"
    """Of the attempt."""
    tools: tuple[str, ...] = ()
    """The tools that its answer called, each once, by name."""
    session: str = ""
    project: str | None = None
    """The working directory of the session."""

    @property
    def address(self) -> str:
        """``t3.s2.a1``, or ``@SEQ`` for a request outside of any step."""
        return f"@{self.seq}" if self.attempt is None else f"t{self.turn}.s{self.step}.a{self.attempt}"

    @property
    def route(self) -> str:
        """``provider/model``"""
        return f"{self.provider}/{self.model}" if self.provider else self.model

    def cost(self, prices: PriceTable) -> Cost:
        """What it cost."""
        if self.tokens is None:
            return Cost(unpriced=1, why=(UNREPORTED,))
        found = prices.cost(self.tokens, provider=self.provider, model=self.model, ms=self.time)
        return Cost(found.pico_usd, found.priced, found.unpriced, (*found.why, FLAWED)) if self.flawed else found


@dataclass(frozen=True, slots=True)
class Tally:
    """What some requests come to. ``+`` adds two that share no request."""

    requests: int = 0
    unreported: int = 0
    """Requests, of these, that reported nothing; they are in no bucket."""
    flawed: int = 0
    """Requests, of these, that reported figures that cannot be."""
    tokens: Buckets = _NONE
    cost: Cost = NOTHING

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.requests + other.requests, self.unreported + other.unreported, self.flawed + other.flawed,
                     self.tokens + other.tokens, self.cost + other.cost)  # fmt: skip


def tally(charges: Iterable[Charge], prices: PriceTable | None = None) -> Tally:
    """What *charges* come to, at the prices of a table (by default those that come with Turnlog)."""
    return by(charges, lambda _: None, prices).get(None, Tally())


def by(charges: Iterable[Charge], key: Callable[[Charge], Any], prices: PriceTable | None = None) -> dict[Any, Tally]:
    """What *charges* come to for each value of *key*, in order of appearance; their sum is :func:`tally` of all."""
    table = PriceTable.builtin() if prices is None else prices
    sums: dict[Any, _Sum] = {}
    for charge in charges:
        sums.setdefault(key(charge), _Sum()).add(charge, table)
    return {name: found.tally() for name, found in sums.items()}


class _Sum:
    """A tally that grows."""

    def __init__(self) -> None:
        self._counts = [0, 0, 0]
        self._tokens = [0] * len(Buckets._fields)
        self._cost = [0, 0, 0]
        self._why: dict[str, None] = {}

    def add(self, charge: Charge, prices: PriceTable) -> None:
        _add(self._counts, (1, charge.tokens is None, charge.flawed))
        if charge.tokens is not None:
            _add(self._tokens, charge.tokens)
        cost = charge.cost(prices)
        _add(self._cost, (cost.pico_usd, cost.priced, cost.unpriced))
        if cost.why:
            self._why.update(dict.fromkeys(cost.why))

    def tally(self) -> Tally:
        requests, unreported, flawed = self._counts
        pico, priced, unpriced = self._cost
        cost = Cost(pico, priced, unpriced, tuple(self._why))
        return Tally(requests, unreported, flawed, Buckets(*self._tokens), cost)


def _add(sums: list[int], more: Iterable[int]) -> None:
    for place, amount in enumerate(more):
        sums[place] += amount


@dataclass(frozen=True)
class Usage:
    """What :func:`usage` gives. ``+`` puts the requests of several sessions together."""

    charges: tuple[Charge, ...] = ()
    """In log order."""
    inherited: int = 0
    """Requests that a fork's prefix holds; its parent was billed for them."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.charges + other.charges, self.inherited + other.inherited)

    @cached_property
    def total(self) -> Tally:
        """All of it, at the prices that come with Turnlog."""
        return tally(self.charges)

    def tally(self, prices: PriceTable | None = None) -> Tally:
        """All of it, at the prices of a table."""
        return tally(self.charges, prices)

    def by_turn(self, prices: PriceTable | None = None) -> dict[int | None, Tally]:
        """By turn; None holds what was asked outside of any."""
        return by(self.charges, lambda charge: charge.turn, prices)

    def by_model(self, prices: PriceTable | None = None) -> dict[str, Tally]:
        """By ``provider/model``."""
        return by(self.charges, lambda charge: charge.route, prices)

    def by_day(self, zone: tzinfo | None = None, prices: PriceTable | None = None) -> dict[str, Tally]:
        """By day (``2026-01-31``) in a time zone, from midnight to midnight however long it is; None is the zone of
        this machine."""
        return by(self.charges, lambda charge: day_of(charge.time, zone), prices)

    def by_tool(self, prices: PriceTable | None = None) -> dict[str, Tally]:
        """By the tools that the answer called (``bash``, ``bash, read``); :data:`NO_TOOL` holds answers without."""
        return by(self.charges, lambda charge: ", ".join(charge.tools), prices)


def day_of(ms: int, zone: tzinfo | None = None) -> str:
    """The day of a moment (epoch ms) in a zone, None for that of this machine; ``""`` where no calendar has it."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone(zone).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return ""


def usage(session: Session, *, whole: bool = False) -> Usage:
    """What the requests of a session used, stored or live, whatever its format. Requests that still run are left out.

    *whole*: also what it inherited, to set the run that its log tells beside another one; not to be added up.

    Reads the log once row by row; packed chunks stay packed.
    """
    reader = _Reader(session, whole)
    return Usage(tuple(sorted(reader.charges(), key=lambda charge: charge.seq)), reader.inherited)


class _Reader:
    def __init__(self, session: Session, whole: bool) -> None:
        self._session = session
        self._seed = 0 if whole else session.header.seed_length or 0
        self._route_seqs, self._routes = [-1], [("", "")]
        self.inherited = 0

    def charges(self) -> Iterator[Charge]:
        for row in self._session.rows.rows:
            if row.type in _TELLS and not isinstance(row, PackedRun):
                yield from self._told(row)
        for attempt, figure in _merged(attempts(self._session, as_stored=True)):
            yield from self._attempt(attempt, figure)

    def _told(self, event: AnyEvent) -> Iterator[Charge]:
        """A request that no attempt is about; or, from a request header, where the following ones go."""
        data = event.data
        if isinstance(data, RequestHeader):
            self._route_seqs.append(event.seq)
            self._routes.append((data.header.config.provider, data.header.config.model))
            return
        value = data.value if isinstance(data, OpaquePayload) else None
        if not isinstance(value, Mapping):
            return
        kind: Kind = "compaction" if event.type == "compaction/summary" else "title"
        told = _usage_in(value)
        if kind == "compaction" and told is None and value.get("llmStreamCall") is not True:
            return  # no model wrote it
        where = value.get("route") if kind == "title" else value
        where = where if isinstance(where, Mapping) else {}
        route = tuple(str(where[name]) if isinstance(where.get(name), str) else "" for name in ("provider", "model"))
        yield from self._charge(event.seq, event.time, kind, route, told)  # type: ignore[arg-type]

    def _attempt(self, attempt: Attempt, figure: _Figure | None) -> Iterator[Charge]:
        if figure is None and (attempt.outcome == "running" or not _answered(attempt)):
            return
        event = attempt.event
        message = None if event is None else event.message
        source = None if message is None else message.source
        seq, time, told = figure or (*_end_of(attempt), None)
        first = attempt.parts[0].seq if attempt.parts else seq
        if first < self._seed:  # it was asked in the parent, whatever closed it here
            self.inherited += 1
            return
        route = (source.provider, source.model) if isinstance(source, ModelSource) else self._route_at(first)
        blocks = () if message is None else message.content
        tools = tuple(sorted({block.name for block in blocks if isinstance(block, ToolCallBlock)}))
        place = (attempt.turn, attempt.step, attempt.number, attempt.outcome, tools)
        if first < self._seed <= seq:  # the fork only closed what it cut off: its parent asked
            self.inherited += 1
            return
        yield from self._charge(seq, time, "attempt", route, told, *place)

    def _charge(
        self, seq: int, time: int, kind: Kind, route: tuple[str, str], told: TokenUsage | None, *place: Any
    ) -> Iterator[Charge]:
        if seq < self._seed:
            self.inherited += 1
            return
        tokens, flawed = (None, False) if told is None else Buckets.of(told)
        charge = Charge(seq, time, kind, *route, tokens, flawed, *place)
        yield charge._replace(session=self._session.id, project=self._session.header.cwd)

    def _route_at(self, seq: int) -> tuple[str, str]:
        """Where a request went that was answered at *seq*."""
        return self._routes[bisect_right(self._route_seqs, seq) - 1]


def _merged(found: Iterable[Attempt]) -> Iterator[tuple[Attempt, _Figure | None]]:
    """Attempts with their figures. A usage chunk all by itself is no attempt: it is a late figure of the one before it
    in its step, or of the one whose message does not cite it."""
    last: tuple[Attempt, _Figure | None] | None = None
    stray: tuple[Attempt, _Figure | None] | None = None
    for attempt in found:
        figure = _figure(attempt)
        if stray is not None:
            if _same_step(stray[0], attempt):
                figure = _later(stray[1], figure)
            else:
                yield stray
            stray = None
        if _is_late(attempt):
            if last is not None and _same_step(last[0], attempt) and last[0].retry is None:
                last = last[0], _later(last[1], figure)
            else:
                stray = attempt, figure
            continue
        if last is not None:
            yield last
        last = attempt, figure
    yield from (one for one in (last, stray) if one is not None)


def _is_late(attempt: Attempt) -> bool:
    return (
        attempt.event is None
        and attempt.retry is None
        and bool(attempt.parts)
        and all(_kind_of(part.row) == "usage" for part in attempt.parts)
    )


def _same_step(one: Attempt, other: Attempt) -> bool:
    return (one.turn, one.step) == (other.turn, other.step)


def _later(one: _Figure | None, other: _Figure | None) -> _Figure | None:
    """The figure that was logged last."""
    return one if other is None else other if one is None else max(one, other, key=lambda figure: figure[0])


def _figure(attempt: Attempt) -> _Figure | None:
    """What an attempt used, with seq and time of the record that says so."""
    for part in reversed(attempt.parts):
        if _kind_of(part.row) == "usage" and (attempt.cited is None or part.seq in attempt.cited):
            chunk = single_chunk(part)
            if isinstance(chunk, UsageChunk):
                return part.seq, part.row.time, chunk.usage  # type: ignore[union-attr]  # it is no packed run
    event = attempt.event
    if event is None:
        return None
    for timed in reversed(embedded(event)):
        if isinstance(timed.chunk, UsageChunk):
            return event.seq, timed.time, timed.chunk.usage
    told = attempt.usage
    return None if told is None else (event.seq, event.time, told)


def _answered(attempt: Attempt) -> bool:
    """Whether anything of an answer came."""
    if attempt.message is not None or any(_kind_of(part.row) not in _NO_ANSWER for part in attempt.parts):
        return True
    event = attempt.event
    return event is not None and any(chunk_type(timed.chunk) not in _NO_ANSWER for timed in embedded(event))


def _end_of(attempt: Attempt) -> tuple[int, int]:
    """Seq and time of its last record."""
    if attempt.event is not None:
        return attempt.event.seq, attempt.event.time
    last = attempt.parts[-1]
    return last.seq + last.size - 1, last_time(last.row)


def _kind_of(row: Row) -> str:
    return "deltas" if isinstance(row, PackedRun) else chunk_kind(row)


def _usage_in(value: Mapping[str, Any]) -> TokenUsage | None:
    try:
        return convert(TokenUsage, thaw(value["usage"])) if value.get("usage") is not None else None
    except Mismatch:
        return None
