"""Who is called, in which order; and that a listener that does not fit fails when it registers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from tests.bus.hooks import Flush, PreStep, Status, Stopping, pass_on, place, shout
from turnlog.bus import Bus, BusEvent, Emit, HookContract, HookMismatch, Next, Outcome, Registration, Waterfall
from turnlog.events import LogPayload, Payload, ToolResult, TurnStart
from turnlog.log import SessionEvent, TurnlogError

MODES = ("emit", "parallel", "serial", "waterfall")


class Heard:
    """A bus with named listeners in one mode, and the names of those that were called."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.bus = Bus()
        self.names: list[str] = []

    def on(self, name: str, *, prepend: bool = False, does: Callable[[], object] = lambda: None) -> Registration:
        def note() -> None:
            self.names.append(name)
            does()

        async def waterfall(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
            note()
            return await next()

        async def asynchronous(event: object) -> None:
            note()

        def told(event: object) -> None:
            note()

        match self.mode:
            case "emit":
                return self.bus.on(Status, told, prepend=prepend)
            case "parallel":
                return self.bus.on(Flush, asynchronous, prepend=prepend)
            case "serial":
                return self.bus.on(Stopping, asynchronous, prepend=prepend)
            case _:
                return self.bus.on(PreStep, waterfall, prepend=prepend)

    def dispatch(self) -> list[str]:
        """Dispatch one event and give the names of those that were called for it."""
        self.names.clear()

        async def run() -> None:
            match self.mode:
                case "emit":
                    self.bus.emit(Status())
                case "parallel":
                    await self.bus.parallel(Flush())
                case "serial":
                    await self.bus.serial(Stopping())
                case _:
                    await self.bus.waterfall(PreStep(), shout)

        anyio.run(run)
        return list(self.names)


@pytest.fixture(params=MODES)
def heard(request: pytest.FixtureRequest) -> Heard:
    return Heard(request.param)


def test_listeners_are_called_in_the_order_of_registration(heard: Heard) -> None:
    for name in "abc":
        heard.on(name)
    assert heard.dispatch() == ["a", "b", "c"]


def test_prepend_puts_a_listener_first(heard: Heard) -> None:
    heard.on("a")
    heard.on("b", prepend=True)
    heard.on("c")
    heard.on("d", prepend=True)
    assert heard.dispatch() == ["d", "b", "a", "c"]


def test_one_function_may_listen_twice_and_each_registration_is_its_own() -> None:
    bus, seen = Bus(), []
    first = bus.on(Status, seen.append)
    bus.on(Status, seen.append)
    bus.emit(Status())
    first.close()
    bus.emit(Status())
    assert len(seen) == 3


def test_a_closed_listener_is_not_called_and_closing_twice_is_fine(heard: Heard) -> None:
    registrations = {name: heard.on(name) for name in "abc"}
    assert not registrations["b"].closed
    registrations["b"].close()
    registrations["b"].close()
    assert registrations["b"].closed
    assert heard.dispatch() == ["a", "c"]


def test_a_registration_is_a_context(heard: Heard) -> None:
    with heard.on("a"):
        assert heard.dispatch() == ["a"]
    assert heard.dispatch() == []


def test_a_listener_closed_before_its_turn_is_passed_by(heard: Heard) -> None:
    registrations: dict[str, Registration] = {}
    registrations["a"] = heard.on("a", does=lambda: registrations["c"].close())
    registrations["b"] = heard.on("b")
    registrations["c"] = heard.on("c")
    registrations["d"] = heard.on("d")
    assert heard.dispatch() == ["a", "b", "d"]


def test_a_listener_may_close_itself_and_those_before_it(heard: Heard) -> None:
    registrations: dict[str, Registration] = {}

    def close() -> None:
        registrations["a"].close()
        registrations["b"].close()

    registrations["a"] = heard.on("a")
    registrations["b"] = heard.on("b", does=close)
    registrations["c"] = heard.on("c")
    assert heard.dispatch() == ["a", "b", "c"]
    assert heard.dispatch() == ["c"]


def test_a_listener_added_during_a_dispatch_is_not_called_by_it(heard: Heard) -> None:
    added: list[Registration] = []

    def add() -> None:
        if not added:
            added.append(heard.on("late"))
            added.append(heard.on("early", prepend=True))

    heard.on("a", does=add)
    assert heard.dispatch() == ["a"]
    assert heard.dispatch() == ["early", "a", "late"]


def test_hears_says_whether_anyone_listens(heard: Heard) -> None:
    events = {"emit": Status, "parallel": Flush, "serial": Stopping, "waterfall": PreStep}
    assert not heard.bus.hears(events[heard.mode])
    with heard.on("a"):
        assert heard.bus.hears(events[heard.mode])
        assert not heard.bus.hears(ToolResult)
    assert not heard.bus.hears(events[heard.mode])


# -- what does not fit ------------------------------------------------------------------------------------------------


def told(event: Status) -> None: ...


async def asked(event: Stopping) -> None: ...


def sync_waterfall(event: PreStep, next: Next[PreStep, str]) -> str:
    return "no"


async def without_next(event: PreStep) -> None: ...


async def three(event: PreStep, next: Next[PreStep, str], more: int) -> None: ...


async def keyword(event: PreStep, next: Next[PreStep, str], *, more: int) -> None: ...


async def generator(event: PreStep, next: Next[PreStep, str]) -> Any:
    yield await next()


def two(event: Status, more: int) -> None: ...


@pytest.mark.parametrize(
    ("event", "listener", "says"),
    [
        (PreStep, sync_waterfall, "waterfall listeners are `async def`s"),
        (PreStep, told, "waterfall listeners are `async def`s"),
        (PreStep, generator, "waterfall listeners are `async def`s"),
        (PreStep, without_next, "take (event, next)"),
        (PreStep, three, "take (event, next): missing a required argument: 'more'"),
        (PreStep, keyword, "take (event, next): missing a required"),  # Python 3.12 says that it is keyword-only
        (PreStep, functools.partial(three, more=1, wrong=2), "has incorrect arguments"),
        (Stopping, told, "serial listeners are `async def`s"),
        (Stopping, pass_on, "take (event): missing a required argument: 'next'"),
        (Flush, told, "parallel listeners are `async def`s"),
        (Flush, pass_on, "take (event)"),
        (Status, asked, "emit listeners are plain `def`s"),
        (Status, two, "take (event): missing a required argument: 'more'"),
        (ToolResult, asked, "session listeners are plain `def`s, because they are told synchronously"),
        (ToolResult, two, "take (event)"),
    ],
)
def test_a_listener_that_does_not_fit_its_mode_fails_at_registration(
    event: Any, listener: Callable[..., Any], says: str
) -> None:
    bus: Any = Bus()
    with pytest.raises(HookMismatch) as caught:
        bus.on(event, listener)
    wire = event.event_type if issubclass(event, Payload) else event.wire
    inner = listener.func if isinstance(listener, functools.partial) else listener
    assert str(caught.value).startswith(f"{wire}: {place(inner)} does not fit: ")
    assert says in str(caught.value)
    assert caught.value.event == wire
    assert caught.value.listener == place(inner)
    assert caught.value.code == "HOOK_MISMATCH"
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, TurnlogError)
    assert not bus.hears(event)


class Nameless(Emit):
    pass


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (PreStep(), "listens to no class"),
        ("agent/pre-step", "'agent/pre-step': "),
        (int, "int: "),
        (BusEvent, "neither a hook nor a payload"),
        (Waterfall, "an event with no name"),
        (Nameless, "Nameless: told"),
        (Payload, "a base class; name one type of event, or hear all of them with session.subscribe"),
        (LogPayload, "a base class"),
    ],
)
def test_only_hook_and_payload_classes_are_listened_to(event: Any, says: str) -> None:
    bus: Any = Bus()
    with pytest.raises(HookMismatch) as caught:
        bus.on(event, told)
    assert says in str(caught.value)
    assert place(told) in str(caught.value)


@pytest.mark.parametrize("listener", [None, 3, "told", [told]])
def test_a_listener_is_callable(listener: Any) -> None:
    bus: Any = Bus()
    with pytest.raises(HookMismatch, match=r"agent/status: .* is not callable"):
        bus.on(Status, listener)
    with pytest.raises(HookMismatch, match="neither a hook"):
        bus.on(int, listener)


# -- what fits --------------------------------------------------------------------------------------------------------


class Plugin:
    """Listeners of every kind of callable."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def method(self, event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
        self.heard.append("method")
        return await next()

    @classmethod
    async def of_class(cls, event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
        return await next()

    @staticmethod
    async def static(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
        return await next()

    async def __call__(self, event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
        self.heard.append("object")
        return await next()


class Inheriting(Plugin):
    """Its ``__call__`` is defined further up."""


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that is a plain ``def`` around an ``async def``, as most are."""

    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def with_limit(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that passes an argument of its own."""

    @functools.wraps(function)
    async def wrapper(event: PreStep, next: Next[PreStep, str]) -> Any:
        return await function(3, event, next)

    return wrapper


@logged
async def decorated(event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
    return await next()


@with_limit
async def limited(limit: int, event: PreStep, next: Next[PreStep, str]) -> Outcome[str]:
    assert limit == 3
    return await next()


async def with_default(event: PreStep, next: Next[PreStep, str], more: int = 3) -> Outcome[str]:
    return await next()


async def variadic(*args: Any) -> Any:
    return await args[1]()


@pytest.mark.parametrize(
    ("listener", "named"),
    [
        (pass_on, "pass_on"),
        (Plugin().method, "Plugin.method"),
        (Plugin.of_class, "Plugin.of_class"),
        (Plugin.static, "Plugin.static"),
        (Plugin(), "Plugin"),
        (Inheriting(), "Inheriting"),
        (functools.partial(three, more=3), "three"),
        (functools.partial(functools.partial(Plugin().method)), "Plugin.method"),
        (decorated, "decorated"),
        (limited, "limited"),
        (with_default, "with_default"),
        (variadic, "variadic"),
    ],
)
def test_any_callable_that_fits_is_a_listener_and_is_named_with_its_place(listener: Any, named: str) -> None:
    registration = Bus().on(PreStep, listener)
    assert registration.where.startswith(f"{named} ({__file__}:" if named != "pass_on" else place(pass_on))


@pytest.mark.parametrize("listener", [Plugin().method, Inheriting(), decorated, limited, with_default, variadic])
def test_any_callable_that_fits_is_called_as_a_listener(listener: Any) -> None:
    async def run() -> None:
        bus = Bus()
        bus.on(PreStep, listener)
        assert (await bus.waterfall(PreStep(), shout)).value == "HELLO"

    anyio.run(run)


def test_a_built_in_is_named_though_it_has_no_place() -> None:
    seen: list[SessionEvent[TurnStart]] = []
    assert Bus().on(TurnStart, seen.append).where == "list.append"
    assert Bus().on(Status, print).where == "print"


def test_a_coroutine_that_slips_through_a_lambda_is_closed_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    bus: Any = Bus()
    bus.on(Status, lambda event: asked(event))
    with bus.trace() as trace:
        bus.emit(Status())
    assert trace.of("agent/status")[0].ran[0].outcome == "raised"
    assert HookContract.__name__ in caplog.text
    assert "returned a coroutine" in caplog.text
