"""The session log: append-only, typed, and everything else derived from it. Pure: no files, network or event loop."""

from .closers import Closer
from .durability import Durability, Durable, Volatile
from .errors import (
    AppendError,
    ForkError,
    GrammarError,
    ReadOnlySession,
    Reentrant,
    ReservedEvent,
    SessionError,
    ShapeError,
    SurfaceError,
    TurnlogError,
    WrongThread,
)
from .event import AnyEvent, Replace, SessionEvent, is_event
from .grammar import Grammar
from .header import SessionHeader
from .projection import MESSAGES, Messages, Projector, View
from .proof import ProofKeeper, RequestProof
from .redaction import RedactionRule, Redactor
from .rows import Events
from .session import Session
from .subscription import Subscription

__all__ = [
    "MESSAGES",
    "AnyEvent",
    "AppendError",
    "Closer",
    "Durability",
    "Durable",
    "Events",
    "ForkError",
    "Grammar",
    "GrammarError",
    "Messages",
    "Projector",
    "ProofKeeper",
    "ReadOnlySession",
    "RedactionRule",
    "Redactor",
    "Reentrant",
    "Replace",
    "RequestProof",
    "ReservedEvent",
    "Session",
    "SessionError",
    "SessionEvent",
    "SessionHeader",
    "ShapeError",
    "Subscription",
    "SurfaceError",
    "TurnlogError",
    "View",
    "Volatile",
    "WrongThread",
    "is_event",
]
