"""The person at the terminal while an agent works: lines they type, questions they answer, signals they send."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .screen import Screen

if TYPE_CHECKING:
    from turnlog.tools import Answer, Question

_ANSWERS: dict[str, Answer] = {"y": "allow", "yes": "allow", "a": "allow-always", "always": "allow-always",
                               "n": "deny", "no": "deny", "": "deny"}  # fmt: skip


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
        if sys.stdin is None:
            self._over = True
            return
        self._reading = True
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._lines, args=(loop,), name="turnlog-keyboard", daemon=True).start()

    def _lines(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while line := sys.stdin.readline():
                loop.call_soon_threadsafe(self._line, line.rstrip("\r\n"))
            loop.call_soon_threadsafe(self._end)
        except (OSError, ValueError, RuntimeError):  # the terminal is gone, or the loop is: nobody types any more
            pass

    def _line(self, text: str) -> None:
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
        self._show(question)
        try:
            return await future
        finally:
            self._questions.remove(entry)
            if self._questions:
                self._show(self._questions[0][0])

    def _show(self, question: Question) -> None:
        if self._questions[0][0] is not question:
            return
        why = f" ({question.reason})" if question.reason else ""
        self._screen.hint(f"{question.tool} wants to run{why}:")
        for line in question.text.splitlines() or [question.text]:
            self._screen.aside(line)
        self._prompt(question)

    def _prompt(self, question: Question) -> None:
        always = f", [a]lways ({question.always})" if question.always else ""
        self._screen.hint(f"[y]es, [n]o{always}")


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
        except (OSError, ValueError):
            pass
    os._exit(code)
