"""``turnlog call``"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.log import AnyEvent
from turnlog.views import Call, queries
from turnlog.views.address import CallAddress, parse_address

from .. import describe
from ..json_views import call_view, document
from ..moments import Clock
from ..opening import Which, open_session
from ..screen import Screen, Style, Styled
from ..text import duration

_STYLES: dict[str, Style] = {"done": "green", "failed": "red", "interrupted": "yellow"}


def call(screen: Screen, which: Which, name: str, *, as_json: bool) -> None:
    """Print the life of every call with an id, or of one."""
    session = open_session(screen, which)
    found = queries.call(session, _address(name))
    if as_json:
        screen.json(document(calls=[call_view(one) for one in found]))
        return
    for place, one in enumerate(found):
        if place:
            screen.line("")
        _print(screen, one)


def _address(text: str) -> CallAddress:
    """An address, or a bare id."""
    if text.startswith("call:") or ".call:" in text:
        address = parse_address(text)
        if isinstance(address, CallAddress):
            return address
    return CallAddress(text)


def _print(screen: Screen, one: Call) -> None:
    took = "" if one.duration_ms is None else f" in {duration(one.duration_ms)}"
    twice = f" (number {one.occurrence} with this id in its step)" if one.occurrence > 1 else ""
    state = Styled(f"{one.state}{took}", _STYLES.get(one.state, "dim"))
    screen.line(Styled(one.address, "bold"), f"  {one.name}  ", state, twice)
    for label, address, text in _facts(screen.clock, one):
        screen.line(f"  {label:14} ", Styled(f"{address:8}", "cyan"), f" {text}".rstrip())


def _facts(clock: Clock, one: Call) -> Iterator[tuple[str, str, str]]:
    if one.asked is not None and one.block is not None:
        yield "asked", f"@{one.asked.seq}", one.block.arguments
    if one.chunks:
        first, last = one.chunks[0], one.chunks[-1]
        number = f"{len(one.chunks)} chunk" + ("s" if len(one.chunks) > 1 else "")
        yield "chunks", first.address, f"{number} in {duration(max(last.time - first.time, 0))}"
    events = [one.started, *one.approvals, *one.others, one.result]
    for event in sorted((event for event in events if event is not None), key=lambda event: event.seq):
        yield _fact(clock, one, event)
    if one.replaced_by:
        yield "replaced by", "", _seqs(one.replaced_by)
    if one.cited_by:
        yield "cited by", "", _seqs(one.cited_by)


def _fact(clock: Clock, one: Call, event: AnyEvent) -> tuple[str, str, str]:
    if event is one.result:
        mark = describe.SYNTHETIC if one.synthetic else ""
        return event.type, "" if one.synthetic else f"@{event.seq}", f"{clock.show(event.time)}  {one.text}{mark}"
    told = describe.notable(event) if event.type.startswith("approval/") else None
    return event.type, f"@{event.seq}", f"{clock.show(event.time)}  {told.partition(': ')[2] if told else ''}"


def _seqs(seqs: tuple[int, ...]) -> str:
    return ", ".join(f"@{seq}" for seq in seqs)
