"""Sessions at rest: formats, containers, discovery, verification. This room reads; it derives nothing of its own."""

from .base import FileStore, MemoryStore, ReadableStore, Store, open_stored
from .discover import SessionEntry, default_roots, find_session, latest, list_sessions
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
from .load import StoredSession, load, locate
from .read import Branch
from .source import Torn
from .tail import Tail, open_tail
from .verify import Report, verify

__all__ = [
    "AppendConflict",
    "Branch",
    "FileStore",
    "Finding",
    "LogCorrupt",
    "LogRefused",
    "LogUnsupported",
    "MemoryStore",
    "Place",
    "ReadableStore",
    "Report",
    "SessionAmbiguous",
    "SessionEntry",
    "SessionNotFound",
    "Store",
    "StoreError",
    "StoredSession",
    "Tail",
    "Torn",
    "default_roots",
    "find_session",
    "latest",
    "list_sessions",
    "load",
    "locate",
    "open_stored",
    "open_tail",
    "verify",
]
