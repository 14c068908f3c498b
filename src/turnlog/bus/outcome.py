"""What a waterfall listener gives back. Only ``await next(event)`` and ``stop(value, reason=…)`` make one.

So a listener cannot end a chain by forgetting: returning nothing, a bare value, or another dispatch's outcome is
refused by the type checkers where they can see it, and by the bus always.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar, final

E_contra = TypeVar("E_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")


class _MadeHere:
    """What only this module has; with it, no program's own ``Outcome(…)`` passes a type checker."""


_MADE_HERE: Final = _MadeHere()


@final
class Outcome(Generic[R_co]):
    """The result of a chain and who decided it. Listeners receive it from ``next`` and return it, changed or not."""

    __slots__ = ("_by", "_frame", "_reason", "_value")

    def __init__(
        self, value: R_co, frame: object, reason: str | None, made_by: _MadeHere, by: str | None = None
    ) -> None:
        """For the bus. A program that calls it gets a :class:`TypeError`."""
        if made_by is not _MADE_HERE:
            raise TypeError("an Outcome comes from `await next(event)` or `stop(value, reason=…)`, not from its class")
        self._value = value
        self._frame = frame
        self._reason = reason
        self._by = by

    @property
    def value(self) -> R_co:
        """What the chain gave."""
        return self._value

    @property
    def stopped(self) -> str | None:
        """Why a listener ended the chain with its own value (:func:`stop`); None when it came from the default."""
        return self._reason

    @property
    def stopped_by(self) -> str | None:
        """Which listener that was, ``name (file:line)``."""
        return self._by

    def with_value(self, value: T) -> Outcome[T]:
        """The same decision with another value: how a listener works on what came back from ``next``."""
        return Outcome(value, self._frame, self._reason, _MADE_HERE, self._by)

    def __repr__(self) -> str:
        stopped = "" if self._reason is None else f", stopped={self._reason!r}"
        return f"Outcome({self._value!r}{stopped})"


class Next(Protocol[E_contra, R_co]):
    """The rest of a chain. ``next()`` passes the same event on, ``next(event)`` another one; once, and awaited."""

    def __call__(self, event: E_contra = ..., /) -> Coroutine[Any, Any, Outcome[R_co]]: ...


class Stopped:
    """Marks the outcome of :func:`stop`: it belongs to no chain yet."""

    __slots__ = ()


STOPPED: Final = Stopped()


def stop(value: R, *, reason: str) -> Outcome[R]:
    """End the chain here with *value*. *reason* is for people: it appears in traces and, for a block, in the log."""
    if not isinstance(reason, str) or not reason.strip():
        raise TypeError("stop(value, reason=…) needs a reason that says why the chain ends here")
    return Outcome(value, STOPPED, reason, _MADE_HERE)


def reached(value: R, frame: object, reason: str | None = None, by: str | None = None) -> Outcome[R]:
    """For the bus: what came back through the frame of one listener's ``next``."""
    return Outcome(value, frame, reason, _MADE_HERE, by)


def frame_of(outcome: Outcome[object]) -> object:
    """For the bus: the chain an outcome came from, or :data:`STOPPED`."""
    return getattr(outcome, "_frame", None)  # made without its __init__, it has none
