"""Events as stored lines: what a batch of events looks like on disk (dsh-v0 §7.2-7.3).

Runs of three or more deltas of one block become one packed row. Packing is per batch: a row never waits for the next
delta, and what is durable is never rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from turnlog.events import AssistantChunk, ReasoningDelta, TextDelta, ToolCallDelta
from turnlog.events.lossless import MAX_SAFE, dump
from turnlog.log import AnyEvent

SHORTEST_RUN: Final = 3
"""Fewer deltas than this are stored as they are, as dsh does."""

LONGEST_RUN: Final = 1024
"""More would make one line of what readers want to page."""


def lines_of(events: Sequence[AnyEvent], *, packed: bool = True) -> list[bytes]:
    """The stored lines of consecutive events, in order, without newlines."""
    return packed_lines(events, [event.line() for event in events]) if packed else [event.line() for event in events]


def packed_lines(events: Sequence[AnyEvent], lines: Sequence[bytes]) -> list[bytes]:
    """The same, given each event's own line."""
    if len(events) < SHORTEST_RUN or sum(event.type == "assistant/chunk" for event in events) < SHORTEST_RUN:
        return list(lines)
    stored: list[bytes] = []
    at = 0
    for run in _runs(events):
        if len(run) >= SHORTEST_RUN:
            stored.append(_row(run))
        else:
            stored += lines[at : at + len(run)]
        at += len(run)
    return stored


def _runs(events: Sequence[AnyEvent]) -> Iterator[list[AnyEvent]]:
    """The events, cut where a packed row would have to end."""
    run: list[AnyEvent] = []
    kind: tuple[Any, ...] | None = None
    for event in events:
        found = _kind(event)
        fits = found is not None and found == kind and len(run) < LONGEST_RUN and _near(run[-1], event)
        if not fits and run:
            yield run
            run = []
        run.append(event)
        kind = found
        if found is None:
            yield run
            run = []
    if run:
        yield run


def _kind(event: AnyEvent) -> tuple[Any, ...] | None:
    """What all members of a row have in common, or None for an event that no row may hold."""
    if event.type != "assistant/chunk" or event.ignorable:
        return None
    data = event.data
    if not isinstance(data, AssistantChunk) or event.raw != dump(data):
        return None  # members that the typed view does not have would be lost
    match data.chunk:
        case TextDelta(index=index):
            return ("text-chunks", data.turn, data.step, index)
        case ReasoningDelta(index=index):
            return ("reasoning-chunks", data.turn, data.step, index)
        case ToolCallDelta(index=index, id=call_id, name=name):
            return ("tool-call-chunks", data.turn, data.step, index, call_id, name)
        case _:
            return None


def _near(before: AnyEvent, after: AnyEvent) -> bool:
    return after.seq == before.seq + 1 and abs(after.time - before.time) <= MAX_SAFE


def _row(run: Sequence[AnyEvent]) -> bytes:
    kind = _kind(run[0])
    assert kind is not None
    name, turn, step, index, *call = kind
    data: dict[str, Any] = {"turn": turn, "step": step, "index": index}
    data["dt"] = [after.time - before.time for before, after in pairwise(run)]
    if call:
        data["id"] = call[0]
        if call[1] is not None:
            data["name"] = call[1]
    data["args" if call else "texts"] = [_text(event) for event in run]
    return dump({"type": name, "seq0": run[0].seq, "time0": run[0].time, "data": data})


def _text(event: AnyEvent) -> str:
    data = event.data
    assert isinstance(data, AssistantChunk)
    match data.chunk:
        case TextDelta(text=text) | ReasoningDelta(text=text) | ToolCallDelta(arguments_delta=text):
            return text
        case _:
            raise AssertionError(f"{event!r} is no delta")
