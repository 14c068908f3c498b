"""``turnlog run``, ``chat`` and ``resume``: the whole program against a provider on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.events import TurnEnd, UserMessage
from turnlog.model import call, error, max_tokens, text, usage, wait
from turnlog.store import StoredSession
from turnlog.store.discover import latest
from turnlog.testing import LoopbackServer
from turnlog.testing.replies import refuse, reply


class Home:
    """A home directory, a workspace, and the program in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workspace = path / "work"
        self.workspace.mkdir()

    def environment(self, server: LoopbackServer) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        return {
            **kept,
            "TURNLOG_HOME": str(self.path),
            "TURNLOG_MODEL": "openai/scripted",
            "OPENAI_BASE_URL": server.base_url,
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, server: LoopbackServer, *words: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "turnlog", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, cwd=self.workspace, env=self.environment(server), text=True, **pipes)

    def run(self, server: LoopbackServer, *words: str, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "turnlog", *words]
        return subprocess.run(
            command, cwd=self.workspace, env=self.environment(server), text=True, capture_output=True, input=typed
        )

    @property
    def session(self) -> StoredSession:
        return turnlog.load(latest([self.path / "sessions"]))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def printed(process: subprocess.Popen[str], wanted: str) -> None:
    """Read on until *wanted* was printed; an answer has no end of line while it streams."""
    assert process.stdout is not None
    shown = ""
    while wanted not in shown:
        character = process.stdout.read(1)
        assert character, f"it ended before it printed {wanted!r}: {shown}"
        shown += character


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def ends(session: StoredSession) -> list[str]:
    return [type(event.data.reason).__name__ for event in session.select(TurnEnd)]


def test_run_shows_the_work_and_keeps_a_sealed_session(home: Home) -> None:
    (home.workspace / "a.txt").write_text("one\n")
    with LoopbackServer(
        [[text("Let me look."), call("read", path="a.txt")], [text("It says one."), usage(9, 3)]]
    ) as server:
        done = home.run(server, "run", "What does a.txt say?")

    assert done.returncode == 0, done.stderr
    assert "assistant: It says one." in done.stdout
    assert "completed" in done.stderr
    assert home.session.derive_messages()[-1].text == "It says one."
    assert ends(home.session) == ["Completed"]
    assert not [one for one in turnlog.verify(latest([home.path / "sessions"])).findings if one.severity == "fault"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([text("done")], 0),
        (error("AUTH", status=401), 10),
        ([text("too lo"), max_tokens()], 11),
    ],
)
def test_the_exit_code_says_how_the_turn_ended(home: Home, answer: Any, code: int) -> None:
    with LoopbackServer([answer]) as server:
        assert home.run(server, "run", "Go.").returncode == code


def test_json_is_a_log_that_loads(home: Home, tmp_path: Path) -> None:
    with LoopbackServer([[text("Hello.")]]) as server:
        done = home.run(server, "run", "Hi.", "--json")

    printed = turnlog.load(done.stdout.encode())
    assert [event.line() for event in printed.events] == [event.line() for event in home.session.events]
    assert printed.header == home.session.header


def test_the_task_can_come_from_standard_input(home: Home) -> None:
    with LoopbackServer([[text("Hello.")]]) as server:
        done = home.run(server, "run", "-", typed="Say hello.")

    assert done.returncode == 0
    assert home.session.derive_messages()[0].text == "Say hello."


def test_an_empty_task_is_a_usage_error(home: Home) -> None:
    with LoopbackServer([]) as server:
        done = home.run(server, "run", "  ")

    assert (done.returncode, done.stdout) == (2, "")
    assert "empty" in done.stderr


@pytest.mark.parametrize("words", [("--model", "nobody/x"), ("--workspace", "/nowhere"), ("--allow", ":x")])
def test_bad_options_are_named_without_a_traceback(home: Home, words: tuple[str, ...]) -> None:
    with LoopbackServer([]) as server:
        done = home.run(server, "run", "Go.", *words)

    assert done.returncode in (2, 3)
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_a_missing_key_is_named(home: Home) -> None:
    with LoopbackServer([]) as server:
        environment = home.environment(server) | {"TURNLOG_MODEL": "deepseek/deepseek-chat"}
        command = [sys.executable, "-m", "turnlog", "run", "Go."]
        done = subprocess.run(command, cwd=home.workspace, env=environment, text=True, capture_output=True)

    assert done.returncode == 10
    assert "DEEPSEEK_API_KEY" in done.stderr


def test_ctrl_c_cancels_cleanly(home: Home) -> None:
    with (
        LoopbackServer([lambda _: reply(text("Working on it"), wait(3600), pause=0.01)]) as server,
        running(home.start(server, "run", "Go.")) as process,
    ):
        printed(process, "Working")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 130
    assert ends(home.session) == ["Aborted"]
    assert home.session.closers == ()


def test_hangup_cancels_cleanly_unless_headless(home: Home) -> None:
    with (
        LoopbackServer([lambda _: reply(text("Working on it"), wait(3600))]) as server,
        running(home.start(server, "run", "Go.")) as process,
    ):
        printed(process, "Working")
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=60)

    assert process.returncode == 130
    assert ends(home.session) == ["Aborted"]


def test_output_that_nobody_reads_ends_the_run_cleanly(home: Home) -> None:
    with (
        LoopbackServer([lambda _: reply(text(*["word "] * 500), wait(3600), pause=0.002)]) as server,
        running(home.start(server, "run", "Go.")) as process,
    ):
        printed(process, "word")
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=60)

    assert process.returncode == 141
    assert ends(home.session) == ["Aborted"]


def test_calls_that_need_approval_are_denied_when_nobody_can_be_asked(home: Home) -> None:
    with LoopbackServer([[call("bash", command="echo hi")], [text("I may not.")]]) as server:
        done = home.run(server, "run", "Go.", "--headless")

    assert done.returncode == 0
    assert "unavailable" in done.stdout


def test_a_rule_lets_a_call_pass_without_a_question(home: Home) -> None:
    with LoopbackServer([[call("bash", command="echo hi")], [text("Done.")]]) as server:
        done = home.run(server, "run", "Go.", "--allow", "bash:echo *")

    assert "approval/asked" not in done.stdout
    assert "hi" in home.session.derive_messages()[-2].text


def test_rules_stand_in_turnlog_toml(home: Home) -> None:
    (home.workspace / "turnlog.toml").write_text('[approval.rules]\nbash = "deny"\n')
    with LoopbackServer([[call("bash", command="echo hi")], [text("I may not.")]]) as server:
        home.run(server, "run", "Go.")

    assert "denies it" in home.session.derive_messages()[-2].text


def test_chat_takes_line_after_line_until_the_input_ends(home: Home) -> None:
    with LoopbackServer(lambda body: text(f"You said {body['messages'][-1]['content']!r}.")) as server:
        done = home.run(server, "chat", typed="one\n")

    assert done.returncode == 0, done.stderr
    assert "You said" in done.stdout


def test_resume_goes_on_after_a_kill(home: Home) -> None:
    with (
        LoopbackServer([lambda _: reply(text("Half an ans"), wait(3600))]) as server,
        running(home.start(server, "run", "Go.")) as process,
    ):
        printed(process, "Half")
        until(lambda: "Half an ans" in "".join(map(str, [event.raw for event in home.session.events])))
        process.kill()
        process.wait()

    with LoopbackServer([[text("The other half.")]]) as server:
        done = home.run(server, "resume", home.session.header.id[:16], "Go on.")

    assert done.returncode == 0, done.stderr
    assert ends(home.session) == ["Interrupted", "Completed"]
    assert [message.text for message in home.session.derive_messages() if message.role == "assistant"] == [
        "Half an ans",
        "The other half.",
    ]


def test_resume_without_a_session_says_so(home: Home) -> None:
    with LoopbackServer([]) as server:
        done = home.run(server, "resume", "Go on.")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_provider_that_refuses_for_a_while_is_asked_again(home: Home) -> None:
    with LoopbackServer([refuse(429, retry_after=0), [text("Now.")]]) as server:
        done = home.run(server, "run", "Go.")

    assert done.returncode == 0
    assert "llm/retry" in done.stdout
    said = [event.data.message.text for event in home.session.select(UserMessage)]
    assert said[0] == "Go."


def test_redact_keeps_secrets_out_of_the_log_and_from_the_model(home: Home) -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    with LoopbackServer([[text("I see.")]]) as server:
        done = home.run(server, "run", f"My key is {key}.", "--redact")
        sent = server.requests[0].body

    assert done.returncode == 0
    assert key.encode() not in sent
    assert key not in home.session.derive_messages()[0].text
    assert key.encode() not in latest([home.path / "sessions"]).read_bytes()
