"""`Wire`: the messages of a provider body as a projection of the history, each encoded once.

A body is a join: the bytes of messages that were sent before are kept, so a request costs what is new (and the copy of
the bytes). A :class:`Conversation` follows one session. It takes messages in order, gathers them into the groups that
fix-ups work on, and keeps the JSON of every group that is complete. When the history is another one (a replace on the
surface, a fork under the same id) it begins again; messages that came through the fix-ups unchanged are still found
encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from turnlog.events import Message
from turnlog.log import View

from .fixups import Context, Fixup, Group, base_id, calls_of, result_of

Encode: TypeAlias = Callable[[Message], bytes]
"""One message as one or more JSON objects of the provider, joined by commas; empty for one that says nothing there."""

MAX_SESSIONS: Final = 256
"""Sessions whose bytes are kept, the least recently asked for going first: more agents than one process runs."""


class Wire:
    """The wire messages of every session that a model is asked for."""

    def __init__(self, provider: str, fixups: tuple[Fixup, ...], encode: Encode) -> None:
        self._provider = provider
        self._fixups = fixups
        self._encode = encode
        self._conversations: dict[str, Conversation] = {}

    def messages(self, session_id: str, history: Sequence[Message]) -> list[bytes]:
        """The JSON of the wire messages, in order. The list is the caller's."""
        conversation = self._conversations.pop(session_id, None)
        if conversation is None:
            conversation = Conversation(self._provider, self._fixups, self._encode)
        self._conversations[session_id] = conversation
        if len(self._conversations) > MAX_SESSIONS:
            del self._conversations[next(iter(self._conversations))]
        return conversation.messages(history)


class Conversation:
    """The wire messages of one session."""

    def __init__(self, provider: str, fixups: tuple[Fixup, ...], encode: Encode) -> None:
        self._provider = provider
        self._fixups = fixups
        self._encode = encode
        self._known: dict[int, tuple[Message, bytes]] = {}
        """By identity; the message is held so that its identity stays its own."""
        self._begin()

    def _begin(self) -> None:
        self._history: Sequence[Message] | None = None
        self._taken: list[Message] = []
        self._done: list[bytes] = []
        self._open: list[Message] = []
        self._unanswered: list[str] = []
        self._used: dict[str, int] = {}

    def messages(self, history: Sequence[Message]) -> list[bytes]:
        """The JSON of the wire messages of *history*."""
        if not self._goes_on(history):
            self._begin()
            here = set(map(id, history))
            self._known = {key: known for key, known in self._known.items() if key in here}
        for place in range(len(self._taken), len(history)):
            self._take(history[place])
        self._history = history
        if not self._open:
            return self._done.copy()
        group = tuple(self._open)
        return self._done + self._encoded(self._fixed(group), group)

    def _goes_on(self, history: Sequence[Message]) -> bool:
        """Whether *history* begins with everything taken so far; told at once where both share their storage."""
        before, taken = self._history, self._taken
        if len(history) < len(taken):
            return False
        if isinstance(before, View) and isinstance(history, View) and history.shares_storage(before):
            return True
        return all(history[place] is message for place, message in enumerate(taken))

    def _take(self, message: Message) -> None:
        self._taken.append(message)
        if self._open and message.role == "assistant":
            self._close()  # whatever was not answered by now is answered by a fix-up
        self._open.append(message)
        if len(self._open) == 1:
            self._unanswered = [call.id for call in calls_of(message)] if message.role == "assistant" else []
        else:
            result = result_of(message)
            if result is not None and result.tool_call_id in self._unanswered:
                self._unanswered.remove(result.tool_call_id)
        if not self._unanswered:
            self._close()

    def _close(self) -> None:
        group, self._open = tuple(self._open), []
        fixed = self._fixed(group)
        self._done += self._encoded(fixed, group)
        sent = [call for message in fixed for call in calls_of(message)]
        for logged, call in zip(calls_of(group[0]), sent, strict=True):
            base = base_id(logged.id)
            self._used.setdefault(call.id, 0)
            self._used[base] = self._used.get(base, 0) + 1

    def _fixed(self, group: Group) -> Group:
        context = Context(self._provider, self._used, first=not self._done)
        for fixup in self._fixups:
            group = fixup.apply(group, context)
        return group

    def _encoded(self, fixed: Group, group: Group) -> list[bytes]:
        unchanged = set(map(id, group))
        every = [self._once(message) if id(message) in unchanged else self._encode(message) for message in fixed]
        return [encoded for encoded in every if encoded]

    def _once(self, message: Message) -> bytes:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self._encode(message)
        return known[1]
