"""Approval: who decides whether a call may run, and the record of it (dsh-v0 §9.7).

A verdict comes from rules (`turnlog.tools.rules`), then from the tool itself. Where it is *ask*, a question with an id
of its own is logged (``approval/asked``), put to ``approval/request`` (default: the answerer), and closed by exactly
one ``approval/decided``. The session's policy answers questions before anybody is asked: ``deny`` rejects them (dsh's
policy ``never``), ``allow`` lets them pass without a word in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from turnlog.bus import Bus, Cancellation
from turnlog.bus import Outcome as Decided
from turnlog.events import ApprovalAsked, ApprovalDecided, ApprovalPolicy, Json
from turnlog.events.lossless import whole_text
from turnlog.events.value import new_id
from turnlog.log import Session

from .hooks import Answer, ApprovalRequest, Question
from .rules import ACTIONS, Action, Rule, RuleError, decide
from .tool import AnyTool, Proposal, Subjects
from .verdict import Allow, Ask, Deny, Verdict

logger: Final = logging.getLogger("turnlog")

Answerer: TypeAlias = Callable[[Question], Awaitable[Answer | None]]
Outcome: TypeAlias = Literal["allowed-once", "rejected", "cancelled", "unavailable"]


class Approvals:
    """Rules, the session's policy, and whoever answers. May serve several sessions that share rules."""

    def __init__(self, rules: Iterable[Rule] = (), answerer: Answerer | None = None, *, policy: Action = "ask") -> None:
        """*answerer* is asked in parallel when calls run in parallel; it is cancelled with the turn."""
        self._rules = list(rules)
        self._answerer = answerer
        self._recorded: dict[str, str | None] = {}  # session id → last approval/policy of its log
        self.policy = policy

    @property
    def policy(self) -> Action:
        """What happens to questions: ``ask`` somebody, ``deny`` or ``allow`` all."""
        return self._policy

    @policy.setter
    def policy(self, policy: Action) -> None:
        if policy not in ACTIONS:
            raise RuleError(f"policy is {policy!r}; it is one of {', '.join(ACTIONS)}")
        self._policy: Action = policy

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, with those that answers added."""
        return tuple(self._rules)

    def add(self, rule: Rule) -> None:
        """Let *rule* hold from now on."""
        self._rules.append(rule)

    def announce(self, session: Session) -> None:
        """Log the policy (``approval/policy``) if a reader would take it for another one."""
        if self._policy == "allow":
            return
        if session.id not in self._recorded:
            self._recorded[session.id] = _last_policy(session)
        policy = "never" if self._policy == "deny" else "ask"
        if (self._recorded[session.id] or "ask") != policy:
            session.append(ApprovalPolicy(value={"policy": policy}))
            self._recorded[session.id] = policy

    def verdict(self, tool: AnyTool, proposal: Proposal) -> Verdict:
        """What rules and tool say. A rule with a pattern overrules the tool's closer look, a rule without does not."""
        decision = decide(self._rules, tool.name, _subjects(tool, proposal))
        if decision is not None and decision.action == "deny":
            return Deny(f"the rule {decision.rule.text!r} denies it")
        if decision is not None and decision.action == "ask":
            return Ask(f"the rule {decision.rule.text!r} asks")
        if decision is not None and decision.rule.pattern is not None:
            return Allow()
        own = tool.policy.verdict(proposal) if tool.policy.verdict is not None else Allow()
        if isinstance(own, Allow) and decision is None and tool.policy.default == "ask":
            return Ask()
        return own

    async def ask(
        self,
        session: Session,
        bus: Bus,
        tool: AnyTool,
        proposal: Proposal,
        reason: str | None,
        cancellation: Cancellation,
        *,
        text: str | None = None,
    ) -> Verdict | None:
        """Put one question and log it with its outcome; None when a cancel withdrew it.

        Cancelling the caller withdraws the question too, and the log says so.
        """
        if self._policy == "allow":
            return Allow()
        always = None if text is not None else _always(tool, proposal)
        question = Question(
            id=new_id(),
            tool=tool.name,
            call=proposal.call,
            text=text if text is not None else _text(tool, proposal),
            reason=reason,
            always=None if always is None else always.text,
        )
        outcome: Outcome = "cancelled"
        session.append(ApprovalAsked(value=_asked(question)))
        try:
            answer, outcome = await self._decide(bus, question, cancellation)
        finally:
            session.append(ApprovalDecided(value={"id": question.id, "outcome": outcome}))
        if answer == "allow-always" and always is not None:
            self.add(always)
        return self._as_verdict(question, outcome, cancellation)

    async def _decide(self, bus: Bus, question: Question, cancellation: Cancellation) -> tuple[Answer | None, Outcome]:
        if cancellation.cause is not None:
            return None, "cancelled"
        if self._policy == "deny":
            return None, "rejected"
        answer: object = None
        try:
            answer = await self._answer(bus, question, cancellation)
        except Exception:  # an answerer that fails has not allowed anything
            logger.exception("%s: the question %s got no answer", ApprovalRequest.wire, question.id)
        if cancellation.cause is not None:
            return None, "cancelled"
        match answer if isinstance(answer, str) else None:
            case "allow":
                return "allow", "allowed-once"
            case "allow-always":
                return "allow-always", "allowed-once"
            case "deny":
                return "deny", "rejected"
            case _:
                return None, "unavailable"

    async def _answer(self, bus: Bus, question: Question, cancellation: Cancellation) -> object:
        """Wait in a task of its own: an answerer that does not hear the cancel must not hold up the turn."""

        async def default(event: ApprovalRequest) -> Answer | None:
            return None if self._answerer is None else await self._answerer(event.question)

        asking = asyncio.ensure_future(bus.waterfall(ApprovalRequest(question, cancellation), default))
        try:
            with cancellation.scope():
                await asyncio.wait({asking})
        finally:
            if not asking.done():
                asking.cancel()
                asking.add_done_callback(_dropped)
        return asking.result().value if asking.done() and not asking.cancelled() else None

    def _as_verdict(self, question: Question, outcome: Outcome, cancellation: Cancellation) -> Verdict | None:
        why = "" if question.reason is None else f" ({question.reason})"
        match outcome:
            case "allowed-once":
                return Allow()
            case "rejected" if self._policy == "deny":
                return Deny(f"{question.tool} needs approval{why}, and the session's policy is to deny it")
            case "rejected":
                return Deny(f"the user rejected this call of {question.tool}{why}")
            case "cancelled":
                return (
                    None
                    if cancellation.cause is not None
                    else Deny(f"the question about {question.tool} was cancelled")
                )
            case "unavailable":
                return Deny(
                    f"{question.tool} needs approval{why}, and nobody can be asked; a rule such as "
                    f'{question.tool!r} = "allow" would allow it'
                )


def _last_policy(session: Session) -> str | None:
    policy: Json = None
    for event in session.select(ApprovalPolicy):
        if isinstance(event.data.value, Mapping):
            policy = event.data.value.get("policy")
    return policy if isinstance(policy, str) else None


def _asked(question: Question) -> dict[str, Json]:
    said: dict[str, Json] = {"id": question.id, "toolName": question.tool, "callId": question.call.call_id}
    if question.reason is not None:
        said["reason"] = whole_text(question.reason)
    return said


def _dropped(asking: asyncio.Task[Decided[Answer | None]]) -> None:
    if not asking.cancelled() and (error := asking.exception()) is not None:
        logger.info("an answer that came after the cancel failed: %r", error)


def _subjects(tool: AnyTool, proposal: Proposal) -> Subjects:
    if tool.policy.subjects is not None:
        return tool.policy.subjects(proposal)
    raw = proposal.call.arguments
    return Subjects((raw,), raw)


def _text(tool: AnyTool, proposal: Proposal) -> str:
    return tool.policy.question(proposal) if tool.policy.question is not None else proposal.call.arguments


def _always(tool: AnyTool, proposal: Proposal) -> Rule:
    return Rule(tool.name, "allow", _subjects(tool, proposal).whole, literal=True)
