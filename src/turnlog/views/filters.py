"""Filters over events: tool, text, errors, place on the surface. Conditions all have to hold, values of one are *or*.

The text of an event is what people would search it for (dsh-v0 §8.3): what was said, called and answered, a tool's
error, todos, and how a turn ended otherwise than well; chunks and bookkeeping have none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
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

from .call import Call, is_error
from .calls import calls
from .projectors import reason_text
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
        tools: Sequence[str] | None = None,
        text: str | None = None,
        errors: bool = False,
        surfaces: Collection[SurfaceClass] | None = None,
    ) -> None:
        """*tools*: patterns like ``bash`` or ``file_*``; everything about calls of such tools is wanted, their argument
        chunks included. *text*: found literally, in any case, whatever white space lies between its words. Raises
        ``ValueError`` for a text of nothing but white space.
        """
        self._session = session
        self._tools = tools
        self._about = None if tools is None else _about(session, tools)
        self._text = None if text is None else text_pattern(text)
        self._errors = errors
        self._surfaces = None if surfaces is None else frozenset(surfaces)
        surface_only = self._surfaces is not None and "log-only" not in self._surfaces
        self.skips_deltas: Final = self._text is not None or errors or surface_only
        """Whether packed runs of deltas can hold nothing that is wanted."""

    def __call__(self, event: AnyEvent, *, beside: bool = False) -> bool:
        """Whether *event* is wanted; *beside* the log, nothing else is known of it."""
        if self._surfaces is not None and not self._on_surface(event, beside):
            return False
        if self._about is not None and not (self._names_tool(event) if beside else event.seq in self._about):
            return False
        if self._errors and not is_failure(event):
            return False
        return self._text is None or self._text.search(event_text(event)) is not None

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
    """*text* as it is looked for. Raises ``ValueError`` when there is nothing to look for."""
    words = text.split()
    if not words:
        raise ValueError("there is nothing to look for in a text of white space")
    return re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)


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
