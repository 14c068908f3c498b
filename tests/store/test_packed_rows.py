"""Packed rows (dsh-v0 §7.3): whatever a naive packer packs, loading gives back; whatever is malformed is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.store import naive
from tests.store.logs import Event, Log, compact, joined, pack
from tests.store.reading import codes, opened, plain, plains, refusal
from turnlog.events import AssistantChunk, ToolCallDelta, UndecodablePayload
from turnlog.log.rows import PackedRun
from turnlog.store import load, verify

SAFE = 2**53 - 1
TEXT = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from('\ud83d\ude00\udbff\0\u2028"\\')), max_size=6)
GAP = st.sampled_from([0, 1, 2, -1, -700, 40, 10**12, 2**40, -(2**40), 2**40 + 1, 2**45])


@st.composite
def deltas(draw: st.DrawFn) -> Event:
    """A chunk; mostly one that a packer packs, of few kinds, so that runs come about."""
    kind = draw(st.sampled_from(["text-delta", "text-delta", "reasoning-delta", "tool-call-delta", "usage", "odd"]))
    index = draw(st.sampled_from([0, 0, 0, 1, 7]))
    if kind == "usage":
        return {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": draw(st.integers(0, 5))}}
    if kind == "odd":
        return {"type": "text-delta", "index": index, "text": draw(TEXT), "extra": 1}
    if kind != "tool-call-delta":
        return {"type": kind, "index": index, "text": draw(TEXT)}
    named = draw(st.sampled_from([{}, {"name": "bash"}, {"name": ""}]))
    return {
        "type": kind,
        "index": index,
        "id": draw(st.sampled_from(["c", "c", ""])),
        "argumentsDelta": draw(TEXT),
        **named,
    }


@st.composite
def chunk_logs(draw: st.DrawFn) -> Log:
    """A log of chunk events with a few others between them."""
    log = Log()
    log.turn()
    log.step()
    for chunk, gap in draw(st.lists(st.tuples(deltas(), GAP), max_size=30)):
        time = log.time + gap
        log.chunk(chunk, time=time if abs(time) <= SAFE else 0)
        if draw(st.integers(0, 15)) == 0:
            log.add("feedback/record", {"text": "between"})
    return log


def packed_text(log: Log, minimum: int) -> bytes:
    return joined([compact(log.header), *map(compact, pack(log.events, minimum))])


@pytest.mark.proof
def test_what_a_packer_packs_loads_to_the_same_events(prove: Prove) -> None:
    def check(log: Log, minimum: int, seed: int) -> None:
        text = packed_text(log, minimum)
        assert naive.read(text).events == log.events
        session = load(text)
        length = len(log.events)
        assert len(session) == length
        order = list(range(length))
        random.Random(seed).shuffle(order)
        for seq in order:  # before anything was iterated
            assert plain(session.event(seq)) == log.events[seq]
            assert plain(session.events[seq - length]) == log.events[seq]
        assert plains(session.events) == log.events
        assert session.events == load(log.text()).events
        start, stop, step = order[0], order[-1], 1 + seed % 3
        for piece in (slice(start, None), slice(None, stop), slice(start, stop), slice(start, None, step)):
            assert plains(session.events[piece]) == log.events[piece]
        assert plains(session.events[::-step]) == log.events[::-step]
        with pytest.raises(IndexError):
            session.event(length)
        wanted = [event for event in log.events if event["type"] == "assistant/chunk"]
        assert plains(session.select(AssistantChunk)) == wanted
        assert load(joined([compact(log.header), *(event.line() for event in session.events)])).events == session.events

    prove(
        "packed rows load to the events of the unpacked log",
        check,
        chunk_logs(),
        st.sampled_from([1, 2, 3, 3, 3, 5]),
        st.integers(0, 99),
    )


def test_token_boundaries_are_kept_and_rows_stay_packed_until_looked_into() -> None:
    log = Log()
    log.turn()
    log.step()
    log.text_chunks(["", "a", "", "bc", "\n"])
    log.call_chunks("c1", ['{"a"', ":", "1}"])
    log.call_chunks("c1", ["x", "y", "z"], name=None)
    session = opened(log.text(packed=True))
    runs = [row for row in session._rows.rows if isinstance(row, PackedRun)]
    assert [run.type for run in runs] == ["text-chunks", "tool-call-chunks", "tool-call-chunks"]
    assert plains(session.events) == log.events
    names = [
        event.data.chunk.name for event in session.select(AssistantChunk) if isinstance(event.data.chunk, ToolCallDelta)
    ]
    assert names == ["bash"] * 3 + [None] * 3


def test_a_time_may_step_back_inside_a_row() -> None:
    log = Log()
    log.turn()
    log.step()
    for time in (100, 90, 95, -5, -5, 2**50):
        log.chunk({"type": "text-delta", "index": 0, "text": "x"}, time=time)
    session = opened(log.text(packed=True))
    assert [event.time for event in session.events[2:]] == [100, 90, 95, -5, -5, 2**50]
    assert verify(log.text(packed=True)).ok


def test_a_row_of_many_members_is_read() -> None:
    log = Log()
    log.turn()
    log.step()
    log.text_chunks([f"w{number} " for number in range(5000)])
    session = opened(log.text(packed=True))
    assert len(session) == 5004
    assert session.event(4321).raw == compact(log.events[4321]["data"])
    assert len(session._rows.rows) == 5


def test_rows_of_other_writers_may_have_their_members_in_another_order() -> None:
    row = b'{"data":{"texts":["a","b"],"dt":[1],"index":0,"step":1,"turn":1},"time0":5,"seq0":2,"type":"text-chunks"}'
    log = Log()
    log.turn()
    log.step()
    session = opened(log.text() + row + b"\n")
    assert [event.time for event in session.events[2:]] == [5, 6]


# -- malformed rows ---------------------------------------------------------------------------------------------

Change = Callable[[Event], Any]


def changed(**members: Any) -> Change:
    """Sets members of the row's data; ``...`` takes them away."""

    def change(row: Event) -> None:
        row["data"] = {name: value for name, value in {**row["data"], **members}.items() if value is not ...}

    return change


def envelope(**members: Any) -> Change:
    def change(row: Event) -> None:
        kept = {name: value for name, value in {**row, **members}.items() if value is not ...}
        row.clear()
        row.update(kept)

    return change


MALFORMED: list[tuple[str, Change, str]] = [
    ("text", changed(texts=["a", "b"]), "has 2 members but 2 gaps"),
    ("text", changed(dt=[1]), "has 3 members but 1 gaps"),
    ("text", changed(dt=[]), "has 3 members but 0 gaps"),
    ("text", changed(texts=[], dt=[]), "has no list of strings as texts"),
    ("text", changed(texts="abc"), "has no list of strings as texts"),
    ("text", changed(texts=["a", 1, "c"]), "has no list of strings as texts"),
    ("text", changed(texts=["a", None, "c"]), "has no list of strings as texts"),
    ("text", changed(texts=...), "does not have exactly the members"),
    ("text", changed(dt=...), "does not have exactly the members"),
    ("text", changed(turn=...), "does not have exactly the members"),
    ("text", changed(index=...), "does not have exactly the members"),
    ("text", changed(extra=1), "does not have exactly the members"),
    ("text", changed(id="c"), "does not have exactly the members"),
    ("text", changed(name="bash"), "does not have exactly the members"),
    ("text", changed(args=["a"]), "does not have exactly the members"),
    ("call", changed(id=...), "does not have exactly the members"),
    ("call", changed(args=...), "does not have exactly the members"),
    ("call", changed(texts=["a"]), "does not have exactly the members"),
    ("call", changed(id=1), "has an id or name that is no string"),
    ("call", changed(name=None), "has an id or name that is no string"),
    ("call", changed(args=["a", "b"]), "has 2 members but 2 gaps"),
    ("text", changed(dt=[1, 1.5]), "holds a number that is no integer"),
    ("text", changed(dt=[1, "2"]), "holds a number that is no integer"),
    ("text", changed(dt=[1, None]), "holds a number that is no integer"),
    ("text", changed(dt=[1, True]), "holds a number that is no integer"),
    ("text", changed(dt={}), "holds a number that is no integer"),
    ("text", changed(dt=[1, 2**53]), "holds a number that is no integer"),
    ("text", changed(turn="1"), "holds a number that is no integer"),
    ("text", changed(step=1.5), "holds a number that is no integer"),
    ("text", changed(index=2**53), "holds a number that is no integer"),
    ("text", changed(dt=[SAFE, 1]), "running time"),
    ("text", changed(dt=[-SAFE, -SAFE]), "running time"),
    ("text", envelope(time0=SAFE), "running time"),
    ("text", envelope(time0=1.5), "holds a number that is no integer"),
    ("text", envelope(time0="now"), "holds a number that is no integer"),
    ("text", envelope(time0=2**53), "holds a number that is no integer"),
    ("text", envelope(seq0=2**53), "holds a number that is no integer"),
    ("text", envelope(seq0=-1), "a seq"),
    ("text", envelope(seq0="2"), "holds a number that is no integer"),
    ("text", envelope(seq0=...), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(time0=...), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(data=...), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(data=[]), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(data=None), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(seq=2), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(time=2), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(seq0=..., seq=2, time0=..., time=2), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(ignorable=True), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(surfaceOp="append"), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(sourceEventSeqs=[1]), "does not have exactly type, seq0, time0 and data"),
    ("text", envelope(type="tool-call-chunks"), "does not have exactly the members"),
    ("call", envelope(type="text-chunks"), "does not have exactly the members"),
]


def with_row(kind: str, change: Change) -> bytes:
    log = Log()
    log.turn()
    log.step()
    if kind == "text":
        for text in "abc":
            log.chunk({"type": "text-delta", "index": 0, "text": text})
    else:
        log.call_chunks("c1", ["{", "}", " "])
    log.end_step()
    rows = pack(log.events)
    assert len(rows) == 4
    change(rows[2])
    return joined([compact(log.header), *map(compact, rows)])


@pytest.mark.parametrize(("kind", "change", "said"), MALFORMED, ids=[f"{number}" for number in range(len(MALFORMED))])
def test_a_malformed_row_is_refused_by_line_and_says_what_is_wrong(kind: str, change: Change, said: str) -> None:
    text = with_row(kind, change)
    assert naive.read(text).status == "invalid"
    finding = refusal(text)
    assert (finding.code, finding.place.line) == ("packed-row", 4)
    assert finding.place.offset == len(b"\n".join(text.split(b"\n")[:3])) + 1
    assert said in finding.text
    assert "seq-gap" in codes(load(text, forensic=True).findings, "refused")


def test_a_whole_row_is_valid() -> None:
    for kind in ("text", "call"):
        assert len(opened(with_row(kind, lambda _row: None))) == 6


@pytest.mark.parametrize(("seq0", "code"), [(3, "seq-gap"), (1, "seq-duplicate"), (0, "seq-duplicate")])
def test_a_row_must_follow_on_the_events_before_it(seq0: int, code: str) -> None:
    finding = refusal(with_row("text", envelope(seq0=seq0)))
    assert (finding.code, finding.place.line, finding.seq) == (code, 4, seq0)


def test_an_event_that_repeats_a_seq_inside_a_row_collides() -> None:
    text = with_row("text", lambda _row: None)
    log = Log()
    repeated = compact({"type": "feedback/record", "seq": 3, "time": 1, "data": {"text": ""}})
    finding = refusal(text + repeated + b"\n")
    assert (finding.code, finding.seq, finding.place.line) == ("seq-duplicate", 3, 6)
    assert "assistant/chunk at time" in finding.text
    assert log.events == []


def test_a_complete_malformed_row_at_the_end_is_not_taken_for_torn() -> None:
    text = with_row("text", changed(dt=[1]))
    cut = text[: text.rindex(b'{"type":"step/end"')].removesuffix(b"\n")
    assert json.loads(cut.split(b"\n")[-1])["type"] == "text-chunks"
    assert refusal(cut).code == "packed-row"


def test_a_packed_call_without_id_is_a_shape_fault_like_an_unpacked_one() -> None:
    for packed in (False, True):
        log = Log()
        log.turn()
        log.step()
        log.call_chunks("", ["a", "b", "c"])
        assert set(codes(verify(log.text(packed=packed)).findings, "fault")) == {"shape"}


@pytest.mark.parametrize("spoiled", [{"index": -1}, {"turn": -1}, {"step": -7}, {}])
def test_an_event_of_a_packed_row_is_typed_only_if_its_stored_form_is(spoiled: dict[str, int]) -> None:
    row = {"type": "text-chunks", "seq0": 2, "time0": 3, "data": {"turn": 1, "step": 1, "index": 0, "dt": [1],
           "texts": ["a", "b"], **spoiled}}  # fmt: skip
    log = Log()
    log.turn()
    log.step()
    session = load(joined([*log.lines(), compact(row)]))
    for event in session.events[2:]:
        stored = load(joined([*log.lines(), event.line().replace(b'"seq":3,', b'"seq":2,')])).event(2)
        assert event.data == stored.data
        assert isinstance(event.data, UndecodablePayload) == bool(spoiled)
