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

    # -- calls --------------------------------------------------------------------------------------------------

    def lives(self, *, live: bool) -> list[Line]:
        """Every call: what its step has of its id, the k-th block with the k-th start and the k-th result."""
        found: dict[tuple[int, str, int], Line] = {}
        for line in self.log:
            for key in self.keys(line["seq"]):
                found.setdefault(key, {"id": key[1], "first": line["seq"]})[line["type"]] = line["seq"]
        lives = list(found.values())
        for life in lives:
            asked, result = life.get("assistant/message"), life.get("tool/result")
            life["chunks"] = [] if asked is None else self.arguments(asked, life["id"])
            life["state"] = self.state(life, live=live)
            life["chain"] = [] if result is None else self.chain(result)
            life["cited_by"] = self.citing({life[kind] for kind in ("tool/call", "tool/result") if kind in life}
                                           | set(life["chain"]))  # fmt: skip
            life["approvals"] = []
        for seq, id in self.questions().items():
            mine = [life for life in lives if life["id"] == id]
            if mine:
                self.owner(mine, seq)["approvals"].append(seq)
        return lives

    def owner(self, lives: list[Line], seq: int) -> Line:
        """Which of the calls with one id an event names: the last that had begun, else the first."""
        begun = {life.get("tool/call", life["first"]): life for life in lives}
        before = [one for one in begun if one < seq]
        return begun[max(before)] if before else min(lives, key=lambda life: int(life["first"]))

    def citing(self, own: set[int]) -> list[int]:
        """What cites some of these events and is none of them."""
        cites = {line["seq"]: set(line.get("sourceEventSeqs") or ()) for line in self.log}
        return [seq for seq, cited in cites.items() if seq not in own and own & cited]

    def state(self, life: Line, *, live: bool) -> str:
        if "tool/result" in life:
            data = self.log[life["tool/result"]]["data"]
            return "failed" if "error" in data or data["message"]["content"][0].get("isError") else "done"
        return "interrupted" if not live else "running" if "tool/call" in life else "asked"

    def chain(self, seq: int) -> list[int]:
        """What took the place of an event, and of that, …"""
        above = self.replaced_by.get(seq)
        return [] if above is None else [above, *self.chain(above)]

    def questions(self) -> dict[int, str]:
        """Which call id every question to a person is about, and every answer: that of the oldest open question."""
        about: dict[int, str] = {}
        waiting: list[tuple[str, str]] = []
        for line in self.log:
            if line["type"] == "approval/asked":
                waiting.append((line["data"]["id"], line["data"]["callId"]))
                about[line["seq"]] = line["data"]["callId"]
            elif line["type"] == "approval/decided":
                answered = [one for one in waiting if one[0] == line["data"]["id"]]
                if answered:
                    waiting.remove(answered[0])
                    about[line["seq"]] = answered[0][1]
        return about

    def arguments(self, answer: int, id: str) -> list[int]:
        """The deltas of the one block with this id: those of the first index whose deltas have it; where no delta says
        any id, those of the block's own rank."""
        streams: dict[int, list[int]] = {}
        ids: dict[int, str] = {}
        for seq in self.settled(answer):
            chunk = self.log[seq]["data"]["chunk"]
            if chunk["type"] == "tool-call-delta":
                streams.setdefault(chunk["index"], []).append(seq)
                ids[chunk["index"]] = ids.get(chunk["index"]) or chunk["id"]
        indexes = sorted(streams)
        named = [index for index in indexes if ids[index] == id]
        rank = 0
        if not any(ids.values()):
            named, rank = indexes, self.about(self.log[answer]).index(id)
        return streams[named[rank]] if rank < len(named) else []

    def settled(self, answer: int) -> list[int]:
        """The chunks of the attempt that an answer settles: since the attempt before it was over, and cited by the
        answer where it cites at all."""
        stream: list[int] = []
        finish: str | None = None
        for line in self.log[self.step_of(answer) : answer]:
            if line["type"] == "llm/retry" or self.is_answer(line):
                stream, finish = [], None
            elif line["type"] == "assistant/chunk":
                chunk = line["data"]["chunk"]
                if finish is not None and (chunk["type"] != "usage" or finish == "error"):
                    stream, finish = [], None
                stream.append(line["seq"])
                finish = chunk["reason"]["kind"] if chunk["type"] == "finish" else finish
        cited = self.log[answer].get("sourceEventSeqs")
        return [seq for seq in stream if cited is None or seq in cited]

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
