"""Whatever happens to a store: the index answers what reading every log answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.conftest import Prove
from tests.search import stores
from tests.search.stores import QUERIES, Dice
from tests.views import logs
from turnlog.catalogue import Catalogue, Query, Search
from turnlog.catalogue.building import build
from turnlog.store.discover import list_sessions, list_skipped

pytestmark = pytest.mark.proof

tapes = st.binary(min_size=4, max_size=60)
operations = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), tapes), min_size=1, max_size=4)


class Scratch:
    """A root, an index directory, and what each session's log would go on with."""

    def __init__(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        self.root = path / "sessions"
        self.root.mkdir(parents=True)
        self.lines: dict[str, tuple[list[bytes], int, bool, list[int]]] = {}

    def apply(self, operation: int, which: int, tape: bytes) -> None:
        id = f"s{which}"
        dice = Dice(tape)
        if id not in self.lines or operation == 0:
            self._create(id, dice)
            return
        lines, written, compressed, sizes = self.lines[id]
        path = stores.place(self.root, id, compressed=compressed)
        match operation:
            case 1 | 2 | 3:  # goes on
                more = min(written + 1 + dice(12), len(lines))
                self.lines[id] = (lines, more, compressed, sizes)
                self._append(path, lines[written:more], compressed, sizes)
            case 4:  # its end is cut off somewhere
                data = path.read_bytes()
                path.write_bytes(data[: max(len(data) - dice(200), 0)])
            case 5:  # deleted
                shutil.rmtree(path.parent)
                del self.lines[id]
            case 6:  # altered in place, at the same size and with the same time
                status = path.stat()
                with path.open("r+b") as file:
                    file.seek(dice(256) * status.st_size // 256)
                    at = file.tell()
                    was = file.read(1)
                    file.seek(at)
                    file.write(b"a" if was == b"b" else b"b" if was.isalpha() else was)
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            case 7:  # another file takes its place
                other = path.with_name("new")
                other.write_bytes(path.read_bytes()[: dice(2) * 10_000 or None])
                other.replace(path)
            case 8:  # half a line, as a writer leaves it that was killed
                with path.open("ab") as file:
                    file.write(b'{"type":"turn/st')
            case _:
                path.touch()

    def _create(self, id: str, dice: Dice) -> None:
        for directory in self.root.glob(f"*/{id}"):
            shutil.rmtree(directory)
        compressed = dice(3) == 0
        sizes = [1 + dice(5), 1 + dice(9)]
        lines = stores.log_lines(stores.script(dice, 1 + dice(4)), id, escaped=dice(2) == 0)
        written = 1 + dice(len(lines))
        path = stores.place(self.root, id, compressed=compressed)
        path.write_bytes(stores.framed(lines[:written], sizes) if compressed else b"".join(lines[:written]))
        self.lines[id] = (lines, written, compressed, sizes)

    def _append(self, path: Path, lines: list[bytes], compressed: bool, sizes: list[int]) -> None:
        if not lines:
            return
        with path.open("ab") as file:
            file.write(stores.framed(lines, sizes) if compressed else b"".join(lines))


def check(scratch: Scratch, queries: list[str]) -> None:
    root = scratch.root
    told: list[str] = []
    with Catalogue([root], say=told.append) as catalogue:
        entries = list_sessions([root])
        listed = catalogue.sessions()
        assert [(one.record.id, one.path, one.problem or None, one.trouble or None, one.record.created_ms)
                for one in listed] == [(one.id, str(one.path), one.problem, one.trouble, one.created_ms)
                                       for one in entries]  # fmt: skip
        assert [(one.path, one.reason) for one in catalogue.skipped()] == [
            (str(one.path), one.reason) for one in list_skipped([root])
        ]
        for one in listed:
            check_session(catalogue, one)
        for query in queries:
            expected = stores.found_by(root, query)
            for use_index in (True, False):
                search = Search(catalogue, Query(query), use_index=use_index)
                found = [(hit.session.record.id, hit.said.seq) for hit in search.hits()]
                assert found == expected, (query, use_index)
    assert told == []


def check_session(catalogue: Catalogue, one: Any) -> None:
    session = stores.opened(Path(one.path))
    if session is None:
        assert one.totals.events == 0
        return
    said = one.totals
    assert {
        "events": said.events, "turns": said.turns, "failed": said.failed, "end": said.end, "title": said.title,
        "prompt": said.prompt, "tokens": [tuple(used) for used in said.tokens],
        "cost": (said.pico_usd, said.priced, said.unpriced, said.exact),
    } == stores.totals(session)  # fmt: skip
    assert [tuple(call) for call in catalogue.calls(one)] == stores.call_rows(session)
    cited = {(seq, run.by) for run in catalogue.cited(one) for seq in range(run.first, run.last + 1)}
    assert cited == stores.citations(session)
    starts = [event.seq for event in session.events if event.type == "turn/start"]
    assert [turn.first for turn in catalogue.turns(one)] == starts


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Scratch]:
    monkeypatch.setenv("TURNLOG_INDEX", str(tmp_path / "scratch" / "index"))
    return lambda: Scratch(tmp_path / "scratch")


def test_the_index_of_a_random_store_answers_what_a_scan_answers_after_whatever_happens_to_it(
    prove: Prove, scratch: Callable[[], Scratch]
) -> None:
    def run(done: list[tuple[int, int, bytes]], choices: list[int], builds: int) -> None:
        store = scratch()
        queries = [QUERIES[choice] for choice in choices]
        for number, (operation, which, tape) in enumerate(done):
            store.apply(operation, which, tape)
            if builds >> number & 1:
                build([store.root])
            check(store, queries)

    picks = st.lists(st.integers(0, len(QUERIES) - 1), min_size=2, max_size=2, unique=True)
    prove("an index equals a scan", run, operations, picks, st.integers(0, 127))


def test_a_request_that_nobody_will_finish_counts_as_one_that_reported_nothing(scratch: Callable[[], Scratch]) -> None:
    """A log that was only read for the index has no writer, whoever may be writing it."""
    store = scratch()
    events = [logs.turn(), logs.step(), logs.user("hi"), logs.chunk(logs.text("he"))]
    stores.place(store.root, "s").write_bytes(b"".join(stores.log_lines(events, "s", escaped=False)))
    check(store, [])
    with Catalogue([store.root]) as catalogue:
        [one] = catalogue.sessions()
        assert [(used.requests, used.unreported) for used in one.totals.tokens] == [(1, 1)]


def test_a_log_that_goes_on_line_by_line_is_never_read_from_the_front_again(
    prove: Prove, scratch: Callable[[], Scratch], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(tape: bytes, compressed: bool, steps: list[int]) -> None:
        store = scratch()
        lines = stores.log_lines(stores.script(Dice(tape), 4), "s", escaped=False)
        path = stores.place(store.root, "s", compressed=compressed)
        first = next(at for at, line in enumerate(lines) if b'"turn/end"' in line) + 1
        write = (lambda some: stores.framed(some, [4])) if compressed else b"".join
        path.write_bytes(write(lines[:first]))
        with Catalogue([store.root]) as catalogue:
            run_of = catalogue.sessions()[0].record.run
        for step in steps:
            with path.open("ab") as file:
                file.write(write(lines[first : first + step]) if lines[first : first + step] else b"")
            first += step
            check(store, ["alpha"])
            with Catalogue([store.root]) as catalogue:
                [one] = catalogue.sessions()
                assert one.record.run == run_of

    prove("a growing log is read on", run, tapes, st.booleans(), st.lists(st.integers(1, 9), max_size=2))
