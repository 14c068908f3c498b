"""Filters over events: tool, text, errors, place on the surface. Conditions all have to hold, values of one are *or*.

The text of an event is what people would search it for (dsh-v0 §8.3): what was said, called and answered, a tool's
error, todos, and how a turn ended otherwise than well; chunks and bookkeeping have none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from math import floor
from typing import Final, Literal, TypeAlias

from msgspec import UNSET

from turnlog.events import (
    Aborted,
    AssistantAttempt,
    AssistantChunk,
    Block,
    Errored,
    Finish,
    FinishAborted,
    FinishError,
    Interrupted,
    LlmRetry,
    TextBlock,
    TodoWrite,
    ToolCall,
    ToolCallBlock,
    ToolResult,
    ToolResultBlock,
    TurnEnd,
)
from turnlog.log import AnyEvent, Session

from .bounds import Between
from .call import Call, is_error
from .calls import calls
from .projectors import reason_text
from .query_errors import FilterInvalid
from .streams import embedded

SurfaceClass: TypeAlias = Literal["current", "shadowed", "log-only"]
"""``current``: the model sees it. ``shadowed``: another event took its place. ``log-only``: it never was a message."""

SURFACE_CLASSES: Final[tuple[SurfaceClass, ...]] = ("current", "shadowed", "log-only")


def surface_class(session: Session, event: AnyEvent) -> SurfaceClass:
    """Where an event of *session* stands."""
    if event.surface_op is UNSET:
        return "log-only"
    return "current" if session.replaced_by(event.seq) is None else "shadowed"


def event_text(event: AnyEvent) -> str:
    """What an event says, for searching; empty where it says nothing."""
    return "\n".join(part for part in map(str.strip, _parts(event)) if part)


def is_failure(event: AnyEvent) -> bool:
    """Whether an event says that something failed: a result, an attempt, a turn."""
    match event.data:
        case ToolResult():
            return is_error(event)
        case TurnEnd(reason=Errored()) | LlmRetry():
            return True
        case AssistantChunk(chunk=Finish(reason=FinishError() | FinishAborted())):
            return True
        case AssistantAttempt():
            ends = [timed.chunk.reason for timed in embedded(event) if isinstance(timed.chunk, Finish)]
            return bool(ends) and isinstance(ends[-1], FinishError | FinishAborted)
        case _:
            return False


class EventFilter:
    """Tells which events of a session are wanted."""

    def __init__(
        self,
        session: Session,
        *,
        types: Collection[str] | None = None,
        seqs: Collection[Between] | None = None,
        times: Collection[Between] | None = None,
        tools: Collection[str] | None = None,
        text: str | Collection[str] | None = None,
        errors: bool = False,
        surfaces: Collection[SurfaceClass] | None = None,
    ) -> None:
        """All conditions have to hold; the values of one are *or*, and one without values is fulfilled by nothing. They
        are copied: changing a list later changes nothing.

        *types*: ``tool/call``, or patterns like ``tool/*``. *seqs*, *times* (epoch ms): ranges, both ends included.
        *tools*: patterns like ``bash`` or ``file_*``; everything about calls of such tools is wanted, their argument
        chunks included. *text*: found literally, in any case, whatever white space lies between its words.

        Raises :class:`FilterInvalid`, a ``ValueError``, for a text of nothing but white space, a place that is none, or
        a value where a list of values belongs.
        """
        self._session = session
        self._types = _patterns("types", types)
        self._seqs = _ranges("seqs", seqs)
        self._times = _ranges("times", times)
        self._tools = _patterns("tools", tools)
        texts = None if text is None else (text,) if isinstance(text, str) else tuple(text)
        self._texts = None if texts is None else tuple(map(text_pattern, texts))
        self._errors = errors
        self._surfaces = _surfaces(surfaces)
        self._about = None if self._tools is None else _about(session, self._tools)
        asked = (self._types, self._seqs, self._times, self._tools, texts, errors, sorted(self._surfaces or ()),
                 self._surfaces is None)  # fmt: skip
        self.fingerprint: Final = sha256(repr(asked).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        """Equal for equal conditions, whatever the session."""
        surface_only = self._surfaces is not None and "log-only" not in self._surfaces
        no_chunks = self._types is not None and not _is_any("assistant/chunk", self._types)
        self.skips_deltas: Final = self._texts is not None or errors or surface_only or no_chunks
        """Whether packed runs of deltas can hold nothing that is wanted."""
        self.depends_on_later: Final = self._tools is not None or self._surfaces is not None
        """Whether an event may be wanted, or no longer, because of events after it."""

    @property
    def first(self) -> int | None:
        """No event before this seq is wanted; None without such a bound."""
        edges = [span.first for span in self._seqs or ()]
        return floor(min(edge for edge in edges if edge is not None)) if edges and None not in edges else None

    @property
    def last(self) -> int | None:
        """No event after this seq is wanted; None without such a bound."""
        edges = [span.last for span in self._seqs or ()]
        return floor(max(edge for edge in edges if edge is not None)) if edges and None not in edges else None

    def __call__(self, event: AnyEvent, *, beside: bool = False) -> bool:
        """Whether *event* is wanted; *beside* the log, nothing else is known of it."""
        if self._types is not None and not _is_any(event.type, self._types):
            return False
        if self._seqs is not None and not any(event.seq in span for span in self._seqs):
            return False
        if self._times is not None and not any(event.time in span for span in self._times):
            return False
        if self._surfaces is not None and not self._on_surface(event, beside):
            return False
        if self._about is not None and not (self._names_tool(event) if beside else event.seq in self._about):
            return False
        if self._errors and not is_failure(event):
            return False
        if self._texts is None:
            return True
        said = event_text(event)
        return any(text.search(said) for text in self._texts)

    def _on_surface(self, event: AnyEvent, beside: bool) -> bool:
        known = self._surfaces or frozenset()
        return ("log-only" if beside else surface_class(self._session, event)) in known

    def _names_tool(self, event: AnyEvent) -> bool:
        match event.data:
            case ToolCall(name=name):
                return _is_any(name, self._tools or ())
            case _:
                message = event.message
                blocks = () if message is None else message.content
                return any(isinstance(one, ToolCallBlock) and _is_any(one.name, self._tools or ()) for one in blocks)


def text_pattern(text: str) -> re.Pattern[str]:
    """*text* as it is looked for. Raises :class:`FilterInvalid` when there is nothing to look for."""
    words = text.split() if isinstance(text, str) else ()
    if not words:
        raise FilterInvalid("there is nothing to look for in a text of white space")
    return re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)


def _values(name: str, values: Collection[object] | None) -> tuple[object, ...] | None:
    if values is None:
        return None
    if isinstance(values, str | bytes) or not isinstance(values, Collection):
        raise FilterInvalid(f"{name} is {values!r}; it has to be a list of values, or None for no condition")
    return tuple(values)


def _patterns(name: str, values: Collection[str] | None) -> tuple[str, ...] | None:
    given = _values(name, values)
    if given is None:
        return None
    found = tuple(one for one in given if isinstance(one, str))
    if len(found) < len(given):
        raise FilterInvalid(
            f"{name} holds {next(one for one in given if not isinstance(one, str))!r}, which is no text"
        )
    return found


def _ranges(name: str, values: Collection[Between] | None) -> tuple[Between, ...] | None:
    given = _values(name, values)
    if given is None:
        return None
    found = tuple(one for one in given if isinstance(one, Between))
    if len(found) < len(given):
        raise FilterInvalid(f"{name} holds {next(one for one in given if not isinstance(one, Between))!r}, which is no "
                            "Between(first, last)")  # fmt: skip
    return found


def _surfaces(values: Collection[SurfaceClass] | None) -> frozenset[SurfaceClass] | None:
    given = _values("surfaces", values)
    if given is None:
        return None
    if wrong := [one for one in given if one not in SURFACE_CLASSES]:
        raise FilterInvalid(f"a place is one of {', '.join(SURFACE_CLASSES)}, not {wrong[0]!r}")
    return frozenset(one for one in SURFACE_CLASSES if one in given)


def _about(session: Session, tools: Sequence[str]) -> frozenset[int]:
    """Seqs of everything about calls of these tools."""
    wanted = [one for one in calls(session, as_stored=True) if _is_any(one.name, tools)]
    return frozenset(seq for one in wanted for seq in _seqs(one))


def _seqs(call: Call) -> Iterator[int]:
    for event in (call.asked, call.started, *call.approvals, *call.others, call.result):
        if event is not None:
            yield event.seq
    yield from (timed.seq for timed in call.chunks)
    yield from call.replaced_by


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _parts(event: AnyEvent) -> Iterator[str]:
    match event.data:
        case ToolCall(name=name, arguments=arguments):
            yield name
            yield arguments
        case ToolResult(message=message, error=error):
            yield from _said(message.content)
            if error is not None:
                yield from (error.name, error.code)
        case TodoWrite(todos=todos):
            yield from (f"{todo.status}, {todo.content}" for todo in todos)
        case TurnEnd(reason=Errored() | Aborted() | Interrupted() as reason):
            yield reason_text(reason)
        case TurnEnd(reason=reason) if reason_text(reason) == "max-tokens":
            yield "max-tokens"
        case _:
            shown = event.message
            if shown is not None:
                yield from _said(shown.content)


def _said(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case TextBlock(text=text):
                yield text
            case ToolCallBlock(name=name, arguments=arguments):
                yield name
                yield arguments
            case ToolResultBlock(content=content):
                yield from _said(content)
            case _:
                pass
