"""Opening a stored session: `load`, and the read-only session it gives."""

from __future__ import annotations

from pathlib import Path

from turnlog.events import Vocabulary
from turnlog.log import Session

from .errors import SessionAmbiguous, SessionNotFound
from .finding import Finding
from .foreign.origins import Origins
from .liveness import Liveness, liveness
from .names import log_files
from .read import Branch, ReadLog, read_log
from .source import Source, Torn


class StoredSession(Session):
    """A session read from a file: read-only, with what the reader noticed."""

    path: Path | None
    """The file, or None for bytes from elsewhere."""
    format: str
    """``format 0`` … ``format 4``, ``sample``, or the name of the program whose file it is."""
    findings: tuple[Finding, ...]
    """What the reader noticed; strict loads only hold findings that do not refuse the log."""
    torn: Torn | None
    """The unfinished tail, if the writer was cut off."""
    branches: tuple[Branch, ...]
    """Events of other writers that cannot follow the log (forensic reading only)."""
    liveness: Liveness
    """Whether its writer lives."""
    origins: Origins | None
    """Of a session file of another program: the lines its events come from; None for a log."""


def load(
    source: str | Path | bytes,
    *,
    forensic: bool = False,
    vocabulary: Vocabulary = Vocabulary.core,
    name: str | None = None,
) -> StoredSession:
    """Open a stored session, read-only: a file, a session directory, or the bytes of a log.

    Any format, plain or zstd, and session files of Claude Code, Codex and chat messages; the bytes decide. Raises
    :class:`LogCorrupt` or :class:`LogUnsupported` at the first fault, unless *forensic*: then everything readable is
    there and ``findings`` says what strict would refuse.
    *name* is what messages call a log that is no file.
    """
    path = None if isinstance(source, bytes) else locate(Path(source))
    data = source if isinstance(source, bytes) else path
    assert data is not None
    read = Source(data, name=name, forensic=forensic)
    opened = read_log(read, vocabulary=vocabulary, forensic=forensic, foreign=True)
    alive: Liveness = "unknown" if path is None else liveness(path)
    return stored_session(opened, vocabulary, path, alive)


def stored_session(opened: ReadLog, vocabulary: Vocabulary, path: Path | None, alive: Liveness) -> StoredSession:
    """The session of a log as read."""
    why = f"it was read from {path or 'a stream'}"
    why += (
        "; open its store to resume it"
        if opened.format.version == 0
        else (f" in {opened.format.name}; turnlog convert makes a format-0 session of it")
    )
    session = StoredSession.stored(
        opened.header,
        opened.rows,
        opened.surface,
        vocabulary=vocabulary,
        read_only=why,
        closes=alive != "live",
        damage=next((str(one) for one in opened.findings if one.severity == "refused"), None),
    )
    assert isinstance(session, StoredSession)
    session.path, session.format, session.liveness = path, opened.format.name, alive
    session.findings, session.torn = tuple(opened.findings), opened.torn
    session.branches = tuple(opened.branches)
    session.origins = opened.origins
    return session


def locate(path: Path) -> Path:
    """The log file that *path* names: itself, or the newest generation in a session directory."""
    if not path.is_dir():
        if not path.exists():
            raise SessionNotFound(f"{path}: no such file or directory; turnlog ls lists the sessions there are")
        return path
    files = log_files(path)
    if not files:
        raise SessionNotFound(f"{path}: no session file in this directory (session.jsonl, session.vN.jsonl[.zstd])")
    newest = [one for one in files if one.version == files[-1].version]
    if len(newest) > 1:
        raise SessionAmbiguous(
            f"{path}: {' and '.join(one.path.name for one in newest)} are two files of one "
            "generation; name the file you mean, and move the other away"
        )
    return newest[0].path
