"""What every store must keep, a user's too: subclass :class:`StoreContract` (or its reading half) and give the store.

```python
class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MyStore(…)
```
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod

import pytest

from tests.store.logs import START, Log
from turnlog.log import SessionHeader
from turnlog.store import AppendConflict, ReadableStore, SessionNotFound, Store, open_stored

HEADER = SessionHeader(version=0, id="sess-1", created_at=START, cwd="/home/dev/demo")
OTHER = SessionHeader(version=0, id="a/b ~ é", created_at=START + 1)


def written() -> Log:
    """A log whose lines the stores are given."""
    log = Log("sess-1")
    log.tool_turn(1, "Now?", "call_1", "12:00 \u2028", "Noon.")
    return log


LINES = written().lines(packed=True)[1:]


class ReadableContract(ABC):
    """The reading half. *filled* holds two sessions: HEADER with LINES, OTHER without lines."""

    @pytest.fixture
    @abstractmethod
    def filled(self) -> ReadableStore:
        """A store that holds HEADER with LINES, and OTHER with none."""

    def test_headers_of_all_sessions_are_given(self, filled: ReadableStore) -> None:
        assert {header.id: header for header in filled.headers()} == {HEADER.id: HEADER, OTHER.id: OTHER}

    def test_lines_are_given_in_order_behind_the_header(self, filled: ReadableStore) -> None:
        header, *lines = filled.read(HEADER.id)
        assert lines == LINES
        assert json.loads(header) == {
            "type": "session",
            "version": 0,
            "id": "sess-1",
            "createdAt": START,
            "cwd": "/home/dev/demo",
            "delegationDepth": 0,
        }
        assert len(list(filled.read(OTHER.id))) == 1

    def test_reading_again_gives_the_same(self, filled: ReadableStore) -> None:
        assert list(filled.read(HEADER.id)) == list(filled.read(HEADER.id))

    def test_an_unknown_session_is_not_found(self, filled: ReadableStore) -> None:
        for id in ("missing", "", "sess", "sess-1/../sess-1"):
            with pytest.raises(SessionNotFound):
                list(filled.read(id))

    def test_what_is_read_opens_as_a_session(self, filled: ReadableStore) -> None:
        session = open_stored(filled, HEADER.id)
        assert session.header == HEADER
        assert len(session) == len(written().events)
        assert [message.text for message in session.derive_messages()] == ["Now?", "", "12:00 \u2028", "Noon."]
        assert len(open_stored(filled, OTHER.id)) == 0


class StoreContract(ReadableContract):
    """All five primitives."""

    @pytest.fixture
    @abstractmethod
    def store(self) -> Store:
        """An empty store."""

    @pytest.fixture
    def filled(self, store: Store) -> ReadableStore:
        store.create(HEADER)
        store.append(HEADER.id, 0, LINES[:3])
        store.append(HEADER.id, 3, LINES[3:])
        store.sync(HEADER.id)
        store.create(OTHER)
        store.append(OTHER.id, 0, [])
        store.sync(OTHER.id)
        return store

    def test_an_empty_store_holds_nothing(self, store: Store) -> None:
        assert list(store.headers()) == []
        for use in (
            lambda: list(store.read("sess-1")),
            lambda: store.append("sess-1", 0, [b"{}"]),
            lambda: store.append("sess-1", None, []),
            lambda: store.sync("sess-1"),
        ):
            with pytest.raises(SessionNotFound):
                use()

    def test_an_id_can_be_taken_once(self, store: Store) -> None:
        store.create(HEADER)
        with pytest.raises(AppendConflict, match="sess-1"):
            store.create(SessionHeader(version=0, id="sess-1", created_at=1))
        store.append(HEADER.id, 0, LINES)
        with pytest.raises(AppendConflict):
            store.create(HEADER)
        assert list(store.read(HEADER.id))[1:] == LINES

    @pytest.mark.parametrize("expected", [0, 1, 2, 4, 99, -1])
    def test_an_append_at_another_end_changes_nothing(self, store: Store, expected: int) -> None:
        store.create(HEADER)
        assert store.append(HEADER.id, 0, LINES[:3]) == 3
        with pytest.raises(AppendConflict, match=f"has 3 lines, the writer expected {expected}"):
            store.append(HEADER.id, expected, LINES[3:])
        assert list(store.read(HEADER.id))[1:] == LINES[:3]
        assert store.append(HEADER.id, 3, LINES[3:]) == len(LINES)
        assert list(store.read(HEADER.id))[1:] == LINES

    def test_two_writers_with_one_position_cannot_both_append(self, store: Store) -> None:
        """BC-004: the second writer's cursor is stale."""
        store.create(HEADER)
        store.append(HEADER.id, 0, LINES[:1])
        store.append(HEADER.id, 1, LINES[1:2])
        with pytest.raises(AppendConflict):
            store.append(HEADER.id, 1, [b'{"type":"session/end-seed","seq":1,"time":1,"data":{}}'])
        assert list(store.read(HEADER.id))[1:] == LINES[:2]

    def test_an_empty_append_still_compares_the_end(self, store: Store) -> None:
        store.create(HEADER)
        assert store.append(HEADER.id, 0, []) == 0
        with pytest.raises(AppendConflict):
            store.append(HEADER.id, 5, [])

    def test_taking_a_session_over_says_how_many_lines_it_has(self, store: Store) -> None:
        store.create(HEADER)
        store.append(HEADER.id, 0, LINES)
        assert store.append(HEADER.id, None, []) == len(LINES)

    def test_all_lines_of_an_append_are_kept_or_none(self, store: Store) -> None:
        store.create(HEADER)
        store.append(HEADER.id, 0, LINES[:1])
        with pytest.raises(TypeError):
            store.append(HEADER.id, 1, [LINES[1], "no bytes"])  # type: ignore[list-item]
        assert list(store.read(HEADER.id))[1:] == LINES[:1]

    def test_lines_are_copied_when_they_are_appended(self, store: Store) -> None:
        store.create(HEADER)
        line = bytearray(LINES[0])
        store.append(HEADER.id, 0, [line])
        line[:] = b"x" * len(line)
        assert list(store.read(HEADER.id))[1:] == [LINES[0]]

    def test_what_was_read_never_changes(self, store: Store) -> None:
        store.create(HEADER)
        store.append(HEADER.id, 0, LINES[:2])
        reading = store.read(HEADER.id)
        first = [next(reading), next(reading)]
        store.append(HEADER.id, 2, LINES[2:])
        rest = list(reading)
        assert [*first[1:], *rest] in (LINES[:2], LINES)

    def test_sessions_do_not_mix(self, store: Store) -> None:
        store.create(HEADER)
        store.create(OTHER)
        store.append(OTHER.id, 0, LINES[:1])
        store.append(HEADER.id, 0, LINES)
        assert list(store.read(OTHER.id))[1:] == LINES[:1]
        assert list(store.read(HEADER.id))[1:] == LINES

    def test_sync_returns_and_keeps_everything(self, store: Store) -> None:
        store.create(HEADER)
        store.append(HEADER.id, 0, LINES)
        store.sync(HEADER.id)
        store.sync(HEADER.id)
        store.attest(HEADER.id, b'{"seq":0}\n')
        assert list(store.read(HEADER.id))[1:] == LINES
