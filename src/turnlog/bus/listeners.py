"""Who listens: registrations in order, and the check that a listener fits its event's mode."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, Self

from .errors import HookMismatch

Listener = Callable[..., Any]


class Registration:
    """One listener on one event. ``close()`` ends it, also in the middle of a dispatch; closing twice is fine."""

    __slots__ = ("_forget", "deadline", "event", "listener", "where")

    def __init__(
        self,
        forget: Callable[[Registration], None],
        event: type,
        listener: Listener,
        where: str,
        deadline: float | None,
    ) -> None:
        self._forget: Callable[[Registration], None] | None = forget
        self.event: Final = event
        self.listener: Final = listener
        self.where: Final = where
        """``name (file:line)``, for errors and traces."""
        self.deadline: Final = deadline
        """Seconds of its own time, not counting what it waits for in ``next``; None is no limit."""

    @property
    def closed(self) -> bool:
        """Whether it was taken away."""
        return self._forget is None

    def close(self) -> None:
        """Take the listener away. A dispatch that has not reached it yet passes it by."""
        forget, self._forget = self._forget, None
        if forget is not None:
            forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def place_of(listener: Listener) -> str:
    """``name (file:line)`` of a function, method, partial or callable object."""
    if not callable(listener):
        return repr(listener)
    inner: Any = listener
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    inner = getattr(inner, "__func__", inner)
    if not hasattr(inner, "__qualname__"):  # an object with __call__
        inner, name = type(inner).__call__, type(inner).__qualname__
    else:
        name = inner.__qualname__
    code = getattr(inspect.unwrap(inner), "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def is_async(listener: Listener) -> bool:
    """Whether calling it gives an awaitable, as far as its definition (or that of what it wraps) says."""
    inner: Any = listener
    while isinstance(inner, functools.partial):
        inner = inner.func
    inner = inspect.unwrap(inner)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


def check_fits(wire: str, mode: str, listener: Listener) -> str:
    """Where the listener is defined; :class:`HookMismatch` unless it can be called as its mode calls it."""
    where = place_of(listener)
    if not callable(listener):
        raise HookMismatch(wire, where, "is not callable; a listener is a function")
    asynchronous = mode in ("waterfall", "serial", "parallel")
    if is_async(listener) is not asynchronous:
        wanted = "`async def`s" if asynchronous else "plain `def`s, because they are told synchronously"
        raise HookMismatch(wire, where, f"does not fit: {mode} listeners are {wanted}")
    takes = ("event", "next") if mode == "waterfall" else ("event",)
    if reason := _refuses(listener, takes):
        raise HookMismatch(wire, where, f"does not fit: {mode} listeners take ({', '.join(takes)}): {reason}")
    return where


def _refuses(listener: Listener, takes: tuple[str, ...]) -> str | None:
    """Why it cannot be called with these arguments; None when it can, or is a built-in that does not say."""
    try:
        signature = inspect.signature(listener, follow_wrapped=False)
    except (TypeError, ValueError) as error:
        return str(error) if isinstance(listener, functools.partial) else None
    try:
        signature.bind(*takes)
    except TypeError as error:
        return str(error)
    return None
