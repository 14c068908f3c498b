"""The four ways of dispatch, one function each.

Each gets the listeners as they were when the dispatch began, and passes by those that were closed since.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import anyio

from .errors import HookContract, blame
from .listeners import Registration
from .outcome import STOPPED, Outcome, frame_of, reached
from .own_time import OwnTime
from .rest import Rest
from .trace import Dispatch

logger: Final = logging.getLogger("turnlog")

E = TypeVar("E")
R = TypeVar("R")


def emit(dispatch: Dispatch, listeners: Sequence[Registration], event: object) -> None:
    """Tell all, in order, now. What a listener raises is logged and goes no further."""
    for one in listeners:
        if one.closed:
            continue
        with dispatch.running(one.where) as ran:
            try:
                given = one.listener(event)
                if inspect.iscoroutine(given):
                    given.close()
                    raise HookContract(dispatch.wire, one.where, "returned a coroutine, which nobody awaits here")
            except Exception as error:  # an observer never changes what it observes
                ran.raised(error)
                logger.exception("%s: %s failed; what it was told about stands", dispatch.wire, one.where)


async def parallel(dispatch: Dispatch, listeners: Sequence[Registration], event: object) -> None:
    """Run all at once, wait for all, then raise what failed as one ``ExceptionGroup``."""
    failures: list[Exception] = []

    async def run(one: Registration) -> None:
        if one.closed:
            return
        with dispatch.running(one.where) as ran:
            try:
                with OwnTime(dispatch.wire, one, ran):
                    await one.listener(event)
            except Exception as error:  # raised together, below
                blame(error, dispatch.wire, one.where)
                ran.raised(error)
                failures.append(error)

    async with anyio.create_task_group() as group:
        for one in listeners:
            group.start_soon(run, one)
    if failures:
        raise ExceptionGroup(f"{dispatch.wire}: {len(failures)} of {len(listeners)} listeners failed", failures)


async def serial(dispatch: Dispatch, listeners: Sequence[Registration], event: object) -> object:
    """Ask one after the other; the first answer that is not None ends it. What a listener raises is passed on."""
    for one in listeners:
        if one.closed:
            continue
        with dispatch.running(one.where) as ran, OwnTime(dispatch.wire, one, ran):
            try:
                answer = await one.listener(event)
            except Exception as error:
                blame(error, dispatch.wire, one.where)
                raise
            if answer is not None:
                ran.outcome = "answered"
                return answer
    return None


async def waterfall(
    dispatch: Dispatch, listeners: Sequence[Registration], event: E, default: Callable[[E], Awaitable[R]]
) -> Outcome[R]:
    """Run the chain: each listener gets the event and ``next``, the innermost ``next`` runs *default*."""
    dispatch.reached_default = False

    async def call(position: int, given: E) -> Outcome[R]:
        while position < len(listeners) and listeners[position].closed:
            position += 1
        if position == len(listeners):
            dispatch.reached_default = True
            return reached(await default(given), None)
        one = listeners[position]
        with dispatch.running(one.where) as ran, OwnTime(dispatch.wire, one, ran) as time:
            rest: Rest[E, R] = Rest(dispatch.wire, one, given, partial(call, position + 1), ran, time)
            try:
                outcome = await one.listener(given, rest)
            except Exception as error:
                rest.raised(error)
                raise
            finally:
                rest.end()
            if fault := rest.fault(outcome):
                raise HookContract(dispatch.wire, one.where, fault)
            stopped = frame_of(outcome) is STOPPED
            ran.outcome, ran.detail = ("stopped", outcome.stopped) if stopped else ("passed on", None)
        return reached(outcome.value, rest, outcome.stopped, one.where if stopped else outcome.stopped_by)

    return await call(0, event)
