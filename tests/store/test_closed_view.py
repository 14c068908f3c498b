"""Stored and closed view: what a gone writer left open is closed for reading; not in the file, not while it lives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.logs import CORPUS, DATA, Log
from tests.store.reading import codes, opened, texts
from turnlog.events import AssistantMessage, Interrupted, StepEnd, ToolCall, ToolResult, ToolResultBlock, TurnEnd
from turnlog.store import find_session, latest, list_sessions, load, open_tail, verify
from turnlog.store.files import FileStore
from turnlog.store.liveness import liveness


def crashed(version: str) -> Path:
    (path,) = (CORPUS / version / "--home-dev-project--" / "crashed-session").iterdir()
    return path


def copied(version: str, root: Path) -> Path:
    source = crashed(version)
    home = root / "--home-dev-project--" / "crashed-session"
    home.mkdir(parents=True)
    target = home / source.name
    target.write_bytes(source.read_bytes())
    return target


@pytest.mark.parametrize("version", ["v0", "v3", "v4"])
def test_closers_end_the_open_turn_and_are_no_part_of_the_log(version: str) -> None:
    session = load(crashed(version))
    kinds = [event.type for event in session.closers]
    assert kinds == (["assistant/message"] if version == "v0" else []) + ["step/end", "turn/end"]
    last = session.event(len(session) - 1)
    assert [event.seq for event in session.closers] == list(range(len(session), len(session) + len(kinds)))
    assert {event.time for event in session.closers} == {last.time}
    step, turn = session.closers[-2].data, session.closers[-1].data
    assert isinstance(step, StepEnd)
    assert isinstance(turn, TurnEnd)
    assert (step.turn, step.step, turn.turn, turn.reason) == (2, 1, 2, Interrupted())
    assert len(session.events) == len(session)
    assert session.closers[0].seq not in session.surface
    assert session.closers == session.closers


@pytest.mark.parametrize("version", ["v0", "v3", "v4"])
def test_the_stored_view_has_no_synthetic_message(version: str) -> None:
    session = load(crashed(version))
    stored = session.derive_messages(as_stored=True)
    assert list(session.derive_messages())[: len(stored)] == list(stored)
    assert len(session.derive_messages()) - len(stored) == (1 if version == "v0" else 0)
    assert [event.seq for event in session.message_events(as_stored=True)] == list(session.surface)
    assert list(session.derive_messages(at=len(session))) == list(stored)


def test_the_words_shown_before_the_crash_are_an_interrupted_answer() -> None:
    session = load(crashed("v0"))
    message = session.derive_messages()[-1]
    assert message.text == "".join(f"s{number} " for number in range(39))
    assert message.id == f"interrupted-assistant-{len(session)}"
    data = session.closers[0].data
    assert isinstance(data, AssistantMessage)
    assert data.interrupted is True
    header = session.request_header()
    assert header is not None
    assert message.source.provider == header.config.provider  # type: ignore[union-attr]


def test_closing_is_the_same_every_time_and_closed_logs_owe_nothing() -> None:
    session, again = load(crashed("v0")), load(crashed("v0"))
    assert [event.line() for event in session.closers] == [event.line() for event in again.closers]
    lines = [event.line() for event in (*session.events, *session.closers)]
    closed = load(b"".join(line + b"\n" for line in (Log("crashed-session").lines()[0], *lines)))
    assert closed.closers == ()
    assert list(closed.derive_messages()) == list(session.derive_messages())
    assert [one for one in codes(verify(crashed("v0")).findings) if one != "open-turn"] == []


def test_calls_without_results_are_answered_in_order() -> None:
    log = Log()
    log.turn()
    log.step()
    log.user("Two things")
    blocks = [{"type": "tool-call", "id": id, "name": "bash", "arguments": "{}"} for id in ("c1", "c2", "c3")]
    log.answer(*blocks)
    log.call("c1")
    log.result("c1", "done", sources=[4])
    log.call("c2")
    session = opened(log.text())
    kinds = [event.type for event in session.closers]
    assert kinds == ["tool/result", "tool/call", "tool/result", "step/end", "turn/end"]
    results = [event.data for event in session.closers if isinstance(event.data, ToolResult)]
    assert [one.error.code for one in results if one.error] == ["TOOL_OUTCOME_UNKNOWN", "ABORTED_BEFORE_DISPATCH"]
    for result, id in zip(results, ("c2", "c3"), strict=True):
        (block,) = result.message.content
        assert isinstance(block, ToolResultBlock)
        assert (block.tool_call_id, block.is_error) == (id, True)
    assert session.closers[0].sources == (6,)
    assert isinstance(session.closers[1].data, ToolCall)
    assert codes(verify(log.text()).findings) == ["open-turn"]


# -- a writer that lives ----------------------------------------------------------------------------------------

HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "a+")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A crashed log whose lock a child process holds."""
    path = copied("v0", tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path.parent / "session.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "held\n"
        yield path
        child.stdin.close()
    assert child.returncode == 0


def test_a_log_whose_writer_lives_is_not_closed(held: Path) -> None:
    session = load(held)
    assert session.liveness == liveness(held) == "live"
    assert session.closers == ()
    assert list(session.derive_messages()) == list(session.derive_messages(as_stored=True))
    assert len(session) == len(load(crashed("v0")))
    report = verify(held)
    assert report.session is not None
    assert (report.session.liveness, report.session.closers) == ("live", ())


def test_a_log_whose_writer_is_gone_is_closed(tmp_path: Path) -> None:
    path = copied("v0", tmp_path)
    assert load(path).liveness == "unknown"  # no lock file, as dsh's format 0 leaves none
    assert load(path).closers
    (path.parent / "session.lock").write_text('{"pid":1}')
    assert load(path).liveness == "gone"
    assert load(path).closers


def test_a_writer_that_ends_makes_its_log_closed(tmp_path: Path) -> None:
    path = copied("v0", tmp_path)
    lock = path.parent / "session.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        assert load(path).liveness == "live"
        child.kill()
        child.wait()
        assert load(path).liveness == "gone"


def test_asking_for_the_writer_does_not_keep_another_from_locking(tmp_path: Path) -> None:
    import fcntl

    path = copied("v0", tmp_path)
    lock = path.parent / "session.lock"
    lock.touch()
    session = load(path)
    assert session.liveness == "gone"
    with lock.open("a+") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if the reader still held anything
        assert load(path).liveness == "live"


def test_bytes_have_no_writer() -> None:
    assert load(crashed("v0").read_bytes()).liveness == "unknown"
    assert load(crashed("v0").read_bytes()).closers


# -- reading is only reading ------------------------------------------------------------------------------------


def state_of(root: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.stat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path)] = (
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_size,
            status.st_mode,
            status.st_ino,
            content,
        )
    return found


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("version", ["v0", "v3", "v4"])
def test_reading_changes_no_byte_no_time_and_makes_no_file(tmp_path: Path, version: str, locked: bool) -> None:
    path = copied(version, tmp_path)
    if locked:
        (path.parent / "session.lock").write_text("{}")
    torn = tmp_path / "--home-dev-project--" / "torn"
    torn.mkdir()
    (torn / path.name).write_bytes(path.read_bytes()[:-7])
    before = state_of(tmp_path)
    for one in (path, torn / path.name):
        session = load(one)
        assert session.closers
        list(session.derive_messages())
        load(one, forensic=True)
        verify(one)
        open_tail(one, 3)
    list_sessions([tmp_path])
    latest([tmp_path])
    find_session(str(path), [tmp_path])
    list(FileStore(tmp_path).headers())
    assert state_of(tmp_path) == before


def test_reading_works_where_nothing_can_be_written(tmp_path: Path) -> None:
    path = copied("v0", tmp_path)
    (path.parent / "session.lock").write_text("{}")
    for one in (path, path.parent / "session.lock"):
        one.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert len(load(path)) == 89
        assert verify(path).ok
    finally:
        path.parent.chmod(0o755)


def test_a_stored_session_cannot_be_appended_to() -> None:
    from turnlog.events import PlanMode
    from turnlog.log import ReadOnlySession

    for path in (crashed("v0"), crashed("v4"), DATA / "corpus" / "sample" / "session.jsonl"):
        session = load(path)
        with pytest.raises(ReadOnlySession, match="read from"):
            session.append(PlanMode(value={"active": True}))
    assert "turnlog convert" in str(load(crashed("v4")).read_only)
    assert texts(load(crashed("v4")).derive_messages())
    assert os.access(crashed("v4"), os.R_OK)
