"""Logs that dsh itself wrote, in formats 0, 3 and 4, and the documents' sample: all open, and say what dsh says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.store.logs import CORPUS, Event, contents, unpack
from tests.store.reading import codes, flats, opened, plains, shown, texts
from turnlog.events import (
    AssistantMessage,
    Completed,
    Interrupted,
    MaxTokens,
    Opaque,
    RequestHeader,
    ToolCall,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
)
from turnlog.events.lossless import dump
from turnlog.store import load, verify

LOGS = sorted(path for version in ("v0", "v3", "v4") for path in (CORPUS / version).rglob("session*.jsonl*"))
EXPECTED = sorted((CORPUS / "v0" / "expected").glob("*.json"))


def name_of(path: Path) -> str:
    return f"{path.relative_to(CORPUS).parts[0]}-{path.parent.name}"


def stored(path: Path) -> list[Event]:
    """The events of a log, decompressed, decoded and unpacked with nothing of turnlog."""
    lines = contents(path.read_bytes()).splitlines()[1:] if path.suffix == ".zstd" else path.read_bytes().splitlines()
    return [event for line in lines for event in unpack(json.loads(line))]


def corpus(version: str, session: str) -> Path:
    (path,) = (CORPUS / version / "--home-dev-project--" / session).iterdir()
    return path


def test_the_corpus_is_complete() -> None:
    assert [len([path for path in LOGS if f"/{version}/" in str(path)]) for version in ("v0", "v3", "v4")] == [
        13,
        13,
        12,
    ]
    assert len(EXPECTED) == 13


@pytest.mark.parametrize("path", LOGS, ids=name_of)
def test_every_log_of_dsh_opens_strict_with_all_its_events(path: Path) -> None:
    session = opened(path)
    assert plains(session.events) == flats(stored(path))
    assert session.id == path.parent.name
    assert session.header.cwd == "/home/dev/project"
    assert session.format == f"format {path.relative_to(CORPUS).parts[0][1]}"
    assert (session.path, session.torn, session.branches, session.liveness) == (path, None, (), "unknown")


@pytest.mark.parametrize("path", LOGS, ids=name_of)
def test_nothing_but_an_open_end_is_found_in_what_dsh_wrote(path: Path) -> None:
    report = verify(path)
    assert codes(report.findings) == (["open-turn"] if path.parent.name == "crashed-session" else [])
    assert report.ok


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
def test_the_stored_view_of_format_0_is_what_dsh_derives(path: Path) -> None:
    expected: dict[str, Any] = json.loads(path.read_text())
    session = load(corpus("v0", path.stem))
    marker = 1  # dsh marks the end of what it loaded with an event of its own
    assert len(session) == expected["events"] - marker
    assert session.id == expected["id"]
    assert list(session.surface) == expected["nodes"]
    assert session.generation == expected["replaceGeneration"]
    assert shown(session.derive_messages(as_stored=True)) == expected["messages"]
    header = session.request_header()
    assert header is not None
    assert json.loads(dump(header)) == expected["header"]


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.stem)
def test_messages_of_format_0_are_stored_byte_for_byte(path: Path) -> None:
    session = load(corpus("v0", path.stem))
    for event in session.message_events(as_stored=True):
        data = json.loads(event.raw)
        assert json.loads(event.message_json) == (data if event.type == "user/message" else data["message"])
        assert event.message_json in event.raw


def test_format_3_multi_turn_session_reads_as_a_conversation_of_five_turns() -> None:
    session = load(corpus("v3", "multi-turn-session"))
    assert len(session) == 62
    assert session.surface == (7, 8, 9, 13, 15, 18, 25, 26, 33, 34, 36, 38, 40, 43, 50, 51, 58, 59)
    messages = session.derive_messages()
    assert "".join(message.role[0] for message in messages) == "suuauauauauuuauaua"
    assert messages[1].text == "#tools first"
    assert messages[3].text == "I will look at the files first. "
    assert [messages[index].text for index in (5, 13, 15, 17)] == [
        "All done. Here is the final answer.",
        "All done. Here is the final answer.",
        "This answer is cut",
        "All done. Here is the final answer.",
    ]
    assert [event.data.reason for event in session.select(TurnEnd)] == [
        Completed(),
        Completed(),
        Completed(),
        MaxTokens(),
        Completed(),
    ]
    assert [call.data.call_id for call in session.select(ToolCall)] == [
        "call_135_0",
        "call_138_0",
        "call_138_1",
        "call_138_2",
    ]
    outputs = [result.data.message.text for result in session.select(ToolResult)]
    assert outputs[1:] == ["part 0\n", "part 1\n", "part 2\n"]
    assert outputs[0].endswith("done\n")


def test_format_3_prompt_is_a_message_and_not_part_of_the_header() -> None:
    session = load(corpus("v3", "multi-turn-session"))
    first = session.derive_messages()[0]
    assert (first.role, first.text) == ("system", "Invented text 52d775fa55d6.")
    (header,) = session.select(RequestHeader)
    assert header.data.header.system is None
    assert header.data.header.tools is not None
    assert header.data.header.tools[0].name == "bash"


def test_format_4_results_are_lifted_into_format_0s_shape() -> None:
    session = load(corpus("v4", "session-f47c807b86eb4de1bab3f72a40ade8f8"))
    (result,) = session.select(ToolResult)
    assert result.seq == 18
    assert result.sources == (15,)
    message = result.data.message
    assert (message.role, message.id) == ("user", "a8bb39e1-369d-48c9-9412-8cff1170cf03")
    (block,) = message.content
    assert isinstance(block, ToolResultBlock)
    assert (block.tool_call_id, block.is_error) == ("call_3_0", True)
    assert texts(session.derive_messages()) == [
        "Invented text efb778bc3c92.",
        "#tools please",
        "Invented text aa04fef6de7e.",
        "I will look at the files first. ",
        "Invented text ed44fb983408.",
        "All done. Here is the final answer.",
    ]


def test_format_4_sources_of_a_kind_of_their_own_are_kept() -> None:
    session = load(corpus("v4", "session-f47c807b86eb4de1bab3f72a40ade8f8"))
    prompt, _asked, context, *_rest = session.derive_messages()
    assert isinstance(prompt.source, Opaque)
    assert prompt.source.kind == "system-prompt"
    assert isinstance(context.source, Opaque)
    assert (context.source.kind, context.source.value["form"]) == ("runtime-context", "snapshot")


def test_format_4_session_with_nine_steps_and_eight_jobs() -> None:
    session = load(corpus("v4", "session-bd590f2c32e34a0a9ddd328b1e6ea8a2"))
    assert len(session) == 81
    types = [event.type for event in session.events]
    counts = {
        kind: types.count(kind) for kind in ("step/start", "tool/call", "tool/result", "job/registered", "job/settled")
    }
    assert counts == {"step/start": 9, "tool/call": 8, "tool/result": 8, "job/registered": 8, "job/settled": 8}
    assert len(session.derive_messages()) == 3 + 9 + 8


@pytest.mark.parametrize(("version", "events", "messages"), [("v0", 89, 5), ("v3", 26, 7), ("v4", 31, 7)])
def test_a_crashed_session_is_shown_with_closers_and_stored_without(version: str, events: int, messages: int) -> None:
    session = load(corpus(version, "crashed-session"))
    assert len(session) == events
    assert len(session.derive_messages(as_stored=True)) == messages
    last = session.closers[-1].data
    assert isinstance(last, TurnEnd)
    assert (last.turn, last.reason) == (2, Interrupted())
    closing = session.derive_messages()[messages:]
    spoken = "".join(f"s{number} " for number in range(39))
    assert texts(closing) == ([spoken] if version == "v0" else [])


def test_format_0_kept_what_had_been_streamed_before_the_crash() -> None:
    session = load(corpus("v0", "crashed-session"))
    answer, step_end, turn_end = session.closers
    assert isinstance(answer.data, AssistantMessage)
    assert answer.data.interrupted is True
    assert answer.sources == tuple(range(49, 89))
    assert [event.type for event in (answer, step_end, turn_end)] == ["assistant/message", "step/end", "turn/end"]
    assert [event.seq for event in session.closers] == [89, 90, 91]


def test_the_sample_of_the_documents_is_read_as_it_is() -> None:
    path = CORPUS / "sample" / "session.jsonl"
    session = opened(path)
    assert (session.format, session.id, len(session)) == ("sample", "session", 10)
    assert plains(session.events) == stored(path)
    asked, answered, result = session.derive_messages()
    assert (asked.role, asked.text) == ("user", "Fix the typo in the runoob README.")
    text, call = json.loads(dump(answered))["content"]
    assert text == {"type": "text", "text": "I'll search"}
    assert call == {
        "type": "tool-call",
        "id": "call_1",
        "name": "bash",
        "arguments": '{"command":"grep runoob README.md"}',
    }
    assert json.loads(dump(result))["content"] == [
        {
            "type": "tool-result",
            "toolCallId": "call_1",
            "content": [{"type": "text", "text": "runoob"}],
            "isError": False,
        }
    ]
    assert verify(path).ok


def test_the_sample_says_nothing_about_where_its_messages_come_from() -> None:
    session = load(CORPUS / "sample" / "session.jsonl")
    asked, answered, result = session.derive_messages()
    assert [json.loads(dump(message))["source"]["kind"] for message in (asked, answered, result)] == [
        "unrecorded",
        "unrecorded",
        "tool",
    ]
    assert asked.id == "legacy-message:session:2"
