"""Every session that a test records with the loop is run again when the test is over, and has to say the same.

At the reduced count a part of the tests is taken, always the same; ``TURNLOG_PROOF=full`` takes all. What a rerun is
not defined for is counted by its reason, and both counts stand at the end of the run.

Not run again:

- *a listener of the test decides by what it has in mind*: it is a closure or a method, which counts or waits, and the
  rerun would need it as it was. Listeners that are plain functions of a module are there in the rerun too; those that
  only hear (facts, ``Emit``) and our own decide nothing.
- *of another format*: the loop writes format 0.
- *no turn began*: there is nothing to run.
- *a listener was taken away*: the log does not say when.
- *the test broke the log on purpose*: it replaced a method of the session, and what that did is not in the log.
- *too long*: more than ``LONGEST`` events, outside of the full count.
- *not whole*: a session on disk that the test damaged, or whose writer it stopped in the middle of a line.

Sessions of other processes are those that a command kept under the directory of a test, with an attestation beside
them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import isfunction
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import pytest

from tests.conftest import FULL

SHARE: Final = 4
"""One test in so many is taken at the reduced count."""
LONGEST: Final = 2_000
ATTESTATION: Final = "attest.jsonl"


class Given(NamedTuple):
    """A listener that decides something."""

    event: Any
    listener: Any
    options: dict[str, Any]
    registration: Any


class Recorder:
    """Knows the agents of a test, and who listens to them."""

    def __init__(self) -> None:
        self.agents: list[Any] = []
        self.deciding: dict[int, list[Given]] = {}
        """Listeners that decide something, by the id of their bus."""

    @contextmanager
    def listening(self, patch: pytest.MonkeyPatch) -> Iterator[Recorder]:
        """While a test runs."""
        from turnlog.agent import Agent
        from turnlog.bus import Bus
        from turnlog.bus.events import Parallel, Serial, Waterfall

        begin, on = Agent.__init__, Bus.on

        def begun(agent: Any, *arguments: Any, **options: Any) -> None:
            begin(agent, *arguments, **options)
            self.agents.append(agent)

        def heard(bus: Any, event: Any, listener: Any, **options: Any) -> Any:
            made = on(bus, event, listener, **options)
            ours = str(getattr(listener, "__module__", "")).startswith("turnlog.")
            if not ours and isinstance(event, type) and issubclass(event, Waterfall | Serial | Parallel):
                self.deciding.setdefault(id(bus), []).append(Given(event, listener, options, made))
            return made

        patch.setattr(Agent, "__init__", begun)
        patch.setattr(Bus, "on", heard)
        yield self

    def run_again(self, directory: Path | None, tell: Callable[[str, str], None]) -> None:
        """Run every session again that can be; fail with the first divergence. *directory*: where other processes of
        the test kept sessions."""
        sessions = {id(one.session): one.session for one in self.agents}
        for key, session in sessions.items():
            buses = {id(one.bus) for one in self.agents if id(one.session) == key}
            given = [listener for bus in buses for listener in self.deciding.get(bus, ())]
            why = self._why_not(session, given)
            if why:
                tell("not rerun", why)
                continue
            listeners = tuple(_listens(one) for one in {(one.event, one.listener): one for one in given}.values())
            made = _elsewhere(partial(_again, session, listeners))
            _check(made)
            tell("rerun", "with its listeners, no divergence" if listeners else "no divergence")
        known = {session.id for session in sessions.values()}
        for session in () if directory is None else _kept(directory, tell):
            if session.id in known:
                continue
            if why := self._why_not(session, ()):
                tell("not rerun", why)
            else:
                _check(_elsewhere(partial(_again, session, ())))
                tell("rerun", "of another process, no divergence")

    def _why_not(self, session: Any, given: Sequence[Given]) -> str:
        from turnlog.events import TurnStart
        from turnlog.log.header import FORMAT

        if any("<locals>" in getattr(one.listener, "__qualname__", "<locals>") or not isfunction(one.listener)
               for one in given):  # fmt: skip
            return "a listener of the test decides by what it has in mind"
        if any(one.registration.closed for one in given):
            return "a listener was taken away"
        if callable(vars(session).get("append") if hasattr(session, "__dict__") else None):
            return "the test broke the log on purpose"
        if session.header.version != FORMAT:
            return "of another format"
        if next(session.select(TurnStart), None) is None:
            return "no turn began"
        return "too long" if len(session) > LONGEST and not FULL else ""


def _check(made: Any) -> None:
    assert made.same, f"run again, the session that the test recorded says something else: {made}"


def _kept(directory: Path, tell: Callable[[str, str], None]) -> Iterator[Any]:
    """Sessions that our own commands kept under *directory*."""
    from turnlog import load
    from turnlog.store import StoreError

    for attestation in sorted(directory.rglob(ATTESTATION)):
        try:
            session = load(attestation.parent)
        except StoreError:
            tell("not rerun", "not whole")
            continue
        yield session


def _listens(one: Given) -> Callable[[Any], object]:
    return lambda agent: agent.on(one.event, one.listener, **one.options)


def _again(session: Any, listeners: tuple[Callable[[Any], object], ...]) -> Any:
    from turnlog.rerun import rerun

    return asyncio.run(rerun(session, listeners=listeners))


def taken(node: str) -> bool:
    """Whether the sessions of a test are run again."""
    return FULL or crc32(node.encode()) % SHARE == 0


def _elsewhere(work: Callable[[], Any]) -> Any:
    """In a thread of its own: the test's may have an event loop, and a rerun needs one."""
    told: list[Any] = []

    def run() -> None:
        try:
            told.append((work(), None))
        except BaseException as error:  # it is raised again where the test can see it
            told.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    made, error = told[0]
    if error is not None:
        raise error
    return made
