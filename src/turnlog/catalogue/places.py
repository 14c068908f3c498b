"""Where sessions and indexes are, and whether a writer lives, without importing what reads logs.

The same answers as :mod:`turnlog.store.discover`, ``names`` and ``liveness`` give, which load a whole room: a test
holds them against each other.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LOCK: Final = "session.lock"
ATTEST: Final = "attest.jsonl"

_FILE: Final = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(\.zstd)?")
_LOG_ENDINGS: Final = (".jsonl", ".jsonl.zstd", ".jsonl.gz")


def home() -> Path:
    """Turnlog's own directory; it need not exist yet."""
    return Path(os.environ.get("TURNLOG_HOME") or Path.home() / ".turnlog")


def default_roots() -> list[Path]:
    """Where sessions usually are, as far as these directories exist."""
    dsh = Path(os.environ.get("DSH_HOME") or Path.home() / ".dsh") / "sessions"
    return [root for root in (home() / "sessions", dsh) if root.is_dir()]


def index_home() -> Path:
    """The directory of all indexes: ``$TURNLOG_INDEX``, or one in Turnlog's own."""
    return Path(os.environ.get("TURNLOG_INDEX") or home() / "index")


def index_path(root: Path) -> Path:
    """The index of the sessions under *root*."""
    real = os.path.realpath(root)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(real))[:40] or "root"
    return index_home() / f"{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}.sqlite3"


def price_stamp() -> str:
    """What the files with prices look like; when it changes, costs have to be computed again."""
    own = os.environ.get("XDG_CONFIG_HOME", "")
    config = Path(own) if os.path.isabs(own) else Path.home() / ".config"
    stamps = []
    for path in (Path(__file__).parents[1] / "views" / "prices.toml", config / "turnlog" / "prices.toml"):
        try:
            status = path.stat()
            stamps.append(f"{path}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}")
        except OSError:
            stamps.append(f"{path}:-")
    return "\n".join(stamps)


def is_log_name(name: str) -> bool:
    """Whether a file of this name looks like a log."""
    return name.endswith(_LOG_ENDINGS) and name != ATTEST


def session_files(names: Sequence[str]) -> list[str]:
    """Those of *names* that session files have, newest generation last."""
    found = [(int(match[1] or 0), name) for name in sorted(names) if (match := _FILE.fullmatch(name))]
    return [name for _version, name in sorted(found, key=lambda one: one[0])]


def is_live(directory: str) -> bool:
    """Whether somebody writes the session in *directory* right now. Nothing is written and nobody is kept waiting."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        descriptor = os.open(f"{directory}/{LOCK}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)
