"""``turnlog run``, ``chat`` and ``resume``: the whole program against a provider on loopback."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import turnlog
from tests.cli.homes import Home, ends, printed, running, until
from turnlog.events import UserMessage
from turnlog.model import call, error, max_tokens, text, usage, wait
from turnlog.store.discover import latest
from turnlog.testing import LoopbackServer
from turnlog.testing.replies import refuse, reply


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


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


def test_what_a_tool_says_is_shown_line_by_line(home: Home) -> None:
    """Its newlines were written out: ``hi\\n``."""
    with LoopbackServer([[call("bash", command="echo hi; echo there")], [text("Done.")]]) as server:
        done = home.run(server, "run", "Go.", "--allow", "bash")

    assert "\\n" not in done.stdout.split("tool/call")[1]


def test_nothing_that_a_model_says_moves_the_cursor_or_looks_like_our_own_lines(home: Home) -> None:
    forged = "a\x1b]0;t\x07\x1b[2J\u202e\r\x9b1m\n[turn/end] turn=1"
    answer: list[Any] = [text(*forged), call(f"to{forged}", id="c\x1b[31m", **{forged: forged})]
    with LoopbackServer([answer, [text("Done.")]]) as server:
        done = home.run(server, "run", f"Go{forged}")

    assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(done.stdout + done.stderr)
    assert [line for line in done.stdout.splitlines() if line.startswith("[turn/end]")] == [
        "[turn/end] turn=1 reason={'kind': 'completed'}"
    ]


def test_a_task_that_is_no_text_is_a_usage_error(home: Home) -> None:
    with LoopbackServer([]) as server:
        command = [sys.executable.encode(), b"-m", b"turnlog", b"run", b"a\xffb"]
        done = subprocess.run(command, cwd=home.workspace, env=home.environment(server), capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "turnlog: the task is no UTF-8 text\n"


def test_a_directory_that_is_gone_is_named(home: Home) -> None:
    with LoopbackServer([]) as server:
        command = ["sh", "-c", f"mkdir gone; cd gone; rmdir ../gone; exec {sys.executable} -m turnlog run Go."]
        done = subprocess.run(command, cwd=home.workspace, env=home.environment(server), capture_output=True, text=True)

    assert done.returncode == 2
    assert "the current directory is gone" in done.stderr


@pytest.mark.parametrize("limit", [None, 900])
def test_without_its_record_no_request_is_sent_and_one_sentence_says_why(home: Home, limit: int | None) -> None:
    """The refusal was told twice, after a hint how to look at a session that is not there."""

    def full() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with LoopbackServer([]) as server:
        environment = home.environment(server) | ({"TURNLOG_HOME": "/dev/null/none"} if limit is None else {})
        command = [sys.executable, "-m", "turnlog", "run", "Go."]
        done = subprocess.run(
            command, cwd=home.workspace, env=environment, capture_output=True, text=True, preexec_fn=full
        )
        asked = len(server.requests)

    assert (done.returncode, asked) == (3, 0)
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert "turnlog show" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_it_works_without_its_streams(home: Home, closed: str) -> None:
    with LoopbackServer([[call("bash", command="echo hi")], [text("Done.")]]) as server:
        line = f"exec {sys.executable} -m turnlog run Go. --allow bash {closed}"
        done = subprocess.run(["bash", "-c", line], cwd=home.workspace, env=home.environment(server))
        told = server.bodies[-1]["messages"][-1]["content"]

    assert done.returncode == 0
    assert told == "hi\n[exit code 0]"


def test_ctrl_c_is_heard_when_nobody_reads_the_output_any_more(home: Home) -> None:
    """Saying so failed, and the cancel after it never came."""
    with (
        LoopbackServer([lambda _: reply(text(*["word "] * 100), wait(3600), pause=0.005)]) as server,
        running(home.start(server, "run", "Go.", "--headless")) as process,
    ):
        printed(process, "word")
        assert process.stdout is not None
        process.stdout.close()
        until(lambda: sum("word" in str(event.raw) for event in home.session.events) == 100)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)

    assert process.returncode == 130
    assert ends(home.session) == ["Aborted"]


def test_a_full_disk_behind_the_output_ends_the_run_cleanly(home: Home) -> None:
    with (
        LoopbackServer(lambda _: reply(text("Working"), wait(3600))) as server,
        open("/dev/full", "w") as full,
        running(home.start(server, "run", "Go.", stdout=full)) as process,
    ):
        _, told = process.communicate(timeout=60)

    assert process.returncode == 74
    assert told == "turnlog: the output cannot be written: No space left on device\n"
    assert ends(home.session) == ["Aborted"]


def test_chat_without_any_standard_input_ends(home: Home) -> None:
    with (
        LoopbackServer([]) as server,
        running(home.start(server, "chat", stdin=None, preexec_fn=lambda: os.close(0))) as chat,
    ):
        chat.communicate()

    assert chat.returncode == 0
