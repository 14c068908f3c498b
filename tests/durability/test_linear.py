"""Append, read and takeover by five clients at once: some order explains what they saw."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import FULL
from tests.durability.linear import Operation, explained
from tests.log.sessions import user
from turnlog.log import Session, SessionHeader
from turnlog.store import AppendConflict, FileStore, MemoryStore, SessionLocked, Store

CLIENTS: Final = 5
Tick = Callable[[], int]
Opener = Callable[[], Store]


class Losing(FileStore):
    """Acknowledges a batch that it never writes."""

    countdown = 3
    lost = False

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        if lines:
            Losing.countdown -= 1
            if Losing.countdown == 0:
                writing = self._writing[session_id]
                if expected == writing.log.lines:
                    Losing.lost = True
                    return expected + len(lines)
        return super().append(session_id, expected, lines)


class Shared(MemoryStore):
    """One memory for several clients: an operation at a time, and a lock as files have it."""

    def __init__(self) -> None:
        super().__init__()
        self._mutex = threading.Lock()
        self._holder: object = None

    def client(self) -> Store:
        return _Client(self)


class _Client:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.headers, self.create, self.sync = shared.headers, shared.create, shared.sync

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        with self._shared._mutex:
            if self._shared._holder not in (None, self):
                raise SessionLocked("another client writes it")
            count = self._shared.append(session_id, expected, lines)
            self._shared._holder = self
            return count

    def read(self, session_id: str) -> object:
        with self._shared._mutex:
            return self._shared.read(session_id)

    def release(self, session_id: str) -> None:
        with self._shared._mutex:
            if self._shared._holder is self:
                self._shared._holder = None


class Client(threading.Thread):
    """Does random things to one session, and remembers when and how they ended."""

    def __init__(self, number: int, seed: int, store: Store, tick: Tick, start: threading.Barrier) -> None:
        super().__init__()
        self.history: list[Operation] = []
        self.error: BaseException | None = None
        self._number, self._store, self._tick, self._start = number, store, tick, start
        self._dice = random.Random(f"{seed} {number}")
        self._said = 0

    def run(self) -> None:
        try:
            self._start.wait()
            for _ in range(8):
                self._turn() if self._dice.random() < 0.7 else self.read()
        except BaseException as error:
            self.error = error

    def _turn(self) -> None:
        began = self._tick()
        try:
            end = self._store.append("s", None, ())
        except SessionLocked:
            self._note("take", began, accepted=False)
            return
        self._note("take", began)
        for _ in range(self._dice.randrange(1, 4)):
            end = self._append(end, self._dice.choice((end, end, end, end - 1, end + 1)))
            if self._dice.random() < 0.3:
                self.read()
        began = self._tick()
        self._store.release("s")  # type: ignore[attr-defined]
        self._note("release", began)

    def _append(self, end: int, expected: int) -> int:
        lines = [self._line(max(expected, 0) + number) for number in range(self._dice.randrange(1, 4))]
        began = self._tick()
        text = tuple(line.decode() for line in lines)
        try:
            end = self._store.append("s", expected, lines)
        except AppendConflict:
            self._note("append", began, expected=expected, lines=text, accepted=False)
            return end
        self._note("append", began, expected=expected, lines=text)
        assert end == expected + len(lines)
        return end

    def _line(self, seq: int) -> bytes:
        """A line like no other, with the seq that it must have where it is going to be."""
        self._said += 1
        session = Session("x", clock=lambda: 1)
        session.append(user(f"{self._number}.{self._said}", f"c{self._number}-{self._said}"))
        return session.event(0).line().replace(b'"seq":0', b'"seq":%d' % seq, 1)

    def read(self) -> None:
        began = self._tick()
        lines = tuple(line.decode() for line in itertools.islice(self._store.read("s"), 1, None))
        self._note("read", began, lines=lines)

    def _note(
        self, kind: str, began: int, *, expected: int = 0, lines: tuple[str, ...] = (), accepted: bool = True
    ) -> None:
        self.history.append(
            Operation(self._number, kind, began, self._tick(), expected, lines, accepted)  # type: ignore[arg-type]
        )


def history(seed: int, opener: Opener) -> list[Operation]:
    """What five clients saw, and what is there in the end."""
    first = opener()
    first.create(SessionHeader(version=0, id="s", created_at=1))
    clock = itertools.count(1)
    tick: Tick = clock.__next__  # atomic: one call into C
    creator = Client(99, seed, first, tick, threading.Barrier(1))
    creator._append(0, 0)
    first.sync("s")
    first.release("s")  # type: ignore[attr-defined]
    start = threading.Barrier(CLIENTS)
    clients = [Client(number, seed, opener(), tick, start) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
        if client.error is not None:
            raise client.error
    creator.read()
    return sorted((one for client in [creator, *clients] for one in client.history), key=lambda one: one.began)


def _files(root: Path, seed: int, kind: type[FileStore] = FileStore) -> Opener:
    return lambda: kind(root / str(seed), compressed=seed % 2 == 1)


@pytest.mark.proof
def test_five_clients_see_one_history(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    count, operations = 1000 if FULL else 40, 0
    for seed in range(count):
        opener = Shared().client if seed % 4 == 0 else _files(tmp_path, seed)
        found = history(seed, opener)
        operations += len(found)
        why = explained(found)
        assert why is None, f"seed {seed}: {why}"
    record_property("proof", f"linear histories of 5 clients: {count} ({operations:,} operations)")


@pytest.mark.proof
def test_a_lost_write_is_rejected(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    wanted, planted = 50 if FULL else 4, 0
    for seed in range(20 * wanted):  # whether a write is lost depends on who wrote first
        Losing.lost, Losing.countdown = False, random.Random(seed).randrange(2, 8)
        found = history(seed, _files(tmp_path, seed, Losing))
        if Losing.lost:
            planted += 1
            assert explained(found) is not None, f"seed {seed}: the lost write went unseen"
        if planted == wanted:
            break
    record_property("proof", f"planted lost writes rejected: {planted} of {planted}")
    assert planted == wanted


def _append(began: int, ended: int, expected: int, *lines: str, client: int = 0, accepted: bool = True) -> Operation:
    return Operation(client, "append", began, ended, expected, lines, accepted)


def _saw(began: int, ended: int, *lines: str) -> Operation:
    return Operation(9, "read", began, ended, lines=lines)


@pytest.mark.parametrize(
    ("why", "found"),
    [
        ("misses", [_append(1, 2, 0, "a"), _saw(3, 4)]),
        ("no prefix", [_append(1, 2, 0, "a"), _saw(3, 4, "b")]),
        ("never had", [_append(1, 2, 0, "a"), _append(3, 4, 2, "b")]),
        ("never had", [_append(1, 2, 0, "a"), _append(1, 3, 0, "b", client=1)]),
        ("builds on", [_append(5, 6, 0, "a"), _append(1, 2, 1, "b")]),
        ("began after", [_saw(1, 2, "a"), _append(3, 4, 0, "a")]),
        ("saw less", [_append(1, 9, 0, "a"), _saw(2, 3, "a"), _saw(4, 5)]),
        ("refused", [_append(1, 2, 0, "a"), _append(3, 4, 1, "b", accepted=False)]),
        (
            "both held",
            [
                Operation(0, "take", 1, 2), Operation(1, "take", 3, 4),
                Operation(0, "release", 5, 6), Operation(1, "release", 7, 8),
            ],
        ),
    ],
)  # fmt: skip
def test_the_checker_rejects_what_no_order_explains(why: str, found: list[Operation]) -> None:
    told = explained(found)
    assert told is not None
    assert why in told


def test_the_checker_accepts_what_some_order_explains() -> None:
    assert explained([]) is None
    assert explained([_append(1, 4, 0, "a", "b"), _saw(2, 3), _saw(2, 5, "a"), _saw(6, 7, "a", "b")]) is None
    assert explained([_append(1, 9, 0, "a"), _append(2, 8, 1, "b"), _append(3, 4, 0, "c", accepted=False)]) is None
