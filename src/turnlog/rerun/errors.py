"""What keeps a session from being driven again.

```
TurnlogError
└── RerunError          the session, or the place in it, cannot be driven
    └── NotFaithful     its beginning changed the workspace, and a faithful rerun was asked for
```
"""

from __future__ import annotations

from turnlog.log import TurnlogError


class RerunError(TurnlogError):
    """The session, or the place in it, cannot be driven."""


class NotFaithful(RerunError):
    """What comes before the place had effects on the workspace, which nothing brings back."""
