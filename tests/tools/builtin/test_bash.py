"""`bash` with real processes: output, ends, cancels, and what is left behind (BC-028, BC-031)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.running import Rig
from turnlog.events import CancelledByUser
from turnlog.tools import Approvals, Progress, Result, ToolContext, tool
from turnlog.tools.builtin import bash as bash_module
from turnlog.tools.builtin.bash import bash
from turnlog.tools.builtin.process import Collected, clean_environment

ROOT = Path(__file__).parents[3]
SCRIPT = """\
#!/bin/sh
( trap '' TERM; i=0; while [ $i -lt 600 ]; do date +%s >> "$1/heartbeat"; i=$((i+1)); sleep 0.2; done ) &
echo $! > "$1/grandchild"
setsid sh -c 'echo $$ > "$0/escaped"; exec sleep 120' "$1" &
while [ ! -s "$1/escaped" ]; do sleep 0.02; done
echo started; wait
"""


def rig(tmp_path: Path, **settings: Any) -> Rig:
    return Rig(bash, workspace=tmp_path, approvals=Approvals(policy="allow"), spill=tmp_path / "spill", **settings)


def run(tmp_path: Path, command: str, **arguments: object) -> Result:
    return asyncio.run(rig(tmp_path).run("bash", command=command, **arguments))


def alive(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX"


def pid_in(path: Path, seconds: float = 10) -> int:
    eventually(lambda: path.exists() and path.read_text().strip(), seconds)
    return int(path.read_text())


def eventually(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Like BC-028's, and it says which processes there are; the escaped one is ended after the test."""
    path = tmp_path / "tool.sh"
    path.write_text(SCRIPT)
    yield f"sh {path} {tmp_path}"
    try:
        os.kill(int((tmp_path / "escaped").read_text()), signal.SIGKILL)
    except (OSError, ValueError):
        pass


# -- output -----------------------------------------------------------------------------------------------------------


def test_output_and_exit_code_are_shown_and_standard_input_is_empty(tmp_path: Path) -> None:
    result = run(tmp_path, "echo out; echo err >&2; cat; pwd; exit 3")
    assert result.text == f"out\nerr\n{tmp_path}\n[exit code 3]"
    assert isinstance(result.meta, dict) or result.meta is not None
    assert result.meta["exitCode"] == 3  # type: ignore[index,call-overload]
    assert not result.is_error


def test_a_command_that_ends_by_a_signal_says_so(tmp_path: Path) -> None:
    assert run(tmp_path, "kill -9 $$").text == "[ended by signal 9]"


def test_one_line_of_any_length_is_read_whole(tmp_path: Path) -> None:
    """BC-031."""
    line = tmp_path / "line"
    line.write_text('{"x":"' + "z" * 200_000 + '"}\n')
    result = run(tmp_path, f"cat {line}; echo after")
    assert "bytes left out" in result.text
    assert "after" in result.text
    [spilled] = (tmp_path / "spill").iterdir()
    assert spilled.read_bytes() == line.read_bytes() + b"after\n"
    assert str(spilled) in result.text


def test_the_middle_of_long_output_is_left_out_between_whole_characters(tmp_path: Path) -> None:
    paths = iter([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    for piece in ("é", "a漢", "🎉"):
        output = Collected(101, 10_000, lambda: next(paths))
        for _ in range(100):
            output.take(piece.encode())
        assert "\ufffd" not in output.text
        assert output.path is not None
        assert output.path.read_text() == piece * 100


def test_output_is_kept_up_to_a_limit_and_says_so(tmp_path: Path) -> None:
    output = Collected(10, 50, lambda: tmp_path / "kept")
    for _ in range(20):
        output.take(b"12345")
    assert (tmp_path / "kept").stat().st_size == 50
    assert "first 50 bytes" in output.text


def test_output_that_is_not_utf_8_becomes_text(tmp_path: Path) -> None:
    assert run(tmp_path, r"printf 'a\377b'").text == "a\ufffdb\n[exit code 0]"


def test_output_is_shown_live(tmp_path: Path) -> None:
    told: list[str] = []

    async def main() -> None:
        one = rig(tmp_path)
        one.bus.on(Progress, lambda event: told.append(event.text))
        running = asyncio.create_task(one.run("bash", command="echo first; sleep 0.5; echo second"))
        await asyncio.sleep(0.3)
        assert told == ["first\n"]
        await running

    asyncio.run(main())
    assert "".join(told) == "first\nsecond\n"


def test_keys_are_not_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-visible")
    monkeypatch.setenv("SOME_TOKEN", "visible")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "evil"))
    monkeypatch.setenv("PLAIN", "there")
    text = run(tmp_path, "env").text
    assert "visible" not in text
    assert "BASH_ENV" not in text
    assert "PLAIN=there" in text
    assert clean_environment({"aws_secret_access_key": "x", "PATH": "y"}) == {"PATH": "y"}


def test_a_command_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    for command in ("echo \0", "x" * 3_000_000):
        result = run(tmp_path, command)
        assert result.is_error
        assert "could not be started" in result.text


# -- ends -------------------------------------------------------------------------------------------------------------


def test_what_runs_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    result = run(tmp_path, "sleep 60 & echo $! > pid; echo done")
    pid = pid_in(tmp_path / "pid")
    assert not alive(pid)
    assert result.text == f"done\n[ended processes it left in the background: {pid}]\n[exit code 0]"


def test_a_pipe_held_open_by_who_escaped_does_not_hang(tmp_path: Path) -> None:
    began = time.monotonic()
    result = run(
        tmp_path, "setsid sh -c 'echo $$ > pid; exec sleep 60' & while [ ! -s pid ]; do sleep 0.01; done; echo x"
    )
    pid = pid_in(tmp_path / "pid")
    try:
        assert time.monotonic() - began < 10
        assert f"still running, outside its process group: pid {pid}]" in result.text
        assert result.meta["escaped"] == [pid]  # type: ignore[index,call-overload]
    finally:
        os.kill(pid, signal.SIGKILL)


def check_ended(tmp_path: Path, text: str) -> None:
    """The group is gone, who ignored TERM too; who escaped is named."""
    assert not alive(int((tmp_path / "grandchild").read_text()))
    size = (tmp_path / "heartbeat").stat().st_size
    time.sleep(0.5)
    assert (tmp_path / "heartbeat").stat().st_size == size
    assert f"pid {(tmp_path / 'escaped').read_text().strip()}" in text


def test_a_cancel_ends_the_whole_group_within_the_grace_period(tmp_path: Path, script: str) -> None:
    """BC-028."""

    async def main() -> Result:
        one = rig(tmp_path)

        def started(event: Progress) -> None:
            if "started" in event.text:
                one.cancellation.cancel(CancelledByUser())

        one.bus.on(Progress, started)
        began = time.monotonic()
        result = await one.run("bash", command=script)
        assert time.monotonic() - began < 5
        assert one.pipeline.stuck == ()
        return result

    result = asyncio.run(main())
    assert result.error is not None
    assert result.error.code == "ABORTED"
    assert "started" in result.text
    check_ended(tmp_path, result.text)


def test_a_time_limit_ends_the_whole_group_and_keeps_the_output(tmp_path: Path, script: str) -> None:
    result = run(tmp_path, script, timeout=1)
    assert result.error is not None
    assert result.error.code == "TOOL_TIMEOUT"
    assert "started" in result.text
    check_ended(tmp_path, result.text)


def test_cancelling_the_callers_task_ends_the_group_too(tmp_path: Path, script: str) -> None:
    async def main() -> None:
        task = asyncio.create_task(rig(tmp_path).run("bash", command=script))
        while not (tmp_path / "escaped").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    eventually(lambda: not alive(pid_in(tmp_path / "grandchild")))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_group_ends_when_the_harness_dies(tmp_path: Path, script: str, number: int) -> None:
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.tools.builtin.test_bash import rig
asyncio.run(rig(Path({str(tmp_path)!r})).run("bash", command={script!r}))
"""
    harness = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    try:
        pid_in(tmp_path / "escaped", 30)
        grandchild = pid_in(tmp_path / "grandchild")
        assert alive(grandchild)
        harness.send_signal(number)
        harness.wait(20)
    finally:
        harness.kill()
        harness.wait()
    eventually(lambda: not alive(grandchild))
    eventually(lambda: not guardians(str(tmp_path)))


def guardians(about: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "guardian.py" in line and about in line and alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def test_a_killed_guardian_leaves_no_group(tmp_path: Path) -> None:
    async def main() -> Result:
        task = asyncio.create_task(rig(tmp_path).run("bash", command="echo $$ > pid; sleep 60"))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        [guardian] = guardians(str(tmp_path))
        os.kill(guardian, signal.SIGKILL)
        return await task

    result = asyncio.run(main())
    assert result.text.endswith("[ended by signal 9]")
    eventually(lambda: not alive(pid_in(tmp_path / "pid")))


def test_cancelling_at_any_moment_leaves_no_process_and_no_descriptor(tmp_path: Path) -> None:
    async def main() -> None:
        before = len(os.listdir("/proc/self/fd"))
        for moment in range(12):
            one = rig(tmp_path)
            task = asyncio.create_task(one.run("bash", command=f"echo $$ > pid{moment}; sleep 60"))
            await asyncio.sleep(moment * 0.008)
            one.cancellation.cancel(CancelledByUser())
            result = await task
            assert result.error is not None
            assert result.error.code in ("ABORTED", "ABORTED_BEFORE_DISPATCH")
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(main())
    eventually(lambda: not guardians(str(tmp_path)))
    for path in tmp_path.glob("pid*"):
        assert not path.read_text().strip() or not alive(int(path.read_text()))


def test_a_stuck_report_does_not_hold_up_the_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should ending the group take longer than the grace period, the call is abandoned and the guardian goes on."""
    monkeypatch.setattr("turnlog.tools.builtin.process.TERM_SECONDS", 1.0)

    async def main() -> None:
        one = rig(tmp_path, grace=0.1)
        task = asyncio.create_task(one.run("bash", command="trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        one.cancellation.cancel(CancelledByUser())
        began = time.monotonic()
        result = await task
        assert time.monotonic() - began < 0.8
        assert "left running" in result.text
        while one.pipeline.stuck:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert not alive(pid_in(tmp_path / "pid"))


def test_many_commands_run_beside_each_other(tmp_path: Path) -> None:
    @tool(parallel=True)
    async def many(ctx: ToolContext) -> str:
        """Run ten."""
        outputs = await asyncio.gather(*(bash(f"echo {number}", ctx) for number in range(10)))
        return "".join(str(one.content)[0] for one in outputs)

    result = asyncio.run(Rig(many, workspace=tmp_path).run("many"))
    assert result.text == "0123456789"
    assert bash_module.__doc__
