"""The agent's life as hooks. Each event's base class is its way of dispatch.

======================  ==========  ====================================================================
event                   mode        for
======================  ==========  ====================================================================
`PreStep`               waterfall   rewrite, add to, empty or refuse the messages that enter a step
`RequestConfig`         waterfall   choose model and sampling of the next request
`RequestError`          waterfall   decide what follows a failed attempt
`TurnStopping`          serial      look at a turn that is about to end; steering now makes it go on
`StatusChanged`         emit        idle ↔ running
`AgentFailed`           emit        what ended a turn with an error
`InboxInserted` …       emit        pending input came, was withdrawn, or was claimed by a turn
======================  ==========  ====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from turnlog.bus import Cancellation, Emit, Serial, Waterfall
from turnlog.events import CallConfig, Failure, UserMessage

if TYPE_CHECKING:
    from .agent import Agent

Target = Literal["next-turn", "next-step"]
"""Where pending input waits: for a turn of its own, or for the next step of whatever turn comes."""


@dataclass(frozen=True, slots=True)
class Enter:
    """The step begins with these messages, in order. None at all: no step."""

    messages: tuple[UserMessage, ...]


@dataclass(frozen=True, slots=True)
class Reject:
    """The input is refused; the turn ends ``blocked``. The reason goes to the log, not to the model."""

    reason: str


@dataclass(frozen=True, slots=True)
class PreStep(Waterfall["PreStep", Enter | Reject]):
    """Input was claimed and is about to enter a step. The default enters with ``messages``."""

    wire: ClassVar[str] = "agent/pre-step"
    agent: Agent
    turn: int
    step: int
    """The step that would begin."""
    messages: tuple[UserMessage, ...]
    cancellation: Cancellation


@dataclass(frozen=True, slots=True)
class RequestConfig(Waterfall["RequestConfig", CallConfig]):
    """A request is being put together. The default keeps ``config``."""

    wire: ClassVar[str] = "agent/request"
    agent: Agent
    turn: int
    step: int
    attempt: int
    config: CallConfig
    cancellation: Cancellation


@dataclass(frozen=True, slots=True)
class Retry:
    """Send the request again, in the same step."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing recovers: the turn ends with the failure."""


@dataclass(frozen=True, slots=True)
class RequestError(Waterfall["RequestError", Retry | GiveUp]):
    """An attempt failed. The default gives up."""

    wire: ClassVar[str] = "agent/request-error"
    agent: Agent
    turn: int
    step: int
    attempt: int
    provider: str
    failure: Failure
    cancellation: Cancellation


@dataclass(frozen=True, slots=True)
class TurnStopping(Serial["TurnStopping", None]):
    """Nothing is owed any more; the turn ends unless a listener steers."""

    wire: ClassVar[str] = "agent/turn-stopping"
    agent: Agent
    turn: int
    cancellation: Cancellation


@dataclass(frozen=True, slots=True)
class StatusChanged(Emit):
    """The agent began or stopped to work."""

    wire: ClassVar[str] = "agent/status"
    agent: Agent
    status: Literal["idle", "running"]


@dataclass(frozen=True, slots=True)
class AgentFailed(Emit):
    """A turn ends with an error (cancellations are none)."""

    wire: ClassVar[str] = "agent/error"
    agent: Agent
    turn: int
    step: int
    error: Exception


@dataclass(frozen=True, slots=True)
class InboxInserted(Emit):
    """A message waits."""

    wire: ClassVar[str] = "agent/inbox/inserted"
    agent: Agent
    target: Target
    message: UserMessage


@dataclass(frozen=True, slots=True)
class InboxDiscarded(Emit):
    """A waiting message was withdrawn."""

    wire: ClassVar[str] = "agent/inbox/discarded"
    agent: Agent
    target: Target
    message: UserMessage


@dataclass(frozen=True, slots=True)
class InboxClaimed(Emit):
    """A waiting message goes into a turn."""

    wire: ClassVar[str] = "agent/inbox/claimed"
    agent: Agent
    message: UserMessage
    turn: int
