"""Gathering the calls of a log, or of a part of it; :mod:`turnlog.views.calls` is the public face."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from turnlog.events import ToolCall, ToolCallBlock, ToolCallDelta, ToolResult, ToolResultBlock
from turnlog.log import AnyEvent, Replace, Session

from .attempts import attempts
from .call import Call, CallState, is_error
from .index import index_of
from .naming import naming_of
from .provenance import citations, replacements
from .rows import closed, is_live
from .spans import Span
from .streams import TimedChunk

_Place: TypeAlias = tuple[int, int, str]
"""Turn, step, id."""
_APPROVALS = frozenset({"approval/asked", "approval/decided"})
_Key: TypeAlias = tuple[_Place, int]
"""A place and which of its calls, from 0."""


@dataclass
class _Parts:
    """What a step has of one id."""

    blocks: list[tuple[AnyEvent, ToolCallBlock, tuple[TimedChunk, ...]]] = field(default_factory=list)
    starts: list[AnyEvent] = field(default_factory=list)
    results: list[AnyEvent] = field(default_factory=list)

    @property
    def asked(self) -> list[AnyEvent]:
        """The answers that ask."""
        return [event for event, _block, _chunks in self.blocks]

    def number(self) -> int:
        """How many calls."""
        return max(len(self.blocks), len(self.starts), len(self.results))

    def first(self, k: int) -> int:
        """Seq of the first event of the k-th call."""
        return next(one[k].seq for one in (self.asked, self.starts, self.results) if k < len(one))

    def begun(self, k: int) -> int:
        """From which seq on events that name the id may be about the k-th call."""
        return self.starts[k].seq if k < len(self.starts) else self.first(k)


class CallScan:
    """Keeps what has to do with one id, or with any, of the whole log or of the events from *first* up to *stop*."""

    def __init__(
        self, session: Session, id: str | None, as_stored: bool, first: int = 0, stop: int | None = None
    ) -> None:
        self._session = session
        self._id = id
        self._live = is_live(session)
        self._needle = _needle(session, id)
        self._steps: dict[_Place, _Parts] = {}
        self._border = first  # chunks before it belong to an earlier answer
        end = len(session) if stop is None else stop
        parts = session.rows.gather(index_of(session).parts_between(first, end))
        for at in range(len(parts)) if self._needle is None else self._naming(parts):
            if self._needle is not None:
                self._border = _answer_before(parts, at, first)
            self._read(parts[at])
        self._border = _answer_before(parts, len(parts), first)
        if end >= len(session):
            for event in closed(session, as_stored=as_stored):
                self._read(event)

    @property
    def ids(self) -> frozenset[str]:
        """The ids there are."""
        return frozenset(id for _turn, _step, id in self._steps)

    def calls(self) -> tuple[Call, ...]:
        """What was found, in order."""
        found = [(parts.first(k), place, k) for place, parts in self._steps.items() for k in range(parts.number())]
        order = [(place, k) for _first, place, k in sorted(found, key=lambda one: (one[0], one[1][:2], one[2]))]
        about = self._by_call(order)
        made = [self._call(place, k, about.get((place, k), ())) for place, k in order]
        cited = citations(self._session, [seq for one in made for seq in one.seqs])
        return tuple(replace(one, cited_by=_citing(one, cited)) for one in made)

    # -- reading ------------------------------------------------------------------------------------------------

    def _read(self, row: AnyEvent) -> None:
        if isinstance(row.surface_op, Replace):
            return  # what takes the place of an answer or a result asks for nothing and answers nothing
        if row.type == "assistant/message":
            self._message(row)
            self._border = row.seq
        elif row.type == "tool/call":
            if isinstance(row.data, ToolCall) and self._wants(row.data.call_id):
                self._parts(row.data.turn, row.data.step, row.data.call_id).starts.append(row)
        elif row.type == "tool/result" and isinstance(row.data, ToolResult):
            call_id = _answered(row.data)
            if self._wants(call_id):
                self._parts(row.data.turn, row.data.step, call_id).results.append(row)

    def _naming(self, parts: Sequence[AnyEvent]) -> list[int]:
        """Which of *parts* have a stored text that can name the id at all."""
        needle, escaped = self._needle, index_of(self._session).escaped(self._session)
        assert needle is not None
        return [at for at, one in enumerate(parts) if needle in one.raw or one.seq in escaped]

    def _wants(self, id: str) -> bool:
        return self._id is None or id == self._id

    def _parts(self, turn: int, step: int, id: str) -> _Parts:
        return self._steps.setdefault((turn, step, id), _Parts())

    def _message(self, event: AnyEvent) -> None:
        message = event.message
        blocks = [block for block in message.content if isinstance(block, ToolCallBlock)] if message is not None else []
        wanted = [block for block in blocks if self._wants(block.id)]
        if not wanted:
            return
        streams = _argument_streams(self._stream(event))
        turn, step = getattr(event.data, "turn", 0), getattr(event.data, "step", 0)
        for block in wanted:
            known = self._parts(turn, step, block.id)
            known.blocks.append((event, block, _stream_of(block, blocks, streams)))

    def _stream(self, event: AnyEvent) -> Iterable[TimedChunk]:
        """The argument deltas of the attempt that a message settles: those of a failed one went into no block."""
        step = index_of(self._session).step_start(event.seq) or 0
        turn, number = getattr(event.data, "turn", 0), getattr(event.data, "step", 0)
        span = Span(turn, number, max(self._border, step), event.seq + 1, ended=False)
        found = attempts(self._session, span, as_stored=True)
        return next((one.argument_chunks for one in found if one.event is not None and one.event.seq == event.seq), ())

    # -- putting together ---------------------------------------------------------------------------------------

    def _by_call(self, order: list[_Key]) -> dict[_Key, tuple[AnyEvent, ...]]:
        """Events that name an id, by the last call with that id that had begun before them."""
        begun: dict[str, list[tuple[int, _Key]]] = {}
        for place, k in order:
            begun.setdefault(place[2], []).append((self._steps[place].begun(k), (place, k)))
        named = naming_of(self._session).by_id
        found: dict[_Key, tuple[AnyEvent, ...]] = {}
        for id, known in begun.items():
            for event in named.get(id, ()):
                before = [one for one in known if one[0] < event.seq]
                _seq, owner = max(before) if before else min(known, key=self._met)
                found[owner] = (*found.get(owner, ()), event)
        return found

    def _met(self, known: tuple[int, _Key]) -> int:
        """The seq of the first part of a call, also where an answer asks for what has begun already."""
        _begun, (place, k) = known
        parts = self._steps[place]
        return min(event.seq for one in (parts.asked, parts.starts, parts.results) for event in one[k : k + 1])

    def _call(self, place: _Place, k: int, about: tuple[AnyEvent, ...]) -> Call:
        parts = self._steps[place]
        turn, step, id = place
        asked, block, chunks = parts.blocks[k] if k < len(parts.blocks) else (None, None, ())
        started = parts.starts[k] if k < len(parts.starts) else None
        result = parts.results[k] if k < len(parts.results) else None
        synthetic = result is not None and result.seq >= len(self._session)
        chain = () if result is None or synthetic else tuple(replacements(self._session, result.seq))
        state = self._state(started, result, synthetic)
        approvals = tuple(event for event in about if event.type in _APPROVALS)
        others = tuple(event for event in about if event.type not in _APPROVALS)
        return Call(
            id, turn, step, k + 1, state, block, asked, chunks, started, approvals, result, synthetic, others, chain
        )

    def _state(self, started: AnyEvent | None, result: AnyEvent | None, synthetic: bool) -> CallState:
        if synthetic:
            return "interrupted"
        if result is not None:
            return "failed" if is_error(result) else "done"
        if not self._live:
            return "interrupted"
        return "asked" if started is None else "running"


def _answer_before(parts: Sequence[AnyEvent], at: int, first: int) -> int:
    """The seq of the last answer before ``parts[at]``; *first* where there is none."""
    for place in range(at - 1, -1, -1):
        if parts[place].type == "assistant/message" and not isinstance(parts[place].surface_op, Replace):
            return parts[place].seq
    return first


def _citing(call: Call, cited: Mapping[int, list[int]]) -> tuple[int, ...]:
    own = frozenset(call.seqs)
    return tuple(sorted({by for seq in own for by in cited.get(seq, ()) if by not in own}))


def _needle(session: Session, id: str | None) -> bytes | None:
    """Bytes that every event naming the id has in its stored text, where that can be said."""
    plain = id is not None and id.isascii() and id.replace("_", "").replace("-", "").replace(".", "").isalnum()
    if id is None or not plain or getattr(session, "format", "") == "sample":  # its results name their call by seq
        return None
    return id.encode()


def _answered(data: ToolResult) -> str:
    blocks = [block.tool_call_id for block in data.message.content if isinstance(block, ToolResultBlock)]
    return data.call_id or (blocks[0] if blocks else "")


def _argument_streams(chunks: Iterable[TimedChunk]) -> dict[int, list[TimedChunk]]:
    """The argument deltas among *chunks*, by block index."""
    streams: dict[int, list[TimedChunk]] = {}
    for one in chunks:
        if isinstance(one.chunk, ToolCallDelta):
            streams.setdefault(one.chunk.index, []).append(one)
    return streams


def _stream_of(
    block: ToolCallBlock, blocks: list[ToolCallBlock], streams: dict[int, list[TimedChunk]]
) -> tuple[TimedChunk, ...]:
    """The deltas of one block: of its id and its rank among blocks with that id; failing that, of its rank alone."""
    ids = {index: next((c.id for c in (one.chunk for one in stream) if isinstance(c, ToolCallDelta) and c.id), "")
           for index, stream in sorted(streams.items())}  # fmt: skip
    same = [one for one in blocks if one.id == block.id]
    mine = [index for index, id in ids.items() if id == block.id]
    rank = next(k for k, one in enumerate(same) if one is block)
    if not mine and not any(ids.values()):  # a stream without ids
        mine, rank = list(ids), next(k for k, one in enumerate(blocks) if one is block)
    return tuple(streams[mine[rank]]) if rank < len(mine) else ()
