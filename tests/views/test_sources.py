"""Sources: back to what something rests on, forward to what rests on it, and along replaces."""

from __future__ import annotations

import pytest

from tests.views.logs import SAMPLE, TOOLS, call, case, end, event, message, real, result, session, step, step_end, turn
from tests.views.logs import asks as block
from tests.views.logs import user as said
from turnlog import load
from turnlog.views import AddressUnknown, sources
from turnlog.views.provenance import Cited


def test_a_message_goes_back_to_its_chunks_and_a_result_to_its_call() -> None:
    log = load(SAMPLE)
    found = sources(log, "@5")
    assert found.sources == (3, 4)
    assert found.back == (Cited(3, 4, "assistant/chunk", 1),)
    assert sources(log, "call:call_1").sources == (6,)
    assert sources(log, "t1.s1.a1").event.seq == 5
    assert sources(log, "@6").cited_by == (7,)
    assert sources(log, "@0").cited_by == (2,)


def test_unknown_sources_and_no_sources_are_two_different_things() -> None:
    log = session(turn(), step(), message(sources=[]), message(), step_end(), end())
    assert sources(log, "@2").sources == ()
    assert sources(log, "@3").sources is None
    assert sources(log, "@0").sources is None


def test_sources_are_followed_to_their_own_sources_each_once() -> None:
    checkpoint = event("user/message", {"content": [], "source": {"kind": "user"}, "role": "user", "id": "c"},
                       surfaceOp={"op": "replace", "start": 2, "end": 6}, sourceEventSeqs=[2, 4, 6])  # fmt: skip
    log = session(turn(), step(), said(), call("x"), message(sources=[3]), call("c"),
                  result("c", sourceEventSeqs=[5]), checkpoint, step_end(), end())  # fmt: skip
    found = sources(log, "@7")
    assert found.back == (
        Cited(2, 2, "user/message", 1),
        Cited(4, 4, "assistant/message", 1),
        Cited(6, 6, "tool/result", 1),
        Cited(3, 3, "tool/call", 2),
        Cited(5, 5, "tool/call", 2),
    )
    assert found.replaces == (2, 4, 6)
    assert sources(log, "@6").replaced_by == (7,)
    assert sources(log, "@6").cited_by == (7,)


def test_a_chain_of_replaces_is_followed_to_its_end() -> None:
    def pruned(text: str, old: int) -> dict[str, object]:
        return result("c", text, surfaceOp={"op": "replace", "start": old, "end": old}, sourceEventSeqs=[old])

    log = session(turn(), step(), message(block("c")), call("c"), result("c", "1"), pruned("2", 4), pruned("3", 5),
                  step_end(), end())  # fmt: skip
    assert sources(log, "@4").replaced_by == (5, 6)
    assert sources(log, "@5").replaces == (4,)
    assert sources(log, "@6").back == (
        Cited(5, 5, "tool/result", 1),
        Cited(4, 4, "tool/result", 2),
    )


def test_runs_of_chunks_are_one_entry_and_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    from turnlog.log.rows import PackedRun

    log = real(0, TOOLS[0])
    monkeypatch.setattr(PackedRun, "unpack", None)
    found = sources(log, "@25")
    assert found.back == (Cited(8, 24, "assistant/chunk", 1),)


def test_one_message_that_cites_thousands_of_chunks_is_linear() -> None:
    """BC-044: nested scans took minutes."""
    chunks = [
        event("assistant/chunk", {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "x"}})
    ]
    log = session(turn(), step(), *chunks * 20_000, message(sources=range(2, 20_002)), step_end(), end())
    found = sources(log, "@20002")
    assert found.back == (Cited(2, 20_001, "assistant/chunk", 1),)
    assert sources(log, "@12000").cited_by == (20_002,)


def test_an_event_that_is_not_there_is_an_error_that_says_which_are() -> None:
    with pytest.raises(AddressUnknown, match="no event @99; there are @0 to @9"):
        sources(load(SAMPLE), "@99")


def test_a_closer_has_no_provenance_because_it_is_not_in_the_log() -> None:
    with pytest.raises(AddressUnknown, match="closers are not part of the log"):
        sources(case("BC-065/open-turn-old.jsonl"), "@17")
