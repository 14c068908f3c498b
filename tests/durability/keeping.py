"""Stores that wait, refuse and remember on command, and what tests of live sessions ask of them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.log.sessions import user
from turnlog.log import Session, SessionHeader
from turnlog.store import LiveStore, MemoryStore, Store
from turnlog.store.behind import WriteBehind
from turnlog.store.source import Source

PATIENCE: Final = 60.0
"""Seconds after which something that must happen did not. Nothing is decided by less."""


class Watched:
    """A store in front of another one: it remembers every batch, refuses on command, and can be made to wait."""

    def __init__(self, inner: Store, *, compressed: bool = False) -> None:
        self.inner = inner
        self.compressed = compressed
        self.batches: list[tuple[str, list[bytes]]] = []
        self.syncs: list[str] = []
        self.refusals: list[Exception] = []
        """Raised by the next appends, in order."""
        self.sync_refusals: list[Exception] = []
        self.released: list[str] = []
        self.entered = threading.Event()
        """Set as soon as an append is under way."""
        self.gate = threading.Event()
        """Appends wait for it."""
        self.gate.set()

    def headers(self) -> Iterator[SessionHeader]:
        return self.inner.headers()

    def read(self, session_id: str) -> Iterator[bytes]:
        return self.inner.read(session_id)

    def create(self, header: SessionHeader) -> None:
        self.inner.create(header)

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        self.entered.set()
        assert self.gate.wait(PATIENCE)
        if self.refusals:
            raise self.refusals.pop(0)
        count = self.inner.append(session_id, expected, lines)
        if lines:
            self.batches.append((session_id, list(lines)))
        return count

    def sync(self, session_id: str) -> None:
        if self.sync_refusals:
            raise self.sync_refusals.pop(0)
        self.inner.sync(session_id)
        self.syncs.append(session_id)

    def attest(self, session_id: str, lines: bytes) -> None:
        self.inner.attest(session_id, lines)

    def release(self, session_id: str) -> None:
        self.released.append(session_id)
        release = getattr(self.inner, "release", None)
        if release is not None:
            release(session_id)

    def lines(self, session_id: str) -> list[bytes]:
        """What is stored of a session."""
        return list(self.inner.read(session_id))[1:]


@contextmanager
def watched(*, compressed: bool = False) -> Iterator[tuple[Watched, LiveStore]]:
    """A live store over memory, for tests without an event loop around them; closed at the end."""
    store = Watched(MemoryStore(), compressed=compressed)
    live = LiveStore(store)
    yield store, live
    store.gate.set()
    asyncio.run(live.close())


@contextmanager
def held_at_gate(store: Watched) -> Iterator[Callable[[], None]]:
    """Let no append go on meanwhile; what it gives waits until one has come as far as the gate."""
    store.entered.clear()
    store.gate.clear()

    def entered() -> None:
        assert store.entered.wait(PATIENCE), "no append is under way"

    try:
        yield entered
    finally:
        store.gate.set()


def say(session: Session, *texts: str) -> None:
    """Append user messages."""
    for text in texts:
        session.append(user(text, f"m{len(session)}"))


async def created(live: LiveStore, id: str = "s") -> Session:
    """A new session, for ``asyncio.run``."""
    return await live.create(id=id)


def stored(path: Path) -> list[bytes]:
    """The lines of a log file, without its header."""
    return list(Source(path).lines())[1:]


def log_under(root: Path) -> Path:
    """The log of the only session under a root."""
    return next(path for path in root.glob("*/*/session.jsonl*") if ".tmp" not in path.name)


def keeper(session: Session) -> WriteBehind:
    """What keeps a session, for use without an event loop."""
    found = session._durability
    assert isinstance(found, WriteBehind)
    return found


def until(condition: Callable[[], object]) -> None:
    """Wait for something that must happen by itself."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.001)


async def until_so(condition: Callable[[], object]) -> None:
    """The same, for an event loop."""
    await asyncio.to_thread(until, condition)
