"""Approval: which calls run, who is asked what, and what the log says about it (dsh-v0 §9.7, BC-068, BC-070)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.running import Rig
from turnlog.bus import Next, Outcome, stop
from turnlog.events import ApprovalAsked, ApprovalDecided, ApprovalPolicy, CancelledByUser
from turnlog.tools import (
    Action,
    Answer,
    ApprovalRequest,
    Approvals,
    ApprovalSettings,
    Deny,
    Policy,
    PreExecute,
    Question,
    Rule,
    RuleError,
    Subjects,
    ToolContext,
    Verdict,
    approval_settings,
    tool,
)
from turnlog.tools.builtin.shell import subjects
from turnlog.tools.rules import decide

RAN: list[str] = []


def _command(proposal: Any) -> str:
    return str(proposal.arguments["command"])


@tool(
    name="bash",
    policy=Policy(default="ask", subjects=lambda proposal: subjects(_command(proposal)), question=_command),
)
async def bash(command: str) -> str:
    """Pretend to run a command."""
    RAN.append(command)
    return f"ran {command}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def answering(
    *answers: Answer | None,
) -> tuple[list[Question], Callable[[Question], Awaitable[Answer | None]]]:
    asked: list[Question] = []
    left = list(answers)

    async def answer(question: Question) -> Answer | None:
        asked.append(question)
        return left.pop(0)

    return asked, answer


def outcomes(rig: Rig) -> list[str]:
    asked: Any = rig.logged(ApprovalAsked)
    decided: Any = rig.logged(ApprovalDecided)
    assert [one["id"] for one in asked] == [one["id"] for one in decided]
    return [one["outcome"] for one in decided]


# -- questions --------------------------------------------------------------------------------------------------------


def test_an_allowed_question_runs_the_call_and_is_logged() -> None:
    async def main() -> None:
        asked, answer = answering("allow")
        rig = Rig(bash, approvals=Approvals(answerer=answer))
        call = rig.call("bash", command="git push  # now")
        assert (await rig.through(call)).text == "ran git push  # now"
        [question] = asked
        assert (question.tool, question.call, question.text) == ("bash", call, "git push  # now")
        assert rig.logged(ApprovalAsked) == [{"id": question.id, "toolName": "bash", "callId": call.call_id}]
        assert rig.logged(ApprovalDecided) == [{"id": question.id, "outcome": "allowed-once"}]

    run(main())


@pytest.mark.parametrize(
    ("given", "outcome", "said"),
    [
        ("deny", "rejected", "the user rejected"),
        (None, "unavailable", "nobody can be asked"),
        ("yes please", "unavailable", "nobody can be asked"),
        (True, "unavailable", "nobody can be asked"),
    ],
)
def test_every_other_answer_denies_with_its_own_text(given: Any, outcome: str, said: str) -> None:
    async def main() -> None:
        _, answer = answering(given)
        rig = Rig(bash, approvals=Approvals(answerer=answer))
        result = await rig.run("bash", command="x")
        assert result.is_error
        assert said in result.text
        assert outcomes(rig) == [outcome]
        assert RAN == []

    run(main())


def test_without_an_answerer_or_with_a_failing_one_nothing_runs() -> None:
    async def fails(question: Question) -> Answer:
        raise OSError("the terminal is gone")

    async def main() -> None:
        for approvals in (None, Approvals(), Approvals(answerer=fails)):
            rig = Rig(bash, approvals=approvals)
            assert "nobody can be asked" in (await rig.run("bash", command="x")).text
            assert outcomes(rig) == ["unavailable"]
        assert RAN == []

    run(main())


def test_parallel_questions_have_their_own_ids_and_answers() -> None:
    """BC-068."""
    waiting: dict[str, asyncio.Future[Answer]] = {}

    async def answer(question: Question) -> Answer:
        waiting[question.text] = asyncio.get_running_loop().create_future()
        return await waiting[question.text]

    async def main() -> None:
        rig = Rig(bash, approvals=Approvals(answerer=answer))
        both = [asyncio.create_task(rig.run("bash", command=name)) for name in "ab"]
        while len(waiting) < 2:
            await asyncio.sleep(0)
        waiting["b"].set_result("deny")
        await asyncio.sleep(0.01)
        waiting["a"].set_result("allow")
        first, second = [await one for one in both]
        assert (first.text, second.is_error) == ("ran a", True)
        asked: Any = rig.logged(ApprovalAsked)
        decided: Any = rig.logged(ApprovalDecided)
        assert len({one["id"] for one in asked}) == 2
        assert [one["id"] for one in decided] == [asked[1]["id"], asked[0]["id"]]

    run(main())


def test_a_cancel_withdraws_the_question_and_a_late_answer_is_dropped() -> None:
    late: list[str] = []

    async def deaf(question: Question) -> Answer:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            late.append("answered")
        return "allow"

    async def main() -> None:
        rig = Rig(bash, approvals=Approvals(answerer=deaf))
        asyncio.get_running_loop().call_later(0.02, rig.cancellation.cancel, CancelledByUser())
        result = await rig.run("bash", command="x")
        assert result.error is not None
        assert result.error.code == "ABORTED_BEFORE_DISPATCH"
        assert outcomes(rig) == ["cancelled"]
        assert late == []
        await asyncio.sleep(0.1)
        assert late == ["answered"]
        assert outcomes(rig) == ["cancelled"]
        assert RAN == []

    run(main())


def test_cancelling_the_callers_task_closes_the_question() -> None:
    async def never(question: Question) -> Answer:
        await asyncio.sleep(60)
        return "allow"

    async def main() -> None:
        rig = Rig(bash, approvals=Approvals(answerer=never))
        task = asyncio.create_task(rig.run("bash", command="x"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert outcomes(rig) == ["cancelled"]

    run(main())


def test_a_hook_may_answer_in_place_of_the_answerer() -> None:
    async def hook(event: ApprovalRequest, next: Next[ApprovalRequest, Answer | None]) -> Outcome[Answer | None]:
        return stop("allow", reason="in a test") if event.question.text == "a" else await next()

    async def main() -> None:
        rig = Rig(bash)
        rig.bus.on(ApprovalRequest, hook, deadline=None)
        assert (await rig.run("bash", command="a")).text == "ran a"
        assert (await rig.run("bash", command="b")).is_error
        assert outcomes(rig) == ["allowed-once", "unavailable"]

    run(main())


def test_subscribers_that_fail_do_not_break_the_pair() -> None:
    async def main() -> None:
        _, answer = answering("allow")
        rig = Rig(bash, approvals=Approvals(answerer=answer))

        def fails(event: object) -> None:
            raise RuntimeError

        rig.session.subscribe(fails)
        await rig.run("bash", command="x")
        assert outcomes(rig) == ["allowed-once"]

    run(main())


def test_always_holds_for_exactly_this_call_in_this_session() -> None:
    async def main() -> None:
        asked, answer = answering("allow-always", "deny", "deny")
        rig = Rig(bash, approvals=Approvals(answerer=answer))
        command = "rm -rf build/* && echo $(date)"
        assert not (await rig.run("bash", command=command)).is_error
        assert not (await rig.run("bash", command=command)).is_error
        assert (await rig.run("bash", command="rm -rf build/x && echo $(date)")).is_error
        assert (await rig.run("bash", command=f"{command}; true")).is_error
        assert len(asked) == 3
        assert asked[0].always == f"bash:{command}"

    run(main())


def test_nobody_is_asked_about_a_call_that_cannot_run() -> None:
    async def main() -> None:
        asked, answer = answering()
        rig = Rig(bash, approvals=Approvals(answerer=answer))
        for raw in ('{"command": "ls", "command": "touch x"}', '{"command": "l', '{"comand": "ls"}', "[]"):
            result = await rig.run("bash", raw)
            assert result.error is not None
            assert result.error.code == "INVALID_ARGS"
        assert asked == []
        assert rig.logged(ApprovalAsked) == []

    run(main())


def test_a_tool_may_ask_in_the_middle() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        """Deploy."""
        return "deployed" if await ctx.ask("Deploy to production?") else "stopped"

    async def main() -> None:
        asked, answer = answering("allow", "deny")
        rig = Rig(deploy, approvals=Approvals(answerer=answer))
        assert [(await rig.run("deploy")).text for _ in range(2)] == ["deployed", "stopped"]
        assert [one.text for one in asked] == ["Deploy to production?"] * 2
        assert outcomes(rig) == ["allowed-once", "rejected"]

    run(main())


def test_the_deadline_of_a_tool_waits_while_a_person_thinks() -> None:
    @tool(timeout=0.1)
    async def deploy(ctx: ToolContext) -> str:
        """Deploy."""
        allowed = await ctx.ask("Deploy?")
        await asyncio.sleep(0 if allowed else 60)
        return "deployed"

    async def slowly(question: Question) -> Answer:
        await asyncio.sleep(0.2)
        return "allow" if not told else "deny"

    told: list[str] = []

    async def main() -> None:
        rig = Rig(deploy, approvals=Approvals(answerer=slowly))
        assert (await rig.run("deploy")).text == "deployed"
        told.append("once")
        result = await rig.run("deploy")
        assert result.error is not None
        assert result.error.code == "TOOL_TIMEOUT"

    run(main())


# -- policy -----------------------------------------------------------------------------------------------------------


def test_deny_rejects_without_asking_and_is_dshs_never() -> None:
    async def main() -> None:
        asked, answer = answering()
        rig = Rig(bash, approvals=Approvals(answerer=answer, policy="deny"))
        for _ in range(2):
            assert "policy is to deny" in (await rig.run("bash", command="x")).text
        assert asked == []
        assert rig.logged(ApprovalPolicy) == [{"policy": "never"}]
        assert outcomes(rig) == ["rejected", "rejected"]

    run(main())


def test_allow_runs_without_a_word_in_the_log_but_rules_still_deny() -> None:
    async def main() -> None:
        rig = Rig(bash, approvals=Approvals([Rule.parse("bash:rm *", "deny")], policy="allow"))
        assert (await rig.run("bash", command="x")).text == "ran x"
        assert (await rig.run("bash", command="x; rm -rf /")).is_error
        assert (await rig.run("bash", command="echo $(rm -rf /)")).is_error
        for kind in (ApprovalAsked, ApprovalDecided, ApprovalPolicy):
            assert rig.logged(kind) == []
        assert RAN == ["x"]

    run(main())


def test_the_policy_is_logged_only_when_it_differs_from_the_last() -> None:
    async def main() -> None:
        approvals = Approvals(policy="deny")
        rig = Rig(bash, approvals=approvals)
        await rig.run("bash", command="x")
        approvals.policy = "ask"
        await rig.run("bash", command="x")
        again = Approvals(policy="ask")
        again.announce(rig.session)
        Approvals(policy="deny").announce(rig.session)
        Approvals(policy="deny").announce(rig.session)
        assert rig.logged(ApprovalPolicy) == [{"policy": "never"}, {"policy": "ask"}, {"policy": "never"}]

    run(main())


def test_a_hooks_denial_beats_every_rule() -> None:
    async def hook(event: PreExecute, next: Next[PreExecute, Verdict]) -> Outcome[Verdict]:
        return stop(Deny("frozen"), reason="freeze")

    async def main() -> None:
        rig = Rig(bash, approvals=Approvals([Rule.parse("bash:*", "allow")], policy="allow"))
        rig.bus.on(PreExecute, hook)
        assert (await rig.run("bash", command="x")).text == "Error: frozen"

    run(main())


# -- rules ------------------------------------------------------------------------------------------------------------

RULES = [
    Rule.parse(text, action)
    for text, action in {
        "*": "ask",
        "bash": "ask",
        "bash:git *": "allow",
        "bash:git push*": "ask",
        "bash:git push --force*": "deny",
        "bash:ls": "allow",
        "bash:ls *": "allow",
        "bash:rm *": "deny",
        "bash:rm -r build": "allow",
    }.items()
]


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("git status", "allow"),
        ("git push origin", "ask"),
        ("git push --force origin", "deny"),
        ("ls", "allow"),
        ("ls -l | ls && git log; ls\nls", "allow"),
        ("ls -l | wc", "ask"),
        ("ls; rm -r x", "deny"),
        ("rm -r build", "allow"),
        ("rm -r build x", "deny"),
        ("make", "ask"),
        ('git commit -m "a; rm -rf b"', "allow"),
        ("git log 2>&1 >/dev/null", "allow"),
        ("git log > file", "ask"),
        ("git log >/dev/nullx", "ask"),
        ("git log >/dev/null/../x", "ask"),
        ("git log >&1x", "ask"),
        ("git log &> x", "ask"),
        ("git log # ; curl", "ask"),
        ("git $(rm -rf x)", "deny"),
        ("git `curl x`", "ask"),
        ('git "$(curl x)"', "ask"),
        ("git log &", "allow"),
        ("git log & curl x", "ask"),
        ("git log <(curl x)", "ask"),
        ("git 'unclosed", "ask"),
        ("git \\\n log", "ask"),
        ("(rm -rf x)", "deny"),
        ("for x in a; do rm -rf $x; done", "deny"),
        ("X=1 rm -rf x", "deny"),
        ("git ${X@P}", "ask"),
        ("if ls; then ls; fi", "ask"),
    ],
)
def test_a_command_is_judged_part_by_part(command: str, action: Action) -> None:
    decision = decide(RULES, "bash", subjects(command))
    assert (decision.action if decision else None) == action


def test_of_equally_specific_rules_the_stricter_holds() -> None:
    for stricter, looser in (("deny", "ask"), ("ask", "allow"), ("deny", "allow")):
        rules = [Rule.parse("bash:a*", stricter), Rule.parse("bash:a*", looser)]
        for order in (rules, rules[::-1]):
            decision = decide(order, "bash", Subjects(("ab",), "ab"))
            assert decision is not None
            assert decision.action == stricter


def test_rules_for_one_tool_say_nothing_of_another() -> None:
    assert decide([Rule.parse("bash:*", "allow")], "read", Subjects(("x",), "x")) is None


@given(st.text("ab ;|&$()`'\"\\\n<>{}=", max_size=20))
def test_no_command_line_breaks_the_splitter_and_none_is_allowed_in_part(command: str) -> None:
    seen = subjects(command)
    decision = decide([Rule.parse("bash:a*", "allow")], "bash", seen)
    if decision is not None:
        assert all(part.startswith("a") for part in seen.parts)
        assert seen.exact


@pytest.mark.parametrize("text", ["", ":x", "bash:", "*:x"])
def test_a_rule_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        Rule.parse(text, "allow")


# -- settings ---------------------------------------------------------------------------------------------------------


def test_settings_come_from_a_file_and_flags_add_to_it(tmp_path: Path) -> None:
    path = tmp_path / "turnlog.toml"
    path.write_text(
        '[approval]\npolicy = "deny"\n[approval.rules]\nbash = "ask"\n"bash:git *" = "allow"\n[model]\nx = 1\n'
    )
    settings = approval_settings(path)
    assert settings == ApprovalSettings((Rule("bash", "ask"), Rule("bash", "allow", "git *")), "deny")
    flagged = settings.with_flags(deny=["bash"], allow=["read:/etc/*"], policy="ask")
    assert flagged.rules == (
        Rule("bash", "allow", "git *"),
        Rule("read", "allow", "/etc/*"),
        Rule("bash", "deny"),
    )
    assert flagged.policy == "ask"
    assert approval_settings(tmp_path / "none.toml") == ApprovalSettings()


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"approval": {"rule": {}, "police": 1}}, "no key 'police', 'rule'"),
        ({"approval": {"policy": "maybe"}}, "approval.policy is 'maybe'"),
        ({"approval": {"rules": {"bash": "yes"}}}, "'yes' is none of"),
        ({"approval": {"rules": {"bash:": "allow"}}}, "rule 'bash:'"),
        ({"approval": {"rules": []}}, r"\[approval.rules\]"),
        ({"approval": 1}, r"\[approval\]"),
    ],
)
def test_mistakes_in_settings_are_named(tables: dict[str, object], said: str) -> None:
    with pytest.raises(RuleError, match=said):
        approval_settings(tables)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "turnlog.toml"
    path.write_text("approval =")
    with pytest.raises(RuleError, match=r"turnlog\.toml: not valid TOML"):
        approval_settings(path)


def test_question_rule_and_tool_see_the_same_command() -> None:
    """BC-070: an escape in the raw text is one command for all three."""
    seen: list[str] = []

    async def answer(question: Question) -> Answer:
        seen.append(question.text)
        return "allow"

    async def main() -> None:
        rig = Rig(bash, approvals=Approvals([Rule.parse("bash:rm *", "deny")], answer))
        raw = json.dumps({"command": "touch x"}).replace("touch", "\\u0074ouch")
        assert not (await rig.run("bash", raw)).is_error
        assert seen == RAN == ["touch x"]
        assert (await rig.run("bash", '{"command": "\\u0072m -rf /"}')).is_error

    run(main())
