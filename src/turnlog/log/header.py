"""The session header: the first line of a stored log (dsh-v0 §1.1)."""

from __future__ import annotations

import os
from typing import Literal

from msgspec import Struct

from turnlog.events.lossless import MAX_SAFE
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
        """Why no reader would accept this header, or None; in the order of dsh-v0 §1.1."""
        if self.version != FORMAT:
            return f"version: {self.version!r}; only format {FORMAT} is written"
        if not isinstance(self.id, str) or not self.id:
            return f"id: {self.id!r} is no session id; it may not be empty"
        for name, count in (("created_at", self.created_at), ("delegation_depth", self.delegation_depth),
                            ("seed_length", self.seed_length or 0)):  # fmt: skip
            if type(count) is not int or not 0 <= count <= MAX_SAFE:
                return f"{name}: {count!r} is no integer from 0 to 2**53 - 1"
        for name, text in (
            ("cwd", self.cwd),
            ("parent_session", self.parent_session),
            ("agent_preset", self.agent_preset),
        ):
            if text is not None and not isinstance(text, str):
                return f"{name}: {text!r} is no string"
        if self.cwd is not None and not is_absolute(self.cwd):
            return f"cwd: {self.cwd!r} is not an absolute path"
        if self.origin not in (None, "subagent"):
            return f"origin: {self.origin!r}; only 'subagent' exists"
        return None


def is_absolute(path: str) -> bool:
    """Whether *path* is absolute on POSIX or Windows (logs travel)."""
    return os.path.isabs(path) or path.startswith("\\\\") or path[1:3] in (":\\", ":/")
