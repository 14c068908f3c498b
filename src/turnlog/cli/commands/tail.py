"""``turnlog tail``"""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from turnlog.events import (
    AssistantAttempt,
    BlockStart,
    Errored,
    OpaquePayload,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    TurnEnd,
    TurnStart,
)
from turnlog.log import AnyEvent, SessionEvent
from turnlog.store import Follower, LogRefused, SessionAmbiguous, SessionNotFound, StoredSession, locate
from turnlog.store.follow import INTERVAL
from turnlog.store.names import parse_file
from turnlog.views import resolve
from turnlog.views.call import is_error
from turnlog.views.index import index_of

from ..json_views import wire_line
from ..opening import STANDARD_INPUT, Which, open_session
from ..places import address_of
from ..problems import WrongUsage
from ..screen import OutputGone, Screen
from ..transcript import Transcript

KINDS: Final = {
    "text": "what the model says",
    "thinking": "its reasoning",
    "tools": "calls, their arguments, approvals and results",
    "writes": "the same of tools that change files, or may: write, edit, bash",
    "prompts": "what the model is told",
    "errors": "failed results, requests and turns",
    "turns": "where turns and steps begin and end",
    "other": "everything else",
}
"""What ``--only`` takes."""
MOMENTS: Final = ("turn-end", "idle", "error")
"""What ``--until`` takes."""
IDLE: Final = 2.0
"""Seconds without an event, between turns, after which an agent is idle."""
_CHANGING: Final = frozenset({"write", "edit", "bash"})
_STOPPED: Final = 130


@dataclass(frozen=True)
class Options:
    """What the command line says about following."""

    start: str | None
    only: Sequence[str]
    until: str | None
    follow: bool
    as_stored: bool
    as_json: bool


def tail(screen: Screen, which: Which, options: Options) -> None:
    """Show a session from its last turn on, and go on while it is written."""
    only = _only(options.only)
    if options.until is not None and options.until not in MOMENTS:
        raise WrongUsage(f"--until takes {', '.join(MOMENTS)}, not {options.until!r}")
    screen.unpaged()
    source, name = which.source()
    if not isinstance(source, Path):
        what = "standard input" if name == STANDARD_INPUT else f"{name}, which is no regular file,"
        raise WrongUsage(f"{what} cannot be followed; turnlog replay - --speed 0 shows it")
    printer = _Printer(screen, only, as_json=options.as_json)
    try:
        follower = Follower(_followed(source), keep=options.follow)
    except LogRefused:
        session = open_session(screen, which)  # which warns, and reads what is readable
        _show_rest(printer, session, options, _first(session, options.start))
        return
    follower.skip_to(_first(follower.session, options.start))
    _Following(screen, follower, printer, options).run()


def _followed(file: Path) -> Path:
    """The directory of a session whose newest file this is: it may come to be packed or converted beside it."""
    try:
        return file.parent if parse_file(file) is not None and locate(file.parent) == file else file
    except (SessionNotFound, SessionAmbiguous):
        return file


def _only(words: Sequence[str]) -> frozenset[str]:
    found = [word for one in words for word in one.split(",") if word]
    for word in found:
        if word not in KINDS:
            raise WrongUsage(f"--only takes {', '.join(KINDS)}, not {word!r}")
    return frozenset(found or KINDS)


def _first(session: StoredSession, start: str | None) -> int:
    """Where to begin: at an address, else at the last turn. A seq that is still to come is one to wait for."""
    if start is not None:
        seq = start.removeprefix("@")
        if seq.isascii() and seq.isdigit() and int(seq) >= len(session):
            return int(seq)
        return resolve(session, address_of(start)).first
    starts = [seq for seq in index_of(session).turn_edges if session.event(seq).type == "turn/start"]
    return starts[-1] if starts else session.rows.base


def _show_rest(printer: _Printer, session: StoredSession, options: Options, first: int) -> None:
    base = session.rows.base
    for event in session.events[max(first - base, 0) :]:
        printer.show(event)
    printer.close(() if options.as_stored else session.closers)


class _Following:
    """One run of the command."""

    def __init__(self, screen: Screen, follower: Follower, printer: _Printer, options: Options) -> None:
        self._screen = screen
        self._follower = follower
        self._printer = printer
        self._options = options
        self._first = follower.next_seq
        self._turns = _Turns(follower.session, self._first)
        self._quiet_since = time.monotonic()

    def run(self) -> None:
        """Follow until there is nothing more to come, or what was waited for came."""
        with _interruptible():
            try:
                self._follow()
            except (KeyboardInterrupt, _Terminated) as interrupt:
                self._printer.end()
                where = self._follower.session.id
                self._screen.hint(f"turnlog tail {where} --from @{self._follower.next_seq} goes on from here")
                self._screen.code = interrupt.code if isinstance(interrupt, _Terminated) else _STOPPED

    def _follow(self) -> None:
        follower, until = self._follower, self._options.until
        if not follower.ended and not self._options.as_json and self._screen.terminal:
            self._screen.hint(f"following {follower.session.id}; Ctrl-C ends that, and not the agent")
        history = True  # what was there before: only how it ends counts
        while True:
            try:
                fresh = follower.poll()
            except LogRefused as error:
                self._printer.end()
                self._screen.partly(str(error))
                return
            self._tell_notices()
            for event in fresh:
                self._printer.show(event)
                self._turns.read(event)
                if until is not None and not history and self._turns.has_come_to(until, quiet=False):
                    self._printer.end()
                    return
            history = False
            if fresh:
                self._quiet_since = time.monotonic()
            self._screen.flush()
            if until is not None and self._turns.has_come_to(until, quiet=self._quiet()):
                self._printer.end()
                return
            if follower.ended:
                self._end()
                return
            if not fresh:
                _rest(INTERVAL)

    def _tell_notices(self) -> None:
        for notice in self._follower.notices:
            self._printer.end()
            self._screen.hint(notice)
        self._follower.notices.clear()

    def _quiet(self) -> bool:
        return self._follower.ended or time.monotonic() - self._quiet_since >= IDLE

    def _end(self) -> None:
        session = self._follower.session
        if self._first > len(session):
            self._screen.nothing(f"the log ends at @{len(session) - 1}, before @{self._first}")
            return
        self._printer.close(() if self._options.as_stored else session.closers)
        if session.torn is not None:
            self._screen.partly(f"the log has an unfinished tail: {session.torn.reason}")
        if self._options.until is not None:
            self._screen.nothing(f"nobody writes the log any more, and it did not come to {self._options.until}")
        elif session.liveness == "unknown":
            self._screen.hint("no session.lock says whether somebody writes this log; --follow waits for more of it")


class _Turns:
    """Whether a turn is open, as the log is followed."""

    def __init__(self, session: StoredSession, first: int) -> None:
        before = [session.event(seq) for seq in index_of(session).turn_edges if seq < first]
        self._last: AnyEvent | None = before[-1] if before else None

    def read(self, event: AnyEvent) -> None:
        """One more event."""
        if isinstance(event.data, TurnStart | TurnEnd):
            self._last = event

    def has_come_to(self, until: str, *, quiet: bool) -> bool:
        """Whether what is waited for is the case. *quiet*: nothing was logged for a while."""
        last = self._last
        if last is None or not isinstance(last.data, TurnEnd):
            return False
        match until:
            case "turn-end":
                return True
            case "error":
                return isinstance(last.data.reason, Errored)
            case _:
                return quiet


class _Printer:
    """Prints what is wanted of what happens: as the transcript of a run, or as log lines."""

    def __init__(self, screen: Screen, only: frozenset[str], *, as_json: bool) -> None:
        self._screen = screen
        self._only = only
        self._everything = only == frozenset(KINDS)
        self._transcript = None if as_json else Transcript(screen)
        self._tools: dict[str, str] = {}  # call id → tool
        self._streamed: dict[int, str] = {}  # block → tool

    def show(self, event: AnyEvent, *, synthetic: bool = False) -> None:
        """Show one event, chunks inside of it first."""
        transcript = self._transcript
        if transcript is None:
            if self._everything or self._only & self._kinds_of_event(event):
                self._screen.json_lines((wire_line(event),))
        elif synthetic:
            if self._everything or self._only & self._kinds_of_event(event):
                transcript.event(event, synthetic=True)
        else:
            transcript.logged(event, None if self._everything else self._wanted)

    def close(self, closers: Sequence[AnyEvent]) -> None:
        """The log is over: show how it is closed. JSON has only what is stored."""
        for event in closers if self._transcript is not None else ():
            self.show(event, synthetic=True)
        self.end()

    def end(self) -> None:
        """Nothing more comes to what was being said."""
        if self._transcript is not None:
            self._transcript.end()
        self._screen.flush()

    def _wanted(self, what: object) -> bool:
        kinds = self._kinds_of_event(what) if isinstance(what, SessionEvent) else self._kinds_of_chunk(what)
        return bool(self._only & kinds)

    def _kinds_of_chunk(self, chunk: object) -> set[str]:
        match chunk:
            case TextDelta():
                return {"text"}
            case ReasoningDelta():
                return {"thinking"}
            case ToolCallDelta(index=index, name=name):
                if name:
                    self._streamed[index] = name
                return _about(self._streamed.get(index, ""))
            case BlockStart(index=index):
                self._streamed.pop(index, None)
                return set(KINDS)
            case _:
                return set(KINDS)  # they show nothing of their own, and end what is being shown

    def _kinds_of_event(self, event: AnyEvent) -> set[str]:
        data = event.data
        match data:
            case TurnEnd(reason=Errored()):
                return {"turns", "errors"}
            case ToolCall(call_id=id, name=name):
                self._tools[id] = name
                return _about(name)
            case ToolResult(call_id=id):
                return _about(self._tools.get(id, "")) | ({"errors"} if is_error(event) else set())
            case AssistantAttempt():
                return {"errors", "other"}
            case OpaquePayload() if event.type.startswith("approval/"):
                call = data.value.get("callId") if isinstance(data.value, Mapping) else None
                return _about(self._tools.get(call, "") if isinstance(call, str) else "")
        match event.type:
            case "turn/start" | "turn/end" | "step/start" | "step/end":
                return {"turns"}
            case "assistant/message":
                return {"text"}
            case "assistant/chunk":
                return self._kinds_of_chunk(getattr(data, "chunk", None))
            case "user/message" | "system/message":
                return {"prompts"}
            case "llm/retry":
                return {"errors", "other"}
            case _:
                return {"other"}


def _about(tool: str) -> set[str]:
    return {"tools", "writes"} if tool in _CHANGING else {"tools"}


class _Terminated(BaseException):
    """A signal ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have SIGTERM end the command as Ctrl-C does: with the place to go on from."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise _Terminated(number)

    usual = signal.getsignal(signal.SIGTERM)
    if usual is not signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


def _rest(seconds: float) -> None:
    """Wait; raises :class:`OutputGone` as soon as nobody reads the output any more, also when nothing is printed."""
    try:
        output = sys.__stdout__.fileno()  # type: ignore[union-attr]  # sys.stdout is what help is collected in
        poller = select.poll()
    except (AttributeError, OSError, ValueError):
        time.sleep(seconds)
        return
    poller.register(output, 0)
    if any(state & (select.POLLERR | select.POLLHUP) for _file, state in poller.poll(seconds * 1000)):
        raise OutputGone
