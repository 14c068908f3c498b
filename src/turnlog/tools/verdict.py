"""What may be said of a call before it runs, and of its result after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from msgspec import UNSET, UnsetType

from turnlog.events import Block, Json, UserMessage


@dataclass(frozen=True, slots=True)
class Allow:
    """Run it."""


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not run it; the model reads *reason*."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a person first; without anyone to ask it is denied."""

    reason: str | None = None


Verdict: TypeAlias = Allow | Deny | Ask


@dataclass(frozen=True, slots=True)
class Accept:
    """Keep the result, with other *content* or another *value* (rendered anew) in its place if given, not both."""

    content: tuple[Block, ...] | None = None
    value: Json | UnsetType = UNSET
    contexts: tuple[UserMessage, ...] = ()
    """Messages for the next step, after those of the tool."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Make the result an error that says *feedback*; only the decision's own contexts remain."""

    feedback: str
    contexts: tuple[UserMessage, ...] = ()


Review: TypeAlias = Accept | Reject
