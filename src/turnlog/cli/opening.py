"""Opening the session a command is about: strictly first; what strict reading refuses is shown with a warning."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .problems import WrongUsage
from .screen import Screen

if TYPE_CHECKING:
    from turnlog.store import StoredSession
    from turnlog.store.finding import Finding

STANDARD_INPUT: Final = "standard input"
"""What messages call a log that comes from there."""


@dataclass(frozen=True)
class Which:
    """How a command line names a session."""

    text: str | None
    """An id, a prefix of one, a path, or ``-``."""
    latest: bool
    roots: Sequence[Path]
    """Where to look; empty for the usual places."""

    def source(self) -> tuple[Path | bytes, str]:
        """What to read, and what to call it. Raises when there is no such session."""
        from turnlog.store.discover import latest

        if (self.text is None) != self.latest:
            raise WrongUsage("name one session: its id, the beginning of it, a path, - for standard input, or --latest")
        if self.text == "-":
            return _standard_input(), STANDARD_INPUT
        path = latest(self.search()) if self.text is None else self._find(self.text)
        if not path.is_file():
            return path.read_bytes(), str(path)  # a pipe can be read only once
        return path, str(path)

    def _find(self, text: str) -> Path:
        """The file of a session, or, where nobody named a root, of one of another program that has this id."""
        from turnlog.store import SessionAmbiguous, SessionNotFound
        from turnlog.store.discover import find_session
        from turnlog.store.foreign import find

        try:
            return find_session(text, self.search())
        except SessionNotFound:
            found = [] if self.roots else find(text)
            if not found:
                raise
        if len(found) > 1:
            listed = "".join(f"\n  {path}" for path in found[:10])
            raise SessionAmbiguous(
                f"{text!r} begins the ids of {len(found)} sessions of other programs; give more of it, or the path:"
                f"{listed}"
            )
        return found[0]

    def file(self) -> Path:
        """The log file of a session that is to be rewritten."""
        source, name = (b"", STANDARD_INPUT) if self.text == "-" else self.source()
        if isinstance(source, bytes):
            raise WrongUsage(f"{name} is no file; only stored sessions can be rewritten")
        return source

    def search(self) -> list[Path]:
        """The directories to look in."""
        return search_in(self.roots)


def search_in(roots: Sequence[Path]) -> list[Path]:
    """The directories that ``--root`` names, or the usual places. Raises :class:`WrongUsage` for one that is none."""
    from turnlog.store.discover import default_roots

    for root in roots:
        if not root.is_dir():
            raise WrongUsage(f"--root {root}: {'not a directory' if root.exists() else 'no such directory'}")
    return list(roots) or default_roots()


def split_words(words: Sequence[str], latest: bool, what: str) -> tuple[str | None, str]:
    """Session and second word of a command that takes both; with ``--latest`` the session is left out."""
    if len(words) != (1 if latest else 2):
        expected = what if latest else f"SESSION {what}"
        raise WrongUsage(f"expected {expected}, got {' '.join(words) or 'nothing'}")
    return (None, words[0]) if latest else (words[0], words[1])


def open_session(screen: Screen, which: Which, *, with_branches: bool = False) -> StoredSession:
    """The session, with a warning and exit code 4 for whatever of it is not shown or not sound.

    *with_branches* says that the command also shows what cannot follow the log.
    """
    from turnlog.store import LogCorrupt, LogRefused, load

    source, name = which.source()
    refusal: LogRefused | None = None
    try:
        session = load(source, name=name)
    except LogRefused as error:
        refusal = error
        try:
            session = load(source, name=name, forensic=True)
        except LogRefused:
            raise refusal from None
    lost = lost_header(session)
    if lost is not None and name == STANDARD_INPUT:
        raise LogCorrupt(lost)
    if refusal is not None:
        beside = 0 if with_branches else sum(len(branch.events) for branch in session.branches)
        others = f"; turnlog events lists {beside} more that cannot follow the log" if beside else ""
        screen.partly(f"{refusal} What is readable is shown{others}; turnlog verify says more")
    elif lost is not None:
        screen.partly(str(lost))
    else:
        _notice(screen, session)
    return session


def lost_header(session: StoredSession) -> Finding | None:
    """What is wrong with events that came without their header and are not the documents' sample.

    They are read as what they are not, so standard input is refused; of a file, some of it may still be of use.
    """
    from msgspec.structs import replace

    if session.format != "sample":
        return None
    found = next((finding for finding in session.findings if finding.code == "no-header"), None)
    remedy = "turnlog events SESSION --json --header prints a log with its header line first."
    return None if found is None else replace(found, severity="refused", remedy=remedy)


def _notice(screen: Screen, session: StoredSession) -> None:
    if session.torn is not None:
        told = [str(finding) for finding in session.findings if finding.code == "torn-tail"]
        screen.partly(told[0] if told else f"the log has an unfinished tail: {session.torn.reason}")
    faults = [finding for finding in session.findings if finding.severity == "fault"]
    if faults:
        more = f" (and {len(faults) - 1} more; turnlog verify lists them)" if len(faults) > 1 else ""
        screen.hint(f"{faults[0]}{more}")


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise WrongUsage("there is no standard input")
    return sys.stdin.buffer.read()
