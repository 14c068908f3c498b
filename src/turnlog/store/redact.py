"""`redact`: a copy of a stored log without its secrets; the log itself is not changed.

Seqs, times and everything else stay as they are. Deltas of one block are searched as the one text they are: a secret
that the stream cut in pieces is found, its block's text then stands whole in its first delta.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from turnlog.events.lenient import parse
from turnlog.events.lossless import dump, freeze, thaw
from turnlog.log import AnyEvent
from turnlog.log.event import event_decoder
from turnlog.log.redaction import Redactor
from turnlog.log.session import epoch_ms

from .errors import RewriteRefused
from .fs import Fs, OsFs
from .header import header_line
from .load import locate
from .read import read_log
from .rewrite import file_of, is_compressed_name, text_of, write_beside, writing
from .source import Source

_TEXTS: Final = {"text-delta": "text", "reasoning-delta": "text", "tool-call-delta": "argumentsDelta"}
"""Where each kind of delta has its piece of text."""


@dataclass(frozen=True)
class Redaction:
    """What was taken out."""

    path: Path
    """The copy."""
    events: int
    hits: Counter[str]
    """How often each rule found something."""
    seqs: tuple[int, ...]
    """The events that are not as they were."""


def redact(
    log: str | Path,
    redactor: Redactor,
    *,
    fs: Fs | None = None,
    clock: Callable[[], int] = epoch_ms,
) -> Redaction:
    """Write ``<log>.redacted-<time>`` beside *log*.

    Raises ``LogRefused`` for a log that strict readers refuse, :class:`RewriteRefused` for one that is not format 0.
    """
    path = locate(Path(log))
    assert isinstance(path, Path)
    read = read_log(Source(path))
    if read.format.name != "format 0":
        raise RewriteRefused(
            f"{path} is {read.format.name}; only format 0 is redacted: turnlog convert makes one of it"
        )
    copy = _Copy(redactor)
    events = copy.of(list(read.rows.iterate(read.rows.base, read.rows.length)))
    data = file_of(text_of(header_line(read.header), events), compressed=is_compressed_name(path))
    with writing(path):
        made = write_beside(fs if fs is not None else OsFs(), path, "redacted", data, clock(), secrets.token_hex(6))
    return Redaction(made, len(events), copy.hits, tuple(sorted(copy.seqs)))


@dataclass
class _Block:
    """The deltas of one block of one attempt."""

    places: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)


class _Copy:
    """A log with its secrets replaced."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.hits: Counter[str] = Counter()
        self.seqs: set[int] = set()
        self._data: dict[int, Any] = {}

    def of(self, events: list[AnyEvent]) -> list[AnyEvent]:
        """The events, changed where something was found."""
        blocks: dict[tuple[object, ...], _Block] = {}
        for place, event in enumerate(events):
            data = parse(event.raw)
            if event.type == "assistant/chunk" and (name := _TEXTS.get(data["chunk"].get("type", ""))):
                self._gather(blocks, place, data, name)
            else:
                if event.type == "assistant/chunk" and data["chunk"].get("type") in ("block-end", "finish"):
                    self._flush(blocks, events, data)
                self._value(place, event.seq, data)
        for block in blocks.values():
            self._block(block, events)
        return [self._changed(event, self._data.get(place)) for place, event in enumerate(events)]

    def _gather(self, blocks: dict[tuple[object, ...], _Block], place: int, data: Any, name: str) -> None:
        chunk = data["chunk"]
        block = blocks.setdefault((data["turn"], data["step"], chunk["index"], chunk["type"]), _Block())
        block.places.append(place)
        block.pieces.append(chunk[name])

    def _flush(self, blocks: dict[tuple[object, ...], _Block], events: Iterable[AnyEvent], data: Any) -> None:
        """A block is over, or with ``finish`` the whole attempt: what follows at its index is another text."""
        index = data["chunk"].get("index")
        over = [key for key in blocks if index is None or key[:3] == (data["turn"], data["step"], index)]
        for key in over:
            self._block(blocks.pop(key), events)

    def _block(self, block: _Block, events: Any) -> None:
        found = self._redactor.redact("".join(block.pieces))
        if not found.hits:
            return
        self.hits.update(found.hits)
        for number, place in enumerate(block.places):
            data = parse(events[place].raw)
            chunk = data["chunk"]
            chunk[_TEXTS[chunk["type"]]] = found.text if number == 0 else ""
            self._data[place] = data
            self.seqs.add(events[place].seq)

    def _value(self, place: int, seq: int, data: Any) -> None:
        old = freeze(data)
        new = self._redactor.value(old)
        if new is not old:
            self.hits.update(_hits(self._redactor, data))
            self._data[place] = thaw(new)
            self.seqs.add(seq)

    def _changed(self, event: AnyEvent, data: Any) -> AnyEvent:
        if data is None:
            return event
        line = parse(event.line())
        line["data"] = data
        return event_decoder(type(event)).decode(dump(line))


def _hits(redactor: Redactor, value: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    if isinstance(value, str):
        found.update(redactor.redact(value).hits)
    elif isinstance(value, dict):
        for member in value.values():
            found.update(_hits(redactor, member))
    elif isinstance(value, list):
        for member in value:
            found.update(_hits(redactor, member))
    return found
