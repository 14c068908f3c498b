"""`LiveStore`: live sessions that a store keeps while they are written.

```
session.append ─→ WriteBehind ─→ Store.append   written within 20 ms
                       │    └──→ Store.sync     durable within 200 ms, or when somebody waits
                       └───────→ seals          after what they attest
```
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from turnlog.events import Vocabulary
from turnlog.log import Redactor, Session

from .attest import RunningHash
from .base import Store, open_stored
from .behind import WriteBehind, WriteThread
from .errors import SessionLocked, StoreError
from .files import FileStore


def open_store(root: str | Path | None = None, *, compressed: bool | None = None, adopt: bool = False) -> LiveStore:
    """The store under *root*; ``$TURNLOG_HOME/sessions`` or ``~/.turnlog/sessions`` unless told otherwise.

    *compressed*: None keeps what the root has (plain when it is new). *adopt*: also resume sessions without a lock
    file, as dsh leaves them; make sure that dsh does not run, because nothing shows whether it still writes them.
    """
    home = Path(os.environ.get("TURNLOG_HOME") or Path.home() / ".turnlog")
    where = Path(root) if root is not None else home / "sessions"
    return LiveStore(FileStore(where, compressed=compressed, adopt=adopt))


class LiveStore:
    """Creates and resumes sessions, and keeps them until it is closed. An async context manager."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._thread = WriteThread()
        self._keeping: dict[str, WriteBehind] = {}
        self._taking: dict[str, _Taking] = {}
        self._closed = False

    async def create(
        self,
        *,
        cwd: str | Path | None = None,
        id: str | None = None,
        vocabulary: Vocabulary = Vocabulary.core,
        redact: Redactor | None = None,
    ) -> Session:
        """A new session. Nothing is stored before its first event. *redact*: see :class:`Session`."""
        where = None if cwd is None else str(Path(cwd).resolve())
        session = Session(id, cwd=where, vocabulary=vocabulary, redact=redact)
        self.keep(session)
        return session

    def keep(self, session: Session) -> None:
        """Store a live session, a fork for example, from its first event on."""
        self._check_open()
        self.store.create(session.header)
        self._keep(session, lines=0, written=0, hash=RunningHash(session.header))

    async def resume(
        self, session_id: str, *, vocabulary: Vocabulary = Vocabulary.core, redact: Redactor | None = None
    ) -> Session:
        """Go on with a stored session: a torn tail is cut, closers for what its writer left open are appended, then
        ``session/end-seed``; all of it durable before this returns.

        Resuming an untouched session again adds nothing. Raises ``SessionLocked`` while its writer lives, this
        process included, and :class:`LogRefused` for a log that strict reading refuses or that is not format 0.
        Cancelling it may leave closers in the store, never half of them, and ends writing the session.
        """
        self._check_open()
        if session_id in self._keeping:
            raise SessionLocked(f"session {session_id} is being written by this very store; use the session it gave")
        if session_id in self._taking and self._taking[session_id].under_way:
            raise SessionLocked(f"session {session_id} is being resumed by this very store; await that, or try again")
        taking = self._taking[session_id] = _Taking(self.store, session_id, vocabulary)
        try:
            stored, lines, hashed = await asyncio.to_thread(taking.take)
            session = Session.resumed(stored, redact=redact)
        except BaseException:
            taking.abandon()
            raise
        del self._taking[session_id]
        self._keep(session, lines=lines, written=len(session), hash=hashed)
        self._keeping[session_id].attest()  # its writer may have died before it did
        try:
            session.settle()
            await session.durable()
        except BaseException:
            with contextlib.suppress(StoreError):  # the first reason is the one that counts
                await self.release(session)
            raise
        return session

    def failure(self, session: Session) -> StoreError | None:
        """Why what *session* has accepted could not be stored yet, or None. The session stays readable meanwhile."""
        keeping = self._keeping.get(session.id)
        return None if keeping is None else keeping.failure

    def _keep(self, session: Session, *, lines: int, written: int, hash: RunningHash) -> None:
        frames = bool(getattr(self.store, "compressed", False))
        self._keeping[session.id] = WriteBehind(
            self.store, session, self._thread, lines=lines, written=written, frames=frames, hash=hash
        )

    async def release(self, session: Session) -> None:
        """Write and sync what is left of a session, and end keeping it. Raises what writing raises.

        Cancelling it leaves the session to be released all the same.
        """
        if self._thread.forked:  # and so are the threads of the loop, perhaps
            self._end(self._keeping.pop(session.id))
        else:
            await asyncio.to_thread(self._end, self._keeping.pop(session.id))

    def _end(self, keeping: WriteBehind) -> None:
        try:
            keeping.close()
        finally:
            _release(self.store, keeping.session.id)

    async def close(self) -> None:
        """Release every session; the first failure is raised when all are released. Closing twice is fine."""
        self._closed = True
        failures: list[StoreError] = []
        for session_id in list(self._keeping):
            keeping = self._keeping[session_id]
            try:
                await self.release(keeping.session)
            except StoreError as error:
                failures.append(error)
        if not self._thread.forked:
            await asyncio.to_thread(self._thread.close)
        if failures:
            raise failures[0]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("this store is closed and keeps nothing any more; open it anew")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Taking:
    """Takes a session over, on any thread; what nobody waits for any more is given back."""

    def __init__(self, store: Store, session_id: str, vocabulary: Vocabulary) -> None:
        self._store = store
        self._id = session_id
        self._vocabulary = vocabulary
        self._mutex = threading.Lock()
        self._begun = False
        self._abandoned = False
        self.busy = True
        """Whether it is under way, or about to be."""

    @property
    def under_way(self) -> bool:
        """Whether whoever asked for it still waits, or what they gave up is not given back yet."""
        return self.busy or not self._abandoned

    def take(self) -> tuple[Session, int, RunningHash]:
        """Take the session, then read it: nobody else writes in between."""
        with self._mutex:
            if self._abandoned:
                raise StoreError(f"session {self._id}: nobody waits for it any more")
            self._begun = True
        try:
            lines = self._store.append(self._id, None, ())
            stored = open_stored(self._store, self._id, vocabulary=self._vocabulary)
            hashed = RunningHash(stored.header)
            hashed.extend(stored.events)
            return stored, lines, hashed
        finally:
            with self._mutex:
                self.busy = False
                if self._abandoned:
                    _release(self._store, self._id)

    def abandon(self) -> None:
        """Give the session back, now or as soon as it is taken."""
        with self._mutex:
            self._abandoned = True
            if self._begun and not self.busy:
                _release(self._store, self._id)
            self.busy = self.busy and self._begun


def _release(store: Store, session_id: str) -> None:
    """End writing a session; stores without locks have nothing to do."""
    release = getattr(store, "release", None)
    if release is not None:
        release(session_id)
