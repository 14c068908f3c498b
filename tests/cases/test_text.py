"""Reported faults of text: line ends, encodings, numbers, NUL characters, repeated keys. Bytes stay what they are."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cases.inputs import CASES, case
from tests.store.reading import codes, opened, refusal, texts
from turnlog.events import ToolCall, ToolCallBlock, ToolResult, UndecodablePayload
from turnlog.store import load, verify

SEPARATORS = ("\u2028", "\u2029", "\x85")


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def meta_of(path: Path) -> Any:
    (result,) = load(path).select(ToolResult)
    return result.data.meta


# -- BC-007 -----------------------------------------------------------------------------------------------------


def test_bc_007_only_a_newline_ends_a_line() -> None:
    path = case(7)
    assert path.read_bytes().count(b"\n") == 21
    session = opened(path)
    assert len(session) == 20
    asked, _called, result, answer = session.derive_messages()
    for message in (asked, result, answer):
        assert [message.text.count(separator) for separator in SEPARATORS] == [1, 1, 1]
    assert result.text.rstrip("\n") == answer.text.removeprefix("It says ")


@pytest.mark.parametrize("number", [2, 7, 8, 41, 52, 55, 56, 76])
def test_stored_data_is_kept_byte_for_byte(number: int) -> None:
    """What an event says is the text that was stored, not a re-encoding of it."""
    path = case(number)
    for line, event in zip(lines_of(path)[1:], load(path).events, strict=True):
        before, _, after = line.partition(b'"data":')
        assert f'"seq":{event.seq},'.encode() in before
        assert after.startswith(event.raw)


# -- BC-022 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "said"), [
    ("nan.jsonl", "NaN is not JSON"),
    ("infinity.jsonl", "-Infinity is not JSON"),
    ("leading-zero.jsonl", "the line is not JSON"),
])  # fmt: skip
def test_bc_022_what_only_python_takes_for_json_is_refused(name: str, said: str) -> None:
    finding = refusal(case(22, name))
    assert (finding.code, finding.kind, finding.place.line, finding.place.offset) == ("not-json", "corrupt", 12, 1809)
    assert said in finding.text


def test_bc_022_a_number_too_large_for_a_double_keeps_its_text() -> None:
    """Of the two ways that are right, this: the log opens, ``verify`` notes the number, and nobody writes Infinity."""
    path = case(22, "overflow.jsonl")
    session = opened(path)
    assert len(session) == 20
    assert b'"value":1e999' in session.event(10).raw
    assert b'"value":1e999' in session.event(10).line()
    (note,) = verify(path).findings
    assert (note.code, note.severity, note.seq) == ("big-number", "note", 10)


def test_bc_022_minus_zero_and_ordinary_numbers_open() -> None:
    assert len(opened(case(22, "fine.jsonl"))) == 20
    path = case(22, "minus-zero.jsonl")
    assert len(opened(path)) == 20
    value = meta_of(path)["value"]
    assert value == 0
    assert math.copysign(1, value) == -1


# -- BC-023 -----------------------------------------------------------------------------------------------------


def test_bc_023_a_long_integer_is_exact() -> None:
    path = case(23, "int-over-2p53.jsonl")
    assert meta_of(path) == {"value": 2512292042121000001}
    assert b'"value":2512292042121000001' in opened(path).event(10).line()
    (note,) = verify(path).findings
    assert (note.code, note.severity) == ("big-number", "note")


def test_bc_023_a_number_of_4400_digits_is_reported_by_line_and_crashes_nothing() -> None:
    path = case(23, "int-4400-digits.jsonl")
    session = opened(path)
    assert len(session) == 20
    data = session.event(10).data
    assert isinstance(data, UndecodablePayload)
    assert "digits" in data.reason
    assert session.event(10).raw.count(b"9") > 4399
    findings = verify(path).findings
    assert codes(findings) == ["big-number", "undecodable"]
    assert findings[0].place.line == 12
    assert "4400 digits" in findings[0].text


@pytest.mark.parametrize(("name", "text"), [
    ("float-17-digits.jsonl", b'"value":0.30000000000000004'),
    ("exp-int.jsonl", b'"value":1e3'),
])  # fmt: skip
def test_bc_023_numbers_keep_their_text(name: str, text: bytes) -> None:
    session = opened(case(23, name))
    assert text in session.event(10).raw
    assert text in session.event(10).line()
    assert verify(case(23, name)).findings == ()


def test_bc_023_arguments_are_the_models_own_text() -> None:
    arguments = '{ "id": 2512292042121000001, "limit": 1.0 }'
    session = opened(case(23, "big-arg.jsonl"))
    (called,) = session.select(ToolCall)
    assert called.data.arguments == arguments
    (block,) = session.derive_messages()[1].content
    assert isinstance(block, ToolCallBlock)
    assert block.arguments == arguments
    assert json.loads(session.message_events()[1].message_json)["content"][0]["arguments"] == arguments


def test_bc_023_a_time_that_other_readers_cannot_hold_is_refused_by_line_and_readable_all_the_same() -> None:
    path = case(23, "time-over-2p53.jsonl")
    finding = refusal(path)
    assert (finding.code, finding.place.line) == ("time", 2)
    assert "9007199254740993" in finding.text
    assert load(path, forensic=True).event(0).time == 9007199254740993


# -- BC-050 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "noted"), [
    ("bom.jsonl", ["bom"]),
    ("crlf.jsonl", ["crlf"]),
    ("blank-lines.jsonl", ["blank-line"]),
    ("spaces-and-indent.jsonl", []),
])  # fmt: skip
def test_bc_050_what_is_safe_is_accepted_with_a_note(name: str, noted: list[str]) -> None:
    path = case(50, name)
    session = opened(path)
    assert len(session) == 11
    assert len(session.derive_messages()) == 2
    assert codes(session.findings) == noted
    assert codes(verify(path).findings, "fault", "refused") == []


@pytest.mark.parametrize(("name", "line", "offset", "said"), [
    ("invalid-utf8.jsonl", 8, 855, "byte 153 of the line (0xff) is not UTF-8"),
    ("latin1.jsonl", 4, 264, "byte 95 of the line (0xef) is not UTF-8"),
])  # fmt: skip
def test_bc_050_damaged_text_is_refused_by_line_and_byte_and_never_replaced(
    name: str, line: int, offset: int, said: str
) -> None:
    path = case(50, name)
    finding = refusal(path)
    assert (finding.code, finding.place.line, finding.place.offset) == ("not-utf8", line, offset)
    assert said in finding.text
    session = load(path, forensic=True)
    assert len(list(session.events)) == 11
    damaged = lines_of(path)[line - 1]
    assert session.event(line - 2).raw in damaged
    assert "\ufffd" not in "".join(texts(session.derive_messages()))


@pytest.mark.parametrize(("name", "said"), [("utf16.jsonl", "UTF-16"), ("cr-only.jsonl", "CR alone")])
def test_bc_050_other_text_is_refused_by_name(name: str, said: str) -> None:
    finding = refusal(case(50, name))
    assert (finding.code, finding.kind) == ("no-header", "corrupt")
    assert said in finding.text


# -- BC-055, BC-056, BC-070 -------------------------------------------------------------------------------------


def test_bc_055_hostile_text_is_kept_as_it_is() -> None:
    """Escaping belongs to whoever prints; the log and its views say what was said."""
    session = opened(case(55))
    hostile = "<img src=x onerror=\"document.title='owned'\">"
    assert session.id == 'sess-"><script>document.title="owned"</script>'
    (called,) = session.select(ToolCall)
    assert (called.data.call_id, called.data.name) == (hostile, hostile)
    assert "\x1b]0;owned\x07\x1b[31mred\x1b[0m" in session.derive_messages()[2].text
    assert verify(case(55)).findings == ()


def test_bc_056_a_nul_character_is_text_like_any_other() -> None:
    session = opened(case(56))
    text = session.derive_messages()[2].text
    assert text.startswith("x\0y\x07")
    assert text.endswith("\ufffe\uffff")
    raw = session.event(10).raw
    assert b"x\\u0000y\\u0007" in raw
    assert b"\0" not in raw
    assert len(list(session.events)) == 20
    assert verify(case(56)).findings == ()


def test_bc_070_of_a_repeated_key_the_last_counts_and_the_line_is_flagged() -> None:
    path = case(70, "dup-seq-key.jsonl")
    session = opened(path)
    assert len(session) == 20
    assert session.event(5).seq == 5
    (finding,) = verify(path).findings
    assert (finding.code, finding.severity, finding.place.line) == ("repeated-key", "fault", 7)
    assert "'seq'" in finding.text


def test_bc_070_a_key_that_other_languages_treat_specially_is_plain_data() -> None:
    path = case(70, "proto-key.jsonl")
    session = opened(path)
    block = json.loads(session.event(10).raw)["message"]["content"][0]
    assert block["__proto__"] == {"a": 1}
    assert block["constructor"] == 1
    assert b'"__proto__":{"a":1},"constructor":1' in session.event(10).message_json
    assert verify(path).findings == ()


def test_every_input_of_the_cases_is_used_or_belongs_to_a_directory_of_sessions() -> None:
    """No input lies here unread: a case that is added needs its test."""
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    unused = [
        path
        for path in CASES.rglob("*.jsonl*")
        if "root" not in path.parts
        and path.name not in source
        and not (path.name == "session.jsonl" and f"case({int(path.parent.name[3:])}" in source)
    ]
    assert unused == []
