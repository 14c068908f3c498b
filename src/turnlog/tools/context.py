"""`ToolContext`: what a tool that asks for it is given besides its arguments."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Generator
from math import inf
from pathlib import Path

import anyio

from turnlog.bus import Cancellation
from turnlog.events import UserMessage

from .call import Call
from .files import Files


class Spill:
    """The directory for what is too large to show, made when first needed."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._made = False

    @property
    def directory(self) -> Path | None:
        """Where it is or will be; None until a temporary one was needed."""
        return self._directory

    def path(self) -> Path:
        """The directory, which now exists."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="turnlog-"))
        elif not self._made:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._made = True
        return self._directory


class Done:
    """An awaitable with nothing left to wait for."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class ToolContext:
    """One call's surroundings. A parameter annotated with it is filled in and is not in the tool's schema.

    Everything but :meth:`ask` may also be used by a tool that runs in a thread.
    """

    def __init__(
        self,
        call: Call,
        *,
        workspace: Path,
        files: Files,
        spill: Spill,
        cancellation: Cancellation,
        tell: Callable[[Call, str], None],
        ask: Callable[[str], Awaitable[bool]],
    ) -> None:
        """For the pipeline and for tests of tools. Made on the event loop's thread."""
        self.call = call
        """The call as the model asked for it."""
        self.workspace = workspace
        """The directory the agent works in, symbolic links resolved."""
        self.files = files
        """Which files were read in this session, and how they were then."""
        self.cancellation = cancellation
        """The turn's cancellation. A tool in a thread asks ``cancelled`` now and then; an async one is cancelled."""
        self.contexts: list[UserMessage] = []
        self.concludes_turn = False
        self.notes: list[str] = []
        self._spill = spill
        self._tell = tell
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._expired = False
        self._limit: anyio.CancelScope | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the call should come to an end: the turn was cancelled or the tool's time is over."""
        return self._expired or self.cancellation.cause is not None

    @property
    def spill(self) -> Path:
        """A directory of the session for output that is too large to show; it exists."""
        return self._spill.path()

    def progress(self, text: str) -> Awaitable[None]:
        """Show *text* live (``tools/progress``); nothing of it is logged. Awaiting it is not needed."""
        self._loop.call_soon_threadsafe(self._tell, self.call, text)
        return Done()

    def defer(self, message: UserMessage) -> None:
        """Give the model *message* in the next step, after this call's result."""
        self.contexts.append(message)

    def conclude_turn(self) -> None:
        """End the turn with this result, without another request."""
        self.concludes_turn = True

    def note(self, text: str) -> None:
        """Something the result has to say if this call is cancelled or runs out of time."""
        self.notes.append(text)

    async def ask(self, question: str) -> bool:
        """Ask a person for approval in the middle of the call; False also when nobody can be asked.

        The tool's deadline waits meanwhile.
        """
        limit = self._limit
        if limit is None:
            return await self._ask(question)
        left, limit.deadline = limit.deadline - anyio.current_time(), inf
        try:
            return await self._ask(question)
        finally:
            limit.deadline = anyio.current_time() + left

    def limited_by(self, limit: anyio.CancelScope) -> None:
        """For the pipeline: *limit* holds the deadline."""
        self._limit = limit

    def expire(self) -> None:
        """For the pipeline: the time is over."""
        self._expired = True
