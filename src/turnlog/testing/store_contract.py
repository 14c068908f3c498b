"""`StoreContract`: what every store promises, as tests that any store can run.

Subclass it in a test module and say how a store is made; pytest runs the rest::

    from turnlog.testing import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self) -> Store:
            return MyStore(...)

A store that outlives its object also overrides :meth:`StoreContract.reopen`; then it is checked that nothing is lost
in between. The checks use plain ``assert`` and no pytest, so any runner that calls methods named ``test_…`` on a fresh
object each will do.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnlog.events import AssistantChunk, StepStart, TextBlock, TextDelta, TurnStart, UserMessage, UserSource
from turnlog.log import Session, SessionHeader
from turnlog.store import (
    AppendConflict,
    AttestingStore,
    LiveStore,
    SessionLocked,
    SessionNotFound,
    Store,
    StoreError,
    open_stored,
)


class StoreContract:
    """Tests of a store. Each starts with a new, empty one."""

    def make_store(self) -> Store:
        """A new, empty store."""
        raise NotImplementedError("say how a store is made: override make_store")

    def reopen(self, store: Store) -> Store | None:
        """Another store on what *store* keeps, which is not used again; None if it keeps nothing beyond itself."""
        return None

    # -- creating and reading -----------------------------------------------------------------------------------

    def test_a_session_is_read_as_it_was_written(self) -> None:
        """The header line, then every line, in order, none changed, however odd its text."""
        store, session = self.make_store(), _talk(*_TEXTS)
        store.create(session.header)
        lines = _lines(session)
        for end, line in enumerate(lines):
            _same(store.append(session.id, end, [line]), end + 1, "append gives how many lines there are")
        _same(_read(store, session.id), lines, "read gives the lines that were appended")

    def test_the_first_line_is_the_header(self) -> None:
        """Readers get it from ``read``, and from ``headers`` once the session has lines."""
        store = self.make_store()
        for number in range(3):
            session = _talk("a", id=f"s{number}", cwd="/where/it/was" if number else None)
            store.create(session.header)
            store.append(session.id, 0, _lines(session))
            store.sync(session.id)
            _same(open_stored(store, session.id).header, session.header, "the first line is the header")
        _same({one.id for one in store.headers()}, {"s0", "s1", "s2"}, "headers lists every session")
        _same({one.cwd for one in store.headers()}, {None, "/where/it/was"}, "headers gives them whole")

    def test_a_batch_is_kept_in_order(self) -> None:
        """Many lines, long lines, none at all."""
        store, session = self.make_store(), _talk(*map(str, range(500)), "x" * 300_000)
        store.create(session.header)
        lines = _lines(session)
        _same(store.append(session.id, 0, lines[:400]), 400, "append gives how many lines there are")
        _same(store.append(session.id, 400, []), 400, "no lines are no change")
        _same(store.append(session.id, 400, lines[400:]), 501, "append gives how many lines there are")
        _same(_read(store, session.id), lines, "read gives them in order")

    def test_an_id_is_taken_once(self) -> None:
        """Also before anything was appended."""
        store, session = self.make_store(), _talk("a")
        store.create(session.header)
        with _refused(AppendConflict, "create of an id that is taken"):
            store.create(session.header)
        store.append(session.id, 0, _lines(session))
        with _refused(AppendConflict, "create of an id that is taken"):
            store.create(SessionHeader(version=0, id=session.id, created_at=5))
        with _refused(AppendConflict, "create of an id that another project has"):
            store.create(SessionHeader(version=0, id=session.id, created_at=5, cwd="/elsewhere"))
        _same(_read(store, session.id), _lines(session), "the refused create changed nothing")

    def test_an_unknown_session_is_not_found(self) -> None:
        """By no operation, and none makes it."""
        store = self.make_store()
        for use in (
            lambda: list(store.read("nobody")),
            lambda: store.append("nobody", 0, [b"{}"]),
            lambda: store.append("nobody", None, ()),
            lambda: store.sync("nobody"),
        ):
            with _refused(SessionNotFound, "a session that does not exist"):
                use()
        _same(list(store.headers()), [], "a refused use makes no session")

    def test_sessions_do_not_touch_each_other(self) -> None:
        """Lines written in turn stay apart; ids that look like paths are only ids."""
        store = self.make_store()
        sessions = [_talk(*"abc", id=id) for id in ("s", "t", "../up", "a/b", "S", "é😀", "~007E")]
        for session in sessions:
            store.create(session.header)
        for end in range(3):
            for session in sessions:
                store.append(session.id, end, _lines(session)[end : end + 1])
        for session in sessions:
            store.sync(session.id)
            _same(_read(store, session.id), _lines(session), f"session {session.id!r} has its own lines")

    # -- the expected end ---------------------------------------------------------------------------------------

    def test_only_the_expected_end_is_appended_to(self) -> None:
        """Any other is refused, says how many lines there are, and changes nothing."""
        store, session = self.make_store(), _talk(*"abcd")
        lines = _lines(session)
        store.create(session.header)
        with _refused(AppendConflict, "an append at an end that is not there yet"):
            store.append(session.id, 1, lines[1:2])
        store.append(session.id, 0, lines[:3])
        for wrong in (0, 1, 2, 4, 99):
            with _refused(AppendConflict, f"an append at {wrong} of 3 lines", says="3"):
                store.append(session.id, wrong, lines[3:])
        _same(_read(store, session.id), lines[:3], "a refused append changed nothing")
        _same(store.append(session.id, 3, lines[3:]), 4, "the right end is still appended to")

    def test_taking_over_tells_the_end(self) -> None:
        """``append`` with no lines and no expected end."""
        store, session = self.make_store(), _talk(*"ab")
        store.create(session.header)
        _same(store.append(session.id, None, ()), 0, "a new session has no lines")
        store.append(session.id, 0, _lines(session))
        _same(store.append(session.id, None, ()), 2, "taking over tells how many lines there are")

    def test_what_was_read_never_changes(self) -> None:
        """A reader that is under way meets a writer."""
        store, session = self.make_store(), _talk(*map(str, range(40)))
        lines = _lines(session)
        store.create(session.header)
        store.append(session.id, 0, lines[:20])
        reading = store.read(session.id)
        begun = [next(reading) for _ in range(5)]
        store.append(session.id, 20, lines[20:])
        seen = [*begun, *reading][1:]
        assert len(seen) >= 20, "a reader gets at least what was there when it began"
        _same(seen, lines[: len(seen)], "a reader gets whole lines in order")

    def test_the_lines_are_the_stores_own(self) -> None:
        """What the caller does with its list afterwards changes nothing."""
        store, session = self.make_store(), _talk(*"ab")
        store.create(session.header)
        batch = _lines(session)
        store.append(session.id, 0, batch)
        batch.clear()
        _same(_read(store, session.id), _lines(session), "the store has its own lines")

    # -- keeping ------------------------------------------------------------------------------------------------

    def test_sync_may_come_at_any_time(self) -> None:
        """Before the first line, twice, with something to attest and without."""
        store, session = self.make_store(), _talk(*"ab")
        lines = _lines(session)
        store.create(session.header)
        store.sync(session.id)
        store.append(session.id, 0, lines[:1])
        store.sync(session.id)
        if isinstance(store, AttestingStore):
            store.attest(session.id, b'{"type":"note","seq":1,"text":"x","time":1}\n')
        store.sync(session.id)
        store.append(session.id, 1, lines[1:])
        store.sync(session.id)
        if isinstance(store, AttestingStore):
            store.attest(session.id, b'{"type":"note","seq":2,"text":"y","time":2}\n')
        _same(_read(store, session.id), lines, "what is attested is no part of the log")

    def test_what_was_synced_is_there_for_the_next_one(self) -> None:
        """For stores that keep sessions beyond themselves."""
        store, sessions = self.make_store(), [_talk(*map(str, range(9)), id=f"s{number}") for number in range(3)]
        for session in sessions:
            store.create(session.header)
            store.append(session.id, 0, _lines(session))
            store.sync(session.id)
            _release(store, session.id)
        later = self.reopen(store)
        if later is None:
            return
        for session in sessions:
            _same(_read(later, session.id), _lines(session), "what was synced is kept")
            _same(open_stored(later, session.id).events, session.events, "and is the same log")
            _same(later.append(session.id, None, ()), 9, "and can be taken over")
            _same(later.append(session.id, 9, [_next_line(session)]), 10, "and written on")

    def test_one_writer_at_a_time(self) -> None:
        """For stores that keep sessions beyond themselves: two objects, one session."""
        store, session = self.make_store(), _talk(*"abc")
        lines = _lines(session)
        store.create(session.header)
        store.append(session.id, 0, lines[:1])
        store.sync(session.id)
        other = self.reopen(store)
        if other is None:
            return
        with _refused((SessionLocked, AppendConflict), "a second writer while the first one writes"):
            other.append(session.id, 1, [lines[1].replace(b"b", b"B")])
            store.append(session.id, 1, lines[1:2])
        _release(store, session.id)
        end = other.append(session.id, None, ())
        other.append(session.id, end, lines[end:])
        _same(open_stored(other, session.id).surface, (0, 1, 2), "the histories of two writers never mix")

    # -- live sessions ------------------------------------------------------------------------------------------

    def test_a_live_session_is_kept_and_goes_on(self) -> None:
        """What agents do: create, append, wait, release, resume, fork."""
        asyncio.run(self._live())

    async def _live(self) -> None:
        store = self.make_store()
        async with LiveStore(store) as live:
            session = await live.create(cwd="/live", id="live")
            session.append(TurnStart(turn=1))
            session.append(StepStart(turn=1, step=1))
            for number in range(50):
                session.append(AssistantChunk(turn=1, step=1, chunk=TextDelta(0, f"{number} ")))
            _same((await session.durable()).length, 52, "durable tells how far")
            _same(open_stored(store, "live").events, session.events, "what is durable is stored")
            session.append(AssistantChunk(turn=1, step=1, chunk=TextDelta(0, "last")))
            await live.release(session)
            stored = open_stored(store, "live").events
            _same(stored, session.events, "releasing writes the rest")
            resumed = await live.resume("live")
            _same(resumed.events[:53], stored, "resuming changes nothing that was stored")
            assert not resumed.owed(), "resuming closes what was open"
            child = resumed.fork(2, id="child")
            live.keep(child)
            await child.durable()
            _same(open_stored(store, "child").events, child.events, "a fork is stored from its first event on")
            _same(open_stored(store, "live").events, resumed.events, "and its parent is not changed")


_TEXTS = ("", "plain", "é😀", "\u2028\u2029\x85\x0b", "a\nb\r\nc", "\0\x1f\x7f", '"\\', "\ufeff", "x" * 70_000)


def _talk(*texts: str, id: str = "s", cwd: str | None = None) -> Session:
    """A session of one user message per text, always the same."""
    header = SessionHeader(version=0, id=id, created_at=1, cwd=cwd)
    session = Session(header=header, clock=itertools.count(1000).__next__)
    for number, text in enumerate(texts):
        session.append(UserMessage(content=(TextBlock(text),), source=UserSource(), id=f"m{number}"))
    return session


def _lines(session: Session) -> list[bytes]:
    return [event.line() for event in session.events]


def _next_line(session: Session) -> bytes:
    """One more line for a session that has gone on elsewhere."""
    event = session.append(UserMessage(content=(TextBlock("on"),), source=UserSource(), id="on"))
    return event.line()


def _read(store: Store, session_id: str) -> list[bytes]:
    """The log lines, without the header."""
    return list(store.read(session_id))[1:]


def _same(found: object, wanted: object, rule: str) -> None:
    assert found == wanted, f"{rule}; found {_short(found)}, wanted {_short(wanted)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 400 else f"{text[:200]} … {text[-200:]}"


@contextmanager
def _refused(kind: type[StoreError] | tuple[type[StoreError], ...], what: str, *, says: str = "") -> Iterator[None]:
    """The block must raise *kind*, with *says* in its message."""
    try:
        yield
    except kind as error:
        told = str(error)
    else:
        names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        raise AssertionError(f"{what} must raise {names}; nothing was raised")
    assert says in told, f"{what}: the message must say {says!r}, it says {told!r}"


def _release(store: Store, session_id: str) -> None:
    """Stores with locks have a ``release``; others need none."""
    release: Callable[[str], None] | None = getattr(store, "release", None)
    if release is not None:
        release(session_id)
