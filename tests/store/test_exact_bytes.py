"""What nobody here knows is kept byte for byte: fields, blocks, sources, event types, halves of pairs, ranges."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from tests.store.logs import Log, compact, joined
from tests.store.reading import codes, opened, plain, refusal, shown
from turnlog.events import (
    LogPayload,
    Opaque,
    OpaquePayload,
    PluginEventWarning,
    TextDelta,
    UnknownPayload,
    UserMessage,
    Vocabulary,
)
from turnlog.log import is_event
from turnlog.store import load, verify

HEADER = Log().lines()[0]
ODD = rb'{"content":[{"type":"text","text":"a\/b\u00e9","cache" : {"ttl":1.0}},{"type":"plugin:poll","options":[ 1e2,-0.0 ]}],"source":{"kind":"forum-post","board":"x" },"role":"user","id":"m","extra":[null,true ]}'  # noqa: E501


def line(type: bytes, seq: int, data: bytes, envelope: bytes = b"") -> bytes:
    return b'{"type":"%s","seq":%d,"time":1,"data":%s%s}' % (type, seq, data, envelope)


APPEND = b',"surfaceOp":"append"'


def test_a_message_with_unknown_blocks_sources_and_fields_is_given_as_it_is_stored() -> None:
    session = opened(joined([HEADER, line(b"user/message", 0, ODD, APPEND)]))
    event = session.event(0)
    assert event.raw == ODD
    assert event.message_json == ODD
    message = event.message
    assert message is not None
    assert isinstance(message.source, Opaque)
    assert (message.source.kind, message.source.value["board"]) == ("forum-post", "x")
    assert isinstance(message.content[1], Opaque)
    assert message.content[1].kind == "plugin:poll"


@pytest.mark.parametrize(("type", "rest"), [
    (b"assistant/message", b'"turn":1,"step":1,"unknown":{"a" :1}'),
    (b"tool/result", b'"turn":1,"step":1,"meta":{"a" :1}'),
])  # fmt: skip
def test_a_wrapped_message_is_given_as_it_is_stored(type: bytes, rest: bytes) -> None:
    message = ODD.replace(b'"role":"user"', b'"role":"assistant"')
    data = b'{"message": %s ,%s}' % (message, rest)
    event = opened(joined([HEADER, line(type, 0, data, APPEND)])).event(0)
    assert event.raw == data
    assert event.message_json == message


def test_the_last_of_two_messages_in_one_object_is_the_message() -> None:
    data = b'{"turn":1,"step":1,"message":{"old":1},"message":%s}' % ODD
    event = opened(joined([HEADER, line(b"tool/result", 0, data, APPEND)])).event(0)
    assert event.message_json == ODD


def test_unknown_members_of_known_payloads_survive() -> None:
    for type, data in (
        (b"turn/start", b'{"turn":1,"plugin:note":[ 1.0 ]}'),
        (b"tool/call", b'{"turn":1,"step":1,"callId":"c","name":"n","arguments":"{}","hint":{"x": "\\u2028"}}'),
        (b"permission/preset", b'{ "preset" : "x" }'),
    ):
        event = opened(joined([HEADER, line(type, 0, data)])).event(0)
        assert event.raw == data
        assert data in event.line()


def test_a_line_with_spaces_and_another_order_of_members_is_the_same_event() -> None:
    odd = b' { "data" : {"turn":1 } , "time":5 ,"seq": 0, "type":"turn/start" } '
    session = opened(joined([HEADER, odd]))
    assert plain(session.event(0)) == {"type": "turn/start", "seq": 0, "time": 5, "data": {"turn": 1}}
    assert session.event(0).raw.strip() == b'{"turn":1 }'
    spread = b' { "type": "x/y", "data" : [ 1,\t2 ] , "time":5 ,"seq": 0, "ignorable": true } '
    assert opened(joined([HEADER, spread])).event(0).raw == b"[ 1,\t2 ]"


def test_integers_of_the_envelope_may_be_written_as_floats() -> None:
    odd = b'{"type":"user/message","seq":1.0,"time":2e3,"data":{},"surfaceOp":"append","sourceEventSeqs":[0.0]}'
    event = opened(joined([HEADER, line(b"turn/start", 0, b'{"turn":1}'), odd])).event(1)
    assert (event.seq, event.time, event.sources) == (1, 2000, (0,))
    assert [type(number) for number in (event.seq, event.time, *(event.sources or ()))] == [int, int, int]


# -- halves of surrogate pairs ----------------------------------------------------------------------------------

HALF = rb"\ud83d"


def test_halves_of_pairs_in_a_message_stay_as_they_are_written() -> None:
    stored = (
        rb'{"content":[{"type":"text","text":"a\ud83d\u0041 \uDE00"}],"source":{"kind":"user"},"role":"user","id":"m"}'
    )
    event = opened(joined([HEADER, line(b"user/message", 0, stored, APPEND)])).event(0)
    assert (event.raw, event.message_json) == (stored, stored)
    message = event.message
    assert message is not None
    assert message.text == "a\ud83dA \ude00"
    assert json.loads(event.line())["data"] == json.loads(stored)


def test_halves_of_pairs_in_packed_rows_are_members_like_others() -> None:
    row = (
        rb'{"type":"text-chunks","seq0":2,"time0":5,"data":{"turn":1,"step":1,"index":0,"dt":[1,2],'
        rb'"texts":["x\ud83d","\ude00","\ud83d\ude00"]}}'
    )
    log = Log()
    log.turn()
    log.step()
    session = opened(joined([*log.lines(), row]))
    deltas = [event.data.chunk for event in session.events[2:]]  # type: ignore[attr-defined]
    assert deltas == [TextDelta(0, "x\ud83d"), TextDelta(0, "\ude00"), TextDelta(0, "😀")]
    assert [json.loads(event.raw)["chunk"]["text"] for event in session.events[2:]] == ["x\ud83d", "\ude00", "😀"]
    assert rb"x\ud83d" in session.event(2).raw
    assert [event.time for event in session.events[2:]] == [5, 6, 8]


def test_halves_of_pairs_in_every_member_of_an_event() -> None:
    row = rb'{"type":"tool-call-chunks","seq0":0,"time0":5,"data":{"turn":1,"step":1,"index":0,"dt":[],"id":"%s","name":"%s","args":["%s"]}}'  # noqa: E501
    lines = [
        row % (HALF, HALF, HALF),
        line(b"crew/note", 1, rb'{"a":"\ud83d"}', b',"ignorable":true'),
        line(b"tool/call", 2, rb'{"turn":1,"step":1,"callId":"\ud83d","name":"\ud83d","arguments":"\ud83d"}'),
        line(b"permission/preset", 3, rb'{"preset":"\ud83d"}'),
    ]
    session = opened(joined([HEADER, *lines]))
    chunk = session.event(0).data.chunk  # type: ignore[attr-defined]
    assert (chunk.id, chunk.name, chunk.arguments_delta) == ("\ud83d", "\ud83d", "\ud83d")
    assert session.event(2).data.call_id == "\ud83d"  # type: ignore[attr-defined]
    for event, stored in zip(session.events[1:], lines[1:], strict=True):
        assert event.raw in stored
        assert HALF in event.raw
    assert session.id == "sess-1"


def test_a_session_id_may_hold_half_a_pair() -> None:
    session = opened(rb'{"type":"session","version":0,"id":"s\ud83d","createdAt":1,"delegationDepth":0}' + b"\n")
    assert session.id == "s\ud83d"


# -- sources ----------------------------------------------------------------------------------------------------


def cited(stored: Any, *, seq: int = 30, type: str = "user/message") -> bytes:
    log = Log()
    for _ in range(seq):
        log.add("feedback/record", {"text": ""})
    if type == "user/message":
        log.user("Hi", sourceEventSeqs=stored)
    else:
        log.answer("Hi", sources=stored)
    return log.text()


@pytest.mark.parametrize(("stored", "expected"), [
    ([3, [7, 12], 20], (3, 7, 8, 9, 10, 11, 12, 20)),
    ([[0, 29]], tuple(range(30))),
    ([[5, 5]], (5,)),
    ([[1, 2], [4, 5], 9, [11, 13]], (1, 2, 4, 5, 9, 11, 12, 13)),
    ([20, 3, 7], (20, 3, 7)),
    ([29], (29,)),
])  # fmt: skip
def test_runs_of_sources_may_be_stored_as_ranges(stored: Any, expected: tuple[int, ...]) -> None:
    session = opened(cited(stored))
    assert session.event(30).sources == expected
    assert json.loads(session.event(30).line())["sourceEventSeqs"] in (stored, list(expected))


@pytest.mark.parametrize(("stored", "code"), [
    ([[7, 3]], "sources-type"),
    ([[3, 7], 5], "sources-type"),
    ([9, [3, 7]], "sources-type"),
    ([[3, 7], [7, 9]], "sources-type"),
    ([3, 3, [4, 6]], "sources-type"),
    ([[3, 30]], "sources-later"),
    ([3, [4, 2**53 - 1]], "sources-later"),
    ([[0, 10**15]], "sources-later"),
    ([30], "sources-later"),
    ([31, 2], "sources-later"),
    ([2, 3, 2], "sources-duplicate"),
    ([], "sources-empty"),
    ([-1], "sources-type"),
])  # fmt: skip
def test_sources_that_break_a_rule_are_refused_at_their_line_whatever_they_claim(stored: Any, code: str) -> None:
    finding = refusal(cited(stored))
    assert (finding.code, finding.seq, finding.place.line) == (code, 30, 32)
    assert len(list(load(cited(stored), forensic=True).events)) == 31


@pytest.mark.parametrize(
    "stored", [["3"], [3.5], [None], [True], [[1]], [[1, 2, 3]], [[1, [2, 3]]], {}, "3", "3,4", 3, None]
)
def test_sources_that_are_no_list_of_seqs_are_refused(stored: Any) -> None:
    finding = refusal(cited(stored))
    assert finding.code in ("sources", "sources-type")
    assert finding.place.line == 32


def test_no_sources_and_empty_sources_are_different_things() -> None:
    known = opened(cited([], type="assistant/message")).event(30)
    unknown = opened(cited(None, type="assistant/message")).event(30)
    assert (known.sources, unknown.sources) == ((), None)
    assert b'"sourceEventSeqs":[]' in known.line()
    assert b"sourceEventSeqs" not in unknown.line()


@pytest.mark.parametrize("stored", [[[0, 10**15]], [[2, 1]]])
def test_an_unknown_event_may_not_claim_more_sources_than_the_log_has(stored: Any) -> None:
    log = Log()
    log.add("crew/note", {}, ignorable=True, sourceEventSeqs=stored)
    assert refusal(log.text()).code in ("sources", "sources-later")
    assert load(log.text(), forensic=True).event(0).sources is None


# -- vocabulary -------------------------------------------------------------------------------------------------


class Weather(LogPayload, type="acme/weather"):
    """A plugin's event."""

    city: str
    degrees: float = 0.0


def test_a_vocabulary_passed_to_load_makes_a_plugins_events_typed() -> None:
    log = Log()
    log.add("acme/weather", {"city": "Oslo", "degrees": -3.5, "more": 1}, ignorable=True)
    log.add("acme/weather", {"city": 7}, ignorable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginEventWarning)
        vocabulary = Vocabulary.core.extend(Weather)
    without = opened(log.text())
    assert [type(event.data) for event in without.events] == [UnknownPayload, UnknownPayload]
    assert codes(without.findings) == ["unknown-ignorable", "unknown-ignorable"]
    session = opened(log.text(), vocabulary=vocabulary)
    assert session.findings == ()
    assert session.event(0).data == Weather(city="Oslo", degrees=-3.5)
    assert is_event(session.event(0), Weather)
    assert session.event(0).raw == b'{"city":"Oslo","degrees":-3.5,"more":1}'
    assert [event.seq for event in session.select(Weather)] == [0]
    assert codes(verify(log.text(), vocabulary=vocabulary).findings) == ["undecodable"]


def test_known_types_that_nobody_interprets_are_open_json() -> None:
    log = Log()
    seq = log.add("goal/change", {"kind": "goal/change", "deep": [{"a": [1, None]}]})
    data = opened(log.text()).event(seq).data
    assert isinstance(data, OpaquePayload)
    assert data.value == {"kind": "goal/change", "deep": [{"a": [1, None]}]}


def test_data_may_be_any_json() -> None:
    for data in (None, True, 1, "x", [], [[]], {}, {"": ""}):
        session = opened(
            joined([HEADER, compact({"type": "crew/x", "seq": 0, "time": 1, "data": data, "ignorable": True})])
        )
        assert json.loads(session.event(0).raw) == data


def test_deeply_nested_data_is_kept_and_said_to_be_too_deep_to_look_into() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    session = load(joined([HEADER, line(b"tool/result", 0, b'{"meta":%s}' % deep, APPEND)]), forensic=True)
    report = verify(joined([HEADER, line(b"tool/result", 0, b'{"meta":%s}' % deep, APPEND)]))
    assert report.session is not None
    assert codes(report.findings) or len(session) == 1
    assert len(session.derive_messages()) <= 1


def test_a_message_reads_the_same_whoever_looks_first() -> None:
    data = json.dumps({"content": [], "source": {"kind": "user"}, "role": "user", "id": "m"}).encode()
    text = joined([HEADER, line(b"user/message", 0, data, APPEND)])
    first, second = load(text), load(text)
    assert isinstance(first.event(0).data, UserMessage)
    assert shown(first.derive_messages()) == shown(second.derive_messages())
    assert first.events == second.events


@pytest.mark.parametrize("said", [b"false", b"null", b"0", b'"yes"', b'{"if":[1]}'])
def test_what_an_unknown_event_says_instead_of_ignorable_stays_in_its_line(said: bytes) -> None:
    log = Log()
    log.add("crew/note", {})
    text = log.text().replace(b'"data":{}}', b'"data":{},"ignorable":%b}' % said)
    event = opened(text).event(0)
    assert not event.ignorable
    assert event.line() == text.splitlines()[1]


@pytest.mark.parametrize("place", [{"surfaceOp": "append"}, {"sourceEventSeqs": [0]}])
def test_an_unknown_event_that_may_be_skipped_has_no_place_among_the_messages(place: dict[str, Any]) -> None:
    """dsh-v0 §2.4: only surface types have one. Whoever may skip it would see another history than its writer."""
    log = Log()
    log.user("Hi")
    log.add("crew/note", {}, ignorable=True, **place)
    assert refusal(log.text()).code == "surface-eligible"
    shown = load(log.text(), forensic=True)
    assert (shown.surface, codes(shown.findings)) == ((0,), ["unknown-ignorable", "surface-eligible"])


def test_an_unknown_event_with_a_place_among_the_messages_is_told_of() -> None:
    log = Log()
    log.add("crew/note", {}, surfaceOp="append")
    (finding,) = opened(log.text()).findings
    assert (finding.code, finding.severity, finding.kind) == ("unknown-type", "fault", "unsupported")
    assert "and the model sees it" in finding.text
