"""`PlayState`: what a session had come to at one frame. Each part is derived when it is asked for.

It is the state of a log that ends with the frame: messages, surface, open calls and usage are what they would be there.
Messages and surface cost what they hold; open calls and usage cost what their step holds, whatever lies before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

from turnlog.events import Message, TokenUsage, ToolCall, ToolCallBlock, ToolResult, ToolResultBlock, UsageChunk
from turnlog.log import AnyEvent, Replace, Session

from .attempts import attempts
from .index import index_of
from .play_frames import Frame
from .play_groups import Part
from .spans import Span
from .streams import embedded
from .timing import total


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that has no result yet."""

    id: str
    name: str
    arguments: str
    """The model's raw argument text."""
    asked: int | None
    """Seq of the message that asked for it; None where the log has none."""
    started: int | None
    """Seq of its ``tool/call``; None while it has not begun."""


@dataclass(frozen=True)
class PlayState:
    """What a session had come to when *frame* was shown; before its first frame where that is None."""

    session: Session
    frame: Frame | None
    closers: tuple[AnyEvent, ...] = ()
    """The synthetic events shown so far, this frame included."""

    @cached_property
    def length(self) -> int:
        """How many events the log held: a chunk inside an event was there before the event."""
        frame = self.frame
        if frame is None:
            return self.session.rows.base
        if frame.synthetic:
            return len(self.session)
        return frame.seq if frame.k is not None else frame.seq + 1

    @cached_property
    def turn(self) -> int | None:
        """The number of the turn it was in, or None between turns."""
        return self._number("turn")

    @cached_property
    def step(self) -> int | None:
        """The number of the step it was in, or None between steps."""
        return self._number("step")

    @cached_property
    def surface(self) -> tuple[int, ...]:
        """Seqs of the events that the model saw, in order; closers among them have seqs behind the log."""
        closing = [event.seq for event in self.closers if event.message is not None]
        return (*self.session.surface_at(self.length), *closing)

    @cached_property
    def messages(self) -> Sequence[Message]:
        """What the model saw."""
        shown = self.session.derive_messages(at=self.length, as_stored=True)
        closing = [event.message for event in self.closers if event.message is not None]
        return (*shown, *closing) if closing else shown

    @cached_property
    def open_calls(self) -> tuple[OpenCall, ...]:
        """The calls of the open step that were asked for or begun and had no result, in the order they were met."""
        first = self._open_step()
        if first is None:
            return ()
        parts = index_of(self.session).parts_between(first, self.length)
        scan = _OpenCalls()
        for event in [*self.session.rows.gather(parts), *self.closers]:
            scan.read(event)
        return tuple(scan.open())

    @cached_property
    def usage(self) -> TokenUsage | None:
        """What all attempts so far had reported, added; None where none had. An attempt counts as soon as its figure
        is there."""
        costs = _costs_of(self.session)
        figures = costs.before(self.session, self.length)
        frame = self.frame
        if frame is not None and frame.k is not None:
            stream = embedded(self.session.event(frame.seq))[: frame.k + 1]
            told = [timed.chunk.usage for timed in stream if isinstance(timed.chunk, UsageChunk)]
            figures = [*figures, *told[-1:]]
        return total(figures)

    def _open_step(self) -> int | None:
        """Seq of the ``step/start`` of the step that is open, or None."""
        edges = index_of(self.session).step_edges
        at = bisect_left(edges, self.length) - 1
        if at < 0 or self.session.event(edges[at]).type != "step/start":
            return None
        if any(event.type == "step/end" for event in self.closers):
            return None
        turns = index_of(self.session).turn_edges
        return edges[at] if bisect_left(turns, self.length) == bisect_left(turns, edges[at]) else None

    def _number(self, kind: str) -> int | None:
        frame = self.frame
        if frame is None:
            return None
        part = Part(self.session, self.session.closers, "step" if kind == "step" else "turn").bounds(frame.seq)
        if part is None:
            return None
        number: int | None = getattr(self.session.event(part[0]).data, kind, None)
        return number


class _OpenCalls:
    """Joins the calls of one step: the k-th block with an id, the k-th start and the k-th result with it."""

    def __init__(self) -> None:
        self._blocks: dict[str, list[tuple[ToolCallBlock, int]]] = {}
        self._starts: dict[str, list[tuple[ToolCall, int]]] = {}
        self._results: dict[str, int] = {}
        self._met: dict[tuple[str, int], None] = {}  # in order

    def read(self, event: AnyEvent) -> None:
        data = event.data
        if isinstance(event.surface_op, Replace):
            return  # what takes the place of an answer or a result asks for nothing and answers nothing
        match data:
            case ToolCall(call_id=id):
                started = self._starts.setdefault(id, [])
                started.append((data, event.seq))
                self._met.setdefault((id, len(started)))
            case ToolResult():
                id = _answered(data)
                self._results[id] = self._results.get(id, 0) + 1
            case _ if event.type == "assistant/message" and event.message is not None:
                for block in event.message.content:
                    if isinstance(block, ToolCallBlock):
                        asked = self._blocks.setdefault(block.id, [])
                        asked.append((block, event.seq))
                        self._met.setdefault((block.id, len(asked)))
            case _:
                pass

    def open(self) -> Iterator[OpenCall]:
        for id, k in self._met:
            if k <= self._results.get(id, 0):
                continue
            blocks, starts = self._blocks.get(id, []), self._starts.get(id, [])
            block, asked = blocks[k - 1] if k <= len(blocks) else (None, None)
            start, started = starts[k - 1] if k <= len(starts) else (None, None)
            if start is not None:
                yield OpenCall(id, start.name, start.arguments, asked, started)
            elif block is not None:
                yield OpenCall(id, block.name, block.arguments, asked, None)


def _answered(data: ToolResult) -> str:
    blocks = [block.tool_call_id for block in data.message.content if isinstance(block, ToolResultBlock)]
    return data.call_id or (blocks[0] if blocks else "")


class _Costs:
    """What the attempts of a session cost, added up from step to step.

    No attempt reaches across the start of a step, so the log falls into *segments* from one start to the next; the sum
    of the segments before is looked up, and only the last one is read.
    """

    def __init__(self, session: Session) -> None:
        self._borders: list[int] = [session.rows.base]  # where segments begin
        self._sums: list[TokenUsage | None] = [None]  # of all segments before each

    def catch_up(self, session: Session) -> None:
        """Add the segments that have ended since."""
        starts = index_of(session).steps
        for border in starts[bisect_right(starts, self._borders[-1]) :]:
            before = [one for one in (self._sums[-1],) if one is not None]
            self._sums.append(total([*before, *_figures(session, self._borders[-1], border)]))
            self._borders.append(border)

    def before(self, session: Session, length: int) -> list[TokenUsage]:
        """Figures whose sum is what the first *length* events cost."""
        at = bisect_right(self._borders, max(length - 1, self._borders[0])) - 1
        known = self._sums[at]
        return [*([] if known is None else [known]), *_figures(session, self._borders[at], length)]


def _figures(session: Session, first: int, stop: int) -> list[TokenUsage]:
    """The figure of each attempt between two events."""
    if stop <= first:
        return []
    found = attempts(session, Span(0, 0, first, stop), as_stored=True)
    return [attempt.usage for attempt in found if attempt.usage is not None]


_costs: Final[WeakKeyDictionary[Session, _Costs]] = WeakKeyDictionary()
"""A cache and no state, as the indexes of :mod:`turnlog.views.index`."""


def _costs_of(session: Session) -> _Costs:
    found = _costs.get(session)
    if found is None:
        found = _costs[session] = _Costs(session)
    found.catch_up(session)
    return found
