"""Logs written by hand: a naive writer of lines, packed rows and frames. Nothing of turnlog is used here."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import zstandard

Event = dict[str, Any]

DATA: Final = Path(__file__).parent.parent / "data"
CORPUS: Final = DATA / "corpus"
START: Final = 1_760_000_000_000
MODEL: Final = {"kind": "model", "provider": "example", "model": "demo-1"}
ROW_OF: Final = {
    "text-delta": "text-chunks",
    "reasoning-delta": "reasoning-chunks",
    "tool-call-delta": "tool-call-chunks",
}
DELTA_OF: Final = {row: delta for delta, row in ROW_OF.items()}


def compact(value: Any) -> bytes:
    """JSON as dsh's JavaScript writes it: no spaces, halves of surrogate pairs escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text).encode()


class Log:
    """A log under construction: ``header`` and ``events`` are plain dicts, to be damaged at will."""

    def __init__(
        self, id: str = "sess-1", *, version: int = 0, cwd: str | None = "/home/dev/demo", **header: Any
    ) -> None:
        self.header: Event = {"type": "session", "version": version, "id": id, "createdAt": START}
        if cwd is not None:
            self.header["cwd"] = cwd
        if version >= 2:
            self.header["isSeeded"] = False
        self.header |= {"delegationDepth": 0, **header}
        self.events: list[Event] = []
        self.time = START
        self._messages = 0

    def add(self, type: str, data: Any, **envelope: Any) -> int:
        """One event; gives its seq."""
        self.time = envelope.pop("time", self.time + 10)
        seq = len(self.events)
        self.events.append({"type": type, "seq": seq, "time": self.time, "data": data, **envelope})
        return seq

    # -- events -------------------------------------------------------------------------------------------------

    def turn(self, turn: int = 1) -> int:
        return self.add("turn/start", {"turn": turn})

    def step(self, turn: int = 1, step: int = 1) -> int:
        return self.add("step/start", {"turn": turn, "step": step})

    def end_step(self, turn: int = 1, step: int = 1) -> int:
        return self.add("step/end", {"turn": turn, "step": step})

    def end_turn(self, turn: int = 1, **reason: Any) -> int:
        return self.add("turn/end", {"turn": turn, "reason": reason or {"kind": "completed"}})

    def user(self, text: str, *, source: Any = None, **envelope: Any) -> int:
        data = {
            "content": [{"type": "text", "text": text}],
            "source": source or {"kind": "user"},
            "role": "user",
            "id": self.message_id(),
        }
        return self.add("user/message", data, **{"surfaceOp": "append", **envelope})

    def chunk(self, chunk: Event, *, turn: int = 1, step: int = 1, **envelope: Any) -> int:
        return self.add("assistant/chunk", {"turn": turn, "step": step, "chunk": chunk}, **envelope)

    def text_chunks(
        self, texts: Iterable[str], *, turn: int = 1, step: int = 1, index: int = 0, kind: str = "text"
    ) -> list[int]:
        """A whole streamed block: start, deltas, end."""
        texts = list(texts)
        block = {"type": kind, "text": "".join(texts)}
        chunks = [
            {"type": "block-start", "index": index, "blockType": kind},
            *({"type": f"{kind}-delta", "index": index, "text": text} for text in texts),
            {"type": "block-end", "index": index, "block": block},
        ]
        return [self.chunk(chunk, turn=turn, step=step) for chunk in chunks]

    def call_chunks(
        self,
        call_id: str,
        parts: Iterable[str],
        *,
        name: str | None = "bash",
        turn: int = 1,
        step: int = 1,
        index: int = 0,
    ) -> list[int]:
        """The deltas of a streamed tool call."""
        named = {} if name is None else {"name": name}
        deltas = [
            {"type": "tool-call-delta", "index": index, "id": call_id, "argumentsDelta": part, **named}
            for part in parts
        ]
        return [self.chunk(delta, turn=turn, step=step) for delta in deltas]

    def answer(
        self,
        *blocks: Event | str,
        turn: int = 1,
        step: int = 1,
        sources: Any = None,
        usage: Any = None,
        **envelope: Any,
    ) -> int:
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        message = {"role": "assistant", "content": content, "source": MODEL, "id": self.message_id()}
        data = {"turn": turn, "step": step, "message": message}
        if usage is not None:
            data["usage"] = usage
        cited = {} if sources is None else {"sourceEventSeqs": sources}
        return self.add("assistant/message", data, **cited, **{"surfaceOp": "append", **envelope})

    def call(self, call_id: str, *, arguments: str = "{}", name: str = "bash", turn: int = 1, step: int = 1) -> int:
        data = {"turn": turn, "step": step, "callId": call_id, "name": name, "arguments": arguments}
        return self.add("tool/call", data)

    def result(
        self,
        call_id: str,
        text: str,
        *,
        turn: int = 1,
        step: int = 1,
        sources: Any = None,
        is_error: bool = False,
        id: str | None = None,
        more: Event | None = None,
        **envelope: Any,
    ) -> int:
        content = [{"type": "text", "text": text}]
        message: Event
        if self.header["version"] >= 4:
            message = {"role": "tool", "source": {"kind": "tool", "callId": call_id}, "toolCallId": call_id}
            message |= {"content": content, "isError": is_error, "id": id or self.message_id()}
        else:
            block = {"type": "tool-result", "toolCallId": call_id, "content": content, "isError": is_error}
            message = {"source": {"kind": "tool", "callId": call_id}, "content": [block], "role": "user"}
            message["id"] = id or self.message_id()
        data = {"turn": turn, "step": step, "message": message, **(more or {})}
        cited = {} if sources is None else {"sourceEventSeqs": sources}
        return self.add("tool/result", data, **cited, **{"surfaceOp": "append", **envelope})

    def message_id(self) -> str:
        self._messages += 1
        return f"m-{self._messages:04d}"

    # -- whole conversations ------------------------------------------------------------------------------------

    def simple_turn(self, turn: int, question: str, answer: str, *, deltas: int = 2) -> None:
        """Question, streamed answer, end."""
        self.turn(turn)
        self.step(turn)
        self.user(question)
        cited = self.text_chunks(cut(answer, deltas), turn=turn)
        cited.append(self.chunk({"type": "finish", "reason": {"kind": "stop"}}, turn=turn))
        self.answer(answer, turn=turn, sources=cited)
        self.end_step(turn)
        self.end_turn(turn)

    def tool_turn(self, turn: int, question: str, call_id: str, output: str, answer: str) -> None:
        """Question, one call with its result, answer in a second step, end."""
        arguments = json.dumps({"command": f"echo {output}"})
        block = {"type": "tool-call", "id": call_id, "name": "bash", "arguments": arguments}
        self.turn(turn)
        self.step(turn)
        self.user(question)
        cited = self.call_chunks(call_id, cut(arguments, 4), turn=turn)
        self.answer(block, turn=turn, sources=cited)
        asked = self.call(call_id, arguments=arguments, turn=turn)
        self.result(call_id, output, turn=turn, sources=[asked])
        self.end_step(turn)
        self.step(turn, 2)
        self.answer(answer, turn=turn, step=2, sources=self.text_chunks(cut(answer, 3), turn=turn, step=2))
        self.end_step(turn, 2)
        self.end_turn(turn)

    # -- bytes --------------------------------------------------------------------------------------------------

    def lines(self, *, packed: bool = False) -> list[bytes]:
        """Header line and event lines, without newlines."""
        return [compact(self.header), *map(compact, pack(self.events) if packed else self.events)]

    def text(self, *, packed: bool = False) -> bytes:
        return joined(self.lines(packed=packed))

    def zstd(self, *, batch: int = 8, packed: bool = False) -> bytes:
        """As a writer stores it: the header's frame, then one frame per batch of lines."""
        first, *rest = self.lines(packed=packed)
        batches = [rest[at : at + batch] for at in range(0, len(rest), batch)]
        return b"".join(frame(joined(lines)) for lines in ([first], *batches))


def joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def cut(text: str, pieces: int) -> list[str]:
    """*text* in about *pieces* parts."""
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)]


# -- packed rows ------------------------------------------------------------------------------------------------


def pack(events: Sequence[Event], minimum: int = 3) -> list[Event]:
    """Runs of at least *minimum* deltas of one block become one row (dsh-v0 §7.3); everything else stays."""
    rows: list[Event] = []
    at = 0
    while at < len(events):
        end = at + 1
        while end < len(events) and _continues(events[end - 1], events[end]):
            end += 1
        run = events[at:end]
        if len(run) >= minimum and _packs(run[0]):
            rows.append(_row(run))
        else:
            rows += run
        at = end
    return rows


def _packs(event: Event) -> bool:
    if event.keys() != {"type", "seq", "time", "data"} or event["type"] != "assistant/chunk":
        return False
    chunk = event["data"]["chunk"]
    allowed = [{"type", "index", "text"}]
    if chunk["type"] == "tool-call-delta":
        allowed = [{"type", "index", "id", "argumentsDelta"}, {"type", "index", "id", "argumentsDelta", "name"}]
    return chunk["type"] in ROW_OF and chunk.keys() in allowed and event["data"].keys() == {"turn", "step", "chunk"}


def _continues(before: Event, event: Event) -> bool:
    if not (_packs(before) and _packs(event)) or event["seq"] != before["seq"] + 1:
        return False
    kept = [
        (
            one["data"]["turn"],
            one["data"]["step"],
            *(one["data"]["chunk"].get(k) for k in ("type", "index", "id", "name")),
        )
        for one in (before, event)
    ]
    return kept[0] == kept[1]


def _row(run: Sequence[Event]) -> Event:
    first, chunk = run[0], run[0]["data"]["chunk"]
    data: Event = {"turn": first["data"]["turn"], "step": first["data"]["step"], "index": chunk["index"]}
    data["dt"] = [after["time"] - before["time"] for before, after in pairwise(run)]
    if chunk["type"] == "tool-call-delta":
        data["id"] = chunk["id"]
        if "name" in chunk:
            data["name"] = chunk["name"]
        data["args"] = [event["data"]["chunk"]["argumentsDelta"] for event in run]
    else:
        data["texts"] = [event["data"]["chunk"]["text"] for event in run]
    return {"type": ROW_OF[chunk["type"]], "seq0": first["seq"], "time0": first["time"], "data": data}


def unpack(row: Event) -> list[Event]:
    """The events of one line: itself, or the members of a packed row."""
    if row["type"] not in DELTA_OF:
        return [row]
    data, time = row["data"], row["time0"]
    events = []
    for offset, text in enumerate(data["args" if row["type"] == "tool-call-chunks" else "texts"]):
        time += data["dt"][offset - 1] if offset else 0
        chunk: Event = {"type": DELTA_OF[row["type"]], "index": data["index"]}
        if row["type"] == "tool-call-chunks":
            chunk |= {"id": data["id"], "argumentsDelta": text}
            if "name" in data:
                chunk["name"] = data["name"]
        else:
            chunk["text"] = text
        inner = {"turn": data["turn"], "step": data["step"], "chunk": chunk}
        events.append({"type": "assistant/chunk", "seq": row["seq0"] + offset, "time": time, "data": inner})
    return events


# -- frames -----------------------------------------------------------------------------------------------------


def frame(content: bytes, *, checksum: bool = True, size: bool = True, level: int = 3) -> bytes:
    """One zstd frame."""
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=size)
    return compressor.compress(content)


def raw_frame(content: bytes, *, block: int = 1000) -> bytes:
    """One frame of stored blocks, without a checksum: its bytes are the text, at known places."""
    made = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(content))
    pieces = [content[at : at + block] for at in range(0, len(content), block)] or [b""]
    for number, piece in enumerate(pieces, 1):
        made += struct.pack("<I", len(piece) << 3 | (number == len(pieces)))[:3] + piece
    return made


def skippable(content: bytes = b"not a log", kind: int = 0) -> bytes:
    """A frame that every zstd reader passes over."""
    return bytes([0x50 | kind]) + b"\x2a\x4d\x18" + struct.pack("<I", len(content)) + content


def contents(data: bytes) -> bytes:
    """The text of a zstd log, frame by frame; also gives plain text as it is."""
    text = b""
    if data[:4] != b"\x28\xb5\x2f\xfd":
        return data
    while data:
        stream = zstandard.ZstdDecompressor().decompressobj()
        text += stream.decompress(data)
        assert stream.eof
        data = stream.unused_data
    return text


# -- one log with a bit of everything ---------------------------------------------------------------------------


def rich() -> Log:
    """A valid log of format 0: turns, tools, a rewritten result, a compaction, an open turn, odd text."""
    log = Log("sess-rich", agentPreset="code")
    log.add("permission/preset", {"preset": "workspace-write"})
    log.simple_turn(1, "Say hello, \u4f60\u597d \U0001f600", "Hello there, how are you today?", deltas=7)
    log.tool_turn(2, "What is the time?", "call_a", "12:00", "It is noon.")
    log.turn(3)
    log.step(3)
    start = log.add("compaction/start", {"compactionId": "c1", "turn": 3})
    shadowed = [2 + 1, 14]
    assert [log.events[seq]["type"] for seq in shadowed] == ["user/message", "assistant/message"]
    summary = log.add(
        "compaction/summary",
        {
            "compactionId": "c1",
            "summary": [{"type": "text", "text": "They said hello."}],
            "shadowedRange": {"start": shadowed[0], "end": shadowed[1]},
            "shadowedSeqs": shadowed,
            "shadowedTokenCount": 40,
            "provider": "example",
            "model": "demo-1",
        },
    )
    source = {"kind": "plugin", "plugin": "compact", "compactionId": "c1"}
    log.user(
        "Earlier: a greeting.",
        source=source,
        surfaceOp={"op": "replace", "start": shadowed[0], "end": shadowed[1]},
        sourceEventSeqs=[start, summary, *shadowed],
    )
    log.add("compaction/end", {"compactionId": "c1", "turn": 3})
    old = next(event for event in log.events if event["type"] == "tool/result")
    log.add("compaction/prune", {"shadowedRange": {}, "shadowedSeqs": [old["seq"]], "shadowedTokenCount": 3})
    log.result(
        "call_a",
        "[removed]",
        turn=old["data"]["turn"],
        id=old["data"]["message"]["id"],
        sources=[old["seq"]],
        surfaceOp={"op": "replace", "start": old["seq"], "end": old["seq"]},
    )
    log.add("crew/note", {"text": "a plugin was here", "numbers": [1, -2.5, 1e9, True, None]}, ignorable=True)
    log.user("Go on\u2028and on", sourceEventSeqs=[[0, 2], start])
    log.chunk({"type": "block-start", "index": 0, "blockType": "reasoning"}, turn=3)
    for text in ("Let ", "me ", 'think \\ " \u00e9 \ud83d'):
        log.chunk({"type": "reasoning-delta", "index": 0, "text": text}, turn=3, time=log.time - 3)
    return log
