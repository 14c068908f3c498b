"""A program that writes sessions as fast as it can, and tells what it was promised.

It runs in a process of its own, which somebody kills. What it was promised goes over a pipe, as JSON lines: ``written``
(the lines of a batch, once the store's ``append`` returned) and ``durable`` (how many events, once a barrier returned).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.log import reference
from tests.log.sessions import WITH_PLUGINS
from tests.log.strategies import Writer
from turnlog.events import AssistantChunk, TextDelta
from turnlog.log import Session
from turnlog.store import FileStore, LiveStore, open_store

Tell = Callable[[dict[str, Any]], None]

LONGEST: Final = 400
"""Events of a session, after which another one is begun: the random writer's reference is slow."""


def pipe_to(descriptor: int) -> Tell:
    """Says things over a pipe. What is longer than a pipe takes at once may be torn by a kill."""

    def tell(what: dict[str, Any]) -> None:
        data = json.dumps(what).encode() + b"\n"
        while data:
            data = data[os.write(descriptor, data) :]

    return tell


class Telling(FileStore):
    """A file store that tells every batch that it wrote."""

    tell: Tell

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        count = super().append(session_id, expected, lines)
        if lines:
            self.tell({"written": session_id, "from": count - len(lines), "lines": [line.decode() for line in lines]})
        return count


def telling_store(root: Path, tell: Tell, *, compressed: bool) -> LiveStore:
    """What ``turnlog.open_store`` gives, telling."""
    store = open_store(root, compressed=compressed)
    files = Telling(root, compressed=compressed)
    files.tell = tell
    store.store = files
    return store


class Hand:
    """Writes random events to one session."""

    def __init__(self, session: Session, dice: random.Random) -> None:
        self._dice = dice
        self._writer = Writer(b"")
        self._writer.session = self.session = session
        self._writer._number = dice.randrange(10**9)
        self._writer.log = reference.read(event.line() for event in session.events)
        self._writer.nesting = reference.nesting(self._writer.log)

    def act(self) -> None:
        """Append a few events of any kind that may come now."""
        self._writer._tape = iter(self._dice.randbytes(40))
        at = self._writer.nesting
        if at.step is not None and self._dice.random() < 0.2:
            for number in range(self._dice.randrange(2, 40)):
                delta = TextDelta(0, f"word {number} ")
                self._writer._append(AssistantChunk(turn=at.turn or 0, step=at.step, chunk=delta))
        else:
            self._writer._act(self._dice.randrange(256))


async def write_for_ever(root: Path, seed: int, tell: Tell, *, compressed: bool) -> None:
    """Write sessions until somebody ends the process."""
    dice = random.Random(seed)
    store = telling_store(root, tell, compressed=compressed)
    hands: list[Hand] = []
    while True:
        if not hands or (len(hands) < 3 and dice.random() < 0.1):
            hands.append(Hand(await store.create(cwd="/kill", vocabulary=WITH_PLUGINS), dice))
        hand = dice.choice(hands)
        for _ in range(dice.randrange(1, 12)):
            hand.act()
        what = dice.random()
        if what < 0.5:
            tell({"durable": hand.session.id, "events": (await hand.session.durable()).length})
        elif what < 0.7:
            await asyncio.sleep(dice.random() * 0.03)
        elif what < 0.75 and len(hand.session):  # one without events is nowhere
            await store.release(hand.session)
            tell({"durable": hand.session.id, "events": len(hand.session)})
            hands.remove(hand)
            hands.append(Hand(await store.resume(hand.session.id, vocabulary=WITH_PLUGINS), dice))
        if len(hand.session) > LONGEST:
            hands = [one for one in hands if one.session.id != hand.session.id]


def main(root: str, seed: str, encoding: str) -> None:
    """For a process of its own: tells on descriptor 1."""
    asyncio.run(write_for_ever(Path(root), int(seed), pipe_to(1), compressed=encoding == "zstd"))
