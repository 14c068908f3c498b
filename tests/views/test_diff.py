"""Where two runs part: nothing in a run against itself, and a planted change at the place where it was planted."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog
from tests.log import sessions, strategies
from tests.views import logs
from tests.views.logs import LONG, TOOLS, real, root
from turnlog.store import StoredSession
from turnlog.store.convert import convert
from turnlog.views.diff import diff
from turnlog.views.diff_events import diff_events, diff_messages
from turnlog.views.runs import normal_arguments


@dataclass
class Step:
    """What a written step says."""

    text: str = "answer"
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Tool, arguments, result."""
    tokens: int = 10


Script = list[tuple[str, list[Step]]]
"""Turns: what was asked, and its steps."""

TOOL = st.sampled_from(["bash", "read"])
STEPS = st.builds(
    Step,
    text=st.sampled_from(["", "one", "two", "three"]),
    calls=st.lists(st.tuples(TOOL, st.sampled_from(['{"a":1}', '{"b":2}', "{}"]), st.just("out")), max_size=3),
)
SCRIPTS = st.lists(st.tuples(st.sampled_from(["p", "q", "r"]), st.lists(STEPS, min_size=1, max_size=4)), min_size=1,
                   max_size=4)  # fmt: skip


def written(script: Script, *, id: str = "c", shift: int = 0, end: Any = None) -> StoredSession:
    """The log of a script; *id* and *shift* make its ids and times others."""
    events: list[dict[str, Any]] = []
    for turn, (prompt, steps) in enumerate(script, 1):
        events += [logs.turn(turn), logs.user(prompt, id=f"u{id}{turn}")]
        for number, step in enumerate(steps, 1):
            place = {"turn": turn, "step": number}
            asked = [{**logs.asks(f"{id}{k}", args), "name": name} for k, (name, args, _out) in enumerate(step.calls)]
            said = [{"type": "text", "text": step.text}, *asked]
            usage = {"inputTokens": step.tokens, "outputTokens": 5}
            events += [logs.step(number, turn), logs.message(*said, **place, id=f"a{id}{turn}{number}", usage=usage)]
            for k, (name, args, out) in enumerate(step.calls):
                called = logs.call(f"{id}{k}", args, **place)
                called["data"]["name"] = name
                events += [called, logs.result(f"{id}{k}", out, **place, message_id=f"r{id}{turn}{number}{k}")]
            events.append(logs.step_end(number, turn))
        events.append(logs.end(turn, end if turn == len(script) else None))
    return logs.session(*[{**event, "time": 1000 + seq * (1 + shift)} for seq, event in enumerate(events)])


def kinds(left: Any, right: Any) -> list[tuple[str, str | None]]:
    found = diff(left, right)
    assert found.same == (not found.differences)
    return [(one.kind, one.left_address or one.right_address) for one in found.differences]


@given(strategies.tapes)
@settings(max_examples=40)
def test_a_run_does_not_differ_from_itself(tape: bytes) -> None:
    session = strategies.written(tape)
    copied = sessions.stored(session)
    assert diff(session, session).same
    assert diff(session, copied).same
    assert diff_events(session, copied).same
    assert all(row.mark == "=" for row in diff_messages(session, copied))


@given(SCRIPTS)
@settings(max_examples=40)
def test_ids_seqs_and_times_are_no_differences(script: Script) -> None:
    one, other = written(script), written(script, id="other", shift=7)
    found = diff(one, other)
    assert found.same
    assert found.first is None
    assert diff_events(one, other).same
    assert all(row.mark == "=" for row in diff_messages(one, other))


@given(SCRIPTS, st.data())
@settings(max_examples=60)
def test_one_planted_change_is_found_at_its_place_and_nothing_else(script: Script, data: st.DataObject) -> None:
    for turn, (_prompt, steps) in enumerate(script):  # no two steps are alike, so that there is one right answer
        for number, step in enumerate(steps):
            step.text = f"{step.text} {turn}.{number}"
            step.calls = [(name, f'{{"k":"{turn}.{number}.{k}"}}', out) for k, (name, _, out) in enumerate(step.calls)]
    turn = data.draw(st.integers(1, len(script)))
    number = data.draw(st.integers(1, len(script[turn - 1][1])))
    changed = copy.deepcopy(script)
    step = changed[turn - 1][1][number - 1]
    what = data.draw(st.sampled_from(["text", "tokens", *(["result", "arguments"] if step.calls else [])]))
    at = f"t{turn}.s{number}"
    if what == "text":
        step.text = "something else"
    elif what == "tokens":
        step.tokens += 1
    else:
        k = data.draw(st.integers(0, len(step.calls) - 1))
        name, args, out = step.calls[k]
        step.calls[k] = (name, args, "other") if what == "result" else (name, '{"new":0}', out)
        at = f"{at}.call:c{k}"
    left, right = written(script), written(changed)
    assert kinds(left, right) == [(what, at)]
    parted = diff_events(left, right).first
    assert parted is not None
    assert parted.left is not None
    assert (parted.left.data["turn"], parted.left.data["step"]) == (turn, number)


def test_each_kind_of_difference_is_named() -> None:
    base: Script = [("p", [Step("one", [("bash", '{"a":1}', "out")]), Step("two")])]

    def other(**change: Any) -> StoredSession:
        return written([(change.get("prompt", "p"), change.get("steps", base[0][1]))], end=change.get("end"))

    left = written(base)
    first, second = base[0][1]
    assert kinds(left, other(prompt="q")) == [("prompt", "t1")]
    assert kinds(left, other(end={"kind": "blocked"})) == [("end", "t1")]
    assert kinds(left, other(steps=[first])) == [("step", "t1.s2")]
    assert kinds(left, other(steps=[first, second, Step("three")])) == [("step", "t1.s3")]
    more = Step("one", [*first.calls, ("read", "{}", "out")])
    assert kinds(left, other(steps=[more, second])) == [("step", "t1.s1"), ("step", "t1.s1")]
    args = Step("one", [("bash", '{"a":2}', "out")])
    assert kinds(left, other(steps=[args, second])) == [("arguments", "t1.s1.call:c0")]
    assert diff(left, other(steps=[args, second])).left_totals["calls"] == 1


def test_a_detour_is_a_step_more_and_the_rest_still_fits() -> None:
    steps = [Step("a", [("bash", '{"a":1}', "x")]), Step("b", [("bash", '{"b":1}', "y")]), Step("done")]
    detour = [steps[0], Step("hm", [("read", "{}", "z")]), *steps[1:]]
    assert kinds(written([("p", steps)]), written([("p", detour)])) == [("step", "t1.s2")]


def test_how_a_call_ended_and_how_often_a_step_was_tried() -> None:
    head = [logs.turn(), logs.step(), logs.message(logs.asks("c")), logs.call("c")]
    good = logs.session(*head, logs.result("c", "no"), logs.step_end(), logs.end())
    bad = logs.session(*head, logs.result("c", "no", is_error=True), logs.step_end(), logs.end())
    assert kinds(good, bad) == [("outcome", "t1.s1.call:c")]
    assert kinds(good, logs.session(*head)) == [("result", "t1.s1.call:c"), ("outcome", "t1.s1.call:c"), ("end", "t1")]
    tried = logs.session(*head[:2], logs.retry(), *head[2:], logs.result("c", "no"), logs.step_end(), logs.end())
    assert kinds(good, tried) == [("attempts", "t1.s1")]


def test_arguments_are_compared_as_json() -> None:
    assert normal_arguments('{"b": 1, "a": [1,  2]}') == normal_arguments('{"a":[1,2],"b":1}')
    assert normal_arguments("{broken") == "{broken"


def test_the_workspace_has_one_name_wherever_it_was() -> None:
    def at(cwd: str) -> StoredSession:
        text = logs.log(logs.turn(), logs.step(), logs.message(logs.asks("c", json.dumps({"path": f"{cwd}/a.py"}))))
        header, rest = text.split(b"\n", 1)
        return turnlog.load(json.dumps({**json.loads(header), "cwd": cwd}).encode() + b"\n" + rest)

    assert diff(at("/home/a/project"), at("/tmp/b")).same


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", [TOOLS, LONG])
def test_formats_do_not_count(version: int, name: dict[int, str], tmp_path: Any) -> None:
    made = convert(root(version) / "--home-dev-project--" / name[version], tmp_path)
    found = diff(real(version, name[version]), turnlog.load(made.path))
    assert [one for one in found.differences if one.kind != "tokens"] == []


def test_events_that_came_and_went_are_listed_beside_each_other() -> None:
    left = logs.session(logs.turn(), logs.user("a"), logs.end())
    right = logs.session(logs.turn(), logs.user("b"), logs.step(), logs.step_end(), logs.end())
    found = diff_events(left, right)
    assert found.first is not None
    assert str(found.first).startswith("event 1, @1 and @1, user/message $.content[0].text")
    assert [tuple(one and one.type for one in side) for side in found.sides] == [
        ("user/message", "user/message"),
        (None, "step/start"),
        (None, "step/end"),
    ]
