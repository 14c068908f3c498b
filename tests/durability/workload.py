"""A fixed piece of work on a store, which goes on after refusals: for faults at each of its system calls.

It tells over a socket, because ``write`` is what fails.
"""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any, Final

from tests.durability.load import Tell, telling_store
from tests.log.sessions import WITH_PLUGINS, answer, asks, call, chunk, close_step, close_turn, result, user
from turnlog.events import StepStart, TextBlock, TextDelta, TurnStart
from turnlog.log import Session
from turnlog.store import ConcurrentWriter, LiveStore, WriteFailed

TRIES: Final = 4


async def work(root: Path, tell: Tell, *, compressed: bool) -> None:
    """Create, write, release, resume, write, fork, both take turns; some barriers wait, some events are only written.

    How many calls this makes should hang on no clock: what waits for nothing is written with what does."""
    store = telling_store(root, tell, compressed=compressed)
    session = await store.create(id="s", cwd="/fixed", vocabulary=WITH_PLUGINS)
    session.append(user("hello", "m0"))
    await _durable(session, tell)
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    await asyncio.sleep(0.03)
    for number in range(8):
        session.append(chunk(TextDelta(0, f"word {number} ")))
    await _durable(session, tell)
    session.append(asks("c1", id="a1"))
    session.append(call("c1"))
    await _durable(session, tell)
    session.append(result("c1"))
    session.append(chunk(TextDelta(0, "cut off ")))
    await store.release(session)
    tell({"durable": "s", "events": len(session)})
    session = await _resumed(store, "s")
    tell({"durable": "s", "events": len(session)})
    session.append(user("again", "m1"))
    await _durable(session, tell)
    child = session.fork(4, id="t")
    store.keep(child)
    await _durable(child, tell)
    await store.release(child)
    tell({"durable": "t", "events": len(child)})
    child = await _resumed(store, "t")
    tell({"durable": "t", "events": len(child)})
    for turn in range(2, 6):
        for one in (session, child):
            await _turn(one, turn, tell)
    await store.close()
    for one in (session, child):
        tell({"durable": one.id, "events": len(one)})


async def _turn(session: Session, turn: int, tell: Tell) -> None:
    """A prompt that is durable before it is answered, and its answer."""
    session.append(TurnStart(turn=turn))
    session.append(StepStart(turn=turn, step=1))
    await _durable(session, tell)
    session.append(answer(TextBlock("hi"), turn=turn, id=f"a{turn}"))
    close_step(session, turn=turn)
    close_turn(session, turn=turn)
    if turn % 2:
        await _durable(session, tell)


async def _durable(session: Session, tell: Tell) -> None:
    """Wait until it is durable; a refused batch is asked for again."""
    for _ in range(TRIES):
        try:
            reached = await session.durable()
        except WriteFailed as error:
            tell({"refused": str(error)})
            continue
        tell({"durable": session.id, "events": reached.length})
        return
    raise AssertionError(f"session {session.id} was refused {TRIES} times")


async def _resumed(store: LiveStore, session_id: str) -> Session:
    for _ in range(TRIES):
        try:
            return await store.resume(session_id, vocabulary=WITH_PLUGINS)
        except WriteFailed:
            continue
    raise AssertionError(f"resuming {session_id} was refused {TRIES} times")


def main(root: str, encoding: str, descriptor: str) -> None:
    """For a process of its own: tells on a socket that it inherits; exits with 3 when it was refused for good."""
    connection = socket.socket(fileno=int(descriptor))

    def tell(what: dict[str, Any]) -> None:
        connection.sendall(json.dumps(what).encode() + b"\n")

    try:
        asyncio.run(work(Path(root), tell, compressed=encoding == "zstd"))
    except (WriteFailed, ConcurrentWriter) as error:
        tell({"stopped": type(error).__name__, "why": str(error)})
        raise SystemExit(3) from error
