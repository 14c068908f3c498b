"""The session header: the first line of a stored log (dsh-v0 §1.1)."""

from __future__ import annotations

import os
from typing import Literal

from msgspec import Struct

from turnlog.events.value import Index

FORMAT: int = 0
"""The format that Turnlog writes."""


class SessionHeader(Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """Who a session is. Immutable; not an event."""

    version: int
    """Format of the log it came from; 0 for what we write."""
    id: str
    created_at: Index
    """Epoch ms."""
    cwd: str | None = None
    """Absolute path the agent worked in."""
    parent_session: str | None = None
    """Id of the session this one was forked from or works for."""
    seed_length: Index | None = None
    """How many leading events it inherited from its parent."""
    origin: Literal["subagent"] | None = None
    delegation_depth: Index = 0
    agent_preset: str | None = None

    def fault(self) -> str | None:
        """Why this is no good header, or None."""
        if not self.id:
            return "id: a session id may not be empty"
        if self.cwd is not None and not is_absolute(self.cwd):
            return f"cwd: {self.cwd!r} is not an absolute path"
        return None


def is_absolute(path: str) -> bool:
    """Whether *path* is absolute on POSIX or Windows (logs travel)."""
    return os.path.isabs(path) or path.startswith("\\\\") or path[1:3] in (":\\", ":/")
