"""The loop: an agent runs, and everything it did is in the log."""

from .agent import Agent, Input
from .driver import AgentBusy, AgentClosed
from .failure import TurnFailed, UnrecordedInput
from .hooks import (
    AgentFailed,
    Enter,
    GiveUp,
    InboxClaimed,
    InboxDiscarded,
    InboxInserted,
    PreStep,
    Reject,
    RequestConfig,
    RequestError,
    Retry,
    StatusChanged,
    TurnStopping,
)
from .inbox import Inbox, InboxError
from .prompt import Context
from .result import NoOutput, RunResult
from .retry import RetryPolicy

__all__ = [
    "Agent",
    "AgentBusy",
    "AgentClosed",
    "AgentFailed",
    "Context",
    "Enter",
    "GiveUp",
    "Inbox",
    "InboxClaimed",
    "InboxDiscarded",
    "InboxError",
    "InboxInserted",
    "Input",
    "NoOutput",
    "PreStep",
    "Reject",
    "RequestConfig",
    "RequestError",
    "Retry",
    "RetryPolicy",
    "RunResult",
    "StatusChanged",
    "TurnFailed",
    "TurnStopping",
    "UnrecordedInput",
]
