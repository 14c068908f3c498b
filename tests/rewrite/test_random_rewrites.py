"""Random logs, random damage: whatever is readable is kept, whatever is not is named, and the result opens strict."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from hypothesis import strategies as st

from tests.conftest import Prove
from tests.log.strategies import Writer
from tests.store.logs import frame
from turnlog import Session, Vocabulary
from turnlog.store import LogRefused, RewriteRefused, convert, load, repack, repair, verify
from turnlog.store.header import header_line

TAPES = st.binary(max_size=300)
SEEDS = st.integers(0, 2**32)


def stored(session: Session) -> list[bytes]:
    return [line + b"\n" for line in (header_line(session.header), *(event.line() for event in session.events))]


def damaged(lines: list[bytes], dice: random.Random) -> tuple[list[bytes], set[int]]:
    """The lines of a log with some lost, spoilt, repeated or moved; and which of them cannot be read any more."""
    gone: set[int] = set()
    numbered = list(enumerate(lines))[1:]
    for _time in range(dice.randint(1, 3)):
        if not numbered:
            break
        at = dice.randrange(len(numbered))
        number, line = numbered[at]
        match dice.choice(["drop", "nul", "cut", "again", "move"]):
            case "drop":
                del numbered[at]
                gone.add(number)
            case "nul":
                numbered[at] = (number, b"\0" * (len(line) - 1) + b"\n")
                gone.add(number)
            case "cut":
                numbered[at] = (number, line[: len(line) // 2] + b"\n")
                gone.add(number)
            case "again":
                numbered.insert(dice.randint(at, len(numbered)), (number, line))
            case _:
                numbered.insert(dice.randrange(len(numbered)), numbered.pop(at))
    still = {number for number, line in numbered if line == lines[number]}
    return [lines[0], *(line for _number, line in numbered)], gone - still


def test_what_is_readable_of_a_damaged_log_is_kept_and_the_rest_is_named(prove: Prove) -> None:
    def check(tape: bytes, seed: int) -> None:
        session = Writer(tape).write()
        whole = stored(session)
        lines, gone = damaged(whole, random.Random(seed))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "damaged.jsonl"
            path.write_bytes(b"".join(lines))
            done = repair(path)
            if not done.needed:
                load(path)
                return
            assert done.repaired is not None
            opened = load(done.repaired)
            assert [event.seq for event in opened.events] == list(range(done.events))
            kept = [load(one) for one in (done.repaired, *done.branches)]
            texts = {(event.type, event.time, _said(event.raw)) for one in kept for event in one.events}
            left_out = sum("was left out" in text for text in done.said)
            wanted = [event for event in session.events if event.seq + 1 not in gone]
            missing = [event for event in wanted if (event.type, event.time, _said(event.raw)) not in texts]
            assert len(missing) <= left_out
            named = {seq for one in done.lost if one.first is not None for seq in range(one.first, (one.last or 0) + 1)}
            last = max((event.seq for event in wanted), default=-1)
            assert {number - 1 for number in gone if number - 1 < last} <= named

    prove("damaged logs repaired", check, TAPES, SEEDS)


def _said(raw: bytes) -> str:
    """What an event says besides which events it names."""
    data = json.loads(raw)
    names = ("messageSeqs", "shadowedRange", "shadowedSeqs", "sourceEventSeq")
    if isinstance(data, dict):
        data = {name: value for name, value in data.items() if name not in names}
    return json.dumps(data, sort_keys=True)


def test_a_flipped_byte_never_makes_a_repair_that_does_not_open(prove: Prove) -> None:
    def check(tape: bytes, seed: int) -> None:
        dice = random.Random(seed)
        lines = stored(Writer(tape, forks=True).write())
        if dice.random() < 0.5:
            data = bytearray(b"".join(lines))
            name = "session.jsonl"
        else:
            data = bytearray(frame(lines[0]) + b"".join(frame(line) for line in lines[1:]))
            name = "session.jsonl.zstd"
        for _time in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / name
            path.write_bytes(data)
            try:
                done = repair(path)
            except (LogRefused, RewriteRefused):
                return  # no header any more, or one of another format
            assert path.read_bytes() == data
            if done.repaired is not None:
                assert len(load(done.repaired)) == done.events

    prove("flipped bytes repaired", check, TAPES, SEEDS)


def test_what_is_converted_for_dsh_has_its_words_and_our_messages(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        session = Writer(tape, forks=True).write()
        with tempfile.TemporaryDirectory() as directory:
            done = convert(b"".join(stored(session)), directory, for_dsh=True)
            made = load(done.path)
            assert {event.type for event in made.events} <= set(Vocabulary.core)
            assert not any(event.ignorable for event in made.events)
            mine = [event.message_json for event in session.message_events(as_stored=True)]
            assert [event.message_json for event in made.message_events(as_stored=True)] == mine
            assert verify(done.path).proof.state == "proven"
            assert made.generation == session.generation

    prove("logs converted for dsh", check, TAPES)


def test_packing_and_unpacking_gives_the_same_log(prove: Prove) -> None:
    def check(tape: bytes) -> None:
        session = Writer(tape, forks=True).write()
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "log.jsonl"
            path.write_bytes(b"".join(stored(session)))
            (packed,) = repack(path, compressed=True)
            (plain,) = repack(packed.path, compressed=False)
            assert load(plain.path).events == session.events

    prove("logs packed and unpacked", check, TAPES)
