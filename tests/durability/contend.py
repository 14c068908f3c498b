"""Several processes want to write the same session; runs in a process without threads, which forks them.

Every event says who wrote it, so that mixed histories show.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

from tests.log.sessions import user
from turnlog.events import UserMessage
from turnlog.log import Session
from turnlog.store import (
    AppendConflict,
    FileStore,
    LiveStore,
    SessionLocked,
    StoredSession,
    load,
    verify,
)
from turnlog.store.liveness import LOCK_NAME

PATIENCE: Final = 120.0
Say = Callable[..., None]
Play = Callable[["Stage", str, Say], Coroutine[Any, Any, None]]


class Stage:
    """A root, a session id, and two pipes that start and end all players at once."""

    def __init__(self, root: Path, *, compressed: bool) -> None:
        self.root = root
        self.compressed = compressed
        self.session_id = "s"
        self._gates = {name: os.pipe() for name in ("go", "stop")}

    def wait(self, gate: str) -> None:
        """In a player: until the gate is opened."""
        os.read(self._gates[gate][0], 1)

    def open(self, gate: str) -> None:
        """Let everybody through who waits or will wait."""
        os.close(self._gates[gate][1])

    def enter(self) -> None:
        """In a new player: keep no gate open."""
        for _ours, theirs in self._gates.values():
            os.close(theirs)

    def leave(self) -> None:
        for ours, theirs in self._gates.values():
            os.close(ours)
            with contextlib.suppress(OSError):
                os.close(theirs)

    def store(self, **options: Any) -> LiveStore:
        return LiveStore(FileStore(self.root, compressed=self.compressed, **options))

    @property
    def log(self) -> Path:
        return next(path for path in self.root.glob("*/*/session.jsonl*") if path.suffix in (".jsonl", ".zstd"))


class Player:
    """A forked process, and what it says."""

    def __init__(self, stage: Stage, name: str, play: Play) -> None:
        self.name = name
        self._ours, theirs = os.pipe()
        self._text = b""
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._ours)
                stage.enter()

                def say(**what: Any) -> None:
                    os.write(theirs, json.dumps(what).encode() + b"\n")

                try:
                    asyncio.run(play(stage, name, say))
                except BaseException:
                    say(broke=traceback.format_exc())
            finally:
                os._exit(0)
        os.close(theirs)

    def hear(self) -> dict[str, Any]:
        """The next thing it says."""
        while b"\n" not in self._text:
            assert select.select([self._ours], [], [], PATIENCE)[0], f"player {self.name} says nothing"
            data = os.read(self._ours, 1 << 16)
            assert data, f"player {self.name} ended without a word"
            self._text += data
        line, self._text = self._text.split(b"\n", 1)
        told: dict[str, Any] = json.loads(line)
        assert "broke" not in told, f"player {self.name}: {told['broke']}"
        return told

    def end(self) -> None:
        os.close(self._ours)
        os.waitpid(self.pid, 0)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGKILL)


def tagged(name: str, number: int) -> UserMessage:
    return user(name, f"{name}-{number}")


def tags(session: Session) -> list[str]:
    """Who wrote each message."""
    return [event.data.content[0].text for event in session.select(UserMessage)]  # type: ignore[union-attr]


# -- players ------------------------------------------------------------------------------------------------------


async def resume(stage: Stage, name: str, say: Say) -> None:
    """Resume the session and keep it until the end."""
    _ready(stage, say)
    await _resume(stage, name, say)


def _ready(stage: Stage, say: Say) -> None:
    say(ready=True)
    stage.wait("go")


async def _resume(stage: Stage, name: str, say: Say) -> None:
    async with stage.store() as store:
        try:
            session = await store.resume(stage.session_id)
        except SessionLocked as error:
            say(lost="SessionLocked", why=str(error))
            stage.wait("stop")
            return
        await _win(stage, session, name, say)


async def create(stage: Stage, name: str, say: Say) -> None:
    """Create the session and keep it until the end."""
    store = stage.store()
    session = await store.create(id=stage.session_id, cwd="/race")
    _ready(stage, say)
    await _first(stage, store, session, name, say)


async def create_or_resume(stage: Stage, name: str, say: Say) -> None:
    """Whatever is possible."""
    _ready(stage, say)
    store = stage.store()
    try:
        session = await store.create(id=stage.session_id, cwd="/race")
    except AppendConflict:
        await store.close()
        await _resume(stage, name, say)
    else:
        await _first(stage, store, session, name, say)


async def _first(stage: Stage, store: LiveStore, session: Session, name: str, say: Say) -> None:
    """The first append decides who has created the session."""
    session.append(tagged(name, -1))
    try:
        await session.durable()
    except (SessionLocked, AppendConflict) as error:
        say(lost=type(error).__name__, why=str(error))
        stage.wait("stop")
        with contextlib.suppress(SessionLocked, AppendConflict):
            await store.close()
        return
    await _win(stage, session, name, say)
    await store.close()


async def _win(stage: Stage, session: Session, name: str, say: Say) -> None:
    for number in range(5):
        session.append(tagged(name, number))
        await session.durable()
    say(won=os.getpid())
    stage.wait("stop")


async def turns(stage: Stage, name: str, say: Say) -> None:
    """Resume as soon as nobody else writes; write a little, and let the next one."""
    _ready(stage, say)
    refused = 0
    for turn in range(3):
        while True:
            store = stage.store()
            try:
                session = await store.resume(stage.session_id)
                break
            except SessionLocked:
                refused += 1
                await store.close()
                await asyncio.sleep(0.001)
        for number in range(4):
            session.append(tagged(f"{name}{turn}", number))
            if number % 2:
                await session.durable()
        await store.close()
    say(refused=refused)


async def zombie(stage: Stage, name: str, say: Say) -> None:
    """Write until told that somebody else writes."""
    store = stage.store()
    session = await store.resume(stage.session_id)
    say(started=True)
    dice = random.Random(name)
    durable = 0
    for number in itertools.count():
        session.append(tagged(name, number))
        try:
            if dice.random() < 0.3:
                durable = (await session.durable()).length
            else:
                await asyncio.sleep(0.002)
        except AppendConflict as error:
            say(lost=type(error).__name__, durable=durable, why=str(error))
            break
    for _ in range(3):  # and it stays so
        session.append(tagged(name, 10**6))
        try:
            await session.durable()
            say(broke="a fenced writer wrote")
        except AppendConflict:
            pass
    with contextlib.suppress(AppendConflict):
        await store.close()
    say(ended=True)


async def heir(stage: Stage, name: str, say: Say) -> None:
    """Take the session over from a writer whose lock file was replaced, and go on when told."""
    store = stage.store(adopt=True)
    session = await store.resume(stage.session_id)
    inherited = len(session)
    for number in range(3):
        session.append(tagged(name, number))
        await session.durable()
    say(took=inherited)
    stage.wait("go")  # the zombie was revived, and has noticed
    for number in range(3, 6):
        session.append(tagged(name, number))
        await session.durable()
    await store.close()
    say(ended=len(session))


# -- races --------------------------------------------------------------------------------------------------------


async def _seed(stage: Stage) -> None:
    async with stage.store() as store:
        session = await store.create(id=stage.session_id, cwd="/race")
        session.append(tagged("seed", 0))


def _all_ready(stage: Stage, players: list[Player]) -> None:
    """Let all go at once."""
    for player in players:
        assert player.hear() == {"ready": True}
    stage.open("go")


def one_winner(stage: Stage, play: Play, seed: int, *, exists: bool) -> Counter[str]:
    """All at once: one wins, the others are told why not, and only the winner's events are there."""
    if exists:
        asyncio.run(_seed(stage))
    players = [Player(stage, f"p{number}", play) for number in range(2 + seed % 3)]
    try:
        _all_ready(stage, players)
        told = {player.name: player.hear() for player in players}
        winners = [name for name, what in told.items() if "won" in what]
        assert len(winners) == 1, told
        owner = (f"pid {told[winners[0]]['won']} ", "another process")  # the second before it has written its name
        for what in told.values():
            assert what.get("lost") != "SessionLocked" or any(one in what["why"] for one in owner), what
        wrote = tags(_sound(stage.log, "none"))  # the first seal may be on its way
        assert set(wrote) == {winners[0], *(["seed"] if exists else [])}, wrote
        stage.open("stop")
        for player in players:
            player.end()
        assert tags(_sound(stage.log)) == wrote
        return Counter(what.get("lost", "won") for what in told.values())
    finally:
        for player in players:
            player.kill()


def taking_turns(stage: Stage, seed: int) -> Counter[str]:
    """Each gets its turns; no two overlap, no event is lost."""
    asyncio.run(_seed(stage))
    players = [Player(stage, f"p{number}", turns) for number in range(2 + seed % 2)]
    try:
        _all_ready(stage, players)
        refused = sum(player.hear()["refused"] for player in players)
        for player in players:
            player.end()
        wrote = [name for name, group in itertools.groupby(tags(_sound(stage.log))) for _ in [list(group)]]
        counts = Counter(tags(_sound(stage.log)))
        assert sorted(wrote) == sorted({*wrote}), f"turns overlap: {wrote}"
        assert counts == {"seed": 1, **{f"{player.name}{turn}": 4 for player in players for turn in range(3)}}
        return Counter({"won": len(players) * 3, "SessionLocked": refused})
    finally:
        for player in players:
            player.kill()


def revived(stage: Stage, seed: int) -> Counter[str]:
    """A writer is stopped, its lock file is replaced, another one takes over, the first is revived."""
    dice = random.Random(seed)
    asyncio.run(_seed(stage))
    first = Player(stage, f"zombie{seed}", zombie)
    players = [first]
    try:
        first.hear()
        time.sleep(dice.random() * 0.06)
        os.kill(first.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, first.pid, os.WSTOPPED)
        lock = stage.log.with_name(LOCK_NAME)
        assert load(stage.log).liveness == "live"
        if dice.random() < 0.5:
            lock.unlink()
        else:
            lock.with_name("other").touch()
            lock.with_name("other").rename(lock)
        second = Player(stage, "heir", heir)
        players.append(second)
        inherited = second.hear()["took"]
        os.kill(first.pid, signal.SIGCONT)
        lost = first.hear()
        assert lost["lost"] == "ConcurrentWriter", lost
        assert lost["durable"] <= inherited, "what the stopped writer was promised is inherited"
        first.hear()
        stage.open("go")
        length = second.hear()["ended"]
        session = _sound(stage.log)
        assert len(session) == length
        who = [name for name, _group in itertools.groupby(tags(session))]
        assert who in (["seed", first.name, "heir"], ["seed", "heir"]), who
        return Counter({"won": 1, "ConcurrentWriter": 1})
    finally:
        for player in players:
            player.kill()
            player.end()


def _sound(path: Path, *proofs: str) -> StoredSession:
    session = load(path)
    report = verify(path)
    assert report.verdict == "ok", report.findings
    assert report.proof.state in ("proven", "unsealed", *proofs), report.proof
    return session


def races() -> Iterator[tuple[str, Callable[[Stage, int], Counter[str]]]]:
    """The kinds of races, again and again."""
    return itertools.cycle(
        [
            ("resume", lambda stage, seed: one_winner(stage, resume, seed, exists=True)),
            ("zombie", revived),
            ("create", lambda stage, seed: one_winner(stage, create, seed, exists=False)),
            ("turns", taking_turns),
            ("zombie", revived),
            ("either", lambda stage, seed: one_winner(stage, create_or_resume, seed, exists=False)),
        ]
    )


def main(directory: str, count: str, first: str = "0") -> None:
    """Run so many races; prints how often who won and lost."""
    kinds: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for seed, (kind, race) in zip(range(int(first), int(first) + int(count)), races(), strict=False):
        stage = Stage(Path(directory) / f"{seed}-{kind}", compressed=seed % 4 == 3)
        try:
            outcomes += race(stage, seed)
        except BaseException:
            print(f"race {seed}, {kind}, in {stage.root}", file=sys.stderr)
            raise
        kinds[kind] += 1
        stage.leave()
    print(json.dumps({"kinds": kinds, "outcomes": outcomes}))
