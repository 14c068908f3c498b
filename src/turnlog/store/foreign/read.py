"""Reading a foreign file: one pass over its lines, each mapped by its program's mapper or kept as it is.

Nothing is dropped. A line that is no JSON object becomes an event that holds its text; a record that is not mapped
becomes an event named for it that holds its JSON byte for byte. A last line without its end is a torn tail: the program
may be writing it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from turnlog.events import Vocabulary
from turnlog.events.lenient import parse
from turnlog.events.lossless import dump
from turnlog.log import SessionHeader
from turnlog.log.event import SURFACE_TYPES, AnyEvent, event_class

from ..errors import LogCorrupt
from ..finding import Finding, Place, Severity
from ..formats import Format
from ..source import Block, Source, Torn
from .builder import Builder
from .chat import ChatMapper
from .claude import ClaudeMapper
from .codex import CodexMapper
from .dialect import Dialect, Kind
from .moments import epoch_ms
from .origins import Origins
from .record import Record, is_deep
from .session import UNREADABLE, About
from .step import From

_BOM: Final = b"\xef\xbb\xbf"
_PADDING: Final = b" \t\r\0"
"""What may surround a record: NUL where a disk lost what was written."""


_DEEPEST: Final = 200
"""Levels that a record may have; an event around it adds a few to what every part of the program can hold."""
_SIDECHAIN: Final = re.compile(rb'"isSidechain"\s*:\s*(true|false)')


class _Mapper(Protocol):
    def take(self, record: Record) -> None: ...


_MAPPERS: Final[dict[Kind, Callable[[Builder, About], _Mapper]]] = {
    "claude-code": ClaudeMapper,
    "codex": CodexMapper,
    "chat": ChatMapper,
}


@cache
def format_of(dialect: Dialect) -> Format:
    """The format of a dialect's logs as views see them: format 0's shapes, under the program's name."""
    return Format(dialect.name, dialect.version, SURFACE_TYPES, MappingProxyType({}))


@lru_cache(maxsize=8)
def _event_kind(dialect: Dialect, vocabulary: Vocabulary) -> type[AnyEvent]:
    return event_class(format_of(dialect).codec(vocabulary.kinds), any_type=True)


class ForeignReader:
    """One pass over one file."""

    def __init__(self, source: Source, dialect: Dialect, vocabulary: Vocabulary, *, forensic: bool) -> None:
        self._source = source
        self._forensic = forensic
        self.format: Final = format_of(dialect)
        self.origins: Final = Origins(dialect)
        self._builder = Builder(_event_kind(dialect, vocabulary), self.origins)
        self._about = About(named=_named(source.path))
        self._mapper = _MAPPERS[dialect.kind](self._builder, self._about)
        self._noted: set[str] = set()
        self._told = 0
        self.findings: Final[list[Finding]] = []
        self.torn: Torn | None = None
        self.rows = self._builder.rows
        self.surface = self._builder.surface

    def read(self, blocks: Iterator[Block]) -> SessionHeader:
        """Read all lines; gives the session's header. Raises :class:`LogCorrupt` for a container that is damaged."""
        first = True
        for block in blocks:
            if first:
                self._about.only_sidechains = _only_sidechains(block.text)
                first = False
            self._container()
            for number, offset, line in block.numbered():
                self._line(line, number, offset, block)
        self._container()
        self._builder.finish()
        self._torn_note()
        return self._header()

    # -- lines --------------------------------------------------------------------------------------------------

    def _line(self, line: bytes, number: int, offset: int, block: Block) -> None:
        size = len(line)
        if number == 1 and line.startswith(_BOM):
            self._note(
                "bom", "the file begins with a byte order mark, which was skipped.", "note", block, number, offset
            )
            line = line[3:]
        if line.endswith(b"\r"):
            self._note("crlf", "lines end in CR LF; the CR is skipped.", "note", block, number, offset)
        text = line.strip(_PADDING)
        if not text and b"\0" not in line:
            self._note("blank-line", "blank lines are skipped.", "note", block, number, offset)
            return
        if b"\0" in line:
            lost = "there are NUL bytes between the records; what they took the place of is lost."
            self._note("nul-bytes", lost, "fault", block, number, offset)
        reason = self._record(text, number)
        if reason is None:
            return
        if text and not block.text.endswith(b"\n") and offset + size >= block.offset + len(block.text):
            at = block.place(self._source.name, number, offset).offset or 0
            self.torn = Torn(at, size, f"the last {size} bytes are a record that was not finished")
            return
        self._keep_unreadable(text, number, reason, size)
        told = f"line {number} is no record ({reason}); it is kept as it is."
        self._note("unreadable-line", told, "fault", block, number, offset, once=False)

    def _record(self, text: bytes, number: int) -> str | None:
        """Map a line; why it cannot be, or None."""
        try:
            value = parse(text)
        except ValueError as error:
            return str(error)
        if not isinstance(value, dict):
            return "it is JSON but no object"
        if text.count(b"{") + text.count(b"[") > _DEEPEST and is_deep(value, _DEEPEST):
            return f"it is nested deeper than {_DEEPEST} levels"
        time = epoch_ms(value.get("timestamp", value.get("created_at", value.get("created"))))
        self._mapper.take(Record(number, text, value, time))
        return None

    def _keep_unreadable(self, text: bytes, number: int, reason: str, size: int) -> None:
        said: dict[str, object] = {"reason": reason, "bytes": size}
        try:
            said["text"] = text.decode()
        except UnicodeDecodeError:
            said["base64"] = b64encode(text).decode()
        self._builder.keep(UNREADABLE, dump(said), From(number, None))

    # -- findings -----------------------------------------------------------------------------------------------

    def _note(
        self, code: str, text: str, severity: Severity, block: Block, line: int, offset: int, *, once: bool = True
    ) -> None:
        if once and code in self._noted:
            return
        self._noted.add(code)
        place = block.place(self._source.name, line, offset)
        self.findings.append(Finding(code=code, severity=severity, text=text, place=place))

    def _container(self) -> None:
        """What the container has to say: nothing for a plain file."""
        new, self._told = self._source.findings[self._told :], len(self._source.findings)
        for finding in new:
            if finding.severity == "refused" and not self._forensic:
                raise LogCorrupt(finding)
            self.findings.append(finding)

    def _torn_note(self) -> None:
        self.torn = self.torn if self.torn is not None else self._source.torn
        if self.torn is not None:
            text = f"{self.torn.reason}, from byte {self.torn.offset} on."
            place = Place(path=self._source.name, offset=self.torn.offset)
            remedy = "Its program may be writing it; ask again."
            self.findings.append(Finding(code="torn-tail", severity="note", text=text, place=place, remedy=remedy))

    # -- the session --------------------------------------------------------------------------------------------

    def _header(self) -> SessionHeader:
        about = self._about
        return SessionHeader(
            version=self.format.version,
            id=about.id or about.named or "unknown",
            created_at=self._builder.first_time or 0,
            cwd=about.cwd,
            parent_session=about.parent,
            seed_length=about.seed,
            origin="subagent" if about.subagent else None,
            delegation_depth=1 if about.subagent else 0,
        )


def _named(path: Path | None) -> str | None:
    return None if path is None else path.name.split(".jsonl")[0] or None


def _only_sidechains(text: bytes) -> bool:
    """Whether a file begins as a sub-agent's: its first conversation records are all marked."""
    marks = {found[1] for found in _SIDECHAIN.finditer(text, 0, 1 << 20)}
    return marks == {b"true"}
