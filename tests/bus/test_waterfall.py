"""A waterfall: listeners wrap the default, and every way of forgetting the rest of the chain is an error (BC-071)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import anyio
import pytest

from tests.bus.hooks import Other, PreStep, pass_on, place, shout
from turnlog.bus import Bus, HookContract, HookError, Next, Outcome, stop

Rest = Next[PreStep, str]


def run(bus: Bus, event: PreStep | None = None, default: Callable[[PreStep], Awaitable[str]] = shout) -> Outcome[str]:
    """The outcome of one dispatch."""

    async def main() -> Outcome[str]:
        return await bus.waterfall(PreStep() if event is None else event, default)

    return anyio.run(main)


def bus_of(*listeners: Any) -> Bus:
    bus = Bus()
    for listener in listeners:
        bus.on(PreStep, listener)
    return bus


# -- what it does -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("traced", [False, True])
def test_without_listeners_the_default_runs(traced: bool) -> None:
    bus = Bus()
    with bus.trace():
        outcome = run(bus)
    assert (outcome.value, outcome.stopped, outcome.stopped_by) == ("HELLO", None, None)
    assert (run(bus).value, repr(run(bus))) == ("HELLO", "Outcome('HELLO')")


def test_listeners_wrap_each_other_and_the_default() -> None:
    order: list[str] = []

    def around(name: str) -> Any:
        async def listener(event: PreStep, next: Rest) -> Outcome[str]:
            order.append(f"{name} in")
            outcome = await next()
            order.append(f"{name} out")
            return outcome

        return listener

    async def default(event: PreStep) -> str:
        order.append("default")
        return event.text

    assert run(bus_of(around("a"), around("b")), default=default).value == "hello"
    assert order == ["a in", "b in", "default", "b out", "a out"]


async def twice(event: PreStep, next: Rest) -> Outcome[str]:
    return await next(replace(event, text=event.text * 2))


async def exclaim(event: PreStep, next: Rest) -> Outcome[str]:
    outcome = await next()
    return outcome.with_value(f"{outcome.value}!")


async def veto(event: PreStep, next: Rest) -> Outcome[str]:
    return stop("no", reason="not today")


async def never(event: PreStep, next: Rest) -> Outcome[str]:
    raise AssertionError("must not be reached")


def test_next_with_an_event_hands_on_that_one_and_next_without_the_one_it_got() -> None:
    assert run(bus_of(twice, pass_on, twice)).value == "HELLO" * 4


def test_what_came_back_may_be_changed_on_the_way_out() -> None:
    assert run(bus_of(exclaim, pass_on, exclaim)).value == "HELLO!!"


def test_stop_ends_the_chain_with_a_value_and_a_reason_that_everybody_outside_sees() -> None:
    seen: list[tuple[str, str | None]] = []

    async def look(event: PreStep, next: Rest) -> Outcome[str]:
        outcome = await next()
        seen.append((outcome.value, outcome.stopped))
        return outcome

    outcome = run(bus_of(look, exclaim, veto, never))
    assert (outcome.value, outcome.stopped, outcome.stopped_by) == ("no!", "not today", place(veto))
    assert seen == [("no!", "not today")]
    assert repr(outcome) == "Outcome('no!', stopped='not today')"


def test_one_stop_may_serve_every_dispatch() -> None:
    refusal = stop("no", reason="never")

    async def refuse(event: PreStep, next: Rest) -> Outcome[str]:
        return refusal

    bus = bus_of(refuse)
    assert (run(bus).value, run(bus).stopped) == ("no", "never")


def test_a_listener_may_recover_from_what_was_raised_inside() -> None:
    async def recover(event: PreStep, next: Rest) -> Outcome[str]:
        try:
            return await next()
        except ZeroDivisionError:
            return stop("recovered", reason="the model failed")

    async def fails(event: PreStep) -> str:
        raise ZeroDivisionError

    assert run(bus_of(recover), default=fails).value == "recovered"


def test_next_may_be_awaited_in_a_task_of_its_own() -> None:
    async def in_a_task(event: PreStep, next: Rest) -> Outcome[str]:
        return await asyncio.create_task(next())

    async def with_a_limit(event: PreStep, next: Rest) -> Outcome[str]:
        return await asyncio.wait_for(next(), 5)

    assert run(bus_of(in_a_task, with_a_limit)).value == "HELLO"


def test_dispatches_of_the_same_event_may_overlap_and_nest() -> None:
    async def nested(event: PreStep, next: Rest) -> Outcome[str]:
        await anyio.sleep(0)
        outcome = await next()
        if event.text == "a":
            inner = await bus.waterfall(PreStep("b"), shout)
            return outcome.with_value(outcome.value + inner.value)
        return outcome

    bus = bus_of(nested, pass_on)

    async def main() -> list[str]:
        return [one.value for one in await asyncio.gather(*(bus.waterfall(PreStep(t), shout) for t in "abca"))]

    assert anyio.run(main) == ["AB", "B", "C", "AB"]


def test_what_a_listener_or_the_default_raises_passes_through_as_it_is() -> None:
    raised = ZeroDivisionError("boom")

    async def fails(*_: Any) -> Any:
        raise raised

    for bus, default in ((bus_of(pass_on, exclaim), fails), (bus_of(pass_on, fails), shout)):
        with pytest.raises(ZeroDivisionError) as caught:
            run(bus, default=default)
        assert caught.value is raised


def test_a_note_says_which_listener_raised_and_blames_no_other() -> None:
    async def fails(*_: Any) -> Any:
        raise ZeroDivisionError("boom")

    async def wraps(event: PreStep, next: Rest) -> Outcome[str]:
        try:
            return await next()
        except ZeroDivisionError as error:
            raise ValueError("worse") from error

    with pytest.raises(ZeroDivisionError) as caught:
        run(bus_of(pass_on, fails, pass_on))
    assert caught.value.__notes__ == [f"raised by {place(fails)}, a listener of agent/pre-step"]
    with pytest.raises(ZeroDivisionError) as caught:
        run(bus_of(pass_on), default=fails)
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(ValueError, match="worse") as other:
        run(bus_of(pass_on, wraps, fails))
    assert other.value.__notes__ == [f"raised by {place(wraps)}, a listener of agent/pre-step"]


def test_an_event_cannot_be_changed_in_place() -> None:
    async def mutates(event: Any, next: Rest) -> Outcome[str]:
        event.text = "other"
        return await next()

    with pytest.raises(FrozenInstanceError):
        run(bus_of(mutates))


# -- the contract -----------------------------------------------------------------------------------------------------


async def returns_nothing(event: PreStep, next: Rest) -> Any:
    """1: a forgotten path."""


async def returns_a_value(event: PreStep, next: Rest) -> Any:
    return "mine"


async def calls_twice(event: PreStep, next: Rest) -> Any:
    await next()
    return await next()


async def calls_twice_at_once(event: PreStep, next: Rest) -> Any:
    return (await asyncio.gather(next(), next()))[0]


async def drops_the_outcome(event: PreStep, next: Rest) -> Any:
    await next()


async def returns_the_value(event: PreStep, next: Rest) -> Any:
    return (await next()).value


async def does_not_await(event: PreStep, next: Rest) -> Any:
    return next()


async def forgets_to_await(event: PreStep, next: Rest) -> Any:
    next()


async def forgets_to_await_and_stops(event: PreStep, next: Rest) -> Any:
    next()
    return stop("mine", reason="why")


async def leaves_it_running(event: PreStep, next: Rest) -> Any:
    kept.append(asyncio.create_task(next()))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    return stop("mine", reason="why")


class Keeper:
    """Returns the outcome of an earlier dispatch."""

    def __init__(self) -> None:
        self.kept: Outcome[str] | None = None

    async def __call__(self, event: PreStep, next: Rest) -> Any:
        if self.kept is None:
            self.kept = await next()
        return self.kept


async def of_a_nested_dispatch(event: PreStep, next: Rest) -> Any:
    return await Bus().waterfall(PreStep(), shout)


async def of_a_nested_dispatch_with_listeners(event: PreStep, next: Rest) -> Any:
    await next()
    return await bus_of(veto).waterfall(PreStep(), shout)


async def of_another_event(event: PreStep, next: Rest) -> Any:
    async def default(event: Other) -> str:
        return "other"

    return await Bus().waterfall(Other(), default)


async def hands_on_another_event(event: PreStep, next: Any) -> Any:
    return await next(Other())


async def hands_on_nothing(event: PreStep, next: Any) -> Any:
    return await next(None)


async def hands_on_two(event: PreStep, next: Any) -> Any:
    return await next(event, event)


async def makes_an_unfinished_outcome(event: PreStep, next: Rest) -> Any:
    return Outcome.__new__(Outcome)


kept: list[asyncio.Task[Any]] = []


@pytest.mark.parametrize("outer", [(), (pass_on,)], ids=["outermost", "inner"])
@pytest.mark.parametrize(
    ("listener", "says", "default_runs"),
    [
        (returns_nothing, "returned nothing without next() or stop()", 0),
        (returns_a_value, "returned a str without next() or stop()", 0),
        (calls_twice, "called next() twice; the rest of the chain runs once", 1),
        (calls_twice_at_once, "called next() twice", 0),
        (drops_the_outcome, "called next() and then returned nothing instead of the outcome it got", 1),
        (returns_the_value, "called next() and then returned a str instead of the outcome it got", 1),
        (does_not_await, "called next() without awaiting it", 0),
        (forgets_to_await, "called next() without awaiting it", 0),
        (forgets_to_await_and_stops, "called next() without awaiting it", 0),
        (leaves_it_running, "returned while its next() was still running", 1),
        (of_a_nested_dispatch, "returned an outcome of another dispatch", 0),
        (of_a_nested_dispatch_with_listeners, "returned an outcome of another dispatch", 1),
        (of_another_event, "returned an outcome of another dispatch", 0),
        (hands_on_another_event, "called next(Other); it hands on one PreStep", 0),
        (hands_on_nothing, "called next(NoneType); it hands on one PreStep", 0),
        (hands_on_two, "called next(PreStep, PreStep); it hands on one PreStep", 0),
        (makes_an_unfinished_outcome, "returned an outcome of another dispatch", 0),
    ],
)
def test_a_broken_contract_is_an_error_with_event_listener_file_and_line(
    listener: Any, says: str, default_runs: int, outer: tuple[Any, ...]
) -> None:
    runs: list[str] = []

    async def default(event: PreStep) -> str:
        runs.append("began")
        await anyio.sleep(0)
        await anyio.sleep(0)
        runs.append("ended")
        return "HELLO"

    with pytest.raises(HookContract) as caught:
        run(bus_of(*outer, listener), default=default)
    assert str(caught.value).startswith(f"agent/pre-step: {place(listener)} {says}")
    assert (caught.value.event, caught.value.listener) == ("agent/pre-step", place(listener))
    assert caught.value.code == "HOOK_CONTRACT"
    assert isinstance(caught.value, HookError)
    assert runs.count("began") == default_runs
    if listener is leaves_it_running:
        assert runs == ["began"]  # it does not go on without its listener
        assert kept.pop().done()


def test_an_outcome_of_an_earlier_dispatch_is_refused() -> None:
    keeper = Keeper()
    bus = bus_of(keeper)
    assert run(bus).value == "HELLO"
    with pytest.raises(HookContract, match=r"Keeper \(.*test_waterfall.py:\d+\) returned an outcome of another"):
        run(bus)


def test_an_outcome_of_one_listener_is_not_one_of_another_in_the_same_chain() -> None:
    shared: list[Outcome[str]] = []

    async def inner(event: PreStep, next: Rest) -> Outcome[str]:
        shared.append(await next())
        return shared[0]

    async def outer(event: PreStep, next: Rest) -> Outcome[str]:
        await next()
        return shared[0]

    with pytest.raises(HookContract, match=r"outer.*returned an outcome of another dispatch"):
        run(bus_of(outer, inner))


def test_next_after_the_listener_has_returned_is_refused_and_runs_nothing() -> None:
    taken: list[Rest] = []

    async def lends(event: PreStep, next: Rest) -> Outcome[str]:
        taken.append(next)
        return stop("mine", reason="why")

    run(bus_of(lends, never))
    with pytest.raises(HookContract, match="called next\\(\\) after it had returned"):
        taken[0]()


def test_a_task_that_was_to_run_the_rest_and_has_not_begun_never_begins() -> None:
    async def starts_late(event: PreStep, next: Rest) -> Outcome[str]:
        kept.append(asyncio.create_task(next()))  # type: ignore[arg-type]
        return stop("mine", reason="why")

    async def main() -> None:
        with pytest.raises(HookContract, match="without awaiting it"):
            await bus_of(starts_late, never).waterfall(PreStep(), shout)
        with pytest.raises(RuntimeError, match="already awaited"):
            await kept.pop()

    anyio.run(main)


def test_a_listener_that_hides_its_second_call_still_runs_the_rest_once() -> None:
    runs: list[str] = []

    async def hides(event: PreStep, next: Rest) -> Outcome[str]:
        outcome = await next()
        with pytest.raises(HookContract):
            await next()
        return outcome

    async def default(event: PreStep) -> str:
        runs.append(event.text)
        return event.text

    assert run(bus_of(hides), default=default).value == "hello"
    assert runs == ["hello"]


def test_only_next_and_stop_make_an_outcome() -> None:
    make: Any = Outcome
    for arguments in (("x",), ("x", None, None), ("x", None, None, None), ("x", object(), None, object())):
        with pytest.raises(TypeError):
            make(*arguments)


@pytest.mark.parametrize("reason", ["", "  ", None, 3])
def test_stop_needs_a_reason(reason: Any) -> None:
    with pytest.raises(TypeError, match="needs a reason"):
        stop("x", reason=reason)


def test_a_listener_that_gives_no_awaitable_although_it_wraps_an_async_def_fails() -> None:
    import functools

    @functools.wraps(pass_on)
    def lies(*_: Any) -> Any:
        return None

    with pytest.raises(TypeError):
        run(bus_of(lies))
