"""Structured output: a tool the model answers with. Its arguments are validated like any tool's, so a wrong answer goes
back with the fields it got wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

from turnlog.events import PluginSource, UserMessage
from turnlog.tools import ToolContext, tool

from .hooks import TurnStopping

T = TypeVar("T")

NAME: Final = "final_answer"
REMINDERS: Final = 2
"""How often a model that stops without answering is reminded."""


class Wanted(Generic[T]):
    """The output one run is asked for: a tool while the run lasts, and a reminder when the model forgets it."""

    def __init__(self, kind: type[T], asked_in: Callable[[int], bool]) -> None:
        """*asked_in*: whether a turn is the one that was asked for it."""
        self.answer: T | None = None
        self._asked_in = asked_in
        self._reminded = 0

        async def answer(answer: Any, ctx: ToolContext) -> str:
            self.answer = cast("T", answer)
            ctx.conclude_turn()
            return "Taken."

        answer.__annotations__["answer"] = kind
        self.tool: Final = tool(
            name=NAME, description="Give the final answer of this task. Call it once, when everything else is done."
        )(answer)

    async def remind(self, event: TurnStopping) -> None:
        """Steer a model that is about to stop without an answer."""
        if self.answer is None and self._asked_in(event.turn) and self._reminded < REMINDERS:
            self._reminded += 1
            text = f"Give your final answer by calling {NAME}."
            event.agent.steer(
                UserMessage.of(
                    text, source=PluginSource(plugin="turnlog", form="notice", summary="asked for the answer")
                )
            )
