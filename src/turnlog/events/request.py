"""What requests carried and where sessions were cut (dsh-v0 §1.3 rows 11-13)."""

from __future__ import annotations

from typing import ClassVar

from .header import Header
from .payload import LogPayload, Payload
from .value import Index


class RequestHeader(LogPayload, type="request/header"):
    """The request header changed, or a loop sends its first request."""

    header: Header
    reason: str
    """``initial``, ``resume`` or ``change``."""


class RequestContext(LogPayload, type="request/context"):
    """The route or its capacity changed."""

    provider: str
    model: str
    context_window: Index | None = None
    """Tokens; None says that the route advertises none."""


class EndSeed(Payload, type="session/end-seed"):
    """Everything before comes from an ended lifecycle. Only sessions write it themselves."""

    appendable: ClassVar[bool] = False
