"""`repair`: a log that strict readers refuse, made whole in a new file beside the untouched original.

```
session.jsonl                                    the damaged log; never changed
session.jsonl.repaired-20261130T213000Z          everything of it that can be kept
session.jsonl.branch-20261130T213000Z            a second history, when two writers left one
```

With ``apply`` the names are swapped: the damaged log becomes ``session.jsonl.damaged-…``, and the seals that the
repaired one does not keep go with it. A log that only lacks its end needs no repair: a resume cuts it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnlog.events import Vocabulary
from turnlog.log.session import epoch_ms

from .attest import ATTEST_NAME, Note, Record, RunningHash, Seal, ShownRequest, attest_line, read_attestation
from .errors import LogUnsupported, RewriteRefused, SessionLocked
from .finding import Finding, Place
from .fs import Fs, OsFs, write_new
from .header import header_line
from .liveness import liveness
from .load import locate
from .names import parse_file
from .read import ReadLog, read_log
from .rewrite import (
    file_of,
    held,
    in_place,
    is_compressed_name,
    link_beside,
    replace,
    temporary,
    text_of,
    write_beside,
    writing,
)
from .salvage import History, Lost, Moved, salvage
from .source import Source

_FRAMES: Final = "the container was rewritten: the header in a frame of its own, then frames of whole records"
_STUMBLES: Final[Mapping[str, str]] = {
    "bom": "the byte order mark is gone",
    "blank-line": "the blank lines are gone",
    "container": "the container was rewritten as the file's name says",
    "crlf": "lines end in LF now",
    "frame-layout": _FRAMES,
    "frame-odd": _FRAMES,
    "header": "the header was written anew, with the members that format 0 has",
}
"""What strict reading takes and dsh, or an append, stumbles over; and what becomes of it."""


@dataclass(frozen=True)
class Repair:
    """What a repair found and did."""

    path: Path
    """The log that was asked about."""
    findings: tuple[Finding, ...]
    """Why it needs repair; empty when it does not."""
    reason: str
    """What state it is in, in one sentence."""
    said: tuple[str, ...] = ()
    """What was done."""
    moved: tuple[Moved, ...] = ()
    """Which events have other seqs now."""
    lost: tuple[Lost, ...] = ()
    """What is only in the damaged log."""
    events: int = 0
    """How many events the repaired log has."""
    repaired: Path | None = None
    """The repaired log; after ``apply`` it is *path* itself."""
    branches: tuple[Path, ...] = ()
    """Other histories, each a whole log."""
    damaged: Path | None = None
    """Where ``apply`` put the damaged log."""

    @property
    def needed(self) -> bool:
        """Whether there was anything to repair."""
        return bool(self.findings)


def repair(
    path: str | Path,
    *,
    apply: bool = False,
    force: bool = False,
    vocabulary: Vocabulary = Vocabulary.core,
    fs: Fs | None = None,
    clock: Callable[[], int] = epoch_ms,
) -> Repair:
    """Repair a log into a new file; with *apply* put that in its place and keep the damaged one.

    Raises :class:`SessionLocked` while its writer lives (for ``apply`` also, unless *force*, when nobody can tell),
    :class:`LogRefused` when not even a header is readable or the log is not format 0, and :class:`RewriteRefused`
    when the fault is the file's name.
    """
    log = locate(Path(path))
    if liveness(log) == "live" and not apply:
        raise SessionLocked(f"{log} is being written; a live session is never repaired, end its writer first")
    fs = fs if fs is not None else OsFs()
    if not apply:
        with writing(log):
            return _Repairing(log, vocabulary, fs, clock()).run()
    header = read_log(Source(log, forensic=True), vocabulary=vocabulary, forensic=True).header
    with held(log, header.id, placed=in_place(log, header), force=force), writing(log):
        return _Repairing(log, vocabulary, fs, clock()).run(apply=True)


class _Repairing:
    """One repair."""

    def __init__(self, path: Path, vocabulary: Vocabulary, fs: Fs, now: int) -> None:
        self._path = path
        self._vocabulary = vocabulary
        self._fs = fs
        self._now = now
        self._suffix = secrets.token_hex(6)

    def run(self, *, apply: bool = False) -> Repair:
        log = read_log(Source(self._path, forensic=True), vocabulary=self._vocabulary, forensic=True)
        findings = self._reasons(log)
        if not findings:
            return Repair(self._path, (), _state(log), events=log.rows.length)
        won = salvage(log, Source(self._path, forensic=True))
        mended = dict.fromkeys(_STUMBLES[one.code] for one in findings if one.code in _STUMBLES)
        remarks = (f"@{one.seq}: {one.text}" for one in won.main.remarks)
        repaired = self._write(won.main, "repaired")
        branches = tuple(self._write(other, "branch") for other in won.others)
        damaged = self._apply(repaired, won.main) if apply else None
        return Repair(
            path=self._path,
            findings=findings,
            reason="strict readers or dsh refuse it",
            said=(*mended, *won.said, *remarks),
            moved=tuple(won.main.moved),
            lost=(*won.main.lost, *won.lost),
            events=len(won.main.events),
            repaired=self._path if apply else repaired,
            branches=branches,
            damaged=damaged,
        )

    def _reasons(self, log: ReadLog) -> tuple[Finding, ...]:
        """What there is to repair. Raises for what a new file does not mend."""
        found = [one for one in log.findings if one.severity == "refused" or one.code in _STUMBLES]
        wrong_name = [one for one in found if one.code == "file-version"]
        if wrong_name:
            raise RewriteRefused(str(wrong_name[0]))
        if found and log.format.version != 0:
            raise LogUnsupported(
                Finding(
                    code="format",
                    severity="refused",
                    kind="unsupported",
                    place=Place(path=str(self._path)),
                    text=f"the log is stored in {log.format.name}, and only format 0 is written.",
                    remedy="turnlog convert --forensic makes a format-0 session of what is readable.",
                )
            )
        if log.compressed != is_compressed_name(self._path) and not found:
            holds, named = ("zstd frames", "plain text") if log.compressed else ("plain text", "zstd frames")
            text = f"the file holds {holds}, but its name says {named}; dsh goes by the name."
            found.append(Finding(code="container", severity="fault", text=text, place=Place(path=str(self._path))))
        return tuple(found)

    def _write(self, history: History, what: str) -> Path:
        lines = text_of(header_line(history.header), history.events)
        data = file_of(lines, compressed=is_compressed_name(self._path))
        again = read_log(Source(data), vocabulary=self._vocabulary)  # strict: what we give back has to open
        assert again.rows.length == len(history.events)
        return write_beside(self._fs, self._path, what, data, self._now, self._suffix)

    def _apply(self, repaired: Path, history: History) -> Path:
        damaged = link_beside(self._fs, self._path, "damaged", self._now)
        replace(self._fs, repaired, self._path)
        if parse_file(self._path) is not None:
            self._attest(history, damaged)
        return damaged

    def _attest(self, history: History, damaged: Path) -> None:
        """Keep the seals that still hold, note the repair, and seal what the repaired log says."""
        side = self._path.with_name(ATTEST_NAME)
        try:
            records = read_attestation(self._fs.read(side))[0]
            link_beside(self._fs, side, "damaged", self._now)
        except FileNotFoundError:
            records = []
        length = len(history.events)
        note = Note(length, f"repaired; the damaged log is kept as {damaged.name}", self._now)
        kept, hashed = _holding(history, records)
        data = b"".join(map(attest_line, [*kept, note, hashed.seal(self._now)]))
        fresh = temporary(side, self._suffix)
        write_new(self._fs, fresh, data, self._suffix)
        replace(self._fs, fresh, side)


def _holding(history: History, records: list[Record]) -> tuple[list[Record], RunningHash]:
    """The records that are true of the repaired log, and its hash."""
    hashed = RunningHash(history.header)
    kept: list[Record] = [one for one in records if isinstance(one, Note)]
    for seal in sorted((one for one in records if isinstance(one, Seal)), key=lambda one: one.seq):
        hashed.extend(history.events[hashed.length : seal.seq])
        if hashed.seal(seal.time) == seal:
            kept.append(seal)
    sealed = max((one.seq for one in kept if isinstance(one, Seal)), default=0)
    kept += [one for one in records if isinstance(one, ShownRequest) and one.seq <= sealed]
    hashed.extend(history.events[hashed.length :])
    return kept, hashed


def _state(log: ReadLog) -> str:
    if log.torn is not None:
        return f"{log.torn.reason}; that needs no repair, a resume cuts it off and goes on"
    return "strict readers open it; it needs no repair"
