"""A naive reader of format 0, written from the reference (dsh-v0 §1.2, 2.4, 2.5, 7.2, 7.3, 7.5), to judge by.

It decodes every line with Python's own parser, expands everything, and keeps the surface as a list. Where the
reference leaves a choice it takes Turnlog's: unknown event types are kept, blank lines are skipped, a complete last
record without a newline belongs to the log.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, NoReturn

from tests.store.logs import DELTA_OF, Event, unpack

SAFE: Final = 2**53 - 1
SURFACE: Final = ("user/message", "assistant/message", "tool/result", "steering/message")
_NAMES: Final = """
    turn/start turn/end step/start step/end user/message assistant/chunk assistant/message tool/call tool/result
    todo/write request/header request/context session/end-seed agent/inbox/spliced agent-preset/selected approval/asked
    approval/decided approval/policy command/run command/done compaction/start compaction/summary compaction/end
    compaction/prune feedback/record goal/change hook/invoked hook/result llm/retry llm/retry-started permission/preset
    plan/mode sandbox/mode schedule/change session/title session/title-llm-request subagent/descriptor team/member
    team/task team/message/queued team/message/delivered tool-workflow/run-start tool-workflow/agent-start
    tool-workflow/agent-end tool-workflow/run-end tool/code-dispatch-start tool/code-dispatch
    web/deepseek-search-llm-request model/selection session-log-deepseek/delivery-accepted
    subagent/model-selection-policy steering/message compact/start compact/summary compact/end compact/prune
"""
KNOWN: Final = frozenset(_NAMES.split())


NO_HEADER: Final = "no header of format 0 or 1"


class Read(NamedTuple):
    """What a naive reader makes of a text."""

    status: Literal["valid", "torn", "invalid"]
    events: list[Event]
    why: str = ""


class Invalid(Exception):
    """Why a text is no log."""


def read(text: bytes) -> Read:
    """Judge a whole text."""
    events: list[Event] = []
    nodes: list[int] = []
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    last = len(lines) - 1
    begun = False
    try:
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                value = _parsed(line)
            except Invalid as error:
                if begun and number == last:
                    return Read("torn", events, str(error))
                raise
            if not begun:
                _header(value)
                begun = True
                continue
            for event in _expanded(value):
                if event["seq"] != len(events):
                    _no(f"seq {event['seq']} at {len(events)}")
                _place(event, nodes, events)
                events.append(event)
        if not begun:
            _no("no header")
    except Invalid as error:
        return Read("invalid", events, str(error))
    return Read("valid", events)


def surface(events: list[Event]) -> list[int]:
    """The surface nodes of valid events."""
    nodes: list[int] = []
    for event in events:
        _place(event, nodes, events)
    return nodes


def messages(events: list[Event]) -> list[Any]:
    """The messages that a model would get from canonical events."""
    shown = [
        event["data"] if event["type"] == "user/message" else event["data"]["message"]
        for event in (events[seq] for seq in surface(events))
    ]
    return [message for message in shown if message["role"] != "assistant" or message["content"]]


def _no(why: str) -> NoReturn:
    raise Invalid(why)


@lru_cache(8192)
def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode(), parse_constant=_no)
    except UnicodeDecodeError:
        _no("not UTF-8")
    except ValueError as error:
        _no(f"not JSON: {error}")


def _whole(value: Any, low: int) -> bool:
    if type(value) is float and value.is_integer():
        value = int(value)
    return type(value) is int and low <= value <= SAFE


def _header(value: Any) -> None:
    if not isinstance(value, dict) or value.get("type") != "session" or value.get("version") not in (0, 1):
        _no(NO_HEADER)
    if type(value["version"]) is not int or not isinstance(value.get("id"), str) or not value["id"]:
        _no("version or id")
    for name in ("createdAt", "delegationDepth", "seedLength"):
        if not _whole(value.get(name, 0 if name != "createdAt" else None), 0):
            _no(name)
    for name in ("cwd", "parentSession", "agentPreset"):
        if not isinstance(value.get(name, ""), str):
            _no(name)
    if value.get("origin", "subagent") != "subagent":
        _no("origin")


def _expanded(value: Any) -> list[Event]:
    if not isinstance(value, dict):
        _no("no object")
    if isinstance(value.get("type"), str) and value["type"] in DELTA_OF:
        _row(value)
        return unpack(value)
    _envelope(value)
    return [value]


def _row(row: Event) -> None:
    called = row["type"] == "tool-call-chunks"
    if row.keys() != {"type", "seq0", "time0", "data"} or not isinstance(row["data"], dict):
        _no("row members")
    data = row["data"]
    wanted = {"turn", "step", "index", "dt", *(("id", "args") if called else ("texts",))}
    if data.keys() != wanted and not (called and data.keys() == wanted | {"name"}):
        _no("row data members")
    members, gaps = data["args" if called else "texts"], data["dt"]
    if not isinstance(members, list) or not isinstance(gaps, list) or not members or len(gaps) != len(members) - 1:
        _no("row arity")
    if not all(isinstance(one, str) for one in [*members, *(data[name] for name in ("id", "name") if name in data)]):
        _no("row strings")
    times = [row["time0"]]
    for number in [row["seq0"], row["time0"], data["turn"], data["step"], data["index"], *gaps]:
        if type(number) is not int or abs(number) > SAFE:
            _no("row numbers")
    for gap in gaps:
        times.append(times[-1] + gap)
    if row["seq0"] < 0 or max(map(abs, times)) > SAFE:
        _no("row ranges")


def _envelope(event: Event) -> None:
    if not event.keys() <= {"type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp", "ignorable"}:
        _no("extra member")
    if not {"type", "seq", "time", "data"} <= event.keys() or not isinstance(event["type"], str):
        _no("missing member")
    if not _whole(event["seq"], 0) or not _whole(event["time"], -SAFE):
        _no("seq or time")
    if event["type"] in KNOWN and event.get("ignorable", True) is not True:
        _no("ignorable")
    if "surfaceOp" in event and not _is_op(event["surfaceOp"]):
        _no("surfaceOp")
    if "sourceEventSeqs" in event and any(one >= event["seq"] for one in _ranges(event["sourceEventSeqs"])):
        _no("ranges end before their event")


def _is_op(op: Any) -> bool:
    if not isinstance(op, dict):
        return bool(op == "append")
    exact = op.keys() == {"op", "start", "end"} and op["op"] == "replace"
    return exact and _whole(op["start"], 0) and _whole(op["end"], 0)


def _flat(stored: Any) -> list[int]:
    """A source list with its ranges written out."""
    _ranges(stored)
    pairs = [one if isinstance(one, list) else [one, one] for one in stored]
    return [seq for start, end in pairs for seq in range(int(start), int(end) + 1)]


def _ranges(stored: Any) -> list[Any]:
    """The ends of a source list that holds ranges, which must count up."""
    if not isinstance(stored, list):
        _no("sources")
    ends = [end for one in stored for end in (one if isinstance(one, list) else [one])]
    if not all(_whole(end, 0) for end in ends) or any(len(one) != 2 for one in stored if isinstance(one, list)):
        _no("source")
    if not any(isinstance(one, list) for one in stored):
        return []
    last = -1
    for one in stored:
        start, end = one if isinstance(one, list) else (one, one)
        if not last < start <= end:
            _no("sources with ranges count up")
        last = end
    return ends


def _place(event: Event, nodes: list[int], events: list[Event]) -> None:
    op, type, seq = event.get("surfaceOp"), event["type"], event["seq"]
    if type not in SURFACE:
        skippable = event.get("ignorable") is True  # of another type only its own writer knows where it belongs
        if (type in KNOWN or skippable) and ("surfaceOp" in event or "sourceEventSeqs" in event):
            _no("not surface-eligible")
        return
    sources = _flat(event["sourceEventSeqs"]) if "sourceEventSeqs" in event else None
    if sources is not None:
        if not sources and type != "assistant/message":
            _no("empty sources")
        if len(set(sources)) != len(sources) or any(one >= seq for one in sources):
            _no("sources")
    if op == "append":
        nodes.append(int(seq))
        return
    if not isinstance(op, dict):
        _no("no surfaceOp")
    if op["start"] not in nodes or op["end"] not in nodes:
        _no("replace range")
    first, last = nodes.index(op["start"]), nodes.index(op["end"])
    if first > last or not set(nodes[first : last + 1]) <= set(sources or ()):
        _no("replace range or sources")
    if type == "tool/result":
        old = events[nodes[first]]
        if first != last or old["type"] != type or _blanked(old["data"]) != _blanked(event["data"]):
            _no("tool-result rewrite")
    nodes[first : last + 1] = [int(seq)]


def _blanked(data: Any) -> str:
    """A tool result's data as text, without the content of its block."""
    copy = json.loads(json.dumps(data))
    try:
        copy["message"]["content"][0]["content"] = None
    except (KeyError, TypeError, IndexError):
        pass  # not the shape of a result: then nothing of it may change
    return json.dumps(copy, sort_keys=True)
