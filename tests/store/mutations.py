"""Logs to damage, and ways to damage bytes."""

from __future__ import annotations

import random
from typing import Final

from tests.store.logs import Log, frame, joined, rich

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz\u00e9\u4f60"
TELLING: Final = b'"\\{}[],:0123456789eE.+-\n\r\t \0\x7f\x80\xc3\xe2\xed\xff\xfetfnu/'
"""Bytes that mean something to a parser of JSON, UTF-8 or lines."""


def open_ended() -> bytes:
    """About 20 KB of zstd as a writer leaves them when it is killed: one open turn, a frame per batch."""
    random_of = random.Random(7)
    log = Log("sess-open")
    log.turn()
    log.step()
    log.user("Write a long answer, please.")
    log.chunk({"type": "block-start", "index": 0, "blockType": "text"})
    for number in range(32):
        for _ in range(22):
            word = "".join(random_of.choices(LETTERS, k=random_of.randrange(5, 40)))
            log.chunk({"type": "text-delta", "index": 0, "text": word}, time=log.time + random_of.randrange(90))
        log.add("plan/mode", {"active": bool(number % 2)})
    lines = log.lines(packed=True)
    batches = [lines[:1], *(lines[at : at + 2] for at in range(1, len(lines), 2))]
    return b"".join(frame(joined(batch)) for batch in batches)


def plain_20k(*, packed: bool) -> bytes:
    """About 20 KB of plain log with a bit of everything."""
    log = rich()
    turn = 3
    log.end_step(turn)
    log.end_turn(turn)
    while len(log.text(packed=packed)) < 19_000:
        turn += 1
        log.tool_turn(turn, f"Question {turn} \u4f60?", f"call_{turn}", "output", "It is so, and here is why it is.")
    log.turn(turn + 1)
    log.user("And now?")
    return log.text(packed=packed)


def damaged(text: bytes, random_of: random.Random) -> bytes:
    """*text* with one random change, seldom two."""
    data = _once(bytearray(text), random_of)
    return bytes(_once(data, random_of) if data and random_of.random() < 0.1 else data)


def _once(data: bytearray, random_of: random.Random) -> bytearray:
    at = random_of.randrange(len(data))
    match random_of.randrange(10):
        case 0 | 1:
            data[at] ^= 1 << random_of.randrange(8)
        case 2:
            data[at] = random_of.choice(TELLING)
        case 3:
            del data[at : at + 1]
        case 4:
            del data[at : at + random_of.choice((2, 3, 10, 100, 1000))]
        case 5:
            data[at:at] = bytes([random_of.choice(TELLING)])
        case 6:
            data[at:at] = random_of.randbytes(random_of.choice((1, 2, 4, 16)))
        case 7:
            del data[at:]
        case 8:
            start = random_of.randrange(len(data))
            data[at:at] = data[start : start + random_of.choice((1, 2, 20, 200))]
        case _:
            _shuffle_lines(data, random_of)
    return data


def _shuffle_lines(data: bytearray, random_of: random.Random) -> None:
    lines = bytes(data).split(b"\n")
    one, other = random_of.randrange(len(lines)), random_of.randrange(len(lines))
    match random_of.randrange(3):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            lines.insert(one, lines[other])
        case _:
            del lines[one]
    data[:] = b"\n".join(lines)
