"""A session recorded once against a server, and played back without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import turnlog
from turnlog.model import ScriptError, call, usage
from turnlog.testing import Cassette, LoopbackServer

pytest_plugins = ["pytester"]

TESTS = '''
import asyncio, os
import pytest
from turnlog.agent import Agent
from turnlog.tools import tool

@tool
def read(path: str) -> str:
    """Read a file."""
    return "hello from " + path

@pytest.mark.parametrize("path", ["a/b.txt"])
def test_reading(cassette, path):
    async def main():
        model = cassette.model(os.environ["MODEL"], base_url=os.environ["BASE"], api_key="sk-secret")
        async with Agent(cassette.session, model, [read], system=os.environ.get("SYSTEM")) as agent:
            result = await agent.run("Read " + path)
        await model.aclose()
        return result
    result = asyncio.run(main())
    print(cassette.recording, result.text)
    assert os.environ.get("WANT", "hello") in result.text
'''
SCRIPT = [[call("read", path="a/b.txt"), usage(10, 5)], ["It says hello.", usage(20, 5)]]


class Project:
    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, server: LoopbackServer) -> None:
        self.pytester, self.monkeypatch, self.server = pytester, monkeypatch, server

    @property
    def recording(self) -> Path:
        return self.pytester.path / "cassettes" / "test_it" / "test_reading-a-b.txt.jsonl"

    def run(self, *options: str, online: bool = True) -> pytest.RunResult:
        self.monkeypatch.setenv("BASE", self.server.base_url if online else "http://127.0.0.1:9/v1")
        plugin = ("-p", "no:turnlog", "-p", "turnlog.testing.pytest_plugin")  # installed or not
        plugin += ("-p", "no:hypothesispytest", "-p", "no:xdist", "-p", "no:anyio")  # starts faster
        return self.pytester.runpytest_subprocess(*plugin, "-rP", "-p", "no:cacheprovider", *options)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("MODEL", "openai/any")
    pytester.makepyfile(test_it=TESTS)
    with LoopbackServer(SCRIPT * 2, strict=False) as server:
        yield Project(pytester, monkeypatch, server)


@pytest.mark.parametrize("model", ["openai/any", "anthropic/any"])
def test_it_is_recorded_once_and_played_without_a_network(project: Project, model: str) -> None:
    project.monkeypatch.setenv("MODEL", model)
    done = project.run()
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["True It says hello."])
    assert "sk-secret" not in project.recording.read_text()
    assert turnlog.load(project.recording).id == "test_reading-a-b.txt"
    assert list(turnlog.verify(project.recording).findings) == []
    assert [one.name for one in project.recording.parent.iterdir()] == [project.recording.name]
    done = project.run(*(["--cassettes=play"] if model.startswith("openai") else []), online=False)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["False It says hello."])
    assert len(project.server.requests) == 2


def test_a_test_that_asks_something_else_fails_with_the_difference(project: Project) -> None:
    project.run().assert_outcomes(passed=1)
    project.monkeypatch.setenv("SYSTEM", "Be brief.")
    project.monkeypatch.setenv("WANT", "")
    done = project.run(online=False)
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["*+system Be brief.*", "*record it anew with --cassettes=record*"])
    recorded = project.recording.read_bytes()
    done = project.run("--cassettes=record")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["True It says hello."])
    assert recorded != project.recording.read_bytes()


def test_what_a_failing_test_heard_is_not_recorded(project: Project) -> None:
    project.monkeypatch.setenv("WANT", "something else")
    project.run().assert_outcomes(failed=1)
    assert not project.recording.exists()


def test_without_a_recording_there_is_nothing_to_play(project: Project) -> None:
    done = project.run("--cassettes=play")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*there is no recording *; record it with --cassettes=once"])
    project.pytester.makeini("[pytest]\ncassettes = play\n")
    project.run("--cassettes=once").assert_outcomes(passed=1)
    project.pytester.makeini("[pytest]\ncassettes = sometimes\n")
    project.run().stdout.fnmatch_lines(["*cassettes = 'sometimes': use one of once, play, record*"])


def test_a_recording_is_played_whole_and_by_one_model(tmp_path: Path) -> None:
    played = Cassette(Path(__file__).parents[1] / "data" / "sample.jsonl", recording=False)
    played.check()
    played.model("openai/any")
    with pytest.raises(RuntimeError, match="is played already"):
        played.model("openai/any")
    with pytest.raises(ScriptError, match="never asked for"):
        played.check()
    empty = Cassette(tmp_path / "c" / "x.jsonl", recording=True)
    empty.save()
    assert empty.session is empty.session
    empty.save()
    assert not empty.path.parent.exists()
