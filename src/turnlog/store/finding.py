"""`Finding`: one thing a reader noticed about a stored log, with its place and its remedy."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Severity: TypeAlias = Literal["refused", "fault", "note"]
"""``refused``: strict readers refuse the log. ``fault``: readable, but not what a correct writer writes. ``note``:
legal and worth knowing."""


class Place(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where in a file: plain logs have lines, compressed ones also frames."""

    path: str | None = None
    line: int | None = None
    """Line of the (decompressed) text, from 1."""
    offset: int | None = None
    """Byte of the file (for compressed logs: of the frame)."""
    frame: int | None = None
    """Frame of the file, from 1."""

    def __str__(self) -> str:
        parts = [] if self.path is None else [self.path]
        parts += [
            f"{name} {value}"
            for name, value in (("line", self.line), ("frame", self.frame), ("byte", self.offset))
            if value is not None
        ]
        return ", ".join(parts)


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing a reader noticed."""

    code: str
    """Stable kebab-case name: ``seq-gap``, ``torn-tail``, ``unknown-type``, …"""
    severity: Severity
    text: str
    """The fact, in one sentence."""
    place: Place
    seq: int | None = None
    remedy: str | None = None
    kind: Literal["corrupt", "unsupported"] = "corrupt"
    """Of refusals: damage, or something newer than this build."""

    def __str__(self) -> str:
        where = str(self.place)
        text = f"{where}: {self.text}" if where else self.text
        return f"{text} {self.remedy}" if self.remedy else text
