"""Sessions at rest: formats, containers, discovery, verification. This room reads; it derives nothing of its own."""

from .errors import (
    AppendConflict,
    LogCorrupt,
    LogRefused,
    LogUnsupported,
    SessionAmbiguous,
    SessionNotFound,
    StoreError,
)
from .finding import Finding, Place
from .load import Branch, StoredSession, load
from .discover import SessionEntry, default_roots, find_session, latest, list_sessions
from .source import Torn
from .verify import Report, verify
