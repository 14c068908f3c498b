"""What our file store writes passes dsh's own code, and dsh's logs that we go on with still do.

Run by ``make interop``: needs Node.js and the npm registry. dsh's file loader, its grammar, its session package and its
published migrations to format 3 read whole roots of random sessions, one Node process per root.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest

import turnlog
from benchmarks import peer_dsh
from tests.interop.driver import Driver, live, settled
from tests.log import reference
from tests.log.sessions import WITH_PLUGINS, Weather, answer, asks, chunk, close_step, empty, result, user
from tests.log.strategies import Writer
from turnlog import Session
from turnlog.events import (
    ApprovalAsked,
    HookResult,
    LlmRetryStarted,
    PlanMode,
    RequestHeader,
    StepStart,
    TextBlock,
    TextDelta,
    ToolError,
    TurnStart,
)
from turnlog.events.header import CallConfig, Header
from turnlog.log.event import Replace
from turnlog.store import convert, list_sessions

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not os.environ.get("TURNLOG_INTEROP"), reason="make interop runs dsh beside turnlog"),
]

SESSIONS: Final = 60
CORPUS: Final = Path(__file__).parents[1] / "data" / "corpus" / "v0"
CLOSERS: Final = {"tool/result", "step/end", "turn/end"}
ENCODINGS: Final = pytest.mark.parametrize("encoding", ["zstd", "none"])

Verdict = dict[str, Any]


# -- asking dsh -----------------------------------------------------------------------------------------------------


def verdicts(dsh: Path, root: Path, encoding: str) -> dict[str, Verdict]:
    """What dsh's own code makes of each session of a root, by id."""
    found: list[Verdict] = peer_dsh.run_peer(dsh, "judge.mjs", root, encoding)
    return {one["id"]: one for one in found}


def messages(session: Session) -> list[Any]:
    return [json.loads(event.message_json) for event in session.message_events(as_stored=True)]


def passes(theirs: Verdict, session: Session) -> None:
    """dsh's loader, grammar and session package take a stored session for what it is."""
    types = [event.type for event in session.events]
    read = theirs["inspected"]["value"]
    assert read[: len(types)] == types
    assert set(read[len(types) :]) <= CLOSERS
    assert "error" not in theirs["nested"], theirs["nested"]
    restored = theirs["restored"]["value"]
    assert restored["types"] in (types, [*types, "session/end-seed"])
    assert restored["nodes"] == list(session.surface)
    assert restored["replaceGeneration"] == session.generation
    assert restored["messages"] == messages(session)


def migrates(theirs: Verdict, session: Session) -> None:
    """dsh's published migrations take it, and what it shows the model stays."""
    assert refusal(theirs) is None, session.id
    migrated = theirs["migrated"]["value"]
    assert migrated["version"] == 3
    assert migrated["messages"] == messages(session)


def refusal(theirs: Verdict) -> str | None:
    """Why dsh's published migrations refuse a session."""
    if theirs["migrated"] == {"value": None}:
        pytest.skip("dsh's published migrations cannot be installed here.")
    found: str | None = theirs["migrated"].get("error")
    return found


# -- making roots ---------------------------------------------------------------------------------------------------


def keep(root: Path, sessions: Iterable[Session], encoding: str) -> None:
    """Store sessions as they are; an open tail stays open."""

    async def stored() -> None:
        async with turnlog.open_store(root, compressed=encoding == "zstd") as store:
            kept = list(sessions)
            for session in kept:
                store.keep(session)
            await asyncio.gather(*(session.durable() for session in kept))

    asyncio.run(stored())


def go_on(root: Path, ids: Iterable[str], *, adopt: bool = False) -> dict[str, Session]:
    """Resume stored sessions and have a driver write to each; all end with their turn closed.

    *adopt*: dsh wrote them, and does not any more.
    """

    async def resumed() -> dict[str, Session]:
        async with turnlog.open_store(root, adopt=adopt) as store:
            return {id: _another_turn(await store.resume(id, vocabulary=WITH_PLUGINS)) for id in ids}

    return asyncio.run(resumed())


def _another_turn(session: Session) -> Session:
    length = len(session)
    driver = Driver(random.Random(session.id).randbytes(80), session.id)
    driver.take(session)
    driver.write()
    driver.close()
    assert len(session) > length
    return session


def driven(seed: int, *, forks: bool = False, size: int = 300) -> Session:
    return Driver(random.Random(seed).randbytes(size), f"driven-{seed}", forks=forks).write()


def wild(seed: int) -> Session:
    writer = Writer(random.Random(seed).randbytes(400), forks=seed % 2 == 1)
    writer.session = empty(f"wild-{seed}")
    return writer.write()


def cut(session: Session, at: int) -> Session:
    """The first *at* events, as a writer that died leaves them."""
    rest = live(f"{session.id}-{at}")
    for event in list(session.events)[:at]:
        place: dict[str, Any] = {}
        if isinstance(event.surface_op, Replace):
            place["replaces"] = (event.surface_op.start, event.surface_op.end)
        if event.surface_op:
            place["sources"] = event.sources
        rest.append(event.data, **place)  # type: ignore[call-overload]
    return rest


def died(seed: int) -> Session:
    whole = driven(seed, size=200)
    return cut(whole, random.Random(seed).randrange(1, len(whole) + 1))


# -- from us to dsh -------------------------------------------------------------------------------------------------


@ENCODINGS
def test_dsh_loads_random_sessions_that_we_stored_and_resumed(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sessions = [wild(seed) for seed in range(SESSIONS)]
    keep(tmp_path, sessions, encoding)
    found = verdicts(dsh, tmp_path, encoding)
    assert set(found) == {session.id for session in sessions}
    for session in sessions:
        passes(found[session.id], session)
    resumed = go_on(tmp_path, found)
    found = verdicts(dsh, tmp_path, encoding)
    for session in resumed.values():
        passes(found[session.id], session)


@ENCODINGS
def test_dsh_loads_and_migrates_what_a_driver_stored(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sessions = [driven(seed, forks=seed % 2 == 1) for seed in range(SESSIONS)]
    keep(tmp_path, sessions, encoding)
    found = verdicts(dsh, tmp_path, encoding)
    assert set(found) == {session.id for session in sessions}
    for session in sessions:
        passes(found[session.id], session)
        migrates(found[session.id], session)


def test_what_a_driver_stores_has_all_that_dsh_is_asked_about(tmp_path: Path) -> None:
    sessions = [driven(seed, forks=seed % 2 == 1) for seed in range(SESSIONS)]
    keep(tmp_path, sessions, "none")
    seen = Counter(event.type for session in sessions for event in session.events)
    for payload in (ApprovalAsked, HookResult, LlmRetryStarted):
        assert seen[payload.event_type] > SESSIONS
    assert sum(session.generation for session in sessions) > SESSIONS
    assert sum(session.header.parent_session is not None for session in sessions) > SESSIONS // 4
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("*/*/session.jsonl"))
    for packed in (b'"text-chunks"', b'"reasoning-chunks"', b'"tool-call-chunks"', b"ABORTED_BEFORE_DISPATCH"):
        assert packed in stored
    assert b"TOOL_OUTCOME_UNKNOWN" in stored


@ENCODINGS
def test_dsh_loads_and_migrates_a_session_that_we_resumed(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sessions = [died(seed) for seed in range(SESSIONS)]
    keep(tmp_path, sessions, encoding)
    found = verdicts(dsh, tmp_path, encoding)
    for session in sessions:
        passes(found[session.id], session)
        migrates(found[session.id], session)
    resumed = go_on(tmp_path, found)
    found = verdicts(dsh, tmp_path, encoding)
    assert set(found) == set(resumed)
    for session in resumed.values():
        passes(found[session.id], session)
        migrates(found[session.id], session)


@ENCODINGS
def test_dsh_loads_and_migrates_forks_between_attempts(dsh: Path, tmp_path: Path, encoding: str) -> None:
    parents = [driven(seed, size=200) for seed in range(6)]
    children = []
    for parent in parents:
        log = reference.read(event.line() for event in parent.events)
        places = sorted({settled(log, at) for at in range(len(log) + 1)})
        children += [parent.fork(at, id=f"{parent.id}-{at}") for at in places]
    assert len(children) > SESSIONS
    keep(tmp_path, [*parents, *children], encoding)
    found = verdicts(dsh, tmp_path, encoding)
    for session in (*parents, *children):
        passes(found[session.id], session)
        migrates(found[session.id], session)


def _streaming(id: str) -> Session:
    """A session within a step that has a route and a text that is still streamed: events 0 to 4."""
    session = live(id)
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    session.append(user())
    session.append(RequestHeader(header=Header(config=CallConfig("acme", "acme-1")), reason="initial"))
    session.append(chunk(TextDelta(0, "half a sen")))
    return session


def test_dsh_loads_a_fork_within_an_attempt_and_its_migrations_refuse_it(dsh: Path, tmp_path: Path) -> None:
    """The closer of the fork cites chunks of the parent, and dsh wants both on one side of the end of the seed."""
    child = _streaming("parent").fork(id="child")
    keep(tmp_path, [child], "zstd")
    theirs = verdicts(dsh, tmp_path, "zstd")["child"]
    passes(theirs, child)
    assert "inherited Session cut 5 splits one Assistant attempt" in str(refusal(theirs))


@ENCODINGS
def test_dsh_migrates_what_is_converted_for_it_of_forks_at_any_event(dsh: Path, tmp_path: Path, encoding: str) -> None:
    parents = [*(driven(seed, size=200) for seed in range(6)), _streaming("parent")]
    children = [parent.fork(at, id=f"{parent.id}-{at}") for parent in parents for at in range(len(parent) + 1)]
    keep(tmp_path / "forks", children, encoding)
    keep(tmp_path / "root", parents[:1], encoding)  # a new session has the encoding of its root
    moved = 0
    for log in sorted((tmp_path / "forks").glob("*/*/session.jsonl*")):
        done = convert(log, tmp_path / "root", id=turnlog.load(log).id, for_dsh=True)
        moved += [one.code for one in done.losses] == ["seed"]
    refused = [one for one in verdicts(dsh, tmp_path / "forks", encoding).values() if refusal(one) is not None]
    assert len(refused) == moved > 5
    found = verdicts(dsh, tmp_path / "root", encoding)
    made = {one.id: turnlog.load(one.path) for one in list_sessions([tmp_path / "root"])}
    assert found.keys() == made.keys() > {child.id for child in children}
    for child in children:
        passes(found[child.id], made[child.id])
        migrates(found[child.id], made[child.id])
        assert messages(made[child.id]) == messages(child)


# -- from dsh to us and back ----------------------------------------------------------------------------------------


def test_dsh_loads_and_migrates_its_own_logs_that_we_went_on_with(dsh: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(CORPUS, tmp_path / "root", ignore=shutil.ignore_patterns("expected")))
    before = verdicts(dsh, root, "zstd")
    assert len(before) == 13
    for id, theirs in before.items():
        stored = turnlog.load(next(root.glob(f"*/{id}/session.jsonl.zstd")))
        passes(theirs, stored)
        migrates(theirs, stored)
    resumed = go_on(root, before, adopt=True)
    found = verdicts(dsh, root, "zstd")
    assert set(found) == set(before)
    for session in resumed.values():
        passes(found[session.id], session)
        migrates(found[session.id], session)


@ENCODINGS
def test_what_live_dsh_sessions_stored_is_ours_to_go_on_with(dsh: Path, tmp_path: Path, encoding: str) -> None:
    sources = [died(seed) if seed % 3 else driven(seed, forks=True) for seed in range(SESSIONS)]
    keep(tmp_path / "source", sources, "none")
    ids = peer_dsh.run_peer(dsh, "write.mjs", tmp_path / "source", tmp_path / "root", encoding)
    assert set(ids) == {session.id for session in sources}
    name = "session.jsonl.zstd" if encoding == "zstd" else "session.jsonl"
    for source in sources:
        stored = turnlog.load(next((tmp_path / "root").glob(f"*/{source.id}/{name}")))
        assert [event.type for event in stored.events] == [event.type for event in source.events]
        assert messages(stored) == messages(source)
    resumed = go_on(tmp_path / "root", ids, adopt=True)
    found = verdicts(dsh, tmp_path / "root", encoding)
    assert set(found) == set(resumed)
    for session in resumed.values():
        passes(found[session.id], session)
        migrates(found[session.id], session)


# -- what dsh refuses -----------------------------------------------------------------------------------------------


def _unknown_type(session: Session) -> None:
    session.append(Weather(city="Oslo"))


def _extra_member(session: Session) -> None:
    session.append(PlanMode(value={"active": True, "why": "to see"}))


def _other_words(session: Session) -> None:
    session.append(asks("c1"))
    error = ToolError("ToolNotStartedError", "TOOL_NOT_STARTED")
    session.append(result("c1", "It never ran.", is_error=True, error=error))
    close_step(session)


def _uncited_attempt(session: Session) -> None:
    session.append(chunk(TextDelta(0, "hello")))
    session.append(answer(TextBlock("hello")))


def _answer_that_replaces(session: Session) -> None:
    session.append(answer(TextBlock("again")), replaces=(2, 2), sources=[2])


REFUSED: Final[dict[str, tuple[Callable[[Session], None], str]]] = {
    "unknown-type": (_unknown_type, "unknown historical event type"),
    "extra-member": (_extra_member, "unexpected member"),
    "other-words": (_other_words, "not the exact TOOL_NOT_STARTED repair"),
    "uncited-attempt": (_uncited_attempt, "does not cite its complete v1 chunk attempt"),
    "answer-that-replaces": (_answer_that_replaces, "chunk provenance is not one complete ordered attempt"),
}


def test_migrations_refuse_what_the_loader_takes_only_for_reasons_of_their_own(dsh: Path, tmp_path: Path) -> None:
    sessions = []
    for name, (write, _) in REFUSED.items():
        session = Session(name, vocabulary=WITH_PLUGINS)
        session.append(TurnStart(turn=1))
        session.append(StepStart(turn=1, step=1))
        session.append(user())
        write(session)
        sessions.append(session)
    keep(tmp_path, sessions, "zstd")
    found = verdicts(dsh, tmp_path, "zstd")
    for session in sessions:
        passes(found[session.id], session)
        assert REFUSED[session.id][1] in str(refusal(found[session.id]))


def test_dsh_refuses_a_log_that_does_not_nest(dsh: Path, tmp_path: Path) -> None:
    session = live("broken")
    session.append(TurnStart(turn=1))
    session.append(StepStart(turn=1, step=1))
    keep(tmp_path, [session], "none")
    path = next(tmp_path.glob("*/broken/session.jsonl"))
    path.write_bytes(path.read_bytes().replace(b'"step":1', b'"step":2'))
    theirs = verdicts(dsh, tmp_path, "none")["broken"]
    assert "step/start expected step 1" in theirs["nested"]["error"]
    assert "does not match the open turn and next step" in str(refusal(theirs))


def test_dsh_reads_no_root_of_the_other_encodings(dsh: Path, tmp_path: Path) -> None:
    keep(tmp_path, [driven(1)], "zstd")
    with pytest.raises(peer_dsh.PeerError, match=r"session\.jsonl\.zstd"):
        verdicts(dsh, tmp_path, "none")
