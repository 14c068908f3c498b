"""Repacking: the same log as plain lines or as zstd frames, its runs packed, its frames full.

What the log says stays: the rewritten file is read back and compared before it takes the place of the old one, and the
seals beside it stay valid, because they attest the logical log. A root has one encoding, or dsh refuses all of it; so
one session is only repacked when that does not mix encodings, and a root is looked through before anything is changed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from turnlog.log.session import epoch_ms

from .attest import Note, RunningHash, Seal
from .errors import LogRefused, RewriteRefused
from .fs import Fs, OsFs, write_new
from .liveness import LOCK_NAME, liveness
from .load import locate
from .names import log_files, parse_file, session_directories
from .read import ReadLog, read_log
from .rewrite import attest, encodings, file_of, held, in_place, replace, root_of, temporary, text_of, writing
from .source import Source

_NAMED = 5
"""Sessions that a refusal names."""


@dataclass(frozen=True)
class Repacked:
    """One log file that was repacked."""

    path: Path
    """What it is called now."""
    compressed: bool
    before: int
    """Bytes it had."""
    after: int
    """Bytes it has."""
    cut: str | None = None
    """The unfinished tail that was left out, if there was one."""


def repack(
    path: str | Path,
    *,
    compressed: bool,
    force: bool = False,
    cut_torn: bool = False,
    fs: Fs | None = None,
    clock: Callable[[], int] = epoch_ms,
) -> tuple[Repacked, ...]:
    """Repack a log file, or every generation of a session that lies in a root.

    *force* takes sessions whose writer may live because they have no lock file; *cut_torn* leaves out an unfinished
    tail. Raises :class:`SessionLocked`, :class:`LogRefused` for a damaged log, and :class:`RewriteRefused` for a torn
    one or where a root would mix encodings; then nothing is changed.
    """
    log = locate(Path(path))
    read = read_log(Source(log))
    placed = in_place(log, read.header)
    if placed:
        _refuse_mixing(log, compressed)
    run = _Repacking(compressed, cut_torn, fs if fs is not None else OsFs(), clock())
    with held(log, read.header.id, placed=placed, force=force):
        files = [one.path for one in log_files(log.parent)] if placed else [log]
        for file in files:
            run.check(file)
        return tuple(run.repack(file) for file in files)


def repack_root(
    root: str | Path,
    *,
    compressed: bool,
    force: bool = False,
    cut_torn: bool = False,
    fs: Fs | None = None,
    clock: Callable[[], int] = epoch_ms,
) -> tuple[Repacked, ...]:
    """Repack every session under *root*, one after the other.

    When one of them is being written, damaged or torn, this raises :class:`RewriteRefused` naming them before anything
    is changed. Interrupted, it is done by running it again.
    """
    run = _Repacking(compressed, cut_torn, fs if fs is not None else OsFs(), clock())
    sessions = [
        (directory, [one.path for one in log_files(directory)]) for directory in session_directories(Path(root))
    ]
    reasons = [reason for directory, files in sessions if files for reason in _obstacles(run, directory, files, force)]
    if reasons:
        more = f" (and {len(reasons) - _NAMED} more)" if len(reasons) > _NAMED else ""
        raise RewriteRefused(f"nothing under {root} was changed: {' · '.join(reasons[:_NAMED])}{more}")
    done: list[Repacked] = []
    for directory, files in sessions:
        with held(files[-1], directory.name, placed=True, force=force):
            done += [run.repack(file) for file in files]
    return tuple(done)


def _obstacles(run: _Repacking, directory: Path, files: list[Path], force: bool) -> Iterator[str]:
    """Why a session cannot be repacked."""
    if liveness(files[-1]) == "live":
        yield f"{directory} is being written"
    elif not force and not (directory / LOCK_NAME).exists():
        yield f"{directory} has no lock file, so dsh may be writing it; end dsh, then use --force"
    for file in files:
        try:
            run.check(file)
        except (LogRefused, RewriteRefused) as error:
            yield str(error)


def _refuse_mixing(log: Path, compressed: bool) -> None:
    root, directory = root_of(log), log.absolute().parent
    assert root is not None
    own = root / directory.parent.name / directory.name
    other = [one for one in session_directories(root) if one != own and encodings(one) - {compressed}]
    if other:
        is_now, would = ("plain", "compressed") if compressed else ("compressed", "plain")
        raise RewriteRefused(
            f"session {own.name}: its root holds {len(other)} more that are {is_now}, and dsh refuses a root with one "
            f"that is {would}; repack the whole root: --root {root}"
        )


class _Repacking:
    """Repacks files one way."""

    def __init__(self, compressed: bool, cut_torn: bool, fs: Fs, now: int) -> None:
        self._compressed = compressed
        self._cut_torn = cut_torn
        self._fs = fs
        self._now = now

    def check(self, file: Path) -> ReadLog:
        """Read a log that is to be repacked. Raises what keeps it from that; changes nothing."""
        log = read_log(Source(file))
        if log.format.version < 0:
            raise RewriteRefused(f"{file} has no session header; turnlog convert makes a session of it")
        if log.torn is not None and not self._cut_torn:
            raise RewriteRefused(
                f"{file}: {log.torn.reason}; resume the session, which cuts that off, or leave it out with --cut-torn"
            )
        target = self._target(file)
        if target != file and target.exists():
            raise RewriteRefused(f"{file} and {target.name} are two files of one generation; move one of them away")
        return log

    def _target(self, file: Path) -> Path:
        name = file.name.removesuffix(".zstd") + (".zstd" if self._compressed else "")
        return file.with_name(name)

    def repack(self, file: Path) -> Repacked:
        """Write the new file, compare, and let it take the old one's place and the name of its encoding."""
        with writing(file):
            return self._repack(file)

    def _repack(self, file: Path) -> Repacked:
        log = self.check(file)
        old = file.read_bytes()
        new = file_of(_lines(log, file), compressed=self._compressed)
        cut = None if log.torn is None else f"{log.torn.size} bytes: {log.torn.reason}"
        if new != old:
            _compare(log, new)
            suffix = secrets.token_hex(6)
            fresh = temporary(file, suffix)
            write_new(self._fs, fresh, new, suffix)
            replace(self._fs, fresh, file)
        target = self._target(file)
        if target != file:
            replace(self._fs, file, target)
        if cut is not None and parse_file(file) is not None:
            attest(self._fs, file.parent, Note(log.rows.length, f"repacked without the last {cut}", self._now))
        return Repacked(target, self._compressed, len(old), len(new), cut)


def _lines(log: ReadLog, file: Path) -> list[bytes]:
    """The lines of the new file: the header as it is; the events packed, or as they are in other formats."""
    stored = (line.removesuffix(b"\r") for line in Source(file).lines())
    lines = [line for line in stored if line.strip()]
    header = lines[0].removeprefix(b"\xef\xbb\xbf")
    if log.format.version == 0:
        return text_of(header, list(log.rows.iterate(log.rows.base, log.rows.length)))
    return [line + b"\n" for line in (header, *lines[1:])]


def _compare(log: ReadLog, new: bytes) -> None:
    """The new file must say what the old one says."""
    again = read_log(Source(new))
    if _seal(again) != _seal(log):
        raise AssertionError("the repacked log differs from the stored one; nothing was changed")


def _seal(log: ReadLog) -> Seal:
    hashed = RunningHash(log.header)
    hashed.extend(log.rows.iterate(log.rows.base, log.rows.length))
    return hashed.seal(0)
