"""`Keys`: a keyboard read key by key. The terminal is given back as it was, however the program ends.

Signals keep their meaning: Ctrl-C interrupts, Ctrl-Z stops the job (with the terminal given back meanwhile), and what
ends a program by default unwinds it first. In the background nothing is read, for that would stop the job.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any, Final, Self

try:
    import termios
    import tty
except ImportError:  # a platform without POSIX terminals: nobody types
    termios = tty = None  # type: ignore[assignment]

GONE: Final = "gone"
"""What :meth:`Keys.wait` gives when the terminal went away."""

_ARROWS: Final = {"A": "up", "B": "down", "C": "right", "D": "left"}
_NAMES: Final = {f"\x1b{way}{letter}": name for way in "[O" for letter, name in _ARROWS.items()}
_LONGEST: Final = 16
"""Characters of an escape sequence before it is taken for noise."""
_REST: Final = 0.05
"""Seconds that the rest of an escape sequence may take; an Escape alone has none."""
_BACKGROUND: Final = 0.2
"""Seconds between two looks whether the job is in the foreground again."""
_ENDING: Final = ("SIGTERM", "SIGHUP", "SIGQUIT")


class Keys:
    """The keyboard of a terminal while the ``with`` block runs. Only for the main thread."""

    def __init__(self, source: int) -> None:
        """*source*: file descriptor of a terminal; see :meth:`usable`."""
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._typed: deque[str] = deque()
        self._text = ""
        self._before: list[Any] | None = None
        self._stack = ExitStack()

    @staticmethod
    def usable(source: int) -> bool:
        """Whether *source* is a terminal on which this job is in the foreground."""
        try:
            return termios is not None and os.isatty(source) and os.tcgetpgrp(source) == os.getpgrp()
        except OSError:
            return False

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._source)
        try:
            self._stack.callback(self._restore)
            for name in _ENDING:
                self._on(name, _end)
            self._on("SIGTSTP", self._stop)
            self._on("SIGCONT", lambda _number, _frame: self._take())
            self._take()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def wait(self, seconds: float | None) -> str | None:
        """The next key: a character, ``up``, ``down``, ``left``, ``right``, or ``gone``. None when *seconds* are over
        before there is one; None waits for as long as it takes."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self._typed:
            left = None if end is None else max(end - time.monotonic(), 0)
            if not self._foreground():
                if left == 0:
                    return None
                time.sleep(_BACKGROUND if left is None else min(left, _BACKGROUND))
            elif self._ready(left):
                self._read()
            elif end is not None and time.monotonic() >= end:
                return None
        return self._typed.popleft()

    # -- reading ------------------------------------------------------------------------------------------------

    def _ready(self, seconds: float | None) -> bool:
        return bool(select.select([self._source], [], [], seconds)[0])

    def _read(self) -> None:
        try:
            read = os.read(self._source, 1024)
        except OSError:
            read = b""
        if not read:
            self._typed.append(GONE)
            return
        self._text += self._decoder.decode(read)
        while self._text:
            key, self._text = self._first(self._text)
            if key:
                self._typed.append(key)

    def _first(self, text: str) -> tuple[str, str]:
        """The first key of what was typed, and what follows it."""
        if text[0] != "\x1b":
            return text[0], text[1:]
        while not _is_whole(text):
            if not self._ready(_REST):
                break
            more = os.read(self._source, 64)
            if not more:
                break
            text += self._decoder.decode(more)
        length = _sequence(text)
        return _NAMES.get(text[:length], "escape" if length == 1 else ""), text[length:]

    # -- the terminal -------------------------------------------------------------------------------------------

    def _foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._source) == os.getpgrp()
        except OSError:  # it is gone: reading tells
            return True

    def _take(self) -> None:
        """Have keys come one by one, unless another job has the terminal."""
        if self._foreground():
            _quietly(lambda: tty.setcbreak(self._source, termios.TCSANOW))

    def _restore(self) -> None:
        _quietly(lambda: termios.tcsetattr(self._source, termios.TCSANOW, self._before or []))

    def _on(self, name: str, handler: Callable[[int, FrameType | None], object]) -> None:
        """Handle a signal until the end of the block, if it would have its default effect."""
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is not signal.SIG_DFL:
            return
        signal.signal(number, handler)
        self._stack.callback(signal.signal, number, signal.SIG_DFL)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: stop as any program does, with the terminal as it was; SIGCONT takes it again."""
        self._restore()
        handler = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _quietly(do: Callable[[], object]) -> None:
    """Change the terminal, whoever has it: from the background that would stop the job (SIGTTOU). A terminal that is
    gone has no settings."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        do()
    except (OSError, termios.error):
        pass
    finally:
        signal.signal(signal.SIGTTOU, before)


def _is_whole(text: str) -> bool:
    """Whether an escape sequence has its last character."""
    if len(text) < 2:
        return False
    if text[1] not in "[O" or len(text) >= _LONGEST:
        return True
    return any("@" <= character <= "~" for character in text[2:])


def _sequence(text: str) -> int:
    """How many characters of *text* belong to the escape sequence that it begins with."""
    if len(text) < 2:
        return 1
    if text[1] not in "[O":
        return 1  # Escape, and then a key
    return next((at + 1 for at, character in enumerate(text[2:], 2) if "@" <= character <= "~"), len(text))
