"""Nothing reachable from an event can be changed by ordinary Python, nor by whoever made its payload."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import pytest
from msgspec import Raw, Struct

from tests.log.sessions import (
    HEADER,
    Reminder,
    Weather,
    answer,
    asks,
    call,
    chunk,
    close_step,
    close_turn,
    in_step,
    lines,
    result,
    stored,
    user,
)
from turnlog.events import (
    AdapterDefaults,
    BlockEnd,
    CallConfig,
    Errored,
    Failure,
    Finish,
    FinishStop,
    Header,
    ImageAttachment,
    ImageBlock,
    JsonArray,
    Opaque,
    PlanMode,
    PluginSource,
    RequestHeader,
    TextBlock,
    TextDelta,
    Todo,
    TodoWrite,
    TokenUsage,
    ToolError,
    ToolSchema,
    TurnEnd,
    UsageChunk,
    UserMessage,
)
from turnlog.events.message import ContextSection
from turnlog.log import Session, SessionEvent

LEAVES: Final = (str, int, float, bool, bytes, type(None), Raw)


def everything() -> Session:
    """A session that holds every kind of thing an event can hold."""
    session = in_step()
    tools = (ToolSchema("read", "d", {"type": "object", "required": ["p"], "properties": {"p": {}}}),)
    config = CallConfig("acme", "acme-1", "high", 0.5, 100, ("stop",))
    header = Header(config, AdapterDefaults(reasoning_effort=True), "system", tools)
    session.append(RequestHeader(header=header, reason="change"))
    sections = (ContextSection("a", "b"),)
    source = PluginSource(plugin="acme", form="snapshot", sections=sections)
    image = ImageBlock(ImageAttachment("sha256:0", "image/png", 1, 2, 3))
    chart = Opaque("chart", {"type": "chart", "points": [1, [2]], "more": {"a": {}}})
    first = session.append(UserMessage(content=(TextBlock("hi"), image, chart), source=source, id="u1"))
    session.append(user("b", "u2"), replaces=(first.seq, first.seq), sources=[first.seq])
    session.append(chunk(TextDelta(0, "x")))
    session.append(chunk(BlockEnd(0, TextBlock("x"))))
    session.append(chunk(UsageChunk(TokenUsage(1, 2))))
    session.append(chunk(Finish(FinishStop(), {"response": [1]})))
    session.append(asks("c1"), sources=[6, 7])
    session.append(call("c1"))
    session.append(result("c1", is_error=True, error=ToolError("E", "C"), meta={"a": [1, {"b": []}]}), sources=[11])
    session.append(answer(), sources=[])
    session.append(TodoWrite(todos=(Todo("x", "pending"),)))
    session.append(Weather(city="Ulm", raw=[{"a": [None]}]))
    session.append(PlanMode(value={"deep": [[{"a": 1}]]}))
    session.append_input(Reminder(text="milk", note=["x"]))
    close_step(session)
    session.append(TurnEnd(turn=1, reason=Errored(Failure("m", "C", 500, 1.5, "id"))))
    return session


def parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """*value* and all that can be reached from it by attributes of structs, members and items."""
    yield path, value
    if isinstance(value, SessionEvent):
        for name in (
            "type",
            "seq",
            "time",
            "data",
            "raw",
            "sources",
            "surface_op",
            "ignorable",
            "message",
            "message_json",
        ):
            yield from parts(getattr(value, name), f"{path}.{name}")
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from parts(getattr(value, name), f"{path}.{name}")
        for name in ("message", "call_id", "text"):
            if hasattr(value, name):
                yield from parts(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, Opaque):
        yield from parts(value.value, f"{path}.value")
        yield from parts(value.kind, f"{path}.kind")
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from parts(member, f"{path}[{key!r}]")
    elif isinstance(value, tuple):
        for index, member in enumerate(value):
            yield from parts(member, f"{path}[{index}]")


def attack(part: Any) -> list[str]:
    """Every way of ordinary Python to change *part* that did not fail, by name."""
    done = []

    def tries(name: str, *arguments: Any) -> None:
        try:
            getattr(part, name)(*arguments)
        except (AttributeError, TypeError):
            return
        except LookupError:
            pass  # there was nothing to take out, but it could have
        done.append(name)

    for name in [*dir(part), "brand_new"]:
        if name.startswith("__"):
            continue
        for change in (lambda name=name: setattr(part, name, None), lambda name=name: delattr(part, name)):
            try:
                change()
            except (AttributeError, TypeError):
                continue
            done.append(f"set or del .{name}")
    for name, arguments in {
        "__setitem__": (0, None), "__delitem__": (0,), "__iadd__": ([1],), "__imul__": (2,), "__ior__": ({"x": 1},),
        "append": (1,), "extend": ([1],), "insert": (0, 1), "pop": (), "remove": (1,), "clear": (), "sort": (),
        "reverse": (), "update": ({"x": 1},), "setdefault": ("x", 1), "popitem": (), "add": (1,), "discard": (1,),
        "__setstate__": ({},),
    }.items():  # fmt: skip
        tries(name, *arguments)
    if hasattr(part, "__dict__"):
        done.append("has a __dict__")
    return done


@pytest.mark.parametrize("read", [False, True], ids=["live", "stored"])
def test_nothing_reachable_from_an_event_can_be_changed(read: bool) -> None:
    session = everything()
    if read:
        session = stored(session)
    before, messages = lines(session), list(session.derive_messages())
    walked = 0
    for event in session.events:
        for path, part in parts(event, f"@{event.seq}"):
            if isinstance(part, LEAVES):
                continue
            walked += 1
            assert attack(part) == [], path
            assert not isinstance(part, list | dict | set | bytearray), path
    assert walked > 200
    assert lines(session) == before
    assert list(session.derive_messages()) == messages


def test_the_attack_finds_what_can_be_changed() -> None:
    class Loose:
        def __init__(self) -> None:
            self.x = 1

    class Unfrozen(Struct):
        x: int = 1

    assert attack([1, 2]) != []
    assert attack({"a": 1}) != []
    assert attack({1}) != []
    assert attack(Loose()) != []
    assert attack(Unfrozen()) != []
    assert attack(bytearray(b"x")) != []
    assert attack((1, 2)) == []
    assert attack(JsonArray([1])) == []
    assert attack(HEADER) == []


def test_the_walk_reaches_the_leaves() -> None:
    reached = {path.split(".", 1)[1] for event in everything().events for path, _ in parts(event, "e") if "." in path}
    assert "data.meta['a'][1]['b']" in reached
    assert "data.header.tools[0].parameters['properties']['p']" in reached
    assert "data.content[2].value['points'][1][0]" in reached
    assert "data.chunk.replay_state['response'][0]" in reached
    assert "surface_op.start" in reached
    assert "sources[0]" in reached


def test_changing_the_callers_json_afterwards_changes_nothing() -> None:
    session = in_step()
    session.append(call("c1"))
    inner: dict[str, Any] = {"list": [1]}
    meta: list[Any] = [inner]
    sources = [3]
    event = session.append(result("c1", meta=meta), sources=sources)
    value = {"a": [1]}
    plan = session.append(PlanMode(value=value))
    before = lines(session)
    inner["list"].append(2)
    inner["new"] = 1
    meta.append(3)
    meta.insert(0, {})
    sources.append(0)
    sources.clear()
    value["a"].append(2)
    value.clear()
    assert lines(session) == before
    assert event.data.meta == [{"list": [1]}]
    assert event.sources == (3,)
    assert plan.data.value == {"a": [1]}
    assert stored(session).events == session.events


def test_changing_the_callers_unknown_block_afterwards_changes_nothing() -> None:
    mine = {"type": "chart", "points": [1]}
    payload = UserMessage(content=(Opaque("chart", MappingProxyType(mine)),), source=user().source, id="m")
    session = in_step()
    event = session.append(payload)
    before = event.line()
    mine["points"].append(2)  # type: ignore[attr-defined]
    mine["type"] = "text"
    assert event.line() == before
    assert event.data.content == (Opaque("chart", {"type": "chart", "points": [1]}),)
    assert session.derive_messages()[0].content == event.data.content


def test_changing_the_callers_json_after_call_soon_changes_nothing() -> None:
    session = in_step()
    value = {"a": [1]}
    future = session.call_soon(PlanMode(value=value))
    value["a"].append(2)
    session.run_pending()
    assert future.result().raw == b'{"a":[1]}'


def test_what_a_caller_does_with_a_message_of_the_log_stays_with_the_caller() -> None:
    session = everything()
    before = list(session.derive_messages())
    messages = list(session.derive_messages())
    messages.clear()
    copied = copy.deepcopy(before[0])
    assert copied == before[0]
    assert list(session.derive_messages()) == before


def test_closed_turns_stay_as_they_are_while_the_session_goes_on() -> None:
    session = in_step()
    close_step(session)
    close_turn(session)
    before = lines(session)
    session.append(user("more"))
    assert lines(session)[: len(before)] == before


def test_events_and_payloads_with_open_json_can_be_deep_copied() -> None:
    """Frozen JSON holds read-only mappings, which Python itself does not copy."""
    session = Session()
    given = {"a": [{"b": {}}], "c": {}}
    event = session.append(PlanMode(value=given))
    assert copy.deepcopy(event) is event
    assert copy.deepcopy([event]) == [event]
    assert copy.deepcopy(event.data) == event.data
    for one in everything().events:
        assert copy.deepcopy(one.data) == one.data
    payload = PlanMode(value=given)  # not logged, so its JSON can change still
    copied = copy.deepcopy(payload)
    given["c"]["d"] = 1
    assert copied != payload
    assert copied.value == {"a": [{"b": {}}], "c": {}}
