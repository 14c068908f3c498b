"""Synthetic format-0 session logs for the benchmarks.

A log is a row of turns of four steps. Every step streams a text in `deltas` chunks; all but a
turn's last step also call a tool and record its result. With the defaults that is 103,002 events
deriving to 4,000 messages. dsh accepts the logs (`peer/check.mjs`), and its packer and its
`JSON.stringify` write the same bytes.

Nothing here imports turnlog: a benchmark that wrote its input with the code under test would
only prove that the code agrees with itself.

One event is an encoded line; a stream of deltas stays a `_Run` until the writer knows the layout,
because dsh packs per write batch and a frame's end cuts the run:

    _Script.turns() -> turns of str | _Run -> [_frames()] -> lines -> bytes
"""

from __future__ import annotations

import argparse
import json
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, count, pairwise
from pathlib import Path
from typing import BinaryIO, Final

import zstandard

Json = dict[str, object]

STEPS_PER_TURN: Final = 4
MIN_PACKED_RUN: Final = 3  # dsh leaves shorter runs as single events
ZSTD_LEVEL: Final = 3  # dsh's default
FIRST_TIME: Final = 1_700_000_000_000
MODEL_SOURCE: Final[Json] = {"kind": "model", "provider": "deepseek-official", "model": "deepseek-v4-flash"}

# Escapes (quote, newline, backslash) are ordinary in code and belong into every text.
PLAIN: Final = (
    "the a of to in is and that it for was on are as with be at by this have from or one had not "
    "session event message stream token cache index buffer surface replay header projection "
    "reads writes derives appends restores checks returns compares follows however, therefore "
    '`load()` "quoted" src\\turnlog finally: 42 -> {}'
)
# Spoken in every tenth turn, because one such letter makes the whole line a wide string in V8 and in CPython.
WIDE: Final = "会话 事件 日志 naïve café résumé — “so” 🙂 → ≥"
PLAIN_WORDS: Final = (*PLAIN.split(), "done.\n")
WIDE_WORDS: Final = (*PLAIN_WORDS, *WIDE.split())

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class LogStats:
    """What was written: events without the header, bytes on disk, decompressed lines with the header."""

    events: int
    bytes: int
    lines: int


def write_log(
    path: Path,
    *,
    steps: int = 2000,
    deltas: int = 40,
    packed: bool,
    zstd_frame: int | None = None,
    text_words: int = 1,
    target_bytes: int | None = None,
    seed: int = 1,
    session_id: str = "bench",
) -> LogStats:
    """Write a log of `steps` steps, or of whole turns until the file holds `target_bytes`.

    The same arguments always write the same bytes, and memory stays at one turn. `packed` stores
    runs of deltas as dsh's packed rows. `zstd_frame` writes a zstd container with that many events
    per frame, after a first frame that holds the header line alone; runs are then packed within
    each frame, as dsh packs within each write batch. `text_words` is the number of words in one
    delta: 1 makes unpacked lines of 177 bytes on average, 10 of 300.
    """
    script = _Script(random.Random(seed), deltas=deltas, text_words=text_words)
    with path.open("wb") as file:
        if target_bytes is None:
            turns = script.turns(steps)
        else:
            turns = _until_size(script.turns(None), file, target_bytes)
        return _write(file, _header(session_id), turns, packed=packed, zstd_frame=zstd_frame)


def _header(session_id: str) -> str:
    return _encode(
        {
            "type": "session",
            "version": 0,
            "id": session_id,
            "createdAt": FIRST_TIME,
            "cwd": "/home/dev/project",
            "delegationDepth": 0,
        }
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive text deltas of one block, not yet laid out as events or as packed rows."""

    turn: int
    step: int
    seq: int
    times: list[int]
    texts: list[str]

    def __len__(self) -> int:
        return len(self.texts)

    def cut(self, at: int) -> tuple[_Run, _Run]:
        """The first `at` deltas and the others."""
        head = _Run(self.turn, self.step, self.seq, self.times[:at], self.texts[:at])
        return head, _Run(self.turn, self.step, self.seq + at, self.times[at:], self.texts[at:])

    def lines(self, *, packed: bool) -> list[str]:
        if packed and len(self) >= MIN_PACKED_RUN:
            return [self._row()]
        place = f'"turn":{self.turn},"step":{self.step}'
        return [
            f'{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{{place},'
            f'"chunk":{{"type":"text-delta","index":0,"text":{_encode(text)}}}}}}}'
            for seq, time, text in zip(count(self.seq), self.times, self.texts)
        ]

    def _row(self) -> str:
        gaps = [later - earlier for earlier, later in pairwise(self.times)]
        data = {"turn": self.turn, "step": self.step, "index": 0, "dt": gaps, "texts": self.texts}
        return _encode({"type": "text-chunks", "seq0": self.seq, "time0": self.times[0], "data": data})


_Item = str | _Run


class _Script:
    """The events of one log in order; holds the next seq, the clock and the dice."""

    def __init__(self, dice: random.Random, *, deltas: int, text_words: int) -> None:
        self._dice = dice
        self._deltas = deltas
        self._text_words = text_words
        self._seq = 0
        self._time = FIRST_TIME

    def turns(self, steps: int | None) -> Iterator[list[_Item]]:
        """Whole turns, the last one shorter when `steps` says so; endless for None."""
        for turn in count(1):
            left = STEPS_PER_TURN if steps is None else steps - (turn - 1) * STEPS_PER_TURN
            if left <= 0:
                return
            yield list(self._turn(turn, min(left, STEPS_PER_TURN)))

    def _turn(self, turn: int, steps: int) -> Iterator[_Item]:
        words = WIDE_WORDS if turn % 10 == 0 else PLAIN_WORDS
        yield self._event("turn/start", {"turn": turn})
        for step in range(1, steps + 1):
            yield self._event("step/start", {"turn": turn, "step": step})
            if step == 1:
                yield self._user_message(" ".join(self._dice.choices(words, k=20)))
            if turn == step == 1:
                yield from self._request()
            yield from self._step(turn, step, words, calls_tool=step < steps)
            yield self._event("step/end", {"turn": turn, "step": step})
        yield self._event("turn/end", {"turn": turn, "reason": {"kind": "completed"}})

    def _request(self) -> Iterator[str]:
        config = {"provider": MODEL_SOURCE["provider"], "model": MODEL_SOURCE["model"]}
        parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        tool = {"name": "read_file", "description": "Read a text file.", "parameters": parameters}
        header = {"config": config, "system": "You write code and explain it.", "tools": [tool]}
        yield self._event("request/header", {"header": header, "reason": "initial"})
        yield self._event("request/context", {**config, "contextWindow": 1_000_000})

    def _step(self, turn: int, step: int, words: tuple[str, ...], *, calls_tool: bool) -> Iterator[_Item]:
        """One model attempt, the message assembled from it, and the tool round it asked for."""
        first_chunk = self._seq
        yield self._chunk(turn, step, {"type": "block-start", "index": 0, "blockType": "text"})
        run = self._run(turn, step, words)
        yield run
        content: list[Json] = [{"type": "text", "text": "".join(run.texts)}]
        yield self._chunk(turn, step, {"type": "block-end", "index": 0, "block": content[0]})
        if calls_tool:
            content.append(_tool_call(turn, step))
            yield from self._tool_call_chunks(turn, step, content[1])
        usage = self._usage()
        yield self._chunk(turn, step, {"type": "usage", "usage": usage})
        reason = "tool-calls" if calls_tool else "stop"
        yield self._chunk(turn, step, {"type": "finish", "reason": {"kind": reason}})
        yield self._assistant_message(turn, step, content, usage, first_chunk)
        if calls_tool:
            yield from self._tool_round(turn, step, content[1], words)

    def _run(self, turn: int, step: int, words: tuple[str, ...]) -> _Run:
        """A stream of deltas, 0 to 30 ms apart, each of `text_words` words and a space."""
        size = self._text_words
        chosen = self._dice.choices(words, k=self._deltas * size)
        texts = [" ".join(chosen[at : at + size]) + " " for at in range(0, len(chosen), size)]
        gaps = self._dice.choices(range(31), k=self._deltas)
        times = list(accumulate(gaps, initial=self._time))[1:]
        run = _Run(turn, step, self._seq, times, texts)
        self._seq += len(run)
        self._time += sum(gaps)
        return run

    def _tool_call_chunks(self, turn: int, step: int, call: Json) -> Iterator[str]:
        yield self._chunk(turn, step, {"type": "block-start", "index": 1, "blockType": "tool-call"})
        delta = {"id": call["id"], "name": call["name"], "argumentsDelta": call["arguments"]}
        yield self._chunk(turn, step, {"type": "tool-call-delta", "index": 1, **delta})
        yield self._chunk(turn, step, {"type": "block-end", "index": 1, "block": call})

    def _tool_round(self, turn: int, step: int, call: Json, words: tuple[str, ...]) -> Iterator[str]:
        data = {"turn": turn, "step": step}
        called = {"callId": call["id"], "name": call["name"], "arguments": call["arguments"]}
        yield self._event("tool/call", {**data, **called})
        text = {"type": "text", "text": " ".join(self._dice.choices(words, k=60))}
        result = {"type": "tool-result", "toolCallId": call["id"], "content": [text], "isError": False}
        message = {
            "source": {"kind": "tool", "callId": call["id"]},
            "content": [result],
            "role": "user",
            "id": self._message_id(),
        }
        yield self._event("tool/result", {**data, "message": message}, "append", sources=[self._seq - 1])

    def _user_message(self, text: str) -> str:
        content: list[Json] = [{"type": "text", "text": text}]
        data: Json = {"content": content, "source": {"kind": "user"}, "role": "user", "id": self._message_id()}
        return self._event("user/message", data, "append")

    def _assistant_message(self, turn: int, step: int, content: list[Json], usage: Json, first_chunk: int) -> str:
        message = {"role": "assistant", "content": content, "source": MODEL_SOURCE, "id": self._message_id()}
        data = {"turn": turn, "step": step, "message": message, "usage": usage}
        return self._event("assistant/message", data, "append", sources=list(range(first_chunk, self._seq)))

    def _usage(self) -> Json:
        fresh, cached = self._dice.randrange(40, 400), self._dice.randrange(1_000, 90_000)
        spoken = self._deltas * self._text_words
        return {"inputTokens": fresh, "outputTokens": spoken, "cacheReadTokens": cached}

    def _message_id(self) -> str:
        return str(uuid.UUID(int=self._dice.getrandbits(128), version=4))

    def _chunk(self, turn: int, step: int, chunk: Json) -> str:
        return self._event("assistant/chunk", {"turn": turn, "step": step, "chunk": chunk})

    def _event(self, kind: str, data: Json, surface_op: str | None = None, *, sources: list[int] | None = None) -> str:
        """One encoded event, its members in the order in which dsh's append writes them."""
        self._time += self._dice.randrange(3)
        event: Json = {"type": kind, "seq": self._seq, "time": self._time, "data": data}
        if sources is not None:
            event["sourceEventSeqs"] = sources
        if surface_op is not None:
            event["surfaceOp"] = surface_op
        self._seq += 1
        return _encode(event)


def _tool_call(turn: int, step: int) -> Json:
    arguments = _encode({"path": f"src/turnlog/part_{turn}.py", "offset": step})
    return {"type": "tool-call", "id": f"call_{turn}_{step}", "name": "read_file", "arguments": arguments}


def _write(
    file: BinaryIO, header: str, turns: Iterator[list[_Item]], *, packed: bool, zstd_frame: int | None
) -> LogStats:
    """Write the header and one batch after another: a frame, or a turn where there are no frames."""
    batches = turns
    seal: Callable[[bytes], bytes] = bytes
    if zstd_frame is not None:
        batches = _frames(turns, zstd_frame)
        seal = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress
    file.write(seal(f"{header}\n".encode()))
    events, written = 0, 1
    for batch in batches:
        lines = [line for item in batch for line in _lines(item, packed=packed)]
        file.write(seal("".join(f"{line}\n" for line in lines).encode()))
        events += sum(map(_events_in, batch))
        written += len(lines)
    return LogStats(events=events, bytes=file.tell(), lines=written)


def _until_size(turns: Iterator[list[_Item]], file: BinaryIO, target_bytes: int) -> Iterator[list[_Item]]:
    """Turns until the file they are written to is large enough."""
    for turn in turns:
        yield turn
        if file.tell() >= target_bytes:
            return


def _frames(turns: Iterator[list[_Item]], size: int) -> Iterator[list[_Item]]:
    """The same events in batches of exactly `size`, runs cut where a batch is full."""
    batch: list[_Item] = []
    room = size
    for item in chain.from_iterable(turns):
        rest = item
        while isinstance(rest, _Run) and len(rest) > room:
            head, rest = rest.cut(room)
            yield [*batch, head]
            batch, room = [], size
        batch.append(rest)
        room -= _events_in(rest)
        if room == 0:
            yield batch
            batch, room = [], size
    if batch:
        yield batch


def _events_in(item: _Item) -> int:
    return len(item) if isinstance(item, _Run) else 1


def _lines(item: _Item, *, packed: bool) -> list[str]:
    return item.lines(packed=packed) if isinstance(item, _Run) else [item]


def main() -> None:
    """Write one log from the command line and print what was written."""
    parser = argparse.ArgumentParser(description="Write a synthetic format-0 session log.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--target-bytes", type=int, help="instead of --steps")
    parser.add_argument("--deltas", type=int, default=40)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--zstd-frame", type=int, metavar="EVENTS")
    parser.add_argument("--text-words", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    print(write_log(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
