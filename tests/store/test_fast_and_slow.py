"""The fast path only says yes: with it or without it a log gives the same events, or is refused for the same reason."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec import Raw

from tests.conftest import Prove
from tests.store import naive
from tests.store.logs import Event, Log, compact, frame, joined, pack, rich
from tests.store.reading import codes, flats, plains
from turnlog.events import Vocabulary
from turnlog.log.event import event_class
from turnlog.store import LogRefused, StoredSession, load, verify
from turnlog.store.bulk import Bulk, plain_sources

RICH = rich()
SPOILS: list[Any] = [
    None, True, 0, 1, 3, -1, 2.0, 2.5, -0.0, 2**53, 2**70, "", "append", "turn/start", "assistant/message", "crew/x",
    "\ud800", [], [1], [0, [2, 5]], [[5, 2]], {}, {"op": "replace", "start": 4, "end": 4},
    {"op": "replace", "start": 3, "end": 14},
]  # fmt: skip


@st.composite
def changed_logs(draw: st.DrawFn) -> tuple[list[Event], bool]:
    """Lines of a log as JSON, packed or not, with up to three changes of any kind."""
    log = copy.deepcopy(RICH.events[: draw(st.integers(1, len(RICH.events)))])
    rows = pack(log, draw(st.sampled_from([1, 3]))) if draw(st.booleans()) else log
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        _change(draw, rows)
    return rows, draw(st.booleans())


def _change(draw: st.DrawFn, rows: list[Event]) -> None:
    at = draw(st.integers(0, len(rows) - 1))
    other = draw(st.integers(0, len(rows) - 1))
    match draw(st.sampled_from(["set", "set", "set", "inside", "inside", "drop", "repeat", "swap", "add", "shift"])):
        case "set":
            name = draw(
                st.sampled_from(
                    ["seq", "time", "type", "data", "surfaceOp", "sourceEventSeqs", "ignorable", "seq0", "x"]
                )
            )
            rows[at] = {**rows[at], name: draw(st.sampled_from(SPOILS))}
        case "inside":
            _change_inside(draw, rows, at)
        case "drop":
            name = draw(st.sampled_from([*rows[at]]))
            rows[at] = {key: value for key, value in rows[at].items() if key != name}
        case "repeat":
            rows.insert(other, copy.deepcopy(rows[at]))
        case "swap":
            rows[at], rows[other] = rows[other], rows[at]
        case "add":
            rows.append({"type": "feedback/record", "seq": draw(st.integers(0, 60)), "time": 1, "data": {"text": ""}})
        case "shift":
            for name in ("seq", "seq0"):
                if type(rows[at].get(name)) is int:
                    rows[at] = {**rows[at], name: rows[at][name] + draw(st.sampled_from([-1, 1]))}


def _change_inside(draw: st.DrawFn, rows: list[Event], at: int) -> None:
    value = rows[at].get("data")
    rows[at] = copy.deepcopy(rows[at])
    value = rows[at].get("data")
    while isinstance(value, dict | list) and value:
        key: Any = draw(st.sampled_from([*value] if isinstance(value, dict) else list(range(len(value)))))
        if not isinstance(value[key], dict | list) or not value[key] or draw(st.integers(0, 2)) == 0:
            value[key] = draw(st.sampled_from(SPOILS))
            return
        value = value[key]


def outcome(text: bytes) -> tuple[Any, ...]:
    """What a strict load makes of a text."""
    try:
        session = load(text)
    except LogRefused as error:
        return "refused", error.finding.code, error.finding.place, error.finding.seq
    return "read", plains(session.events), session.surface, session.generation, codes(session.findings)


@pytest.mark.proof
def test_both_paths_agree_with_each_other_and_with_a_naive_reader(prove: Prove) -> None:
    def check(changed: tuple[list[Event], bool]) -> None:
        rows, compressed = changed
        lines = [compact(RICH.header), *map(compact, rows)]
        text = joined(lines)
        if compressed:
            text = frame(joined(lines[:1])) + b"".join(
                frame(joined(lines[at : at + 4])) for at in range(1, len(lines), 4)
            )
        fast = outcome(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Bulk, "take", lambda *_arguments: None)
            slow = outcome(text)
            slow_report = verify(text)
        report = verify(text)
        assert fast == slow
        assert report.verdict == slow_report.verdict
        assert [(one.code, one.place, one.seq) for one in report.findings] == [
            (one.code, one.place, one.seq) for one in slow_report.findings
        ]
        judged = naive.read(joined(lines))
        assert (fast[0] == "read") == (judged.status == "valid"), judged.why
        if judged.status == "valid":
            assert fast[1] == list(map(skippable_or_not, flats(judged.events)))
            assert fast[2] == tuple(naive.surface(judged.events))

    prove("fast and slow path agree", check, changed_logs(), times=3)


def skippable_or_not(event: Event) -> Event:
    """An unknown event whose ``ignorable`` is anything but true is one that readers must know."""
    return {name: value for name, value in event.items() if name != "ignorable" or value is True}


def events_of(session: StoredSession) -> list[Event]:
    return plains(session.events)


def test_a_log_without_oddities_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the agreement of both paths would prove nothing."""
    taken: list[bool] = []
    take = Bulk.take

    def watched(self: Bulk, *arguments: Any) -> Any:
        result = take(self, *arguments)
        taken.append(result is not None)
        return result

    monkeypatch.setattr(Bulk, "take", watched)
    log = Log()
    log.tool_turn(1, "Now?", "c1", "12:00", "Noon.")
    for packed in (False, True):
        assert events_of(load(log.text(packed=packed))) == log.events
    assert events_of(load(log.zstd())) == log.events
    assert taken == [True] * 3
    load(RICH.text())
    assert taken[3:] == [False]


@pytest.mark.parametrize("spoiled", [
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":01}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":1.}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":.5}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":+1}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":-}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":1e}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":1e+}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":NaN}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":Infinity}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":0x1}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":True}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":nul}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":"\x01"}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":"\t"}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":"\\x"}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":"\\u12"}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":"\\u12g4"}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"\x1f":1}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a":1,}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":[1,]}',
    b'{"type":"turn/start","seq":0,"time":1,"data":[1 2]}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{"a" 1}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{a:1}}',
    b"{'type':'turn/start','seq':0,'time':1,'data':{}}",
    b'{"type":"turn/start","seq":0,"time":1,"data":{}}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{}',
    b'{"type":"turn/start","seq":0,"time":1,"data":}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{}} x',
    b'{"type":"turn/start","seq":0,"time":1,"data":{}}{}',
    b'\xef\xbb\xbf{"type":"turn/start","seq":0,"time":1,"data":{}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":{}}\x0c',
    b'\xc2\xa0{"type":"turn/start","seq":0,"time":1,"data":{}}',
    b'{"type":"turn/start","seq":0,"time":1,"data":"\xed\xa0\x80"}',
    b'{"type":"turn/start","seq":0,"time":1,"data":"\xc0\x80"}',
    b'{"type":"turn/start","seq":0,"time":1,"data":"\xf4\x90\x80\x80"}',
    b'/* x */{"type":"turn/start","seq":0,"time":1,"data":{}}',
    b"[]",
    b'"text"',
    b"7",
])  # fmt: skip
def test_text_that_is_not_json_is_refused_on_both_paths(spoiled: bytes) -> None:
    """Each parser is lenient about something else; a log is strict JSON, also inside payloads nobody decodes."""
    following = b'{"type":"step/start","seq":1,"time":1,"data":{"turn":1,"step":1}}'
    text = joined([RICH.lines()[0], spoiled, following])
    assert naive.read(text).status == "invalid"
    fast = outcome(text)
    assert fast[0] == "refused"
    assert fast[1] in ("not-json", "not-utf8")
    assert fast[2].line == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bulk, "take", lambda *_arguments: None)
        assert outcome(text) == fast


def test_a_record_ends_where_its_line_ends() -> None:
    for lines in (
        (b'{"type":"turn/start","seq":0,', b'"time":1,"data":{"turn":1}}'),
        (b'{"type":"turn/start","seq":0,"time":1,"data":{}} {"type":"turn/start","seq":1,"time":1,"data":{}}',),
    ):
        text = joined([RICH.lines()[0], *lines])
        assert naive.read(text).status == "invalid"
        assert outcome(text)[0] == "refused"


@pytest.mark.parametrize("between", [b"", b" "])
def test_one_record_over_two_lines_beside_two_records_on_one_line_is_refused(between: bytes) -> None:
    """As many records as lines, but not one on each; the parser of whole blocks would not mind."""
    events = [{"type": "feedback/record", "seq": seq, "time": 1, "data": {"text": "x"}} for seq in range(3)]
    first, second, third = map(compact, events)
    cut = first.index(b'"seq"')
    text = joined([RICH.lines()[0], first[:cut], first[cut:] + between + second, third])
    assert naive.read(text).status == "invalid"
    assert outcome(text)[:2] == ("refused", "not-json")
    assert outcome(text)[2].line == 2


@pytest.mark.parametrize("second", [
    b'"data":\n{"type":"text"}}', b'"data":{"a":{}\n,"b":1}}', b'"data":{}\n}', b'"data":{"a":[{},\n{}]}}',
])  # fmt: skip
def test_a_record_over_two_lines_is_refused_wherever_its_newline_is(second: bytes) -> None:
    """As many records as lines again, and lines that begin or end as whole records do."""
    first = b'{"type":"feedback/record","seq":0,"time":1,' + second
    other = b'{"type":"feedback/record","seq":%d,"time":1,"data":{}}'
    text = joined([RICH.lines()[0], first + other % 1, other % 2])
    assert naive.read(text).status == "invalid"
    fast = outcome(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bulk, "take", lambda *_arguments: None)
        assert outcome(text) == fast
    assert fast[:2] == ("refused", "not-json")


def test_a_packed_row_that_also_has_an_event_s_seq_is_refused() -> None:
    row = pack(RICH.events, 3)
    at = next(index for index, one in enumerate(row) if "seq0" in one)
    for spoiled in ({**row[at], "seq": row[at]["seq0"]}, {**row[at], "time": 1}, {"type": row[at]["type"], "seq": at,
                    "time": 1, "data": row[at]["data"]}):  # fmt: skip
        text = joined([compact(RICH.header), *map(compact, [*row[:at], spoiled])])
        assert naive.read(text).status == "invalid"
        assert outcome(text)[:2] == ("refused", "packed-row")


def test_a_log_reads_the_same_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read in slabs and looked at in blocks; a line may be longer than either, and the last may be torn."""
    whole = {text: outcome(text) for text in (RICH.text(), RICH.text(packed=True), RICH.text()[:-9], RICH.text() * 2)}
    for slab, block in ((1, 1), (100, 60), (700, 5_000), (5_000, 700), (20_000, 1)):
        monkeypatch.setattr("turnlog.store.source.SLAB", slab)
        monkeypatch.setattr("turnlog.store.source.BLOCK", block)
        for text, expected in whole.items():
            assert outcome(text) == expected


@pytest.mark.proof
def test_source_lists_beyond_doubt_are_those_that_the_rules_allow(prove: Prove) -> None:
    def check(drawn: tuple[int, int, int, int]) -> None:
        seq, size, at, change = drawn
        cited = list(range(max(seq - size, 0), seq))
        if cited:
            at %= len(cited)
            cited[at] = max(cited[at] + change, 0) if at % 2 else int(str(cited[at])[abs(change) :] or 0)
        kind = event_class(Vocabulary.core.codec)
        event = kind("tool/result", seq, 1, Raw(b"{}"), "append", Raw(compact(cited)))
        allowed = bool(cited) and max(cited) < seq and len({*cited}) == len(cited)
        assert plain_sources([event]) == [allowed]

    powers = st.sampled_from([0, 10, 100, 1_000, 2_000, 9_999, 10_000, 100_000, 1_000_000])
    near = st.builds(lambda power, more: max(power + more, 0), powers, st.integers(-70, 130))
    drawn = st.tuples(near | st.integers(0, 200_000), st.integers(0, 1_200), st.integers(0, 99), st.integers(-2, 2))
    prove("plain source lists", check, drawn, times=3)
