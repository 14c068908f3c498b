"""Formats 1 to 4, written by hand: what each allows, and how it becomes the same canonical view."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.store.logs import MODEL, START, Log, compact, joined
from tests.store.reading import codes, opened, plains, refusal, shown, texts
from turnlog.events import (
    AssistantAttempt,
    AssistantChunk,
    DeveloperMessage,
    Opaque,
    SystemMessage,
    ToolResult,
    ToolResultBlock,
    UnknownPayload,
)
from turnlog.log import Replace
from turnlog.store import SessionAmbiguous, load, locate, verify
from turnlog.views import attempts

STREAM = [
    {"type": "chunk", "time": START, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
    {"type": "text-chunks", "time0": START + 5, "index": 0, "dt": [2, 3], "texts": ["Hel", "lo", "!"]},
    {"type": "chunk", "time": START + 12, "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
]


def streamed(log: Log, text: str, stream: Any = STREAM) -> int:
    """An assistant message of formats 2 to 4, its stream inside."""
    seq = log.answer(text)
    log.events[seq]["data"]["stream"] = stream
    return seq


def system(log: Log, text: str, **envelope: Any) -> int:
    message = {
        "role": "system",
        "content": [{"type": "text", "text": text}],
        "source": {"kind": "system-prompt"},
        "id": log.message_id(),
    }
    return log.add("system/message", {"turn": 1, "step": 1, "message": message}, **{"surfaceOp": "append", **envelope})


# -- format 1 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_format_1_is_format_0_with_another_number(packed: bool) -> None:
    logs = [Log(version=version) for version in (0, 1)]
    for log in logs:
        log.tool_turn(1, "Now?", "call_1", "12:00", "Noon.")
    zero, one = (opened(log.text(packed=packed)) for log in logs)
    assert (zero.format, one.format) == ("format 0", "format 1")
    assert one.events == zero.events
    assert list(one.derive_messages()) == list(zero.derive_messages())
    assert verify(logs[1].text(packed=packed)).findings == ()


# -- format 2 ---------------------------------------------------------------------------------------------------


def test_format_2_keeps_the_stream_inside_the_message() -> None:
    log = Log(version=2)
    log.turn()
    log.step()
    log.user("Hi")
    seq = streamed(log, "Hello!")
    log.end_step()
    log.end_turn()
    session = opened(log.text())
    assert plains(session.events) == log.events
    assert texts(session.derive_messages()) == ["Hi", "Hello!"]
    assert json.loads(session.event(seq).raw)["stream"] == STREAM
    (attempt,) = attempts(session)
    assert [(chunk.time, chunk.chunk.text) for chunk in attempt.chunks if hasattr(chunk.chunk, "text")] == [
        (START + 5, "Hel"),
        (START + 7, "lo"),
        (START + 10, "!"),
    ]
    assert list(session.select(AssistantChunk)) == []
    assert verify(log.text()).findings == ()


def test_format_2_failed_attempts_are_events_of_their_own() -> None:
    log = Log(version=2)
    log.turn()
    log.step()
    log.user("Hi")
    failed = log.add("assistant/attempt", {"turn": 1, "step": 1, "stream": STREAM})
    streamed(log, "Hello!")
    session = opened(log.text())
    assert isinstance(session.event(failed).data, AssistantAttempt)
    assert texts(session.derive_messages(as_stored=True)) == ["Hi", "Hello!"]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_later_formats_have_no_chunk_events_and_no_packed_rows(version: int) -> None:
    log = Log(version=version)
    log.turn()
    log.step()
    chunk = log.chunk({"type": "text-delta", "index": 0, "text": "x"})
    session = opened(log.text())
    assert isinstance(session.event(chunk).data, UnknownPayload)
    assert codes(session.findings) == ["unknown-type"]
    row = {
        "type": "text-chunks",
        "seq0": 3,
        "time0": 1,
        "data": {"turn": 1, "step": 1, "index": 0, "dt": [], "texts": ["x"]},
    }
    finding = refusal(log.text() + compact(row) + b"\n")
    assert (finding.code, finding.place.line) == ("envelope", 5)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_last_inherited_marker_ends_the_seed(version: int) -> None:
    log = Log(version=version, isSeeded=True, parentSession="sess-0")
    log.turn()
    first = log.add("session/end-seed", {"inherited": True})
    log.add("session/end-seed", {})
    log.end_turn()
    last = log.add("session/end-seed", {"inherited": True, "note": '"inherited":false'})
    log.add("session/end-seed", {"inherited": False})
    log.add("feedback/record", {"text": '{"inherited":true}'})
    session = opened(log.text())
    assert first < last
    assert (session.header.seed_length, session.header.parent_session) == (last, "sess-0")
    assert verify(log.text()).findings == ()


@pytest.mark.parametrize(("seeded", "marked"), [(True, False), (False, True)])
def test_a_header_and_a_marker_that_disagree_about_the_seed_are_a_fault(seeded: bool, marked: bool) -> None:
    log = Log(version=3, isSeeded=seeded)
    log.add("session/end-seed", {"inherited": True} if marked else {})
    session = opened(log.text())
    assert session.header.seed_length == (0 if marked else None)
    assert codes(verify(log.text()).findings, "fault") == ["seed"]


def test_spaces_in_the_marker_make_no_difference() -> None:
    log = Log(version=2, isSeeded=True)
    log.turn()
    line = json.dumps({"type": "session/end-seed", "seq": 1, "time": 1, "data": {"inherited": True}}).encode()
    session = opened(log.text() + line + b"\n")
    assert session.header.seed_length == 1


# -- format 3 ---------------------------------------------------------------------------------------------------


def test_format_3_spells_a_replace_with_start_seq_and_end_seq() -> None:
    log = Log(version=3)
    prompt = system(log, "Be brief.")
    log.turn()
    log.step()
    first = log.user("One")
    second = log.user("Two")
    seq = log.user(
        "Both",
        surfaceOp={"op": "replace", "startSeq": first, "endSeq": second},
        sourceEventSeqs=[first, second],
    )
    session = opened(log.text())
    assert session.surface == (prompt, seq)
    operation = session.event(seq).surface_op
    assert isinstance(operation, Replace)
    assert (operation.start, operation.end) == (first, second)
    assert texts(session.derive_messages(as_stored=True)) == ["Be brief.", "Both"]
    assert texts(session.derive_messages(at=seq)) == ["Be brief.", "One", "Two"]


@pytest.mark.parametrize(
    ("version", "names"), [(0, ("startSeq", "endSeq")), (3, ("start", "end")), (4, ("start", "end"))]
)
def test_a_replace_spelled_as_another_format_does_is_refused(version: int, names: tuple[str, str]) -> None:
    log = Log(version=version)
    first = log.user("One")
    log.user("Two", surfaceOp={"op": "replace", **dict.fromkeys(names, first)}, sourceEventSeqs=[first])
    finding = refusal(log.text())
    assert (finding.code, finding.place.line) == ("surface", 3)
    assert f"format {version}" in finding.text


def test_format_3_prompt_may_be_empty_and_may_be_replaced() -> None:
    log = Log(version=3)
    empty = system(log, "")
    log.events[empty]["data"]["message"]["content"] = []
    log.user("Hi")
    full = system(
        log, "Be brief.", surfaceOp={"op": "replace", "startSeq": empty, "endSeq": empty}, sourceEventSeqs=[empty]
    )
    session = opened(log.text())
    assert isinstance(session.event(full).data, SystemMessage)
    assert [message.role for message in session.derive_messages(at=full)] == ["user"]
    assert [(message.role, message.text) for message in session.derive_messages()] == [
        ("system", "Be brief."),
        ("user", "Hi"),
    ]


def test_a_surface_type_of_a_later_format_is_unknown_to_an_earlier_one() -> None:
    for version in (0, 1, 2):
        log = Log(version=version)
        seq = system(log, "Be brief.")
        session = opened(log.text())
        assert isinstance(session.event(seq).data, UnknownPayload)
        assert session.surface == ()
        assert list(session.derive_messages()) == []


def test_code_dispatches_have_their_new_names_from_format_3_on() -> None:
    data = {"rootCallId": "a", "parentCallId": "a", "subCallId": "b", "name": "x", "arguments": "{}"}
    for version, name, known in (
        (0, "tool/code-dispatch-start", True),
        (2, "tool/code-dispatch-start", True),
        (3, "tool/code-dispatch-start", False),
        (3, "tool/ptc-dispatch-start", True),
        (2, "tool/ptc-dispatch-start", False),
        (4, "tool/ptc-dispatch", True),
        (3, "job/registered", False),
        (4, "job/registered", True),
        (1, "feedback/message-put", False),
        (2, "feedback/message-put", True),
        (0, "model/selection", True),
        (0, "session-log-deepseek/delivery-accepted", True),
        (0, "subagent/model-selection-policy", True),
    ):
        log = Log(version=version)
        log.add(name, data)
        assert codes(opened(log.text()).findings) == ([] if known else ["unknown-type"]), (version, name)


# -- format 4 ---------------------------------------------------------------------------------------------------


def lifted_log(content: bytes, *, extra: bytes = b"", is_error: bytes = b',"isError":false') -> bytes:
    log = Log(version=4)
    log.turn()
    log.step()
    log.call("call_1")
    line = (
        b'{"type":"tool/result","seq":3,"time":1,"data":{"turn":1,"step":1,"message":{"role":"tool",'
        b'"source":{"kind":"tool","callId":"call_1" },"toolCallId":"call_1","content":'
        + content
        + is_error
        + extra
        + b',"id":"m-9"},"meta":{"cwd" : "/x"}},"sourceEventSeqs":[2],"surfaceOp":"append"}'
    )
    return joined([*log.lines(), line])


def test_format_4_a_lifted_result_keeps_its_content_byte_for_byte() -> None:
    content = b'[ {"type":"text","text":"a\\u00e9\\ud83d"}, {"type":"plugin:chart","points":[1.0, 2e3]} ]'
    text = lifted_log(content)
    session = opened(text)
    event = session.event(3)
    assert content in event.raw
    assert content in event.message_json
    assert json.loads(event.message_json) == {
        "source": {"kind": "tool", "callId": "call_1"},
        "content": [{"type": "tool-result", "toolCallId": "call_1", "content": json.loads(content), "isError": False}],
        "role": "user",
        "id": "m-9",
    }
    assert shown([session.derive_messages(as_stored=True)[0]])[0] == json.loads(event.message_json)
    data = event.data
    assert isinstance(data, ToolResult)
    assert data.meta == {"cwd": "/x"}
    (block,) = data.message.content
    assert isinstance(block, ToolResultBlock)
    assert isinstance(block.content[1], Opaque)
    assert block.content[1].kind == "plugin:chart"


def test_format_4_members_that_nobody_knows_survive_lifting() -> None:
    extra = b',"plugin:message:trace":{"a" : [1.0]},"plugin:result:note":"n"'
    event = opened(lifted_log(b"[]", extra=extra)).event(3)
    assert b'"plugin:message:trace":{"a" : [1.0]}' in event.message_json
    assert json.loads(event.message_json)["plugin:result:note"] == "n"


def test_format_4_a_result_that_does_not_say_whether_it_failed_stays_silent_about_it() -> None:
    event = opened(lifted_log(b"[]", is_error=b"")).event(3)
    assert "isError" not in json.loads(event.message_json)["content"][0]


def test_format_4_a_result_in_the_old_shape_is_shown_as_it_is() -> None:
    log = Log(version=4)
    log.header["version"] = 0
    log.result("call_1", "old")
    log.header["version"] = 4
    session = opened(log.text())
    assert json.loads(session.event(0).message_json) == log.events[0]["data"]["message"]


def test_format_4_a_rewritten_result_may_change_its_content_and_nothing_else() -> None:
    def rewritten(**changes: Any) -> bytes:
        log = Log(version=4)
        log.turn()
        log.step()
        asked = log.call("call_1")
        old = log.result("call_1", "long output", sources=[asked])
        seq = log.result(
            "call_1",
            "[pruned]",
            id=log.events[old]["data"]["message"]["id"],
            sources=[old],
            surfaceOp={"op": "replace", "startSeq": old, "endSeq": old},
        )
        log.events[seq]["data"]["message"] |= changes
        return log.text()

    session = opened(rewritten())
    assert texts(session.derive_messages(as_stored=True)) == ["[pruned]"]
    assert refusal(rewritten(isError=True)).code == "tool-result-rewrite"
    assert refusal(rewritten(id="other")).code == "tool-result-rewrite"


def test_format_4_developer_messages_join_the_surface() -> None:
    log = Log(version=4)
    log.turn()
    log.step()
    log.user("Hi")
    message = {
        "role": "developer",
        "content": [{"type": "tool-addition", "toolName": "grep"}],
        "source": {"kind": "tool-catalog"},
        "id": "m-dev",
    }
    seq = log.add(
        "developer/message",
        {"turn": 1, "step": 1, "headerSeq": 0, "message": message},
        surfaceOp="append",
    )
    session = opened(log.text())
    assert isinstance(session.event(seq).data, DeveloperMessage)
    last = session.derive_messages(as_stored=True)[-1]
    assert last.role == "developer"
    assert shown([last]) == [message]
    assert json.loads(session.event(seq).message_json) == message


# -- which file, which format -----------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [
    {"type": "session", "version": 5, "id": "x", "createdAt": 1, "delegationDepth": 0, "isSeeded": False},
    {"type": "session", "version": 5, "origin": "automation", "createdAt": "yesterday"},
    {"type": "session", "version": 99},
    {"type": "session", "version": 2**60, "id": None},
])  # fmt: skip
def test_a_future_format_is_named_as_such_whatever_its_header_holds(header: Any) -> None:
    finding = refusal(compact(header) + b'\n{"anything":1}\n')
    assert (finding.code, finding.kind) == ("header", "unsupported")
    assert "written by a newer dsh" in finding.text
    assert finding.remedy == "Update turnlog."


def session_directory(root: Path, *files: tuple[str, bytes]) -> Path:
    home = root / "--home-dev-demo--" / "sess-1"
    home.mkdir(parents=True)
    for name, text in files:
        (home / name).write_bytes(text)
    return home


def generation(version: int, text: str) -> bytes:
    log = Log(version=version)
    log.user(text)
    return log.text()


def test_the_highest_generation_of_a_directory_is_opened(tmp_path: Path) -> None:
    home = session_directory(
        tmp_path,
        ("session.jsonl", generation(0, "zero")),
        ("session.v2.jsonl", generation(2, "two")),
        ("session.v4.jsonl", generation(4, "four")),
        ("session.v10.jsonl.tmp", b"no session file"),
        ("session.V3.jsonl", b"no session file"),
        ("session.v03.jsonl", b"no session file"),
    )
    assert locate(home).name == "session.v4.jsonl"
    assert texts(load(home).derive_messages()) == ["four"]
    assert texts(load(home / "session.jsonl").derive_messages()) == ["zero"]


def test_a_damaged_highest_generation_is_never_passed_over(tmp_path: Path) -> None:
    home = session_directory(
        tmp_path, ("session.jsonl", generation(0, "zero")), ("session.v10.jsonl", b'{"type":"session","version":10}\n')
    )
    assert "newer dsh" in refusal(home).text


def test_a_name_of_another_generation_than_the_header_is_refused(tmp_path: Path) -> None:
    home = session_directory(tmp_path, ("session.v3.jsonl", generation(2, "two")))
    finding = refusal(home)
    assert (finding.code, finding.place.line) == ("file-version", 1)
    assert "named as format 3" in finding.text
    assert "says format 2" in finding.text
    assert texts(load(home, forensic=True).derive_messages()) == ["two"]
    other = tmp_path / "copy-of-it.jsonl"
    other.write_bytes(generation(2, "two"))
    assert texts(opened(other).derive_messages()) == ["two"]


def test_two_files_of_one_generation_are_ambiguous(tmp_path: Path) -> None:
    home = session_directory(
        tmp_path, ("session.v2.jsonl", generation(2, "two")), ("session.v2.jsonl.zstd", generation(2, "other"))
    )
    with pytest.raises(SessionAmbiguous, match=r"session\.v2\.jsonl and session\.v2\.jsonl\.zstd are two files of one"):
        load(home)
    assert texts(load(home / "session.v2.jsonl").derive_messages()) == ["two"]


def test_the_surface_of_a_format_0_replace_over_formats_source_is_the_model(tmp_path: Path) -> None:
    """One conversation in every format gives one list of texts."""
    for version in range(5):
        log = Log(version=version)
        log.turn()
        log.step()
        log.user("Run it")
        log.answer({"type": "tool-call", "id": "c", "name": "bash", "arguments": "{}"})
        asked = log.call("c")
        log.result("c", "done", sources=[asked])
        log.end_step()
        log.end_turn()
        path = tmp_path / f"log{version}.jsonl"
        path.write_bytes(log.text())
        session = opened(path)
        assert texts(session.derive_messages()) == ["Run it", "", "done"]
        assert [message.role for message in session.derive_messages()] == ["user", "assistant", "user"]
        assert shown(session.derive_messages())[1]["source"] == MODEL
        assert codes(verify(path).findings) == []
