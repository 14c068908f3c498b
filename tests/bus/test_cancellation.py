"""`Cancellation`: the first cause wins, every scope hears it, and other people's cancels pass through."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from turnlog.bus import Cancellation, Cancelled
from turnlog.events import CancelledByDisposal, CancelledByHook, CancelledByUser
from turnlog.log import TurnlogError


def test_the_first_cause_wins() -> None:
    cancellation = Cancellation()
    assert cancellation.cause is None
    cancellation.check()
    assert cancellation.cancel(CancelledByHook("budget"))
    assert not cancellation.cancel(CancelledByUser())
    assert cancellation.cause == CancelledByHook("budget")
    with pytest.raises(Cancelled, match=r"cancelled: CancelledByHook\(reason='budget'\)") as caught:
        cancellation.check()
    assert caught.value.cause == CancelledByHook("budget")
    assert isinstance(caught.value, TurnlogError)


def test_every_open_scope_is_cancelled_and_the_code_after_it_runs_on() -> None:
    cancellation, ended = Cancellation(), []

    async def wait(name: str) -> None:
        with cancellation.scope() as scope:
            await anyio.sleep_forever()
        ended.append((name, scope.cancelled_caught))
        await anyio.sleep(0)  # outside of the scope: not cancelled
        ended.append((name, cancellation.cause))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(wait, "a")
            group.start_soon(wait, "b")
            await anyio.sleep(0.01)
            cancellation.cancel(CancelledByUser())

    anyio.run(main)
    assert sorted(ended[:2]) == [("a", True), ("b", True)]
    assert ended[2:] == [(name, CancelledByUser()) for name, _ in ended[:2]]


def test_a_scope_opened_after_the_cancel_is_cancelled_at_its_first_wait() -> None:
    async def main() -> None:
        cancellation, reached = Cancellation(), []
        cancellation.cancel(CancelledByUser())
        with cancellation.scope():
            reached.append("before the wait")
            await anyio.sleep(0)
            reached.append("after the wait")
        assert reached == ["before the wait"]

    anyio.run(main)


def test_scopes_nest_and_all_are_left() -> None:
    async def main() -> None:
        cancellation, left = Cancellation(), []
        with cancellation.scope():
            with cancellation.scope():
                cancellation.cancel(CancelledByUser())
                await anyio.sleep(0)
                left.append("never")
            await anyio.sleep(0)
            left.append("never")
        assert left == []
        await anyio.sleep(0)

    anyio.run(main)


def test_cancellations_of_two_turns_do_not_touch_each_other() -> None:
    async def main() -> None:
        outer, inner = Cancellation(), Cancellation()
        with outer.scope():
            with inner.scope():
                inner.cancel(CancelledByUser())
                await anyio.sleep_forever()
            await anyio.sleep(0)
            assert outer.cause is None
            with inner.scope():
                outer.cancel(CancelledByDisposal())
                await anyio.sleep_forever()
        assert (inner.cause, outer.cause) == (CancelledByUser(), CancelledByDisposal())

    anyio.run(main)


def test_a_swallowed_cancel_is_remembered() -> None:
    async def main() -> None:
        cancellation = Cancellation()

        async def stubborn() -> str:
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                return "went on"
            return "not reached"

        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
            asyncio.get_running_loop().call_later(0.01, cancellation.cancel, CancelledByUser())
            with cancellation.scope():
                assert await stubborn() == "went on"
        assert cancellation.cause == CancelledByUser()
        with pytest.raises(Cancelled):
            cancellation.check()

    anyio.run(main)


@pytest.mark.parametrize("ours_too", [False, True])
def test_a_cancel_of_the_task_by_somebody_else_passes_through(ours_too: bool) -> None:
    async def main() -> None:
        cancellation, after = Cancellation(), []

        async def turn() -> None:
            with cancellation.scope():
                await anyio.sleep_forever()
            after.append("went on")
            await anyio.sleep(0)
            after.append("and waited")

        task = asyncio.create_task(turn())
        await asyncio.sleep(0.01)
        task.cancel()
        if ours_too:
            cancellation.cancel(CancelledByUser())
        await asyncio.wait([task])
        assert task.cancelled()
        assert "and waited" not in after
        assert (cancellation.cause is not None) is ours_too
        assert not cancellation._scopes

    anyio.run(main)


def test_a_scope_inside_a_cancelled_scope_of_somebody_else_passes_that_on() -> None:
    async def main() -> None:
        cancellation = Cancellation()
        with anyio.move_on_after(0.01) as theirs, cancellation.scope() as ours:
            await anyio.sleep_forever()
        assert (theirs.cancelled_caught, ours.cancelled_caught, cancellation.cause) == (True, False, None)

    anyio.run(main)


def test_what_the_body_raises_passes_through_and_the_scope_is_forgotten() -> None:
    async def main() -> None:
        cancellation = Cancellation()
        for cancelled in (False, True):
            if cancelled:
                cancellation.cancel(CancelledByUser())
            with pytest.raises(ZeroDivisionError), cancellation.scope():
                raise ZeroDivisionError
            assert not cancellation._scopes

    anyio.run(main)


def test_a_body_that_ends_before_the_cancel_is_not_cancelled() -> None:
    async def main() -> Any:
        cancellation = Cancellation()
        with cancellation.scope() as scope:
            await anyio.sleep(0)
        cancellation.cancel(CancelledByUser())
        await anyio.sleep(0)
        return scope.cancel_called

    assert anyio.run(main) is False
