"""Addresses: one notation for every place, and errors that say what there is instead."""

from __future__ import annotations

import pytest

from tests.views.logs import (
    LONG,
    SAMPLE,
    TOOLS,
    asks,
    call,
    case,
    end,
    message,
    real,
    result,
    session,
    step,
    step_end,
    turn,
    user,
)
from turnlog import load
from turnlog.views import AddressAmbiguous, AddressInvalid, AddressUnknown, parse_address, resolve
from turnlog.views.address import (
    Address,
    AttemptAddress,
    CallAddress,
    EventAddress,
    MessageAddress,
    StepAddress,
    TurnAddress,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("t3", TurnAddress(3)),
        ("t0", TurnAddress(0)),
        ("t3.s2", StepAddress(3, 2)),
        ("t3.s2.a1", AttemptAddress(3, 2, 1)),
        ("call:call_1", CallAddress("call_1")),
        ("t3.s2.call:call_1", CallAddress("call_1", 3, 2)),
        ("call:with spaces:and/slashes", CallAddress("with spaces:and/slashes")),
        ("msg:0c4e", MessageAddress("0c4e")),
        ("@0", EventAddress(0)),
        ("@14/3", EventAddress(14, 3)),
    ],
)
def test_an_address_reads_back_as_it_was_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "3", "t", "t03", "t3.", "t3.s", "t3.a1", "t3.s2.a0", "T3", "t3.call:x", "call:", "msg:", "@", "@-1", "@1/",
     "@1/x", "@1.5", "@99999999999999999999", "t٣", "@٣", "#5", "t3 "],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_what_addresses_look_like(text: str) -> None:
    with pytest.raises(AddressInvalid, match=r"t3\.s2\.call:ID"):
        parse_address(text)


def test_every_kind_of_address_leads_to_its_place() -> None:
    log = load(SAMPLE)
    places = {text: (found.first, found.last, found.main)
              for text in ("t1", "t1.s1", "t1.s1.a1", "call:call_1", "t1.s1.call:call_1", "@4")
              for found in [resolve(log, text)]}  # fmt: skip
    assert places == {
        "t1": (0, 9, 0),
        "t1.s1": (1, 8, 1),
        "t1.s1.a1": (3, 5, 5),
        "call:call_1": (5, 7, 7),
        "t1.s1.call:call_1": (5, 7, 7),
        "@4": (4, 4, 4),
    }


def test_a_chunk_inside_a_stream_has_an_address_and_one_beyond_it_has_not() -> None:
    log = real(4, LONG[4])
    assert resolve(log, "@14/603").k == 603
    with pytest.raises(AddressUnknown, match="604 chunks, @14/0 to @14/603"):
        resolve(log, "@14/604")
    with pytest.raises(AddressUnknown, match="in formats 0 and 1 chunks are events of their own"):
        resolve(real(0, TOOLS[0]), "@25/0")


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("t2", "the turns are t1"),
        ("t1.s3", r"the steps of t1 are t1\.s1, t1\.s2"),
        ("t1.s1.a2", r"its attempts are t1\.s1\.a1"),
        ("call:x", "the calls are call:call_3_0"),
        ("msg:x", "the messages are msg:f1002876-"),
        ("@25", "there are @0 to @24"),
    ],
)
def test_an_unknown_place_is_an_error_that_lists_the_places_there_are(text: str, there: str) -> None:
    with pytest.raises(AddressUnknown, match=there):
        resolve(real(4, TOOLS[4]), text)


def test_an_ambiguous_call_lists_the_steps_it_is_in() -> None:
    with pytest.raises(AddressAmbiguous, match=r"t1\.s1\.call:call_0, t2\.s1\.call:call_0, t3\.s1\.call:call_0"):
        resolve(case("BC-041/session.jsonl"), "call:call_0")
    assert resolve(case("BC-041/session.jsonl"), "t2.s1.call:call_0").main == 30


def test_repeated_message_ids_are_ambiguous_and_seqs_are_not() -> None:
    """BC-062: records sharing an id became unreachable."""
    log = case("BC-062/session.jsonl")
    with pytest.raises(AddressAmbiguous, match="4 messages: @"):
        resolve(log, f"msg:{next(iter(log.derive_messages())).id}")


def test_a_message_that_was_replaced_under_the_same_id_is_the_one_that_is_visible() -> None:
    log = session(turn(), step(), user(), message(asks("c")), call("c"), result("c", "long", message_id="same"),
                  result("c", "cut", message_id="same", surfaceOp={"op": "replace", "start": 5, "end": 5},
                         sourceEventSeqs=[5]), step_end(), end())  # fmt: skip
    assert resolve(log, "msg:same").main == 6
    assert resolve(log, "msg:u").main == 2


def test_long_lists_of_candidates_are_cut() -> None:
    many = session(*[one for number in range(1, 31) for one in (turn(number), end(number))])
    with pytest.raises(AddressUnknown, match=r"t9, t10 and 20 more$"):
        resolve(many, "t99")
