"""`Follower`: a stored session read while its writer writes it, each event once and in order.

::

    poll() ─▶ is the writer alive? ─▶ is it still the same file? ─▶ whole lines or frames that are new ─▶ their events
                                              └─ no: read anew, and go on by seq with what is new in it

Nothing is locked and nothing is written. A record that is not finished yet is waited for; damage raises what ``load``
raises, and the place that was reached stays where it was. When the writer is gone the log is loaded once more as any
other, which settles what its tail is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import anyio

from turnlog.events import Vocabulary
from turnlog.log import AnyEvent, Events
from turnlog.log.rows import same_event

from .collecting import no_collection
from .errors import LogRefused, SessionAmbiguous, SessionNotFound
from .formats import SAMPLE
from .frames import MAGIC, SKIPPABLE, Decompressor, later_frame, walk_frames
from .liveness import liveness
from .load import StoredSession, load, locate, stored_session
from .read import ReadLog, _Reader
from .source import SLAB, Block, Source, framing

INTERVAL: Final = 0.1
"""Seconds between two looks: writers hand over within 20 ms, and people read no faster than this."""
_PRINT: Final = 64
"""Bytes before the place that was reached, which tell whether a file was written over."""
_AWAY: Final = 20
"""Looks for which a log without a writer may be away (somebody swaps files) before it counts as gone."""


class Follower:
    """Follows one session. ``session`` is what it has come to: read-only, and grown with every poll; another object
    after the log was replaced, and at the end."""

    def __init__(self, path: str | Path, *, keep: bool = False, vocabulary: Vocabulary = Vocabulary.core) -> None:
        """Open what is there now; it counts as new for the first :meth:`poll`.

        *path* is a log or a session directory, of which the newest generation is followed. *keep*: go on although
        nobody is known to write it, until :meth:`settle` is called. Raises what ``load`` raises.
        """
        self._asked = Path(path)
        self._keep = keep
        self._vocabulary = vocabulary
        self.path = locate(self._asked)
        """The file that is followed."""
        self.ended = False
        """Whether the writer is gone, so that nothing follows on what :meth:`poll` gives."""
        self.notices: list[str] = []
        """What happened to the file, in words; for whoever follows to take away."""
        self._known: Events | None = None  # what was given of a log that is being read anew
        self._refused: tuple[LogRefused, object] | None = None  # damage, and the file that had it
        self._away = 0
        self._log: ReadLog | None = None  # what the session grows with
        self._reading = _Reading(self.path, vocabulary)
        self.session = self._open()
        self._next = self.session.rows.base
        self._given = self._next  # one past the last event that was given

    def _open(self) -> StoredSession:
        if self._is_live():
            with no_collection():
                self._reading.read()
            if self._reading.log is not None and self._reading.log.format is not SAMPLE:
                return self._growing(self._reading.log)
        self.ended = True  # nobody writes it, or it is the documents' sample, which nobody writes
        return load(self.path, vocabulary=self._vocabulary)

    @property
    def next_seq(self) -> int:
        """Seq of the next event that :meth:`poll` gives."""
        return self._next

    def skip_to(self, seq: int) -> None:
        """Give only what comes from *seq* on."""
        self._next = max(seq, self.session.rows.base)

    def poll(self) -> Sequence[AnyEvent]:
        """The events that are new since the last time, without waiting for any.

        Raises :class:`LogRefused` for damage, once what comes before it was given, and :class:`SessionNotFound` when
        the log is gone for good.
        """
        if not self.ended:
            try:
                self._look()
            except LogRefused as error:
                self._refused = error, _identity(self.path)
            fresh = self._fresh()
            if self._refused is not None and not fresh:
                raise self._refused[0]
            return fresh
        return self._fresh()

    def settle(self) -> None:
        """Take the log as it is now for the whole of it, its tail included. Raises what ``load`` raises."""
        self._read_on()  # whoever plays the session that grows gets all but an unfinished tail
        read = self._log if self._reading.log is self._log and self._known is None else None
        whole = load(self.path, vocabulary=self._vocabulary)
        if read is None or len(whole) < read.rows.length:
            self._renew(whole)
        else:
            self.session = whole  # the same file: what was given of it stands
        self.ended = True
        length = len(self.session)
        if length < self._given:
            self._tell(f"the log is shorter than it was: @{length} to @{self._given - 1} are no longer in it")

    async def events(self, interval: float = INTERVAL) -> AsyncIterator[AnyEvent]:
        """Every event from the beginning, or from :meth:`skip_to` on, as they come; ends with the writer.

        *interval* is the time between two looks, in seconds. Raises as :meth:`poll` does. Cancelling it loses nothing:
        what was not given is given next time.
        """
        while True:
            fresh = self.poll()
            behind = self._next
            for event in fresh:
                self._next = event.seq + 1
                yield event
            self._next = max(self._next, behind)
            if not fresh:
                if self.ended:
                    return
                await anyio.sleep(interval)

    def growth(self, interval: float = INTERVAL) -> Callable[[], Awaitable[bool]]:
        """What waits until the present ``session`` has grown, and says False when it will not grow any more: the writer
        is gone, or the log was replaced and ``session`` is another object. *interval* is in seconds."""
        session = self.session

        async def grown() -> bool:
            length = len(session)
            while self.session is session and not self.ended:
                self.poll()
                if len(session) > length:
                    return True
                await anyio.sleep(interval)
            return False

        return grown

    # -- looking ------------------------------------------------------------------------------------------------

    def _is_live(self) -> bool:
        return self._keep or liveness(self.path) == "live"

    def _look(self) -> None:
        alive = self._is_live()  # asked first: then all that a dead writer wrote is there
        if not self._present():
            return
        if self._refused is not None:
            if self._refused[1] == _identity(self.path):
                return  # never step over damage
            self._refused = None
            self._reading = _Reading(self.path, self._vocabulary)
            self._read_on()
        elif alive:
            self._read_on()
        if not alive:
            self.settle()

    def _present(self) -> bool:
        """Whether the log is there, after finding the newest generation of a directory."""
        try:
            path = locate(self._asked)
        except (SessionNotFound, SessionAmbiguous) as error:
            self._away += 1
            if self._away > _AWAY and not self._is_live():
                raise SessionNotFound(f"{self.path}: the log is gone; it was followed to @{self._next - 1}") from error
            return False
        self._away, self.path = 0, path
        return True

    def _read_on(self) -> None:
        if self._reading.path != self.path or self._reading.read() is False:
            self._reading = _Reading(self.path, self._vocabulary)
            self._reading.read()
        log = self._reading.log
        if log is not None and log is not self._log:
            self._renew(self._growing(log))

    def _growing(self, log: ReadLog) -> StoredSession:
        self._log = log
        return stored_session(log, self._vocabulary, self.path, "live")

    # -- giving -------------------------------------------------------------------------------------------------

    def _renew(self, session: StoredSession) -> None:
        """The log was read anew: go on by seq, with what differs from what was given."""
        before, self.session = self.session, session
        if (before.id, before.header.version) != (session.id, session.header.version):
            self._tell(f"{self.path} holds session {session.id} in {session.format} now; what was in it is not shown")
            self._known, self._next = None, len(session)
        elif self._known is None:
            given = before.events[: max(self._next - before.rows.base, 0)]
            assert isinstance(given, Events)
            self._known = given

    def _fresh(self) -> Sequence[AnyEvent]:
        """What has not been given. Where the log was read anew, what was given is compared with what it says now."""
        events, base = self.session.events, self.session.rows.base
        known, self._known = self._known, None
        if known is not None:
            pairs = enumerate(zip(events, known, strict=False))
            changed = next((at for at, (now, then) in pairs if not same_event(now, then)), None)
            if changed is not None:
                self._tell(f"the log was changed: what it says from @{base + changed} on is another, and shown anew")
                self._next = base + changed
            elif len(events) < len(known) and not self.ended:
                self._known = known  # it is being written again: what was given is not given twice
                return ()
        fresh = events[max(self._next - base, 0) :]
        self._next = max(self._next, len(self.session))
        if fresh:
            self._given = self._next
        return fresh

    def _tell(self, text: str) -> None:
        self.notices.append(text)


class _Reading:
    """One file, read from its beginning on as it grows."""

    def __init__(self, path: Path, vocabulary: Vocabulary) -> None:
        self.path: Final = path
        self._source = Source(path)
        self._reader = _Reader(self._source, vocabulary, False)
        self._identity: tuple[int, int] | None = None
        self._position = 0  # bytes of the file that are read
        self._print = b""
        self._line, self._offset = 1, 0
        self._frames = 0
        self._text = b""  # of a line that goes on in the next frame
        self._starts: list[tuple[int, int, int]] = []
        self.log: ReadLog | None = None
        """What was read; None before there is a whole header."""

    def read(self) -> bool | None:
        """Take in what is new; False when it is not the same file any more, None when there is none now.

        Raises :class:`LogRefused`; then the place that was reached has not moved.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            status = os.fstat(file.fileno())
            identity = status.st_dev, status.st_ino
            if self._identity not in (None, identity) or status.st_size < self._position:
                return False
            self._identity, self._source.size = identity, status.st_size
            file.seek(self._position - len(self._print))
            if file.read(len(self._print)) != self._print:
                return False
            while piece := file.read(SLAB):
                while not self._take(piece):
                    more = file.read(SLAB)
                    if not more:
                        return True
                    piece += more
                file.seek(self._position)
        return True

    def _take(self, data: bytes) -> bool:
        """Read whole lines or frames from the front of *data*; whether there was one."""
        if self._position == 0:
            if len(data) < len(MAGIC):
                return False
            self._source.compressed = data[:4] == MAGIC or data[1:4] == SKIPPABLE
        return self._take_frames(data) if self._source.compressed else self._take_lines(data)

    def _take_lines(self, data: bytes) -> bool:
        cut = data.rfind(b"\n") + 1
        if cut:
            self._feed(data[:cut], ())
            self._reached(data, cut)
        return cut > 0

    def _take_frames(self, data: bytes) -> bool:
        walk = walk_frames(data)
        damaged = walk.stop == "damaged" or (walk.stop != "end" and later_frame(data, walk.end) is not None)
        decompressor = Decompressor()
        parts, length = [self._text], len(self._text)
        starts, at = [*self._starts], 0
        for number, frame in enumerate(walk.frames, self._frames + 1):
            if not frame.skippable:
                try:
                    content = decompressor.whole(data, frame)
                except ValueError:
                    damaged = True
                    break
                starts.append((self._offset + length, number, self._position + frame.start))
                parts.append(content)
                length += len(content)
            at = frame.end
        if damaged:
            load(self.path)  # which says what is wrong, and where
            return False
        text = b"".join(parts)
        cut = text.rfind(b"\n") + 1
        if cut:
            self._feed(text[:cut], tuple(starts))
        self._text, self._starts = text[cut:], starts[-1:]
        self._frames += len(walk.frames)
        self._reached(data, at)
        return at > 0

    def _feed(self, text: bytes, frames: tuple[tuple[int, int, int], ...]) -> None:
        newlines, framed = framing(text)
        block = Block(text, self._line, self._offset, frames, newlines, framed)
        if self.log is None:
            self._reader._block(self._reader._begin(block))
            self.log = self._reader._finish()
        else:
            self._reader._block(block)
        self._line += newlines
        self._offset += len(text)

    def _reached(self, data: bytes, cut: int) -> None:
        self._print = (self._print + data[max(cut - _PRINT, 0) : cut])[-_PRINT:]
        self._position += cut


def _identity(path: Path) -> object:
    """What changes when a file does."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
