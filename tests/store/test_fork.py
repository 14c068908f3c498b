"""Forks of stored sessions: the prefix byte for byte, then what closes the cut; the parent is as it was."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog
from tests.log import sessions, strategies
from tests.views.logs import TOOLS, root
from turnlog.log import ForkError, Session
from turnlog.store import RewriteRefused
from turnlog.store.attest import ATTEST_NAME, Note, Seal, ShownRequest, read_attestation
from turnlog.store.fork import fork
from turnlog.store.names import encode_project, encode_session
from turnlog.views.context import context

HEADER = {"type": "session", "version": 0, "id": "parent", "createdAt": 1, "delegationDepth": 0}


def kept(where: Path, lines: list[bytes]) -> Path:
    """A stored session with these lines."""
    directory = where / encode_project(None) / encode_session("parent")
    directory.mkdir(parents=True)
    path = directory / "session.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in (json.dumps(HEADER).encode(), *lines)))
    return path


def of(session: Session) -> list[bytes]:
    """Lines as another writer might have written them: with spaces."""
    return [json.dumps(json.loads(line)).encode() for line in sessions.lines(session)]


@settings(max_examples=25, deadline=None)
@given(strategies.tapes, st.data())
def test_a_fork_begins_with_its_parents_bytes_and_says_what_a_fork_in_memory_says(
    tmp_path_factory: pytest.TempPathFactory, tape: bytes, data: st.DataObject
) -> None:
    live = strategies.written(tape)
    at = data.draw(st.integers(0, len(live)))
    path = kept(tmp_path_factory.mktemp("root"), of(live))
    before = path.read_bytes()
    done = fork(path, at, id="child", vocabulary=sessions.WITH_PLUGINS)
    assert path.read_bytes() == before
    made = done.path.read_bytes().split(b"\n", 1)[1]
    prefix = b"".join(line + b"\n" for line in of(live)[:at])
    assert made.startswith(prefix)
    assert done.copied == len(prefix)
    child = turnlog.load(done.path, vocabulary=sessions.WITH_PLUGINS)
    expected = turnlog.load(path, vocabulary=sessions.WITH_PLUGINS).fork(at, id="child")
    assert [event.line() for event in child.events[:at]] == [event.line() for event in expected.events[:at]]
    assert [(event.type, event.raw) for event in child.events] == [(event.type, event.raw) for event in expected.events]
    assert list(child.derive_messages(as_stored=True)) == list(expected.derive_messages())
    assert (child.header.parent_session, child.header.seed_length) == ("parent", at)
    assert turnlog.verify(done.path, vocabulary=sessions.WITH_PLUGINS).proof.state == "proven"


def test_a_cut_through_a_packed_row_writes_only_that_row_anew(tmp_path: Path) -> None:
    head = sessions.lines(sessions.in_step())
    texts = [f"word {k}" for k in range(10)]
    data = {"turn": 1, "step": 1, "index": 0, "dt": [1] * 9, "texts": texts}
    row = json.dumps({"type": "text-chunks", "seq0": len(head), "time0": 5, "data": data}).encode()
    path = kept(tmp_path, [*head, row])
    done = fork(path, len(head) + 4)
    child = turnlog.load(done.path)
    assert done.copied == sum(len(line) + 1 for line in head)
    assert [event.data.chunk.text for event in child.select(turnlog.events.AssistantChunk)] == texts[:4]
    assert child.event(len(head) + 4).type == "session/end-seed"
    assert "word 0word 1word 2word 3" in [message.text for message in child.derive_messages()]
    whole = fork(path, len(head) + 10)
    assert whole.copied == done.copied + len(row) + 1


def test_where_the_kernel_copies_nothing_the_bytes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_arguments: Any) -> int:
        raise OSError(18, "across devices")

    def little(source: int, target: int, _size: int, start: int, end: int) -> int:
        return os.pwrite(target, os.pread(source, 7, start), end)

    path = kept(tmp_path, of(sessions.in_step()))
    logs = [fork(path).path.read_bytes().split(b"\n")[1:4]]
    for copy in (refused, little):
        monkeypatch.setattr(os, "copy_file_range", copy, raising=False)
        logs.append(fork(path).path.read_bytes().split(b"\n")[1:4])
    monkeypatch.delattr(os, "copy_file_range")
    logs.append(fork(path).path.read_bytes().split(b"\n")[1:4])
    assert all(one == of(sessions.in_step()) for one in logs)


def test_a_compressed_root_gets_a_compressed_fork(tmp_path: Path) -> None:
    shutil.copytree(root(0), tmp_path / "root")
    path = next((tmp_path / "root").glob(f"*/{TOOLS[0]}/session.jsonl*"))
    parent = turnlog.load(path)
    done = fork(path, 20)
    assert done.path.suffix == path.suffix
    assert list(turnlog.load(done.path).events[:20]) == list(parent.events[:20])


def test_a_fork_is_resumed_and_keeps_the_proofs_of_the_requests_it_inherits(tmp_path: Path) -> None:
    from turnlog.model import ScriptedModel, text

    async def work() -> tuple[str, int]:
        async with turnlog.open_store(tmp_path) as store:
            session = await store.create(cwd=tmp_path)
            async with turnlog.Agent(session, ScriptedModel([[text("One.")], [text("Two.")]])) as agent:
                await agent.run("First.")
                at = len(session)
                await agent.run("Second.")
        found = next(tmp_path.glob("*/*/session.jsonl"))
        done = fork(found, at)
        async with turnlog.open_store(tmp_path) as store:
            session = await store.resume(done.header.id)
            async with turnlog.Agent(session, ScriptedModel([[text("Other.")]])) as agent:
                await agent.run("Another second.")
        return str(done.path), at

    path, at = asyncio.run(work())
    child = turnlog.load(path)
    assert [message.text for message in child.derive_messages()] == ["First.", "One.", "Another second.", "Other."]
    assert {context(child, address).confirmation for address in ("t1.s1", "t2.s1")} == {"confirmed"}
    assert turnlog.verify(path).proof.state == "proven"
    records, _unreadable = read_attestation(Path(path).with_name(ATTEST_NAME).read_bytes())
    assert isinstance(records[0], ShownRequest)
    notes = [one.text for one in records if isinstance(one, Note)]
    assert notes[0].endswith(f"at {at} events")
    assert any(isinstance(one, Seal) for one in records)


def test_what_is_not_format_0_names_the_remedy(tmp_path: Path) -> None:
    path = root(3) / "--home-dev-project--" / TOOLS[3]
    with pytest.raises(ForkError, match="turnlog convert"):
        fork(path, root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_is_taken_and_a_place_that_is_not_there_are_refused(tmp_path: Path) -> None:
    path = kept(tmp_path, of(sessions.in_step()))
    with pytest.raises(RewriteRefused, match="give the fork another id"):
        fork(path, id="parent")
    with pytest.raises(ForkError, match="it has 3 events"):
        fork(path, 4)
    assert [one.name for one in path.parent.parent.iterdir()] == ["parent"]
    alone = tmp_path / "alone.jsonl"
    alone.write_bytes(path.read_bytes())
    with pytest.raises(RewriteRefused, match="say where its fork goes"):
        fork(alone)
    assert fork(alone, root=tmp_path).path.is_file()


def test_a_fork_of_a_session_that_is_being_written_takes_what_is_there(tmp_path: Path) -> None:
    async def work() -> None:
        async with turnlog.open_store(tmp_path) as store:
            session = await store.create()
            for payload in (event.data for event in sessions.in_step().events):
                session.append(payload)
            await session.durable()
            path = next(tmp_path.glob("*/*/session.jsonl"))
            done = fork(path, 2)
            session.append(sessions.user())
        assert len(turnlog.load(path)) == 4
        assert [event.type for event in turnlog.load(done.path).events][:3] == [
            *("turn/start", "step/start", "session/end-seed"),
        ]

    asyncio.run(work())


@pytest.mark.parametrize(
    "odd",
    [
        lambda data: data[:-1],
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\n\n", 2),
        lambda data: data + b'{"type":"turn',
        lambda data: data + b"\0\0\0",
    ],
    ids=["no newline", "crlf", "bom", "blank lines", "torn", "nul tail"],
)
def test_an_odd_or_torn_file_gives_a_clean_fork(tmp_path: Path, odd: Any) -> None:
    path = kept(tmp_path, of(sessions.in_step()))
    path.write_bytes(odd(path.read_bytes()))
    child = turnlog.load(fork(path).path)
    assert child.findings == ()
    assert [event.raw for event in child.events[:3]] == [event.raw for event in turnlog.load(path).events]
    assert child.event(3).type == "session/end-seed"
