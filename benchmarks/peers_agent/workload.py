"""What every harness is given, turnlog too: nothing here imports any of them.

A conversation of so many messages of 160 characters, user and assistant in turns; then turns of one user message and
one answer of 20 pieces, or of a tool call, its result and that answer. The conversation goes on from turn to turn, as
the harness keeps it natively. A turn is timed from what is said until the harness is ready for the next one.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator


def _long(text: str) -> str:
    """Made 160 characters long."""
    return (text + "and so it goes on " * 9)[:160]


PIECES = tuple(f"word{n:03d} " for n in range(20))
ANSWER = "".join(PIECES)
SAID = _long("Go on, and say which of the words came first. ")
ARGUMENTS = '{"text":"hello"}'
RESULT = "hello"
WARM_UP, TIMED = 2, 5
"""Turns of one conversation: few, so that it stays about as long as it was."""

Turn = Callable[[], Awaitable[object]]
Start = Callable[[int, bool], Awaitable[Turn]]
"""Makes a conversation of so many messages; with a tool call in every turn or without. Gives what runs a turn."""


def history(messages: int) -> Iterator[tuple[str, str]]:
    """Role and text of each message."""
    for number in range(messages):
        role = "assistant" if number % 2 else "user"
        yield role, _long(f"{role} message {number}: ")


async def measure(start: Start, messages: int, tool: bool, conversations: int) -> list[float]:
    """Seconds of each timed turn."""
    seconds: list[float] = []
    for _ in range(conversations):
        turn = await start(messages, tool)
        gc.collect()
        for number in range(WARM_UP + TIMED):
            began = time.perf_counter()
            await turn()
            took = time.perf_counter() - began
            if number >= WARM_UP:
                seconds.append(took)
    return seconds


def main(start: Start) -> None:
    """``script MESSAGES TOOL CONVERSATIONS``: one JSON line on stdout."""
    messages, tool, conversations = int(sys.argv[1]), sys.argv[2] == "tool", int(sys.argv[3])
    print(json.dumps({"seconds": asyncio.run(measure(start, messages, tool, conversations))}))
