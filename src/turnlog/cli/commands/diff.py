"""``turnlog diff``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from turnlog.events.lossless import dump
from turnlog.store import StoredSession
from turnlog.views.context import context
from turnlog.views.context_diff import diff_contexts
from turnlog.views.diff import Diff, Difference, diff
from turnlog.views.diff_events import EventsDiff, Side, diff_events, diff_messages
from turnlog.views.normal import NormalEvent
from turnlog.views.prices import PriceTable

from ..json_views import document
from ..money import cost_text, cost_view, known_prices
from ..opening import Which, open_session
from ..problems import WrongUsage
from ..screen import NOTHING, Screen, Styled
from .context import print_rows, rows_view, show_diff

_MOST: Final = 50
"""Differences that are printed; --json has all."""


def show(
    screen: Screen, left: str, right: str, roots: Sequence[Path], *, over: str, at: str | None, as_json: bool
) -> None:
    """Print where two sessions part."""
    if (over == "context") != (at is not None):
        raise WrongUsage("--over context and --at STEP go together: the request of one step is compared")
    if left == right == "-":
        raise WrongUsage("standard input holds one session; name the other")
    one, other = (open_session(screen, Which(name, False, roots)) for name in (left, right))
    match over:
        case "events":
            same = _show_events(screen, one, other, as_json)
        case "messages":
            same = _show_messages(screen, one, other, as_json)
        case "context":
            assert at is not None
            found = diff_contexts(context(one, at), context(other, at))
            show_diff(screen, found, as_json=as_json)
            same = found.same
        case _:
            same = _show_structure(screen, diff(one, other), as_json)
    if not same:
        screen.code = screen.code or NOTHING


# -- structure ------------------------------------------------------------------------------------------------------


def _show_structure(screen: Screen, found: Diff, as_json: bool) -> bool:
    if as_json:
        screen.json(document(**_structure_view(found, known_prices(screen))))
        return found.same
    screen.line(Styled("the same", "green") if found.same else _parts(found.first))
    for one in found.differences[:_MOST]:
        _print_difference(screen, one)
    if len(found.differences) > _MOST:
        screen.hint(f"{len(found.differences) - _MOST} more differences; --json has all of them")
    for name, mine in found.left_totals.items():
        theirs = found.right_totals[name]
        if mine or theirs:
            change = f"  {theirs - mine:+d}" if theirs != mine else ""
            screen.line(f"  {name:<17} {mine:>10} {theirs:>10}", Styled(change, "yellow"))
    costs = found.costs(known_prices(screen))
    if any(cost.priced for cost in costs):
        left, right = map(cost_text, costs)
        screen.line(f"  {'cost':<17} {left:>10} {right:>10}")
    return found.same


def _parts(first: Difference | None) -> Styled:
    assert first is not None
    where = first.left_address or f"{first.right_address} (only on the right)"
    return Styled(f"they part at {where}: {first.kind}", "yellow")


def _print_difference(screen: Screen, one: Difference) -> None:
    if one.left_address is None or one.right_address is None:
        mark, address, said = ("+", one.right_address, one.right) if one.left_address is None else (
            "-", one.left_address, one.left)  # fmt: skip
        screen.line("  ", Styled(mark, "green" if mark == "+" else "red"), f" {address}  {one.kind}  {_said(said)}")
        return
    same = one.left_address == one.right_address
    address = one.left_address if same else f"{one.left_address} / {one.right_address}"
    left, right = _apart(_said(one.left), _said(one.right))
    screen.line("  ", Styled("~", "yellow"), f" {address}  {one.kind}")
    screen.line("      ", Styled("-", "red"), f" {left}")
    screen.line("      ", Styled("+", "green"), f" {right}")


def _structure_view(found: Diff, prices: PriceTable) -> dict[str, Any]:
    left, right = found.costs(prices)
    return {
        "left": found.left.id,
        "right": found.right.id,
        "same": found.same,
        "first": None if found.first is None else _difference_view(found.first),
        "differences": [_difference_view(one) for one in found.differences],
        "totals": {"left": found.left_totals, "right": found.right_totals},
        "costs": {"left": cost_view(left), "right": cost_view(right)},
    }


def _difference_view(one: Difference) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "leftAddress": one.left_address,
        "rightAddress": one.right_address,
        "left": one.left,
        "right": one.right,
    }


# -- events and messages --------------------------------------------------------------------------------------------


def _show_events(screen: Screen, left: StoredSession, right: StoredSession, as_json: bool) -> bool:
    found = diff_events(left, right)
    if as_json:
        screen.json(document(left=left.id, right=right.id, **_events_view(found)))
        return found.same
    if found.first is None:
        screen.line(Styled("the same", "green"))
        return True
    screen.line(Styled("they part at ", "yellow"), str(found.first))
    for one, other in found.sides[:_MOST]:
        for mark, event in (("-", one), ("+", other)):
            if event is not None:
                body = event.body.decode(errors="replace")
                style = Styled(mark, "red" if mark == "-" else "green")
                screen.row("  ", style, f" {event.address} {event.type} {_short(body)}")
    if len(found.sides) > _MOST:
        screen.hint(f"{len(found.sides) - _MOST} more places; --json has all of them")
    return False


def _events_view(found: EventsDiff) -> dict[str, Any]:
    first = found.first
    return {
        "same": found.same,
        "first": None
        if first is None
        else {
            "index": first.index,
            "left": _event_view(first.left),
            "right": _event_view(first.right),
            "path": first.path,
            "leftValue": first.left_value,
            "rightValue": first.right_value,
        },
        "differences": [_side_view(side) for side in found.sides],
    }


def _side_view(side: Side) -> dict[str, Any]:
    return {"left": _event_view(side[0]), "right": _event_view(side[1])}


def _event_view(event: NormalEvent | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return {"address": event.address, "seq": event.seq, "type": event.type, "data": event.data}


def _show_messages(screen: Screen, left: StoredSession, right: StoredSession, as_json: bool) -> bool:
    rows = diff_messages(left, right)
    same = all(row.mark == "=" for row in rows)
    if as_json:
        screen.json(document(left=left.id, right=right.id, same=same, messages=rows_view(rows)))
    else:
        print_rows(screen, rows)
    return same


# -- words ----------------------------------------------------------------------------------------------------------


def _said(value: Any) -> str:
    match value:
        case None | "":
            return "nothing"
        case str():
            return " ".join(value.split())
        case {"name": name, "arguments": arguments}:
            return f"{name}({arguments})"
        case {"text": str(text), "calls": [*calls]}:
            return " ".join([*text.split(), *map(str, calls)])
        case {"text": str(text)}:
            return " ".join(text.split())
        case list() if all(isinstance(one, str) for one in value):
            return " | ".join(map(_said, value))
        case _:
            return dump(value).decode()


def _apart(left: str, right: str) -> tuple[str, str]:
    """Both from shortly before they differ."""
    shared = next((k for k, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), min(len(left),
                  len(right)))  # fmt: skip
    start = max(shared - 30, 0)
    lead = "…" if start else ""
    return lead + _short(left[start:]), lead + _short(right[start:])


def _short(text: str, length: int = 120) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
