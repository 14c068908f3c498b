"""The bus: who listens to what, and a snapshot of them for each dispatch.

Listeners are called in the order of registration (``prepend=True`` puts one first). A listener added during a dispatch
is not called by it, one removed before its turn is passed by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeVar, cast, overload

from turnlog.events import Payload
from turnlog.log import AnyEvent, Session, SessionEvent, Subscription

from . import dispatch
from .errors import HookMismatch
from .events import Emit, Parallel, Serial, Waterfall
from .listeners import Listener, Registration, check_fits, place_of
from .outcome import Next, Outcome, reached
from .trace import Dispatch, Trace

DEADLINE: Final = 60.0
"""Seconds a listener may take for itself before it fails; a policy that hangs must not hang the agent."""

E = TypeVar("E")
R = TypeVar("R")
P = TypeVar("P", bound=Payload)
EmitT = TypeVar("EmitT", bound=Emit)
ParallelT = TypeVar("ParallelT", bound=Parallel)
Deadline = float | Literal["default"] | None


class Bus:
    """Typed hooks in three domains: facts of a session, an agent's life, capabilities being used."""

    def __init__(self, *, deadline: float | None = DEADLINE) -> None:
        self._deadline = deadline
        self._listeners: dict[type | str, tuple[Registration, ...]] = {}  # facts by event type, hooks by class
        self._traces: tuple[Trace, ...] = ()

    @overload
    def on(
        self,
        event: type[Waterfall[E, R]],
        listener: Callable[[E, Next[E, R]], Awaitable[Outcome[R]]],
        *,
        prepend: bool = False,
        deadline: Deadline = "default",
    ) -> Registration: ...
    @overload
    def on(
        self,
        event: type[Serial[E, R]],
        listener: Callable[[E], Awaitable[R | None]],
        *,
        prepend: bool = False,
        deadline: Deadline = "default",
    ) -> Registration: ...
    @overload
    def on(
        self,
        event: type[ParallelT],
        listener: Callable[[ParallelT], Awaitable[None]],
        *,
        prepend: bool = False,
        deadline: Deadline = "default",
    ) -> Registration: ...
    @overload
    def on(self, event: type[EmitT], listener: Callable[[EmitT], None], *, prepend: bool = False) -> Registration: ...
    @overload
    def on(
        self, event: type[P], listener: Callable[[SessionEvent[P]], None], *, prepend: bool = False
    ) -> Registration: ...
    def on(
        self, event: type, listener: Listener, *, prepend: bool = False, deadline: Deadline = "default"
    ) -> Registration:
        """Call *listener* for every *event* from now on, until the registration is closed.

        *event* is a hook class, or a payload class for the facts of an attached session. *deadline*: seconds of the
        listener's own time (waits in ``next`` not counted), None for no limit. Raises ``HookMismatch`` when the
        listener does not fit the event's mode.
        """
        wire, mode = _wire_and_mode(event, listener)
        where = check_fits(wire, mode, listener)
        limit = self._deadline if deadline == "default" else deadline
        registration = Registration(self._forget, event, listener, where, limit)
        key = _key(event)
        known = self._listeners.get(key, ())
        self._listeners[key] = (registration, *known) if prepend else (*known, registration)
        return registration

    def _forget(self, registration: Registration) -> None:
        key = _key(registration.event)
        self._listeners[key] = tuple(one for one in self._listeners[key] if one is not registration)

    def hears(self, event: type) -> bool:
        """Whether anyone listens to *event*; a hot path asks before it builds one."""
        return bool(self._listeners.get(_key(event)))

    # -- dispatch -----------------------------------------------------------------------------------------------

    def attach(self, session: Session) -> Subscription:
        """Tell the listeners of payload classes about every event of *session* committed from now on."""
        return session.subscribe(self._fact)

    def _fact(self, event: AnyEvent) -> None:
        if listeners := self._listeners.get(event.type):
            with self._dispatch(event.type, "session") as record:
                dispatch.emit(record, listeners, event)

    def emit(self, event: Emit) -> None:
        """Tell all, in order, now. What a listener raises is logged and goes no further."""
        listeners = self._listeners.get(type(event), ())
        if listeners or self._traces:
            with self._dispatch(event.wire, "emit") as record:
                dispatch.emit(record, listeners, event)

    async def parallel(self, event: Parallel) -> None:
        """Run all listeners at once and wait for all; what failed is raised together as an ``ExceptionGroup``.

        Cancelling cancels the listeners and waits for them.
        """
        with self._dispatch(event.wire, "parallel") as record:
            await dispatch.parallel(record, self._listeners.get(type(event), ()), event)

    async def serial(self, event: Serial[E, R]) -> R | None:
        """Ask one after the other; the first answer that is not None ends it. What a listener raises is passed on.

        Cancelling cancels the listener that is being asked; the others are not asked.
        """
        with self._dispatch(event.wire, "serial") as record:
            return cast("R | None", await dispatch.serial(record, self._listeners.get(type(event), ()), event))

    async def waterfall(self, event: Waterfall[E, R], default: Callable[[E], Awaitable[R]]) -> Outcome[R]:
        """Run the chain around *default* and give its outcome.

        Raises ``HookContract`` when a listener breaks the contract, ``HookTimeout`` at its deadline, and passes on what
        listeners and *default* raise. Cancelling unwinds the chain from the inside out.
        """
        given = cast("E", event)
        listeners = self._listeners.get(type(event))
        if not listeners and not self._traces:
            return reached(await default(given), None)
        with self._dispatch(event.wire, "waterfall") as record:
            return await dispatch.waterfall(record, listeners or (), given, default)

    # -- traces -------------------------------------------------------------------------------------------------

    @contextmanager
    def trace(self) -> Iterator[Trace]:
        """Record what is dispatched inside the block: who ran, who stopped, how long."""
        trace = Trace()
        self._traces = (*self._traces, trace)
        try:
            yield trace
        finally:
            self._traces = tuple(one for one in self._traces if one is not trace)

    def _dispatch(self, wire: str, mode: str) -> Dispatch:
        record = Dispatch(wire, mode)
        for trace in self._traces:
            trace.dispatches.append(record)
        return record


def _key(event: type) -> type | str:
    return event.event_type if issubclass(event, Payload) else event


def _wire_and_mode(event: type, listener: Listener) -> tuple[str, str]:
    if not isinstance(event, type):
        raise HookMismatch(repr(event), place_of(listener), "listens to no class, but to one of its objects or a name")
    if issubclass(event, Payload):
        if not event.event_type:
            remedy = "name one type of event, or hear all of them with session.subscribe(listener)"
            raise HookMismatch(event.__name__, place_of(listener), f"listens to a base class; {remedy}")
        return event.event_type, "session"
    for base, mode in ((Waterfall, "waterfall"), (Serial, "serial"), (Parallel, "parallel"), (Emit, "emit")):
        if issubclass(event, base):
            if not isinstance(getattr(event, "wire", None), str):
                remedy = 'give the class `wire: ClassVar[str] = "domain/what"`'
                raise HookMismatch(event.__name__, place_of(listener), f"listens to an event with no name; {remedy}")
            return event.wire, mode
    raise HookMismatch(event.__name__, place_of(listener), "listens to something that is neither a hook nor a payload")
