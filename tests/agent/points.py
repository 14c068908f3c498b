"""Await points, counted: every suspension of every task of a run, so that something can happen at exactly the k-th.

The event loop is given a task factory that wraps each coroutine. A *point* is one suspension: the moment a coroutine
has handed control back to the loop. What happens there happens before anything else can run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class _Counted(Coroutine[Any, Any, Any]):
    """A coroutine that reports its suspensions."""

    def __init__(self, inner: Coroutine[Any, Any, Any], suspended: Callable[[], None]) -> None:
        self._inner = inner
        self._suspended = suspended

    def send(self, value: Any) -> Any:
        given = self._inner.send(value)
        self._suspended()
        return given

    def throw(self, *error: Any) -> Any:
        given = self._inner.throw(*error)
        self._suspended()
        return given

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:  # cr_frame and the like, which anyio looks at
        return getattr(self._inner, name)


class Points:
    """Counts suspensions, and does something at one of them."""

    def __init__(self, at: int | None = None, act: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self.at = at
        self.act = act
        self.counting = False

    @property
    def reached(self) -> bool:
        """Whether the point came."""
        return self.at is not None and self.count > self.at

    def pass_one(self, _event: object = None) -> None:
        """One point has come."""
        if not self.counting:
            return
        here, self.count = self.count, self.count + 1
        if here == self.at:
            self.counting = False
            self.count = here + 1
            self.act()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the suspensions of all tasks that begin inside the block."""
        loop = asyncio.get_running_loop()
        former = loop.get_task_factory()

        def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
            return asyncio.Task(_Counted(coro, self.pass_one), loop=loop, **options)

        loop.set_task_factory(factory)
        self.counting = True
        try:
            yield
        finally:
            self.counting = False
            loop.set_task_factory(former)


def others() -> set[asyncio.Task[Any]]:
    """The tasks that are not done, but for the one that asks."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def children() -> set[int]:
    """Living child processes of this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid() and fields[0] not in "ZX":
                found.add(int(entry.name))
    return found


def alive(pid: int) -> bool:
    """Whether a process of this id runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
