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
from turnlog.events.lossless import MAX_SAFE, freeze
from turnlog.log.event import AnyEvent
from turnlog.log.rows import RUN_TYPES, PackedRun

from .classes import LineClasses
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

    def __init__(self, classes: LineClasses) -> None:
        self._classes = classes
        self._format = classes.format
        self._kind = classes.kind
        self._decode = classes.events.decode

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
        fault = _unreadable(value)
        if fault is not None:
            return fault
        operation, sources, fault = self._placing(value)
        fault = _odd(value) or fault
        allowed, known = value.get("ignorable", True) is True, value["type"] in self._kind._codec.kinds
        if known and not allowed:
            fault = fault or Fault("envelope", "ignorable may be absent or true, nothing else.")
        stored: Any = freeze(value["ignorable"]) if "ignorable" in value and (allowed or not known) else UNSET
        kind = self._kind if known else self._classes.loose
        event = kind(
            value["type"],
            int(value["seq"]),
            int(value["time"]),
            Raw(member_text(line, "data")),
            operation,
            sources,
            stored,
        )
        found = event if known else Unknown(event, required=not allowed or "ignorable" not in value)
        return found if fault is None else fault._replace(event=found)

    def _placing(self, value: dict[str, Any]) -> tuple[Any, Any, Fault | None]:
        """Surface operation and sources, or UNSET where they are none, and why."""
        operation: Any = value.get("surfaceOp", UNSET)
        sources: Any = value.get("sourceEventSeqs", UNSET)
        fault = None
        if sources is not UNSET:
            if isinstance(sources, list) and all(map(_is_source, sources)):
                sources = tuple(tuple(one) if isinstance(one, list) else int(one) for one in sources)
            else:
                sources, fault = UNSET, Fault("sources", "sourceEventSeqs is no list of seqs.")
        if isinstance(operation, dict):
            try:
                operation = msgspec.convert(operation, self._format.replace)
            except msgspec.ValidationError as error:
                fault = Fault("surface", f"surfaceOp is no replace of {self._format.name}: {_short(error)}.")
                operation = UNSET
        elif operation is not UNSET and operation != "append":
            operation, fault = UNSET, Fault("surface", 'surfaceOp is neither "append" nor a replace.')
        return operation, sources, fault


def _unreadable(value: dict[str, Any]) -> Fault | None:
    """Why nothing of an event can be shown, or None."""
    for name in ("type", "seq", "time", "data"):
        if name not in value:
            return Fault("envelope", f"the event has no {name!r}.")
    if not isinstance(value["type"], str):
        return Fault("envelope", "type is no string.")
    if not _is_seq(value["seq"]):
        return Fault("envelope", f"seq is {_show(value['seq'])}, not an integer from 0 to 2**53 - 1.")
    return None if _is_int(value["time"]) else _bad_time("envelope", value)


def _odd(value: dict[str, Any]) -> Fault | None:
    """What a readable event may not have in its envelope, or None."""
    extra = sorted(value.keys() - ENVELOPE)
    if extra:
        return Fault("envelope", f"the event has a member {extra[0]!r} that no event has.")
    return _bad_time("time", value) if abs(value["time"]) > MAX_SAFE else None


def _bad_time(code: str, value: dict[str, Any]) -> Fault:
    return Fault(
        code,
        f"time is {_show(value['time'])}, not epoch milliseconds within ±(2**53 - 1).",
        "Other readers cannot hold it.",
    )


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
