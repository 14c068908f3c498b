"""What can go wrong with a stored session.

```
TurnlogError
└── StoreError
    ├── LogRefused              a strict reader refuses the log; carries the finding
    │   ├── LogCorrupt          damage: bytes, records or their order are not what a writer wrote
    │   └── LogUnsupported      a format or vocabulary that this build cannot read
    ├── SessionNotFound         no such session under this root
    ├── SessionAmbiguous        several sessions match; lists them
    ├── AppendConflict          a store's log does not end where the writer thought
    │   └── ConcurrentWriter    somebody else wrote, or took the session over: this writer is finished
    ├── SessionLocked           another process writes the session; names it
    ├── EncodingRefused         a root holds plain or compressed logs, never both
    ├── RewriteRefused          a session cannot be rewritten or removed as asked; nothing was changed
    ├── LockUnsupported         the file system cannot keep two writers apart
    └── WriteFailed             the disk refused a batch; the file ends with the last whole record
```

Every message states the fact, the place (file, line or frame, byte, seq) and the remedy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from turnlog.log import TurnlogError

if TYPE_CHECKING:
    from .finding import Finding, Place

_BEYOND_REPAIR: Final = frozenset({"no-header", "header", "file-version"})
"""What leaves no log to repair, or is mended by hand: their own texts say how."""
_LATER_FORMAT: Final = re.compile(r"session\.v[1-9][0-9]*\.jsonl")
"""How the log files of formats 1 and later are named."""


class StoreError(TurnlogError):
    """Base of what goes wrong with sessions at rest."""


class LogRefused(StoreError):
    """A strict reader refuses the log."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding
        """Why, where, and what to do."""

    @property
    def place(self) -> Place:
        """Where: file, line or frame, byte."""
        return self.finding.place


class LogCorrupt(LogRefused):
    """The log is damaged. ``turnlog verify --forensic`` shows all that is readable."""

    def __str__(self) -> str:
        text = str(self.finding)
        if self.finding.code in _BEYOND_REPAIR or "turnlog " in text:
            return text
        if _LATER_FORMAT.search(self.finding.place.path or ""):  # those are read, never written
            return f"{text} turnlog convert --forensic makes a format-0 session of what is readable."
        return f"{text} turnlog repair makes a whole log of what is readable."


class LogUnsupported(LogRefused):
    """The log is intact but of a format or vocabulary this build cannot read."""


class SessionNotFound(StoreError):
    """No such session under this root."""


class SessionAmbiguous(StoreError):
    """Several sessions match what was asked for."""


class AppendConflict(StoreError):
    """The stored log does not end where the writer thought; nothing was written."""


class ConcurrentWriter(AppendConflict):
    """Somebody else wrote to the log, or took the session over; nothing was written, and this writer never will."""


class EncodingRefused(StoreError):
    """A root holds plain or compressed logs, and a new session was to be of the other kind."""


class SessionLocked(StoreError):
    """Another process writes the session; says which."""


class RewriteRefused(StoreError):
    """A session cannot be repaired, converted, repacked or removed as asked; nothing was changed."""


class LockUnsupported(StoreError):
    """The file system cannot keep two writers apart."""


class WriteFailed(StoreError):
    """The disk refused a batch. The file ends with the last whole record, and the session stays readable."""
