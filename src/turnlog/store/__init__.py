"""Sessions at rest: formats, containers, discovery, verification. This room reads; it derives nothing of its own."""

from .base import MemoryStore, ReadableStore, Store, open_stored
from .discover import SessionEntry, default_roots, find_session, latest, list_sessions
from .errors import (
    AppendConflict,
    ConcurrentWriter,
    LockUnsupported,
    LogCorrupt,
    LogRefused,
    LogUnsupported,
    SessionAmbiguous,
    SessionLocked,
    SessionNotFound,
    StoreError,
    WriteFailed,
)
from .files import FileStore
from .finding import Finding, Place
from .live import LiveStore, open_store
from .load import StoredSession, load, locate
from .proven import Proof
from .read import Branch
from .source import Torn
from .tail import Tail, open_tail
from .verify import Report, verify

__all__ = [
    "AppendConflict",
    "Branch",
    "ConcurrentWriter",
    "FileStore",
    "Finding",
    "LiveStore",
    "LockUnsupported",
    "LogCorrupt",
    "LogRefused",
    "LogUnsupported",
    "MemoryStore",
    "Place",
    "Proof",
    "ReadableStore",
    "Report",
    "SessionAmbiguous",
    "SessionEntry",
    "SessionLocked",
    "SessionNotFound",
    "Store",
    "StoreError",
    "StoredSession",
    "Tail",
    "Torn",
    "WriteFailed",
    "default_roots",
    "find_session",
    "latest",
    "list_sessions",
    "load",
    "locate",
    "open_store",
    "open_stored",
    "open_tail",
    "verify",
]
