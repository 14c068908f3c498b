"""`bash`: run a command, under a guardian."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from pathlib import Path
from typing import Annotated, Final

import anyio
from pydantic import Field

from turnlog.events import Json

from ..context import ToolContext
from ..errors import ToolFailure
from ..tool import Policy, Proposal, Subjects, ToolOutput, tool
from . import shell
from .process import Collected, Guarded, Report, clean_environment

SHOWN: Final = 64 * 1024
"""Bytes of output the model is shown."""
STORED: Final = 256 * 1024 * 1024
"""Bytes of output that are kept in a file."""
SECONDS: Final = 120.0
"""Time limit when the model names none."""
LIVE_SECONDS: Final = 0.1
"""Output is shown live this often at most."""
LIVE_CHARACTERS: Final = 4096
"""And at most so much of it each time."""


def _command(proposal: Proposal) -> str:
    command = proposal.arguments.get("command")
    return command if isinstance(command, str) else ""


def _subjects(proposal: Proposal) -> Subjects:
    return shell.subjects(_command(proposal))


@tool(policy=Policy(default="ask", subjects=_subjects, question=_command))
async def bash(
    command: Annotated[str, Field(min_length=1)],
    ctx: ToolContext,
    timeout: Annotated[float, Field(gt=0, le=3600)] = SECONDS,
) -> ToolOutput:
    """Run a shell command in the workspace and return what it prints (stdout and stderr together) and its exit code.

    Each call is a fresh shell; standard input is empty. Processes it leaves in the background are ended with it. Long
    output is shown with its middle left out and kept whole in a file.

    Args:
        command: The command line for bash.
        timeout: Seconds after which it is stopped.
    """
    run = _Run(ctx, command)
    try:
        return await run.result(timeout)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await run.cancelled()
        raise
    finally:
        run.process.close()


class _Run:
    """One run of a command and what is said about it."""

    def __init__(self, ctx: ToolContext, command: str) -> None:
        self._ctx = ctx
        self._began = time.monotonic()
        self._pending = ""
        self._shown_at = 0.0
        self.output = Collected(SHOWN, STORED, self._file)
        program = shutil.which("bash") or "/bin/sh"
        self.process = Guarded([program, "-c", command], ctx.workspace, clean_environment(os.environ), self._hear)

    async def result(self, seconds: float) -> ToolOutput:
        try:
            async with asyncio.timeout(seconds):
                report = await self.process.wait()
        except TimeoutError:
            stopped = await self.process.stopped()
            text = f"bash ran longer than {seconds:g} s and was stopped\n{self.text(stopped)}"
            kind = ("ToolTimeoutError", "TOOL_TIMEOUT")
            raise ToolFailure(text, meta=self.meta(stopped), kind=kind) from None
        self._show()
        ended = f"[exit code {report.code}]" if report.code >= 0 else f"[ended by signal {-report.code}]"
        return ToolOutput(f"{self.text(report)}{ended}", meta=self.meta(report))

    async def cancelled(self) -> None:
        report = await self.process.stopped()
        self._ctx.note(self.text(report).rstrip("\n"))

    def text(self, report: Report | None) -> str:
        """Output, then what is to be said about processes; ends with a newline unless empty."""
        said = [self.output.text.rstrip("\n")] if self.output.total else []
        if report is None:
            said.append("[its processes were told to stop, but it is not known whether they did]")
        elif report.ended and self.process.ended_by_itself:
            said.append(f"[ended processes it left in the background: {_pids(report.ended)}]")
        if report is not None and report.escaped:
            said.append(f"[still running, outside its process group: pid {_pids(report.escaped)}]")
        return "".join(f"{one}\n" for one in said)

    def meta(self, report: Report | None) -> Json:
        meta: dict[str, Json] = {
            "outputBytes": self.output.total,
            "durationMs": round((time.monotonic() - self._began) * 1000),
        }
        if report is not None:
            meta["exitCode"] = report.code
            if report.escaped:
                meta["escaped"] = list(report.escaped)
        if self.output.path is not None:
            meta["output"] = str(self.output.path)
        return meta

    def _hear(self, piece: bytes) -> None:
        self._pending = (self._pending + self.output.take(piece))[-LIVE_CHARACTERS:]
        if time.monotonic() - self._shown_at >= LIVE_SECONDS:
            self._show()

    def _show(self) -> None:
        if self._pending:
            self._ctx.progress(self._pending)
            self._pending, self._shown_at = "", time.monotonic()

    def _file(self) -> Path:
        return spill_file(self._ctx, "bash")


def spill_file(ctx: ToolContext, what: str) -> Path:
    """A new name in the spill directory that says which call it belongs to."""
    call = ctx.call
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", call.call_id)[:40]
    stem = f"t{call.turn}.s{call.step}.{safe}.{what}"
    path, number = ctx.spill / f"{stem}.txt", 1
    while path.exists():
        path, number = ctx.spill / f"{stem}.{number}.txt", number + 1
    return path


def _pids(pids: tuple[int, ...]) -> str:
    return ", ".join(map(str, pids))
