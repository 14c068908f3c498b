"""The four ways of dispatch, one function each.

Each gets the listeners as they were when the dispatch began, and passes by those that were closed since.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Final, TypeVar

import anyio

from .errors import HookContract, HookTimeout
from .listeners import Registration
from .outcome import STOPPED, Outcome, frame_of, reached
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
                one.listener(event)
            except Exception as error:  # an observer never changes what it observes
                ran.raised(error)
                logger.exception("%s: %s failed; what it was told about stands", dispatch.wire, one.where)


async def parallel(dispatch: Dispatch, listeners: Sequence[Registration], event: object) -> None:
    """Run all at once, wait for all, then raise what failed as one ``ExceptionGroup``."""
    failures: list[Exception] = []

    async def run(one: Registration) -> None:
        with dispatch.running(one.where) as ran:
            try:
                with _own_time(dispatch.wire, one):
                    await one.listener(event)
            except Exception as error:  # raised together, below
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
        with dispatch.running(one.where) as ran, _own_time(dispatch.wire, one):
            answer = await one.listener(event)
            if answer is not None:
                ran.outcome = "answered"
                return answer
    return None


async def waterfall(
    dispatch: Dispatch, listeners: Sequence[Registration], event: E, default: Callable[[E], Awaitable[R]]
) -> Outcome[R]:
    """Run the chain: each listener gets the event and ``next``, the innermost ``next`` runs *default*."""

    async def call(position: int, given: E) -> Outcome[R]:
        while position < len(listeners) and listeners[position].closed:
            position += 1
        if position == len(listeners):
            dispatch.reached_default = True
            return reached(await default(given), None)
        return await link(position, given)

    async def link(position: int, given: E) -> Outcome[R]:
        one, frame = listeners[position], object()
        state = "waiting"  # for next() → called → over

        async def rest(*handed: E) -> Outcome[R]:
            nonlocal state
            if state != "waiting":
                again = "called next() twice" if state == "called" else "called next() after it had returned"
                raise HookContract(dispatch.wire, one.where, f"{again}; the rest of the chain runs once, inside it")
            following = handed[0] if handed else given
            if type(following) is not type(event):
                kind, wanted = type(following).__name__, type(event).__name__
                raise HookContract(dispatch.wire, one.where, f"handed on a {kind}; next() takes a {wanted}")
            state = "called"
            with ran.paused(), _not_counted(limit):
                inner = await call(position + 1, following)
            return reached(inner.value, frame, inner.stopped)

        with dispatch.running(one.where) as ran, _own_time(dispatch.wire, one) as limit:
            try:
                outcome = await one.listener(given, rest)
            finally:
                passed_on, state = state == "called", "over"
            if fault := _fault(outcome, frame, passed_on):
                raise HookContract(dispatch.wire, one.where, fault)
            stopped = frame_of(outcome) is STOPPED
            ran.outcome, ran.detail = ("stopped", outcome.stopped) if stopped else ("passed on", None)
        return reached(outcome.value, frame, outcome.stopped)

    return await call(0, event)


def _fault(outcome: object, frame: object, passed_on: bool) -> str | None:
    remedy = "end every path with `return await next(event)` or `return stop(value, reason=…)`"
    if isinstance(outcome, Outcome):
        origin = frame_of(outcome)
        if origin is STOPPED or origin is frame:
            return None
        return f"returned an outcome of another dispatch; {remedy}"
    what = "nothing" if outcome is None else f"a {type(outcome).__name__}"
    if passed_on:
        return f"called next() and then returned {what} instead of the outcome it got; {remedy}"
    return f"returned {what} without next() or stop(); {remedy}"


@contextmanager
def _own_time(wire: str, one: Registration) -> Iterator[anyio.CancelScope]:
    """Cancel the listener when it has used up its own time."""
    scope = anyio.CancelScope(deadline=inf if one.deadline is None else anyio.current_time() + one.deadline)
    with scope:
        yield scope
    if scope.cancelled_caught:
        raise HookTimeout(wire, one.where, f"ran longer than its deadline of {one.deadline:g} s and was cancelled")


@contextmanager
def _not_counted(limit: anyio.CancelScope) -> Iterator[None]:
    """Stop the clock of a listener while the rest of the chain runs."""
    left = limit.deadline - anyio.current_time()
    limit.deadline = inf
    try:
        yield
    finally:
        limit.deadline = inf if left == inf else anyio.current_time() + left
