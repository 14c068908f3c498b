"""``turnlog replay``"""

from __future__ import annotations

import math
import time

from turnlog.events.lossless import plain
from turnlog.views import Frame, playback, resolve

from ..json_views import document, wire
from ..opening import Which, open_session
from ..places import address_of
from ..problems import WrongUsage
from ..screen import Screen
from ..text import duration, rfc3339
from ..transcript import Transcript


def replay(
    screen: Screen, which: Which, *, speed: float, start: str | None, idle_limit: float, as_stored: bool, as_json: bool
) -> None:
    """Play a session back."""
    if not speed >= 0 or not idle_limit >= 0:
        raise WrongUsage("--speed and --idle-limit are numbers from 0 on")
    screen.unpaged()
    session = open_session(screen, which)
    target = None if start is None else resolve(session, address_of(start))
    limit = None if math.isinf(idle_limit) else idle_limit * 1000
    if not len(session.events):
        screen.nothing("the log holds no events")
    printer = _Json(screen) if as_json else _Playing(screen)
    for wait_ms, frame in playback(session, speed=speed, start=target, idle_limit_ms=limit, as_stored=as_stored):
        printer.show(wait_ms, frame)
    printer.end()


class _Json:
    """One frame per line, at once; whoever reads them waits by ``waitMs``."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def show(self, wait_ms: float, frame: Frame) -> None:
        view = document(waitMs=round(wait_ms, 3), address=frame.address, loggedAt=rfc3339(frame.time))
        if frame.cut_ms:
            view["cutMs"] = frame.cut_ms
        if frame.synthetic:
            view["synthetic"] = True
        if frame.chunk is not None:
            view["chunk"] = plain(frame.chunk)
        if frame.event is not None:
            view["event"] = wire(frame.event)
        self._screen.json(view)

    def end(self) -> None:
        pass


class _Playing:
    """Prints what a person would have seen, when they would have seen it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._transcript = Transcript(screen)

    def show(self, wait_ms: float, frame: Frame) -> None:
        if wait_ms > 0:
            self._screen.flush()
            time.sleep(wait_ms / 1000)
        if frame.cut_ms:
            self._transcript.line(f"  … {duration(frame.cut_ms)} of waiting left out", "dim")
        if frame.event is not None:
            self._transcript.event(frame.event, synthetic=frame.synthetic)
        elif frame.chunk is not None:
            self._transcript.chunk(frame.chunk)

    def end(self) -> None:
        self._transcript.end()
