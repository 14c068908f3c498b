"""Open JSON (a tool result's ``meta``, a plugin's field, dsh's own payloads) holds exact JSON and nothing else."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import pytest

from tests.events.lossless_values import ACCEPTED, REFUSED, Accepted, Refused, nested, nested_objects
from tests.log.sessions import Weather, call, chunk, empty, in_step, result, standing
from turnlog.events import (
    AssistantMessage,
    CallConfig,
    Finish,
    FinishStop,
    Header,
    JsonArray,
    LosslessError,
    Message,
    ModelSource,
    Payload,
    PlanMode,
    RequestHeader,
    TextBlock,
    ToolSchema,
    thaw,
)
from turnlog.log import Session

accepted = pytest.mark.parametrize("case", ACCEPTED, ids=[case.name for case in ACCEPTED])
refused = pytest.mark.parametrize("case", REFUSED, ids=[case.name for case in REFUSED])


def pending_call() -> Session:
    session = in_step()
    session.append(call("c1"))
    return session


def same_types(kept: Any, given: Any) -> bool:
    """Equal, and of the same JSON types all the way down."""
    kept, given = thaw(kept), thaw(given)
    if type(kept) is not type(given):
        return False
    if isinstance(given, dict):
        return list(kept) == list(given) and all(same_types(kept[key], given[key]) for key in given)
    if isinstance(given, list):
        return len(kept) == len(given) and all(map(same_types, kept, given))
    return bool(kept == given)


@accepted
def test_exact_json_is_kept_in_an_open_field(case: Accepted) -> None:
    event = pending_call().append(result("c1", meta={"v": case.value}))
    assert event.raw.decode().endswith(f',"meta":{{"v":{case.text}}}}}')
    assert same_types(event.data.meta["v"], case.value)  # type: ignore[index, call-overload]


@accepted
def test_exact_json_is_kept_as_an_opaque_payload(case: Accepted) -> None:
    event = empty().append(PlanMode(value=[case.value]))
    assert event.raw.decode() == f"[{case.text}]"
    assert same_types(event.data.value, [case.value])


@accepted
def test_exact_json_is_kept_in_a_plugin_field(case: Accepted) -> None:
    event = empty().append(Weather(city="Ulm", raw={"v": case.value}))
    assert event.raw.decode() == f'{{"city":"Ulm","degrees":0.0,"raw":{{"v":{case.text}}}}}'
    assert same_types(event.data.raw, {"v": case.value})


@refused
def test_anything_else_is_refused_in_an_open_field_with_path_and_remedy(case: Refused) -> None:
    session = pending_call()
    before = standing(session)
    with pytest.raises(LosslessError) as caught:
        session.append(result("c1", meta={"v": case.make()}))
    assert str(caught.value).startswith(f"tool/result: $.meta.v{case.path}")
    assert case.words in str(caught.value)
    assert standing(session) == before


@refused
def test_anything_else_is_refused_as_an_opaque_payload(case: Refused) -> None:
    session = empty()
    with pytest.raises(LosslessError) as caught:
        session.append(PlanMode(value=case.make()))
    assert str(caught.value).startswith(f"plan/mode: ${case.path}")
    assert case.words in str(caught.value)
    assert len(session) == 0


@refused
def test_anything_else_is_refused_in_a_plugin_field(case: Refused) -> None:
    session = empty()
    with pytest.raises(LosslessError) as caught:
        session.append(Weather(city="Ulm", raw=[0, case.make()]))
    assert str(caught.value).startswith(f"acme/weather: $.raw[1]{case.path}")
    assert case.words in str(caught.value)
    assert len(session) == 0


@refused
def test_anything_else_is_refused_as_the_whole_value_of_an_open_field(case: Refused) -> None:
    session = empty()
    with pytest.raises(LosslessError) as caught:
        session.append(Weather(city="Ulm", raw=case.make()))
    assert str(caught.value).startswith(f"acme/weather: $.raw{case.path}")
    assert case.words in str(caught.value)
    assert len(session) == 0


def test_the_error_is_the_one_the_documents_show() -> None:
    words = "tool/result: $.meta.when: datetime is not JSON; store epoch milliseconds"
    with pytest.raises(LosslessError, match=f"^{re.escape(words)}$"):
        pending_call().append(result("c1", meta={"when": dt.datetime(2026, 1, 1)}))


def bad_header(value: Any) -> Payload:
    schema = ToolSchema(name="read", description="", parameters={"type": value})
    return RequestHeader(header=Header(config=CallConfig("acme", "acme-1"), tools=(schema,)), reason="change")


def bad_replay_state(value: Any) -> Payload:
    source = ModelSource(provider="acme", model="acme-1", replay_state={"response": value})
    return AssistantMessage(turn=1, step=1, message=Message("assistant", (TextBlock("x"),), source, "a"))


def bad_finish(value: Any) -> Payload:
    return chunk(Finish(reason=FinishStop(), replay_state=[value]))


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (bad_header, r"request/header: \$\.header\.tools\[0\]\.parameters\.type: "),
        (bad_replay_state, r"assistant/message: \$\.message\.source\.replayState\.response: "),
        (bad_finish, r"assistant/chunk: \$\.chunk\.replayState\[0\]: "),
    ],
)
@pytest.mark.parametrize("value", [float("nan"), -0.0, 2**53, (1,), "\ud800", b"x"], ids=repr)
def test_every_open_field_of_the_core_is_walked(payload: Any, path: str, value: Any) -> None:
    session = in_step()
    before = standing(session)
    with pytest.raises(LosslessError, match=f"^{path}"):
        session.append(payload(value))
    assert standing(session) == before


def test_256_levels_are_kept_and_read_back() -> None:
    session = empty()
    arrays, objects = session.append(PlanMode(value=nested(256))), session.append(PlanMode(value=nested_objects(256)))
    assert arrays.raw == b"[" * 256 + b"]" * 256
    assert thaw(arrays.data.value) == nested(256)
    assert json.loads(objects.raw) == nested_objects(256)


def test_frozen_json_of_one_event_may_be_appended_again() -> None:
    session = pending_call()
    meta = session.append(result("c1", meta={"a": [1, {"b": [None]}]})).data.meta
    again = session.append(PlanMode(value=meta))
    assert again.raw == b'{"a":[1,{"b":[null]}]}'
    assert again.data.value == {"a": [1, {"b": [None]}]}
    assert isinstance(again.data.value["a"], JsonArray)  # type: ignore[index, call-overload]


def test_the_key_order_of_the_caller_is_the_order_in_the_log() -> None:
    event = empty().append(PlanMode(value={"z": 1, "a": 2, "m": 3}))
    assert event.raw == b'{"z":1,"a":2,"m":3}'
    assert list(event.data.value) == ["z", "a", "m"]  # type: ignore[arg-type]
