"""Random workloads on the real storage code, crashed everywhere.

A *run* is one workload (a seed) on one file system with one set of faults. It writes like the write-behind does:
batches of a live session's events, barriers with seals, retries after errors; in between the process is released,
killed or loses power, and the session is resumed. At every call the machine may crash there: every loss is enumerated,
and what the storage code makes of it is compared with what it promised (:meth:`Run.promises`).

A *state* is one loss at one crash point of one run, and has a number; ``replay(number)`` gives it again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from tests.log.sessions import HEADER as ROUTE
from tests.log.sessions import answer, call, chunk, result, user
from turnlog.events import (
    Completed,
    Payload,
    RequestHeader,
    StepEnd,
    StepStart,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    TurnEnd,
    TurnStart,
    Vocabulary,
)
from turnlog.log import Session
from turnlog.store.attest import RunningHash, attest_line
from turnlog.store.encode import lines_of
from turnlog.store.errors import LogCorrupt, WriteFailed
from turnlog.store.files import FileStore
from turnlog.store.load import stored_session
from turnlog.store.read import read_log
from turnlog.store.source import Source

from .losses import ATTEST, KILLED, MIXED, Image, Loss, losses
from .recovery import (
    DIRECTORY,
    HEADER,
    HOLES,
    ID,
    PLACE,
    ROOT,
    Locks,
    Recovered,
    Violation,
    check_seals,
    name_of,
    path_of,
    reboot,
    recover,
    take,
)
from .simfs import KINDS, Fault, File, Killed, SimFs, Write

_OUTCOMES: Final = 1_000
_POINTS: Final = 10_000
_FAULTS: Final = 10_000


@dataclass(frozen=True)
class Storage:
    """The code that is tried; mutants replace parts of it."""

    store: type[FileStore] = FileStore
    seals_pending: bool = False
    """Plants a bug: a seal also covers what the store has refused."""
    seals_early: bool = False
    """Plants a bug: a seal is written before what it attests is durable."""


class State(NamedTuple):
    """The address of one state."""

    workload: int
    fault: int
    point: int
    loss: int

    @property
    def number(self) -> int:
        return ((self.workload * _FAULTS + self.fault) * _POINTS + self.point) * _OUTCOMES + self.loss

    @classmethod
    def of(cls, number: int) -> State:
        rest, loss = divmod(number, _OUTCOMES)
        rest, point = divmod(rest, _POINTS)
        workload, fault = divmod(rest, _FAULTS)
        return cls(workload, fault, point, loss)


class Found(BaseException):
    """The state that a replay looks for."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss)
        self.loss = loss


class Checker:
    """Recovers images, each once, and counts states."""

    def __init__(self, storage: Storage, density: float = 1.0) -> None:
        """*density*: how many of the losses at each crash point are tried."""
        self.storage = storage
        self.density = density
        self.states = 0
        self.images = 0
        self.refused = 0
        """States whose log has a hole, is refused by name and keeps its durable events readable."""
        self._known: dict[tuple[bool, Image], Recovered] = {}
        self._nested: set[tuple[bool, Image, int]] = set()

    def forget(self) -> None:
        """A new workload has other images."""
        self._known.clear()
        self._nested.clear()

    def __call__(self, loss: Loss, run: Run) -> None:
        self.states += 1
        key = (run.compressed, loss.image)
        found = self._known.get(key)
        if found is None:
            self.images += 1
            try:
                found = self._known[key] = recover(loss.image, run.compressed, self.storage.store)
            except Violation:
                raise
            except Exception as error:
                raise Violation(f"the recovery fails: {error!r}") from error
        if found.refused is not None:
            self.refused += 1
        run.compare(found, loss.kind)
        nested = (*key, run.durable)
        if found.nested and nested not in self._nested:
            self._nested.add(nested)
            for kind, image in found.nested:
                # killed while it recovers: what was written but won from a torn frame may be gone
                self(Loss(max(kind, 1), image), run)


class Run:
    """One workload with one set of faults."""

    def __init__(
        self,
        state: State,
        faults: tuple[Fault, ...],
        check: Checker,
        *,
        replay: bool = False,
        unwatched: bool = False,
    ) -> None:
        """*replay* stops at *state*; *unwatched* only runs the workload, without crashes."""
        self._density = check.density
        self.state = state
        self.compressed = state.workload % 2 == 1
        self._check = check
        self._replay = replay
        self._random = Random(state.workload)
        self._losses = Random(state._replace(point=0, loss=0).number)  # as when the states were gone through
        self._first_call = 1 << 30 if unwatched else min((fault.at for fault in faults), default=0)
        self._point = 0
        self.fs = SimFs(faults, state.workload)
        self.fs.before = self.crash
        self.fs.tearing = self._tear
        self._kill_in: int | None = None
        self.locks = Locks()
        self.lines: list[bytes] = []
        """The own line of every event that was handed to the store."""
        self.former: list[bytes] = []
        """The lines of an earlier life whose file had no name any more; a power cut may give it back."""
        self.durable = 0
        """How many of them were promised to survive power loss."""
        self.written = 0
        """How many of them were promised to survive a kill."""
        self._count = 0
        self._failed = False
        self._session: Session
        self._script: Iterator[tuple[Payload, list[int] | None]]
        self._hash: RunningHash
        self._over = False

    # -- crashes ------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The machine may crash here: try every loss. Or the process is to be killed here."""
        if self._kill_in is not None and not self.fs.dead:
            self._kill_in -= 1
            if self._kill_in < 0:
                self.fs.dead = True
                raise Killed
        if self.fs.dead or len(self.fs.calls) < self._first_call:
            return  # before its first fault a run is the one without faults
        self._point += 1
        for number, loss in enumerate(losses(self.fs, PLACE, name_of(self.compressed), self._losses)):
            if number > 1 and self._density < 1 and self._losses.random() > self._density:
                continue
            here = self.state._replace(point=self._point, loss=number)
            if self._replay and here == self.state:
                raise Found(loss)
            try:
                self._check(loss, self)
            except Violation as error:
                raise Violation(f"{error}\nseed {here.number}: {here}, {_shown(loss)}") from error

    def _tear(self, file: File, data: bytes) -> None:
        """The process may be killed half way through a write."""
        if self._kill_in == 0 and self._random.random() < 0.7:
            part = self._random.randrange(len(data))
            if part:
                file.do(Write(len(file.cache), data[:part]))
            self.fs.dead = True
            raise Killed

    def compare(self, found: Recovered, kind: int) -> None:
        """Compare what came out of a crash with what was promised."""
        count = len(found.lines)
        if found.refused is not None:
            if kind != MIXED:
                raise Violation(f"a log without holes is refused: {found.refused}")
            if found.refused not in HOLES:
                raise Violation(f"a hole is called {found.refused}")
            count = min(count, len(self.lines))
        if not self.durable and found.lines == self.former[: len(found.lines)]:
            return
        if found.lines[:count] != self.lines[:count] or count > len(self.lines):
            raise Violation(f"events that were never written: {found.lines[len(self.lines) :] or 'others'}")
        if count < self.durable:
            raise Violation(f"{self.durable - count} durable events are lost")
        if kind == KILLED and count < self.written and not self.fs.sync_failed:
            raise Violation(f"{self.written - count} written events are lost without a power cut")

    # -- the workload -------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Run the whole workload. Raises :class:`Violation`."""
        try:
            self._begin()
            for number in range(self._random.randrange(6, 13)):
                step = self._random.choice(_STEPS if number else _FIRST)
                try:
                    step(self)
                except Killed:
                    self._killed()
                if self._over:
                    return
                self.crash()
            self._write(until_done=True)
            self._sync(until_done=True)
            self.crash()
        except Violation:
            raise
        except WriteFailed:
            self.crash()  # a fault that does not end
        except Exception as error:
            raise Violation(f"{error!r} escapes in {self.state}") from error

    def _open(self) -> FileStore:
        self._store = self._check.storage.store(ROOT, compressed=self.compressed, fs=self.fs, lock=self.locks)
        return self._store

    def _begin(self) -> None:
        self._open().create(HEADER)
        self.former = self.lines or self.former
        self._go_on_with(Session(header=HEADER, clock=itertools.count(1000).__next__))
        self.lines = []
        self.durable = self.written = self._count = 0

    def _go_on_with(self, session: Session) -> None:
        self._session = session
        self._unsealed: RunningHash | None = None
        self._hash = RunningHash(HEADER)
        self._hash.extend(session.events)
        self._script = script(session, self._random)

    def talk(self) -> None:
        """Events are accepted."""
        for payload, sources in itertools.islice(self._script, self._random.randrange(1, 7)):
            self._session.append(payload, sources=sources)  # type: ignore[call-overload]

    def write(self) -> None:
        self.talk()
        self._write()

    def _write(self, *, until_done: bool = False) -> None:
        batch = self._session.events[self._hash.length :]
        own = [event.line() for event in batch]
        self.lines[self._hash.length :] = own
        if own and self._failed and self._random.random() < 0.5:  # a caller may give less after a failure
            own = own[: self._random.randrange(1, len(own) + 1)]
            batch = batch[: len(own)]
        for _ in range(4 if until_done else 1):
            try:
                self._count = self._store.append(ID, self._count, lines_of(batch))
            except WriteFailed:
                self._failed = True
                self._note_failure()
                continue
            self._failed = False
            self._hash.extend_lines(own)
            self._note_failure()
            self.written = self._hash.length
            self._seal()
            return
        if until_done:
            raise WriteFailed("for good")

    def _seal(self) -> None:
        if self._unsealed is not None:
            self._store.attest(ID, attest_line(self._unsealed.seal(1)))
            self._unsealed = None

    def _note_failure(self) -> None:
        """After a failed sync the disk has broken the promise that a kill loses nothing, until the next one."""
        if self.fs.sync_failed:
            self.written = self.durable

    def sync(self) -> None:
        self._write()
        self._sync()

    def _sync(self, *, until_done: bool = False) -> None:
        length, sealed = self._hash.length, self._hash.copy()
        if length == self.durable:
            return
        if self._check.storage.seals_pending:
            sealed.extend(self._session.events[length:])
        for _ in range(4 if until_done else 1):
            try:
                if self._check.storage.seals_early:
                    self._store.attest(ID, attest_line(sealed.seal(1)))
                self._store.sync(ID)
            except WriteFailed:
                self._note_failure()
                continue
            self.fs.sync_failed = False
            self.durable = self.written = length
            self._unsealed = sealed
            if self._random.random() < 0.7:  # else later: when more is written, or never
                self._seal()
            return
        if until_done:
            raise WriteFailed("for good")

    def release(self) -> None:
        self._store.close()
        self._resume()

    def kill(self) -> None:
        """The process is killed between two calls, or half way through a write."""
        self.talk()
        self._kill_in = self._random.randrange(14)
        self._write()
        self._sync()
        raise Killed

    def _killed(self) -> None:
        self.fs.dead, self._kill_in = False, None
        self.crash()
        self._restart()

    def cut_power(self) -> None:
        if self._random.random() < 0.5:
            self.write()
        chosen = list(losses(self.fs, PLACE, name_of(self.compressed), self._random))
        loss = self._random.choice([one for one in chosen if one.kind != MIXED] or chosen)
        reboot(self.fs, loss.image, self.compressed)
        self.written = self.durable
        self._restart()

    def _restart(self) -> None:
        self.locks.forget()
        if self._random.random() < 0.7:  # else a writer that nobody can see still holds the file
            self.fs.let_go()
        self._resume()

    def _resume(self) -> None:
        """Take the session over as a fresh process would, as often as the disk makes it try."""
        self._note_failure()
        try:
            there = self.fs.file(path_of(self.compressed)).read()
        except FileNotFoundError:
            if self.durable:
                raise Violation(f"{self.durable} durable events are lost with their file") from None
            self._begin()
            return
        self._open()
        for _ in range(4):
            try:
                take(self._store, self.compressed)
                break
            except LogCorrupt as error:
                if self.fs.sync_failed or b"\0" in there:
                    self._over = True  # an operator has to repair it
                    return
                raise Violation(f"cannot be resumed: {error}") from error
            except WriteFailed:
                self._note_failure()
        else:
            raise WriteFailed("for good")
        data = self.fs.file(path_of(self.compressed)).cache
        log = read_log(Source(data))
        stored = stored_session(log, Vocabulary.core, None, "gone")
        lines = [event.line() for event in stored.events]
        if lines != self.lines[: len(lines)] or not self.durable <= len(lines):
            raise Violation("a resumed session is not the one that was written")
        if self.fs.directory(DIRECTORY).names.get(ATTEST) is not None:
            check_seals(log, self.fs.read(DIRECTORY / ATTEST), "proven", "unsealed")
        self.lines = lines
        self.durable = self.written = len(lines)
        self.fs.sync_failed = False
        self._count = self._store.append(ID, None, ())
        self._go_on_with(Session.resumed(stored, clock=itertools.count(5000).__next__))
        self._session.settle()


_STEPS: Final[tuple[Callable[[Run], None], ...]] = (
    *[Run.write] * 5,
    *[Run.sync] * 4,
    Run.release,
    Run.kill,
    Run.cut_power,
)

_FIRST: Final = (Run.write, Run.sync, Run.kill)


def script(session: Session, random: Random) -> Iterator[tuple[Payload, list[int] | None]]:
    """A conversation without end: turns with a stream, an answer, perhaps a call."""
    first = sum(1 for _ in session.select(TurnStart)) + 1
    for turn in itertools.count(first):
        yield TurnStart(turn=turn), None
        yield user(random.choice(("hi", "wörld ", "x" * 200)), f"m{turn}"), None
        yield StepStart(turn=turn, step=1), None
        if turn == first:
            yield RequestHeader(header=ROUTE, reason="initial"), None
        start, text = len(session), ""
        for _ in range(random.randrange(6)):
            text += "ab"
            yield chunk(TextDelta(index=0, text="ab"), turn=turn), None
        cited = list(range(start, len(session)))
        if random.random() < 0.5:
            yield answer(TextBlock(text), turn=turn, id=f"a{turn}"), cited
        else:
            asked = ToolCallBlock(id=f"c{turn}", name="read", arguments="{}")
            yield answer(TextBlock(text), asked, turn=turn, id=f"a{turn}"), cited
            yield call(f"c{turn}", turn=turn), None
            yield result(f"c{turn}", turn=turn, id=f"r{turn}"), None
        yield StepEnd(turn=turn, step=1), None
        yield TurnEnd(turn=turn, reason=Completed()), None


def _shown(loss: Loss) -> str:
    """The end of a loss's files."""
    log, attest, temporary = loss.image
    return f"kind {loss.kind}, log …{(log or b'none')[-400:]!r}, attest …{(attest or b'none')[-120:]!r}, {temporary}"


# -- exploring ----------------------------------------------------------------------------------------------------


def faults_of(calls: list[str], workload: int) -> list[tuple[Fault, ...]]:
    """The faults to try on a workload that makes *calls*: each call, each way to fail; short, in bursts, twice."""
    random = Random(workload)
    found: list[tuple[Fault, ...]] = []
    for at, made in enumerate(calls):
        for kind in KINDS[made]:
            found.append((Fault(at, kind),))
            if random.random() < 0.4:
                found.append((Fault(at, kind, random.choice((2, 3, 6, 1000))),))
            if random.random() < 0.4:
                again = at + random.randrange(1, 8)
                found.append((Fault(at, kind), Fault(again, random.choice(("eio", "enospc", "short-enospc")))))
    return found


def explore(
    workload: int, check: Checker, *, only: Container[str] = KINDS, share: float = 1.0, faultless: bool = True
) -> None:
    """One workload without faults (if *faultless*), then with each, or a *share*, of its faults in *only* some calls.

    Raises :class:`Violation`.
    """
    check.forget()
    run = Run(State(workload, 0, 0, 0), (), check, unwatched=not faultless)
    run.go()
    random = Random(workload)
    for number, faults in enumerate(faults_of(run.fs.calls, workload), 1):
        if random.random() < share and run.fs.calls[faults[0].at] in only:
            Run(State(workload, number, 0, 0), faults, check).go()


def replay(number: int, storage: Storage | None = None) -> Loss:
    """The state with this number: what the crash left."""
    state = State.of(number)
    check = Checker(storage or Storage())
    faults: tuple[Fault, ...] = ()
    if state.fault:
        run = Run(State(state.workload, 0, 0, 0), (), check, unwatched=True)
        run.go()
        faults = faults_of(run.fs.calls, state.workload)[state.fault - 1]
    try:
        Run(state, faults, check, replay=True).go()
    except Found as found:
        return found.loss
    raise LookupError(f"no state {number}: {state}")
