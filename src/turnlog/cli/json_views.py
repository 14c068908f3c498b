"""What ``--json`` prints: views with RFC 3339 ``…At`` members, stored records as they are on the wire.

A view says ``firstSeq`` and ``lastSeq`` where it spans events, ``…At`` for moments, ``…Ms`` for durations. Wire records
have what their log line has, ``time`` in epoch ms and all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from turnlog.events.lenient import parse
from turnlog.events.lossless import dump, plain
from turnlog.log import AnyEvent, Session
from turnlog.log.event import ReplaceSeqs
from turnlog.store.header import header_line
from turnlog.views.rows import SeqRange, seq_ranges

from .text import rfc3339

if TYPE_CHECKING:
    from turnlog.views import Attempt, Call, TimedChunk
    from turnlog.views.provenance import Provenance
    from turnlog.views.queries import TurnEvents

SCHEMA: Final = 1
"""``schemaVersion`` of every document; goes up when a member changes its meaning or goes away."""


def document(**members: object) -> dict[str, object]:
    """A JSON document."""
    return {"schemaVersion": SCHEMA, **members}


def wire(event: AnyEvent) -> Raw:
    """An event as its log line."""
    return Raw(wire_line(event))


def wire_line(event: AnyEvent) -> bytes:
    """An event as a log line of its own format."""
    line = event.line()
    operation = event.surface_op
    if not isinstance(operation, ReplaceSeqs):
        return line
    as_format_0 = b',"surfaceOp":{"op":"replace","start":%d,"end":%d}' % (operation.start, operation.end)
    head, _replaced, tail = line.rpartition(as_format_0)
    return head + b',"surfaceOp":' + dump(operation) + tail


def header_line_of(session: Session) -> bytes | None:
    """The header as the first line of a log of its own format; None where the log has none."""
    version = session.header.version
    lost = any(finding.code == "no-header" for finding in getattr(session, "findings", ()))
    if version < 0 or lost:
        return None
    line = header_line(session.header)
    if version < 2:
        return line
    members = {name: value for name, value in parse(line).items() if name != "seedLength"}
    return dump({**members, "isSeeded": session.header.seed_length is not None})


def ranges_view(ranges: Iterable[SeqRange]) -> list[dict[str, int]]:
    """Which events there are, or are not."""
    return [{"firstSeq": one.first, "lastSeq": one.last} for one in ranges]


def wires(events: Iterable[AnyEvent]) -> list[Raw]:
    """Events as their log lines."""
    return [wire(event) for event in events]


def session_view(session: Session) -> dict[str, Any]:
    """What a session is."""
    path = getattr(session, "path", None)
    return {
        "id": session.id,
        "format": getattr(session, "format", None),
        "path": None if path is None else str(path),
        "liveness": getattr(session, "liveness", None),
        "events": sum(one.size for one in seq_ranges(session)),
        "createdAt": rfc3339(session.header.created_at),
        "cwd": session.header.cwd,
    }


def turn_view(found: TurnEvents) -> dict[str, Any]:
    """A turn with all its events."""
    return {
        "turn": found.turn,
        "address": found.span.address,
        "state": found.state,
        "firstSeq": found.span.first,
        "lastSeq": found.span.stop - 1,
        "startedAt": rfc3339(found.started),
        "endedAt": None if found.state == "running" else rfc3339(found.ended),
        "durationMs": max(found.ended - found.started, 0),
        "reason": None if found.reason is None else plain(found.reason),
        "steps": [
            {"step": step.step, "address": step.address, "firstSeq": step.first, "lastSeq": step.stop - 1}
            for step in found.steps
        ],
        "events": wires(found.events),
        "closers": wires(found.closers),
    }


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    """An attempt without its words."""
    event = attempt.event
    return {
        "address": attempt.address,
        "attempt": attempt.number,
        "outcome": attempt.outcome,
        "synthetic": attempt.synthetic,
        "seq": None if event is None else event.seq,
        "startedAt": rfc3339(attempt.started),
        "firstTokenMs": attempt.first_token_ms,
        "durationMs": attempt.duration_ms,
        "usage": None if attempt.usage is None else plain(attempt.usage),
        "failure": None if attempt.failure is None else plain(attempt.failure),
    }


def call_view(call: Call) -> dict[str, Any]:
    """The life of a call."""
    return {
        "callId": call.id,
        "address": call.address,
        "occurrence": call.occurrence,
        "turn": call.turn,
        "step": call.step,
        "name": call.name,
        "arguments": call.arguments,
        "state": call.state,
        "durationMs": call.duration_ms,
        "askedBy": None if call.asked is None else call.asked.seq,
        "chunks": [chunk_view(timed) for timed in call.chunks],
        "call": None if call.started is None else wire(call.started),
        "approvals": wires(call.approvals),
        "result": None if call.result is None else wire(call.result),
        "synthetic": call.synthetic,
        "others": wires(call.others),
        "replacedBy": call.replaced_by,
        "citedBy": call.cited_by,
    }


def chunk_view(timed: TimedChunk) -> dict[str, Any]:
    """A chunk with its time and address."""
    return {"address": timed.address, "loggedAt": rfc3339(timed.time), "chunk": plain(timed.chunk)}


def provenance_view(address: str, found: Provenance) -> dict[str, Any]:
    """What an event rests on, and what rests on it."""
    seq = found.event.seq
    stream = {"insideSeq": seq, "chunks": found.stream, "first": f"@{seq}/0", "last": f"@{seq}/{found.stream - 1}"}
    return {
        "address": address,
        "seq": seq,
        "type": found.event.type,
        "loggedAt": rfc3339(found.event.time),
        "chunk": None if found.chunk is None else chunk_view(found.chunk),
        "stream": stream if found.stream else None,
        "sources": found.sources,
        "back": [
            {"firstSeq": one.first, "lastSeq": one.last, "type": one.type, "depth": one.depth} for one in found.back
        ],
        "citedBy": found.cited_by,
        "replaces": found.replaces,
        "replacedBy": found.replaced_by,
    }
