"""A vocabulary is a value: the event types a session knows, extended without touching anybody else's."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from tests.log.sessions import Weather, extended
from turnlog.events import (
    EndSeed,
    LogPayload,
    OpaquePayload,
    PlanMode,
    PluginEventWarning,
    SurfacePayload,
    TextBlock,
    TurnStart,
    UndecodablePayload,
    UnknownEventType,
    UnknownPayload,
    Vocabulary,
)
from turnlog.log import Session

DSH_NAMES = [
    "turn/start", "turn/end", "step/start", "step/end",
    "user/message", "assistant/chunk", "assistant/message", "tool/call",
    "tool/result", "todo/write", "request/header", "request/context",
    "session/end-seed", "agent/inbox/spliced", "agent-preset/selected", "approval/asked",
    "approval/decided", "approval/policy", "command/run", "command/done",
    "compaction/start", "compaction/summary", "compaction/end", "compaction/prune",
    "feedback/record", "goal/change", "hook/invoked", "hook/result",
    "llm/retry", "llm/retry-started", "permission/preset", "plan/mode",
    "sandbox/mode", "schedule/change", "session/title", "session/title-llm-request",
    "subagent/descriptor", "team/member", "team/task", "team/message/queued",
    "team/message/delivered", "tool-workflow/run-start", "tool-workflow/agent-start", "tool-workflow/agent-end",
    "tool-workflow/run-end", "tool/code-dispatch-start", "tool/code-dispatch", "web/deepseek-search-llm-request",
]  # fmt: skip


class Note(LogPayload, type="acme/note"):
    text: str


class OtherNote(LogPayload, type="acme/note"):
    words: str


class Panel(SurfacePayload, type="acme/panel"):
    text: str


class Blob(OpaquePayload, type="acme/blob"):
    pass


def test_the_core_is_the_48_types_of_dsh() -> None:
    assert len(DSH_NAMES) == 48
    assert sorted(Vocabulary.core) == sorted(DSH_NAMES)


def test_extending_warns_that_dsh_cannot_read_such_sessions() -> None:
    words = "acme/note, acme/weather: sessions that hold these events are not readable by dsh 0.1.3 and later"
    with pytest.warns(PluginEventWarning, match=re.escape(words)) as caught:
        Vocabulary.core.extend(Weather, Note)
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]


def test_extending_makes_a_new_vocabulary_and_leaves_the_old_one() -> None:
    one = extended(Note)
    two = extended(OtherNote)
    assert one.kinds["acme/note"] is Note
    assert two.kinds["acme/note"] is OtherNote
    assert "acme/note" not in Vocabulary.core
    assert sorted(Vocabulary.core) == sorted(DSH_NAMES)
    assert sorted(one) == sorted([*DSH_NAMES, "acme/note"])


def test_extensions_add_up() -> None:
    with pytest.warns(PluginEventWarning, match="acme/weather"):
        both = extended(Note).extend(Weather)
    assert {"acme/note", "acme/weather"} <= set(both)


def test_the_kinds_of_a_vocabulary_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        Vocabulary.core.kinds["acme/note"] = Note  # type: ignore[index]
    with pytest.raises(TypeError):
        del Vocabulary.core.kinds["turn/start"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Panel, SurfacePayload])
def test_the_surface_cannot_be_widened(kind: type[SurfacePayload]) -> None:
    with pytest.raises(TypeError, match=r"the surface types are user, assistant and tool result.*ModelInput"):
        Vocabulary.core.extend(kind)


@pytest.mark.parametrize("name", ["turn/start", "user/message", "plan/mode", "session/end-seed"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    taken = type(LogPayload)("Mine", (LogPayload,), {}, type=name)
    with pytest.raises(ValueError, match=f"^'{name}' is already .*; choose another name"):
        Vocabulary.core.extend(taken)


@pytest.mark.parametrize("name", ["mode/set", "request/header-delta"])
def test_a_retired_name_is_refused(name: str) -> None:
    retired = type(LogPayload)("Mine", (LogPayload,), {}, type=name)
    with pytest.raises(ValueError, match=f"^'{name}' is a retired type"):
        Vocabulary.core.extend(retired)


def test_two_new_classes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^'acme/note': two classes for one event type"):
        Vocabulary.core.extend(Note, OtherNote)


def test_nothing_is_warned_about_when_extending_fails() -> None:
    with warnings.catch_warnings(record=True) as caught, pytest.raises(TypeError):
        Vocabulary.core.extend(Note, Panel)
    assert caught == []


def test_plugin_events_are_stored_as_ignorable_and_core_events_are_not() -> None:
    session = Session(vocabulary=extended(Note, Blob))
    session.append(TurnStart(turn=1))
    session.append(Note(text="hi"))
    session.append(Blob(value=[1]))
    assert [event.ignorable for event in session.events] == [False, True, True]
    assert session.events[0].line().endswith(b'"data":{"turn":1}}')
    assert session.events[1].line().endswith(b'"data":{"text":"hi"},"ignorable":true}')
    assert session.events[2].line().endswith(b'"data":[1],"ignorable":true}')


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (Note(text="x"), r"acme/note: .*Vocabulary\.core\.extend\(Note\)"),
        (Blob(value=1), r"acme/blob: .*Vocabulary\.core\.extend\(Blob\)"),
        (UnknownPayload(type="crew/joined", value={}), r"crew/joined: read from a log of another program"),
        (UndecodablePayload(type="turn/start", value={}, reason="$.turn: missing"), r"turn/start: read from a log"),
        (LogPayload(), r"LogPayload: not in this session's vocabulary"),
        (type("MyTurn", (TurnStart,), {})(turn=1), r"MyTurn: not in this session's vocabulary"),
        (type(LogPayload)("Mine", (LogPayload,), {}, type="turn/start")(), r"turn/start: not in this session's"),
    ],
)
def test_an_event_of_no_known_class_is_refused_at_once_with_the_way_out(payload: LogPayload, words: str) -> None:
    session = Session()
    with pytest.raises(UnknownEventType, match=f"^{words}"):
        session.append(payload)
    assert len(session) == 0
    session.append(PlanMode(value={}))
    assert len(session) == 1


def test_a_vocabulary_refuses_another_ones_class_of_the_same_name() -> None:
    session = Session(vocabulary=extended(Note))
    with pytest.raises(UnknownEventType, match=r"^acme/note: "):
        session.append(OtherNote(words="x"))


def test_a_surface_payload_of_a_plugin_is_refused_at_append() -> None:
    with pytest.raises(UnknownEventType, match=r"^acme/panel: "):
        Session().append(Panel(text="x"))


def test_end_seed_is_in_the_vocabulary_but_reserved() -> None:
    assert Vocabulary.core.kinds["session/end-seed"] is EndSeed
    assert TextBlock not in Vocabulary.core.kinds.values()
