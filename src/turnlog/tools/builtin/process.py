"""A command under its guardian: started, heard, stopped, never waited for without end."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from ..errors import ToolFailure

GUARDIAN: Final = Path(__file__).with_name("guardian.py")
TERM_SECONDS: Final = 0.5
"""How long the group has between TERM and KILL; less than the pipeline's grace, so that the result can tell of it."""
REPORT_SECONDS: Final = 3.0
"""How long a guardian that was told to end its group is waited for."""
DRAIN_SECONDS: Final = 0.25
"""How long output that is still in the pipe is read after the end; somebody who escaped may hold the pipe open."""
PIECE: Final = 1 << 16
_SECRET: Final = re.compile(r"(?i)api_?key|access_?key|private_?key|token|secret|passw(or)?d|passphrase|credential")
_STARTUP_FILES: Final = frozenset({"BASH_ENV", "ENV"})


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what looks like a key, and without what would run before the command."""
    return {
        name: value for name, value in environment.items() if name not in _STARTUP_FILES and not _SECRET.search(name)
    }


@dataclass(frozen=True, slots=True)
class Report:
    """What the guardian says at the end."""

    code: int
    """Exit code; negative is the signal that ended the command."""
    ended: tuple[int, ...] = ()
    """Processes of the group that were still there and were ended."""
    escaped: tuple[int, ...] = ()
    """Processes that left the group and still run."""


class Guarded:
    """One command. ``close()`` it in any case; closing ends the command."""

    def __init__(
        self, command: list[str], directory: Path, environment: Mapping[str, str], hear: Callable[[bytes], object]
    ) -> None:
        """Start it; *hear* is called on the loop with what it prints. There is no await between here and ``close``
        in which a cancel could lose it."""
        self._loop = asyncio.get_running_loop()
        self._hear = hear
        self._said = b""
        self._group: int | None = None
        self._report: Report | None = None
        self._failed: str | None = None
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._silent: asyncio.Future[None] = self._loop.create_future()
        mark = f"TURNLOG_COMMAND={uuid4().hex}"
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        self._output, output = os.pipe()
        name, _, value = mark.partition("=")
        settings = (str(control), str(status), str(output), mark, str(TERM_SECONDS), str(directory))
        try:
            self._guardian = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARDIAN), *settings, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(control, status, output),
                start_new_session=True,
                env={**environment, name: value},
            )
        except (OSError, ValueError) as error:  # too long a command, no more processes, a NUL in it
            for one in (self._control, self._status, self._output):
                os.close(one)
            raise ToolFailure(f"the command could not be started: {error}") from None
        finally:
            for one in (control, status, output):
                os.close(one)
        for one in (self._status, self._output):
            os.set_blocking(one, False)
        self._loop.add_reader(self._status, self._on_status)
        self._loop.add_reader(self._output, self._on_output)

    async def wait(self) -> Report:
        """Wait for the end. Raises :class:`ToolFailure` when the command could not be started. Cancelling the wait
        changes nothing."""
        await asyncio.shield(self._over)
        if self._failed is not None:
            raise ToolFailure(f"the command could not be started: {self._failed}")
        await asyncio.wait({self._silent}, timeout=DRAIN_SECONDS)
        if self._report is None:  # the guardian was killed: then this is ours to do
            self._end_group()
            return Report(-int(signal.SIGKILL))
        return self._report

    @property
    def ended_by_itself(self) -> bool:
        """Whether nobody stopped it."""
        return self._control >= 0

    def stop(self) -> None:
        """Have the guardian end the group."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    async def stopped(self) -> Report | None:
        """Stop and wait for the report, at most for a time; None when it did not come."""
        self.stop()
        await asyncio.wait({self._over}, timeout=REPORT_SECONDS)
        return await self.wait() if self._over.done() else None

    def close(self) -> None:
        """Give back everything. What still runs is ended by its guardian."""
        self.stop()
        for one in (self._status, self._output):
            self._loop.remove_reader(one)
            os.close(one)
        for future in (self._over, self._silent):
            future.cancel()
        deadline = time.monotonic() + (0.1 if self._report is not None else 0)
        while self._guardian.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)  # it has said its last word and is exiting
        if self._guardian.returncode is None:
            threading.Thread(target=self._guardian.wait, daemon=True).start()

    def _end_group(self) -> None:
        if self._group is not None:
            try:
                os.killpg(self._group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return

    def _on_output(self) -> None:
        try:
            piece = os.read(self._output, PIECE)
        except BlockingIOError:
            return
        if piece:
            self._hear(piece)
        else:
            self._loop.remove_reader(self._output)
            _set(self._silent)

    def _on_status(self) -> None:
        try:
            piece = os.read(self._status, PIECE)
        except BlockingIOError:
            return
        self._said += piece
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not piece or self._report is not None or self._failed is not None:
            self._loop.remove_reader(self._status)
            _set(self._over)

    def _take(self, said: dict[str, object]) -> None:
        match said:
            case {"pid": int(group)}:
                self._group = group
            case {"code": int(code), "ended": list(ended), "escaped": list(escaped)}:
                self._report = Report(code, tuple(ended), tuple(escaped))
            case _:
                self._failed = str(said.get("error"))


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Collected:
    """What a command printed: all of it if it is short, else head and tail, and the whole in a file."""

    def __init__(self, shown: int, stored: int, file: Callable[[], Path]) -> None:
        """*shown*: bytes that are kept for the model. *stored*: bytes that go to the file at most. *file*: its path,
        asked for when it is needed."""
        self._half = shown // 2
        self._shown = shown
        self._stored = stored
        self._file = file
        self._head = bytearray()
        self._tail = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.total = 0
        self.path: Path | None = None
        self.lost: str | None = None
        """Why the file does not hold everything, if it does not."""

    def take(self, piece: bytes) -> str:
        """Keep *piece*; gives its text, for showing it live."""
        if self.total <= self._shown < self.total + len(piece):
            self._begin_file()
        if self.path is not None and self.lost is None:
            self._write(piece)
        self.total += len(piece)
        room = self._shown - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        del self._tail[: max(0, len(self._tail) - self._half)]
        return self._decoder.decode(piece)

    @property
    def text(self) -> str:
        """What the model is shown."""
        if self.total <= self._shown:
            return self._head.decode(errors="replace")
        tail = bytes(self._head[self._half :] + self._tail)[-self._half :]
        left = self.total - 2 * self._half
        where = f"the whole output is in {self.path}" if self.lost is None else self.lost
        return f"{_head(self._head[: self._half])}\n[… {left} bytes left out; {where} …]\n{_tail(tail)}"

    def _begin_file(self) -> None:
        try:
            path = self._file()
            with path.open("xb") as file:
                file.write(self._head)
            self.path = path
        except OSError as error:
            self.lost = f"the rest could not be stored: {error}"

    def _write(self, piece: bytes) -> None:
        assert self.path is not None
        if self.total + len(piece) > self._stored:
            self.lost = f"the first {self.total} bytes of the output are in {self.path}"
            return
        try:
            with self.path.open("ab") as file:
                file.write(piece)
        except OSError as error:
            self.lost = f"the first {self.total} bytes of the output are in {self.path}; then: {error}"


def _head(piece: bytes | bytearray) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(piece), final=False)


def _tail(piece: bytes) -> str:
    start = 0
    while start < min(3, len(piece)) and piece[start] & 0xC0 == 0x80:
        start += 1
    return piece[start:].decode(errors="replace")
