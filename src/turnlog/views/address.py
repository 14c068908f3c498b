"""Addresses: how people and programs name a place in a session.

====================== ==========================================================
``t3``                 turn 3
``t3.s2``              step 2 of turn 3
``t3.s2.a1``           the first attempt of that step
``call:ID``            a tool call; ``t3.s2.call:ID`` where the id was used again
``msg:ID``             a message
``@SEQ``               an event
``@SEQ/k``             the k-th chunk of the stream inside an event, from 0
====================== ==========================================================

Turns, steps and calls keep their names when a log is converted; seqs do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from turnlog.log import TurnlogError

MOST: Final = 10
"""How many candidates an error lists."""

_PLACE: Final = re.compile(r"t([1-9]\d{0,15}|0)(?:\.s([1-9]\d{0,15}|0)(?:\.a([1-9]\d{0,15}))?)?", re.ASCII)
_CALL: Final = re.compile(r"(?:t(\d{1,16})\.s(\d{1,16})\.)?call:(.+)", re.DOTALL | re.ASCII)
_EVENT: Final = re.compile(r"@(\d{1,16})(?:/(\d{1,16}))?", re.ASCII)


class AddressError(TurnlogError):
    """Base of what can be wrong with an address."""


class AddressInvalid(AddressError):
    """The text is no address."""


class AddressUnknown(AddressError):
    """The session has no such place; says which there are."""


class AddressAmbiguous(AddressError):
    """Several places match; lists them."""


@dataclass(frozen=True, slots=True)
class TurnAddress:
    """``t3``"""

    turn: int

    def __str__(self) -> str:
        return f"t{self.turn}"


@dataclass(frozen=True, slots=True)
class StepAddress:
    """``t3.s2``"""

    turn: int
    step: int

    def __str__(self) -> str:
        return f"t{self.turn}.s{self.step}"


@dataclass(frozen=True, slots=True)
class AttemptAddress:
    """``t3.s2.a1``"""

    turn: int
    step: int
    attempt: int

    def __str__(self) -> str:
        return f"t{self.turn}.s{self.step}.a{self.attempt}"


@dataclass(frozen=True, slots=True)
class CallAddress:
    """``call:ID`` or ``t3.s2.call:ID``"""

    id: str
    turn: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        return f"call:{self.id}" if self.turn is None else f"t{self.turn}.s{self.step}.call:{self.id}"


@dataclass(frozen=True, slots=True)
class MessageAddress:
    """``msg:ID``"""

    id: str

    def __str__(self) -> str:
        return f"msg:{self.id}"


@dataclass(frozen=True, slots=True)
class EventAddress:
    """``@SEQ``, or ``@SEQ/k`` for a chunk inside it"""

    seq: int
    chunk: int | None = None

    def __str__(self) -> str:
        return f"@{self.seq}" if self.chunk is None else f"@{self.seq}/{self.chunk}"


Address: TypeAlias = TurnAddress | StepAddress | AttemptAddress | CallAddress | MessageAddress | EventAddress


def parse_address(text: str) -> Address:
    """What *text* names. Raises :class:`AddressInvalid`."""
    if found := _PLACE.fullmatch(text):
        turn, step, attempt = (None if part is None else int(part) for part in found.groups())
        assert turn is not None
        if step is None:
            return TurnAddress(turn)
        return StepAddress(turn, step) if attempt is None else AttemptAddress(turn, step, attempt)
    if found := _EVENT.fullmatch(text):
        return EventAddress(int(found[1]), None if found[2] is None else int(found[2]))
    if found := _CALL.fullmatch(text):
        return CallAddress(found[3]) if found[1] is None else CallAddress(found[3], int(found[1]), int(found[2]))
    if text.startswith("msg:") and len(text) > len("msg:"):
        return MessageAddress(text.removeprefix("msg:"))
    raise AddressInvalid(f"{text!r} is no address; addresses look like t3, t3.s2, t3.s2.a1, call:ID, t3.s2.call:ID, "
                         "msg:ID, @SEQ or @SEQ/k")  # fmt: skip


def listed(candidates: Sequence[object]) -> str:
    """Candidates for an error message: the first few, and how many more."""
    shown = ", ".join(map(str, candidates[:MOST]))
    return shown if len(candidates) <= MOST else f"{shown} and {len(candidates) - MOST} more"
