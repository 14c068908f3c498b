"""What the beginning of a recording did to the workspace, which a counterfactual does not find as it was then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from .recording import Recording

CHANGES: Final = ("write", "edit", "bash")
"""Built-in tools that change files, or may."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that changed the workspace, or may have."""

    address: str
    name: str
    arguments: str

    def __str__(self) -> str:
        shown = self.arguments if len(self.arguments) <= 100 else f"{self.arguments[:99]}…"
        return f"{self.address} {self.name} {shown}"


def effects(recording: Recording, before: int) -> tuple[Effect, ...]:
    """The calls before a seq that had effects. A file that could not be written was not; a command may have begun."""
    return tuple(_effects(recording, before))


def _effects(recording: Recording, before: int) -> Iterator[Effect]:
    for event in recording.session.events[:before]:
        if event.type != "tool/call":
            continue
        ran = recording.calls.get(event.seq)
        if ran is None or ran.call.name not in CHANGES:
            continue
        result, call = ran.result, ran.call
        failed = result is not None and result.is_error
        started = result is None or result.error is None or result.error.code != "ABORTED_BEFORE_DISPATCH"
        if started and not (failed and call.name != "bash"):
            yield Effect(f"t{call.turn}.s{call.step}.call:{call.call_id}", call.name, call.arguments)
