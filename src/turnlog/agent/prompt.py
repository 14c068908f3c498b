"""What the model is told besides the conversation: the system prompt, and contexts that change while it works.

The system prompt is part of the request header. Contexts are not: each time their text changes, a user message with the
new snapshot enters with the next step, so the log shows what the model knew and when.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events import ContextSection, PluginSource, TextBlock, UserMessage
from turnlog.log import Session, SessionEvent, is_event

PLUGIN: Final = "turnlog"
"""Who the snapshots come from."""
_PREAMBLE: Final = "Current context. It supersedes every earlier context message."
_CLEARED: Final = "The context given earlier no longer applies."

Text = str | Callable[[], str | Awaitable[str]]
"""A fixed text, or something that gives it when a request is put together."""


@dataclass(frozen=True, slots=True)
class Context:
    """One named part of the snapshot, for example the working directory or the open files."""

    name: str
    text: Text


class Prompt:
    """The system prompt and the contexts of one agent."""

    def __init__(self, session: Session, system: Text | None, contexts: Sequence[Context]) -> None:
        self._session = session
        self._system = system
        self._contexts = tuple(contexts)
        self._shown = _last_snapshot(session)

    async def system(self) -> str | None:
        """The system prompt as it is now; None when there is none."""
        return None if self._system is None else (await _text(self._system)) or None

    async def snapshot(self) -> UserMessage | None:
        """The message that brings the model up to date; None when it is."""
        if not self._contexts and self._shown is None:
            return None
        sections = [ContextSection(one.name, text) for one in self._contexts if (text := await _text(one.text))]
        shown = self._still_shown()
        if not sections:
            return None if shown is None else _cleared(shown)
        text = "\n\n".join([_PREAMBLE, *(section.text for section in sections)])
        if text == shown:
            return None
        source = PluginSource(plugin=PLUGIN, form="snapshot", sections=tuple(sections))
        return UserMessage.of(text, source=source)

    def entered(self, seq: int, message: UserMessage) -> None:
        """A message is in the log; remember it if it is a snapshot."""
        if _is_ours(message):
            self._shown = seq, _shown_text(message)

    def _still_shown(self) -> str | None:
        """The newest snapshot's text, ``""`` when it is off the surface, None when there never was one."""
        if self._shown is None:
            return None
        seq, text = self._shown
        return text if self._session.replaced_by(seq) is None else ""


def _cleared(shown: str) -> UserMessage | None:
    if shown == _CLEARED:
        return None
    return UserMessage.of(_CLEARED, source=PluginSource(plugin=PLUGIN))


async def _text(text: Text) -> str:
    if isinstance(text, str):
        return text
    given = text()
    return await given if inspect.isawaitable(given) else given


def _is_ours(message: UserMessage) -> bool:
    return isinstance(message.source, PluginSource) and message.source.plugin == PLUGIN and _shown_text(message) != ""


def _shown_text(message: UserMessage) -> str:
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    return texts[0] if texts and texts[0].startswith((_PREAMBLE, _CLEARED)) else ""


def _last_snapshot(session: Session) -> tuple[int, str] | None:
    for row in reversed(session.rows.rows):
        if row.type != UserMessage.event_type or not isinstance(row, SessionEvent):
            continue  # told without decoding
        if is_event(row, UserMessage) and _is_ours(row.data):
            return row.seq, _shown_text(row.data)
    return None
