"""What can go wrong with a session.

```
TurnlogError
├── SessionError
│   ├── AppendError          an event was refused; the log is unchanged
│   │   ├── SurfaceError     surface placement, replace range or sources (dsh-v0 §2.4-2.5)
│   │   ├── GrammarError     turns, steps and calls do not nest (dsh-v0 §3.2)
│   │   ├── ShapeError       the payload breaks a rule its types do not state (dsh-v0 §2.7)
│   │   └── ReservedEvent    only the session itself writes this event
│   ├── WrongThread          a session belongs to the thread that made it
│   ├── Reentrant            append from inside a subscriber
│   ├── ReadOnlySession      the session came from a file or another format
│   └── ForkError            no such boundary, or a format that cannot be forked
├── LosslessError, UnknownEventType  a value or a type that no log may hold (turnlog.events)
└── StoreError               what goes wrong with sessions at rest (turnlog.store.errors)
```

Every message states the fact, the place (session, seq) and the remedy.
"""

from __future__ import annotations

from turnlog.events.errors import TurnlogError as TurnlogError


class SessionError(TurnlogError):
    """Base of what a live session refuses."""


class AppendError(SessionError):
    """An event was refused; the log is unchanged."""


class SurfaceError(AppendError):
    """An event does not fit the surface; ``kind`` names the rule."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        """``surface-eligible``, ``marker``, ``replace-start``, ``replace-end``, ``replace-order``,
        ``tool-result-rewrite``, ``sources-empty``, ``sources-duplicate``, ``sources-later``, ``sources-type`` or
        ``sources-shadowed``."""


class GrammarError(AppendError):
    """Turns, steps and calls would not nest."""


class ShapeError(AppendError):
    """The payload breaks a rule its types do not state."""


class ReservedEvent(AppendError):
    """Only the session itself writes this event."""


class WrongThread(SessionError):
    """Append from another thread than the session's own; names both. Use ``session.call_soon``."""


class Reentrant(SessionError):
    """Append from inside a subscriber of the same session."""


class ReadOnlySession(SessionError):
    """The session cannot be appended to; says why and what to do."""


class ForkError(SessionError):
    """The session cannot be forked there."""
