"""Reading a log for the index: from the front, or from the end of its last whole turn on.

What the tables hold of a session is keyed by seq, so that going on from a :class:`Mark` is deleting what lies after it
and adding what the log now has there. Attempts and calls are what :mod:`turnlog.views` says they are: the views are
asked about the same log with the words of its streams left out, which neither of them looks at.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from turnlog.events import (
    AssistantMessage,
    Errored,
    Opaque,
    OpaquePayload,
    RequestHeader,
    TurnEnd,
    TurnStart,
    UserMessage,
    Vocabulary,
)
from turnlog.events.lenient import convert, parse
from turnlog.events.lossless import dump
from turnlog.events.message import ModelSource, PluginSource
from turnlog.log import AnyEvent, Session, SessionHeader
from turnlog.log.rows import RUN_TYPES, PackedRun, Row, Rows
from turnlog.log.surface import Surface
from turnlog.store import LogRefused, StoredSession, load
from turnlog.store.bulk import Bulk
from turnlog.store.classes import line_classes
from turnlog.store.discover import SessionEntry, entry_at
from turnlog.store.formats import FORMATS
from turnlog.store.frames import MAGIC, SKIPPABLE, Decompressor, walk_frames
from turnlog.store.source import Source
from turnlog.views.call import Call
from turnlog.views.calls import calls
from turnlog.views.index import runs_of
from turnlog.views.prices import PriceTable
from turnlog.views.rows import last_time
from turnlog.views.streams import chunk_kind
from turnlog.views.usage import usage

from .costs import charge_row, with_charges
from .places import LOCK, is_log_name, session_files
from .record import Mark, Record, Rest
from .tally import Totals
from .walk import identity_of

_SLAB: Final = 4 << 20
"""Bytes hashed at once."""
_FRAMES_BACK: Final = 512
"""How many frames at the end of a compressed log are looked at for one that ends with a turn."""
_LINES_BACK: Final = 64
"""How often the words that end a turn may stand at the end of a log elsewhere than in the end of a turn."""
_PROMPT: Final = 200
"""Characters of the first prompt that serve as a title."""
_LISTED: Final = 10
_KEPT_CHUNKS: Final = frozenset({"usage", "finish"})


@dataclass
class Facts:
    """What was read of one session directory."""

    record: Record
    rest: Rest = field(default_factory=Rest)
    since: int = 0
    """What the tables hold of the session from this seq on is replaced."""
    turns: list[tuple[Any, ...]] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    sources: list[tuple[Any, ...]] = field(default_factory=list)
    usage: list[tuple[Any, ...]] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """How many calls there are so far that begin with an event: one answer may ask for several that never start."""
    only_checked: bool = False
    """The log is what it was: only when it was looked at is new."""


def read_facts(directory: Path, prices: PriceTable, known: tuple[Record, Rest] | None = None) -> Facts:
    """Read what is new in a session directory since *known*. Never raises for what is in it."""
    checked = time.time_ns()
    try:
        status = directory.stat()
        names = os.listdir(directory)
    except OSError:
        status, names = None, []
    told = Record(0, 0, checked) if status is None else Record(status.st_mtime_ns, status.st_ino, checked)
    files = session_files(names)
    told = told._replace(locked=LOCK in names)
    if not files:
        return Facts(_skipped(told, directory, names))
    path = directory / files[-1]
    try:
        told = told._replace(file=files[-1], identity=identity_of(str(path)))
    except OSError:
        told = told._replace(file=files[-1])
    entry = entry_at(directory)
    if entry is None:  # gone meanwhile
        return Facts(told._replace(file=""))
    told, header = _introduced(told, entry)
    if known is not None and known[0].file == told.file and known[1].header == header:
        found = _unchanged(path, told, *known) or _continued(path, told, *known, prices)
        if found is not None:
            return found
    return _whole(path, told, header, prices)


def _skipped(told: Record, directory: Path, names: list[str]) -> Record:
    others = sorted(name for name in names if is_log_name(name) and (directory / name).is_file())
    if not others:
        return told
    reason = f"no file in it has a name that session files have (there is {', '.join(others[:_LISTED])})"
    try:
        modified = (directory / others[0]).stat().st_mtime_ns // 1_000_000
    except OSError:
        modified = 0
    return told._replace(skipped=reason, skipped_ms=modified)


def _introduced(told: Record, entry: SessionEntry) -> tuple[Record, bytes]:
    """The record with what the header and the names say, and the header as JSON."""
    header = entry.header
    told = told._replace(id=entry.id, version=entry.version, problem=entry.problem or "", trouble=entry.trouble or "",
                         created_ms=entry.created_ms)  # fmt: skip
    if header is None:
        return told, b""
    return told._replace(headed=True, cwd=header.cwd, parent=header.parent_session), dump(header)


# -- three ways to read -----------------------------------------------------------------------------------------------


def _unchanged(path: Path, told: Record, known: Record, rest: Rest) -> Facts | None:
    """The file's bytes are what they were, whatever its times say."""
    if not known.run or told.identity.size != known.identity.size:
        return None
    try:
        with path.open("rb") as file:
            if _digests(file, told.identity.size, told.identity.size)[1] != rest.digest:
                return None
    except OSError:
        return None
    fresh = known._replace(directory_ns=told.directory_ns, directory_inode=told.directory_inode,
                           checked_ns=told.checked_ns, identity=told.identity, locked=told.locked, id=told.id,
                           version=told.version, problem=told.problem, trouble=told.trouble,
                           created_ms=told.created_ms)  # fmt: skip
    return Facts(fresh, rest, only_checked=True)


def _continued(path: Path, told: Record, known: Record, rest: Rest, prices: PriceTable) -> Facts | None:
    """The log as it goes on after the mark, or None where it has to be read from the front."""
    mark = rest.mark
    if (
        mark is None
        or not known.sound
        or told.identity.size < mark.offset
        or told.identity.inode != known.identity.inode
    ):
        return None
    try:
        with path.open("rb") as file:
            hasher = hashlib.sha256()
            _feed(hasher, file, mark.offset)
            if hasher.digest() != mark.digest:
                return None
            tail = file.read()
    except OSError:
        return None
    hasher.update(tail[: max(told.identity.size - mark.offset, 0)])
    header = replace(convert(SessionHeader, parse(rest.header)), seed_length=known.seed or None)
    rows = _rows_of_tail(tail, mark, header, known)
    if rows is None:
        return None
    record = told._replace(sound=True, compressed=known.compressed, seed=known.seed, run=known.run)
    facts = Facts(record, rest._replace(digest=hasher.digest()), since=mark.seq)
    before, after = _fold(facts, _session(header, rows), mark.totals, prices)
    facts.record = record._replace(totals=after)
    return facts if before is None else _marked(facts, path, before)


def _rows_of_tail(tail: bytes, mark: Mark, header: SessionHeader, known: Record) -> Rows | None:
    """The events after the mark; None at any doubt, for the whole log is then read by what says why."""
    classes = line_classes(FORMATS[header.version], Vocabulary.core, header.id)
    bulk, rows = Bulk(classes), Rows(classes.kind, mark.seq)
    source = Source(tail, name="tail")
    for block in source.blocks():
        if not block.text:
            continue
        taken = bulk.take(block, rows.length)
        if (
            taken is None
            or source.compressed != known.compressed
            or source.torn is not None
            or _ranged(taken.surfacing)
        ):
            return None
        if taken.starts is None:
            rows.extend(taken.rows)
        else:
            rows.extend_packed(taken.rows, taken.starts, taken.length)
    doubts = [one for one in source.findings if one.code != "frame-layout"]  # its first frame is no header, of course
    return None if doubts or source.torn is not None else rows


def _ranged(events: list[AnyEvent]) -> bool:
    """Whether any of them cites ranges, which only the whole reader checks."""
    return any(b"[" in bytes(event._sources)[1:] for event in events if isinstance(event._sources, Raw))


def _whole(path: Path, told: Record, header: bytes, prices: PriceTable) -> Facts:
    """The log from the front."""
    told = told._replace(run=secrets.randbits(62) + 1)
    rest = Rest(told.run, header)
    try:
        with path.open("rb") as file:
            start = file.read(4)
            rest = rest._replace(digest=_digests(file, told.identity.size, told.identity.size)[1])
        session = _load(path)
    except OSError:
        session = None
    if session is None:
        return Facts(told, rest)
    sound = not session.findings and session.torn is None and session.format != "sample"
    compressed = start == MAGIC or start[1:] == SKIPPABLE
    told = told._replace(sound=sound, compressed=compressed, seed=session.header.seed_length or 0)
    facts = Facts(told, rest)
    asked = _session(session.header, _lean(session.rows)) if sound else session
    before, after = _fold(facts, asked, Totals(), prices)
    facts.record = told._replace(totals=after)
    return _marked(facts, path, before) if sound and before is not None else facts


def _load(path: Path) -> StoredSession | None:
    for forensic in (False, True):
        try:
            session = load(path, forensic=forensic)
        except LogRefused:
            continue
        session.liveness = "gone"
        return session
    return None


# -- folding --------------------------------------------------------------------------------------------------------


def _session(header: SessionHeader, rows: Rows) -> Session:
    """The session of some rows. Whether its writer lives is asked when it is shown; here it counts as gone, so that
    what the index says depends on nothing but the log."""
    session = StoredSession.stored(header, rows, Surface(), vocabulary=Vocabulary.core, read_only="it is being indexed",
                                   closes=True)  # fmt: skip
    assert isinstance(session, StoredSession)
    session.liveness, session.findings = "gone", ()
    return session


class _Place(Struct, frozen=True, gc=False):
    turn: Any = 0
    step: Any = 0


_place: Final = msgspec.json.Decoder(_Place).decode


def _lean(rows: Rows) -> Rows:
    """The same log with each stretch of chunks as one packed row without words; usage and finish stay what they are.

    No stretch reaches over a place where what a message cites begins or ends: that tells attempts apart.
    """
    lean = Rows(rows.kind, rows.base)
    edges = _edges(rows)
    kept: list[Row] = []
    starts: list[int] = []
    run = -1
    for index, row in enumerate(rows.rows):
        if row.type in RUN_TYPES or (row.type == "assistant/chunk" and chunk_kind(row) not in _KEPT_CHUNKS):  # type: ignore[arg-type]
            if run >= 0 and rows.row_start(index) in edges:
                kept.append(_wordless(rows, run, index - 1))
                starts.append(rows.row_start(run))
                run = -1
            if run < 0:
                run = index
            continue
        if run >= 0:
            kept.append(_wordless(rows, run, index - 1))
            starts.append(rows.row_start(run))
            run = -1
        kept.append(row)
        starts.append(rows.row_start(index))
    if run >= 0:
        kept.append(_wordless(rows, run, len(rows.rows) - 1))
        starts.append(rows.row_start(run))
    lean.extend_packed(kept, starts, rows.length)
    return lean


_numbers: Final = msgspec.json.Decoder(tuple[int, ...]).decode


def _cited(event: AnyEvent) -> Iterable[tuple[int, int]]:
    """The runs of seqs that an event cites."""
    stored = event._sources
    if not isinstance(stored, Raw):
        return runs_of(event.sources or ())
    try:
        return runs_of(_numbers(stored))
    except msgspec.MsgspecError:  # ranges, or no list of seqs
        return runs_of(event.sources or ())


def _edges(rows: Rows) -> set[int]:
    """The seqs at which what messages cite begins, or is over."""
    found: set[int] = set()
    for row in rows.rows:
        if row.type == "assistant/message" and not isinstance(row, PackedRun):
            for first, last in _cited(row):
                found.update((first, last + 1))
    return found


def _wordless(rows: Rows, index: int, last: int) -> PackedRun:
    """The rows from *index* to *last* as one, which begins and ends when they do."""
    row = rows.rows[index]
    try:
        place = _place(row.raw)
        turn, step = (one if type(one) is int else 0 for one in (place.turn, place.step))
    except (msgspec.MsgspecError, UnicodeError):
        turn = step = 0
    first, end = _time(row), last_time(rows.rows[last])
    members = b'"dt":[%d],"texts":["",""]' % (end - first) if last > index else b'"dt":[],"texts":[""]'
    raw = b'{"turn":%d,"step":%d,"index":0,%b}' % (turn, step, members)
    return PackedRun("text-chunks", rows.row_start(index), first, Raw(raw))


def _fold(facts: Facts, session: Session, base: Totals, prices: PriceTable) -> tuple[Totals | None, Totals]:
    """Fill the tables of *facts* from *session*. Gives what the log comes to after its last whole turn (None without
    one), and at its end."""
    state = _Fold(base)
    rows = session.rows
    for row in rows.rows:
        if isinstance(row, PackedRun) or row.type == "assistant/chunk":
            continue
        state.read(row)
        facts.sources += [(row.seq, first, last) for first, last in _cited(row)]
    last = rows.rows[-1] if rows.rows else None
    if last is not None:
        state.last_ms = last.time0 if isinstance(last, PackedRun) else last.time
    facts.turns = state.turns
    facts.usage = _charges(session, base)
    for call in calls(session, as_stored=True):
        _fold_call(facts, call)
    cut, end = state.cut, state.totals(rows.length)
    if cut is None:
        return None, with_charges(end, facts.usage, prices)
    before = with_charges(cut, (row for row in facts.usage if row[0] < cut.events), prices)
    later = [row for row in facts.usage if row[0] >= cut.events]
    return before, with_charges(before.spent(end), later, prices)


class _Fold:
    """What a log comes to, event by event."""

    def __init__(self, base: Totals) -> None:
        self._now = base
        self.last_ms = base.last_ms
        self.turns: list[tuple[Any, ...]] = []
        self.cut: Totals | None = None

    def read(self, event: AnyEvent) -> None:
        """Take in one event that is no chunk."""
        self.last_ms = event.time
        match event.type:
            case "turn/start" | "turn/end" | "user/message" | "session/title" | "request/header" | "assistant/message":
                self._told(event)
            case _:
                pass

    def _told(self, event: AnyEvent) -> None:
        now = self._now
        match event.data:
            case TurnStart(turn=turn):
                self.turns.append((event.seq, turn, None, event.time, None, "open"))
                self._now = now._replace(turns=now.turns + 1, end="open")
            case TurnEnd(turn=turn, reason=reason):
                kind = _kind(reason)
                if self.turns and self.turns[-1][1] == turn and self.turns[-1][2] is None:
                    self.turns[-1] = (*self.turns[-1][:2], event.seq, self.turns[-1][3], event.time, kind)
                self._now = now._replace(end=kind, failed=now.failed + isinstance(reason, Errored))
                self.cut = self.totals(event.seq + 1)
            case UserMessage(message=message) if not now.prompt and not isinstance(message.source, PluginSource):
                self._now = now._replace(prompt=" ".join(message.text[: 8 * _PROMPT].split())[:_PROMPT])
            case RequestHeader(header=header):
                asked = (header.config.provider, header.config.model)
                self._now = now._replace(provider=asked[0], model=asked[1], route=asked)
            case AssistantMessage(message=message) if isinstance(message.source, ModelSource):
                self._now = now._replace(provider=message.source.provider, model=message.source.model)
            case OpaquePayload(value=value) if event.type == "session/title":
                title = value.get("title") if isinstance(value, Mapping) else None
                if isinstance(title, str):
                    self._now = now._replace(title=title)
            case _:
                pass

    def totals(self, events: int) -> Totals:
        """Up to now, without tokens."""
        return self._now._replace(events=events, last_ms=self.last_ms)


def _kind(reason: Any) -> str:
    return str(reason.kind) if isinstance(reason, Opaque) else str(reason.__struct_config__.tag)


def _charges(session: Session, base: Totals) -> list[tuple[Any, ...]]:
    """What each request used, as rows. Where the log before the mark said which model is asked, the rest does not."""
    found = []
    for charge in usage(session).charges:
        if charge.kind == "attempt" and not charge.provider and not charge.model:
            charge = charge._replace(provider=base.route[0], model=base.route[1])
        found.append(charge_row(charge))
    return found


def _fold_call(facts: Facts, call: Call) -> None:
    begun = call.started if call.started is not None else call.asked if call.asked is not None else call.result
    if begun is None:
        return
    place = facts.places.get(begun.seq, 0)
    facts.places[begun.seq] = place + 1
    result = None if call.result is None or call.synthetic else call.result.seq
    facts.calls.append((begun.seq, place, call.turn, call.step, call.id, call.name, result))


# -- marks ----------------------------------------------------------------------------------------------------------


def _marked(facts: Facts, path: Path, before: Totals) -> Facts:
    """The same with a mark after the last whole turn, where the file shows that place."""
    try:
        with path.open("rb") as file:
            find = _offset_of_frame if facts.record.compressed else _offset_of_line
            offset = find(file, before.events - 1)
            if offset is not None:
                digest = _digests(file, offset, offset)[1]
                facts.rest = facts.rest._replace(mark=Mark(offset, before.events, digest, before))
    except (OSError, ValueError):
        pass  # without a mark it is read from the front when it changes
    return facts


def _offset_of_line(file: BinaryIO, seq: int) -> int | None:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        stop = len(data)
        for _ in range(_LINES_BACK):
            at = data.rfind(b'"turn/end"', 0, stop)
            if at < 0:
                return None
            begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            if end >= 0 and _ends_turn(data[begin:end], seq):
                return end + 1
            stop = begin
    return None


def _offset_of_frame(file: BinaryIO, seq: int) -> int | None:
    file.seek(0)
    data = file.read()
    view, decompressor = memoryview(data), Decompressor()
    for frame in reversed([one for one in walk_frames(data).frames if not one.skippable][-_FRAMES_BACK:]):
        text = decompressor.whole(view, frame)
        if text.endswith(b"\n") and _ends_turn(text[text.rfind(b"\n", 0, -1) + 1 : -1], seq):
            return frame.end
    return None


class _Envelope(Struct, frozen=True, gc=False):
    type: str = ""
    seq: int = -1


_envelope: Final = msgspec.json.Decoder(_Envelope).decode


def _ends_turn(line: bytes, seq: int) -> bool:
    try:
        found = _envelope(line)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return found.type == "turn/end" and found.seq == seq


# -- files ----------------------------------------------------------------------------------------------------------


def _digests(file: BinaryIO, offset: int, size: int) -> tuple[bytes, bytes]:
    """SHA-256 of the first *offset* and of the first *size* bytes, read once."""
    hasher = hashlib.sha256()
    file.seek(0)
    _feed(hasher, file, offset)
    first = hasher.digest()
    _feed(hasher, file, size - offset)
    return first, hasher.digest()


def _feed(hasher: Any, file: BinaryIO, size: int) -> None:
    while size > 0:
        piece = file.read(min(size, _SLAB))
        if not piece:
            return
        hasher.update(piece)
        size -= len(piece)


def _time(row: Row) -> int:
    return row.time0 if isinstance(row, PackedRun) else row.time
