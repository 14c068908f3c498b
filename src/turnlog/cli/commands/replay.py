"""``turnlog replay``"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from turnlog.events.lossless import plain
from turnlog.views import Frame, Playback, Target, resolve
from turnlog.views.play_groups import GRANULARITIES, Granularity
from turnlog.views.play_pace import LATE

from ..json_views import document, wire
from ..keys import GONE, Keys
from ..opening import Which, open_session
from ..places import address_of
from ..problems import WrongUsage
from ..screen import Screen
from ..text import duration, rfc3339
from ..transcript import Transcript

KEYS: Final = (
    "space pauses and goes on; . b s t show one token, block, step or turn more; B S T go back to its beginning; "
    "n skips the wait; + and - play faster and slower; q ends"
)
_UNITS: Final[dict[str, Granularity]] = {".": "token", "right": "token", "b": "block", "s": "step", "t": "turn"}
_BACK: Final[dict[str, Granularity]] = {"B": "block", "S": "step", "T": "turn"}
_FASTER: Final = frozenset({"+", "=", "up"})
_SLOWER: Final = frozenset({"-", "_", "down"})
_SLOWEST: Final = 1 / 64
_FASTEST: Final = 1024.0


@dataclass(frozen=True)
class Options:
    """What the command line says about a playback."""

    speed: float
    start: str | None
    until: str | None
    idle_limit: float
    """Seconds; infinite never cuts."""
    granularity: str
    stall: float | None
    """Seconds; None is the usual measure."""
    as_stored: bool
    as_json: bool


def replay(screen: Screen, which: Which, options: Options) -> None:
    """Play a session back."""
    granularity = _granularity(options)
    screen.unpaged()
    session = open_session(screen, which)
    if not len(session.events):
        screen.nothing("the log holds no events")
    start, until = _target(session, options.start), _target(session, options.until)
    try:
        played = Playback(
            session, start=start, until=until, speed=options.speed, granularity=granularity,
            idle_limit_ms=None if math.isinf(options.idle_limit) else options.idle_limit * 1000,
            stall_ms=None if options.stall is None else options.stall * 1000, as_stored=options.as_stored,
        )  # fmt: skip
    except ValueError as error:
        raise WrongUsage(str(error)) from None
    if options.as_json:
        _print_json(screen, played)
        return
    with ExitStack() as stack:
        source = _keyboard(screen, which)
        keys = None if source is None else stack.enter_context(Keys(source))
        _Player(screen, played, keys).play()
    if session.liveness == "live":
        screen.hint("its writer is at work; turnlog tail shows what comes")


def _granularity(options: Options) -> Granularity:
    for name, value in (("speed", options.speed), ("idle-limit", options.idle_limit), ("stall", options.stall)):
        if value is not None and (not value >= 0 or (name == "speed" and math.isinf(value))):
            raise WrongUsage(f"--{name} is a number from 0 on{'; 0 does not wait' if name == 'speed' else ''}")
    found = next((one for one in GRANULARITIES if one == options.granularity), None)
    if found is None:
        raise WrongUsage(f"--granularity takes {', '.join(GRANULARITIES)}, not {options.granularity!r}")
    return found


def _target(session: Any, text: str | None) -> Target | None:
    return None if text is None else resolve(session, address_of(text))


def _keyboard(screen: Screen, which: Which) -> int | None:
    """The terminal whose keys are read: the one the output goes to, if somebody sits at it."""
    if not screen.terminal:
        return None
    try:
        if which.text != "-":
            source = sys.stdin.fileno()
        else:  # the log comes from standard input
            source = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except (AttributeError, OSError, ValueError):
        return None
    return source if Keys.usable(source) else None


# -- for programs ---------------------------------------------------------------------------------------------------


def _print_json(screen: Screen, played: Playback) -> None:
    """One frame, or one group, per line, at once; whoever reads them waits by ``waitMs``."""
    while frames := played.take():
        first, last = frames[0], frames[-1]
        head = document(waitMs=round(first.wait_ms, 3), address=first.address)
        if played.granularity == "token":
            screen.json({**head, **_frame_view(first)})
            continue
        shown = [{"address": frame.address, **_frame_view(frame)} for frame in frames]
        screen.json({**head, "lastAddress": last.address, "frames": shown})


def _frame_view(frame: Frame) -> dict[str, object]:
    view: dict[str, object] = {"loggedAt": rfc3339(frame.time)}
    if frame.cut_ms:
        view["cutMs"] = frame.cut_ms
    if frame.stall_ms:
        view["stallMs"] = frame.stall_ms
    if frame.synthetic:
        view["synthetic"] = True
    if frame.chunk is not None:
        view["chunk"] = plain(frame.chunk)
    if frame.event is not None:
        view["event"] = wire(frame.event)
    return view


# -- for people -----------------------------------------------------------------------------------------------------


class _Player:
    """Shows what a person would have seen, when they would have seen it; or as fast as they want to."""

    def __init__(self, screen: Screen, played: Playback, keys: Keys | None) -> None:
        self._screen = screen
        self._played = played
        self._keys = keys
        self._transcript = Transcript(screen)
        self._paused = False
        self._due: float | None = None

    def play(self) -> None:
        """Play to the end, or until somebody has seen enough."""
        while frames := self._next():
            for frame in frames:
                self._transcript.frame(frame)
        self._transcript.end()

    def _next(self) -> Sequence[Frame]:
        """What is to be shown now; it returns when it is. Nothing: it is over."""
        frames = self._played.take()
        if not frames:
            return ()
        self._screen.flush()
        if self._keys is None:
            self._sleep(frames[0].wait_ms)
            return frames
        return self._attended(self._keys, frames)

    def _sleep(self, wait_ms: float) -> None:
        now = time.monotonic()
        self._due = (now if self._due is None else max(self._due, now - LATE)) + wait_ms / 1000
        if self._due > now:
            time.sleep(self._due - now)

    def _attended(self, keys: Keys, frames: Sequence[Frame]) -> Sequence[Frame]:
        recorded = frames[0].wait_ms * self._played.speed
        while True:
            now = time.monotonic()
            speed = self._played.speed
            begun = now if self._due is None else max(self._due, now - LATE)
            due = begun + (recorded / 1000 / speed if speed else 0.0)
            key = keys.wait(None if self._paused else max(due - now, 0.0))
            if key is None:
                self._due = due
                return frames
            recorded = 0.0 if self._paused and not recorded else max(due - time.monotonic(), 0.0) * 1000 * speed
            self._due = None
            if key in ("q", "escape", GONE):
                return ()
            if key == "n":
                return frames
            if key in _UNITS:
                self._paused = True
                self._played.seek(frames[0])
                return self._played.take(_UNITS[key])
            if key in _BACK:
                frames, recorded = self._back(frames[0], _BACK[key]), 0.0
            else:
                self._obey(key, frames[0])

    def _obey(self, key: str, following: Frame) -> None:
        """Keys that change how it goes on, and nothing of what is shown."""
        if key == " ":
            self._paused = not self._paused
            if self._paused:
                self._tell(f"paused before {following.address}, {duration(following.offset_ms)} of "
                           f"{duration(self._played.total_ms)}; space goes on, ? lists keys")  # fmt: skip
        elif key in _FASTER or key in _SLOWER:
            self._played.speed = speed = _other_speed(self._played.speed, faster=key in _FASTER)
            self._tell(f"speed {speed:g}" if speed else "speed 0: nothing is waited for")
        elif key in ("?", "h"):
            self._tell(KEYS)

    def _back(self, following: Frame, part: Granularity) -> Sequence[Frame]:
        """Go back to the beginning of the part that was shown last; from there, to that of the one before it."""
        played = self._played
        played.seek(following)
        number = played.start_of(part)
        if number >= following.number - 1:
            played.seek(max(number, played.first))
            number = played.start_of(part)
        played.seek(max(number, played.first))
        frames = played.take()
        self._tell(f"back to {frames[0].address}")
        return frames

    def _tell(self, text: str) -> None:
        self._transcript.end()
        self._screen.hint(text)


def _other_speed(speed: float, *, faster: bool) -> float:
    if not speed:
        return speed if faster else 1.0
    return min(speed * 2, _FASTEST) if faster else max(speed / 2, _SLOWEST)
