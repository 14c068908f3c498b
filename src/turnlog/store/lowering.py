"""Lowering: the events of any format as format 0 has them (dsh-formats §6-8, backwards).

Streams that formats 2 to 4 keep inside a message become chunk events with their recorded times; prompts that formats 3
and 4 keep as messages go into the request header; format 4's results and sources get their old shapes. What format 0
has no place for is left out. Every such change is told, and a lost one is told as a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from turnlog.events import ToolCallBlock, UndecodablePayload, Vocabulary
from turnlog.events.codec import encode
from turnlog.events.legacy import NORMALIZERS, RENAMED
from turnlog.events.lenient import parse
from turnlog.events.lossless import dump
from turnlog.log import AnyEvent

from .formats import SAMPLE, Format
from .formats.v4 import joined, members
from .renumber import Draft

_PLUGIN_OF_KIND: Final = {
    "compact-basic": "dsh-compaction-basic",
    "compact-checkpoint": "compact",
    "ptc-mode": "tools-code-mode",
    "runtime-context": "@deepseek-ai/dsh-system-prompt",
    "system-prompt": "@deepseek-ai/dsh-system-prompt",
}
"""Format 4's source kinds that were plugin sources under another name (dsh-formats §7)."""
_RENAMED: Final = {
    **RENAMED,
    "steering/message": "user/message",
    "tool/ptc-dispatch": "tool/code-dispatch",
    "tool/ptc-dispatch-start": "tool/code-dispatch-start",
}
_UNRECORDED: Final = {"kind": "model", "provider": "unrecorded", "model": "unrecorded"}
_LATE: Final[Mapping[str, frozenset[str]]] = {
    "assistant/message": frozenset({"content", "provenance", "stream"}),
    "tool/result": frozenset({"callId", "content", "isError"}),
}
"""Members of a message event that became the message, or the chunks before it."""
_DELTAS: Final = {"text-chunks": "text-delta", "reasoning-chunks": "reasoning-delta"}
_RUNS: Final = frozenset({*_DELTAS, "tool-call-chunks"})


class Change(NamedTuple):
    """One thing that is not as it was."""

    code: str
    text: str
    lost: bool
    """Whether something cannot be told from the new log any more."""


_CHANGES: Final[Mapping[str, Change]] = {
    one.code: one
    for one in (
        Change("developer-message", "a developer message, which format 0 has no role for, was left out", True),
        Change("dropped-type", "an event of a type that dsh 0.1 does not know was left out", True),
        Change("envelope", "display metadata of a user message (its envelope) was left out", True),
        Change("forked", "a turn that ended because it was forked is interrupted now", True),
        Change("ignorable", "an event of a type that format 0 does not have is kept, marked ignorable", False),
        Change("attempt", "a failed attempt became its chunks", False),
        Change("attempt-members", "members of a failed attempt besides its stream were left out", True),
        Change("header-members", "members of a request header that format 0 does not have were left out", True),
        Change("late-id", "the deltas of a call that came before its id have it now", False),
        Change("no-header", "a system prompt without a request header after it was left out", True),
        Change("old-shape", "an old shape of the data was brought up to date", False),
        Change("renamed", "an event type has its format-0 name again", False),
        Change("series", "a request header that started a series is a change now", True),
        Change("source", "a source has its format-0 shape again", False),
        Change("stream", "a stream became chunk events", False),
        Change("system-extra", "parts of a system prompt that are no text were left out", True),
        Change("system-header", "a request header was added for a prompt that changed without one", False),
        Change("system-message", "a system message became the request header's system", True),
        Change("unrecorded", "the log does not say where a message came from; a source was filled in", False),
        Change("usage-total", "totalTokens, a sum of the other figures, was left out", True),
    )
}


class Lowering:
    """Lowers the events of one log, in order."""

    def __init__(self, format: Format, session_id: str, *, known_only: bool) -> None:
        """*known_only*: leave out what dsh's 48-type reader does not know, ignorable or not."""
        self._format = format
        self._id = session_id
        self._known_only = known_only
        self._system = ""
        self._header: dict[str, Raw] | None = None
        self._header_system = ""
        self._calls: dict[int, str] = {}
        self.changes: dict[str, list[int]] = {}
        """Code of a change → seqs of the events that it happened to."""
        self.streams: dict[int, int] = {}
        """Seq of an event that held a stream → how many chunks it became."""

    def told(self, code: str) -> Change:
        """What a code of :attr:`changes` means."""
        return _CHANGES[code]

    def learn(self, events: Iterable[AnyEvent]) -> None:
        """Take in the log before it is lowered: answers tell the ids of calls whose chunks did not know them yet."""
        for event in events:
            if event.type != "assistant/message" or event.message is None:
                continue
            calls = [block.id for block in event.message.content if isinstance(block, ToolCallBlock)]
            if len(calls) == 1:
                self._calls.update(dict.fromkeys(event.sources or (), calls[0]))

    def lower(self, event: AnyEvent) -> Iterator[Draft]:
        """What an event becomes; the last draft has its seq."""
        if self._shapeless(event):
            yield from self._as_it_is(event)
            return
        match event.type:
            case "system/message":
                self._prompt(event)
            case "developer/message":
                self._change("developer-message", event)
            case "assistant/attempt":
                yield from self._attempt(event)
            case "assistant/message":
                yield from self._prompted(event)
                yield from self._answer(event)
            case "user/message" | "steering/message" | "tool/result":
                yield Draft.of(event, type=self._type(event), raw=self._wrapped(event))
            case "request/header":
                yield Draft.of(event, raw=self._request_header(event))
            case _:
                yield from self._other(event)

    def _shapeless(self, event: AnyEvent) -> bool:
        """Whether an event's data is not what its type holds, so that nobody can tell how to lower it."""
        if event.type == "assistant/chunk" and self._format is not SAMPLE:
            return False
        if event.type == "assistant/attempt":
            value = _value(event.raw)
            return not (isinstance(value, dict) and value.keys() >= {"turn", "step"})
        return isinstance(event.data, UndecodablePayload)

    def _as_it_is(self, event: AnyEvent) -> Iterator[Draft]:
        """``verify`` says what is wrong with it, here and there."""
        known = event.type in Vocabulary.core
        if not known and self._known_only:
            self._change("dropped-type", event)
            return
        yield Draft.of(event, ignorable=event.ignorable or not known)

    def _change(self, code: str, event: AnyEvent) -> None:
        self.changes.setdefault(code, []).append(event.seq)

    def _type(self, event: AnyEvent) -> str:
        name = _RENAMED.get(event.type, event.type)
        if name != event.type:
            self._change("renamed", event)
        return name

    # -- log-only events ----------------------------------------------------------------------------------------

    def _other(self, event: AnyEvent) -> Iterator[Draft]:
        name = self._type(event)
        if name not in Vocabulary.core:
            if self._known_only:
                self._change("dropped-type", event)
                return
            if not event.ignorable:
                self._change("ignorable", event)
            yield Draft.of(event, ignorable=True)
            return
        raw = event.raw
        if self._format is SAMPLE:
            raw = encode(event.data)
        if name == "assistant/chunk":
            raw = self._named_call(event, raw)
        elif self._format is not SAMPLE:
            raw = self._plain(name, event)
        yield Draft.of(event, type=name, raw=raw, ignorable=False)

    def _named_call(self, event: AnyEvent, raw: bytes) -> bytes:
        if b'"id":""' not in raw or event.seq not in self._calls:
            return raw
        data = members(raw)
        return joined({**data, "chunk": Raw(self._identified(bytes(data["chunk"]), self._calls[event.seq], event))})

    def _plain(self, name: str, event: AnyEvent) -> bytes:
        """The data of a log-only event; the same bytes where nothing has to change."""
        raw = event.raw
        value = _value(raw)
        if not isinstance(value, dict):
            return raw
        match name:
            case "session/end-seed":
                return b"{}"
            case "turn/start" if "trigger" in value:
                self._change("old-shape", event)
                return dump({"turn": value["turn"]})
            case "turn/end":
                return self._turn_end(event, value)
            case "request/context" if "systemPromptUpdate" in value:
                self._change("header-members", event)
                return _without(raw, "systemPromptUpdate")
            case "agent-preset/selected" if value.get("agentPreset") == "ptc" and self._format.version >= 3:
                return dump({**value, "agentPreset": "code"})
            case "agent/inbox/spliced" if value.get("inserted") and self._format.version >= 3:
                stored = [dump(one) for one in value["inserted"]]
                inserted = [self._sourced(one, event) for one in stored]
                return (
                    raw
                    if inserted == stored
                    else joined({**members(raw), "inserted": Raw(b"[%b]" % b",".join(inserted))})
                )
            case _:
                return raw

    def _turn_end(self, event: AnyEvent, value: dict[str, Any]) -> bytes:
        _name, now = NORMALIZERS["turn/end"](value, "")
        if now != value:
            self._change("old-shape", event)
        elif isinstance(now.get("reason"), dict) and now["reason"].get("kind") == "forked":
            self._change("forked", event)
            now = {**now, "reason": {"kind": "interrupted"}}
        return event.raw if now == value else dump(now)

    # -- messages -----------------------------------------------------------------------------------------------

    def _wrapped(self, event: AnyEvent) -> bytes:
        """The data of a message event, its message in format 0's shape."""
        message = event.message_json
        if self._format is SAMPLE:
            self._change("old-shape", event)
        if event.type in ("user/message", "steering/message"):
            if "envelope" in (members(event.raw) if b'"envelope"' in event.raw else ()):
                self._change("envelope", event)
            elif message != event.raw and self._format is not SAMPLE:
                self._change("old-shape", event)
            return self._sourced(message, event)
        data: dict[str, Any] = dict(members(event.raw))
        if self._format is SAMPLE:
            data = dict(members(encode(event.data)))
        elif "message" not in data:
            self._change("old-shape", event)
        kept = {name: member for name, member in data.items() if name not in _LATE[event.type]}
        if "usage" in kept:
            kept["usage"] = Raw(self._usage(kept["usage"], event))
        sourced = self._sourced(message, event)
        same = self._format.version == 0 and kept.keys() == data.keys() and sourced == bytes(kept["message"])
        kept["message"] = Raw(sourced)
        return event.raw if same else joined(kept)

    def _sourced(self, message: bytes, event: AnyEvent) -> bytes:
        """A message with a source that format 0 has."""
        stored = members(message)
        source = _value(stored.get("source", b"null"))
        if not isinstance(source, dict):
            return message
        kind, plugin = source.get("kind"), source.get("plugin")
        if kind == "unrecorded":
            self._change("unrecorded", event)
            source = _UNRECORDED if event.type == "assistant/message" else {"kind": "user"}
        elif self._format.version >= 4 and isinstance(kind, str) and kind in _PLUGIN_OF_KIND:
            self._change("source", event)
            source = {**source, "kind": "plugin", "plugin": _PLUGIN_OF_KIND[kind]}
        elif self._format.version >= 4 and isinstance(kind, str) and kind.startswith("plugin:"):
            self._change("source", event)
            source = {**source, "kind": "plugin", "plugin": kind.removeprefix("plugin:")}
        elif self._format.version >= 3 and plugin == "tools-ptc":
            self._change("source", event)
            source = {**source, "plugin": "tools-code-mode"}
        else:
            return message
        return joined({**stored, "source": source})

    def _usage(self, usage: Any, event: AnyEvent) -> bytes:
        if b'"totalTokens"' not in bytes(usage):
            return bytes(usage)
        self._change("usage-total", event)
        return _without(bytes(usage), "totalTokens")

    # -- streams ------------------------------------------------------------------------------------------------

    def _answer(self, event: AnyEvent) -> Iterator[Draft]:
        raw = self._wrapped(event)
        if self._format.cites_chunks:
            yield Draft.of(event, raw=raw)
            return
        stream = members(event.raw).get("stream")
        if stream is None:
            yield Draft.of(event, raw=raw)
            return
        count = 0
        for draft in self._chunks(event, stream):
            count += 1
            yield draft
        self._change("stream", event)
        self.streams[event.seq] = count
        yield Draft.of(event, raw=raw, sources=None, cites=count)

    def _attempt(self, event: AnyEvent) -> Iterator[Draft]:
        yield from self._prompted(event)
        data = members(event.raw)
        if data.keys() - {"turn", "step", "stream"}:
            self._change("attempt-members", event)
        drafts = list(self._chunks(event, data.get("stream", Raw(b"[]"))))
        self._change("attempt", event)
        self.streams[event.seq] = len(drafts)
        yield from drafts[:-1]
        if drafts:
            yield drafts[-1]._replace(old=event.seq)  # who refers to the attempt refers to its end

    def _chunks(self, event: AnyEvent, stream: Raw) -> Iterator[Draft]:
        data = members(event.raw)
        turn, step = data["turn"], data["step"]
        records = _records(stream)
        ids = _late_ids(records)
        for record in records:
            for time, chunk in _timed(record, event.time):
                if b'"id":""' in chunk:
                    chunk = self._identified(chunk, ids.get(_value(chunk).get("index")), event)
                raw = joined({"turn": turn, "step": step, "chunk": Raw(self._chunk(chunk, event))})
                yield Draft(None, "assistant/chunk", time, raw)

    def _identified(self, chunk: bytes, known: str | None, event: AnyEvent) -> bytes:
        """A delta of a call whose id was not known yet gets the id that the call came to have."""
        value = _value(chunk)
        if known is None or value.get("type") != "tool-call-delta" or value.get("id") != "":
            return chunk
        self._change("late-id", event)
        return dump({**value, "id": known})

    def _chunk(self, chunk: bytes, event: AnyEvent) -> bytes:
        if b'"totalTokens"' not in chunk:
            return chunk
        stored = members(chunk)
        if bytes(stored.get("type", b"")) != b'"usage"':
            return chunk
        return joined({**stored, "usage": Raw(self._usage(stored["usage"], event))})

    # -- the prompt ---------------------------------------------------------------------------------------------

    def _prompt(self, event: AnyEvent) -> None:
        message = event.message
        content = _value(event.raw)["message"]["content"]
        if any(not isinstance(block, dict) or block.get("type") != "text" for block in content):
            self._change("system-extra", event)
        self._system = "" if message is None else message.text
        self._change("system-message", event)

    def _request_header(self, event: AnyEvent) -> bytes:
        data = members(event.raw)
        header = members(data["header"])
        if self._format.version >= 3:
            header.pop("system", None)
            if self._system:
                header["system"] = Raw(dump(self._system))
        self._strip(header, event)
        self._header, self._header_system = header, self._system
        kept: dict[str, Any] = {**data, "header": Raw(joined(header))}
        if bytes(data.get("reason", b"")) == b'"series"' or "startsSeries" in data:
            self._change("series", event)
            kept.pop("startsSeries", None)
            if bytes(data["reason"]) == b'"series"':
                kept["reason"] = "change"
        return joined(kept)

    def _strip(self, header: dict[str, Raw], event: AnyEvent) -> None:
        """Take off what later formats added to a header, or what the oldest ones had."""
        tools = _value(header["tools"]) if "tools" in header else None
        deferring = isinstance(tools, list) and any(isinstance(one, dict) and "deferLoading" in one for one in tools)
        if deferring or "messagePrefix" in header:
            self._change("header-members", event)
        header.pop("messagePrefix", None)
        if deferring and isinstance(tools, list):
            kept = [{name: member for name, member in one.items() if name != "deferLoading"} for one in tools]
            header["tools"] = Raw(dump(kept))

    def _prompted(self, event: AnyEvent) -> Iterator[Draft]:
        """A header for a prompt that changed after the last one."""
        if self._format.version < 3 or self._system == self._header_system:
            return
        if self._header is None:
            self._change("no-header", event)
        else:
            self._header.pop("system", None)
            if self._system:
                self._header["system"] = Raw(dump(self._system))
            self._change("system-header", event)
            yield Draft(
                None, "request/header", event.time, joined({"header": Raw(joined(self._header)), "reason": "change"})
            )
        self._header_system = self._system


def _records(stream: Raw) -> list[dict[str, Raw]]:
    """The records of an embedded stream, each as its members."""
    try:
        return [members(one) for one in msgspec.json.decode(stream, type=list[Raw])]
    except (msgspec.MsgspecError, UnicodeError):
        value = _value(bytes(stream))
        listed = value if isinstance(value, list) else []
        return [members(dump(one)) for one in listed if isinstance(one, dict)]


def _timed(record: Mapping[str, Raw], otherwise: int) -> Iterator[tuple[int, bytes]]:
    """The chunks of a record with their times."""
    kind = _value(record.get("type", b"null"))
    if kind not in _RUNS:
        time = _value(record.get("time", b"null"))
        if "chunk" in record:
            yield time if type(time) is int else otherwise, bytes(record["chunk"])
        return
    texts = _value(record.get("args" if kind == "tool-call-chunks" else "texts", b"[]"))
    times = accumulate(_value(record.get("dt", b"[]")), initial=_value(record.get("time0", b"0")))
    for time, text in zip(times, texts, strict=False):
        if kind in _DELTAS:
            yield time, joined({"type": _DELTAS[kind], "index": record["index"], "text": text})
            continue
        name = {} if "name" not in record else {"name": record["name"]}
        chunk = {"type": "tool-call-delta", "index": record["index"], "id": record["id"], **name}
        yield time, joined({**chunk, "argumentsDelta": text})


def _late_ids(records: list[dict[str, Raw]]) -> dict[int, str]:
    """Block index → call id, as the ends of the blocks have them."""
    found: dict[int, str] = {}
    for record in records:
        chunk = _value(record["chunk"]) if "chunk" in record else None
        match chunk:
            case {"type": "block-end", "index": int(index), "block": {"type": "tool-call", "id": str(known)}} if known:
                found[index] = known
            case _:
                pass
    return found


def _without(raw: bytes, name: str) -> bytes:
    """An object without one of its members, the others byte for byte."""
    return joined({key: member for key, member in members(raw).items() if key != name})


def _value(stored: Any) -> Any:
    try:
        return parse(bytes(stored))
    except ValueError:
        return None
