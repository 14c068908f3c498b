"""`LiveStore`: live sessions that a store keeps while they are written.

```
session.append ─→ WriteBehind ─→ Store.append   written within 20 ms
                       │    └──→ Store.sync     durable within 200 ms, or when somebody waits
                       └───────→ seals          after what they attest
```
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from turnlog.events import Vocabulary
from turnlog.log import Session

from .attest import RunningHash
from .base import Store, open_stored
from .behind import WriteBehind, WriteThread
from .errors import StoreError
from .files import FileStore


def open_store(root: str | Path | None = None, *, compressed: bool | None = None) -> LiveStore:
    """The store under *root*; ``$TURNLOG_HOME/sessions`` or ``~/.turnlog/sessions`` unless told otherwise."""
    home = Path(os.environ.get("TURNLOG_HOME") or Path.home() / ".turnlog")
    return LiveStore(FileStore(Path(root) if root is not None else home / "sessions", compressed=compressed))


class LiveStore:
    """Creates and resumes sessions, and keeps them until it is closed. An async context manager."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._thread = WriteThread()
        self._keeping: dict[str, WriteBehind] = {}

    async def create(
        self, *, cwd: str | Path | None = None, id: str | None = None, vocabulary: Vocabulary = Vocabulary.core
    ) -> Session:
        """A new session. Nothing is stored before its first event."""
        where = None if cwd is None else str(Path(cwd).resolve())
        session = Session(id, cwd=where, vocabulary=vocabulary)
        self.keep(session)
        return session

    def keep(self, session: Session) -> None:
        """Store a live session, a fork for example, from its first event on."""
        self.store.create(session.header)
        self._keep(session, lines=0, written=0, hash=RunningHash(session.header))

    async def resume(self, session_id: str, *, vocabulary: Vocabulary = Vocabulary.core) -> Session:
        """Go on with a stored session: a torn tail is cut, closers for what its writer left open are appended, then
        ``session/end-seed``; all of it durable before this returns.

        Resuming an untouched session again adds nothing. Raises ``SessionLocked`` while its writer lives, and
        :class:`LogRefused` for a log that strict reading refuses or that is not format 0. Cancelling it may leave the
        session resumed in the store, never half of it.
        """
        stored, lines, hashed = await asyncio.to_thread(self._take, session_id, vocabulary)
        session = Session.resumed(stored)
        self._keep(session, lines=lines, written=len(session), hash=hashed)
        session.settle()
        await session.durable()
        return session

    def _take(self, session_id: str, vocabulary: Vocabulary) -> tuple[Session, int, RunningHash]:
        """Take a session over, then read it: nobody else writes in between."""
        lines = self.store.append(session_id, None, ())
        stored = open_stored(self.store, session_id, vocabulary=vocabulary)
        hashed = RunningHash(stored.header)
        hashed.extend(stored.events)
        return stored, lines, hashed

    def _keep(self, session: Session, *, lines: int, written: int, hash: RunningHash) -> None:
        frames = bool(getattr(self.store, "compressed", False))
        self._keeping[session.id] = WriteBehind(
            self.store, session, self._thread, lines=lines, written=written, frames=frames, hash=hash
        )

    async def release(self, session: Session) -> None:
        """Write and sync what is left of a session, and end keeping it. Raises what writing raises."""
        keeping = self._keeping.pop(session.id)
        try:
            await asyncio.to_thread(keeping.close)
        finally:
            release = getattr(self.store, "release", None)
            if release is not None:
                release(session.id)

    async def close(self) -> None:
        """Release every session; the first failure is raised when all are released."""
        failures: list[StoreError] = []
        for session_id in list(self._keeping):
            keeping = self._keeping[session_id]
            try:
                await self.release(keeping.session)
            except StoreError as error:
                failures.append(error)
        await asyncio.to_thread(self._thread.close)
        if failures:
            raise failures[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
