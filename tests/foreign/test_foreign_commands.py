"""Every command on session files of other programs: what reads shows them, what writes refuses and names convert."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import turnlog
from tests.cli.running import Ran, runner
from tests.foreign.files import DATA, FILES, opened, shown
from turnlog import Agent
from turnlog.events import Completed, TurnStart
from turnlog.log import ForkError, ReadOnlySession, Redactor
from turnlog.model import ScriptedModel, text
from turnlog.store import LogUnsupported, RewriteRefused
from turnlog.store.convert import convert
from turnlog.store.foreign import discover, find
from turnlog.store.redact import redact
from turnlog.store.remove import remove
from turnlog.store.repack import repack
from turnlog.store.repair import repair

Run = Callable[..., Ran]
CLAUDE = DATA / "claude-full.jsonl"


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capsysbinary)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A Claude Code file that somebody might write to."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(CLAUDE.read_bytes())
    return path


VIEWS = (
    "show", "show --captured", "show --all", "messages", "events", "events --json", "verify", "replay --speed 0",
    "turn 1", "trace t1.s1", "trace @3", "sources @3", "context t1.s1",
)  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("words", VIEWS)
def test_every_view_works_on_every_kind_of_file(run: Run, path: Path, words: str) -> None:
    command, *rest = words.split()
    done = run(command, path, *rest)
    assert (done.code, done.err) == (0, "")
    assert done.out


def test_two_programs_runs_can_be_compared(run: Run) -> None:
    done = run("diff", DATA / "claude-fork.jsonl", DATA / "codex-fork.jsonl")
    assert done.code == 1
    assert "t1.s1" in done.out


def test_captured_lists_what_is_lost_and_what_was_inferred(run: Run) -> None:
    listed = run("show", CLAUDE, "--captured", "--json").json
    lacks = {one["code"]: one for one in listed["lacks"]}
    assert lacks.keys() >= {"no-stream", "no-request", "other-members", "inferred-events", "rewinds", "sidechains"}
    assert (lacks["sidechains"]["number"], lacks["inferred-ends"]["number"]) == (2, 5)
    assert "unknown-sources" not in lacks  # there are no chunks that an answer could cite
    assert "made of the lines of a file of Claude Code" in listed["holds"][0]["text"]


def test_an_address_leads_to_its_lines_in_the_file(run: Run) -> None:
    assert f"from         lines 5, 6, 7, 9 of {CLAUDE} (msg_01)" in run("sources", CLAUDE, "msg:msg_01").out
    assert run("sources", CLAUDE, "@20", "--json").json["origin"] == {"lines": [15], "id": None, "inferred": True}
    assert "origin" not in run("sources", DATA.parent / "sample.jsonl", "@5", "--json").json


def test_a_torn_tail_is_said_and_the_rest_shown(run: Run, copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:-20])
    done = run("show", copy)
    assert done.code == 4
    assert "a record that was not finished" in done.err
    assert "turn=7" in done.out


def test_an_id_finds_the_file_in_its_usual_place(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "claude/projects/-work"
    project.mkdir(parents=True)
    for id in ("5d0c7c1e-0001", "5d0c7c1e-0002"):
        (project / f"{id}.jsonl").write_bytes(CLAUDE.read_bytes())
    day = tmp_path / "codex/sessions/2026/04/02"
    day.mkdir(parents=True)
    (day / "rollout-2026-04-02T08-00-00-0199-c1.jsonl").write_bytes((DATA / "codex-full.jsonl").read_bytes())
    for name, value in (("CLAUDE_CONFIG_DIR", "claude"), ("CODEX_HOME", "codex"), ("TURNLOG_HOME", "own")):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "dsh"))
    assert "Claude Code" in run("verify", "5d0c7c1e-0002").out
    assert "Codex" in run("verify", "0199").out
    ambiguous = run("show", "5d0c")
    assert (ambiguous.code, "5d0c7c1e-0001.jsonl" in ambiguous.err) == (2, True)
    assert "no session 'nope'" in run("show", "nope").err
    assert find("199") == []
    assert len(discover()) == 3


@pytest.mark.parametrize(
    "words", [("repair",), ("compress",), ("redact",), ("fork", "@10"), ("rm", "--yes")], ids=" ".join
)
def test_commands_that_write_refuse_and_name_convert(run: Run, copy: Path, words: tuple[str, ...]) -> None:
    before = copy.read_bytes()
    command, *rest = words
    if command == "rm":
        copy = copy.rename(copy.with_name("5d0c.jsonl"))
    done = run(command, copy, *rest)
    assert done.code != 0
    assert "Claude Code" in done.err
    assert "turnlog convert" in done.err
    assert copy.read_bytes() == before
    assert len(list(copy.parent.iterdir())) == 1


def test_the_library_refuses_to_write_as_well(copy: Path) -> None:
    session = turnlog.load(copy)
    with pytest.raises(ReadOnlySession, match="Claude Code; turnlog convert"):
        session.append(TurnStart(turn=8))
    with pytest.raises(ForkError, match="turnlog convert"):
        session.fork()
    changes: list[Callable[[], object]] = [
        lambda: repair(copy),
        lambda: repack(copy, compressed=True),
        lambda: redact(copy, Redactor()),
    ]
    for change in changes:
        with pytest.raises(LogUnsupported, match=r"another program .Claude Code.*turnlog convert"):
            change()
    with pytest.raises(RewriteRefused, match="turnlog convert"):
        remove(copy.rename(copy.with_name("s.jsonl")))


def test_a_rerun_names_convert(run: Run) -> None:
    done = run("rerun", CLAUDE)
    assert done.code != 0
    assert "Claude Code" in done.err
    assert "turnlog convert" in done.err


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_convert_makes_a_session_that_can_be_gone_on_with(path: Path, tmp_path: Path) -> None:
    done = convert(path, tmp_path)
    made, session = turnlog.load(done.path), turnlog.load(path)
    assert (made.format, len(made), shown(made)) == ("format 0", len(session), shown(session))
    assert made.fork().id != made.id
    assert {"no-stream", "no-call-starts"} <= {one.code for one in done.losses}
    assert done.format == session.format


def test_convert_tells_which_line_became_which_event(tmp_path: Path) -> None:
    done = convert(DATA / "codex-old.jsonl", tmp_path)
    told = json.loads((done.path.parent / "convert-map.json").read_bytes())["from"]
    assert told["lines"][:3] == [[0, 1, 1], [1, 2, 1], [2, 3, 3]]
    session = opened("codex-old")
    assert session.origins is not None
    assert told["lines"] == [list(one) for one in session.origins.runs()]


@pytest.mark.parametrize("name", ["claude-full", "claude-old", "codex-full", "chat-messages"])
async def test_an_agent_goes_on_with_what_was_converted(name: str, tmp_path: Path) -> None:
    done = convert(DATA / f"{name}.jsonl", tmp_path)
    async with turnlog.open_store(tmp_path) as store:
        session = await store.resume(done.header.id)
        async with Agent(session, ScriptedModel([text("I go on.")]), []) as agent:
            result = await agent.run("Go on.")
    assert (result.text, type(result.reason)) == ("I go on.", Completed)
    assert [one for one in turnlog.verify(done.path).findings if one.severity != "note"] == []
