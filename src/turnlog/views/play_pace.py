"""`Pace`: when the next frame is due. The only part of playback that waits.

Due times are added up, so that the time it takes to show a frame is not added to the waits; a consumer that falls far
behind is not rushed at.
"""

from __future__ import annotations

from typing import Final

import anyio
import anyio.lowlevel

from .play_groups import Granularity

LATE: Final = 0.25
"""Seconds that are made up for; whoever is later than that has stopped, and goes on from there."""
BREATH: Final = 64
"""Frames without a wait after which other tasks, and cancelling, have their turn."""


class Pace:
    """Keeps the time of one playback. All methods belong to the thread of its event loop."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.paused = False
        self._due: float | None = None
        """When the last frame was due; None where nothing was."""
        self._owed: float | None = None
        """What is left of a wait that a pause broke off: recorded ms."""
        self._seeked = False
        self._allowed: list[Granularity] = []
        self._changed: anyio.Event | None = None
        self._woken = False
        self._without_wait = 0

    def change_speed(self, speed: float) -> None:
        """Another speed, also for what is left of the wait under way."""
        self.speed = speed
        self.wake()

    def pause(self) -> None:
        """Stand still."""
        self.paused, self._due = True, None
        self.wake()

    def resume(self) -> None:
        """Go on."""
        self.paused, self._due = False, None
        self._allowed.clear()
        self.wake()

    def allow(self, granularity: Granularity) -> None:
        """Let one group pass although it stands still."""
        self._allowed.append(granularity)
        self.wake()

    def restart(self) -> None:
        """Somebody seeked: what was due is not, any more."""
        self._due, self._owed, self._seeked = None, None, True
        self.wake()

    @property
    def seeked(self) -> bool:
        """Whether somebody seeked since the gate was passed."""
        return self._seeked

    def wake(self) -> None:
        """Something changed that a wait has to know."""
        self._woken = True
        if self._changed is not None:
            self._changed.set()

    async def woken(self) -> None:
        """Wait until something changes; at once when it did since the last time."""
        if not self._woken:
            self._changed = anyio.Event()
            try:
                await self._changed.wait()
            finally:
                self._changed = None
        self._woken = False

    async def gate(self) -> Granularity | None:
        """Wait while it stands still. Gives what is to be shown at once when somebody asked for a single step."""
        while self.paused and not self._allowed:
            await self.woken()
        self._seeked = False
        if not self.paused:
            return None
        self._owed = None
        return self._allowed.pop(0)

    async def wait(self, recorded_ms: float) -> bool:
        """Wait until the next frame is due; False when that was broken off by a pause or a seek. What a pause leaves
        of a wait is what the next one waits."""
        if self._owed is not None:
            recorded_ms, self._owed = self._owed, None
        while True:
            speed, now = self.speed, anyio.current_time()
            begun = now if self._due is None else max(self._due, now - LATE)
            due = begun + (recorded_ms / 1000 / speed if speed else 0.0)
            if not await self._sleep(due - now):
                self._due = due
                return True
            left = max(due - anyio.current_time(), 0.0)
            recorded_ms, self._due = left * 1000 * speed, None
            if self._seeked:
                return False
            if self.paused:
                self._owed = recorded_ms
                return False

    async def _sleep(self, seconds: float) -> bool:
        """Whether something changed before the time was over."""
        if seconds <= 0 and not self._woken:
            self._without_wait += 1
            if self._without_wait % BREATH == 0:
                await anyio.lowlevel.checkpoint()
            return self._woken
        with anyio.move_on_after(max(seconds, 0)):
            await self.woken()
            return True
        return False
