"""Every rule of strict reading: what breaks it is refused, by name, at its line, and is readable all the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.store import naive
from tests.store.logs import Event, Log, joined
from tests.store.reading import codes, opened, plains, refusal
from turnlog.store import load, verify

Change = Callable[[list[Event]], Any]


def base() -> Log:
    """Eleven events: a turn with a call and its result, and an answer."""
    log = Log()
    log.turn()  # 0
    log.step()  # 1
    log.user("Run it")  # 2
    log.answer({"type": "tool-call", "id": "c", "name": "bash", "arguments": "{}"}, sources=[])  # 3
    log.call("c")  # 4
    log.result("c", "long output", sources=[4], more={"meta": {"exit": 0}})  # 5
    log.end_step()  # 6
    log.step(1, 2)  # 7
    log.answer("Done.", step=2)  # 8
    log.end_step(1, 2)  # 9
    log.end_turn()  # 10
    return log


def sets(at: int, **members: Any) -> Change:
    def change(events: list[Event]) -> None:
        events[at] = {name: value for name, value in {**events[at], **members}.items() if value is not ...}

    return change


def replaces(start: Any, end: Any, sources: Any = None, **more: Any) -> Change:
    """Adds a user message that takes the place of a range."""

    def change(events: list[Event]) -> None:
        data = copy.deepcopy(events[2]["data"])
        cited = {} if sources is None else {"sourceEventSeqs": sources}
        op = {"op": "replace", "start": start, "end": end, **more}
        events.append({"type": "user/message", "seq": 11, "time": 1, "data": data, "surfaceOp": op, **cited})

    return change


def rewrites(old: int, change_data: Callable[[Any], Any] = lambda data: data, sources: Any = None) -> Change:
    """Adds a tool result that takes the place of @*old*, with its data changed."""

    def change(events: list[Event]) -> None:
        data = copy.deepcopy(events[5]["data"])
        changed = change_data(data)
        event = {"type": "tool/result", "seq": 11, "time": 1, "data": data if changed is None else changed}
        event |= {"surfaceOp": {"op": "replace", "start": old, "end": old}, "sourceEventSeqs": sources or [old]}
        events.append(event)

    return change


def both(*changes: Change) -> Change:
    def change(events: list[Event]) -> None:
        for one in changes:
            one(events)

    return change


REFUSED: dict[str, tuple[Change, str, int]] = {
    "no type": (sets(4, type=...), "envelope", 6),
    "no seq": (sets(4, seq=...), "envelope", 6),
    "no time": (sets(4, time=...), "envelope", 6),
    "no data": (sets(4, data=...), "envelope", 6),
    "type is no string": (sets(4, type=7), "envelope", 6),
    "type is an object": (sets(4, type={"a": 1}), "envelope", 6),
    "type is null": (sets(4, type=None), "envelope", 6),
    "seq is a string": (sets(4, seq="4"), "envelope", 6),
    "seq is a fraction": (sets(4, seq=4.5), "envelope", 6),
    "seq is negative": (sets(4, seq=-4), "envelope", 6),
    "seq is true": (sets(1, seq=True), "envelope", 3),
    "seq is beyond doubles": (sets(4, seq=2**53), "envelope", 6),
    "time is a string": (sets(4, time="noon"), "envelope", 6),
    "time is a fraction": (sets(4, time=1.5), "envelope", 6),
    "time is null": (sets(4, time=None), "envelope", 6),
    "time is beyond doubles": (sets(4, time=2**53), "time", 6),
    "time is before doubles": (sets(4, time=-(2**53)), "time", 6),
    "a member nobody has": (sets(4, note="x"), "envelope", 6),
    "a member of our own objects": (sets(4, **{"(decoded)": 1}), "envelope", 6),
    "ignorable is false": (sets(4, ignorable=False), "envelope", 6),
    "ignorable is one": (sets(4, ignorable=1), "envelope", 6),
    "ignorable is null": (sets(4, ignorable=None), "envelope", 6),
    "a gap": (lambda events: events.pop(4), "seq-gap", 6),
    "a large gap": (sets(10, seq=2**53 - 1), "seq-gap", 12),
    "a repeated seq": (sets(4, seq=3), "seq-duplicate", 6),
    "a repeated event": (lambda events: events.insert(5, events[4]), "seq-duplicate", 7),
    "two swapped events": (lambda events: events.insert(3, events.pop(5)), "seq-gap", 5),
    "a first seq that is not 0": (lambda events: events.pop(0), "seq-gap", 2),
    "a surface event without marker": (sets(2, surfaceOp=...), "marker", 4),
    "a log-only event with marker": (sets(4, surfaceOp="append"), "surface-eligible", 6),
    "a log-only event with sources": (sets(4, sourceEventSeqs=[1]), "surface-eligible", 6),
    "surfaceOp is another word": (sets(2, surfaceOp="prepend"), "surface", 4),
    "surfaceOp is null": (sets(2, surfaceOp=None), "surface", 4),
    "surfaceOp is a list": (sets(2, surfaceOp=["append"]), "surface", 4),
    "surfaceOp is an empty object": (sets(2, surfaceOp={}), "surface", 4),
    "a replace without end": (sets(5, surfaceOp={"op": "replace", "start": 2}), "surface", 7),
    "a replace of another word": (sets(5, surfaceOp={"op": "remove", "start": 2, "end": 2}), "surface", 7),
    "a replace with one member more": (replaces(2, 2, [2], why="x"), "surface", 13),
    "a replace with a string": (replaces("2", 2, [2]), "surface", 13),
    "a replace with a negative seq": (replaces(-1, 2, [2]), "surface", 13),
    "a replace that starts at a log-only event": (replaces(4, 5, [4, 5]), "replace-start", 13),
    "a replace that ends at a log-only event": (replaces(3, 4, [3, 4]), "replace-end", 13),
    "a replace that starts at nothing": (replaces(99, 5, [5]), "replace-start", 13),
    "a replace of itself": (replaces(11, 11, [2]), "replace-start", 13),
    "a replace backwards": (replaces(5, 2, [2, 3, 5]), "replace-order", 13),
    "a replace without sources": (replaces(2, 5), "sources-shadowed", 13),
    "a replace that misses a source": (replaces(2, 5, [2, 5]), "sources-shadowed", 13),
    "a rewrite of a user message": (rewrites(2), "tool-result-rewrite", 13),
    "a rewrite of an answer": (rewrites(8), "tool-result-rewrite", 13),
    "a rewrite that says it failed": (
        rewrites(5, lambda data: data["message"]["content"][0].update(isError=True)), "tool-result-rewrite", 13),
    "a rewrite of another turn": (rewrites(5, lambda data: data.update(turn=2)), "tool-result-rewrite", 13),
    "a rewrite with other meta": (rewrites(5, lambda data: data.update(meta={"exit": 1})), "tool-result-rewrite", 13),
    "a rewrite whose 0 is false": (
        rewrites(5, lambda data: data.update(meta={"exit": False})), "tool-result-rewrite", 13),
    "a rewrite without meta": (rewrites(5, lambda data: data.pop("meta") and None), "tool-result-rewrite", 13),
    "a rewrite with another id": (rewrites(5, lambda data: data["message"].update(id="x")), "tool-result-rewrite", 13),
    "a rewrite without message": (rewrites(5, lambda _data: {"turn": 1}), "tool-result-rewrite", 13),
    "a rewrite that is no object": (rewrites(5, lambda _data: [1]), "tool-result-rewrite", 13),
    "a rewrite that is null": (rewrites(5, lambda data: data.update(message=None)), "tool-result-rewrite", 13),
    "empty sources on a user message": (sets(2, sourceEventSeqs=[]), "sources-empty", 4),
    "empty sources on a result": (sets(5, sourceEventSeqs=[]), "sources-empty", 7),
    "sources twice": (sets(5, sourceEventSeqs=[4, 4]), "sources-duplicate", 7),
    "itself as source": (sets(5, sourceEventSeqs=[5]), "sources-later", 7),
    "a later source": (sets(5, sourceEventSeqs=[4, 9]), "sources-later", 7),
    "a negative source": (sets(5, sourceEventSeqs=[-1]), "sources-type", 7),
    "a replace of what was replaced": (both(replaces(2, 3, [2, 3]), lambda events: events.append(
        {**events[-1], "seq": 12, "surfaceOp": {"op": "replace", "start": 3, "end": 5}, "sourceEventSeqs": [3, 5]}
    )), "replace-start", 14),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_rule_is_refused_at_its_line(name: str) -> None:
    change, code, line = REFUSED[name]
    log = base()
    change(log.events)
    text = log.text()
    assert naive.read(text).status == "invalid"
    finding = refusal(text)
    assert (finding.code, finding.place.line, finding.kind) == (code, line, "corrupt")
    assert finding.place.offset == len(joined(text.split(b"\n")[: line - 1]))
    assert str(finding) == f"line {line}, byte {finding.place.offset}: {finding.text}" + (
        f" {finding.remedy}" if finding.remedy else ""
    )


@pytest.mark.parametrize("name", REFUSED)
def test_forensic_reading_shows_whatever_is_readable_of_it(name: str) -> None:
    change, _code, _line = REFUSED[name]
    log = base()
    change(log.events)
    session = load(log.text(), forensic=True)
    in_log = plains(session.events)
    branched = [event for branch in session.branches for event in plains(branch.events)]
    seen = [(event["type"], event["seq"], event["data"]) for event in (*in_log, *branched)]
    readable = [
        (event["type"], int(event["seq"]), event["data"])
        for event in log.events
        if {"type", "seq", "time", "data"} <= event.keys()
        and isinstance(event["type"], str)
        and type(event["seq"]) is int
        and 0 <= event["seq"] < 2**53
        and type(event["time"]) is int
    ]
    assert seen == readable
    assert [event["seq"] for event in in_log] == sorted({event["seq"] for event in in_log})
    list(session.derive_messages())
    list(session.message_events())
    assert session.closers is not None
    assert verify(log.text()).events == len(in_log)


KEPT: dict[str, Change] = {
    "a replace of one": replaces(2, 2, [2]),
    "a replace of all": replaces(2, 8, [2, 3, 5, 8]),
    "a replace that cites more": replaces(3, 5, [0, 1, 3, 4, 5]),
    "a rewrite": rewrites(5),
    "a rewrite to nothing": rewrites(5, lambda data: data["message"]["content"][0].update(content=[])),
    "a rewrite that cites more": rewrites(5, sources=[4, 5]),
    "a source of a user message": sets(2, sourceEventSeqs=[0]),
    "sources in any order": sets(2, sourceEventSeqs=[1, 0]),
    "no sources": sets(3, sourceEventSeqs=...),
    "a known type that may be skipped": sets(4, ignorable=True),
    "a time before 1970": sets(4, time=-5),
    "a time that steps back": sets(10, time=0),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_the_rules_is_read(name: str) -> None:
    change = KEPT[name]
    log = base()
    change(log.events)
    judged = naive.read(log.text())
    assert judged.status == "valid"
    session = opened(log.text())
    assert plains(session.events) == log.events
    assert list(session.surface) == naive.surface(judged.events)


def test_a_rewrite_keeps_its_place_and_shows_only_its_new_content() -> None:
    log = base()
    rewrites(5, lambda data: data["message"]["content"][0].update(content=[{"type": "text", "text": "[cut]"}]))(
        log.events
    )
    session = opened(log.text())
    assert session.surface == (2, 3, 11, 8)
    assert [message.text for message in session.derive_messages()] == ["Run it", "", "[cut]", "Done."]
    assert [message.text for message in session.derive_messages(at=11)] == ["Run it", "", "long output", "Done."]
    assert session.replaced_by(5) == 11


@pytest.mark.parametrize("depth", [100, 600, 5000])
def test_deeply_nested_results_cannot_break_the_comparison_of_a_rewrite(depth: int) -> None:
    log = base()
    log.events[5]["data"]["meta"] = "deep"
    rewrites(5)(log.events)
    text = log.text().replace(b'"deep"', b"[" * depth + b"]" * depth)
    assert text.count(b"[[[[") > depth // 4
    report = verify(text)
    assert report.events == (12 if depth < 5000 else 10)
    refused = set(codes(report.findings, "refused"))
    assert refused <= {"tool-result-rewrite", "not-json", "seq-gap"}
    assert depth > 100 or not refused
