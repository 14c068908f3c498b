"""`assert_log`: what a log has to hold, event by event, and a readable difference when it does not.

::

    assert_log(session, [
        "turn/start",                                   one event of that type
        UserMessage,                                    the same, by its class
        "step/start",
        "request/*",                                    any number of events whose type begins so; none is fine
        chunks(3),                                      exactly three chunks; chunks() is one or more
        like(AssistantMessage, text="Hello"),           an event with these fields; functions are asked
        StepEnd(turn=1, step=1),                        exactly this payload
        ...,                                            whatever comes, any number of events
        TurnEnd(turn=1, reason=Completed()),
    ])

`like` looks a name up in the payload, then in its message (``text``, ``role``, ``content``); payloads that are kept as
JSON are asked by their JSON's names: ``like("hook/result", decision="block")``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Final, TypeAlias

from turnlog.events import AssistantChunk, OpaquePayload, Payload, ToolResult, TurnEnd
from turnlog.events.codec import encode
from turnlog.log import AnyEvent, Session
from turnlog.views.streams import chunk_type

LONGEST: Final = 100
"""Characters of a fact that a difference shows."""
LARGEST: Final = 4_000_000
"""Patterns times events up to which a difference is worked out; above it the first misfit is named."""
CONTEXT: Final = 3
"""Lines that fit which a difference shows around those that do not."""


@dataclass(frozen=True, slots=True)
class Like:
    """Made by :func:`like`."""

    kind: type[Payload] | str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Chunks:
    """Made by :func:`chunks`."""

    number: int | None
    kind: str | None


Pattern: TypeAlias = (
    str | type[Payload] | Payload | Like | Chunks | EllipsisType | Callable[[AnyEvent], object]
)  # fmt: skip
"""What one or more events have to be."""


def like(kind: type[Payload] | str, **fields: object) -> Like:
    """One event of *kind* whose fields have these values, or pass these functions."""
    return Like(kind, fields)


def chunks(number: int | None = None, kind: str | None = None) -> Chunks:
    """So many chunks in a row, or one and more; of one *kind* (``text-delta``), if given."""
    return Chunks(number, kind)


def assert_log(
    log: Session | Iterable[AnyEvent], patterns: Sequence[Pattern], *, without: Collection[str] = ()
) -> None:
    """Raise ``AssertionError`` with a difference unless the events are what the *patterns* say, all and in order.

    Events of the types in *without* are not looked at.
    """
    everything = log.events if isinstance(log, Session) else log
    events = [event for event in everything if event.type not in without]
    items = [item for pattern in patterns for item in _items(pattern)]
    fits = _fitting(items, events)
    if fits is None:
        return
    name = f"session {log.id}" if isinstance(log, Session) else "the events"
    raise AssertionError(
        f"the log is not what was expected\n--- expected\n+++ {name}, {len(events)} events\n"
        + "\n".join(_difference(items, events, fits))
    )


# -- patterns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Item:
    """One event of a pattern, or any number of them."""

    fits: Callable[[AnyEvent], object]
    says: str
    type: str | None = None
    """The type of event that it is about."""
    many: bool = False
    misfit: Callable[[AnyEvent], Iterator[str]] = lambda event: iter(())
    """What is wrong with an event of its type."""


def _items(pattern: Pattern) -> Iterator[_Item]:
    match pattern:
        case EllipsisType():
            yield _Item(lambda event: True, "...", many=True)
        case str() if pattern.endswith("*"):
            yield _Item(lambda event: event.type.startswith(pattern[:-1]), pattern, many=True)
        case str():
            yield _Item(lambda event: event.type == pattern, pattern, pattern)
        case type() if issubclass(pattern, Payload):
            says = pattern.event_type or f"a {pattern.__name__}"
            yield _Item(lambda event: isinstance(event.data, pattern), says, pattern.event_type or None)
        case Payload():
            says = _told(pattern.event_type, pattern)
            yield _Item(lambda event: event.data == pattern, says, pattern.event_type, misfit=_unequal(pattern))
        case Like():
            yield _like(pattern)
        case Chunks(number=number, kind=kind):
            one = _chunk(kind)
            yield from [one] * (1 if number is None else number)
            if number is None:
                yield _Item(one.fits, f"{one.says} …", many=True)
        case _ if callable(pattern):
            yield _Item(pattern, f"<{_named(pattern)}>")
        case _:
            raise TypeError(f"{pattern!r} is no pattern: use a type, a payload, like(…), chunks(…) or ...")


def _chunk(kind: str | None) -> _Item:
    def fits(event: AnyEvent) -> bool:
        return isinstance(event.data, AssistantChunk) and kind in (None, chunk_type(event.data.chunk))

    return _Item(fits, "assistant/chunk" if kind is None else f"assistant/chunk {kind}", "assistant/chunk")


def _like(pattern: Like) -> _Item:
    kind, fields = pattern.kind, pattern.fields
    type_name = kind if isinstance(kind, str) else kind.event_type

    def misfit(event: AnyEvent) -> Iterator[str]:
        for name, wanted in fields.items():
            found = _field(event, name)
            if not _is(found, wanted):
                yield f"{name}: expected {_shown(wanted)}, got {_shown(found)}"

    def fits(event: AnyEvent) -> bool:
        return event.type == type_name and not any(misfit(event))

    said = ", ".join(f"{name}={_shown(wanted)}" for name, wanted in fields.items())
    return _Item(fits, f"{type_name} with {said}" if said else type_name, type_name, misfit=misfit)


def _unequal(payload: Payload) -> Callable[[AnyEvent], Iterator[str]]:
    def misfit(event: AnyEvent) -> Iterator[str]:
        for name in payload.__struct_fields__:
            wanted, found = getattr(payload, name), getattr(event.data, name, _ABSENT)
            if wanted != found:
                yield f"{name}: expected {_shown(wanted)}, got {_shown(found)}"

    return misfit


class _Absent:
    def __repr__(self) -> str:
        return "nothing of that name"


_ABSENT: Final = _Absent()


def _field(event: AnyEvent, name: str) -> object:
    data = event.data
    if isinstance(data, OpaquePayload):
        return data.value.get(name, _ABSENT) if isinstance(data.value, Mapping) else _ABSENT
    return getattr(data, name) if hasattr(data, name) else getattr(event.message, name, _ABSENT)


def _is(found: object, wanted: object) -> bool:
    if callable(wanted):
        return found is not _ABSENT and bool(wanted(found))
    return found == wanted


def _shown(value: object) -> str:
    return _short(f"<{_named(value)}>" if callable(value) else repr(value))


def _named(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


# -- whether they fit -------------------------------------------------------------------------------------------------


def _fitting(items: Sequence[_Item], events: Sequence[AnyEvent]) -> int | None:
    """None when the events are what the items say; else how many of them could be the beginning of it."""
    states = _reachable(items, {0})
    for number, event in enumerate(events):
        after = {
            at if items[at].many else at + 1 for at in states if at < len(items) and items[at].fits(event)
        }  # fmt: skip
        states = _reachable(items, after)
        if not states:
            return number
    return None if len(items) in states else len(events)


def _reachable(items: Sequence[_Item], states: set[int]) -> set[int]:
    """These states, and those after items that any number of events may be, none too."""
    found: set[int] = set()
    for at in states:
        found.add(at)
        while at < len(items) and items[at].many:
            at += 1
            found.add(at)
    return found


# -- how they differ --------------------------------------------------------------------------------------------------


def _difference(items: Sequence[_Item], events: Sequence[AnyEvent], fits: int) -> Iterator[str]:
    same = 0
    while same < min(len(items), fits) and not items[same].many and items[same].fits(events[same]):
        same += 1
    if (len(items) - same) * (len(events) - same) > LARGEST:
        yield f"the first {fits} events fit; then comes"
        yield from (f"+ {_line(event)}" for event in events[fits : fits + CONTEXT])
        return
    lines = [f"  {_line(event)}" for event in events[:same]]
    lines += _aligned(items[same:], events[same:])
    yield from _near(lines)


def _aligned(items: Sequence[_Item], events: Sequence[AnyEvent]) -> Iterator[str]:
    """The lines of a difference, from the cheapest way to make one of the other."""
    costs = _costs(items, events)
    at = seen = 0
    while at < len(items) or seen < len(events):
        match _cheapest(items, events, costs, at, seen)[1]:
            case "same":
                yield f"  {_line(events[seen])}"
                at, seen = at + (not items[at].many), seen + 1
            case "enough":
                at += 1
            case "other":
                yield f"- {items[at].says}"
                yield f"+ {_line(events[seen])}"
                yield from (f"?     {fault}" for fault in items[at].misfit(events[seen]))
                at, seen = at + 1, seen + 1
            case "missing":
                yield f"- {items[at].says}"
                at += 1
            case _:
                yield f"+ {_line(events[seen])}"
                seen += 1


def _costs(items: Sequence[_Item], events: Sequence[AnyEvent]) -> list[list[float]]:
    costs = [[0.0] * (len(events) + 1) for _ in range(len(items) + 1)]
    for at in range(len(items), -1, -1):
        for seen in range(len(events), -1, -1):
            if at < len(items) or seen < len(events):
                costs[at][seen] = _cheapest(items, events, costs, at, seen)[0]
    return costs


def _cheapest(
    items: Sequence[_Item], events: Sequence[AnyEvent], costs: list[list[float]], at: int, seen: int
) -> tuple[float, str]:
    """What to do at this place, and what it costs from here to the end."""
    ways: list[tuple[float, str]] = []
    if seen < len(events):
        ways.append((costs[at][seen + 1] + 1, "extra"))
    if at < len(items):
        item = items[at]
        ways.append((costs[at + 1][seen], "enough") if item.many else (costs[at + 1][seen] + 1, "missing"))
        if seen < len(events):
            event = events[seen]
            if item.fits(event):
                ways.append((costs[at if item.many else at + 1][seen + 1], "same"))
            elif item.type == event.type:
                ways.append((costs[at + 1][seen + 1] + 0.9, "other"))
    return min(ways, key=lambda way: (way[0], way[1] != "same"))


def _near(lines: Sequence[str]) -> Iterator[str]:
    """The lines that differ and a few around them."""
    wrong = [number for number, line in enumerate(lines) if line[0] != " "]
    kept = {number for at in wrong for number in range(at - CONTEXT, at + CONTEXT + 1) if 0 <= number < len(lines)}
    before = -1
    for number in sorted(kept):
        if number != before + 1:
            yield f"  … {number - before - 1} that fit"
        yield lines[number]
        before = number
    if before < len(lines) - 1:
        yield f"  … {len(lines) - 1 - before} that fit"


def _line(event: AnyEvent) -> str:
    return f"@{event.seq} {_told(event.type, event.data, event)}"


def _told(type: str, data: Payload, event: AnyEvent | None = None) -> str:
    """Type, turn and step, and a short fact."""
    turn, step = getattr(data, "turn", None), getattr(data, "step", None)
    place = "" if turn is None else f" t{turn}" if step is None else f" t{turn}.s{step}"
    return f"{type}{place} {_short(_fact(data, event))}".rstrip()


def _fact(data: Payload, event: AnyEvent | None) -> str:
    match data:
        case AssistantChunk(chunk=chunk):
            said = getattr(chunk, "text", getattr(chunk, "arguments_delta", None))
            return chunk_type(chunk) + ("" if said is None else f" {said!r}")
        case TurnEnd(reason=reason):
            return repr(reason)
        case OpaquePayload():
            return encode(data).decode(errors="replace")
    message = getattr(data, "message", None) if event is None else event.message
    if message is not None:
        blocks = ", ".join(type(block).__name__ for block in message.content)
        said = repr(message.text) if message.text else f"[{blocks}]"
        return f"{data.call_id} {said}" if isinstance(data, ToolResult) else said
    rest = [name for name in data.__struct_fields__ if name not in ("turn", "step")]
    return " ".join(f"{name}={getattr(data, name)!r}" for name in rest if getattr(data, name) is not None)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
