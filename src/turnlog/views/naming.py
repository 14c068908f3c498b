"""Which events name which calls besides their messages, starts and results: approvals, jobs, sub-calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from turnlog.events import OpaquePayload
from turnlog.log import AnyEvent, Session

from .index import index_of


class Naming:
    """What :func:`naming_of` gives."""

    def __init__(self) -> None:
        self.by_id: Final[dict[str, list[AnyEvent]]] = {}
        """Events that are about a call, in order; answers stand with the call that was asked about."""
        self._waiting: list[tuple[AnyEvent, str, object]] = []  # questions without answer: event, call id, question id
        self._read = 0

    def catch_up(self, session: Session, seqs: list[int]) -> None:
        """Take in the further ones of *seqs*."""
        for seq in seqs[self._read :]:
            self._take(session.event(seq))
        self._read = len(seqs)

    def _take(self, event: AnyEvent) -> None:
        if event.type == "approval/decided":
            self._answer(event)
            return
        if b'allId"' not in event.raw:
            return
        value = opaque(event)
        if event.type == "approval/asked":
            id = value.get("callId")
            if isinstance(id, str):
                self._waiting.append((event, id, value.get("id")))
                self.by_id.setdefault(id, []).append(event)
            return
        for id in dict.fromkeys(_named(value)):
            self.by_id.setdefault(id, []).append(event)

    def _answer(self, event: AnyEvent) -> None:
        """An answer goes to the oldest unanswered question with its id."""
        question = opaque(event).get("id")
        asked = next((one for one in self._waiting if one[2] == question), None)
        if asked is not None:
            self._waiting.remove(asked)
            self.by_id[asked[1]].append(event)


def naming_of(session: Session) -> Naming:
    """The events that name calls, up to date."""
    index = index_of(session)
    if index.naming is None:
        index.naming = Naming()
    index.naming.catch_up(session, index.others)
    return index.naming


def opaque(event: AnyEvent) -> Mapping[str, Any]:
    """The open JSON of an event, where it is an object."""
    value = event.data.value if isinstance(event.data, OpaquePayload) else None
    return value if isinstance(value, Mapping) else {}


def _named(value: Any) -> Iterator[str]:
    """Every call id that open JSON names: members called callId, rootCallId, parentCallId, subCallId."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            if isinstance(member, str) and key.lower().endswith("callid"):
                yield member
            else:
                yield from _named(member)
    elif isinstance(value, tuple):
        for member in value:
            yield from _named(member)
