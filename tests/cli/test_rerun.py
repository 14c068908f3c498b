"""``turnlog rerun``"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import turnlog
from tests.cli.running import Ran
from tests.rerun.scenarios import agent, echo
from tests.rerun.test_counterfactual import usual
from tests.views.logs import SAMPLE
from turnlog import Agent, Session
from turnlog.agent import Enter, PreStep, Reject
from turnlog.bus import Next, Outcome, stop
from turnlog.model import call, text
from turnlog.store.header import header_line
from turnlog.testing import LoopbackServer

__all__ = ["echo"]


def file_of(session: Session, directory: Path) -> str:
    path = directory / "session.jsonl"
    path.write_bytes(
        b"".join(line + b"\n" for line in (header_line(session.header), *(e.line() for e in session.events)))
    )
    return str(path)


@pytest.fixture
def stored(tmp_path: Path) -> str:
    return file_of(usual(), tmp_path)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    with LoopbackServer(lambda _body: text("Something else.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


async def refuse(event: PreStep, next: Next[PreStep, Enter | Reject]) -> Outcome[Enter | Reject]:
    return stop(Reject("not today"), reason="it is closed")


def closed(one: Agent) -> None:
    """Listeners for ``--with``."""
    one.on(PreStep, refuse)


def test_the_same_again(run: Callable[..., Ran], stored: str) -> None:
    shown = run("rerun", stored)
    assert shown.code == 0
    assert shown.out.splitlines()[-1] == "no divergence"
    assert "every answer and every result is recorded" in shown.out


def test_a_listener_that_changes_the_run_is_found(run: Callable[..., Ran], stored: str) -> None:
    shown = run("rerun", stored, "--with", "tests.cli.test_rerun:closed")
    assert shown.code == 1
    assert "first divergence  event 3, @3 and @3: step/start and hook/invoked" in shown.out
    assert "recorded  @3 step/start" in shown.out
    assert "now       @3 hook/invoked" in shown.out


def test_json_says_both_sides(run: Callable[..., Ran], stored: str) -> None:
    shown = run("rerun", stored, "--with", "tests.cli.test_rerun:closed", "--json")
    said = json.loads(shown.out)
    assert (said["same"], said["ended"], said["liveFrom"]) == (False, "diverged", None)
    assert said["divergence"]["path"] == "type"
    assert said["divergence"]["recorded"]["type"] == "step/start"
    assert said["divergence"]["now"]["data"]["point"] == "agent/pre-step"


@pytest.mark.usefixtures("server")
def test_from_a_step_on_another_model_answers_and_the_log_is_kept(
    run: Callable[..., Ran], stored: str, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    shown = run("rerun", stored, "--from", "t2", "--model", "openai/other", "--keep", str(kept))
    assert shown.code == 1
    assert "the steps before t2 changed the workspace" in shown.err
    assert "call:call_2 write" in shown.err
    assert "t1.s1 to t1.s3 recorded, t2.s1 live" in shown.out
    made = turnlog.load(next(kept.rglob("session.jsonl")))
    assert made.derive_messages()[-1].text == "Something else."
    assert "t2.s1 live" in next(kept.rglob("attest.jsonl")).read_text()


def test_a_faithful_rerun_is_refused_after_changes(run: Callable[..., Ran], stored: str) -> None:
    shown = run("rerun", stored, "--from", "t2", "--model", "openai/other", "--require-faithful")
    assert shown.code == 2
    assert "changed the workspace" in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "openai/x"], "--from"),
        (["--tool-results", "live"], "--from"),
        (["--require-faithful"], "--from"),
        (["--from", "t9"], "t9"),
        (["--from", "@3"], "step"),
        (["--from", "nonsense"], "nonsense"),
        (["--from", "t2", "--model", "nobody/x"], "nobody"),
        (["--with", "nothing"], "module:function"),
        (["--with", "tests.cli.no_such_module:f"], "no_such_module"),
        (["--with", "tests.cli.test_rerun:nothing"], "nothing"),
    ],
)
def test_what_cannot_be_meant_is_said(run: Callable[..., Ran], stored: str, words: list[str], said: str) -> None:
    shown = run("rerun", stored, *words)
    assert shown.code == 2
    assert said in shown.err
    assert shown.out == ""


def test_live_tools_work_in_the_sessions_directory(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "note.txt").write_text("It is a note.\n")

    async def work() -> Session:
        session = Session(cwd=str(tmp_path))
        async with agent(session, [[call("echo", said="a")], "Done."]) as one:
            await one.run("Go.")
        return session

    stored = file_of(asyncio.run(work()), tmp_path)
    answers = iter([call("read", path="note.txt"), text("Read.")])
    with LoopbackServer(lambda _body: next(answers)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        shown = run("rerun", stored, "--from", "t1.s2", "--model", "openai/x", "--tool-results", "live",
                    "--keep", str(tmp_path / "kept"))  # fmt: skip
    assert shown.code == 1, shown.err
    made = turnlog.load(next((tmp_path / "kept").rglob("session.jsonl")))
    assert any("It is a note." in message.text for message in made.derive_messages())


def test_another_format_is_unsupported(run: Callable[..., Ran]) -> None:
    shown = run("rerun", str(SAMPLE))
    assert shown.code == 3
    assert "turnlog convert" in shown.err
