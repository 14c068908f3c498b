"""The way of a call: what each stage decides, and that no call is left without a result."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.tools.running import Rig
from turnlog.bus import Cancellation, Next, Outcome, stop
from turnlog.events import CancelledByUser, TextBlock, UserMessage
from turnlog.tools import (
    Accept,
    Allow,
    Ask,
    Call,
    Deny,
    Execute,
    Finished,
    PostExecute,
    PreExecute,
    Progress,
    Reject,
    Result,
    Review,
    ToolContext,
    ToolFailure,
    ToolOutput,
    Verdict,
    tool,
)


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def shout(text: str) -> str:
    """Say it louder, from a thread."""
    return text.upper()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def code(result: Result) -> str | None:
    return None if result.error is None else result.error.code


# -- plain calls ------------------------------------------------------------------------------------------------------


def test_sync_and_async_tools_give_their_text() -> None:
    async def main() -> None:
        rig = Rig(echo, shout)
        assert await rig.run("echo", text="a") == Result((TextBlock("a"),))
        assert (await rig.run("shout", text="a")).text == "A"

    run(main())


def test_a_call_that_fails_says_what_failed_and_has_no_code() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise ToolFailure("the oven is cold", meta={"oven": 1})

    @tool
    async def crash() -> str:
        """Crash."""
        raise KeyError("x")

    async def main() -> None:
        rig = Rig(fail, crash)
        failed = await rig.run("fail")
        assert (failed.text, failed.is_error, failed.error, failed.meta) == (
            "Error: the oven is cold",
            True,
            None,
            {"oven": 1},
        )
        assert (await rig.run("crash")).text == "Error: KeyError: 'x'"

    run(main())


def test_what_failed_in_a_group_of_tasks_is_said() -> None:
    @tool
    async def one() -> str:
        """Fail."""
        raise ExceptionGroup("tasks", [ExceptionGroup("more", [ToolFailure("the oven is cold")])])

    @tool
    async def two() -> str:
        """Fail."""
        raise ExceptionGroup("tasks", [ToolFailure("cold"), ValueError("hot")])

    async def main() -> None:
        rig = Rig(one, two)
        assert (await rig.run("one")).text == "Error: the oven is cold"
        assert (await rig.run("two")).text == "Error: cold; ValueError: hot"

    run(main())


def test_an_unknown_tool_still_passes_policy() -> None:
    seen: list[str] = []

    async def watch(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        seen.append(event.call.name)
        return await next()

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PreExecute, watch)
        result = await rig.run("ecko", text="a")
        assert code(result) == "UNKNOWN_TOOL"
        assert "echo" in result.text
        assert seen == ["ecko"]

    run(main())


def test_hostile_exceptions_are_contained() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    @tool
    async def hostile() -> str:
        """Raise."""
        raise Hostile

    @tool
    def leave() -> str:
        """Exit."""
        raise SystemExit(3)

    @tool
    async def leave_async() -> str:
        """Exit."""
        raise SystemExit(3)

    @tool
    async def cancels_itself() -> str:
        """Cancel."""
        raise asyncio.CancelledError

    @tool
    def stops() -> str:
        """Raise what no future takes."""
        raise StopIteration

    async def main() -> None:
        rig = Rig(hostile, leave, leave_async, cancels_itself, stops)
        for name in ("hostile", "leave", "leave_async", "cancels_itself", "stops"):
            assert (await rig.run(name)).is_error

    run(main())


# -- hooks ------------------------------------------------------------------------------------------------------------


def test_a_denial_is_the_result_and_passes_review() -> None:
    reviewed: list[Result] = []

    async def no(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        return stop(Deny("not on Sundays"), reason="Sunday")

    async def review(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        reviewed.append(event.result)
        return await next()

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PreExecute, no)
        rig.bus.on(PostExecute, review)
        result = await rig.run("echo", text="a")
        assert (result.text, result.is_error, result.error) == ("Error: not on Sundays", True, None)
        assert reviewed == [result]

    run(main())


def test_a_hook_that_asks_without_anyone_to_answer_denies() -> None:
    async def ask(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        return stop(Ask("it is late"), reason="late")

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PreExecute, ask)
        result = await rig.run("echo", text="a")
        assert result.is_error
        assert "it is late" in result.text

    run(main())


class Misuse:
    """BC-071: the ways a hook goes wrong, each with a defined outcome that names it."""

    @staticmethod
    async def forgets(event: Any, next: Any) -> Any:
        return None

    @staticmethod
    async def twice(event: Any, next: Any) -> Any:
        await next()
        return await next()

    @staticmethod
    async def drops(event: Any, next: Any) -> Any:
        await next()

    @staticmethod
    async def raises(event: Any, next: Any) -> Any:
        raise RuntimeError("the policy server is down")

    @staticmethod
    async def raises_after(event: Any, next: Any) -> Any:
        await next()
        raise RuntimeError("the policy server is down")

    @staticmethod
    async def gives_nonsense(event: Any, next: Any) -> Any:
        return stop("yes", reason="nonsense")


@pytest.mark.parametrize("event", [PreExecute, Execute, PostExecute])
@pytest.mark.parametrize("name", ["forgets", "twice", "drops", "raises", "raises_after", "gives_nonsense"])
def test_a_hook_that_breaks_the_contract_gives_an_error_result_that_names_it(event: Any, name: str) -> None:
    ran: list[str] = []

    @tool
    async def body() -> str:
        """Run."""
        ran.append("ran")
        return "fine"

    async def main() -> None:
        rig = Rig(body)
        rig.bus.on(event, getattr(Misuse, name))
        result = await rig.run("body")
        assert result.is_error
        assert len(ran) <= 1
        if event is PreExecute:
            assert not ran
        if name == "gives_nonsense":
            assert code(result) in ("HOOK_CONTRACT", "INVALID_TOOL_OUTPUT")
            return
        assert code(result) == ("HOOK_FAILED" if "raises" in name else "HOOK_CONTRACT")
        assert f"Misuse.{name}" in result.text
        assert "test_pipeline.py:" in result.text

    run(main())


def test_a_hook_past_its_deadline_gives_an_error_result() -> None:
    async def slow(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        await asyncio.sleep(60)
        return await next()

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PreExecute, slow, deadline=0.02)
        result = await rig.run("echo", text="a")
        assert code(result) == "HOOK_TIMEOUT"
        assert "slow" in result.text

    run(main())


def test_a_hook_failure_is_final_and_passes_by_the_review() -> None:
    reviewed: list[Result] = []

    async def review(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        reviewed.append(event.result)
        return await next()

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PreExecute, Misuse.raises)
        rig.bus.on(PostExecute, review)
        assert (await rig.run("echo", text="a")).is_error
        assert reviewed == []

    run(main())


def test_a_body_does_not_go_on_behind_a_wrapper_that_left_it() -> None:
    ended: list[str] = []

    @tool
    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("stopped")
        return "x"

    async def leaves(event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        left.append(asyncio.ensure_future(next()))
        await asyncio.sleep(0.02)
        return stop(Result(()), reason="enough")

    left: list[asyncio.Future[Outcome[Result]]] = []

    async def main() -> None:
        rig = Rig(slow)
        rig.bus.on(Execute, leaves)
        assert code(await rig.run("slow")) == "HOOK_CONTRACT"
        assert ended == ["stopped"]
        await asyncio.wait(left)
        _ = left[0].cancelled() or left[0].exception()

    run(main())


def test_a_hook_cannot_run_another_call_than_the_logged_one() -> None:
    async def swap(event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        other = Call(1, 1, event.call.call_id, "echo", '{"text": "other"}')
        return await next(Execute(other, {"text": "other"}, event.cancellation))

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(Execute, swap)
        assert code(await rig.run("echo", text="a")) == "HOOK_CONTRACT"

    run(main())


def test_arguments_cannot_be_changed_by_a_hook() -> None:
    async def change(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        event.arguments["text"] = "other"  # type: ignore[index]
        return await next()

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PreExecute, change)
        assert "TypeError" in (await rig.run("echo", text="a")).text

    run(main())


def test_a_wrapper_may_answer_in_place_of_the_body_and_is_checked() -> None:
    async def answer(event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        return stop(Result((TextBlock("cached \ud83d"),)), reason="cached")

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(Execute, answer)
        result = await rig.run("echo", text="a")
        assert result.text == "cached \ufffd"
        assert result.meta == {"loneSurrogatesReplaced": 1}

    run(main())


def test_another_cancellation_is_added_to_the_turns_own() -> None:
    async def limit(event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        own = Cancellation()
        own.cancel(CancelledByUser())
        return await next(Execute(event.call, event.arguments, own))

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(Execute, limit)
        assert code(await rig.run("echo", text="a")) == "ABORTED_BEFORE_DISPATCH"
        assert rig.cancellation.cause is None

    run(main())


def test_review_replaces_content_keeps_contexts_and_rejects() -> None:
    note = UserMessage.of("mind the gap")

    async def redact(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        if event.result.text == "secret":
            return stop(Accept(content=(TextBlock("***"),), contexts=(note,)), reason="redacted")
        if event.result.text == "bad":
            return stop(Reject("do not say that"), reason="rude")
        return await next()

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PostExecute, redact)
        assert await rig.run("echo", text="secret") == Result((TextBlock("***"),), contexts=(note,))
        assert await rig.run("echo", text="bad") == Result((TextBlock("do not say that"),), is_error=True)
        assert (await rig.run("echo", text="fine")).text == "fine"

    run(main())


def test_review_replaces_a_value_only_where_there_is_one() -> None:
    @tool
    async def table() -> dict[str, int]:
        """Give a table."""
        return {"a": 1}

    async def change(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        return stop(Accept(value={"a": 2}), reason="changed")

    async def both(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        return stop(Accept(value=1, content=()), reason="both")

    async def main() -> None:
        rig = Rig(table)
        registration = rig.bus.on(PostExecute, change)
        assert (await rig.run("table")).text == '{"a": 2}'
        assert code(await rig.run("nothing")) == "HOOK_CONTRACT"
        registration.close()
        rig.bus.on(PostExecute, both)
        assert code(await rig.run("table")) == "HOOK_CONTRACT"

    run(main())


def test_every_call_is_told_once_and_progress_is_live() -> None:
    told: list[object] = []

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        await ctx.progress("half")
        await asyncio.sleep(0)
        return "done"

    @tool
    def work_in_thread(ctx: ToolContext) -> str:
        """Work."""
        ctx.progress("half")
        return "done"

    async def main() -> None:
        rig = Rig(work, work_in_thread)
        rig.bus.on(Finished, lambda event: told.append(event.result.text))
        rig.bus.on(Progress, lambda event: told.append(event.text))
        await rig.run("work")
        await rig.run("work_in_thread")
        assert told == ["half", "done", "half", "done"]

    run(main())


# -- cancelling -------------------------------------------------------------------------------------------------------


def cancel_soon(rig: Rig, after: float = 0.02) -> None:
    asyncio.get_running_loop().call_later(after, rig.cancellation.cancel, CancelledByUser())


def test_a_cancelled_body_is_aborted_and_its_notes_are_kept() -> None:
    @tool
    async def slow(ctx: ToolContext) -> str:
        """Take long."""
        ctx.note("two of three files were written")
        await asyncio.sleep(60)
        return "done"

    async def main() -> None:
        rig = Rig(slow)
        cancel_soon(rig)
        result = await rig.run("slow")
        assert code(result) == "ABORTED"
        assert "two of three" in result.text

    run(main())


def test_a_tool_that_swallows_the_cancel_does_not_turn_it_into_success() -> None:
    """BC-029, 1."""

    @tool
    async def stubborn(ctx: ToolContext) -> str:
        """Swallow."""
        ctx.defer(UserMessage.of("kept"))
        try:
            await asyncio.sleep(60)
        except BaseException:
            return "fine"
        return "never"

    async def main() -> None:
        rig = Rig(stubborn)
        cancel_soon(rig)
        result = await rig.run("stubborn")
        assert code(result) == "ABORTED"
        assert "fine" not in result.text
        assert [one.content for one in result.contexts] == [(TextBlock("kept"),)]

    run(main())


def test_a_tool_that_ignores_its_deadline_is_abandoned_reported_and_its_late_value_noted() -> None:
    """BC-029, 2."""
    late: list[tuple[str, str]] = []

    @tool(timeout=0.02)
    async def deaf(ctx: ToolContext) -> str:
        """Ignore."""
        end = time.monotonic() + 0.3
        while (left := end - time.monotonic()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                pass
        return "late"

    async def main() -> None:
        rig = Rig(deaf, grace=0.05, late=lambda call, result: late.append((call.call_id, result.text)))
        began = time.monotonic()
        result = await rig.run("deaf")
        assert time.monotonic() - began < 0.25
        assert code(result) == "TOOL_TIMEOUT"
        assert "left running" in result.text
        assert [one.call.name for one in rig.pipeline.stuck] == ["deaf"]
        await asyncio.sleep(0.4)
        assert late == [("call_1", "late")]
        assert rig.pipeline.stuck == ()

    run(main())


def test_a_stuck_thread_is_abandoned_too() -> None:
    release = threading.Event()
    late: list[str] = []

    @tool(timeout=0.02)
    def stuck() -> str:
        """Hang."""
        release.wait(10)
        return "late"

    async def main() -> None:
        rig = Rig(stuck, grace=0.02, late=lambda _call, result: late.append(result.text))
        assert code(await rig.run("stuck")) == "TOOL_TIMEOUT"
        release.set()
        while rig.pipeline.stuck:
            await asyncio.sleep(0.01)
        assert late == ["late"]

    run(main())


def test_a_thread_can_see_that_it_should_stop() -> None:
    @tool
    def polite(ctx: ToolContext) -> str:
        """Stop when told."""
        while not ctx.cancelled:
            time.sleep(0.005)
        return "stopped"

    async def main() -> None:
        rig = Rig(polite)
        cancel_soon(rig)
        assert code(await rig.run("polite")) == "ABORTED"
        assert rig.pipeline.stuck == ()

    run(main())


def test_an_error_that_settles_after_the_cancel_is_kept() -> None:
    @tool
    async def fails_late() -> str:
        """Fail while stopping."""
        try:
            await asyncio.sleep(60)
        finally:
            raise ToolFailure("the disk is full")

    async def main() -> None:
        rig = Rig(fails_late)
        cancel_soon(rig)
        result = await rig.run("fails_late")
        assert (result.text, result.error) == ("Error: the disk is full", None)

    run(main())


def test_a_call_that_was_cancelled_before_runs_no_stage_unless_its_arguments_are_broken() -> None:
    seen: list[str] = []

    async def watch(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        seen.append("pre")
        return await next()

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(PreExecute, watch)
        rig.cancellation.cancel(CancelledByUser())
        assert code(await rig.run("echo", text="a")) == "ABORTED_BEFORE_DISPATCH"
        assert code(await rig.run("echo", '{"text": "a')) == "INVALID_ARGS"
        assert seen == []

    run(main())


def test_a_cancel_while_a_hook_waits_keeps_the_call_from_starting() -> None:
    """BC-071 d."""
    ran: list[str] = []

    @tool
    async def body() -> str:
        """Run."""
        ran.append("ran")
        return "x"

    async def slow(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        await asyncio.sleep(60)
        return await next()

    async def swallows(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
        return stop(Allow(), reason="whatever")

    async def main() -> None:
        for hook in (slow, swallows):
            rig = Rig(body)
            rig.bus.on(PreExecute, hook)
            cancel_soon(rig)
            assert code(await rig.run("body")) == "ABORTED_BEFORE_DISPATCH"
        assert ran == []

    run(main())


def test_a_wrapper_that_is_cut_off_leaves_the_bodys_error_or_aborted() -> None:
    async def dawdles(event: Execute, next: Next[Execute, Result]) -> Outcome[Result]:
        outcome = await next()
        await asyncio.sleep(60)
        return outcome

    async def main() -> None:
        rig = Rig(echo)
        rig.bus.on(Execute, dawdles)
        cancel_soon(rig)
        assert code(await rig.run("echo", text="a")) == "ABORTED"

    run(main())


def test_a_review_hook_that_hangs_does_not_hold_up_a_cancelled_turn() -> None:
    async def hangs(event: PostExecute, next: Next[PostExecute, Review]) -> Outcome[Review]:
        await asyncio.sleep(60)
        return await next()

    async def main() -> None:
        rig = Rig(echo, grace=0.05)
        rig.bus.on(PostExecute, hangs)
        cancel_soon(rig)
        assert code(await rig.run("echo", text="a")) == "ABORTED"
        assert code(await rig.run("echo", text="a")) == "ABORTED_BEFORE_DISPATCH"

    run(main())


def test_cancelling_the_callers_task_stops_the_body_and_passes_through() -> None:
    ended: list[str] = []

    @tool
    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            ended.append("cleaned up")
        return "x"

    async def main() -> None:
        rig = Rig(slow)
        task = asyncio.create_task(rig.run("slow"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["cleaned up"]

    run(main())


def test_the_turn_can_be_cancelled_at_every_await_of_a_call() -> None:
    """Cancelled after n steps of the loop, for every n: always one result and no stray task."""

    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        for _ in range(3):
            await asyncio.sleep(0)
        return "done"

    async def waits(event: Any, next: Any) -> Any:
        await asyncio.sleep(0)
        outcome = await next()
        await asyncio.sleep(0)
        return outcome

    async def once(after: int) -> str | None:
        rig = Rig(work)
        told: list[Result] = []
        for event in (PreExecute, Execute, PostExecute):
            rig.bus.on(event, waits)
        rig.bus.on(Finished, lambda event: told.append(event.result))
        task = asyncio.create_task(rig.run("work"))
        for _ in range(after):
            await asyncio.sleep(0)
        rig.cancellation.cancel(CancelledByUser())
        result = await task
        assert told == [result]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return code(result)

    async def main() -> None:
        codes = [await once(after) for after in range(60)]
        assert codes[0] == "ABORTED_BEFORE_DISPATCH"
        assert "ABORTED" in codes
        assert codes[-1] is None

    run(main())
    gc.collect()


# -- output -----------------------------------------------------------------------------------------------------------


def test_what_a_tool_returns_becomes_content() -> None:
    @tool
    async def give(what: str) -> Any:
        """Give."""
        return {
            "none": None,
            "list": [1, "é", 2512292042121000001],
            "blocks": (TextBlock("a"), TextBlock("b")),
            "output": ToolOutput("x", meta={"n": 1}, concludes_turn=True),
            "nan": float("nan"),
            "bytes": b"\xff",
            "object": object(),
            "bad meta": ToolOutput("x", meta=float("nan")),
            "big meta": ToolOutput("x", meta=2**60),
            "surrogate": "a\ud800b",
        }[what]

    async def main() -> None:
        rig = Rig(give)
        assert (await rig.run("give", what="none")).text == ""
        assert (await rig.run("give", what="list")).text == '[1, "é", 2512292042121000001]'
        assert (await rig.run("give", what="blocks")).text == "a\nb"
        output = await rig.run("give", what="output")
        assert (output.text, output.meta, output.concludes_turn) == ("x", {"n": 1}, True)
        for what in ("nan", "bytes", "object", "bad meta", "big meta"):
            assert code(await rig.run("give", what=what)) == "INVALID_TOOL_OUTPUT", what
        surrogate = await rig.run("give", what="surrogate")
        assert (surrogate.text, surrogate.meta) == ("a\ufffdb", {"loneSurrogatesReplaced": 1})

    run(main())


def test_a_tool_may_conclude_the_turn_and_defer_messages() -> None:
    @tool
    async def finish(ctx: ToolContext) -> str:
        """Finish."""
        ctx.conclude_turn()
        ctx.defer(UserMessage.of("later"))
        return "done"

    async def main() -> None:
        result = await Rig(finish).run("finish")
        assert result.concludes_turn
        assert len(result.contexts) == 1

    run(main())


def test_a_tool_that_was_taken_away_after_approval_does_not_run() -> None:
    async def main() -> None:
        rig = Rig(echo)
        prepared = await rig.pipeline.prepare(rig.call("echo", text="a"), rig.cancellation)
        rig.toolbox.remove("echo")
        result = await rig.pipeline.finish(await rig.pipeline.execute(prepared))
        assert code(result) == "UNKNOWN_TOOL"

    run(main())
