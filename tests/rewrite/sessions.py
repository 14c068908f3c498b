"""Sessions to be rewritten: written by us, laid out by hand, or copied from what was reported."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.cases.inputs import case
from turnlog import open_store
from turnlog.events import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    Message,
    StepEnd,
    StepStart,
    TextBlock,
    TextDelta,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from turnlog.store import FileStore, StoredSession, load
from turnlog.store.names import encode_project, encode_session

CWD: Final = "/home/dev/demo"
NOW: Final = 1796074200000
STAMP: Final = "20261130T213000Z"


def clock() -> int:
    return NOW


def write(root: Path, *ids: str, compressed: bool | None = None, turns: int = 1) -> list[Path]:
    """Sessions that our own store wrote; gives their logs."""

    async def run() -> None:
        async with open_store(root, compressed=compressed) as store:
            for one in ids:
                session = await store.create(cwd=CWD, id=one)
                for turn in range(1, turns + 1):
                    for payload, sources in talk(turn, len(session)):
                        session.append(payload, sources=sources) if sources else session.append(payload)
                    await session.durable()

    asyncio.run(run())
    return [where(root, one) for one in ids]


def talk(turn: int, first: int) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
    """A turn with an answer of 20 deltas."""
    texts = [f"word {number} " for number in range(20)]
    answer = Message.from_model(TextBlock("".join(texts)), provider="example", model="demo-1")
    yield TurnStart(turn=turn), None
    yield StepStart(turn=turn, step=1), None
    yield UserMessage.of(f"Question {turn}"), None
    for text in texts:
        yield AssistantChunk(turn=turn, step=1, chunk=TextDelta(0, text)), None
    chunks = tuple(range(first + 3, first + 3 + len(texts)))
    yield AssistantMessage(turn=turn, step=1, message=answer), chunks
    yield StepEnd(turn=turn, step=1), None
    yield TurnEnd(turn=turn, reason=Completed()), None


def where(root: Path, session_id: str, cwd: str | None = CWD) -> Path:
    """The log of a session in a root."""
    directory = root / encode_project(cwd) / encode_session(session_id)
    (path,) = [one for one in directory.iterdir() if one.name in ("session.jsonl", "session.jsonl.zstd")]
    return path


def reported(tmp_path: Path, number: int, name: str = "session.jsonl") -> Path:
    """A copy of a reported log."""
    path = tmp_path / name
    shutil.copyfile(case(number, name), path)
    return path


def laid_out(root: Path, source: Path) -> Path:
    """A log copied to where its header says that it belongs."""
    session = load(source, forensic=True)
    directory = root / encode_project(session.header.cwd) / encode_session(session.id)
    directory.mkdir(parents=True)
    name = "session.jsonl" + (".zstd" if source.suffix == ".zstd" else "")
    return Path(shutil.copyfile(source, directory / name))


@contextmanager
def writer(log: Path) -> Iterator[None]:
    """Somebody who writes the session."""
    store = FileStore(log.parents[2], adopt=True)
    session_id = load(log, forensic=True).id
    store.append(session_id, None, ())
    try:
        yield
    finally:
        store.close()


def lines(session: StoredSession) -> list[bytes]:
    """The logical log."""
    return [event.line() for event in session.events]


def messages(session: StoredSession) -> list[Any]:
    """The stored view of what the model sees."""
    return [json.loads(event.message_json) for event in session.message_events(as_stored=True)]


def files(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def edited(path: Path, old: bytes, new: bytes) -> Path:
    """Damage a plain log."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    return path
