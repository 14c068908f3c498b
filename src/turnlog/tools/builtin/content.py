"""Files as text: read whole, written in one step, compared for people."""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path
from typing import Final
from uuid import uuid4

from ..context import ToolContext
from ..errors import ToolFailure
from ..files import snapshot

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a file these tools handle; larger ones are for bash."""
DIFF: Final = 400
"""Lines of a diff that are shown in a result."""
_SNIFFED: Final = 8192


def read_file(path: Path, name: str) -> bytes:
    """Its bytes, or a :class:`ToolFailure` in words the model can act on."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ToolFailure(f"{name} is a directory; use glob to see what is in it")
        if not stat.S_ISREG(status.st_mode):
            raise ToolFailure(f"{name} is no regular file")
        if status.st_size > LARGEST:
            raise ToolFailure(f"{name} has {status.st_size} bytes, more than {LARGEST}; look at parts of it with bash")
        return path.read_bytes()
    except FileNotFoundError:
        raise ToolFailure(f"{name} does not exist{_similar(path)}") from None
    except OSError as error:
        raise ToolFailure(f"{name} cannot be read: {error.strerror}") from None


def is_binary(content: bytes) -> bool:
    """Whether it looks like no text."""
    return b"\0" in content[:_SNIFFED]


def write_file(ctx: ToolContext, path: Path, name: str, content: bytes) -> None:
    """Put *content* in place in one step, keeping the mode of what was there; whoever reads sees old or new.

    Refuses a file that was not read, or changed since. The new state counts as read.
    """
    exists = path.exists()
    if exists and (fault := ctx.files.fault(path)) is not None:
        raise ToolFailure(f"{name} {fault}")
    temporary = path.with_name(f".{path.name[:100]}.{uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_new(temporary, content, path if exists else None)
            if not exists and path.exists():
                raise ToolFailure(f"{name} appeared meanwhile; read it first")
            if exists and (fault := ctx.files.fault(path)) is not None:
                raise ToolFailure(f"{name} {fault}")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        ctx.files.record(path, snapshot(path, content))
    except OSError as error:
        raise ToolFailure(f"{name} cannot be written: {error.strerror}") from None


def _write_new(path: Path, content: bytes, like: Path | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if like is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if like is not None:
            status = like.stat()
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                _give(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        file.flush()
        os.fsync(descriptor)


def _give(descriptor: int, uid: int, gid: int) -> None:
    try:
        os.fchown(descriptor, uid, gid)
    except PermissionError:
        return  # then it is ours from now on


def diff(before: str, after: str, name: str) -> str:
    """A unified diff of two texts."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}", lineterm="")
    return "\n".join(line.rstrip("\n") for line in lines)


def short(text: str) -> str:
    """The first lines of a diff."""
    lines = text.split("\n")
    if len(lines) <= DIFF:
        return text
    return "\n".join([*lines[:DIFF], f"[… {len(lines) - DIFF} more lines …]"])


def _lines(text: str) -> list[str]:
    """Split at newlines alone; a last line without one says so, as diff does."""
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _similar(path: Path) -> str:
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return f", and neither does the directory {path.parent}"
    close = difflib.get_close_matches(path.name, names, 3)
    return f"; there is {', '.join(close)}" if close else ""
