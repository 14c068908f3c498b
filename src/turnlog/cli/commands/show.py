"""``turnlog show``"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from turnlog.events import ToolCall, TurnEnd
from turnlog.events.lossless import plain
from turnlog.log import AnyEvent, Session
from turnlog.views import attempts, outline
from turnlog.views.attempts import by_step
from turnlog.views.captured import Remark, captured
from turnlog.views.outline import Chunks, Item, Outline, Step, Turn
from turnlog.views.spans import step_spans, turn_spans
from turnlog.views.usage import usage

from .. import describe
from ..json_views import attempt_view, document, session_view
from ..money import known_prices, tally_line, tally_view
from ..opening import Which, open_session
from ..screen import Screen, Style, Styled
from ..text import rfc3339


def show(screen: Screen, which: Which, *, everything: bool, as_stored: bool, as_json: bool) -> None:
    """Print the outline of a session."""
    session = open_session(screen, which)
    found = outline(session, as_stored=as_stored)
    if not found.items:
        screen.nothing("the log holds no events")
    if as_json:
        screen.json(document(session=session_view(session), outline=_json(session, found, as_stored),
                             usage=tally_view(usage(session).tally(known_prices(screen)))))  # fmt: skip
        return
    printer = _Printer(screen, found, everything)
    printer.items(found.items, 0)
    if screen.terminal:  # in a pipe the outline is the lines of the documents' script and no more
        spent = usage(session).tally(known_prices(screen))
        if spent.requests > spent.unreported:
            screen.row(Styled(f"usage: {tally_line(spent)}", "dim"))
    if printer.hidden and screen.terminal:  # in a pipe nobody wonders where they are
        screen.hint(f"--all shows {printer.hidden} more event{'s' if printer.hidden > 1 else ''}")
    if found.turns and found.turns[-1].state == "running":
        screen.hint(f"{found.turns[-1].address} is running: its writer is alive")


def show_captured(screen: Screen, which: Which, *, as_json: bool) -> None:
    """Print what the log of a session holds and what it does not."""
    session = open_session(screen, which)
    found = captured(session)
    if as_json:
        screen.json(document(session=session_view(session), holds=[_remark(one) for one in found.holds],
                             lacks=[_remark(one) for one in found.lacks]))  # fmt: skip
        return
    for title, remarks in (("holds", found.holds), ("does not hold, or cannot vouch for", found.lacks)):
        screen.line(Styled(title, "bold"))
        for one in remarks:
            number = "" if one.number is None else str(one.number)
            place = "" if one.seq is None else f" (@{one.seq})"
            screen.line("  ", Styled(f"{one.code:22}", "cyan"), f" {number:>6}  {one.text}{place}")


def _remark(one: Remark) -> dict[str, Any]:
    return {"code": one.code, "text": one.text, "number": one.number, "seq": one.seq}


class _Printer:
    """Prints the lines of the documents' script; ``everything`` adds a line for each other event."""

    def __init__(self, screen: Screen, found: Outline, everything: bool) -> None:
        self._screen = screen
        self._found = found
        self._everything = everything
        self.hidden = 0
        """How many events were left out."""

    def items(self, items: list[Any], depth: int) -> None:
        shown = items if self._everything else [one for one in items if self._shows(one)]
        self.hidden += len(items) - len(shown)
        for item in _joined(shown):
            self._item(item, depth)

    def _shows(self, item: Item) -> bool:
        if isinstance(item, Turn | Step | Chunks):
            return True
        return describe.boundary(item) is not None or describe.notable(item) is not None

    def _item(self, item: Item, depth: int) -> None:
        match item:
            case Turn(start=start, end=end) | Step(start=start, end=end):
                self._event(start, depth)
                self.items(item.items, 1)
                self._event(end, depth)
            case Chunks(kind=kind, number=number):
                self._line(describe.chunks(kind, number), depth, "dim")
            case _:
                self._event(item, depth)

    def _event(self, event: AnyEvent | None, depth: int) -> None:
        if event is None:
            return
        told = describe.boundary(event)
        style: Style | None = None if told is None else "bold"
        if told is None:
            told = describe.notable(event)
            style = None if told is None else "cyan" if event.type == "tool/call" else "yellow"
        if event.seq in self._found.orphans:
            told = f"{told}{describe.ORPHAN}"
        if self._found.is_synthetic(event):
            told = f"{told or describe.anything(event)}{describe.SYNTHETIC}"
            style = "yellow"
        self._line(told or describe.anything(event), depth, style)

    def _line(self, text: str, depth: int, style: Style | None) -> None:
        indented = "  " * depth + text
        self._screen.row(indented if style is None else Styled(indented, style))


def _joined(items: list[Any]) -> list[Any]:
    """Chunks of one kind that only hidden events stood between become one run again."""
    joined: list[Any] = []
    for item in items:
        last = joined[-1] if joined else None
        if isinstance(item, Chunks) and isinstance(last, Chunks) and last.kind == item.kind:
            joined[-1] = last.with_more(item)
        else:
            joined.append(item)
    return joined


# -- JSON -----------------------------------------------------------------------------------------------------------


def _json(session: Session, found: Outline, as_stored: bool) -> list[Any]:
    return _Json(session, found, as_stored).items(found.items)


class _Json:
    """Makes the views of an outline."""

    def __init__(self, session: Session, found: Outline, as_stored: bool) -> None:
        self._found = found
        self._attempts = by_step(attempts(session, as_stored=as_stored))
        turns = turn_spans(session)
        spans = (*turns, *(step for one in turns for step in step_spans(session, one)))
        self._last = {span.first: span.stop - 1 for span in spans}

    def items(self, items: Iterable[Item]) -> list[dict[str, Any]]:
        """The views of some items."""
        return [self._item(item) for item in items]

    def _item(self, item: Item) -> dict[str, Any]:
        match item:
            case Turn():
                end = None if item.end is None else item.end.data
                reason = plain(end.reason) if isinstance(end, TurnEnd) else None
                return {"kind": "turn", "turn": item.turn, **self._span(item), "reason": reason,
                        "items": self.items(item.items)}  # fmt: skip
            case Step():
                made = [attempt_view(one) for one in self._attempts.get((item.turn, item.step), ())]
                return {"kind": "step", "turn": item.turn, "step": item.step, **self._span(item), "attempts": made,
                        "items": self.items(item.items)}  # fmt: skip
            case Chunks():
                return {"kind": "chunks", "address": item.address, "loggedAt": rfc3339(item.time), "chunk": item.kind,
                        "count": item.number}  # fmt: skip
            case _:
                return self._event(item)

    def _span(self, item: Turn | Step) -> dict[str, Any]:
        start, end = item.start, item.end
        first = None if start is None else start.seq
        return {
            "address": item.address,
            "state": item.state,
            "firstSeq": first,
            "lastSeq": None if first is None else self._last.get(first),
            "startedAt": None if start is None else rfc3339(start.time),
            "endedAt": None if end is None else rfc3339(end.time),
            "durationMs": None if start is None or end is None else max(end.time - start.time, 0),
        }

    def _event(self, event: AnyEvent) -> dict[str, Any]:
        view: dict[str, Any] = {"kind": "event", "type": event.type, "seq": event.seq, "loggedAt": rfc3339(event.time)}
        if isinstance(event.data, ToolCall):
            view |= {"callId": event.data.call_id, "name": event.data.name}
        if event.seq in self._found.orphans:
            view["orphan"] = True
        if self._found.is_synthetic(event):
            view["synthetic"] = True
        return view
