"""Sessions at rest: formats, containers, discovery, verification, writing, rewriting. It derives nothing of its own."""

from .base import AttestingStore, MemoryStore, ReadableStore, Store, open_stored
from .convert import Conversion, Difference, convert
from .discover import SessionEntry, default_roots, find_session, latest, list_sessions
from .errors import (
    AppendConflict,
    ConcurrentWriter,
    EncodingRefused,
    LockUnsupported,
    LogCorrupt,
    LogRefused,
    LogUnsupported,
    RewriteRefused,
    SessionAmbiguous,
    SessionLocked,
    SessionNotFound,
    StoreError,
    WriteFailed,
)
from .files import FileStore
from .finding import Finding, Place
from .follow import Follower
from .live import LiveStore, open_store
from .load import StoredSession, load, locate
from .proven import Proof
from .read import Branch
from .remove import Removal, plan_removal, remove
from .repack import Repacked, repack, repack_root
from .repair import Repair, repair
from .salvage import Lost, Moved
from .source import Torn
from .tail import Tail, open_tail
from .verify import Report, verify

__all__ = [
    "AppendConflict",
    "AttestingStore",
    "Branch",
    "ConcurrentWriter",
    "Conversion",
    "Difference",
    "EncodingRefused",
    "FileStore",
    "Finding",
    "Follower",
    "LiveStore",
    "LockUnsupported",
    "LogCorrupt",
    "LogRefused",
    "LogUnsupported",
    "Lost",
    "MemoryStore",
    "Moved",
    "Place",
    "Proof",
    "ReadableStore",
    "Removal",
    "Repacked",
    "Repair",
    "Report",
    "RewriteRefused",
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
    "convert",
    "default_roots",
    "find_session",
    "latest",
    "list_sessions",
    "load",
    "locate",
    "open_store",
    "open_stored",
    "open_tail",
    "plan_removal",
    "remove",
    "repack",
    "repack_root",
    "repair",
    "verify",
]
