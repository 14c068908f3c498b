"""The four kinds of hook, as base classes: an event's base class *is* its way of dispatch.

An event is a frozen dataclass with a ``wire`` name::

    @dataclass(frozen=True)
    class PreStep(Waterfall["PreStep", Decision]):
        wire: ClassVar[str] = "agent/pre-step"
        turn: int

Facts of a session need no class of their own: the payload classes of `turnlog.events` are listened to directly, and are
told after they are committed.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

R = TypeVar("R")
E = TypeVar("E")


class BusEvent:
    """Anything a bus dispatches."""

    wire: ClassVar[str]
    """The name people and logs know it by, ``domain/what``."""


class Emit(BusEvent):
    """Told to all, synchronously, in order. A listener that raises is reported and the others still hear it."""


class Parallel(BusEvent):
    """All listeners run at once; the dispatcher waits for all and then raises what failed."""


class Serial(BusEvent, Generic[E, R]):
    """Listeners are asked one after the other until one answers with something other than None.

    *E* is the event class itself, *R* what an answer is.
    """


class Waterfall(BusEvent, Generic[E, R]):
    """Listeners wrap each other and the default, outermost first; each hands on with ``next`` or ends with ``stop``.

    *E* is the event class itself, *R* what the chain gives.
    """
