"""Normal events: two runs that said the same compare equal, whatever their times, ids, seqs and formats."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from tests.log import sessions, strategies
from tests.views import logs
from tests.views.logs import LONG, TOOLS, arguments, call, chunk, event, message, real, result, root, session, text
from turnlog.store.convert import convert
from turnlog.views.normal import NormalEvent, first_divergence, normal_events

STREAM = [logs.turn(), logs.step(), chunk(text("Hel")), chunk(text("lo"))]


def diverge(left: Any, right: Any) -> str:
    return str(first_divergence(normal_events(left), normal_events(right)))


def test_times_and_durations_do_not_count() -> None:
    early = session(logs.turn(), event("acme/x", {"durationMs": 5, "startedAt": 7, "note": "n"}, ignorable=True))
    late = session({**logs.turn(), "time": 99}, event("acme/x", {"durationMs": 6, "note": "n"}, ignorable=True))
    assert normal_events(early) == normal_events(late)


def test_ids_are_numbered_by_first_appearance() -> None:
    one = session(*STREAM, message(logs.asks("c"), id="a1"), call("c"), result("c"))
    same = session(*STREAM, message(logs.asks("x"), id="q"), call("x"), result("x", message_id="z"))
    other = session(*STREAM, message(logs.asks("x"), logs.asks("y")), call("y"), result("y"))
    assert normal_events(one) == normal_events(same)
    assert "content[1]" in diverge(one, other)


def test_an_id_that_every_step_uses_again_is_another_call_each_time() -> None:
    def two(first: str, second: str) -> Any:
        steps = [
            [logs.step(k), message(logs.asks(id), step=k, id=f"a{k}"), call(id, step=k), result(id, step=k)]
            for k, id in ((1, first), (2, second))
        ]
        return session(logs.turn(), *steps[0], logs.step_end(), *steps[1])

    assert normal_events(two("call_0", "call_0")) == normal_events(two("c1", "c2"))


def test_how_a_provider_cuts_its_stream_does_not_count() -> None:
    cut = session(*STREAM, message(sources=[2, 3]))
    whole = session(logs.turn(), logs.step(), chunk(text("Hello")), message(sources=[2]))
    assert normal_events(cut) == normal_events(whole)
    assert [one.seq for one in normal_events(cut)] == [0, 1, 2, 4]
    names = session(logs.turn(), logs.step(), chunk({**arguments("{"), "name": "bash"}), chunk(arguments("}")))
    assert normal_events(names)[2].data["chunk"] == {
        "type": "tool-call-delta",
        "index": 0,
        "id": "call-1",
        "argumentsDelta": "{}",
        "name": "bash",
    }


def test_a_packed_run_says_what_its_chunks_say() -> None:
    lines = [json.dumps({"type": "session", "version": 0, "id": "s", "createdAt": 1, "delegationDepth": 0}).encode()]
    lines += [json.dumps({**one, "seq": seq, "time": seq}).encode() for seq, one in enumerate(STREAM[:2])]
    packed = b"\n".join(lines) + b"\n" + logs.packed("text-chunks", 2, ["Hel", "lo"], time0=5, dt=[1])
    assert normal_events(turnlog.load(packed)) == normal_events(session(*STREAM))


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", [TOOLS, LONG])
def test_formats_tell_the_same_run_alike(version: int, name: dict[int, str], tmp_path: Any) -> None:
    stored = root(version) / "--home-dev-project--" / name[version]
    made = turnlog.load(convert(stored, tmp_path).path)
    # the prompt is an event from format 3 on, and a member of the request header before; it also takes an id
    old = [one for one in normal_events(turnlog.load(stored)) if one.type != "system/message"]
    new = normal_events(made)
    assert [one.type for one in old] == [one.type for one in new]
    told = ("assistant/chunk", "tool/call", "tool/result")
    assert [_anonymous(one) for one in old if one.type in told] == [_anonymous(one) for one in new if one.type in told]


def _anonymous(one: NormalEvent) -> bytes:
    return re.sub(rb'"id-\d+"', b'"id"', one.body)


def test_a_divergence_says_where_and_what() -> None:
    ended = session(logs.turn(), logs.end())
    assert diverge(ended, session(logs.turn(), logs.end(reason={"kind": "blocked"}))) == (
        'event 1, @1 and @1, turn/end $.reason.kind: "completed" and "blocked"'
    )
    assert diverge(ended, session(logs.turn())) == "event 1: turn/end (@1), where the right one is over"
    assert diverge(ended, session(logs.turn(), logs.step())) == "event 1, @1 and @1: turn/end and step/start"
    cited = [session(*STREAM, message(sources=some)) for some in ([2, 3], [])]
    assert diverge(*cited) == "event 3, @4 and @4, assistant/message sources: [2] and []"
    assert diverge(ended, ended) == "None"


def test_the_chunks_of_an_embedded_stream_have_addresses() -> None:
    found = [one for one in normal_events(real(4, TOOLS[4])) if one.k is not None]
    assert found[0].address.endswith("/0")
    assert all(one.type == "assistant/chunk" for one in found)


@given(strategies.tapes)
def test_a_log_says_the_same_as_itself(tape: bytes) -> None:
    live = strategies.written(tape)
    assert normal_events(live) == normal_events(sessions.stored(live))


@given(strategies.tapes, st.integers(0, 10**6))
def test_a_log_says_the_same_with_other_ids_and_times(tape: bytes, shift: int) -> None:
    live = strategies.written(tape)
    lines = [json.loads(line) for line in sessions.lines(live)]
    moved = [{**_renamed(line, f"-{shift}"), "time": line["time"] + shift * (line["seq"] % 3)} for line in lines]
    header = {"type": "session", "version": 0, "id": "other", "createdAt": 1, "delegationDepth": 0}
    data = b"".join(json.dumps(line).encode() + b"\n" for line in (header, *moved))
    other = turnlog.load(data, vocabulary=sessions.WITH_PLUGINS)
    assert first_divergence(normal_events(live), normal_events(other)) is None


def _renamed(value: Any, suffix: str) -> Any:
    if isinstance(value, dict):
        return {
            key: member + suffix
            if isinstance(member, str) and member and (key == "id" or key.endswith("Id"))
            else _renamed(member, suffix)
            for key, member in value.items()
        }
    return [_renamed(member, suffix) for member in value] if isinstance(value, list) else value
