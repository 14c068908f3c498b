"""The first line: what a header must hold, what is odd but readable, and what stands in its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.logs import START, Log, compact, frame, joined
from tests.store.reading import codes, opened, refusal
from turnlog.store import LogCorrupt, load, verify

GOOD: dict[str, Any] = {"type": "session", "version": 0, "id": "s", "createdAt": START, "delegationDepth": 0}
EVENT = b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\n'


def text(header: Any) -> bytes:
    return compact(header) + b"\n" + EVENT


def test_every_member_of_a_header_is_read() -> None:
    whole = {
        **GOOD,
        "id": "sess-x",
        "cwd": "/home/dev",
        "parentSession": "sess-w",
        "seedLength": 1,
        "origin": "subagent",
        "delegationDepth": 2,
        "agentPreset": "code",
    }
    header = opened(text(whole)).header
    assert (header.version, header.id, header.created_at, header.cwd) == (0, "sess-x", START, "/home/dev")
    assert (header.parent_session, header.seed_length, header.origin) == ("sess-w", 1, "subagent")
    assert (header.delegation_depth, header.agent_preset) == (2, "code")
    assert verify(text(whole)).findings[0].code == "open-turn"


def test_numbers_of_a_header_may_be_written_as_floats() -> None:
    header = opened(
        b'{"type":"session","version":0,"id":"s","createdAt":1e3,"seedLength":1.0,"delegationDepth":2.0}\n'
    ).header
    numbers = (header.created_at, header.seed_length, header.delegation_depth)
    assert numbers == (1000, 1, 2)
    assert [type(number) for number in numbers] == [int, int, int]


@pytest.mark.parametrize(("changes", "said"), [
    ({"version": "0"}, "version is '0'"),
    ({"version": None}, "version is None"),
    ({"version": True}, "version is True"),
    ({"version": -1}, "version is -1"),
    ({"version": 0.5}, "version is 0.5"),
    ({"id": ""}, "no session id"),
    ({"id": 7}, "no session id"),
    ({"createdAt": "now"}, "createdAt is 'now'"),
    ({"createdAt": -1}, "createdAt is -1"),
    ({"createdAt": 1.5}, "createdAt is 1.5"),
    ({"createdAt": 2**53}, "createdAt is 9007199254740992"),
    ({"createdAt": True}, "createdAt is True"),
    ({"createdAt": None}, "createdAt is None"),
    ({"delegationDepth": -1}, "delegationDepth is -1"),
    ({"seedLength": "3"}, "seedLength is '3'"),
    ({"cwd": 1}, "cwd is no string"),
    ({"cwd": None}, "cwd is no string"),
    ({"parentSession": 1}, "parentSession is no string"),
    ({"agentPreset": {}}, "agentPreset is no string"),
    ({"origin": "automation"}, "origin is 'automation'"),
    ({"version": 2}, "isSeeded"),
    ({"version": 4, "isSeeded": "no"}, "isSeeded"),
])  # fmt: skip
def test_a_header_without_what_readers_need_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    finding = refusal(text({**GOOD, **changes}))
    assert (finding.code, finding.kind, finding.place.line) == ("header", "corrupt", 1)
    assert said in finding.text


@pytest.mark.parametrize("name", ["id", "createdAt", "version"])
def test_a_header_that_lacks_a_member_is_refused(name: str) -> None:
    assert refusal(text({key: value for key, value in GOOD.items() if key != name})).code == "header"


def test_a_header_with_a_number_beyond_doubles_is_refused() -> None:
    finding = refusal(b'{"type":"session","version":0,"id":"s","createdAt":1e999,"delegationDepth":0}\n')
    assert finding.code == "header"


@pytest.mark.parametrize(("changes", "said"), [
    ({"isSeeded": False}, "a member 'isSeeded'"),
    ({"sandboxMode": "x"}, "a member 'sandboxMode'"),
    ({"approvalPolicy": "ask"}, "a member 'approvalPolicy'"),
    ({"cwd": "home/dev"}, "cwd 'home/dev' is not absolute"),
    ({"delegationDepth": ...}, "no delegationDepth"),
])  # fmt: skip
def test_an_odd_header_is_read_and_its_oddity_is_a_fault(changes: dict[str, Any], said: str) -> None:
    header = {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}
    session = opened(text(header))
    assert len(session) == 1
    (finding,) = [one for one in verify(text(header)).findings if one.code == "header"]
    assert finding.severity == "fault"
    assert said in finding.text
    assert "dsh refuses" in finding.text


def test_seed_length_is_odd_in_a_later_format_and_absolute_paths_may_be_windows_ones() -> None:
    later = {**GOOD, "version": 3, "isSeeded": False, "seedLength": 0}
    assert codes(verify(text(later)).findings, "fault") == ["header"]
    for cwd in ("C:\\Users\\dev", "c:/dev", "\\\\host\\share"):
        assert codes(verify(text({**GOOD, "cwd": cwd})).findings, "fault") == []


@pytest.mark.parametrize("first", [b"[]", b"1", b'"session"', b"null", b'{"type":"sessions"}', b"{}"])
def test_json_that_is_no_header_is_corrupt(first: bytes) -> None:
    finding = refusal(first + b"\n" + EVENT)
    assert (finding.code, finding.kind) == ("header", "corrupt")


@pytest.mark.parametrize("first", [b"hello", b'{"type":"session"', b"\xff\xff", b"{'type':'session'}", b"\0\0\0{}"])
def test_a_first_line_that_is_no_json_is_no_header(first: bytes) -> None:
    finding = refusal(first + b"\n" + EVENT)
    assert (finding.code, finding.kind) == ("no-header", "corrupt")


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n", b"\0" * 100, b"\xff\xfe{\0", b'{\0"\0t\0', frame(b"")])
def test_a_file_without_any_line_is_refused(data: bytes) -> None:
    assert refusal(data).code == "no-header"


def test_forensic_reading_needs_a_header_too() -> None:
    with pytest.raises(LogCorrupt):
        load(b"not a log\n" + EVENT, forensic=True)


def test_blank_lines_before_the_header_are_skipped_and_noted() -> None:
    session = opened(b"\n\r\n" + text(GOOD))
    assert codes(session.findings) == ["blank-line"]
    assert len(session) == 1


def test_a_header_without_its_newline_is_a_log_without_events() -> None:
    session = opened(compact(GOOD))
    assert (len(session), list(session.derive_messages())) == (0, [])
    assert codes(session.findings) == ["no-final-newline"]
    assert codes(verify(text(GOOD)[: text(GOOD).index(b"\n") + 1]).findings) == ["empty"]


def test_a_header_line_longer_than_a_block_works() -> None:
    long = {**GOOD, "cwd": "/" + "d" * (2 << 20)}
    session = opened(text(long))
    assert len(session.header.cwd or "") == (2 << 20) + 1
    assert len(session) == 1


def test_the_name_given_to_bytes_is_what_messages_call_them() -> None:
    with pytest.raises(LogCorrupt, match=r"^standard input: the file is empty\.$"):
        load(b"", name="standard input")


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_lost_its_header_is_read_like_the_documents_sample_and_flagged(packed: bool) -> None:
    log = Log()
    log.turn()
    log.step()
    if packed:
        log.text_chunks(["a", "b", "c"])
    else:
        log.user("Hi")
    text = joined(log.lines(packed=packed)[1:])
    session = opened(text)
    assert (session.format, session.id, len(session)) == ("sample", "sample", len(log.events))
    (finding,) = session.findings
    assert (finding.code, finding.severity) == ("no-header", "fault")
    assert verify(text).verdict == "faults"


def test_a_damaged_sample_is_shown_as_far_as_it_can_be() -> None:
    """A call that is no call, a result that cites nothing, a message without content: none of them stops the rest."""
    log = Log()
    log.turn()
    log.add("tool/call", ["not", "a", "call"])
    log.add("tool/call", {"callId": 1, "arguments": "{}"})
    log.add("user/message", {"role": "user"}, surfaceOp="append")
    log.add("tool/result", {"message": None}, surfaceOp="append")
    log.add("assistant/message", {"message": {"content": [{"type": "tool_use"}]}}, surfaceOp="append")
    log.user("Still here")
    session = opened(joined(log.lines()[1:]))
    messages = session.derive_messages(as_stored=True)
    assert len(messages) == 4
    assert messages[-1].text == "Still here"
    assert [event.message_json[:1] for event in session.message_events(as_stored=True)] == [b"{"] * 4
    assert "undecodable" in codes(verify(joined(log.lines()[1:])).findings)
