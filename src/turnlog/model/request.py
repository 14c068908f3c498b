"""What is sent: the request header and the messages, as the log has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.events import Header, Message


@dataclass(frozen=True, slots=True)
class Request:
    """One attempt's request, before an adapter turns it into a provider's body.

    ``messages`` is the projection of the log itself (a :class:`turnlog.log.View`), not a copy.
    """

    session_id: str
    turn: int
    step: int
    attempt: int
    """1, 2, 3, … within the step; more than 1 after a retry."""
    header: Header
    messages: Sequence[Message]
