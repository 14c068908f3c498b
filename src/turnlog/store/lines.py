"""The slow path for one line: accepts what the fast decoder is too strict for, and says exactly what is wrong.

The fast path decodes megabytes at once and only ever says yes. A block that it doubts comes here line by line. What
is legal but rare is kept (unknown event types, lone surrogates, spaces, CRLF); everything else becomes a
:class:`Fault` with the reason.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from turnlog.events.lenient import member_text, parse
from turnlog.events.lossless import MAX_SAFE
from turnlog.log.event import AnyEvent, event_class, event_decoder
from turnlog.log.rows import RUN_TYPES, PackedRun

from .formats import Format
from .packed import run_fault

ENVELOPE: Final = frozenset({"type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp", "ignorable"})


class Fault(NamedTuple):
    """Why a line is no event."""

    code: str
    text: str
    remedy: str | None = None
    event: AnyEvent | PackedRun | Unknown | None = None
    """The event (or row) all the same, where enough of it is readable to show it."""


class Unknown(NamedTuple):
    """An event whose type this reader does not know: kept whole and never interpreted."""

    event: AnyEvent
    required: bool
    """Whether its writer said that readers must know it."""


class LineReader:
    """Reads single lines of one format."""

    def __init__(self, format: Format, kind: type[AnyEvent]) -> None:
        self._format = format
        self._kind = kind
        self._decode = event_decoder(kind).decode
        self._loose: type[AnyEvent] | None = None

    def read(self, line: bytes) -> AnyEvent | PackedRun | Unknown | Fault:
        """One line without its newline (a trailing CR is white space)."""
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return Fault(
                "not-utf8",
                f"byte {error.start} of the line ({line[error.start]:#04x}) is not UTF-8.",
                "The text was damaged or written in another encoding; turnlog never guesses which.",
                self._fast(line),
            )
        event = self._fast(line)
        if event is not None:
            return event
        if b"\0" in line:
            return self._nul_fault(line)
        try:
            value = parse(line)
        except ValueError as error:
            return Fault("not-json", f"the line is not JSON: {_short(error)}.")
        if not isinstance(value, dict):
            return Fault("not-json", "the line is JSON but no object.")
        if isinstance(value.get("type"), str) and value["type"] in RUN_TYPES and self._format.packed:
            return self._run(line, value)
        return self._event(line, value)

    def _fast(self, line: bytes) -> AnyEvent | None:
        try:
            return self._decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

    def _nul_fault(self, line: bytes) -> Fault:
        start = line.index(b"\0")
        run = len(line[start:]) - len(line[start:].lstrip(b"\0"))
        rest = line.strip(b"\0")
        inside = self.read(rest) if rest and b"\0" not in rest else None
        return Fault(
            "nul-bytes",
            f"{run} NUL bytes at byte {start} of the line.",
            "A power cut left a hole in the file. turnlog verify --forensic shows what is around it.",
            None if isinstance(inside, Fault) else inside,
        )

    def _run(self, line: bytes, value: dict[str, Any]) -> PackedRun | Fault:
        fault = run_fault(value)
        if fault is not None:
            return Fault("packed-row", f"the packed row {fault}.")
        return PackedRun(value["type"], int(value["seq0"]), int(value["time0"]), Raw(member_text(line, "data")))

    def _event(self, line: bytes, value: dict[str, Any]) -> AnyEvent | Unknown | Fault:
        fault = _envelope_fault(value)
        if fault is not None and fault.code != "time":
            return fault
        event = self._build(line, value)
        if fault is not None:
            return fault if isinstance(event, Fault) else fault._replace(event=event)
        if isinstance(event, Fault):
            return event
        known = value["type"] in self._format_kinds
        if value.get("ignorable", True) is not True:
            if known:
                return Fault("envelope", "ignorable may be absent or true, nothing else.", None, event)
            return Unknown(event, required=True)
        return event if known else Unknown(event, required="ignorable" not in value)

    @property
    def _format_kinds(self) -> Any:
        return self._kind.codec.kinds

    def _build(self, line: bytes, value: dict[str, Any]) -> AnyEvent | Fault:
        operation: Any = value.get("surfaceOp", UNSET)
        if isinstance(operation, dict):
            try:
                operation = msgspec.convert(operation, self._format.replace)
            except msgspec.ValidationError as error:
                return Fault("surface", f"surfaceOp is no replace of {self._format.name}: {_short(error)}.")
        elif operation is not UNSET and operation != "append":
            return Fault("surface", 'surfaceOp is neither "append" nor a replace.')
        sources: Any = value.get("sourceEventSeqs", UNSET)
        if sources is not UNSET:
            if not isinstance(sources, list) or not all(map(_is_source, sources)):
                return Fault("sources", "sourceEventSeqs is no list of seqs.")
            sources = tuple(tuple(one) if isinstance(one, list) else int(one) for one in sources)
        ignorable: Any = True if value.get("ignorable") is True else UNSET
        kind = self._kind if value["type"] in self._format_kinds else self.loose
        return kind(
            value["type"],
            int(value["seq"]),
            int(value["time"]),
            Raw(member_text(line, "data")),
            operation,
            sources,
            ignorable,
        )

    @property
    def loose(self) -> type[AnyEvent]:
        """The event class for types that the format does not have."""
        if self._loose is None:
            self._loose = event_class(self._kind.codec, replace=self._format.replace, any_type=True)
        return self._loose


def _envelope_fault(value: dict[str, Any]) -> Fault | None:
    extra = sorted(value.keys() - ENVELOPE)
    if extra:
        return Fault("envelope", f"the event has a member {extra[0]!r} that no event has.")
    for name in ("type", "seq", "time", "data"):
        if name not in value:
            return Fault("envelope", f"the event has no {name!r}.")
    if not isinstance(value["type"], str):
        return Fault("envelope", "type is no string.")
    if not _is_seq(value["seq"]):
        return Fault("envelope", f"seq is {_show(value['seq'])}, not an integer from 0 to 2**53 - 1.")
    if not _is_int(value["time"]) or abs(value["time"]) > MAX_SAFE:
        code = "time" if _is_int(value["time"]) else "envelope"
        return Fault(
            code,
            f"time is {_show(value['time'])}, not epoch milliseconds within ±(2**53 - 1).",
            "Other readers cannot hold it.",
        )
    return None


def _is_int(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def _is_seq(value: Any) -> bool:
    return _is_int(value) and 0 <= value <= MAX_SAFE


def _is_source(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and _is_seq(value[0]) and _is_seq(value[1]) and value[0] <= value[1]
    return _is_seq(value)


def _show(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}…"


def _short(error: Exception) -> str:
    return str(error).removeprefix("JSON is malformed: ").rstrip(".")[:160]
