"""Server-sent events are cut out of bytes the same way wherever the network cuts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Prove
from turnlog.model.sse import EventSplitter, EventTooLong, ServerEvent


def split(*pieces: bytes, limit: int = 1 << 20) -> list[ServerEvent]:
    splitter = EventSplitter(limit)
    return [event for piece in pieces for event in splitter.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [(b"a", "")]),
        (b"data:a\r\n\r\n", [(b"a", "")]),
        (b"data: a\r\rdata:  b\r\r", [(b"a", ""), (b" b", "")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"a", "")]),
        (b"data: a\ndata: b\n\n", [(b"a\nb", "")]),
        (b"data\n\n", [(b"", "")]),
        (b"data:\n\n", [(b"", "")]),
        (b"event: ping\n\ndata: a\n\n", [(b"a", "")]),
        (b"event: error\ndata: a\n\ndata: b\n\n", [(b"a", "error"), (b"b", "")]),
        (b": one\ndata: a\n:two\n\n", [(b"a", "")]),
        (b"id: 7\nretry: 3000\nunknown: x\ndata: a\n\n", [(b"a", "")]),
        (b"data: a\n\ndata: never closed\n", [(b"a", "")]),
        ("data: x\u2028y\u2029z\u0085\n\n".encode(), [("x\u2028y\u2029z\u0085".encode(), "")]),
        (b"data: \xff\xfe\n\n", [(b"\xff\xfe", "")]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_a_stream_is_its_events_wherever_it_is_cut(stream: bytes, events: list[tuple[bytes, str]]) -> None:
    expected = [ServerEvent(*event) for event in events]
    assert split(stream) == expected
    assert split(*(bytes([byte]) for byte in stream)) == expected
    for cut in range(len(stream) + 1):
        assert split(stream[:cut], stream[cut:]) == expected


def test_comments_are_counted_because_they_are_signs_of_life() -> None:
    splitter = EventSplitter()
    assert splitter.feed(b": ping\n:\n\n") == []
    assert splitter.comments == 2


def test_an_event_above_the_limit_is_an_error_and_a_long_stream_of_small_ones_is_not() -> None:
    with pytest.raises(EventTooLong, match="larger than 100 bytes"):
        split(b"data: " + b"x" * 200, limit=100)
    with pytest.raises(EventTooLong):
        split(*[b"data: " + b"x" * 30 + b"\n"] * 10, limit=100)
    with pytest.raises(EventTooLong):
        split(b"data: " + b"x" * 200 + b"\n\n", limit=100)
    assert len(split(*[b"data: " + b"x" * 50 + b"\n\n"] * 50, limit=100)) == 50
    assert len(split(b"data: xx\n\n" * 50, limit=100)) == 50


_LINES = st.sampled_from([b"data: a", b"data:b\xc3\xa9", b"data", b": c", b"event: e", b"", b"", b"id: 1", b"x"])
_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def test_no_way_of_cutting_changes_the_events(prove: Prove) -> None:
    def check(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
        stream = b"".join(line + end for line, end in lines)
        places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
        pieces = [stream[begin:end] for begin, end in pairwise(places)]
        whole = split(stream)
        assert split(*pieces) == whole
        assert whole == split(stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))

    prove(
        "a stream of events cut anywhere equals the whole",
        check,
        st.lists(st.tuples(_LINES, _ENDS), min_size=1, max_size=20),
        st.lists(st.integers(0, 200), max_size=12),
    )


@given(st.binary(max_size=200))
def test_no_bytes_break_the_splitter(stream: bytes) -> None:
    split(stream)
