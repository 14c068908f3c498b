"""Random logs for the views, and what they mean, computed naively: plain JSON, from the beginning, every time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from tests.log import reference
from tests.log.reference import Line
from tests.log.sessions import chunk
from tests.log.strategies import IDS, Writer
from turnlog.events import ApprovalAsked, ApprovalDecided, TextDelta
from turnlog.log import Session
from turnlog.store import StoredSession, load
from turnlog.store.encode import lines_of
from turnlog.store.header import header_line

RETRIES: Final = ("llm/retry", "llm/retry-started")


class ViewWriter(Writer):
    """Random logs that also hold runs of deltas, and questions about calls."""

    def _act(self, choice: int) -> None:
        at = self.nesting
        if at.step is not None and at.turn is not None and choice % 11 == 5:
            for _ in range(2 + self._next(4)):
                self._append(chunk(TextDelta(0, "x"), turn=at.turn, step=at.step))
        elif choice % 13 == 7:
            question = {"id": self._pick(("q1", "q2")), "callId": self._pick(IDS), "toolName": "read"}
            self._append(ApprovalAsked(value=question))
        elif choice % 13 == 8:
            self._append(ApprovalDecided(value={"id": self._pick(("q1", "q2")), "outcome": "approve"}))
        else:
            super()._act(choice)


def random_log(tape: bytes) -> Session:
    """The session that a tape says, still open for writing."""
    return ViewWriter(tape, forks=True).write()


def as_stored(session: Session, gaps: Sequence[int] = (1,), *, packed: bool = True) -> StoredSession:
    """The same log read from a file; its writer is gone, and its times go by *gaps*, over and over."""
    time = 1000
    lines = []
    for seq, event in enumerate(session.events):
        time += gaps[seq % len(gaps)]
        lines.append(json.dumps({**json.loads(event.line()), "time": time}).encode())
    plain = load(_file(session, lines), vocabulary=session.vocabulary)
    return load(_file(session, lines_of(plain.events)), vocabulary=session.vocabulary) if packed else plain


def _file(session: Session, lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in (header_line(session.header), *lines))


class Cause(NamedTuple):
    kind: str
    inferred: bool


class Naive:
    """A log as plain JSON, and what follows from it."""

    def __init__(self, session: Session) -> None:
        self.log: Final = reference.read(event.line() for event in session.events)
        self.replaced_by: Final = reference.replaced_by(self.log)

    # -- what stands where --------------------------------------------------------------------------------------

    def is_answer(self, line: Line) -> bool:
        return line["type"] == "assistant/message" and line["surfaceOp"] == "append"

    def point(self, seq: int) -> int:
        """The request that a chunk or answer belongs to: the first of its kind since the last border."""
        borders = [-1]
        for line in self.log[:seq]:
            if line["type"] in ("step/start", *RETRIES) or self.is_answer(line):
                borders.append(line["seq"])
        for line in self.log[borders[-1] + 1 :]:
            if line["type"] == "assistant/chunk" or self.is_answer(line):
                found: int = line["seq"]
                return found
        raise AssertionError(f"@{seq} is neither chunk nor answer")

    def step_of(self, seq: int) -> int:
        """Where the step that an event lies in began."""
        return max((line["seq"] for line in self.log[: seq + 1] if line["type"] == "step/start"), default=-1)

    def about(self, line: Line) -> list[str]:
        data = line["data"]
        if isinstance(line.get("surfaceOp"), dict):
            return []
        match line["type"]:
            case "assistant/message":
                return [block["id"] for block in data["message"]["content"] if block["type"] == "tool-call"]
            case "tool/call":
                return [data["callId"]]
            case "tool/result":
                return [data["message"]["source"]["callId"]]
            case _:
                return []

    def keys(self, seq: int) -> list[tuple[int, str, int]]:
        """Which calls an event is about: its step, the id, and which call with that id it is."""
        line = self.log[seq]
        found = []
        for place, id in enumerate(self.about(line)):
            before = [
                other
                for one in self.log[:seq]
                if one["type"] == line["type"] and self.step_of(one["seq"]) == self.step_of(seq)
                for other in self.about(one)
            ]
            found.append((self.step_of(seq), id, before.count(id) + self.about(line)[:place].count(id)))
        return found

    def joined(self, seq: int, type: str) -> list[int]:
        mine = set(self.keys(seq))
        others = [line["seq"] for line in self.log if line["type"] == type]
        return [other for other in others if mine & set(self.keys(other))]

    # -- provenance ---------------------------------------------------------------------------------------------

    def causes(self, seq: int) -> dict[int, Cause]:
        line = self.log[seq]
        sources = line.get("sourceEventSeqs")
        found = {
            one: Cause("replaces" if self.replaced_by.get(one) == seq else "cites", False) for one in sources or ()
        }
        if self.is_answer(line) and sources is None:
            first = self.point(seq)
            between = [one["seq"] for one in self.log[first:seq] if one["type"] == "assistant/chunk"]
            found |= {one: Cause("stream", True) for one in between if self.step_of(one) == self.step_of(seq)}
        if line["type"] == "tool/result":
            found |= {one: Cause("call", True) for one in self.joined(seq, "tool/call") if one not in found}
        if line["type"] == "tool/call":
            found |= {one: Cause("asked", True) for one in self.joined(seq, "assistant/message")}
        return found

    def all_causes(self) -> dict[int, dict[int, Cause]]:
        return {seq: self.causes(seq) for seq in range(len(self.log))}

    def points(self) -> list[int]:
        """Every request point."""
        answers = [line for line in self.log if line["type"] == "assistant/chunk" or self.is_answer(line)]
        return sorted({self.point(line["seq"]) for line in answers})

    def ids(self, seqs: Sequence[int]) -> list[Any]:
        return [reference.message(self.log[seq])["id"] for seq in seqs]  # type: ignore[index]

    # -- structure ----------------------------------------------------------------------------------------------

    def spans(self, kind: str, first: int = 0, stop: int | None = None) -> Iterator[tuple[int, int, bool]]:
        """First, stop and whether it ended, of every turn or step from *first* up to *stop*."""
        end = len(self.log) if stop is None else stop
        begun: int | None = None
        for seq in range(first, end):
            if self.log[seq]["type"] == f"{kind}/start":
                if begun is not None:
                    yield begun, seq, False
                begun = seq
            elif self.log[seq]["type"] == f"{kind}/end" and begun is not None:
                yield begun, seq + 1, True
                begun = None
        if begun is not None:
            yield begun, end, False


def depths(ties: dict[int, dict[int, Cause]], start: int) -> dict[int, int]:
    """How far everything is that can be reached from *start*."""
    found = {start: 0}
    level = [start]
    while level:
        fresh = {one: found[seq] + 1 for seq in level for one in ties.get(seq, {}) if one not in found}
        found |= fresh
        level = list(fresh)
    return {seq: depth for seq, depth in found.items() if seq != start}


def turned(ties: dict[int, dict[int, Cause]]) -> dict[int, dict[int, Cause]]:
    """The same ties, seen from the other end."""
    found: dict[int, dict[int, Cause]] = {}
    for seq, causes in ties.items():
        for one, cause in causes.items():
            found.setdefault(one, {})[seq] = cause
    return found
