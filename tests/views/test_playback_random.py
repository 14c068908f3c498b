"""Whatever the log: playback shows what its definition says, computed naively from plain JSON and from shorter logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log import reference
from tests.views.naive import as_stored, random_log
from turnlog.events.lossless import plain
from turnlog.log import Session
from turnlog.store import StoredSession, load
from turnlog.store.header import header_line
from turnlog.views import Frame, Playback, PlayState, calls
from turnlog.views.structure import structure

pytestmark = pytest.mark.proof

gaps = st.lists(st.sampled_from([0, 1, 5, 1000, -3, -2000]), min_size=1, max_size=7)
tapes = st.one_of(st.binary(max_size=40), st.binary(min_size=60, max_size=250))
places = st.lists(st.integers(0, 10_000), min_size=1, max_size=4)

DELTAS = {"text-delta", "reasoning-delta", "tool-call-delta"}


class Shown(NamedTuple):
    """A frame as the tests define it."""

    seq: int
    k: int | None
    time: int
    chunk: Any
    type: str


# -- logs that keep streams inside of events ------------------------------------------------------------------------


@st.composite
def embedded_logs(draw: st.DrawFn) -> bytes:
    """Logs of format 3: streams inside their messages, stamped by a clock that may go anywhere."""
    times = st.integers(1000, 1400)
    lines: list[dict[str, Any]] = []

    def add(type: str, data: dict[str, Any], **envelope: Any) -> None:
        lines.append({"type": type, "seq": len(lines), "time": draw(times), **envelope, "data": data})

    for turn in range(1, draw(st.integers(1, 3)) + 1):
        add("turn/start", {"turn": turn})
        for step in range(1, draw(st.integers(1, 3)) + 1):
            add("step/start", {"turn": turn, "step": step})
            if draw(st.booleans()):
                add("assistant/attempt", {"turn": turn, "step": step, "stream": draw(streams(times))})
            blocks = [{"type": "tool-call", "id": id, "name": "read", "arguments": "{}"}
                      for id in draw(st.lists(st.sampled_from("ab"), max_size=2, unique=True))]  # fmt: skip
            source = {"kind": "model", "provider": "p", "model": "m"}
            content = [{"type": "text", "text": "x"}, *blocks]
            body = {"role": "assistant", "content": content, "source": source, "id": f"m{len(lines)}"}
            data = {"turn": turn, "step": step, "message": body, "stream": draw(streams(times))}
            add("assistant/message", data, surfaceOp="append")
            for block in blocks:
                call = {"turn": turn, "step": step, "callId": block["id"], "name": "read", "arguments": "{}"}
                add("tool/call", call)
            if draw(st.booleans()):
                add("step/end", {"turn": turn, "step": step})
        if draw(st.booleans()):
            add("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
    header = {"type": "session", "version": 3, "id": "s", "createdAt": 1, "delegationDepth": 0, "isSeeded": False}
    return b"".join(json.dumps(line).encode() + b"\n" for line in (header, *lines))


def streams(times: st.SearchStrategy[int]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """A few stream records: runs of deltas, usage, finish."""

    def run(drawn: tuple[int, list[int]]) -> dict[str, Any]:
        time, gaps = drawn
        texts = ["t"] * (len(gaps) + 1)
        return {"type": "text-chunks", "time0": time, "index": 0, "dt": gaps, "texts": texts}

    def usage(drawn: tuple[int, int]) -> dict[str, Any]:
        time, tokens = drawn
        return {"type": "chunk", "time": time,
                "chunk": {"type": "usage", "usage": {"inputTokens": tokens, "outputTokens": 1}}}  # fmt: skip

    runs = st.tuples(times, st.lists(st.sampled_from([0, 2, 700, -50]), max_size=4)).map(run)
    return st.lists(st.one_of(runs, runs, st.tuples(times, st.integers(1, 9)).map(usage)), max_size=4)


def text_of(session: Session) -> list[bytes]:
    return [header_line(session.header), *(event.line() for event in session.events)]


# -- what is shown --------------------------------------------------------------------------------------------------


def naive_frames(session: Session) -> Iterator[Shown]:
    """Every chunk and every other event of the log, a stream before the event that holds it; then the closers."""
    for event in (*session.events, *session.closers):
        line = json.loads(event.line())
        data = line["data"]
        if line["type"] == "assistant/chunk":
            yield Shown(event.seq, None, event.time, data["chunk"], "assistant/chunk")
            continue
        k = 0
        holds = line["type"] in ("assistant/message", "assistant/attempt") and event.seq < len(session)
        for record in data.get("stream", ()) if holds else ():
            if record["type"] == "chunk":
                yield Shown(event.seq, k, record["time"], record["chunk"], "assistant/chunk")
                k += 1
                continue
            time = record["time0"]
            for gap, text in zip([0, *record["dt"]], record["texts"], strict=True):
                time += gap
                chunk = {"type": "text-delta", "index": record["index"], "text": text}
                yield Shown(event.seq, k, time, chunk, "assistant/chunk")
                k += 1
        yield Shown(event.seq, None, event.time, None, line["type"])


def naive_waits(frames: list[Shown]) -> list[int]:
    """The wait before each: as long as it is later than everything shown before it, unless the clock was set back; that
    is when a time is earlier than the one before it of the same kind, be it an event's or a chunk's in one stream."""
    waits: list[int] = []
    now: int | None = None
    last: dict[object, int] = {}
    for frame in frames:
        kind = "event" if frame.k is None else frame.seq
        if now is None or frame.time < last.get(kind, frame.time):
            waits.append(0)
            now = frame.time
        else:
            waits.append(max(frame.time - now, 0))
            now = max(now, frame.time)
        last[kind] = frame.time
    return waits


def stored_logs(tape: bytes, times: list[int], embedded: bytes) -> list[Session]:
    """One log in memory, the same from a file, packed or not, and one with streams inside its events."""
    live = random_log(tape)
    stored = [as_stored(live, times), as_stored(live, times, packed=False)] if len(live) else []
    return [live, *stored, load(embedded)]


def test_frames_and_their_waits_are_what_the_log_says(prove: Prove) -> None:
    def check(tape: bytes, times: list[int], embedded: bytes) -> None:
        for session in stored_logs(tape, times, embedded):
            wanted = list(naive_frames(session))
            waits = naive_waits(wanted)
            played = Playback(session)
            found = list(played)
            assert [(one.seq, one.k, one.time) for one in found] == [(one.seq, one.k, one.time) for one in wanted]
            assert [said(one) for one in found] == [one.chunk for one in wanted]
            assert [one.recorded_ms for one in found] == waits
            assert [one.wait_ms for one in found] == [0.0, *waits[1:]][: len(waits)]
            assert sum(one.wait_ms for one in found) == sum(waits)
            assert [one.number for one in found] == list(range(played.stop))
            check_gaps(found, wanted)

    prove("frames and waits equal the naive definition", check, tapes, gaps, embedded_logs())


def said(frame: Frame) -> Any:
    """A frame's chunk as JSON."""
    return None if frame.chunk is None else json.loads(json.dumps(plain(frame.chunk)))


def check_gaps(found: list[Frame], wanted: list[Shown]) -> None:
    """A chunk's gap is what was waited since the chunk before it in its request."""
    borders = ("step/start", "llm/retry", "llm/retry-started", "assistant/message", "assistant/attempt")
    for at, frame in enumerate(found):
        if frame.chunk is None:
            assert frame.gap_ms is None
            continue
        before = None
        for other in range(at - 1, -1, -1):
            same = wanted[other].k is not None and wanted[other].seq == frame.seq
            if wanted[other].type in borders or (frame.k is not None and not same):
                break
            if wanted[other].chunk is not None:
                before = other
                break
        assert frame.gap_ms == (None if before is None else sum(one.recorded_ms for one in found[before + 1 : at + 1]))


def bare(frame: Frame) -> Frame:
    """A frame without what a seek to it changes."""
    return replace(frame, wait_ms=0.0, cut_ms=0)


def test_seeking_to_a_frame_leaves_the_same_frames_as_playing_to_it(prove: Prove) -> None:
    def check(tape: bytes, times: list[int], embedded: bytes, where: list[int]) -> None:
        for session in stored_logs(tape, times, embedded):
            played = list(Playback(session))
            sought = Playback(session)
            for frame in played:
                sought.seek(frame.number)
                assert [bare(one) for one in sought.take()] == [bare(frame)]
            for place in where if played else ():
                number = place % len(played)
                sought.seek(number)
                assert sought.position == number
                rest = list(sought)
                assert bare(rest[0]) == bare(played[number])
                assert rest[0].wait_ms == 0
                assert rest[1:] == played[number + 1 :]
                check_addresses(sought, played, number)

    prove("seeking equals playing", check, tapes, gaps, embedded_logs(), places)


def check_addresses(sought: Playback, played: list[Frame], number: int) -> None:
    frame = played[number]
    sought.seek(frame)
    assert sought.position == number
    assert (sought.shown or played[0]) == bare(played[max(number - 1, 0)])
    if frame.synthetic:
        return
    sought.seek(frame.address)
    first = next(one.number for one in played if one.seq == frame.seq)
    assert sought.position == (first if frame.k is None else number)


# -- groups ---------------------------------------------------------------------------------------------------------


def naive_parts(frames: list[Frame], kind: str) -> list[list[int]]:
    """Frames by turn or step: a part goes from its start to its end, or to the next start; all else stands alone."""
    groups: list[list[int]] = []
    open_part = False
    for at, frame in enumerate(frames):
        type = frame.event.type if frame.event is not None else ""
        if type == f"{kind}/start":
            open_part = True
            groups.append([at])
        elif open_part:
            groups[-1].append(at)
            open_part = type != f"{kind}/end"
        else:
            groups.append([at])
    return groups


def naive_blocks(frames: list[Frame]) -> list[list[int]]:
    groups: list[list[int]] = [[0]] if frames else []
    for at, (before, after) in enumerate(pairwise(frames), 1):
        left = {} if before.chunk is None else plain(before.chunk)
        right = {} if after.chunk is None else plain(after.chunk)
        same = "index" in left and left.get("index") == right.get("index") and right.get("type") != "block-start"
        if same and not ({left["type"], right["type"]} <= DELTAS and left["type"] != right["type"]):
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


def test_granularity_groups_frames_and_neither_loses_nor_reorders_any(prove: Prove) -> None:
    def check(tape: bytes, times: list[int], embedded: bytes) -> None:
        for session in stored_logs(tape, times, embedded):
            single = list(Playback(session, idle_limit_ms=500, speed=2))
            wanted = {"token": [[at] for at in range(len(single))], "block": naive_blocks(single),
                      "step": naive_parts(single, "step"), "turn": naive_parts(single, "turn")}  # fmt: skip
            for granularity, groups in wanted.items():
                played = Playback(session, idle_limit_ms=500, speed=2, granularity=granularity)  # type: ignore[arg-type]
                taken = list(iter(played.take, ()))
                assert [[one.number for one in group] for group in taken] == groups
                assert [replace(one, wait_ms=0.0) for group in taken for one in group] == [
                    replace(one, wait_ms=0.0) for one in single
                ]
                assert [group[0].wait_ms for group in taken] == [
                    sum(single[at].wait_ms for at in one) for one in groups
                ]
                assert not any(one.wait_ms for group in taken for one in group[1:])

    prove("groups partition the frames", check, tapes, gaps, embedded_logs())


# -- state ----------------------------------------------------------------------------------------------------------


def test_the_state_at_every_frame_is_that_of_a_log_that_ends_there(prove: Prove) -> None:
    def check(tape: bytes, embedded: bytes, where: list[int]) -> None:
        for session in (as_stored(random_log(tape)) if random_log(tape).events else None, load(embedded)):
            if session is not None:
                check_states(session, where)

    prove("states equal those of shorter logs", check, tapes, embedded_logs(), places)


def check_states(session: Session, where: list[int]) -> None:
    """The state at some frames; as it is met while playing, and after a seek."""
    lines = text_of(session)
    shorter: dict[int, StoredSession] = {}
    played, sought = Playback(session, as_stored=True), Playback(session, as_stored=True)
    log = reference.read(event.line() for event in session.events)
    chosen = {place % played.stop for place in where}
    for frame in played:
        if frame.number not in chosen:
            continue
        length = frame.seq if frame.k is not None else frame.seq + 1
        if length not in shorter:
            whole = b"".join(line + b"\n" for line in lines[: length + 1])
            shorter[length] = load(_as_written(session, whole), vocabulary=session.vocabulary)
        sought.seek(frame.number)
        assert [bare(one) for one in sought.take()] == [bare(frame)]
        for state in (played.state, sought.state):
            check_state(state, frame, shorter[length], log)


def check_state(state: PlayState, frame: Frame, ended: StoredSession, log: list[dict[str, Any]]) -> None:
    length = len(ended)
    assert state.length == length
    assert list(state.surface) == reference.nodes(log[:length]) == list(ended.surface)
    assert list(state.messages) == list(ended.derive_messages(as_stored=True))
    assert [(one.id, one.asked, one.started) for one in state.open_calls] == naive_open(log[:length])
    assert {one.id for one in state.open_calls} <= {one.id for one in calls(ended, as_stored=True) if not one.result}
    told = structure(ended, as_stored=True).usage
    extra = naive_told(log[frame.seq], frame.k) if frame.k is not None else None
    tokens = 0 if state.usage is None else state.usage.input_tokens
    assert tokens == (0 if told is None else told.input_tokens) + (extra or 0)
    assert (state.usage is None) == (told is None and extra is None)


def _as_written(session: Session, text: bytes) -> bytes:
    """Format-3 logs have a header of their own."""
    if session.header.version == 0:
        return text
    header = {"type": "session", "version": 3, "id": "s", "createdAt": 1, "delegationDepth": 0, "isSeeded": False}
    return json.dumps(header).encode() + b"\n" + text.partition(b"\n")[2]


def naive_told(line: dict[str, Any], k: int) -> int | None:
    """The last figure in the first k + 1 chunks of a stream."""
    at, told = 0, None
    for record in line["data"]["stream"]:
        if record["type"] == "chunk" and at <= k:
            told = record["chunk"]["usage"]["inputTokens"]
        at += 1 if record["type"] == "chunk" else len(record["texts"])
    return told


def naive_open(log: list[dict[str, Any]]) -> list[tuple[str, int | None, int | None]]:
    """Calls of the open step without a result: id, seq of the answer that asks, seq of the call."""
    borders = [one["seq"] for one in log if one["type"] in ("step/start", "step/end", "turn/start", "turn/end")]
    if not borders or log[borders[-1]]["type"] != "step/start":
        return []
    met: dict[tuple[str, int], list[int | None]] = {}
    count: dict[tuple[str, str], int] = {}
    for line in log[borders[-1] :]:
        data = line["data"]
        if line.get("surfaceOp", "append") != "append":
            continue  # it takes the place of what is there
        if line["type"] == "assistant/message":
            named = [(block["id"], 0) for block in data["message"]["content"] if block["type"] == "tool-call"]
        elif line["type"] == "tool/call":
            named = [(data["callId"], 1)]
        elif line["type"] == "tool/result":
            named = [(data["message"]["source"]["callId"], 2)]
        else:
            continue
        for id, part in named:
            count[id, str(part)] = k = count.get((id, str(part)), 0) + 1
            if part == 2:
                continue
            met.setdefault((id, k), [None, None])[part] = line["seq"]
    return [(id, asked, started) for (id, k), (asked, started) in met.items() if k > count.get((id, "2"), 0)]
