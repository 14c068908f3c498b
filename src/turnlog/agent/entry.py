"""How input enters a step: hooks may rewrite, add to, empty or refuse it, and the log says who did."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal

from turnlog.bus import Bus, Dispatch
from turnlog.events import HookInvoked, HookResult, Json, UserMessage
from turnlog.log import Session

from .failure import checked
from .hooks import Enter, PreStep, Reject
from .place import Turn
from .prompt import Prompt

if TYPE_CHECKING:
    from .agent import Agent

DIALECT: Final = "claude-code"
"""Hook events name whose way of speaking to hooks is meant; dsh's migrations refuse all words but two."""


class Entry:
    """The way into a step."""

    def __init__(self, agent: Agent, *, session: Session, bus: Bus, prompt: Prompt) -> None:
        self._agent = agent
        self._session = session
        self._bus = bus
        self._prompt = prompt

    async def decide(self, turn: Turn, claimed: tuple[UserMessage, ...]) -> Enter | Reject:
        """Ask the hooks what becomes of *claimed* and of the context snapshot that is due."""
        started = perf_counter()
        with self._bus.trace() as trace, turn.cancellation.scope():
            snapshot = await self._prompt.snapshot() if claimed or turn.step else None
            messages = claimed if snapshot is None else (*claimed, snapshot)
            event = PreStep(self._agent, turn.number, turn.step + 1, messages, turn.cancellation)
            decision = checked(PreStep, (await self._bus.waterfall(event, _enter)).value, Enter, Reject)
        turn.check()
        ran = trace.of(PreStep.wire)[:1]
        took = round((perf_counter() - started) * 1000)
        if isinstance(decision, Reject):
            self._say(turn, ran, "block", decision.reason, took)
        elif messages and not decision.messages:
            self._say(turn, ran, "empty", "a listener took every message out", took)
        return decision

    def enter(self, messages: tuple[UserMessage, ...]) -> None:
        """Log the messages of a step that has begun."""
        for message in messages:
            event = self._session.append(message)
            self._prompt.entered(event.seq, message)

    def _say(self, turn: Turn, ran: list[Dispatch], decision: Literal["block", "empty"], why: str, took: int) -> None:
        """Log who refused or emptied the input (differences 11): the reason in ``turn/end`` has no room for it."""
        listeners = ran[0].ran if ran else []
        stopped = [one for one in listeners if one.outcome == "stopped"]
        who = ", ".join(one.where for one in stopped or listeners) or "unknown"
        said = [one.detail for one in stopped if one.detail]
        about: dict[str, Json] = {"turn": turn.number, "point": PreStep.wire, "handlerId": who}
        self._session.append(HookInvoked(value={**about, "dialect": DIALECT}))
        self._session.append(
            HookResult(
                value={**about, "decision": decision, "stderrSummary": "; ".join([*said, why]), "durationMs": took}
            )
        )


async def _enter(event: PreStep) -> Enter | Reject:
    return Enter(event.messages)
