"""``turnlog resume``: going on with what another process left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.homes import Home, ends, printed, running, until
from turnlog.model import call, text, wait
from turnlog.store.discover import latest
from turnlog.testing import LoopbackServer
from turnlog.testing.replies import reply


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


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
        done = home.run(server, "resume", "9b26")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_a_task_in_the_place_of_a_session_is_told_where_it_goes(home: Home) -> None:
    with LoopbackServer([]) as server:
        done = home.run(server, "resume", "go on")

    assert done.returncode == 2
    assert "turnlog resume --latest 'go on'" in done.stderr


def test_an_empty_task_is_refused_as_in_run(home: Home) -> None:
    with LoopbackServer([[text("Hello.")]]) as server:
        home.run(server, "run", "Hi.")
        done = home.run(server, "resume", "--latest", " ")

    assert done.returncode == 2
    assert len(ends(home.session)) == 1


def test_a_log_outside_of_a_root_is_told_how_to_get_into_one(home: Home) -> None:
    with LoopbackServer([[text("Hello.")]]) as server:
        home.run(server, "run", "Hi.")
        shutil.copy(latest([home.path / "sessions"]), home.workspace / "copy.jsonl")
        done = home.run(server, "resume", "copy.jsonl", "Go on.")

    assert done.returncode == 2
    assert "turnlog convert copy.jsonl --out ROOT" in done.stderr


def test_a_session_without_a_lock_file_needs_force(home: Home) -> None:
    """The message named an argument of a Python function."""
    with LoopbackServer([[text("Hello.")], [text("Again.")]]) as server:
        home.run(server, "run", "Hi.")
        latest([home.path / "sessions"]).with_name("session.lock").unlink()
        refused = home.run(server, "resume", "--latest", "Go on.")
        forced = home.run(server, "resume", "--latest", "Go on.", "--force")

    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert "dsh" in refused.stderr
    assert forced.returncode == 0


def test_a_workspace_that_is_gone_is_named_as_the_session_s(home: Home) -> None:
    with LoopbackServer([[text("Hello.")], [text("Again.")]]) as server:
        (home.workspace / "gone").mkdir()
        home.run(server, "run", "Hi.", "-C", "gone")
        (home.workspace / "gone").rmdir()
        refused = home.run(server, "resume", "--latest", "Go on.")
        elsewhere = home.run(server, "resume", "--latest", "Go on.", "-C", ".")

    assert refused.returncode == 2
    assert "where the session worked" in refused.stderr
    assert elsewhere.returncode == 0


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_other_formats_are_sent_to_convert(home: Home, force: tuple[str, ...]) -> None:
    with LoopbackServer([[text("Hello.")]]) as server:
        home.run(server, "run", "Hi.")
        stored = latest([home.path / "sessions"])
        header, rest = stored.read_bytes().split(b"\n", 1)
        newer = stored.with_name("session.v2.jsonl")
        newer.write_bytes(header.replace(b'"version":0', b'"version":2,"isSeeded":false') + b"\n" + rest)
        stored.unlink()
        done = home.run(server, "resume", str(newer), "Go on.", *force)

    assert done.returncode == 2, done.stderr
    assert "format 2" in done.stderr
    assert "turnlog convert" in done.stderr


def test_two_at_once_are_kept_apart_and_the_owner_is_named(home: Home) -> None:
    with (
        LoopbackServer([lambda _: reply(text("Working"), wait(3600))]) as server,
        running(home.start(server, "run", "Go.")) as process,
    ):
        printed(process, "Working")
        second = home.run(server, "resume", "--latest", "Me too.", "--force")

    assert second.returncode == 3
    assert f"pid {process.pid}" in second.stderr


def test_after_a_kill_the_model_is_told_which_call_ran_and_which_did_not(home: Home) -> None:
    calls = [call("bash", id="ran", command="touch began; sleep 3600"), call("bash", id="not", command="touch never")]
    with (
        LoopbackServer([calls]) as server,
        running(home.start(server, "run", "Go.", "--allow", "bash")) as process,
    ):
        until((home.workspace / "began").exists)
        process.kill()
        process.wait()
    with LoopbackServer([[text("I see.")]]) as server:
        home.run(server, "resume", "--latest", "Go on.")
        told = {one["tool_call_id"]: one["content"] for one in server.bodies[0]["messages"] if one["role"] == "tool"}

    assert "outcome is unknown" in told["ran"]
    assert "not started" in told["not"]
    assert not (home.workspace / "never").exists()
