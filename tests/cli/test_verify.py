"""``verify``: the verdict, every finding, and an exit code for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import Ran
from tests.views.logs import CASES, SAMPLE, TOOLS, root
from turnlog import open_store
from turnlog.events import Completed, TurnEnd, TurnStart


@pytest.mark.parametrize(
    ("name", "verdict", "code"),
    [
        ("BC-041/session.jsonl", "ok", 0),
        ("BC-070/dup-seq-key.jsonl", "faults", 1),
        ("BC-049/torn-last-frame.jsonl.zstd", "torn", 4),
        ("BC-049/bad-checksum-middle.jsonl.zstd", "refused", 3),
        ("BC-050/utf16.jsonl", "refused", 3),
    ],
)
def test_the_exit_code_is_the_verdict(run: Callable[..., Ran], name: str, verdict: str, code: int) -> None:
    shown = run("verify", CASES / name)
    assert shown.code == code
    assert shown.out.startswith(f"{verdict}: ")
    document = run("verify", CASES / name, "--json")
    assert (document.code, document.json["verdict"], document.json["schemaVersion"]) == (code, verdict, 1)
    assert all(one["code"] and one["severity"] and one["text"] for one in document.json["findings"])


def test_a_sound_log_without_seals_is_two_lines(run: Callable[..., Ran]) -> None:
    told = "ok: session sample, sample, 10 events\n  seals: nothing is attested about this log\n"
    assert run("verify", SAMPLE) == Ran(0, told, "")
    assert run("verify", TOOLS[4], "--root", root(4)).code == 0


async def keep(root: Path) -> Path:
    """A sealed log of two events."""
    async with open_store(root, compressed=False) as store:
        session = await store.create(cwd="/home/dev/demo", id="sealed")
        session.append(TurnStart(turn=1))
        session.append(TurnEnd(turn=1, reason=Completed()))
        await session.durable()
    (log,) = root.glob("*/*/session.jsonl")
    return log


def test_a_sealed_log_says_how_far_it_is_proven(run: Callable[..., Ran], tmp_path: Path) -> None:
    log = asyncio.run(keep(tmp_path))
    sealed = run("verify", log)
    assert (sealed.code, sealed.out.splitlines()[1]) == (0, "  seals: proven: all 2 events are as they were sealed")
    assert run("verify", log, "--json").json["proof"]["state"] == "proven"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"completed"', b'"forgotten"'))
    altered = run("verify", log)
    assert altered.code == 1
    assert "altered at or before @1; the first 0 events are proven" in altered.out
    log.write_bytes(whole[: whole.rindex(b'{"type"')])
    shorter = run("verify", log)
    assert "1 durable events are missing at the end" in shorter.out
    assert run("verify", log, "--json").json["proof"]["missing"] == 1
    log.write_bytes(whole)
    with (log.parent / "attest.jsonl").open("ab") as beside:
        beside.write(b"torn")
    assert "  1 lines of the attestation are no records" in run("verify", log).out


def test_forensic_says_what_is_readable_of_a_refused_log(run: Callable[..., Ran]) -> None:
    damaged = CASES / "BC-049" / "bad-checksum-middle.jsonl.zstd"
    assert "--forensic says what is readable" in run("verify", damaged).err
    shown = run("verify", damaged, "--forensic")
    assert shown.code == 4
    assert "  readable: " in shown.out


def test_forensic_shows_the_branch_of_a_second_writer(run: Callable[..., Ran]) -> None:
    path = CASES / "BC-004" / "end-seed-collision.jsonl"
    shown = run("verify", path, "--forensic")
    assert shown.out.splitlines()[-2] == "  readable: 21 events: @0-@20"
    assert shown.out.splitlines()[-1].startswith("  branch 1: 12 events that cannot follow the log: @20-@31, at ")
    document = run("verify", path, "--forensic", "--json").json
    assert (document["readable"], document["missing"]) == ([{"firstSeq": 0, "lastSeq": 20}], [])
    (branch,) = document["branches"]
    assert (branch["branch"], branch["events"]) == (1, 12)
    assert branch["readable"] == [{"firstSeq": 20, "lastSeq": 31}]


def test_forensic_says_which_events_are_missing(run: Callable[..., Ran]) -> None:
    path = CASES / "BC-049" / "frame-missing-middle.jsonl.zstd"
    shown = run("verify", path, "--forensic")
    assert "  readable: 22 events: @0-@10, @22-@32; missing @11-@21\n" in shown.out
    document = run("verify", path, "--forensic", "--json").json
    assert document["readable"] == [{"firstSeq": 0, "lastSeq": 10}, {"firstSeq": 22, "lastSeq": 32}]
    assert document["missing"] == [{"firstSeq": 11, "lastSeq": 21}]
    assert "there are @0 to @10, @22 to @32" in run("sources", path, "@15").err


def test_an_unreadable_log_has_no_forensic_view(run: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"")
    shown = run("verify", path, "--forensic")
    assert shown.code == 3
    assert "nothing of it is readable" in shown.err
