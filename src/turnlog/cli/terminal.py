"""The person at the terminal while an agent works: lines they type, questions they answer, signals they send."""

from __future__ import annotations

import asyncio
import codecs
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .screen import OutputFailed, OutputGone, Screen

if TYPE_CHECKING:
    from turnlog.tools import Answer, Question

_ANSWERS: dict[str, Answer] = {"y": "allow", "yes": "allow", "a": "allow-always", "always": "allow-always",
                               "n": "deny", "no": "deny", "": "deny"}  # fmt: skip
_BACKGROUND: Final = 0.2
"""Seconds between two looks whether the job is in the foreground again; nobody is typing to it meanwhile."""


class Terminal:
    """Reads lines in a thread of its own. A line answers the oldest open question, or goes to *said*."""

    def __init__(self, screen: Screen, said: Callable[[str], None], ended: Callable[[], None]) -> None:
        self._screen = screen
        self._said = said
        self._ended = ended
        self._questions: deque[tuple[Question, asyncio.Future[Answer | None]]] = deque()
        self._reading = False
        self._over = False

    @property
    def attended(self) -> bool:
        """Whether somebody is there to be asked."""
        return self._reading and not self._over

    def read(self) -> None:
        """Begin to read."""
        try:
            source = sys.stdin.fileno()
        except (AttributeError, OSError, ValueError):  # none, or closed: nobody types
            self._end()
            return
        self._reading = True
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._lines, args=(loop, source), name="turnlog-keyboard", daemon=True).start()

    def stop(self) -> None:
        """What is typed from now on goes nowhere: the work is over."""
        self._reading = False

    def _lines(self, loop: asyncio.AbstractEventLoop, source: int) -> None:
        """Read bytes, not ``sys.stdin``: its lock would be held when the program ends, and bad UTF-8 would end it."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        typed = ""
        try:
            while read := _read(source):
                *lines, typed = (typed + decoder.decode(read)).split("\n")
                for line in lines:
                    loop.call_soon_threadsafe(self._line, line.rstrip("\r"))
            if typed:
                loop.call_soon_threadsafe(self._line, typed)
            loop.call_soon_threadsafe(self._end)
        except RuntimeError:  # the loop is gone: nobody listens any more
            pass

    def _line(self, text: str) -> None:
        if not self._reading:
            return
        if not self._questions:
            if text.strip():
                self._said(text)
            return
        question, future = self._questions[0]
        answer = _ANSWERS.get(text.strip().lower())
        if answer is None or (answer == "allow-always" and question.always is None):
            self._prompt(question)
        elif not future.done():
            future.set_result(answer)

    def _end(self) -> None:
        self._over = True
        for _, future in self._questions:
            if not future.done():
                future.set_result(None)
        self._ended()

    async def answer(self, question: Question) -> Answer | None:
        """Put a question and wait for the answer; None when nobody can be asked. Cancelling withdraws it."""
        if not self.attended:
            return None
        future: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        entry = (question, future)
        self._questions.append(entry)
        try:
            self._show(question)
            return await future
        finally:
            self._questions.remove(entry)
            if self._questions:
                self._show(self._questions[0][0])

    def _show(self, question: Question) -> None:
        """Show exactly what will run. Only real newlines break lines; whatever else would is written out."""
        if self._questions[0][0] is not question:
            return
        why = f" ({question.reason})" if question.reason else ""
        try:
            self._screen.hint(f"{question.tool} wants to run{why}:")
            for line in question.text.split("\n"):
                self._screen.aside(line)
            self._prompt(question)
        except (OutputGone, OutputFailed):
            pass  # nobody reads what would have been before it; the work is being cancelled for that

    def _prompt(self, question: Question) -> None:
        whole = question.always == f"{question.tool}:{question.text}"
        always = "exactly this" if whole else question.always
        self._screen.hint(f"[y]es, [n]o{f', [a]lways ({always})' if question.always else ''}")


def _read(source: int) -> bytes:
    """What is typed next; nothing at the end. A job in the background waits until it is in the foreground again: to
    read there would stop it (SIGTTIN)."""
    try:
        while True:
            select.select([source], [], [])
            if _in_foreground(source):
                return os.read(source, 65536)
            time.sleep(_BACKGROUND)
    except (OSError, ValueError):  # the terminal is gone
        return b""


def _in_foreground(source: int) -> bool:
    try:
        return os.tcgetpgrp(source) == os.getpgrp()
    except OSError:  # no terminal, not ours, or gone: reading tells
        return True


@contextmanager
def signals(handlers: dict[int, Callable[[], None]]) -> Iterator[None]:
    """Have signals call *handlers* on the running loop inside the block. Ignored ones (nohup) stay ignored."""
    loop = asyncio.get_running_loop()
    taken = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in taken:
        loop.add_signal_handler(number, handlers[number])
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


def leave(code: int) -> None:
    """End the process now: what is accepted is written, and nothing else is waited for."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # it is closed, or nobody reads it
            pass
    os._exit(code)
