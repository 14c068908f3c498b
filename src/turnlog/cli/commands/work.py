"""``turnlog run``, ``chat`` and ``resume``: an agent at work in a terminal, its session in a store."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnlog.agent import Agent, Context
from turnlog.events import (
    Aborted,
    Blocked,
    CancelledByDisposal,
    CancelledByHook,
    Completed,
    Errored,
    Interrupted,
    MaxTokens,
    TurnEnd,
    TurnEndReason,
)
from turnlog.log import AnyEvent, Redactor, Session
from turnlog.model import HttpModel, UnknownProvider, open_model
from turnlog.store import LiveStore, SessionNotFound, StoreError, open_store
from turnlog.store.discover import own_root
from turnlog.store.liveness import LOCK_NAME
from turnlog.store.names import encode_project, encode_session
from turnlog.store.rewrite import root_of
from turnlog.tools import Approvals, Progress, approval_settings
from turnlog.tools.builtin import builtin_tools

from ..json_views import header_line_of, wire_line
from ..opening import Which
from ..problems import WrongUsage
from ..screen import OutputFailed, OutputGone, Screen
from ..terminal import Terminal, leave, signals
from ..text import duration
from ..transcript import Transcript

if TYPE_CHECKING:
    from turnlog.store import StoredSession
    from turnlog.tools import Action, Answer, Question

DEFAULT_MODEL: Final = "deepseek/deepseek-chat"
SETTINGS: Final = "turnlog.toml"
WRITTEN: Final = "format 0"
"""The only format that logs are written in."""
OUTPUT: Final = "output"
"""Where tools put what is too large to show: a directory beside the log."""
SYSTEM: Final = (
    "You work on a task for a person, with tools that act in their workspace. Look before you change something, make "
    "the smallest change that does it, check that it worked, and say in a few sentences what you did."
)
LEAVING: Final = 0.5
"""Seconds that a second Ctrl-C still waits for the turn to be closed."""
STORING: Final = 5.0
"""Seconds that it then waits for a disk that does not answer."""

_CODES: Final[dict[type, int]] = {Completed: 0, Errored: 10, MaxTokens: 11, Blocked: 12, Interrupted: 13, Aborted: 130}


@dataclass(frozen=True)
class Options:
    """What the command line says about an agent."""

    model: str | None
    base_url: str | None
    workspace: Path | None
    root: Path | None
    system: str | None
    allow: list[str]
    ask: list[str]
    deny: list[str]
    approve: Action | None
    max_tokens: int | None
    max_steps: int | None
    max_seconds: float | None
    stream: bool
    redact: bool
    headless: bool
    as_json: bool


def run(screen: Screen, task: str, options: Options) -> None:
    """Give a new agent a task, and wait for the end of its turn."""
    said = _task(task)

    async def main() -> int:
        async with _new(screen, options) as work:
            return await work.turn(said)

    screen.code = _run(screen, main)


def chat(screen: Screen, options: Options) -> None:
    """Talk with a new agent until the input ends."""

    async def main() -> int:
        async with _new(screen, options) as work:
            return await work.chat()

    screen.code = _run(screen, main)


def resume(screen: Screen, which: Which, task: str | None, options: Options, *, force: bool) -> None:
    """Go on with a stored session: one task, or a chat."""
    said = None if task is None else _task(task)
    try:
        file = which.file()
    except SessionNotFound:
        if task is None and which.text is not None and " " in which.text:
            raise WrongUsage(
                f"{which.text!r} is no session; turnlog resume --latest {which.text!r} says it to the newest one"
            ) from None
        raise

    async def main() -> int:
        async with _stored(screen, file, options, force) as work:
            return await (work.chat() if said is None else work.turn(said))

    screen.code = _run(screen, main)


def _run(screen: Screen, main: Callable[[], Coroutine[None, None, int]]) -> int:
    screen.unpaged()

    return asyncio.run(main())


@asynccontextmanager
async def _new(screen: Screen, options: Options) -> AsyncIterator[_Work]:
    workspace = _workspace(options.workspace or _here())
    async with open_store(options.root) as store:
        session = await store.create(cwd=workspace, redact=_redactor(options))
        where = options.root or own_root()
        directory = where / encode_project(session.header.cwd) / encode_session(session.id)
        async with _work(screen, store, session, workspace, directory, options) as work:
            yield work


@asynccontextmanager
async def _stored(screen: Screen, file: Path, options: Options, force: bool) -> AsyncIterator[_Work]:
    from turnlog.store import load

    stored = load(file)
    root = root_of(file)
    if root is None:
        raise WrongUsage(
            f"{file} lies in no root of sessions, so nobody can keep it; turnlog convert {file} --out ROOT makes a "
            "session of it there"
        )
    if stored.format != WRITTEN:
        raise WrongUsage(
            f"session {stored.header.id} is stored in {stored.format}, and only {WRITTEN} is written; "
            f"turnlog convert {file} --in-place-root makes a session of it that can be resumed"
        )
    if not force and not file.with_name(LOCK_NAME).exists():
        raise WrongUsage(
            f"session {stored.header.id} has no lock file (dsh leaves none), so nobody can tell whether it is being "
            "written; end dsh, then say --force"
        )
    workspace = _home_of(stored, options)
    async with open_store(root, adopt=force) as store:
        session = await store.resume(stored.header.id, redact=_redactor(options))
        async with _work(screen, store, session, workspace, file.parent, options) as work:
            yield work


@asynccontextmanager
async def _work(
    screen: Screen, store: LiveStore, session: Session, workspace: Path, directory: Path, options: Options
) -> AsyncIterator[_Work]:
    model = _model(screen, session, options)
    work = _Work(screen, store, session, options)
    settings = approval_settings(workspace / SETTINGS).with_flags(
        allow=options.allow, ask=options.ask, deny=options.deny, policy=options.approve
    )
    agent = Agent(
        session,
        model,
        builtin_tools(),
        system=SYSTEM if options.system is None else options.system,
        contexts=[Context("environment", lambda: _environment(workspace))],
        workspace=workspace,
        approvals=Approvals(settings.rules, work.answer, policy=settings.policy or "ask"),
        spill=directory / OUTPUT,
        max_tokens=options.max_tokens,
        max_steps=options.max_steps,
        max_seconds=options.max_seconds,
    )
    try:
        async with agent:
            work.attach(agent)
            with work.listening():
                yield work
    finally:
        await model.aclose()


class _Work:
    """One agent, shown and steered."""

    def __init__(self, screen: Screen, store: LiveStore, session: Session, options: Options) -> None:
        self._screen = screen
        self._store = store
        self._session = session
        self._options = options
        self._transcript = Transcript(screen)
        self._terminal = Terminal(screen, self._said, self._input_ended)
        self._ended = asyncio.Event()
        self._leaving = asyncio.Event()
        self._interrupts = 0
        self._last: TurnEndReason = Completed()
        self._gone: OutputGone | OutputFailed | None = None

    async def answer(self, question: Question) -> Answer | None:
        """Ask the person."""
        return None if self._options.headless else await self._terminal.answer(question)

    def attach(self, agent: Agent) -> None:
        """Show what *agent* does."""
        self._agent = agent
        if self._options.as_json:
            header = header_line_of(self._session)
            assert header is not None, "a live session has a header"
            self._show(lambda: self._screen.json_lines((header,)))
            self._session.subscribe(self._as_line, from_seq=0)
        else:
            self._session.subscribe(self._as_text)
            agent.on(Progress, self._progress)

    def listening(self) -> AbstractContextManager[None]:
        """Hear signals."""
        return signals(
            {
                signal.SIGINT: self._interrupt,
                signal.SIGTERM: self._terminate,
                signal.SIGHUP: self._hangup,
            }
        )

    # -- working ------------------------------------------------------------------------------------------------

    async def turn(self, task: str) -> int:
        """One task."""
        if not self._options.headless and sys.stdin is not None and sys.stdin.isatty():
            self._terminal.read()
        await self._until_done(asyncio.ensure_future(self._agent.run(task)))
        return await self._finished()

    async def chat(self) -> int:
        """Line by line, until the input ends."""
        self._screen.hint(f"{self._session.id}: say what to do; Ctrl-D ends")
        self._terminal.read()
        ended = asyncio.ensure_future(self._ended.wait())
        await self._until_done(ended)
        return await self._finished()

    async def _until_done(self, work: asyncio.Future[Any]) -> None:
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await self._leave(work)
            work.result()
        finally:
            leaving.cancel()

    async def _leave(self, work: asyncio.Future[Any]) -> None:
        """Everything accepted is stored; then the process ends, whatever still runs."""
        work.cancel()
        await asyncio.wait({work}, timeout=LEAVING)
        try:
            await asyncio.wait_for(self._store.close(), STORING)
        except (StoreError, OSError, TimeoutError) as error:
            self._tell(str(error) or "the disk does not answer; the end of the session may not be stored")
        else:
            self._tell(f"{self._session.id} is left; turnlog resume {self._session.id} goes on with it")
        leave(130)

    async def _finished(self) -> int:
        """What is still said, to the end; then how it ended. Raises what keeps the session from being stored, and what
        keeps the output from being read, unless nobody was to read it."""
        await self._until_done(asyncio.ensure_future(self._agent.when_idle()))
        self._terminal.stop()
        self._show(self._transcript.end)
        await self._session.durable()
        if self._gone is not None and not (self._options.headless and isinstance(self._gone, OutputGone)):
            raise self._gone
        self._tell(f"{self._session.id} {_ended(self._last)}; turnlog show {self._session.id} outlines it")
        return _CODES.get(type(self._last), 10)

    # -- what happens -------------------------------------------------------------------------------------------

    def _said(self, text: str) -> None:
        self._agent.steer(text)

    def _input_ended(self) -> None:
        self._ended.set()

    def _interrupt(self) -> None:
        self._interrupts += 1
        if self._agent.status == "idle":
            self._ended.set()
        elif self._interrupts == 1:
            self._agent.cancel()
            self._tell("cancelling; Ctrl-C again leaves at once")
        if self._interrupts > 1:
            self._leaving.set()

    def _terminate(self) -> None:
        self._agent.cancel(CancelledByDisposal())
        self._ended.set()

    def _hangup(self) -> None:
        if not self._options.headless:
            self._agent.cancel(CancelledByHook(reason="the terminal went away"))
            self._ended.set()

    def _as_line(self, event: AnyEvent) -> None:
        self._note(event)
        self._show(lambda: self._screen.json_lines((wire_line(event),)))

    def _as_text(self, event: AnyEvent) -> None:
        self._note(event)
        self._show(lambda: self._transcript.logged(event))

    def _progress(self, event: Progress) -> None:
        self._show(lambda: self._transcript.lines(event.text, "dim"))

    def _note(self, event: AnyEvent) -> None:
        if isinstance(event.data, TurnEnd):
            self._last = event.data.reason
            self._interrupts = 0

    def _tell(self, text: str) -> None:
        """Say something beside the data."""
        self._show(lambda: self._screen.hint(text))
        if self._gone is not None:  # what is not said there still goes to whoever reads standard error
            self._screen.give_up()
            self._screen.hint(text)

    def _show(self, show: Callable[[], None]) -> None:
        """Print. When nobody can read it any more the work is cancelled, unless it was to go on without anybody."""
        if self._gone is not None:
            return
        try:
            show()
            self._screen.flush()
        except (OutputGone, OutputFailed) as gone:
            self._gone = gone
            if not self._options.headless:
                asyncio.get_running_loop().call_soon(self._agent.cancel, CancelledByHook(reason="the output went away"))
                self._ended.set()


def _ended(reason: TurnEndReason) -> str:
    match reason:
        case Errored(error=failure):
            later = failure.provider_retry_after_ms
            wait = f"; the provider says to wait {duration(later)}" if later else ""
            return f"ended with {failure.code}: {failure.message}{wait}"
        case Completed():
            return "completed"
        case MaxTokens():
            return "was cut by the output limit"
        case Aborted():
            return "was cancelled"
        case Blocked():
            return "was blocked by a hook"
        case _:
            return "was interrupted"


def _model(screen: Screen, session: Session, options: Options) -> HttpModel:
    """The model that is asked for, else the one the session used last, else the usual one."""
    usual = os.environ.get("TURNLOG_MODEL") or DEFAULT_MODEL
    header = session.request_header()
    name = options.model or (usual if header is None else f"{header.config.provider}/{header.config.model}")
    try:
        return open_model(name, base_url=options.base_url, stream=options.stream)
    except UnknownProvider:
        if options.model is not None or header is None:
            raise
    screen.hint(f"the session's model {name} has no provider here; {usual} goes on, --model chooses another")
    return open_model(usual, base_url=options.base_url, stream=options.stream)


def _redactor(options: Options) -> Redactor | None:
    return Redactor() if options.redact else None


def _workspace(directory: Path) -> Path:
    if not directory.is_dir():
        raise WrongUsage(f"--workspace {directory}: {'not a' if directory.exists() else 'no such'} directory")
    return directory.resolve()


def _environment(workspace: Path) -> str:
    from datetime import date

    return f"Workspace: {workspace}\nSystem: {platform.system()}\nToday: {date.today().isoformat()}"


def _home_of(stored: StoredSession, options: Options) -> Path:
    """Where tools work on a stored session: where they did before, unless told otherwise."""
    if options.workspace is not None or stored.header.cwd is None:
        return _workspace(options.workspace or _here())
    before = Path(stored.header.cwd)
    if not before.is_dir():
        raise WrongUsage(f"{before}, where the session worked, is no directory here; --workspace DIR names another")
    return before.resolve()


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise WrongUsage("the current directory is gone; --workspace DIR names another") from None


def _task(text: str) -> str:
    """The task; ``-`` stands for standard input."""
    task = _standard_input() if text == "-" else text
    if not task.strip():
        raise WrongUsage("the task is empty; say what to do")
    try:
        task.encode()
    except UnicodeEncodeError:  # bytes that are no text come as halves of surrogate pairs
        raise WrongUsage("the task is no UTF-8 text") from None
    return task


def _standard_input() -> str:
    if sys.stdin is None:
        raise WrongUsage("there is no standard input to read the task from")
    return sys.stdin.read()
