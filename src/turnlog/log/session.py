"""`Session`: one append-only, typed log.

One way in (`append`), one way out (a projection). Nothing goes back and edits.

An append runs in this order and stops at the first fault, leaving the log unchanged: thread, lossless snapshot of the
payload, re-entrancy, surface, shape, grammar; then the event is committed and subscribers are told, each contained.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

from msgspec import UNSET, UnsetType

from turnlog.events import (
    LogPayload,
    ModelInput,
    Payload,
    PluginSource,
    SurfacePayload,
    UserMessage,
    Vocabulary,
)
from turnlog.events.lossless import MAX_SAFE
from turnlog.events.shapes import first_fault
from turnlog.events.value import new_id

from .door import Door, Waiting
from .durability import Durability, Durable, Volatile
from .errors import (
    AppendError,
    ForkError,
    GrammarError,
    ReadOnlySession,
    Reentrant,
    ReservedEvent,
    ShapeError,
    SurfaceError,
    WrongThread,
)
from .event import AnyEvent, Replace, SessionEvent, event_class
from .grammar import Grammar
from .header import FORMAT, SessionHeader
from .lineage import check_whole, inherit, settle
from .proof import ProofKeeper, RequestProof
from .record import Record
from .redaction import Redactor, redacting
from .rows import Events, Rows
from .subscription import BATCH, Subscription
from .surface import Plan, Surface, check_rewrite, check_shadowed, check_sources

P = TypeVar("P", bound=Payload)
LogT = TypeVar("LogT", bound=LogPayload)
SurfaceT = TypeVar("SurfaceT", bound=SurfacePayload)
InputT = TypeVar("InputT", bound=ModelInput)


Operation: TypeAlias = Literal["append"] | Replace | UnsetType
Cited: TypeAlias = tuple[int, ...] | UnsetType
Prepared: TypeAlias = tuple[bytes, Payload, Plan | None, Operation, Cited]

_current_thread: Final = threading.get_ident


def epoch_ms() -> int:
    """The wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Session(Record):
    """An append-only log of typed events; belongs to the thread that made it.

    ``Session()`` is a new, empty, in-memory log. ``turnlog.load(path)`` gives a stored one, read-only.
    """

    def __init__(
        self,
        id: str | None = None,
        *,
        cwd: str | None = None,
        vocabulary: Vocabulary = Vocabulary.core,
        clock: Callable[[], int] = epoch_ms,
        header: SessionHeader | None = None,
        redact: Redactor | None = None,
    ) -> None:
        """A new log. *clock* gives epoch ms. Raises ``ValueError`` for a header that no reader would accept.

        *redact* takes secrets out of every payload before it is committed; what it took is nowhere in the log, and the
        model does not see it either. Forks redact as their parent does.
        """
        if header is None:
            header = SessionHeader(
                version=FORMAT, id=f"session-{new_id()}" if id is None else id, created_at=clock(), cwd=cwd
            )
        elif id is not None and id != header.id:
            raise ValueError(f"session {id!r}: its header says {header.id!r}; pass one of them")
        if fault := header.fault():
            raise ValueError(f"session {header.id!r}: {fault}")
        super().__init__(header, vocabulary, Rows(event_class(vocabulary.codec)), Surface())
        self._grammar: Grammar | None = Grammar()
        self._start(clock, redact)

    def _start(self, clock: Callable[[], int], redact: Redactor | None = None) -> None:
        self._clock = clock
        self._redact = redact
        self._snapshot = self.vocabulary.snapshot if redact is None else redacting(self.vocabulary, redact)
        self._plugins = self.vocabulary.plugins
        self._subscriptions: tuple[Subscription, ...] = ()
        self._publishing = False
        self._damage: str | None = None
        self._owner = threading.current_thread()
        self._thread = _current_thread()
        self._door = Door()
        self._durability: Durability | None = None
        self._proofs: ProofKeeper | None = None

    @classmethod
    def stored(
        cls,
        header: SessionHeader,
        rows: Rows,
        surface: Surface,
        *,
        vocabulary: Vocabulary,
        read_only: str,
        closes: bool,
        damage: str | None = None,
    ) -> Session:
        """A session over rows that a store has read and checked; for stores. *closes*: its writer is gone, so views
        that people and models read get :attr:`closers`. *damage*: why the log is not whole, if it is not."""
        session = cls.__new__(cls)
        Record.__init__(session, header, vocabulary, rows, surface)
        session._grammar = None
        session._start(epoch_ms)
        session._read_only = read_only
        session._damage = damage
        session._closes = closes
        return session

    # -- forks --------------------------------------------------------------------------------------------------

    def fork(self, at: int | None = None, *, id: str | None = None) -> Session:
        """A new session that inherits the first *at* events (all, if None) and goes on from there.

        Its log is the prefix, then ``session/end-seed``, then closers for what the cut left open. The parent is not
        changed. Raises :class:`ForkError` for a boundary the log does not have, and for a log that is damaged, holds
        required events nobody here knows, or is not format 0.
        """
        check_whole(self, "forked")
        length = self._rows.length if at is None else at
        if type(length) is not int or not 0 <= length <= self._rows.length:
            raise ForkError(f"session {self.id} cannot be forked at {length!r}; it has {self._rows.length} events")
        header = SessionHeader(
            version=FORMAT,
            id=f"session-{new_id()}" if id is None else id,
            created_at=self._clock(),
            cwd=self.header.cwd,
            parent_session=self.id,
            seed_length=length,
        )
        child = Session(vocabulary=self.vocabulary, clock=self._clock, header=header, redact=self._redact)
        inherit(child, self, length)
        settle(child, marker_first=True)
        return child

    @classmethod
    def resumed(
        cls, stored: Session, *, clock: Callable[[], int] = epoch_ms, redact: Redactor | None = None
    ) -> Session:
        """A live session that goes on with a stored log, for stores; :meth:`settle` it once it is kept.

        Raises :class:`ForkError` as :meth:`fork` does.
        """
        check_whole(stored, "resumed")
        session = cls(vocabulary=stored.vocabulary, clock=clock, header=stored.header, redact=redact)
        inherit(session, stored, len(stored))
        return session

    def settle(self) -> None:
        """Append what an ended lifecycle leaves to do: closers, then ``session/end-seed``; nothing if it is done."""
        settle(self, marker_first=False)

    # -- writing ------------------------------------------------------------------------------------------------

    @overload
    def append(
        self, payload: SurfaceT, *, replaces: tuple[int, int] | None = None, sources: Sequence[int] | None = None
    ) -> SessionEvent[SurfaceT]: ...
    @overload
    def append(self, payload: LogT) -> SessionEvent[LogT]: ...
    def append(
        self, payload: P, *, replaces: tuple[int, int] | None = None, sources: Sequence[int] | None = None
    ) -> SessionEvent[P]:
        """Commit one event and return it.

        *replaces*: the inclusive range of surface events (first and last seq) whose place it takes; *sources* must
        then name each of them. *sources*: the seqs it rests on; None is unknown, ``()`` a known empty stream. Both are
        for surface payloads only.

        Raises ``LosslessError``, ``UnknownEventType`` or an :class:`AppendError`; then the log is unchanged.
        """
        if _current_thread() != self._thread:
            raise self._wrong_thread()
        if self._door:
            self.run_pending()
        if not getattr(payload, "appendable", None):
            raise _reserved(payload)
        raw, data, plan, op, cited = self._prepare(payload, replaces, sources)
        return self._commit(raw, data, plan, op, cited)  # type: ignore[return-value]

    def append_input(self, payload: InputT) -> tuple[SessionEvent[InputT], SessionEvent[UserMessage]]:
        """Commit a fact and the user message it shows the model, which cites it: both or neither."""
        if _current_thread() != self._thread:
            raise self._wrong_thread()
        if self._door:
            self.run_pending()
        if not isinstance(payload, ModelInput):
            raise TypeError(f"append_input takes a ModelInput, not {type(payload).__name__}; use append")
        blocks = payload.render()
        if type(blocks) is not tuple:
            raise TypeError(f"{payload.event_type}: render() gave {type(blocks).__name__}, not a tuple of blocks")
        source = PluginSource(plugin=payload.event_type.split("/")[0])
        raw, data = self._snapshot(UserMessage.of(*blocks, source=source))
        if fault := first_fault(data):
            raise ShapeError(f"user/message rendered by {payload.event_type}: {fault}")
        fact = self._prepare(payload, None, None)
        time = self._now()
        event = self._commit(*fact, time=time, publish=False)
        shown = self._commit(raw, data, Plan(event.seq + 1), "append", (event.seq,), time=time, publish=False)
        self._publish((event, shown))
        return event, shown  # type: ignore[return-value]

    def _prepare(self, payload: Payload, replaces: tuple[int, int] | None, sources: Sequence[int] | None) -> Prepared:
        """Everything that can fail. Changes nothing."""
        raw, data = self._snapshot(payload)
        if self._publishing:
            raise Reentrant(
                f"session {self.id}: {payload.event_type} appended from inside a subscriber; subscribers "
                "see committed events, use call_soon to append after them"
            )
        if self._read_only is not None:
            raise ReadOnlySession(f"session {self.id}: {self._read_only}")
        seq = self._rows.length
        plan: Plan | None = None
        op: Operation = UNSET
        cited: Cited = UNSET
        if payload.surface:
            plan, op, cited = self._place(seq, data, raw, replaces, sources)
        elif replaces is not None or sources is not None:
            raise SurfaceError(
                "surface-eligible",
                f"{payload.event_type} @{seq} is log-only: it can neither replace "
                "surface events nor cite sources; put the seqs into its payload",
            )
        fault = first_fault(data)
        if fault is not None:
            raise ShapeError(f"{payload.event_type} @{seq}: {fault}")
        grammar = self._grammar
        assert grammar is not None
        fault = grammar.fault(data, replaces=replaces is not None)
        if fault is not None:
            raise GrammarError(f"{payload.event_type} @{seq}: {fault}")
        return raw, data, plan, op, cited

    def _place(
        self, seq: int, data: Payload, raw: bytes, replaces: tuple[int, int] | None, sources: Sequence[int] | None
    ) -> tuple[Plan, Operation, Cited]:
        cited: Cited = UNSET
        if sources is not None:
            if not isinstance(sources, Sequence) or isinstance(sources, str | bytes):
                raise SurfaceError(
                    "sources-type",
                    f"{data.event_type} @{seq}: sources is {sources!r:.60}, not a list of seqs; their order is kept",
                )
            cited = tuple(sources)
            check_sources(seq, data.event_type, cited)
        if replaces is None:
            return Plan(seq), "append", cited
        if not isinstance(replaces, tuple | list) or list(map(type, replaces)) != [int, int]:
            raise SurfaceError(
                "marker",
                f"{data.event_type} @{seq}: replaces takes (first seq, last seq), two integers, not {replaces!r}",
            )
        start, end = replaces
        op = Replace("replace", start, end)
        plan, shadowed = self._surface.plan_replace(seq, op)
        check_shadowed(seq, shadowed, sources)
        if data.event_type == "tool/result":
            old = self._rows.at(shadowed[0])
            check_rewrite(seq, shadowed, old, raw)
        return plan, op, cited

    def _commit(
        self,
        raw: bytes,
        data: Payload,
        plan: Plan | None,
        op: Operation,
        cited: Cited,
        *,
        time: int | None = None,
        publish: bool = True,
    ) -> AnyEvent:
        """Only the clock can fail here, before anything is changed; then the event is in the log, and it is told."""
        name = data.event_type
        ignorable: bool | UnsetType = True if name in self._plugins else UNSET
        when = self._clock() if time is None else time
        if type(when) is not int or not -MAX_SAFE <= when <= MAX_SAFE:
            raise self._bad_clock(when)
        event = self._kind(name, self._rows.length, when, raw, op, cited, ignorable, data)
        self._rows.add(event)
        if plan is not None:
            self._surface.apply(plan)
        self._grammar.advance(data, replaces=plan is not None and plan.span is not None)  # type: ignore[union-attr]
        if publish and self._subscriptions:
            self._publish((event,))
        return event

    def _now(self) -> int:
        when = self._clock()
        if type(when) is not int or not -MAX_SAFE <= when <= MAX_SAFE:
            raise self._bad_clock(when)
        return when

    def _bad_clock(self, when: object) -> AppendError:
        return AppendError(
            f"session {self.id}: its clock says {when!r}; it has to give epoch milliseconds, an int within ±(2**53 - 1)"
        )

    # -- telling ------------------------------------------------------------------------------------------------

    @overload
    def subscribe(
        self, listener: Callable[[AnyEvent], object], *, from_seq: int | None = None, batches: Literal[False] = False
    ) -> Subscription: ...
    @overload
    def subscribe(
        self, listener: Callable[[Sequence[AnyEvent]], object], *, from_seq: int | None = None, batches: Literal[True]
    ) -> Subscription: ...
    def subscribe(
        self, listener: Callable[[Any], object], *, from_seq: int | None = None, batches: bool = False
    ) -> Subscription:
        """Tell *listener* every event committed from now on, or from *from_seq* on, each once and in order.

        With *batches* it gets sequences of events instead of single ones. History is delivered before this returns.
        What a listener raises is logged and counted, and the others still hear the event; appending from inside one
        raises :class:`Reentrant`.
        """
        if _current_thread() != self._thread:
            raise self._wrong_thread()
        if from_seq is not None and from_seq < 0:
            raise ValueError(f"from_seq is {from_seq}; a seq is 0 or more")
        subscription = Subscription(self, listener, batches, from_seq or 0)
        if from_seq is not None:
            self._replay_to(subscription, max(from_seq, self._rows.base))
        self._subscriptions = (*self._subscriptions, subscription)
        return subscription

    def _replay_to(self, subscription: Subscription, start: int) -> None:
        length = self._rows.length  # nothing can be appended meanwhile: appends from a listener are refused
        for first in range(start, length, BATCH):
            self._telling((subscription,), Events(self._rows, first, min(first + BATCH, length)))

    def _publish(self, events: Sequence[AnyEvent]) -> None:
        if self._subscriptions:
            self._telling(self._subscriptions, events)

    def _telling(self, subscriptions: Sequence[Subscription], events: Sequence[AnyEvent]) -> None:
        outer, self._publishing = self._publishing, True
        try:
            for subscription in subscriptions:
                subscription.deliver(events)
        finally:
            self._publishing = outer

    def _unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)

    # -- other threads, durability ------------------------------------------------------------------------------

    def call_soon(
        self, payload: Payload, *, replaces: tuple[int, int] | None = None, sources: Sequence[int] | None = None
    ) -> Future[AnyEvent]:
        """Append from any thread: the event is committed by the session's own thread, at its next append or
        :meth:`run_pending`. The future gives the event or the error; cancelling it before then drops the payload."""
        future: Future[AnyEvent] = Future()
        try:
            taken = self._snapshot(payload)[1] if payload.appendable else payload
        except ValueError as error:
            future.set_exception(error)
            return future
        cited = tuple(sources) if isinstance(sources, list) else sources  # a list could change until then
        self._door.put(Waiting(future, taken, replaces, cited))
        return future

    def on_pending(self, wake: Callable[[], object] | None) -> None:
        """Have *wake* called, from the calling thread, whenever ``call_soon`` queued something: a host with an event
        loop passes ``lambda: loop.call_soon_threadsafe(session.run_pending)``."""
        self._door.wake = wake

    def run_pending(self) -> int:
        """Commit what ``call_soon`` queued, in order; gives how many. Only from the session's own thread."""
        if _current_thread() != self._thread:
            raise self._wrong_thread()
        done = 0
        while not self._publishing and (waiting := self._door.take()) is not None:
            try:
                if not waiting.payload.appendable:
                    raise _reserved(waiting.payload)
                event = self._commit(*self._prepare(waiting.payload, waiting.replaces, waiting.sources))
            except Exception as error:  # the caller's error belongs to the caller's future
                waiting.future.set_exception(error)
            else:
                waiting.future.set_result(event)
            done += 1
        return done

    def attach(self, durability: Durability, proofs: ProofKeeper | None = None) -> None:
        """For stores: take over keeping this session, and the proofs of what its model was shown."""
        self._durability = durability
        self._proofs = proofs

    def attest(self, proof: RequestProof) -> None:
        """Have *proof* kept beside the log; without a store nothing keeps it."""
        if self._proofs is not None:
            self._proofs.keep_proof(proof)

    def note(self, text: str) -> None:
        """Have a remark about what happened kept beside the log, where it is no event; without a store nothing does."""
        if self._proofs is not None:
            self._proofs.keep_note(text)

    async def durable(self) -> Durable | Volatile:
        """Wait until everything logged so far survives power loss. Without a store: :class:`Volatile`, at once.

        Cancelling the wait leaves the writing to go on.
        """
        if self._durability is None:
            return Volatile(self._rows.length)
        return await self._durability.durable(self._rows.length)

    def _wrong_thread(self) -> WrongThread:
        return WrongThread(
            f"session {self.id} belongs to thread {self._owner.name!r}, used from "
            f"{threading.current_thread().name!r}; use session.call_soon(payload)"
        )


def _reserved(payload: object) -> Exception:
    if not isinstance(payload, Payload):
        return TypeError(f"append takes a payload, for example TurnStart(turn=1), not {type(payload).__name__}")
    if isinstance(payload, ModelInput):
        return ReservedEvent(
            f"{payload.event_type} is shown to the model; use append_input, which logs the fact and "
            "the message it renders to"
        )
    return ReservedEvent("session/end-seed is written by the session itself when it is forked or resumed")
