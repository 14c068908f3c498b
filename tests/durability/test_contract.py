"""Every store that we have keeps the contract; a store that breaks it is caught."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from turnlog.log import SessionHeader
from turnlog.store import FileStore, MemoryStore, Store
from turnlog.testing import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()


class _Files(StoreContract):
    compressed: ClassVar[bool]
    root: Path
    _stores: list[FileStore]

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> Iterator[None]:
        self.root, self._stores = tmp_path / "sessions", []
        yield
        for store in self._stores:
            store.close()

    def make_store(self) -> Store:
        self._stores.append(FileStore(self.root, compressed=self.compressed))
        return self._stores[-1]

    def reopen(self, store: Store) -> Store:
        self._stores.append(FileStore(self.root))
        return self._stores[-1]


class TestPlainFiles(_Files):
    compressed = False


class TestZstdFiles(_Files):
    compressed = True


# -- the contract catches what breaks it --------------------------------------------------------------------------


class _Trusting(MemoryStore):
    """Does not look where a session ends."""

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        return super().append(session_id, None, lines)


class _Half(MemoryStore):
    """Keeps the beginning of a long batch only."""

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        return super().append(session_id, expected, lines[:200])


class _Lines(MemoryStore):
    """Takes anything that Unicode calls a line end for one."""

    def read(self, session_id: str) -> Iterator[bytes]:
        for line in super().read(session_id):
            yield from (part.encode() for part in line.decode().splitlines())


class _Folding(MemoryStore):
    """Takes ids that differ in case only for one."""

    def create(self, header: SessionHeader) -> None:
        super().create(header)
        for known in list(self._lines):
            if known.lower() == header.id.lower():
                self._lines[header.id] = self._lines[known]


class _Lazy(MemoryStore):
    """Makes sessions that nobody created."""

    def append(self, session_id: str, expected: int | None, lines: Sequence[bytes]) -> int:
        if session_id not in self._headers:
            self.create(SessionHeader(version=0, id=session_id, created_at=1))
        return super().append(session_id, expected, lines)


class _Again(MemoryStore):
    """Begins a session anew when its id is taken."""

    def create(self, header: SessionHeader) -> None:
        self._headers.pop(header.id, None)
        super().create(header)


@pytest.mark.parametrize("broken", [_Trusting, _Half, _Lines, _Folding, _Lazy, _Again])
def test_a_store_that_breaks_the_contract_is_caught(broken: type[MemoryStore]) -> None:
    class Contract(StoreContract):
        def make_store(self) -> Store:
            return broken()

    checks = [name for name in dir(StoreContract) if name.startswith("test_")]
    assert len(checks) >= 13
    failed = []
    for name in checks:
        try:
            getattr(Contract(), name)()
        except Exception:
            failed.append(name)
    assert failed
