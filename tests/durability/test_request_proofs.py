"""Proofs of what a model was shown: kept beside the log, made again by ``verify``."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import turnlog
from turnlog import Agent, tool
from turnlog.agent import RetryPolicy
from turnlog.log.proof import Recomputed
from turnlog.model import ScriptedModel, call, error, text
from turnlog.store.attest import ATTEST_NAME, ShownRequest, read_attestation
from turnlog.store.discover import latest
from turnlog.store.verify import Report


@tool
def huge() -> str:
    """Say a lot."""
    return "all work and no play " * 1000


def written(root: Path, *answers: Any, runs: int = 1, compressed: bool = False) -> Path:
    async def work() -> None:
        async with turnlog.open_store(root, compressed=compressed) as store:
            session = await store.create(cwd=root)
            retry = RetryPolicy(initial_ms=0, max_ms=0)
            async with Agent(session, ScriptedModel(answers), [huge], retry=retry, system="Work.") as agent:
                for number in range(runs):
                    await agent.run(f"Number {number}.")

    asyncio.run(work())
    return latest([root])


def shown(log: Path) -> list[ShownRequest]:
    records, unreadable = read_attestation((log.parent / ATTEST_NAME).read_bytes())
    assert unreadable == 0
    return [one for one in records if isinstance(one, ShownRequest)]


def faults(report: Report) -> list[str]:
    return [one.code for one in report.findings if one.severity == "fault"]


PRUNED = ([call("huge")], error("CONTEXT_WINDOW_EXCEEDED"), [text("Short now.")], [text("Fine.")])


@pytest.mark.parametrize("compressed", [False, True])
def test_every_attempt_has_a_proof_that_the_log_gives_again(tmp_path: Path, compressed: bool) -> None:
    log = written(tmp_path, *PRUNED, runs=2, compressed=compressed)

    report = turnlog.verify(log)

    assert [(one.turn, one.step, one.attempt) for one in shown(log)] == [(1, 1, 1), (1, 2, 1), (1, 2, 2), (2, 1, 1)]
    assert (report.proof.requests, report.proof.unproven, report.proof.state) == (4, (), "proven")
    assert not faults(report)


def test_a_proof_is_what_its_definition_says(tmp_path: Path) -> None:
    log = written(tmp_path, [text("Hello.")], [text("Again.")], runs=2)
    last = shown(log)[-1]
    session = turnlog.load(log)

    chain = hashlib.sha256(b"").digest()
    events = session.message_events(last.seq)
    for event in events:
        canonical = json.dumps(
            json.loads(event.message_json), ensure_ascii=False, sort_keys=True, separators=(",", ":")
        ).encode()
        chain = hashlib.sha256(chain + hashlib.sha256(canonical).digest()).digest()

    assert (last.messages, last.chain) == (len(events), chain.hex())


def test_a_proof_that_the_log_does_not_give_is_a_fault(tmp_path: Path) -> None:
    log = written(tmp_path, [text("Hello.")])
    (one,) = shown(log)
    side = log.parent / ATTEST_NAME
    lying = msgspec.structs.replace(one, chain="0" * 64)
    side.write_bytes(side.read_bytes().replace(msgspec.json.encode(one), msgspec.json.encode(lying)))

    report = turnlog.verify(log)

    assert faults(report) == ["unproven"]
    assert report.proof.unproven == (lying,)


def test_a_changed_message_makes_the_proofs_after_it_fail(tmp_path: Path) -> None:
    log = written(tmp_path, [text("Hello.")], [text("Again.")], runs=2)
    log.write_bytes(log.read_bytes().replace(b"Number 0.", b"Number 7."))

    report = turnlog.verify(log)

    assert "altered" in faults(report)
    assert [one.turn for one in report.proof.unproven] == [1, 2]


def test_proofs_outlive_a_kill_and_go_on_after_a_resume(tmp_path: Path) -> None:
    log = written(tmp_path, [text("Hello.")])

    async def go_on() -> None:
        async with turnlog.open_store(tmp_path) as store:
            session = await store.resume(turnlog.load(log).header.id)
            async with Agent(session, ScriptedModel([text("Again.")]), [huge]) as agent:
                await agent.run("More.")

    asyncio.run(go_on())

    assert [one.turn for one in shown(log)] == [1, 2]
    assert turnlog.verify(log).proof.requests == 2


def test_without_the_side_file_nothing_is_proven_and_nothing_is_wrong(tmp_path: Path) -> None:
    log = written(tmp_path, [text("Hello.")])
    (log.parent / ATTEST_NAME).unlink()

    report = turnlog.verify(log)

    assert (report.proof.requests, report.proof.state, faults(report)) == (0, "none", [])


def test_proofs_are_made_again_in_any_order(tmp_path: Path) -> None:
    log = written(tmp_path, *PRUNED, runs=2)
    session = turnlog.load(log)
    again = Recomputed(session)

    assert all(again.proof(one.proof) == one.proof for one in reversed(shown(log)))
