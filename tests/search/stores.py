"""Random stores, and what they hold computed naively: every log read from the front, every text looked through."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import zstandard

import turnlog
from tests.views import logs
from turnlog.events import Errored, PluginSource, TurnEnd, TurnStart, UserMessage
from turnlog.store import LogRefused, StoredSession
from turnlog.store.discover import list_sessions
from turnlog.views import calls
from turnlog.views.filters import event_text
from turnlog.views.prices import PriceTable
from turnlog.views.projectors import reason_text
from turnlog.views.usage import by, usage

WORDS: Final = (
    "alpha", "Beta beta", "STRASSE straße", "你好", "你好，世界", "世", "naïve café", "tab\tand \"quotes\"",
    "back\\slash a/b",
    "two\nlines", "\u0130stanbul ılık", "🌍 globe", "line\u2028end", "x", "ok", "Kelvin \u212a", "longſword",
    "<b>&amp;",
    "error 404", "e\u0301", "", "   ", "ab", "Σίσυφος",
)  # fmt: skip
QUERIES: Final = (
    "alpha", "ALPHA", "a", "ab", "beta BETA", "straße", "strasse", "你好", "好", "世界", "你", "naïve", "é",
    "\"quotes\"",
    "\\", "a/b", "two lines", "istanbul", "ilik", "🌍", "🌍 g", "line end", "x", "kelvin k", "longsword", "<b>", "404",
    "e\u0301", "σίσυφος", "nothing of the kind", "bash", "failed", "CODE",
)  # fmt: skip


class Dice:
    """Choices from a tape of bytes; zeros when it is at its end."""

    def __init__(self, tape: bytes) -> None:
        self._tape = tape
        self._at = 0

    def __call__(self, sides: int) -> int:
        value = self._tape[self._at] if self._at < len(self._tape) else 0
        self._at += 1
        return value % sides

    def word(self) -> str:
        return WORDS[self(len(WORDS))]


def script(dice: Dice, turns: int) -> list[dict[str, Any]]:
    """The events of some turns: prompts, streams with usage, calls, results, titles, every kind of end."""
    found: list[dict[str, Any]] = []
    for turn in range(1, turns + 1):
        found.append(logs.turn(turn))
        if dice(4) == 0:
            found.append(logs.event("session/title", {"title": dice.word(), "messageSeqs": []}))
        for step in range(1, 2 + dice(2)):
            found += _step(dice, turn, step, len(found))
        reasons = ({"kind": "completed"}, {"kind": "error", "error": {"message": dice.word(), "code": "CODE"}},
                   {"kind": "aborted", "reason": {"kind": "user"}}, {"kind": "max-tokens"})  # fmt: skip
        found.append(logs.end(turn, reasons[dice(4)]))
    return found


def _step(dice: Dice, turn: int, step: int, seq: int) -> list[dict[str, Any]]:
    found = [logs.step(step, turn), logs.user(dice.word(), id=f"u{turn}.{step}")]
    if dice(3) == 0:
        config = {"provider": "deepseek", "model": ("m", "deepseek-flash")[dice(2)]}
        found.append(logs.event("request/header", {"header": {"config": config}, "reason": "initial"}))
    first = seq + len(found)
    found += [logs.chunk(logs.text(dice.word()), turn, step) for _ in range(dice(4))]
    if dice(2):
        found.append(logs.chunk(logs.usage(cacheReadTokens=dice(9)), turn, step))
    if dice(5) == 0:
        found.append(logs.chunk(logs.finish("error", "RATE"), turn, step))
        found.append(logs.retry(turn=turn, step=step))
        first = seq + len(found)
    chunks = range(first, seq + len(found))
    id = f"c{dice(3)}"
    blocks: list[dict[str, Any]] = [{"type": "text", "text": dice.word()}]
    calling = dice(2) == 0
    blocks += [logs.asks(id, json.dumps({"x": dice.word()}))] if calling else []
    usage = {"usage": {"inputTokens": 7, "outputTokens": 3}} if dice(2) else {}
    found.append(logs.message(*blocks, turn=turn, step=step, id=f"a{turn}.{step}", sources=chunks, **usage))
    if calling:
        found.append(logs.call(id, json.dumps({"x": dice.word()}), turn, step))
        error = {"is_error": True} if dice(3) == 0 else {}
        found.append(logs.result(id, dice.word(), turn=turn, step=step, message_id=f"r{turn}.{step}", **error))
    found.append(logs.step_end(step, turn))
    return found


def log_lines(events: Sequence[dict[str, Any]], id: str, *, escaped: bool) -> list[bytes]:
    """A log as lines; *escaped* writes letters beyond ASCII as ``\\uXXXX``."""
    head = {"type": "session", "version": 0, "id": id, "createdAt": 5000 + len(id), "cwd": "/w/p", "delegationDepth": 0}
    listed = [head, *({"type": one["type"], "seq": seq, "time": 9000 + seq, **one} for seq, one in enumerate(events))]
    return [json.dumps(one, ensure_ascii=escaped, separators=(",", ":")).encode() + b"\n" for one in listed]


def framed(lines: Sequence[bytes], sizes: Sequence[int]) -> bytes:
    """The lines in zstd frames: the header alone, then by *sizes*, over and over."""
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    parts, at, turn = [compressor.compress(lines[0])], 1, 0
    while at < len(lines):
        size = max(sizes[turn % len(sizes)], 1) if sizes else 3
        parts.append(compressor.compress(b"".join(lines[at : at + size])))
        at, turn = at + size, turn + 1
    return b"".join(parts)


def place(root: Path, id: str, *, compressed: bool = False) -> Path:
    """Where a session of this id lies; made."""
    directory = root / "--w-p--" / id
    directory.mkdir(parents=True, exist_ok=True)
    return directory / ("session.jsonl.zstd" if compressed else "session.jsonl")


# -- what is in a store, naively ------------------------------------------------------------------------------------


def opened(path: Path) -> StoredSession | None:
    for forensic in (False, True):
        try:
            return turnlog.load(path, forensic=forensic)
        except LogRefused:
            continue
    return None


def totals(session: StoredSession) -> dict[str, Any]:
    """What a list shows of a session, by the definition of each figure."""
    ends = [event.data for event in session.events if isinstance(event.data, TurnEnd)]
    starts = [event for event in session.events if isinstance(event.data, TurnStart)]
    end_seqs = [event.seq for event in session.events if isinstance(event.data, TurnEnd)]
    end = reason_text(ends[-1].reason).split(":")[0].split(" ")[0] if ends else ""
    if starts and (not end_seqs or starts[-1].seq > end_seqs[-1]):
        end = "open"
    titles = [json.loads(event.raw)["title"] for event in session.events if event.type == "session/title"]
    prompts = [
        " ".join(event.data.message.text.split())[:200]
        for event in session.events
        if isinstance(event.data, UserMessage) and not isinstance(event.data.message.source, PluginSource)
    ]
    billed = usage(session)
    cost = billed.tally(PriceTable.load()).cost
    used = by(billed.charges, lambda charge: (charge.provider, charge.model))
    return {
        "events": len(session),
        "turns": len(starts),
        "failed": sum(isinstance(one.reason, Errored) for one in ends),
        "end": end,
        "title": titles[-1] if titles else "",
        "prompt": next((prompt for prompt in prompts if prompt), ""),
        "tokens": [(*route, sums.requests, sums.unreported, *sums.tokens) for route, sums in sorted(used.items())],
        "cost": (cost.pico_usd, cost.priced, cost.unpriced, cost.exact),
    }


def call_rows(session: StoredSession) -> list[tuple[Any, ...]]:
    found = []
    for call in calls(session, as_stored=True):
        begun = call.started or call.asked or call.result
        assert begun is not None
        found.append((call.id, call.name, call.turn, call.step, begun.seq, call.result.seq if call.result else None))
    return sorted(found, key=lambda row: row[4])


def citations(session: StoredSession) -> set[tuple[int, int]]:
    return {(cited, event.seq) for event in session.events for cited in event.sources or ()}


def found_by(root: Path, query: str) -> list[tuple[str, int]]:
    """Where a text is, in any case, whatever white space lies between its words."""
    pattern = re.compile(r"\s+".join(map(re.escape, query.split())), re.IGNORECASE)
    return list(_found(root, lambda text: pattern.search(text) is not None))


def found_by_pattern(root: Path, pattern: str) -> list[tuple[str, int]]:
    return list(_found(root, lambda text: re.search(pattern, text) is not None))


def _found(root: Path, matches: Any) -> Iterator[tuple[str, int]]:
    for entry in list_sessions([root]):
        session = opened(entry.path)
        for event in session.events if session is not None else ():
            text = event_text(event)
            if text and matches(text):
                yield entry.id, event.seq
