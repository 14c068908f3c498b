"""Event types of formats 2 to 4 that format 0 does not have (dsh-formats §6-7). Read, never written."""

from __future__ import annotations

from .message import Message
from .payload import OpaquePayload, SurfacePayload
from .value import Index


class SystemMessage(SurfacePayload, type="system/message"):
    """Formats 3 and 4: the system prompt as a message; empty content is an empty prompt."""

    turn: Index
    step: Index
    message: Message


class DeveloperMessage(SurfacePayload, type="developer/message"):
    """Format 4: tools were added to or removed from what the model is told."""

    turn: Index
    step: Index
    message: Message


class AssistantAttempt(OpaquePayload, type="assistant/attempt"):
    """Formats 2 to 4: a failed, retried or cancelled attempt, its stream inside."""
