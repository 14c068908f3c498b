"""Pending input: two lists of messages, both rebuilt from the log.

Every change is a splice, logged as ``agent/inbox/spliced`` before the list changes; if the append fails the list stays
as it was. A *claim* by the loop takes messages into a turn; everything else that removes them discards them, and the
log says ``canceled``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from turnlog.events import InboxSpliced, Json, Payload, UserMessage
from turnlog.events.codec import decoder_of, encode
from turnlog.events.lenient import parse
from turnlog.events.lossless import dump
from turnlog.log import Session, TurnlogError

from .hooks import Target

TARGETS: Final[tuple[Target, Target]] = ("next-turn", "next-step")

_decode: Final = decoder_of(UserMessage)


class InboxError(TurnlogError):
    """Pending input that cannot be: a message that waits already, or a logged splice that does not fit."""


class Watcher(Protocol):
    """Who is told after a change is logged."""

    def inserted(self, target: Target, message: UserMessage) -> None: ...
    def discarded(self, target: Target, message: UserMessage) -> None: ...
    def claimed(self, message: UserMessage, turn: int) -> None: ...


class Inbox:
    """What waits for the next turn and for the next step."""

    def __init__(self, session: Session, watcher: Watcher) -> None:
        self._session = session
        self._watcher = watcher
        self._lists: dict[Target, list[UserMessage]] = {"next-turn": [], "next-step": []}
        self._rebuild()

    # -- reading ------------------------------------------------------------------------------------------------

    def waiting(self, target: Target) -> tuple[UserMessage, ...]:
        """What waits there, first first."""
        return tuple(self._lists[target])

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all that waits."""
        return tuple(one.id for target in reversed(TARGETS) for one in self._lists[target])

    def __len__(self) -> int:
        return sum(map(len, self._lists.values()))

    # -- changing -----------------------------------------------------------------------------------------------

    def append(self, target: Target, *messages: UserMessage) -> None:
        """Put messages last."""
        self._splice(target, len(self._lists[target]), 0, messages)

    def prepend(self, target: Target, *messages: UserMessage) -> None:
        """Put messages first."""
        self._splice(target, 0, 0, messages)

    def remove(self, message_id: str) -> bool:
        """Withdraw a message; False when it does not wait (any more)."""
        return self._replace(message_id, ())

    def replace(self, message_id: str, message: UserMessage) -> bool:
        """Put *message* in the place of a waiting one; False when that does not wait (any more)."""
        return self._replace(message_id, (message,))

    def clear(self) -> None:
        """Withdraw everything: what waits for the next step first."""
        for target in reversed(TARGETS):
            self._splice(target, 0, len(self._lists[target]), (), discards=True)

    def claim(self, target: Target, turn: int) -> tuple[UserMessage, ...]:
        """Take into *turn*: all that waits for a step, and for ``next-turn`` also the first that waits for a turn."""
        taken = self._splice("next-step", 0, len(self._lists["next-step"]), ())
        if target == "next-turn":
            taken += self._splice("next-turn", 0, min(1, len(self._lists["next-turn"])), ())
        for message in taken:
            self._watcher.claimed(message, turn)
        return tuple(taken)

    def _replace(self, message_id: str, inserted: tuple[UserMessage, ...]) -> bool:
        for target in TARGETS:
            for start, waiting in enumerate(self._lists[target]):
                if waiting.id == message_id:
                    self._splice(target, start, 1, inserted, discards=True)
                    return True
        return False

    def _splice(
        self, target: Target, start: int, count: int, inserted: Sequence[UserMessage], *, discards: bool = False
    ) -> list[UserMessage]:
        if not count and not inserted:
            return []
        waiting = self._lists[target]
        removed = waiting[start : start + count]
        self._check_new(inserted, {message.id for message in removed})
        record: dict[str, Json] = {"target": target, "start": start}
        if count:
            record["removedCount"] = count
        record["inserted"] = [parse(encode(message)) for message in inserted]
        if discards and removed:
            record["outcome"] = "canceled"
        self._session.append(InboxSpliced(value=record))
        waiting[start : start + count] = inserted
        if discards:
            for message in removed:
                self._watcher.discarded(target, message)
        for message in inserted:
            self._watcher.inserted(target, message)
        return removed

    def _check_new(self, inserted: Sequence[UserMessage], leaving: set[str]) -> None:
        pending = {one.id for waiting in self._lists.values() for one in waiting} - leaving
        for message in inserted:
            if message.id in pending:
                raise InboxError(f"message {message.id} waits already; a message is pending once, make a new one")
            pending.add(message.id)

    # -- rebuilding ---------------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        """Replay the splices of this session; a fork does not inherit what its parent had pending."""
        first = self._session.header.seed_length or 0
        for event in self._session.select(InboxSpliced):
            if event.seq >= first:
                try:
                    self._replay(event.data.value)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    raise InboxError(
                        f"session {self._session.id} @{event.seq}: this {event.type} does not fit the pending input "
                        f"before it ({error}); read the session, or fork it at @{event.seq}"
                    ) from None

    def _replay(self, record: Any) -> None:
        waiting = self._lists[record["target"]]
        start, count = record["start"], record.get("removedCount", 0)
        if not 0 <= start <= start + count <= len(waiting):
            raise ValueError(f"it removes {count} from position {start} of {len(waiting)}")
        waiting[start : start + count] = _messages(record["inserted"])


def _messages(records: Iterable[Json]) -> list[UserMessage]:
    return [_message(_decode(dump(record))) for record in records]


def _message(payload: Payload) -> UserMessage:
    if not isinstance(payload, UserMessage):
        raise ValueError("an inserted message is no user message")
    return payload
