"""Verifying a stored log: every rule, every finding, nothing stops at the first.

Reading finds damage (``read_log``, forensic). On top of it come the rules that strict reading leaves alone: shapes,
the nesting of turns, steps and calls, repeated keys and unportable numbers, and whether the messages a model would
get are well formed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from turnlog.events import (
    ApprovalAsked,
    AssistantChunk,
    Message,
    ToolCallBlock,
    ToolResultBlock,
    UndecodablePayload,
    Vocabulary,
)
from turnlog.events.lossless import MAX_SAFE
from turnlog.events.shapes import first_fault
from turnlog.log import Grammar, Replace
from turnlog.log.rows import PackedRun

from .collecting import no_collection
from .errors import LogRefused
from .finding import Finding, Place, Severity
from .formats import SAMPLE
from .liveness import liveness
from .load import StoredSession, locate, stored_session
from .proven import NOTHING, Proof, prove
from .read import ReadLog, read_log
from .rules import format_faults
from .source import Block, Source

Verdict: TypeAlias = Literal["ok", "faults", "torn", "refused"]
"""The worst that was found: nothing but notes, faults, an unfinished tail, or something that strict readers refuse."""


@dataclass(frozen=True)
class Report:
    """What verifying a log found."""

    path: Path | None
    findings: tuple[Finding, ...]
    """What reading found, then the text, the rules of the log, and the messages; each in file order."""
    session: StoredSession | None
    """The log, read forensically; None when not even a header is readable."""
    proof: Proof = NOTHING
    """How far the log is proven by the seals beside it."""

    @property
    def verdict(self) -> Verdict:
        """The worst finding."""
        severities = {finding.severity for finding in self.findings}
        if "refused" in severities:
            return "refused"
        if self.session is not None and self.session.torn is not None:
            return "torn"
        return "faults" if "fault" in severities else "ok"

    @property
    def ok(self) -> bool:
        """Whether there is nothing but notes."""
        return self.verdict == "ok"

    @property
    def id(self) -> str | None:
        """The session's id, if its header is readable."""
        return None if self.session is None else self.session.id

    @property
    def format(self) -> str | None:
        """``format 0`` … ``format 4`` or ``sample``."""
        return None if self.session is None else self.session.format

    @property
    def events(self) -> int:
        """How many events are part of the log."""
        return 0 if self.session is None else sum(1 for _event in _counted(self.session))


def verify(source: str | Path | bytes, *, vocabulary: Vocabulary = Vocabulary.core, name: str | None = None) -> Report:
    """Read a log forensically and check every rule. Only raises for a path that does not exist or cannot be opened."""
    path = None if isinstance(source, bytes) else locate(Path(source))
    data = source if isinstance(source, bytes) else path
    assert data is not None
    opened = Source(data, name=name, forensic=True)
    text = _TextRules(opened)
    try:
        log = read_log(opened, vocabulary=vocabulary, forensic=True, watch=text.block, foreign=True)
    except LogRefused as error:
        found = [one for one in opened.findings if one != error.finding]
        return Report(path, (error.finding, *found), None)
    told = {one.place.line for one in log.findings}
    torn = None if log.torn is None else log.torn.offset
    new = [
        one
        for one in text.findings
        if one.code != "layout" or (one.place.line not in told and one.place.offset != torn)
    ]
    with no_collection():
        found = [*log.findings, *new, *_log_rules(log, opened.name)]
    session = stored_session(log, vocabulary, path, "unknown" if path is None else liveness(path))
    found += _history_rules(session, opened.name)
    proof = prove(session, path) if path is not None else NOTHING
    if proof.state in ("altered", "shorter"):
        found.append(
            Finding(code=proof.state, severity="fault", text=f"{proof}.", place=Place(path=opened.name), seq=proof.at)
        )
    for one in proof.unproven:
        saying = (
            f"what the model was shown at t{one.turn}.s{one.step}.a{one.attempt} is not what the log says now: "
            f"{one.messages} messages were attested when it had {one.seq} events."
        )
        found.append(
            Finding(code="unproven", severity="fault", text=saying, place=Place(path=opened.name), seq=one.seq)
        )
    return Report(path, tuple(found), session, proof)


def _counted(session: StoredSession) -> Iterator[object]:
    return iter(session.events)


# -- text -------------------------------------------------------------------------------------------------------


class _TextRules:
    """Repeated keys and numbers that other readers cannot hold, found in the text as it is read.

    A block that decodes and encodes to the same bytes has neither; only one that does not is looked at line by line.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.findings: list[Finding] = []
        self._decoder = msgspec.json.Decoder()
        self._encoder = msgspec.json.Encoder()

    def block(self, block: Block) -> None:
        """Check one block."""
        if self._same(block.text, lines=True) and not _has_big_numbers(block.text):
            return
        for line, offset, text in block.numbered():
            if text.strip() and not (self._same(text, lines=False) and not _has_big_numbers(text)):
                self._line(text, block.place(self._source.name, line, offset))

    def _same(self, text: bytes, *, lines: bool) -> bool:
        try:
            if lines:
                return self._encoder.encode_lines(self._decoder.decode_lines(text)) == text
            return self._encoder.encode(self._decoder.decode(text)) == text
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return False

    def _line(self, text: bytes, place: Place) -> None:
        repeated: list[str] = []
        numbers: list[str] = []

        def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
            seen: set[str] = set()
            repeated.extend(key for key, _value in members if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            return dict(members)

        def integer(digits: str) -> int:
            if len(digits) > 15 and (len(digits) > 17 or abs(int(digits)) > MAX_SAFE):
                numbers.append(digits)
                return 0
            return int(digits)

        def real(digits: str) -> float:
            value = float(digits)
            if value in (float("inf"), float("-inf")):
                numbers.append(digits)
            return value

        try:
            value = json.loads(text, object_pairs_hook=pairs, parse_int=integer, parse_float=real)
        except (ValueError, RecursionError):
            self._find("layout", "the line is not one record; dsh reads one record per line.", "fault", place, None)
            return
        seq = value.get("seq", value.get("seq0")) if isinstance(value, dict) else None
        seq = seq if type(seq) is int else None
        if repeated:
            self._find(
                "repeated-key",
                f"the key {repeated[0]!r} is there twice in one object; readers disagree on which "
                "value counts, and the last one is taken here.",
                "fault",
                place,
                seq,
            )
        for digits in numbers[:1]:
            shown = digits if len(digits) <= 24 else f"{digits[:10]}… ({len(digits)} digits)"
            self._find(
                "big-number",
                f"the number {shown} is beyond what other readers hold exactly; its text is kept.",
                "note",
                place,
                seq,
            )

    def _find(self, code: str, text: str, severity: Severity, place: Place, seq: int | None) -> None:
        self.findings.append(Finding(code=code, severity=severity, text=text, place=place, seq=seq))


_DIGITS: Final = bytes(0x30 if 0x30 <= code <= 0x39 else 0x20 for code in range(256))
_MANY: Final = b"0" * 16


def _has_big_numbers(text: bytes) -> bool:
    """Whether *text* may hold a number beyond 2**53, that is 16 digits in a row; only ever errs towards yes."""
    return _MANY in text.translate(_DIGITS)


# -- log --------------------------------------------------------------------------------------------------------


def _log_rules(log: ReadLog, name: str | None) -> Iterator[Finding]:
    """Shapes and nesting, over the events in order."""
    grammar = Grammar()
    place = Place(path=name)

    def found(code: str, seq: int, text: str) -> Finding:
        return Finding(code=code, severity="fault", text=text, place=place, seq=seq)

    shaped = log.format is not SAMPLE  # the sample's shapes are simplified on purpose
    for row in log.rows.rows:
        if isinstance(row, PackedRun):
            data = row.unpack()
            fault = grammar.position_fault(data.turn, data.step)
            if fault is not None:
                yield found("grammar", row.seq0, f"{row.type} @{row.seq0}: {fault}.")
            if row.type == "tool-call-chunks" and not data.id:
                yield found("shape", row.seq0, f"{row.type} @{row.seq0}: $.data.id: a call id may not be empty.")
            continue
        payload = row._codec.payload(row.type, row._raw, row.seq)
        kind = type(payload)
        if kind is AssistantChunk and first_fault(payload) is None and grammar.fault(payload) is None:
            continue  # most of a log
        if isinstance(payload, UndecodablePayload):
            yield found("undecodable", row.seq, f"{row.type} @{row.seq} does not have its shape: {payload.reason}.")
            continue
        for fault in format_faults(log.format, row, payload) if shaped else ():
            yield found("shape", row.seq, f"{row.type} @{row.seq}: {fault}.")
        replaces = isinstance(row.surface_op, Replace)
        fault = grammar.fault(payload, replaces=replaces)
        if fault is not None:
            yield found("grammar", row.seq, f"{row.type} @{row.seq}: {fault}.")
        grammar.advance(payload, replaces=replaces)
    if not log.rows.length:
        yield Finding(code="empty", severity="note", text="the log holds no events.", place=place)
    if grammar.turn:
        yield Finding(
            code="open-turn",
            severity="note",
            place=place,
            seq=log.rows.length - 1,
            text=f"{grammar.where()} at the end: its writer is still at work, or was interrupted.",
        )


# -- messages ---------------------------------------------------------------------------------------------------


def _history_rules(session: StoredSession, name: str | None) -> Iterator[Finding]:
    """Whether the messages a model would get now are what providers accept, and ids are what they seem."""
    place = Place(path=name)
    waiting: dict[str, int] = {}
    known: dict[str, int] = {}
    for event in session.message_events(as_stored=True):
        message = event.message
        assert message is not None
        for text in _pairing(message, waiting, event.seq):
            yield Finding(code="history", severity="fault", text=text, place=place, seq=event.seq)
        if message.id in known and message.id:
            yield Finding(
                code="repeated-message-id",
                severity="note",
                place=place,
                seq=event.seq,
                text=(
                    f"message id {message.id!r} @{event.seq} is also that of @{known[message.id]}; address messages by "
                    "seq."
                ),
            )
        known.setdefault(message.id, event.seq)
    asked: dict[object, int] = {}
    for asking in session.select(ApprovalAsked):
        question = asking.data.value.get("id") if isinstance(asking.data.value, Mapping) else None
        if question in asked:
            yield Finding(
                code="repeated-approval-id",
                severity="fault",
                place=place,
                seq=asking.seq,
                text=(
                    f"approval id {question!r} @{asking.seq} is also that of @{asked[question]}; an answer could go to "
                    "either."
                ),
            )
        asked.setdefault(question, asking.seq)


def _pairing(message: Message, waiting: dict[str, int], seq: int) -> Iterator[str]:
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    for block in results:
        left = waiting.pop(block.tool_call_id, 0) - 1
        if left < 0:
            yield f"the result of call {block.tool_call_id!r} @{seq} has no call before it in the model's history."
        elif left:
            waiting[block.tool_call_id] = left
    if results:
        return
    if waiting and message.role in ("user", "assistant"):
        calls = ", ".join(sorted(map(repr, waiting)))
        yield f"the {message.role} message @{seq} stands between a call and its result ({calls})."
        if message.role == "assistant":
            waiting.clear()
    for call in message.content:
        if isinstance(call, ToolCallBlock):
            waiting[call.id] = waiting.get(call.id, 0) + 1
