"""A store against the simplest model of one: any order of create, append, barrier, crash, resume, fork, reopen.

The model knows of each session what was accepted, how much of it was written and how much of it was durable. After a
crash what was written is left, and never anything else.

Nothing here depends on the clock: the store writes, syncs and seals by rules only, so that the same choices make the
same history on any machine, however busy it is. What is left to time is in the other proofs of this directory.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import FULL
from tests.durability.load import Hand
from tests.log.sessions import WITH_PLUGINS
from turnlog.log import Session
from turnlog.store import (
    AppendConflict,
    FileStore,
    LiveStore,
    MemoryStore,
    SessionLocked,
    SessionNotFound,
    Store,
    behind,
    open_stored,
    verify,
)

RUNS: Final = 350 if FULL else 25
"""Of each store."""
STEPS: Final = 50 if FULL else 25

T = TypeVar("T")


class Kept:
    """What the model knows of a session."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        """Every event that was accepted."""
        self.written = 0
        """How many of them survive the process."""
        self.durable = 0
        self.hand: Hand | None = None
        """What writes to it, while it is live."""

    @property
    def session(self) -> Session:
        assert self.hand is not None
        return self.hand.session

    def accept(self) -> None:
        self.lines = [event.line() for event in self.session.events]

    def flushed(self) -> None:
        self.written = self.durable = len(self.lines)


class Machine(RuleBasedStateMachine):
    """The rules; what kind of store it is about comes later."""

    runs: ClassVar[int] = 0
    steps: ClassVar[int] = 0

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.kept: dict[str, Kept] = {}
        self.live: LiveStore
        type(self).runs += 1

    def make(self) -> Store:
        """The store, anew on what is kept."""
        raise NotImplementedError

    def forget(self) -> None:
        """What the system does for a process that dies: locks and handles go."""

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(doing)

    @initialize()
    def begin(self) -> None:
        self.live = LiveStore(self.make())

    # -- rules --------------------------------------------------------------------------------------------------

    @rule(target=ids, number=st.integers(0, 5))
    def create(self, number: int) -> str:
        id = f"s{number}"
        if id in self.kept:
            with pytest.raises(AppendConflict):
                self.run(self.live.create(id=id, cwd="/state", vocabulary=WITH_PLUGINS))
            return id
        session = self.run(self.live.create(id=id, cwd="/state", vocabulary=WITH_PLUGINS))
        self._take_in(session, number)
        return id

    @rule(id=ids, seed=st.integers(0, 1 << 16), times=st.integers(1, 6))
    def append(self, id: str, seed: int, times: int) -> None:
        kept = self.kept.get(id)
        if kept is None or kept.hand is None:
            return
        kept.hand._dice = random.Random(seed)
        for _ in range(times):
            kept.hand.act()
        kept.accept()

    @rule(id=ids)
    def barrier(self, id: str) -> None:
        kept = self.kept.get(id)
        if kept is not None and kept.hand is not None:
            assert self.run(kept.session.durable()).length == len(kept.lines)
            kept.flushed()

    @rule(id=ids)
    def write(self, id: str) -> None:
        """As it happens by itself after some time; frames are synced at once."""
        kept = self.kept.get(id)
        if kept is not None and kept.hand is not None:
            keeper = self.live._keeping[id]
            keeper.work()
            kept.written, kept.durable = len(kept.lines), keeper._durable

    @rule(id=ids)
    def seal(self, id: str) -> None:
        """The same."""
        kept = self.kept.get(id)
        if kept is not None and kept.hand is not None:
            self.live._keeping[id].seal()

    @rule(id=ids)
    def release(self, id: str) -> None:
        kept = self.kept.get(id)
        if kept is not None and kept.hand is not None:
            self.run(self.live.release(kept.session))
            self._let_go(id)

    @rule(id=ids)
    def resume(self, id: str) -> None:
        kept = self.kept.get(id)
        if kept is None or (kept.hand is None and not kept.lines):
            with pytest.raises(SessionNotFound):
                self.run(self.live.resume(id, vocabulary=WITH_PLUGINS))
            return
        if kept.hand is not None:
            with pytest.raises(SessionLocked):
                self.run(self.live.resume(id, vocabulary=WITH_PLUGINS))
            return
        session = self.run(self.live.resume(id, vocabulary=WITH_PLUGINS))
        lines = [event.line() for event in session.events]
        assert lines[: len(kept.lines)] == kept.lines
        added = [event.type for event in session.events[len(kept.lines) :]]
        last = session.event(len(kept.lines) - 1).type
        assert (added == []) == (last == "session/end-seed"), (last, added)
        assert not session.owed()
        self._take_in(session, len(lines))
        self.kept[id].flushed()

    @rule(target=ids, id=ids, number=st.integers(0, 3), part=st.floats(0, 1))
    def fork(self, id: str, number: int, part: float) -> str:
        kept, child_id = self.kept.get(id), f"f{number}"
        if kept is None or kept.hand is None or child_id in self.kept:
            return id
        length = int(part * len(kept.lines))
        child = kept.session.fork(length, id=child_id)
        assert [event.line() for event in child.events][:length] == kept.lines[:length]
        self.live.keep(child)
        self._take_in(child, number)
        return child_id

    @rule()
    def reopen(self) -> None:
        """An orderly end, and another process."""
        self.run(self.live.close())
        for id in list(self.kept):
            if self.kept[id].hand is not None:
                self._let_go(id)
        self.forget()
        self.live = LiveStore(self.make())

    @rule()
    def crash(self) -> None:
        """The process is gone at some moment between two writes; another one looks at what is left."""
        for keeper in self.live._keeping.values():
            with keeper._working:
                keeper._closed = True
        self.live._thread.close()
        self.forget()
        self.live = LiveStore(self.make())
        for id, kept in list(self.kept.items()):
            kept.lines, kept.hand = kept.lines[: kept.written], None
            assert self._stored(id) == kept.lines, id
            kept.flushed()
            if not kept.lines:
                self._begin_anew(id)

    @rule(id=consumes(ids))
    def drop_id(self, id: str) -> None:
        """Fewer ids to choose from later."""

    @invariant()
    def readable(self) -> None:
        type(self).steps += 1
        for id, kept in self.kept.items():
            assert kept.durable <= kept.written <= len(kept.lines)
            assert self._stored(id) == kept.lines[: kept.written], id

    @rule()
    def verify(self) -> None:
        """Nothing of how a log was kept is wrong, and every seal holds."""
        self.check_files()

    def check_files(self) -> None: ...

    def teardown(self) -> None:
        self.run(self.live.close())
        for id in list(self.kept):
            assert self._stored(id) == self.kept[id].lines
        self.check_files()
        self.forget()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    # -- the model ----------------------------------------------------------------------------------------------

    def _take_in(self, session: Session, seed: int) -> None:
        kept = self.kept[session.id] = Kept([])
        kept.hand = Hand(session, random.Random(seed))
        kept.accept()

    def _let_go(self, id: str) -> None:
        kept = self.kept[id]
        kept.hand = None
        kept.flushed()
        assert self._stored(id) == kept.lines
        if not kept.lines:
            self._begin_anew(id)

    def _begin_anew(self, id: str) -> None:
        """A session that never had an event was never there."""
        del self.kept[id]

    def _stored(self, id: str) -> list[bytes]:
        try:
            session = open_stored(self.live.store, id, vocabulary=WITH_PLUGINS)
        except SessionNotFound:
            return []
        return [event.line() for event in session.events]


class MemoryMachine(Machine):
    """In memory: the store outlives the sessions, as a test double does."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryStore()

    def make(self) -> Store:
        return self.memory

    def _begin_anew(self, id: str) -> None:
        """Memory keeps a session from its creation on."""

    def resume(self, id: str) -> None:
        kept = self.kept.get(id)
        if kept is not None and not kept.lines:
            return
        super().resume(id)


class FileMachine(Machine):
    """On files; a store anew is another process."""

    compressed: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="turnlog-state-"))
        self.files: FileStore | None = None

    def make(self) -> Store:
        self.files = FileStore(self.root, compressed=self.compressed)
        return self.files

    def forget(self) -> None:
        if self.files is not None:
            self.files.close()

    def check_files(self) -> None:
        for log in [path for path in self.root.glob("*/*/session.jsonl*") if path.suffix != ".tmp"]:
            report = verify(log, vocabulary=WITH_PLUGINS)
            faults = [one for one in report.findings if one.severity != "note" and one.code != "history"]
            assert not faults, faults
            assert report.proof.state in ("none", "proven", "unsealed"), report.proof

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            shutil.rmtree(self.root)


class ZstdMachine(FileMachine):
    """On compressed files."""

    compressed = True


@pytest.mark.proof
@pytest.mark.parametrize("machine", [MemoryMachine, FileMachine, ZstdMachine])
def test_a_store_behaves_like_its_model(
    machine: type[Machine], record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WRITE_WITHIN", "SYNC_WITHIN", "SEAL_WITHIN", "RETRY_WITHIN"):
        monkeypatch.setattr(behind, name, 10**6)  # only rules write
    machine.runs = machine.steps = 0
    run_state_machine_as_test(machine, settings=settings(max_examples=RUNS, stateful_step_count=STEPS))
    name = machine.__name__.removesuffix("Machine").lower()
    record_property("proof", f"state machine, {name} store: {machine.runs:,} runs, {machine.steps:,} steps")
