"""What a root must still hold after its writer was killed, given what the writer was promised."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.log.sessions import WITH_PLUGINS, user
from turnlog.store import Report, SessionEntry, StoredSession, list_sessions, load, open_store, verify
from turnlog.store.source import Source


class Promises:
    """What a writer told."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = defaultdict(list)
        """The log lines of each session that were written."""
        self.durable: dict[str, int] = defaultdict(int)
        """How many events of each session were durable."""
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take in more of what the writer told; an unfinished line is no promise."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self.take(json.loads(line))

    def take(self, told: dict[str, Any]) -> None:
        if "written" in told:
            lines = self.lines[told["written"]]
            assert told["from"] <= len(lines) or not lines
            if told["from"] > len(lines):  # lines that a resume wrote for a killed writer are not told again
                return
            lines[told["from"] :] = told["lines"]
        elif "durable" in told:
            self.durable[told["durable"]] = max(self.durable[told["durable"]], told["events"])

    @property
    def events(self) -> int:
        """How many events were promised."""
        counts = {session: len(members(lines)) for session, lines in self.lines.items()}
        return sum(max(counts.get(one, 0), self.durable[one]) for one in {*counts, *self.durable})


def members(lines: list[str]) -> list[int]:
    """The seqs of the events in stored lines."""
    seqs: list[int] = []
    for line in map(json.loads, lines):
        if "seq" in line:
            seqs.append(line["seq"])
        else:
            data = line["data"]
            seqs += range(line["seq0"], line["seq0"] + len(data.get("texts", data.get("args"))))
    return seqs


def survived(root: Path, promises: Promises, *, written: bool = True) -> dict[str, Path]:
    """Check that nothing promised is lost and that every log loads; *written* false: only what was durable counts.

    Gives the log of each session.
    """
    paths = {entry.id: entry.path for entry in _entries(root)}
    for session_id in {*promises.lines, *promises.durable}:
        lines = promises.lines[session_id] if written else []
        durable = promises.durable[session_id]
        if not lines and not durable:
            continue
        assert session_id in paths, (
            f"{session_id}: {len(lines)} lines and {durable} events were promised, none is there"
        )
        session = load(paths[session_id], vocabulary=WITH_PLUGINS)
        assert len(session) >= durable, f"{session_id}: {durable} events were durable, {len(session)} are left"
        stored = [line.decode() for line in Source(paths[session_id]).lines()][1:]
        assert stored[: len(lines)] == lines, f"{session_id}: written lines differ"
        assert not lines or len(session) > members(lines)[-1]
    for path in paths.values():
        session = load(path, vocabulary=WITH_PLUGINS)
        report = sound(path)
        assert report.proof.state in ("none", "proven", "unsealed"), report.proof
        assert [event.seq for event in session.events] == list(range(len(session)))
    return paths


def sound(path: Path) -> Report:
    """Check that ``verify`` has nothing to say of how a log was kept. Of what it says it may: the random writer makes
    conversations that no model would accept."""
    report = verify(path, vocabulary=WITH_PLUGINS)
    faults = [one for one in report.findings if one.severity != "note" and one.code not in ("history", "torn-tail")]
    assert not faults, faults
    return report


def goes_on(root: Path, paths: dict[str, Path]) -> None:
    """Check that every session resumes: what was there stays, it is closed, and it can be written on."""
    asyncio.run(_go_on(root, paths))


async def _go_on(root: Path, paths: dict[str, Path]) -> None:
    async with open_store(root) as store:
        for session_id, path in paths.items():
            before = load(path, vocabulary=WITH_PLUGINS)
            session = await store.resume(session_id, vocabulary=WITH_PLUGINS)
            assert session.events[: len(before)] == before.events
            assert not session.owed()
            closed = len(session)
            await store.release(session)
            session = await store.resume(session_id, vocabulary=WITH_PLUGINS)
            assert len(session) == closed, "resuming twice adds nothing"
            session.append(user("on", f"after-{closed}"))
            await session.durable()
            assert load(path, vocabulary=WITH_PLUGINS).events == session.events
            await store.release(session)
            assert _whole(path).events == session.events


def _whole(path: Path) -> StoredSession:
    session = load(path, vocabulary=WITH_PLUGINS)
    report = sound(path)
    assert session.torn is None
    assert report.proof.state == "proven", report.proof
    return session


def _entries(root: Path) -> list[SessionEntry]:
    entries = list_sessions([root])
    assert all(entry.problem is None for entry in entries), [entry.problem for entry in entries]
    return entries
