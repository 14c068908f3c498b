"""`convert`: a stored session of any format as a new format-0 session, which can be resumed and forked.

```
<root>/<project>/<session>/session.jsonl[.zstd]   the new log, with an id of its own
                           convert-map.json       which event became which
                           attest.jsonl           where it comes from, and a seal
```

The old session is not changed. Seqs change, so the map tells for every old seq the new one, and for a stream that was
inside a message where its chunks begin. What is not as it was is listed, losses apart from mere changes of shape.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from turnlog.events import AssistantMessage, EndSeed, Vocabulary
from turnlog.events.lossless import dump
from turnlog.events.value import new_id
from turnlog.log import AnyEvent, SessionHeader
from turnlog.log.header import FORMAT, is_absolute
from turnlog.log.session import epoch_ms

from .attest import Note, RunningHash
from .errors import RewriteRefused
from .files import FileStore
from .foreign.losses import LOSSES
from .fs import Fs, OsFs, make_directories, write_new
from .header import header_line
from .load import locate
from .lock import SessionLock
from .lowering import Lowering
from .names import encode_project, encode_session, log_files
from .read import ReadLog, read_log
from .renumber import Rebuild, runs
from .rewrite import attest, file_of, replace, temporary, text_of, writing
from .salvage import salvage
from .source import Source

MAP_NAME: Final = "convert-map.json"


class Difference(Struct, frozen=True, omit_defaults=True):
    """One kind of thing that is not as it was in the old log."""

    code: str
    text: str
    lost: bool
    """Whether something cannot be told from the new log any more; else it is only told in another way."""
    seqs: tuple[int, ...] = ()
    """The events of the old log that it happened to."""


@dataclass(frozen=True)
class Conversion:
    """What a conversion made."""

    path: Path
    """The new log."""
    header: SessionHeader
    format: str
    """Of the old log."""
    events: int
    """How many events the new log has."""
    differences: tuple[Difference, ...]
    seqs: tuple[tuple[int, int, int], ...]
    """Which events became which, as runs: (old seq, new seq, how many)."""
    chunks: tuple[tuple[int, int, int], ...]
    """Streams that were inside an event: (its old seq, new seq of the first chunk, how many)."""

    @property
    def losses(self) -> tuple[Difference, ...]:
        """What cannot be told from the new log any more."""
        return tuple(one for one in self.differences if one.lost)


def convert(
    source: str | Path | bytes,
    root: str | Path,
    *,
    id: str | None = None,
    for_dsh: bool = False,
    forensic: bool = False,
    vocabulary: Vocabulary = Vocabulary.core,
    fs: Fs | None = None,
    clock: Callable[[], int] = epoch_ms,
) -> Conversion:
    """Make a new session under *root* of a stored one; *id* is fresh unless given.

    *for_dsh* also leaves out events that dsh 0.1 does not know, so that it opens the session, and ends the seed of a
    fork before an answer that it was cut in, so that later versions of dsh migrate it. *forensic* takes what is
    readable of a log that strict readers refuse. Raises :class:`LogRefused` without it, and :class:`RewriteRefused`
    when the root has a session of that id already.
    """
    data = source if isinstance(source, bytes) else locate(Path(source))
    name = None if isinstance(data, bytes) else str(data)
    log = read_log(Source(data, forensic=forensic), vocabulary=vocabulary, forensic=forensic, foreign=True)
    made = _Converted(log, data, for_dsh=for_dsh, id=id or f"session-{new_id()}")
    with writing(Path(root)):
        return made.write(FileStore(Path(root)), name, fs if fs is not None else OsFs(), clock())


class _Converted:
    """A log of any format as format 0."""

    def __init__(self, log: ReadLog, data: bytes | Path, *, for_dsh: bool, id: str) -> None:
        self._log = log
        stored = data if isinstance(data, bytes) else data.read_bytes()
        self._hash = hashlib.sha256(stored).hexdigest()
        self._rebuild = Rebuild(id)
        self._lowering = Lowering(log.format, log.header.id, known_only=for_dsh)
        self._others: list[Difference] = []
        self._chunks: list[tuple[int, int, int]] = []
        events = list(self._events(data))
        if for_dsh and log.format.cites_chunks and log.header.seed_length is not None:
            events = self._seeded(events, log.header.seed_length)
        self._lowering.learn(events)
        for event in events:
            self._take(event)
        self.header = self._header(id)
        self.differences = tuple(self._differences())

    def _events(self, data: bytes | Path) -> Iterator[AnyEvent]:
        log = self._log
        if log.torn is not None:
            self._differ("torn-tail", f"the unfinished tail was left out: {log.torn.reason}", True)
        if not log.branches and not any(one.severity == "refused" for one in log.findings):
            return log.rows.iterate(log.rows.base, log.rows.length)
        won = salvage(log, Source(data, forensic=True))
        for one in won.others:
            told = f"another history of {len(one.events)} events is only in the old log; turnlog repair keeps it"
            self._differ("branch", told, True)
        for text in won.said:
            self._differ("repaired", text, False)
        for lost in (*won.main.lost, *won.lost):
            self._differ("lost", lost.text, True)
        return iter(won.kept)

    def _differ(self, code: str, text: str, lost: bool) -> None:
        self._others.append(Difference(code, text, lost))

    def _seeded(self, events: list[AnyEvent], length: int) -> list[AnyEvent]:
        """The events with the end of the seed before the answer that it was cut in, if it was: dsh's migrations want an
        answer and the chunks that it cites on one side of it."""
        first = _split_at(events, length)
        at = next((place for place, event in enumerate(events) if event.seq == length), None)
        if first is None or at is None or events[at].type != EndSeed.event_type:
            return events
        told = "the seed ends before the answer that it was cut in, whose chunks are no part of it now"
        self._others.append(Difference("seed", told, True, (length,)))
        place = next(place for place, event in enumerate(events) if event.seq >= first)
        return [*events[:place], events[at], *events[place:at], *events[at + 1 :]]

    def _take(self, event: AnyEvent) -> None:
        first = len(self._rebuild.events)
        for draft in self._lowering.lower(event):
            self._rebuild.add(draft)
        count = self._lowering.streams.get(event.seq)
        if count:
            last = len(self._rebuild.events) - (0 if event.type == "assistant/attempt" else 1)
            self._chunks.append((event.seq, max(last - count, first), count))

    def _header(self, id: str) -> SessionHeader:
        old = self._log.header
        preset = "code" if old.agent_preset == "ptc" and old.version >= 3 else old.agent_preset
        cwd = old.cwd if old.cwd is not None and is_absolute(old.cwd) else None
        if cwd != old.cwd:
            self._differ("cwd", f"the working directory {old.cwd!r} is not absolute; it was left out", True)
        return SessionHeader(
            version=FORMAT,
            id=id,
            created_at=old.created_at,
            cwd=cwd,
            parent_session=old.parent_session,
            seed_length=None if old.seed_length is None else self._rebuild.length_at(old.seed_length),
            origin=old.origin,
            delegation_depth=old.delegation_depth,
            agent_preset=preset,
        )

    def _differences(self) -> Iterator[Difference]:
        for code, seqs in sorted(self._lowering.changes.items()):
            told = self._lowering.told(code)
            yield Difference(code, told.text, told.lost, tuple(dict.fromkeys(seqs)))
        for code, text, seq in self._rebuild.remarks:
            yield Difference(code, text, True, () if seq is None else (seq,))
        origins = self._log.origins
        if origins is not None:
            yield from (Difference(code, text, True) for code, text in LOSSES[origins.dialect.kind])
            for one in origins.remarks:
                yield Difference(one.code, f"{one.text} (×{one.number})", one.lost, (one.seq,))
        yield from self._others

    def write(self, store: FileStore, name: str | None, fs: Fs, now: int) -> Conversion:
        """Write the session: map, log, attestation, in that order."""
        directory = store.root / encode_project(self.header.cwd) / encode_session(self.header.id)
        path = directory / ("session.jsonl.zstd" if store.compressed else "session.jsonl")
        done = Conversion(
            path=path,
            header=self.header,
            format=self._log.format.name,
            events=len(self._rebuild.events),
            differences=self.differences,
            seqs=tuple(runs(self._rebuild.numbers)),
            chunks=tuple(self._chunks),
        )
        if log_files(directory):
            raise RewriteRefused(f"session {self.header.id!r} is in {store.root} already; give the new one another id")
        make_directories(fs, directory)
        for above in (directory.parent, store.root):  # durable names, whoever made them and whenever
            fs.sync_directory(above)
        lock = SessionLock(directory, self.header.id)
        try:
            self._write_files(fs, done, self._map(done, name), now)
        finally:
            lock.release()
        return done

    def _write_files(self, fs: Fs, done: Conversion, map: bytes, now: int) -> None:
        suffix = secrets.token_hex(6)
        lines = text_of(header_line(self.header), self._rebuild.events)
        data = file_of(lines, compressed=done.path.suffix == ".zstd")
        assert read_log(Source(data)).rows.length == done.events  # strict: what is made has to open
        side = done.path.with_name(MAP_NAME)
        fresh = temporary(side, suffix)
        write_new(fs, fresh, map, suffix)
        replace(fs, fresh, side)
        try:
            write_new(fs, done.path, data, suffix)
        except FileExistsError:
            raise RewriteRefused(f"{done.path} was made by another process in the meantime") from None
        hashed = RunningHash(self.header)
        hashed.extend(self._rebuild.events)
        note = Note(done.events, f"converted from session {self._log.header.id}, {self._log.format.name}", now)
        with suppress(OSError):  # it proves, it does not keep
            attest(fs, done.path.parent, note, hashed.seal(now))

    def _map(self, done: Conversion, name: str | None) -> bytes:
        old = self._log
        origin: dict[str, Any] = {
            "id": old.header.id,
            "format": old.format.name,
            "path": name,
            "sha256": self._hash,
            "events": old.rows.length,
        }
        known = {key: value for key, value in origin.items() if value is not None}
        if old.origins is not None:  # (old seq, line of the file, how many events)
            known["lines"] = list(old.origins.runs())
        return dump({
            "schemaVersion": 1,
            "from": known,
            "to": {"id": self.header.id, "events": done.events},
            "seqs": done.seqs,
            "chunks": done.chunks,
            "differences": done.differences,
        }) + b"\n"  # fmt: skip


def _split_at(events: Iterable[AnyEvent], length: int) -> int | None:
    """The first chunk of the answer that a seed of this *length* was cut in, or None."""
    inside = (event for event in events if event.seq >= length and event.type == AssistantMessage.event_type)
    cited = (min(event.sources) for event in inside if event.sources and event.surface_op == "append")
    return next((first for first in cited if first < length), None)
