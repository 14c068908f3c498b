"""Playback: a session as it happened, frame by frame, each with the wait before it.

::

    Playback ── take() ──▶ frames of the next group, to be shown after ``wait_ms``
        │       seek(address)                                                        O(log n) after the first opening
        └────── state ──▶ messages, surface, usage, open calls at the cursor         derived when looked at

Whoever takes frames does the waiting, or has it done by ``async for``. Playback never writes. On a live session it goes
on as the log grows.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Final

from turnlog.log import Session

from .address import EventAddress
from .play_frames import Frame, event_frame
from .play_groups import GRANULARITIES, Granularity, Part, same_block
from .play_pace import Pace
from .play_state import OpenCall, PlayState
from .play_timeline import timeline_of
from .resolve import Target, resolve
from .rows import closed

__all__ = ["Frame", "Granularity", "OpenCall", "PlayState", "Playback", "playback"]

STALL_MS: Final = 3000.0
"""A longer gap between two chunks is a stall in every session."""
NOTICED_MS: Final = 500
"""A gap that is only long beside the others (p99) is no stall before somebody would notice it."""


class Playback:
    """Plays a session from one place to another.

    *start* and *until* are addresses or targets, both included; None is the whole log and, unless *as_stored*, the
    closers of a log whose writer is gone. *speed* 2 halves every wait, 0 leaves all out. Recorded waits longer than
    *idle_limit_ms* are cut to it, and the frame after says by how much. *granularity* says what is shown at once.
    Gaps between chunks longer than *stall_ms* are stalls; None calls those stalls that are longer than 3 s, or than
    99 % of all gaps and half a second.

    Raises ``ValueError`` for a negative or undefined speed, limit or gap, or when *until* lies before *start*, and
    :class:`~turnlog.views.AddressError` for an address that the session does not have.
    """

    def __init__(
        self,
        session: Session,
        *,
        start: Target | str | None = None,
        until: Target | str | None = None,
        speed: float = 1.0,
        idle_limit_ms: float | None = None,
        granularity: Granularity = "token",
        stall_ms: float | None = None,
        as_stored: bool = False,
    ) -> None:
        _check_speed(speed)
        for name, value in (("idle limit", idle_limit_ms), ("stall", stall_ms)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is a number from 0 on, not {value}")
        if granularity not in GRANULARITIES:
            raise ValueError(f"granularity is one of {', '.join(GRANULARITIES)}, not {granularity!r}")
        self.session: Final = session
        self.granularity: Granularity = granularity
        self._pace = Pace(speed)
        self._limit = math.inf if idle_limit_ms is None else idle_limit_ms
        self._stall = stall_ms
        self._as_stored = as_stored
        self._timeline = timeline_of(session)
        self._closers = closed(session, as_stored=as_stored)
        self._stop = None if until is None else self._behind(_target(session, until))
        self.first: Final = 0 if start is None else self._number_of(_target(session, start))
        """Number of the frame where it starts."""
        if self._stop is not None and self._stop <= self.first:
            raise ValueError(f"{_named(until)} lies before {_named(start)}; playback only goes forward")
        self._moves = 0
        self._position = self.first
        self._fresh = True
        self._shown: Frame | None = None
        self._rest: Iterator[Frame] | None = None
        self._next: Frame | None = None

    # -- where it stands ----------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Number of the next frame."""
        return self._position

    @property
    def stop(self) -> int:
        """One past the number of the last frame there is to play; grows with a live session."""
        there = len(self._timeline) + len(self._closers)
        return there if self._stop is None else min(self._stop, there)

    @property
    def total_ms(self) -> int:
        """The recorded waits of the whole log, added."""
        return self._timeline.clock_at_end().offset

    @property
    def at_end(self) -> bool:
        """Whether there is nothing more to play (so far)."""
        self._timeline.catch_up()
        return self._position >= self.stop

    @property
    def shown(self) -> Frame | None:
        """The last frame that was taken; None at the beginning of the log."""
        if self._shown is None and self._position:
            self._shown = next(self._walk(self._position - 1), None)
        return self._shown

    @property
    def state(self) -> PlayState:
        """What the session had come to after the last frame taken."""
        return self.state_at(self.shown)

    def state_at(self, frame: Frame | None) -> PlayState:
        """What it had come to when *frame* was shown; None is before the first frame."""
        closers = self._closers[: frame.number - len(self._timeline) + 1] if frame and frame.synthetic else ()
        return PlayState(self.session, frame, closers)

    def seek(self, to: Target | Frame | str | int) -> None:
        """Go to the first frame of an address, or to a frame: it is taken next, without a wait before it.

        Raises :class:`~turnlog.views.AddressError`, or ``IndexError`` for a place behind the end of what is played.
        """
        self._timeline.catch_up()
        number = to.number if isinstance(to, Frame) else to if isinstance(to, int) else None
        if number is None:
            assert not isinstance(to, int | Frame)
            number = self._number_of(_target(self.session, to))
        if not 0 <= number <= self.stop:
            told = to if isinstance(to, int) else to.address if isinstance(to, Frame) else _named(to)
            raise IndexError(f"session {self.session.id} is played up to frame {self.stop}; {told} lies behind it")
        self._place(number)
        self._shown = None
        self._moves += 1
        self._pace.restart()

    def start_of(self, part: Granularity) -> int:
        """Number of the first frame of the block, step or turn that was shown last."""
        shown = self.shown
        if shown is None or part == "token":
            return max(self._position - 1, 0)
        if part == "block":
            number = shown.number
            while number and same_block(*self._pair(number - 1)):
                number -= 1
            return number
        bounds = Part(self.session, self._closers, part).bounds(shown.seq)
        return shown.number if bounds is None else self._timeline.range_of(bounds[0]).first

    # -- taking frames ------------------------------------------------------------------------------------------

    def take(self, granularity: Granularity | None = None, *, whole: bool = False) -> tuple[Frame, ...]:
        """The frames that are shown together next; the cursor goes behind them. None at the end: ``()``.

        The first frame's ``wait_ms`` is the wait before all of them. With *whole*, a group that a live session has not
        come to the end of is left for later.
        """
        self._timeline.catch_up()
        begin = self._position
        frames = self._group(granularity or self.granularity, whole=whole)
        if not frames:
            self._place(begin)
            return ()
        paced = [self._paced(frame, index == 0 and self._fresh) for index, frame in enumerate(frames)]
        self._fresh = False
        if len(paced) > 1:
            wait = sum(frame.wait_ms for frame in paced)
            paced = [replace(frame, wait_ms=0.0) if frame.wait_ms else frame for frame in paced]
            paced[0] = replace(paced[0], wait_ms=wait)
        self._shown, self._position = paced[-1], paced[-1].number + 1
        return tuple(paced)

    def __iter__(self) -> Iterator[Frame]:
        """The frames from here on; nothing is waited for."""
        while frames := self.take():
            yield from self._one_by_one(frames)

    def _one_by_one(self, frames: tuple[Frame, ...]) -> Iterator[Frame]:
        """Frames of a group, the cursor behind each; until somebody seeks."""
        moves, behind = self._moves, self._position
        for frame in frames:
            self._shown, self._position = frame, frame.number + 1
            yield frame
            if self._moves != moves:
                return
        self._position = behind

    # -- playing ------------------------------------------------------------------------------------------------

    @property
    def speed(self) -> float:
        """How much faster than recorded; 0 does not wait. May be changed at any time."""
        return self._pace.speed

    @speed.setter
    def speed(self, value: float) -> None:
        _check_speed(value)
        self._pace.change_speed(value)

    @property
    def paused(self) -> bool:
        """Whether ``async for`` stands still."""
        return self._pace.paused

    def pause(self) -> None:
        """Stand still, also in the middle of a wait."""
        self._pace.pause()

    def resume(self) -> None:
        """Go on."""
        self._pace.resume()

    def step(self, granularity: Granularity = "token") -> None:
        """Pause, and have one more token, block, step or turn shown at once."""
        self._pace.pause()
        self._pace.allow(granularity)

    def __aiter__(self) -> AsyncIterator[Frame]:
        """The frames from here on, each when its time has come. Ends with the log as it is then."""
        return self.play()

    async def play(
        self, *, follow: bool = False, more: Callable[[], Awaitable[bool]] | None = None
    ) -> AsyncIterator[Frame]:
        """The frames from here on, each when its time has come.

        With *follow* a live session is waited for when it has no more frames, until the iteration is cancelled or
        *until* is reached; *more* is awaited instead where it is given, and says whether to go on. Groups are then
        shown when they are whole. Seeking, pausing and other speeds work meanwhile. Cancelling leaves the cursor behind
        the last frame that was given.
        """
        subscription = self.session.subscribe(lambda _event: self._pace.wake()) if follow and more is None else None
        try:
            going_on = follow or more is not None
            while True:
                granularity = await self._pace.gate()
                shown = self._shown
                frames = self.take(granularity, whole=going_on)
                if not frames:
                    if going_on and await self._wait_for_more(more):
                        continue
                    frames = self.take(granularity)  # what is not whole will not become so
                    if not frames:
                        return
                behind = self._position
                self._shown, self._position = shown, frames[0].number  # what is still to come is no state yet
                if granularity is None and not await self._pace.wait(frames[0].wait_ms * self.speed):
                    self._again(shown, frames[0])
                    continue
                self._position = behind
                for frame in self._one_by_one(frames):
                    yield frame
        finally:
            if subscription is not None:
                subscription.close()

    async def _wait_for_more(self, more: Callable[[], Awaitable[bool]] | None) -> bool:
        if self._stop is not None and self._position >= self._stop:
            return False
        if more is not None:
            return await more()
        await self._pace.woken()
        return True

    def _again(self, shown: Frame | None, frame: Frame) -> None:
        """The wait before *frame* was broken off by a pause or a seek: unless somebody seeked, it is taken again."""
        if self._pace.seeked:
            return
        fresh = not frame.wait_ms and not frame.cut_ms
        self._place(frame.number)
        self._shown, self._fresh = shown, fresh

    # -- inside -------------------------------------------------------------------------------------------------

    def _place(self, number: int) -> None:
        self._position = number
        self._fresh = True
        self._rest = self._next = None

    def _walk(self, number: int) -> Iterator[Frame]:
        """The frames from *number* on, closers included."""
        yield from self._timeline.walk(number)
        first = len(self._timeline)
        clock = self._timeline.clock_at_end()
        for place, event in enumerate(self._closers, first):
            frame = event_frame(event, clock, place, synthetic=True)
            if place >= number:
                yield frame

    def _peek(self) -> Frame | None:
        """The next frame, which stays the next one."""
        if self._next is None:
            if self._rest is None:
                self._rest = self._walk(self._position)
            self._next = next(self._rest, None)
            if self._next is None:
                self._rest = None  # a live log may have more later
        found = self._next
        return None if found is None or (self._stop is not None and found.number >= self._stop) else found

    def _group(self, granularity: Granularity, *, whole: bool) -> list[Frame]:
        first = self._peek()
        if first is None:
            return []
        last: int | None = first.number
        if granularity in ("step", "turn"):
            last = self._last_of(first, "step" if granularity == "step" else "turn")
            if last is None and whole:
                return []
        frames: list[Frame] = []
        while (frame := self._peek()) is not None:
            if granularity == "block":
                if frames and not same_block(frames[-1], frame):
                    return frames
            elif last is not None and frame.number > last:
                return frames
            frames.append(frame)
            self._next, self._position = None, frame.number + 1
        ended = granularity != "block" or frames[-1].chunk is None
        return [] if whole and not ended and self._stop is None else frames

    def _last_of(self, frame: Frame, kind: Granularity) -> int | None:
        """Number of the last frame of the step or turn that *frame* lies in; its own where it lies in none."""
        assert kind in ("step", "turn")
        bounds = Part(self.session, self._closers, kind).bounds(frame.seq)
        if bounds is None:
            return frame.number
        last = bounds[1]
        if last is None:
            return None
        if last >= len(self.session):
            return len(self._timeline) + last - len(self.session)
        return self._timeline.range_of(last).last

    def _paced(self, frame: Frame, at_once: bool) -> Frame:
        wait = 0.0 if at_once else float(frame.recorded_ms)
        cut = 0
        if wait > self._limit:
            wait, cut = round(self._limit), round(wait - self._limit)
        stall = frame.gap_ms if frame.gap_ms is not None and self._is_stall(frame.gap_ms) else 0
        if not wait and not cut and not stall:
            return frame
        return replace(frame, wait_ms=wait / self.speed if self.speed else 0.0, cut_ms=cut, stall_ms=stall)

    def _is_stall(self, gap: int) -> bool:
        if self._stall is not None:
            return gap > self._stall
        return gap > STALL_MS or (gap >= NOTICED_MS and gap > self._timeline.usual_gap())

    def _pair(self, number: int) -> tuple[Frame, Frame]:
        walk = self._walk(number)
        return next(walk), next(walk)

    def _number_of(self, target: Target) -> int:
        """Number of the first frame of a target."""
        found = self._timeline.range_of(target.first)
        return found.first if target.k is None else found.first + target.k

    def _behind(self, target: Target) -> int | None:
        """One past the number of its last frame. A part that the log ends in reaches to the end, closers included."""
        if target.k is not None:
            return self._timeline.range_of(target.first).first + target.k + 1
        is_part = not isinstance(target.address, EventAddress)
        if is_part and target.last >= len(self.session) - 1 and self._closers:
            return None
        return self._timeline.range_of(target.last).last + 1


def playback(
    session: Session,
    *,
    speed: float = 1.0,
    start: Target | None = None,
    idle_limit_ms: float | None = None,
    as_stored: bool = False,
) -> Iterator[tuple[float, Frame]]:
    """Frames with the wait before each, in ms.

    *speed* 2 halves every wait, 0 leaves all out. From *start* on, when given; nothing is waited before the first
    frame. Recorded waits longer than *idle_limit_ms* are cut to it, and the frame after says by how much.
    Raises ``ValueError`` for a negative or undefined speed or limit.
    """
    played = Playback(session, start=start, speed=speed, idle_limit_ms=idle_limit_ms, as_stored=as_stored)
    return ((frame.wait_ms, frame) for frame in played)


def _check_speed(speed: float) -> None:
    if not 0 <= speed < math.inf:
        raise ValueError(f"speed is a finite number from 0 on, not {speed}")


def _target(session: Session, address: Target | str) -> Target:
    return address if isinstance(address, Target) else resolve(session, address)


def _named(address: Target | str | None) -> str:
    return "the beginning" if address is None else str(address.address if isinstance(address, Target) else address)
